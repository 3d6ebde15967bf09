"""Projects that several test files look at, each made and run once."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from hypothesis import HealthCheck, settings

import assets
import dagster_project
from tests.toy import hesper, make_toy

# The same examples every time, and no time limit on one: a busy machine is no failure.
settings.register_profile("project", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")
if "PYTEST_XDIST_WORKER" in os.environ:
    # Hypothesis tries the constants of the project's modules that are loaded; in `make test` all are, from the start.
    for package in (assets, dagster_project):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes share the files (`make test`): the one that takes longest starts first."""
    items.sort(key=lambda item: item.path.name != "test_pipeline.py")


@pytest.fixture(scope="session")
def toy_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy project after one `hesper run`. Tests leave it as it is."""
    root = make_toy(tmp_path_factory.mktemp("toy") / "project")
    hesper(root, "run")
    return root
