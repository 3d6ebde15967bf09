"""One set of sessions for all tests of a file that act."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assets.environments.workers import Sessions


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    with Sessions((192, 192)) as opened:
        yield opened
