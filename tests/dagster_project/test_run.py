"""`hesper` on the toy project: what runs, what doesn't, what is said, and the one id."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from assets.errors import ParameterError
from assets.reporting import connect
from assets.stage import directory_id
from dagster_project import tracking
from dagster_project.history import read_ancestry, resolve
from dagster_project.history import status as asset_status
from dagster_project.launch import open_instance
from dagster_project.materialise import Project
from tests.toy import clean_environment, hesper, make_toy, recorded_hashes

ADDRESSES = ["first", "second", "split@red", "split@blue", "joined"]


@pytest.fixture
def copy(toy_project: Path, tmp_path: Path) -> Path:
    """A copy of the toy project after its run, to do something to."""
    root = tmp_path / "project"
    shutil.copytree(toy_project, root, symlinks=True)
    return root


def status(root: Path, **environment: str) -> dict[str, dict]:
    return {
        item["asset"] + (f"@{item['partition']}" if item["partition"] else ""): item
        for item in json.loads(hesper(root, "status", "--json", **environment).stdout)
    }


def test_every_asset_has_one_id(toy_project: Path) -> None:
    items = status(toy_project)
    assert list(items) == ADDRESSES
    for item in items.values():
        assert item["state"] == "fresh"
        assert re.fullmatch(r"[0-9a-f]{32}\.dir", item["dvc_id"])
        assert item["dvc_id"] == item["data_version"] == item["dataset_digest"]
        assert item["dvc_id"] == directory_id(toy_project / item["path"])


def test_mlflow_is_asked_again_only_when_its_database_was_written_to(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect.cache_clear()
    project, instance = Project.open(copy), open_instance(copy)
    first = asset_status(project, instance, ["second", "split"])
    assert {item.dataset_digest == item.dvc_id for item in first} == {True}
    with monkeypatch.context() as patch:
        for question in ("find_run", "read_runs", "connect"):
            patch.setattr(tracking, question, lambda *_: pytest.fail("MLflow was asked"))
        assert asset_status(project, instance, ["second", "split"]) == first
    deleted = first[0].mlflow_run
    connect(copy).delete_run(deleted)
    second, *split = asset_status(project, instance, ["second", "split"])
    assert (second.mlflow_run, second.dataset_digest) == (None, None)
    assert split == first[1:]


def test_second_run_runs_nothing(toy_project: Path) -> None:
    before = recorded_hashes(toy_project)
    lines = hesper(toy_project, "run").stdout.splitlines()
    assert [line.split()[:2] for line in lines[: len(ADDRESSES)]] == [[name, "cached"] for name in ADDRESSES]
    assert recorded_hashes(toy_project) == before


def test_dvc_repro_gives_the_same_hashes(toy_project: Path, tmp_path: Path) -> None:
    root = make_toy(tmp_path / "project")
    command = [sys.executable, "-m", "dvc", "repro", "-q"]
    environment = {**clean_environment(), "HESPER_TRACKING": "off"}
    subprocess.run(command, cwd=root, check=True, env=environment)
    assert (root / "dvc.lock").read_text() == (toy_project / "dvc.lock").read_text()


def test_only_what_changed_is_run_and_only_named_stages(copy: Path) -> None:
    params = copy / "params.yaml"
    params.write_text(params.read_text().replace("split: {rows: 2}", "split: {rows: 5}"))
    states = {name: item["state"] for name, item in status(copy).items()}
    assert states == {
        "first": "fresh", "second": "fresh", "split@red": "stale", "split@blue": "stale", "joined": "fresh"
    }  # fmt: skip  # the outputs it was made from are still there
    done = hesper(copy, "run", "split@red").stdout
    assert re.findall(r"^(\S+) +(ran|cached) ", done, re.M) == [
        ("first", "cached"),
        ("second", "cached"),
        ("split@red", "ran"),
    ]
    states = {name: item["state"] for name, item in status(copy).items()}
    assert states["split@red"] == "fresh"
    assert states["split@blue"] == "stale"
    assert states["joined"] == "stale"


def test_trace_knows_ancestors_and_descendants(toy_project: Path) -> None:
    items = status(toy_project)
    told = hesper(toy_project, "trace", "split@red").stdout
    for name in ("first", "second", "split@red", "joined"):
        assert items[name]["dvc_id"] in told
        assert items[name]["mlflow_run"] in told
    assert items["split@blue"]["dvc_id"] not in told


def test_a_version_has_many_names(toy_project: Path) -> None:
    connect.cache_clear()
    project = Project.open(toy_project)
    ancestry = read_ancestry(project)
    identity = project.versions.output("split@red").id
    assert identity is not None
    for name in ("split@red", identity, identity[:8], ancestry.runs[identity][0], "models/split/red"):
        assert resolve(project, ancestry, name) == identity
    for name, message in (("split", "has partitions"), ("nothing", "no id, asset"), ("", "no id, asset")):
        with pytest.raises(ParameterError, match=message):
            resolve(project, ancestry, name)
    (second,) = ancestry.parents[identity]
    assert ancestry.name[second] == "data/second"
    assert {ancestry.name[child] for child in ancestry.children(second)} == {"models/split/red", "models/split/blue"}


def test_reproduce_compares_bytes(copy: Path) -> None:
    assert hesper(copy, "reproduce", "second").stdout.strip().endswith("same")
    module = copy / "assets" / "links" / "first.py"
    module.write_text(module.read_text() + "\n# changed\n")
    done = hesper(copy, "reproduce", "first", check=False)
    assert done.returncode == 6
    assert "assets/links changed" in done.stderr


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        ("broken", 7, "error: first: the toy machine is on fire"),
        ("bug", 1, "error: first: first: KeyError: 'nobody thought of this'"),
        ("killed", 137, "error: first: first was ended by signal SIGKILL; the system may be out of memory"),
    ],
)
def test_a_failing_stage_gives_one_message_and_its_exit_code(
    tmp_path: Path, mode: str, code: int, message: str
) -> None:
    root = make_toy(tmp_path / "project", first_mode=mode)
    done = hesper(root, "run", check=False, HESPER_TRACKING="off")
    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == message
    if mode == "broken":
        assert done.stderr.count("on fire") == 1
    assert "second " not in done.stdout
    assert not (root / "dvc.lock").exists()
    items = status(root, HESPER_TRACKING="off")
    assert items["first"]["state"] == "failed"
    assert items["first"]["why"] in message
    assert items["second"]["state"] == "missing"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("mode: good", "moode: good", "params.yaml: first.moode: no such parameter; did you mean 'mode'?"),
        ("rows: 4", "rows: many", "params.yaml: first.rows: "),
        ("second:", "secnd:", "section 'secnd' belongs to nothing"),
        ("seed: 3", "seed: [", "params.yaml is not valid YAML"),
    ],
)
def test_wrong_parameters_stop_the_run_before_it_starts(copy: Path, before: str, after: str, message: str) -> None:
    params = copy / "params.yaml"
    params.write_text(params.read_text().replace(before, after))
    done = hesper(copy, "run", check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_stage_names_the_right_one(toy_project: Path) -> None:
    done = hesper(toy_project, "run", "secnd", check=False)
    assert done.returncode == 2
    assert done.stderr == "error: no stage 'secnd' in dvc.yaml; did you mean 'second'?\n"


def test_a_locked_mlflow_database_is_one_message(tmp_path: Path) -> None:
    root = make_toy(tmp_path / "project")
    hesper(root, "run", "first")
    (root / "params.yaml").write_text((root / "params.yaml").read_text().replace("rows: 4", "rows: 6"))
    lock = sqlite3.connect(root / ".hesper" / "mlflow" / "mlflow.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    try:
        done = hesper(root, "run", "first", check=False)
    finally:
        lock.close()
    assert done.returncode == 5
    assert "locked" in done.stderr
    assert "Traceback" not in done.stderr


def test_who_waits_for_another_run_says_so(copy: Path) -> None:
    command = [sys.executable, "-m", "dagster_project.cli", "run", "first"]
    with FileLock(copy / ".hesper" / "locks" / "materialise-first") as lock:
        waiting = subprocess.Popen(command, cwd=copy, env=clean_environment(), stderr=subprocess.PIPE, text=True)
        assert waiting.stderr is not None
        assert any("first: another run is at it" in line for line in waiting.stderr)
        assert waiting.poll() is None
        lock.release()
        assert waiting.wait(60) == 0
        waiting.stderr.close()


@pytest.mark.parametrize(("option", "message"), [("size=200k", "the disk is full"), ("ro", "the disk is read-only")])
def test_a_full_or_read_only_disk_is_one_message(tmp_path: Path, option: str, message: str) -> None:
    root = make_toy(tmp_path / "project")
    (root / ".hesper").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", option, "tmpfs", str(root / ".hesper")]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        done = hesper(root, "run", check=False)
    finally:
        subprocess.run(["umount", "-l", str(root / ".hesper")], check=True)
    assert done.returncode == 4
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_that_fills_up_while_a_stage_writes_is_one_message(tmp_path: Path) -> None:
    root = make_toy(tmp_path / "project", first_mode="large")
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(root / "data")]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        done = hesper(root, "run", "first", check=False, HESPER_TRACKING="off")
    finally:
        subprocess.run(["umount", "-l", str(root / "data")], check=True)
    assert done.returncode == 4
    assert "the disk is full" in done.stderr.splitlines()[-1]


def test_profile_is_put_in_place_and_restored(copy: Path) -> None:
    old = (copy / "params.yaml").read_text()
    (copy / "infra" / "profiles").mkdir()
    (copy / "infra" / "profiles" / "big.yaml").write_text(old.replace("rows: 4", "rows: 9"))
    assert hesper(copy, "profile").stdout == "big\n"
    hesper(copy, "profile", "big")
    assert "rows: 9" in (copy / "params.yaml").read_text()
    hesper(copy, "profile", "--restore")
    assert (copy / "params.yaml").read_text() == old
    assert hesper(copy, "run", "--profile", "huge", check=False).returncode == 2


def test_a_stage_dies_with_its_launcher(tmp_path: Path) -> None:
    import psutil

    root = make_toy(tmp_path / "project", first_pause=60)
    command = [sys.executable, "-m", "dagster_project.cli", "run"]
    launcher = subprocess.Popen(command, cwd=root, env={**clean_environment(), "HESPER_TRACKING": "off"}, stdout=-3)
    deadline = time.monotonic() + 120
    stage: list[psutil.Process] = []
    while not stage and time.monotonic() < deadline:
        with contextlib.suppress(psutil.NoSuchProcess):
            stage = [p for p in psutil.Process(launcher.pid).children(True) if "assets" in p.cmdline()]
        time.sleep(0.1)
    while not (root / "data" / "first.partial").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    launcher.kill()
    launcher.wait()
    gone, alive = psutil.wait_procs(stage, 5)
    assert gone
    assert not alive


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_with_its_stage_and_the_next_one_goes_on(tmp_path: Path, number: int) -> None:
    root = make_toy(tmp_path / "project", first_pause=60.0)
    command = [sys.executable, "-m", "dagster_project.cli", "run"]
    process = subprocess.Popen(command, cwd=root, env=clean_environment(), stderr=subprocess.PIPE, text=True)
    stage = _wait_for_child(process.pid, "assets first")
    _wait_until(lambda: (root / "data" / "first.partial").exists())
    time.sleep(1.0)  # until it has opened its Pipes and works
    process.send_signal(number)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "first: interrupted" in said
    assert "Traceback" not in said
    assert not psutil.pid_exists(stage)
    (root / "params.yaml").write_text((root / "params.yaml").read_text().replace("pause: 60.0", "pause: 0.0"))
    hesper(root, "run")


def _wait_for_child(parent: int, command: str) -> int:
    """The process that a run has started for a stage."""
    found: list[int] = []

    def started() -> bool:
        for child in psutil.Process(parent).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if command in " ".join(child.cmdline()):
                    found.append(child.pid)
        return bool(found)

    _wait_until(started)
    return found[0]


def _wait_until(done: Callable[[], bool], seconds: float = 240.0) -> None:
    """On a busy machine a run takes a minute to begin."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not begin"
        time.sleep(0.1)
