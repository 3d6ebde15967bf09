"""kill -9 of the smoke profile at ten random moments: nothing broken is committed, and the same hashes come out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.toy import make_smoke, recorded_hashes, run_with_kills


@pytest.mark.pipeline
@pytest.mark.timeout(3600)
def test_killed_pipeline_ends_in_the_same_hashes(smoke_project: Path, tmp_path: Path) -> None:
    root = make_smoke(tmp_path / "project")
    begun = time.monotonic()
    run_with_kills(root, kills=10, seconds=40.0, seed=5)
    print(f"ten kills and the rest took {time.monotonic() - begun:.0f} s")
    assert recorded_hashes(root) == recorded_hashes(smoke_project)
