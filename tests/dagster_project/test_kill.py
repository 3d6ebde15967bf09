"""kill -9 at any moment, then again: the same hashes.

Here on the toy project; tests/test_pipeline.py does it with the smoke profile.
"""

from __future__ import annotations

from pathlib import Path

from tests.toy import hesper, make_toy, recorded_hashes, run_with_kills


def test_killed_runs_end_in_the_same_hashes(toy_project: Path, tmp_path: Path) -> None:
    root = make_toy(tmp_path / "project")
    run_with_kills(root, kills=8, seconds=8.0, seed=11, HESPER_TRACKING="off")
    assert recorded_hashes(root) == recorded_hashes(toy_project)
    assert hesper(root, "run", HESPER_TRACKING="off").stdout.count(" cached ") >= 5
