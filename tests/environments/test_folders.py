"""Temporary folders whose owner was killed with all that watched over it: the next start removes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from assets.environments.folders import OwnedFolder
from assets.environments.keeper import carriers
from assets.environments.workers import sweep


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder of this test and of all that it starts; its path leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(prefix="hesper-t", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def owner(script: str = "") -> tuple[psutil.Popen, Path]:
    """A process with a folder, and the folder."""
    begin = "import time\nfrom assets.environments.folders import OwnedFolder\nfolder = OwnedFolder('worker')\n"
    end = "\nprint(folder.path, flush=True)\ntime.sleep(600)"
    process = psutil.Popen([sys.executable, "-c", f"{begin}{script}{end}"], stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_dead_owner_goes_with_what_runs_in_it_and_that_of_a_living_one_stays(temporary: Path) -> None:
    dead, left = owner()
    living, kept = owner()
    namesake = Path(f"{left}x")
    try:
        orphans = [
            subprocess.Popen(["sleep", "600"], env={**os.environ, "TMPDIR": str(place)})
            for place in (left, left / "below", namesake, kept)
        ]
        dead.kill()
        dead.wait()
        own = OwnedFolder("adb")  # whoever takes a folder of whatever kind looks for those of the dead
        assert sorted(temporary.iterdir()) == sorted([kept, own.path])
        assert [orphan.poll() for orphan in orphans] == [-signal.SIGKILL, -signal.SIGKILL, None, None]
        own.end()
        own.end()
        assert list(temporary.iterdir()) == [kept]
    finally:
        for process in (living, *orphans):
            process.kill()
            process.wait()
    sweep()
    assert list(temporary.iterdir()) == []


def test_a_browser_and_phones_that_were_killed_with_their_watchers_are_cleared_away(temporary: Path) -> None:
    script = (
        "from assets.environments.chromium import Chromium\n"
        "from assets.environments.phone import PhoneSession\n"
        "from assets.environments.task import TaskContract\n"
        "browser = Chromium(); browser.new_page(64, 64)\n"
        "session = PhoneSession((64, 64)); session.reset(TaskContract('t', 'mobile', 'mail-en', 'en', ''))\n"
    )
    process, _ = owner(script)
    everything = [*process.children(recursive=True), process]
    for each in everything:
        each.suspend()  # so that none of them sees another one end
    for each in everything:
        each.kill()
    process.wait()
    left = sorted(path.name.rpartition("-")[0] for path in temporary.iterdir())
    assert left == ["hesper-adb", "hesper-chromium", "hesper-worker"]
    sweep()
    assert list(temporary.iterdir()) == []
    assert not [pid for pid in carriers(str(temporary), whole=False) if pid in {each.pid for each in everything}]
