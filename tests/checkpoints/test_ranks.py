"""Ranks: together they compute what one process computes, and none outlives the others."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assets.checkpoints import ranks
from assets.checkpoints.ranks import Ranks
from assets.errors import InfrastructureError, InputError
from assets.stage import execute
from tests.checkpoints.micro_project import DISTILLATION, RL, write_params
from tests.checkpoints.small_project import PARAMS, assert_trained_alike, command, digest, run, surroundings


@given(
    st.lists(st.floats(0, 100, allow_nan=False, allow_subnormal=False)),
    st.integers(1, 5),
)
def test_shares_are_a_fair_partition_in_order(costs: list[float], count: int) -> None:
    places = list(range(len(costs)))
    shares = [
        Ranks(rank, count).share(places, lambda place: costs[place], lambda place: -place) for rank in range(count)
    ]
    assert sorted(place for share in shares for place in share) == places
    assert all(share == sorted(share) for share in shares)
    assert [place for share in reversed(shares) for place in share] == places  # what is alike stays together
    loads = [sum(costs[place] for place in share) for share in shares]
    assert max(loads) - min(loads) <= 2 * max(costs, default=0.0) + 1e-6


def test_one_rank_alone_changes_nothing() -> None:
    alone = Ranks()
    assert alone.leads
    assert alone.share([3, 1, 2], float) == [3, 1, 2]
    assert alone.gather([(1, "a")]) == [(1, "a")]
    assert alone.total({"loss": 0.1}) == {"loss": 0.1}


@pytest.fixture(scope="module")
def shared(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same project after two ranks did the mid-training."""
    root = with_ranks(base, tmp_path_factory.mktemp("shared") / "project", 2)
    done = run(root, "midtrained_checkpoint")
    assert done.returncode == 0, done.stderr
    return root


def with_ranks(base: Path, root: Path, count: int, **changes: Any) -> Path:
    """A copy of the project in which so many ranks do the mid-training."""
    shutil.copytree(base, root, symlinks=True, ignore=shutil.ignore_patterns(".hesper"))
    section = PARAMS["midtrained_checkpoint"]
    optimisation = {**section["optimisation"], "ranks": count, **changes}
    params = {**PARAMS, "midtrained_checkpoint": {**section, "optimisation": optimisation}}
    (root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    return root


def test_two_ranks_train_as_one_process_does(base: Path, shared: Path, tmp_path: Path) -> None:
    alone = with_ranks(base, tmp_path / "alone", 1)
    assert run(alone, "midtrained_checkpoint").returncode == 0
    assert_trained_alike(alone / "models/midtrained", shared / "models/midtrained")
    assert not list((shared / ".hesper/work").glob("*/*"))


def test_two_ranks_that_were_killed_end_in_the_bytes_of_two_undisturbed_ones(
    base: Path, shared: Path, tmp_path: Path
) -> None:
    root = with_ranks(base, tmp_path / "killed", 2)
    process = begin(root)
    while not list(root.glob(".hesper/work/*/*/training.safetensors")):
        assert process.poll() is None, "ended before its first checkpoint"
        time.sleep(0.005)
    (other,) = other_ranks(process)
    process.kill()
    process.wait()
    other.wait(timeout=20)  # it ends by itself
    again = run(root, "midtrained_checkpoint")
    assert again.returncode == 0, again.stderr
    assert "continues from step" in again.stderr
    assert digest(root / "models/midtrained") == digest(shared / "models/midtrained")


def test_a_rank_that_dies_is_a_failure_of_the_infrastructure(base: Path, tmp_path: Path) -> None:
    root = with_ranks(base, tmp_path / "project", 2, steps=10_000)
    process = begin(root, stderr=subprocess.PIPE)
    while not list(root.glob(".hesper/work/*/*/training.safetensors")):
        assert process.poll() is None, "ended before its first checkpoint"
        time.sleep(0.005)
    (other,) = other_ranks(process)
    os.kill(other.pid, signal.SIGKILL)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 7
    assert "midtrained_checkpoint: rank 1 was ended by signal 9" in said
    assert not (root / "models/midtrained").exists()


WRITES_WHY = """(folder / '1.json').write_text('{"exit_code": 6, "message": "no such table"}'); sys.exit(6)"""


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        (WRITES_WHY, InputError, "no such table"),
        ("sys.exit(9)", InfrastructureError, "x: rank 1 ended with exit code 9; its own output says why"),
    ],
)
def test_what_another_rank_fails_with_the_stage_fails_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, kind: type[Exception], said: str
) -> None:
    def start(stage: Any, rank: int, folder: Path) -> subprocess.Popen[bytes]:
        text = f"import pathlib, sys; folder = pathlib.Path({str(folder)!r}); {script}"
        return subprocess.Popen([sys.executable, "-c", text])

    monkeypatch.setattr(ranks, "_start", start)
    stage: Any = SimpleNamespace(work=tmp_path, follows=None, entry=SimpleNamespace(address="x"), log=print)
    with pytest.raises(kind, match=said), ranks.together(stage, 2):
        pytest.fail("began without the other rank")
    assert not list(tmp_path.iterdir())


def test_two_ranks_answer_and_learn_in_reinforcement_learning(
    midtrained_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each draws its own answers, so the model differs; what is measured before it is trained does not."""
    monkeypatch.setenv("HESPER_TRACKING", "off")
    figures = []
    for count in (1, 2):
        root = tmp_path / str(count)
        shutil.copytree(midtrained_project, root, symlinks=True)
        write_params(root, rl_checkpoint={**RL, "optimisation": {**RL["optimisation"], "steps": 3, "ranks": count}})
        execute("rl_checkpoint", "grounding", root)
        with (root / "models/rl/grounding/curves.csv").open(encoding="utf-8") as file:
            curve = list(csv.DictReader(file))
        metrics = json.loads((root / "models/rl/grounding/metrics.json").read_text(encoding="utf-8"))
        figures.append((metrics, curve))
    (alone, one), (shared, two) = figures
    assert shared["heldout_accuracy_before"] == alone["heldout_accuracy_before"]
    assert shared["heldout_questions"] == alone["heldout_questions"]
    assert [row["step"] for row in two] == [row["step"] for row in one]
    assert 0 <= float(two[-1]["sampled/accuracy"]) <= 1
    assert two[-1]["sampled/reward"] != one[-1]["sampled/reward"]


def test_two_ranks_score_each_domain_in_distillation(
    taught_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    figures = []
    for count in (1, 2):
        root = tmp_path / str(count)
        shutil.copytree(taught_project, root, symlinks=True)
        optimisation = {**DISTILLATION["optimisation"], "steps": 2, "ranks": count}
        write_params(root, distilled_model={**DISTILLATION, "optimisation": optimisation})
        execute("distilled_model", None, root)
        figures.append(json.loads((root / "models/distilled/metrics.json").read_text(encoding="utf-8")))
    alone, shared = figures
    taught = {name: value for name, value in alone.items() if name.startswith("teacher_")}
    assert len(taught) == 5
    assert taught.items() <= shared.items()


def begin(root: Path, **streams: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("midtrained_checkpoint"), cwd=root, env=surroundings(), **{"stderr": subprocess.DEVNULL, **streams}
    )


def other_ranks(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "assets.checkpoints.ranks" in child.cmdline()
    ]
