"""The family of a program is found by what its environment says, also while that can't be read yet."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from assets.environments import keeper
from assets.environments.desktop import processes


def test_a_process_in_the_middle_of_exec_is_looked_at_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = f"HESPER_RUN={tmp_path}"
    child = subprocess.Popen(["sleep", "60"], env=dict([marker.split("=")]))
    try:
        read, hidden = processes._bytes, [f"/proc/{child.pid}/environ"]
        monkeypatch.setattr(processes, "_bytes", lambda path: b"" if path in hidden else read(path))
        family = processes.Family(marker)
        assert family.threads() == []
        hidden.clear()
        assert len(family.threads()) == 1
    finally:
        child.kill()
        child.wait()


def test_one_look_that_finds_nobody_ends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = f"HESPER_RUN={tmp_path}"
    child = subprocess.Popen(["sleep", "60"], env=dict([marker.split("=")]))
    look, looks = keeper.carriers, iter([[]])
    monkeypatch.setattr(keeper, "carriers", lambda *wanted: next(looks, None) or look(*wanted))
    assert keeper.end(marker) == []
    assert child.wait(10) < 0
