"""Sharded training is training: the same curves and weights as one process, killed or not, on however many ranks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkpoints.micro_project import DISTILLATION, RL, write_params
from tests.checkpoints.small_project import PARAMS, ROOT, assert_trained_alike, digest, surroundings, write_project

pytestmark = pytest.mark.skipif(find_spec("deepspeed") is None, reason="the extra `gpu` is not installed")


class Forked:
    """The processes of `forked_stages`."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.checkpoints.forked_stages"],
            cwd=ROOT,
            env=surroundings(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, root: Path, *arguments: str, **job: Any) -> int:
        """Start a stage of a project, or another job; its process."""
        assert self._server.stdin is not None
        record = {"root": str(root), "arguments": arguments, "log": str(root / "log"), **job}
        self._server.stdin.write(json.dumps(record) + "\n")
        self._server.stdin.flush()
        return self._line()

    def end(self) -> int:
        """The exit code of what was begun."""
        return self._line()

    def run(self, root: Path, *arguments: str, **job: Any) -> str:
        """What a stage of a project says, to its good end."""
        self.begin(root, *arguments, **job)
        code = self.end()
        said = (root / "log").read_text(encoding="utf-8")
        assert code == 0, said
        return said

    def close(self) -> None:
        self._server.kill()
        self._server.wait()

    def _line(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())


@pytest.fixture(scope="module")
def forked() -> Iterator[Forked]:
    processes = Forked()
    yield processes
    processes.close()


@pytest.fixture(scope="module")
def small(forked: Forked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project whose base model is made. Read only."""
    root = tmp_path_factory.mktemp("zero") / "project"
    root.mkdir()
    write_project(root)
    forked.run(root, "base_model")
    return root


def copied(original: Path, root: Path, ranks: int, zero: int, **changes: Any) -> Path:
    """A copy of the project whose mid-training is shared by so many ranks under a ZeRO stage."""
    shutil.copytree(original, root, symlinks=True)
    change(root, ranks=ranks, zero=zero, **changes)
    return root


def change(root: Path, **changes: Any) -> None:
    section = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))["midtrained_checkpoint"]
    optimisation = {**section["optimisation"], "steps": 4, "evaluate_every": 0, **changes}
    write_params(root, midtrained_checkpoint={**section, "optimisation": optimisation})


@pytest.fixture(scope="module")
def alone(forked: Forked, small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes of it."""
    root = copied(small, tmp_path_factory.mktemp("alone") / "project", 1, 0)
    forked.run(root, "midtrained_checkpoint")
    return root / "models/midtrained"


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_two_ranks_train_as_one_process_does(
    forked: Forked, small: Path, alone: Path, tmp_path: Path, zero: int
) -> None:
    from assets.agent.model import load_model

    root = copied(small, tmp_path / "project", 2, zero)
    forked.run(root, "midtrained_checkpoint")
    assert_trained_alike(alone, root / "models/midtrained")
    load_model(root / "models/midtrained")  # an error where a weight is missing
    assert not list((root / ".hesper/work").glob("*/*"))


def kill_after_its_first_checkpoint(forked: Forked, root: Path) -> None:
    process = forked.begin(root, "midtrained_checkpoint")
    while not list(root.glob(".hesper/work/*/*/training.safetensors")):
        assert not (root / "models/midtrained").exists(), "ended before its first checkpoint"
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    assert forked.end() == -signal.SIGKILL


def test_a_killed_run_goes_on_on_as_many_ranks_or_others(
    forked: Forked, small: Path, alone: Path, tmp_path: Path
) -> None:
    root = copied(small, tmp_path / "killed", 2, 3)
    kill_after_its_first_checkpoint(forked, root)
    for count in (2, 3):
        again = copied(root, tmp_path / str(count), count, 3)
        assert "continues from step" in forked.run(again, "midtrained_checkpoint")
        assert_trained_alike(alone, again / "models/midtrained")


def test_text_beside_pictures_trains_and_ends(forked: Forked, small: Path, tmp_path: Path) -> None:
    """One rank reads text in one pass, the other text and pictures in three."""
    norms = []
    for zero in (0, 3):
        root = copied(small, tmp_path / str(zero), 2, zero)
        forked.run(root, mixed=zero)
        norms.append(json.loads((root / "norms.json").read_text(encoding="utf-8")))
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)


@pytest.mark.slow
def test_both_kinds_of_layers_train_in_shards_with_their_activations_computed_again(
    forked: Forked, small: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    shutil.copytree(small, made, symlinks=True)
    scratch = PARAMS["base_model"]["scratch"]
    architecture = {**scratch["architecture"], "decoder_layers": 4, "attention": "hybrid"}
    write_params(made, base_model={"source": "scratch", "scratch": {**scratch, "architecture": architecture}})
    forked.run(made, "base_model")
    one = copied(made, tmp_path / "one", 1, 0)
    two = copied(made, tmp_path / "two", 2, 3, gradient_checkpointing=True)
    for root in (one, two):
        forked.run(root, "midtrained_checkpoint")
    assert_trained_alike(one / "models/midtrained", two / "models/midtrained")


@pytest.mark.slow
@pytest.mark.parametrize("zero", [2, 3])
def test_reinforcement_learning_is_what_it_is_without_shards(
    forked: Forked, midtrained_project: Path, tmp_path: Path, zero: int
) -> None:
    """Two ranks draw the same answers, learn the same from them and keep the same weights."""
    folders = []
    for stage in (0, zero):
        root = tmp_path / str(stage)
        shutil.copytree(midtrained_project, root, symlinks=True)
        optimisation = {**RL["optimisation"], "steps": 3, "evaluate_every": 2, "ranks": 2, "zero": stage}
        write_params(root, rl_checkpoint={**RL, "kl": 0.01, "optimisation": optimisation})
        forked.run(root, "rl_checkpoint", "--partition", "grounding")
        folders.append(root / "models/rl/grounding")
    assert_trained_alike(*folders)


@pytest.mark.slow
def test_distillation_is_what_it_is_without_shards(forked: Forked, taught_project: Path, tmp_path: Path) -> None:
    folders = []
    for zero in (0, 3):
        root = tmp_path / str(zero)
        shutil.copytree(taught_project, root, symlinks=True)
        optimisation = {**DISTILLATION["optimisation"], "steps": 2, "ranks": 2, "zero": zero}
        write_params(root, distilled_model={**DISTILLATION, "optimisation": optimisation})
        forked.run(root, "distilled_model")
        folders.append(root / "models/distilled")
    assert_trained_alike(*folders)


@pytest.mark.slow
def test_in_16_bit_the_checkpoint_is_written_in_16_bit_and_a_killed_run_goes_on_exactly(
    forked: Forked, small: Path, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file

    settings = {"precision": "bfloat16", "gradient_checkpointing": True}
    undisturbed = copied(small, tmp_path / "undisturbed", 2, 2, **settings)
    forked.run(undisturbed, "midtrained_checkpoint")
    weights = load_file(undisturbed / "models/midtrained/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    killed = copied(small, tmp_path / "killed", 2, 2, **settings)
    kill_after_its_first_checkpoint(forked, killed)
    forked.run(killed, "midtrained_checkpoint")
    assert digest(killed / "models/midtrained") == digest(undisturbed / "models/midtrained")


def test_without_deepspeed_the_stage_says_what_to_install(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assets.errors import ParameterError
    from assets.stage import execute

    root = copied(small, tmp_path / "project", 2, 1)
    monkeypatch.setenv("HESPER_TRACKING", "off")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"pip install 'hesper\[gpu\]'"):
        execute("midtrained_checkpoint", None, root)
