"""Processes that play sessions: what comes of one that is killed or hangs, and of the stage above it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from assets.environments.workers import Sessions, spread, sweep
from assets.errors import HesperError, InfrastructureError, ParameterError

PROJECT = Path(__file__).parents[2]
SIZE = (192, 192)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of this test and of all that it starts."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def started_below(folder: Path) -> list[str]:
    """Command lines of the processes whose temporary files lie below a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR", "").startswith(f"{folder}/"):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def wait_until_clean(folder: Path) -> None:
    for _ in range(600):
        if not list(folder.iterdir()) and not started_below(folder):
            return
        time.sleep(0.1)
    pytest.fail(f"left: {list(folder.iterdir())}, {started_below(folder)}")


def double(sessions: Sessions, item: int) -> int:
    if item < 0:
        raise ParameterError(f"{item} is negative")
    if item == 0:
        raise KeyError("nobody thought of this")
    return 2 * item


def kill_oneself_and_the_browser(sessions: Sessions, item: tuple[str, bool]) -> str:
    """Dies with its browser at the first try, or always."""
    place, always = item
    mark = Path(place)
    if mark.exists() and not always:
        return "done"
    mark.touch()
    page = sessions._browser().new_page(*SIZE)
    page.goto("about:blank")
    (Path(tempfile.gettempdir()) / "something").write_text("half a file")
    for child in psutil.Process().children(recursive=True):
        if "chromium" in child.name() or "chrome" in child.name():
            child.kill()
    os.kill(os.getpid(), signal.SIGKILL)
    return "not reached"


def hang(sessions: Sessions, item: int) -> int:
    if item == 1:
        time.sleep(3600)
    return item


def test_results_come_back_with_their_index(temporary: Path) -> None:
    assert dict(spread(range(1, 8), double, SIZE, 2)) == {index: 2 * (index + 1) for index in range(7)}
    wait_until_clean(temporary)


@pytest.mark.parametrize(("item", "kind", "message"), [(-1, ParameterError, "negative"), (0, HesperError, "KeyError")])
def test_what_the_function_raises_is_raised(item: int, kind: type[Exception], message: str, temporary: Path) -> None:
    with pytest.raises(kind, match=message):
        list(spread([1, item, 2], double, SIZE, 1))
    wait_until_clean(temporary)


def test_a_killed_process_is_replaced_and_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    items = [(str(tmp_path / "once"), False), (str(tmp_path / "there"), False)]
    (tmp_path / "there").touch()
    assert dict(spread(items, kill_oneself_and_the_browser, SIZE, 1)) == {0: "done", 1: "done"}
    wait_until_clean(temporary)


def test_an_item_that_kills_every_process_is_given_up(temporary: Path, tmp_path: Path) -> None:
    items = [(str(tmp_path / "always"), True), (str(tmp_path / "there"), False)]
    (tmp_path / "there").touch()
    with pytest.raises(InfrastructureError, match="a process that plays sessions died, 2 times in a row"):
        list(spread(items, kill_oneself_and_the_browser, SIZE, 1))
    found = dict(spread(items, kill_oneself_and_the_browser, SIZE, 1, lost=lambda item, error: f"lost: {error}"))
    assert found == {0: "lost: a process that plays sessions died, 2 times in a row", 1: "done"}
    wait_until_clean(temporary)


def test_a_process_that_hangs_is_ended_in_time(temporary: Path) -> None:
    found = dict(spread([0, 1, 2], hang, SIZE, 1, attempts=1, seconds=20, lost=lambda item, error: str(error)))
    assert found == {0: 0, 1: "a process that plays sessions did not answer in time, 1 times in a row", 2: 2}
    wait_until_clean(temporary)


def test_what_was_killed_with_its_watcher_is_swept_up(temporary: Path) -> None:
    left = temporary / "hesper-worker-left"
    left.mkdir()
    (left / "file").write_text("x")
    orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, "TMPDIR": str(left)})
    sweep()
    assert orphan.wait(10) == -signal.SIGKILL
    assert not left.exists()


PARAMETERS = """
seed: 7
agent: {screen: [192, 192], coordinate_digits: 3, system_prompt: brief, screenshots: 1}
phone: {}
environments: {kinds: [site], scales: [small], screens: {}, most: 2, attempts: 1, actions: 200, waits: 0, seconds: 300,
  least_ink: 0.005, processes: {browsers: 1, displays: 1}, thumbnail: 64}
"""


def test_the_stage_survives_the_murder_of_a_worker_and_its_browser(temporary: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "assets").symlink_to(PROJECT / "assets")
    (root / "dvc.yaml").symlink_to(PROJECT / "dvc.yaml")
    (root / "params.yaml").write_text(PARAMETERS, encoding="utf-8")
    environment = {**os.environ, "HESPER_TRACKING": "off", "PYTHONPATH": str(PROJECT)}
    stage = subprocess.Popen(
        [sys.executable, "-m", "assets", "environments"], cwd=root, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        _murder(psutil.Process(stage.pid))
        assert stage.stderr is not None
        said = stage.stderr.read()
        assert stage.wait(600) == 0, said
    finally:
        stage.kill()
        stage.wait()
    assert "a process that plays sessions died" in said
    metrics = json.loads((root / "data" / "environments" / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["apps"], metrics["broken"], metrics["infrastructure_failures"]) == (3, 1, 1), said
    rows = pq.read_table(root / "data" / "environments" / "apps.parquet").to_pylist()
    assert [row["fault"] for row in rows if row["trouble"]] == ["infrastructure"]
    wait_until_clean(temporary)


def _command(process: psutil.Process) -> list[str]:
    """Its command line; empty for one that has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _murder(stage: psutil.Process) -> None:
    """kill -9 a worker and its browser as soon as the browser is up."""
    for _ in range(3000):
        for child in stage.children():
            below = child.children(recursive=True)
            commands = {process: _command(process) for process in below}
            if any("--type=renderer" in command for command in commands.values()):
                for process in [child, *(other for other, command in commands.items() if "chrom" in " ".join(command))]:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                return
        time.sleep(0.1)
    pytest.fail("no browser was started")
