"""The shared loop: schedules, figures that are not numbers, and a killed run that ends as an undisturbed one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

from assets.checkpoints.deck import Deck, share_out
from assets.checkpoints.training import Optimisation, schedule, train
from assets.errors import TrainingError
from tests.checkpoints.small_project import OPTIMISATION, PARAMS, command, digest, run, surroundings


def settings(**changes: Any) -> Optimisation:
    return Optimisation(**{**OPTIMISATION, **changes})


def test_learning_rate_rises_stays_and_falls():
    shape = [schedule(step, settings(steps=10, warmup=4, decay=0.3)) for step in range(10)]
    assert shape[:4] == [0.25, 0.5, 0.75, 1.0]
    assert shape[4:7] == [1.0, 1.0, 1.0]
    assert shape[7:] == pytest.approx([1.0, 2 / 3, 1 / 3])


def test_learning_rate_may_neither_rise_nor_fall():
    assert {schedule(step, settings(steps=5, warmup=0, decay=0)) for step in range(5)} == {1.0}


class _Seeded:
    """Stands for a stage where only its random generator is asked for."""

    def rng(self, *names: object) -> Any:
        import random

        return random.Random(repr(names))


def test_a_deck_deals_everything_once_an_epoch_and_the_same_at_the_same_place():
    deck = Deck(_Seeded(), "x", list("abcdefg"))  # type: ignore[arg-type]
    dealt = deck.deal(0, 21)
    assert [sorted(dealt[start : start + 7]) for start in (0, 7, 14)] == [list("abcdefg")] * 3
    assert dealt[:7] != dealt[7:14]
    assert deck.deal(5, 6) == dealt[5:11]


def test_places_of_a_step_are_shared_by_weight_without_gap():
    weights = [0.5, 0.3, 0.2]
    ends = [0, 0, 0]
    for step in range(1000):
        for index, (start, count) in enumerate(share_out(step, 7, weights)):
            assert start == ends[index]
            ends[index] = start + count
    assert ends == pytest.approx([3500, 2100, 1400], abs=1)


def test_a_killed_run_ends_in_the_bytes_of_an_undisturbed_one(base: Path, tmp_path: Path):
    """Killed as soon as a checkpoint lies there, started again: weights, curves and pictures are the same bytes."""
    expected = digest(base / "models/base")

    import shutil

    root = tmp_path / "killed"
    shutil.copytree(base, root, symlinks=True, ignore=shutil.ignore_patterns(".hesper"))
    shutil.rmtree(root / "models/base")
    process = subprocess.Popen(command("base_model"), cwd=root, env=surroundings(), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (saved := list(root.glob(".hesper/work/*/*/training.safetensors"))):
        assert process.poll() is None, "ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (root / "models/base").exists()

    from safetensors import safe_open

    with safe_open(saved[0], "pt") as file:
        step = json.loads(file.metadata()["state"])["step"]
    assert step < OPTIMISATION["steps"]
    again = run(root, "base_model")
    assert again.returncode == 0, again.stderr
    assert f"continues from step {step}" in again.stderr
    assert digest(root / "models/base") == expected


def test_a_loss_that_is_no_number_stops_the_stage_with_a_message(base: Path, tmp_path: Path):
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    root = tmp_path / "broken"
    shutil.copytree(base, root, symlinks=True, ignore=shutil.ignore_patterns(".hesper"))
    weights = root / "models/base/model.safetensors"
    tensors = load_file(weights)
    tensors["model.language_model.norm.weight"] = torch.full_like(tensors["model.language_model.norm.weight"], 1e38)
    save_file(tensors, weights, {"format": "pt"})
    done = run(root, "midtrained_checkpoint")
    assert done.returncode == 8
    assert re.search(r"loss[a-z_, ]* is not a number at step 0", done.stderr)
    assert "Traceback" not in done.stderr
    (listed,) = root.glob(".hesper/work/*/*/suspects.json")
    suspects = json.loads(listed.read_text(encoding="utf-8"))
    assert suspects["step"] == 0
    assert suspects["samples"]
    assert suspects["samples"][0] in done.stderr


LIMITS = {"factor": 10.0, "steps": 3, "least_loss": 0.5}


class _Work:
    """Stands for a stage where only the loop's own work is asked for."""

    entry = SimpleNamespace(address="toy")

    def __init__(self, work: Path) -> None:
        self.work = work
        self.said: list[str] = []
        self.series: list[tuple[int, str, float]] = []

    def progress(self, items: Any, *_: object) -> Any:
        return items

    def metric(self, name: str, value: float, step: int) -> None:
        self.series.append((step, name, value))

    def log(self, line: str) -> None:
        self.said.append(line)


def trained(work: Path, losses: list[float], gradients: list[float], **changes: Any) -> tuple[torch.nn.Linear, _Work]:
    """One weight after steps with these losses (none where it is 0) and gradients; a step that is below 0 is killed."""
    module = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(module.weight)

    def compute(step: int) -> dict[str, float]:
        if gradients[step] < 0:
            raise KeyboardInterrupt
        module.weight.grad = torch.full((1, 1), gradients[step])
        return {"loss": losses[step]} if losses[step] else {}

    stage = _Work(work)
    asked = settings(**{"steps": len(losses), "explosion": LIMITS, "checkpoint_every": 1, **changes})
    train(stage, asked, {"m": module}, compute, suspects=lambda: ["one", "two"])  # type: ignore[arg-type]
    return module, stage


@pytest.mark.parametrize(
    ("losses", "gradients", "said"),
    [
        ([2.0, 3.0, 2.5, 2.0, 26.0, 1.0], [1.0] * 6, r"loss explodes \(26, more than 10 times 2\.5\) at step 4"),
        ([0.1] * 4 + [5.1, 0.1], [1.0] * 6, r"loss explodes \(5\.1, more than 10 times 0\.5\) at step 4"),
        ([-2.0] * 4 + [-26.0, 1.0], [1.0] * 6, r"loss explodes \(-26, more than 10 times 2\) at step 4"),
        (
            [0.0] * 6,
            [2.0, 3.0, 2.5, 2.0, 26.0, 1.0],
            r"gradient_norm explodes \(26, more than 10 times 2\.5\) at step 4",
        ),
    ],
)
def test_an_explosion_stops_the_stage_before_the_update(
    tmp_path: Path, losses: list[float], gradients: list[float], said: str
) -> None:
    from safetensors import safe_open

    with pytest.raises(TrainingError, match=said):
        trained(tmp_path, losses, gradients)
    with safe_open(tmp_path / "training.safetensors", "pt") as file:
        assert json.loads(file.metadata()["state"])["step"] == 4
    suspects = json.loads((tmp_path / "suspects.json").read_text(encoding="utf-8"))
    assert suspects == {"step": 4, "figures": [said.split(" ")[0]], "samples": ["one", "two"]}


@pytest.mark.parametrize(
    ("losses", "gradients"),
    [
        ([1.0, 50.0, 1.0, 1.0, 9.0], [1.0] * 5),  # the first steps are not judged, and one of them changes no median
        ([1e-6] * 4 + [4.9], [1.0] * 5),  # noise around 0
        ([1.0] * 5, [1e-6] * 4 + [9.0]),  # what is not clipped, or not much
    ],
)
def test_what_is_no_explosion_goes_on(tmp_path: Path, losses: list[float], gradients: list[float]) -> None:
    _, stage = trained(tmp_path, losses, gradients)
    assert stage.said == []
    assert not (tmp_path / "suspects.json").exists()


def test_a_run_that_was_killed_is_judged_by_the_steps_before(tmp_path: Path) -> None:
    losses = [1.0, 1.0, 1.0, 1.0, 11.0]
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, losses, [1.0, 1.0, 1.0, 1.0, -1.0])
    with pytest.raises(TrainingError, match="loss explodes"):
        trained(tmp_path, losses, [1.0] * 5)


def test_no_limit_is_said(tmp_path: Path) -> None:
    _, stage = trained(tmp_path, [1.0] * 4 + [1e9], [1.0] * 5, explosion=None)
    assert [line for line in stage.said if "explosion is null" in line]


def test_a_mix_of_unknown_domains_is_named(base: Path, tmp_path: Path):
    import shutil

    root = tmp_path / "mix"
    shutil.copytree(base, root, symlinks=True, ignore=shutil.ignore_patterns(".hesper"))
    params = {**PARAMS, "midtrained_checkpoint": {**PARAMS["midtrained_checkpoint"], "mix": {"tablet": 1.0}}}
    (root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    done = run(root, "midtrained_checkpoint")
    assert done.returncode == 2
    assert "no domain 'tablet'" in done.stderr
