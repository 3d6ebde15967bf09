"""Micro projects that the tests of training share; a test works on a copy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoints.micro_project import OPTIMISATION, RL, make_project
from tests.checkpoints.small_project import run, write_project


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project whose base model is made, by one process. Read only."""
    root = tmp_path_factory.mktemp("small") / "project"
    root.mkdir()
    write_project(root)
    done = run(root, "base_model")
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="session")
def midtrained_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of five domains and a mid-trained model. Read only."""
    return make_project(tmp_path_factory.mktemp("micro") / "midtrained", rl_checkpoint=RL)


@pytest.fixture(scope="session")
def taught_project(midtrained_project: Path) -> Path:
    """The same with five teachers, each trained in its domain. Read only."""
    import torch

    from assets.agent.samples import DOMAINS
    from assets.stage import execute
    from tests.checkpoints.micro_project import write_params

    project = midtrained_project.with_name("taught")
    shutil.copytree(midtrained_project, project, symlinks=True)
    measurement = {"validation_share": 0.0, "validation_questions": 0, "curve_questions": 0, "heldout_questions": 0}
    optimisation = {**OPTIMISATION, "steps": 10, "evaluate_every": 0, "checkpoint_every": 10}
    write_params(project, rl_checkpoint={**RL, "optimisation": optimisation, "measurement": measurement})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HESPER_TRACKING", "off")
        for domain in DOMAINS:
            execute("rl_checkpoint", domain, project)
    torch.use_deterministic_algorithms(False)
    return project


@pytest.fixture
def project(midtrained_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of `midtrained_project` to work in."""
    yield from _copy(midtrained_project, tmp_path, monkeypatch)


@pytest.fixture
def project_with_teachers(taught_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of `taught_project` to work in."""
    yield from _copy(taught_project, tmp_path, monkeypatch)


def _copy(original: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    import torch

    monkeypatch.setenv("HESPER_TRACKING", "off")
    shutil.copytree(original, folder / "project", symlinks=True)
    yield folder / "project"
    torch.use_deterministic_algorithms(False)
