"""Projects that several test files look at, each made and run once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.toy import hesper, make_toy

# The same examples every time, and no time limit on one: a busy machine is no failure.
settings.register_profile("project", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes share the files (`make test`): the one that takes longest starts first."""
    items.sort(key=lambda item: item.path.name != "test_pipeline.py")


@pytest.fixture(scope="session")
def toy_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy project after one `hesper run`. Tests leave it as it is."""
    root = make_toy(tmp_path_factory.mktemp("toy") / "project")
    hesper(root, "run")
    return root
