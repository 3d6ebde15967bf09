"""The `smoke` tables of both synthetic stages, made once for all tests here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from assets.stage import execute

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes an empty project with the parameters of the `smoke` profile."""

    def make() -> Path:
        root = tmp_path_factory.mktemp("project")
        shutil.copy(REPOSITORY / "dvc.yaml", root / "dvc.yaml")
        shutil.copy(REPOSITORY / "infra/profiles/smoke.yaml", root / "params.yaml")
        (root / "assets").symlink_to(REPOSITORY / "assets")
        return root

    return make


@pytest.fixture(scope="session")
def project(new_project: Callable[[], Path]) -> Path:
    """A project in which both stages have run."""
    root = new_project()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HESPER_TRACKING", "off")
        for stage in ("grounding_samples", "captcha_samples"):
            execute(stage, root=root)
    return root
