"""Projects that several test files look at, each made and run once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.toy import hesper, make_smoke, make_toy

# The same examples every time, and no time limit on one: a busy machine is no failure.
settings.register_profile("project", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes share the tests: a file stays together, and so do all that look at the smoke project, which start
    first because they take longest."""
    for item in items:
        smoke = "smoke_project" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("smoke" if smoke else item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: "smoke_project" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def toy_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy project after one `hesper run`. Tests leave it as it is."""
    root = make_toy(tmp_path_factory.mktemp("toy") / "project")
    hesper(root, "run")
    return root


@pytest.fixture(scope="session")
def smoke_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real project in its smoke profile after one `hesper run`. Tests leave it as it is."""
    root = make_smoke(tmp_path_factory.mktemp("smoke") / "project")
    hesper(root, "run")
    return root
