"""Temporary folders that go with the process that made them; where nobody is left to remove one, the next start does.

The owner of a folder holds a lock on it for as long as it lives. One that can be locked is nobody's: its owner was
killed together with whatever was to clean up after it, as when a machine goes down or a whole group gets SIGKILL.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal, get_args

from assets.environments import keeper

Kind = Literal["worker", "chromium", "adb"]
"""What a folder is for: a process that plays sessions, a browser of web sessions, the browser of simulated phones."""


class OwnedFolder:
    """A new folder, of this process for as long as it lives. What dead owners left beside it is removed first.

    Args:
        kind: what it is for; part of its name.
        place: where it lies; without it, in the folder for temporary files.

    Attributes:
        path: of the folder.
    """

    def __init__(self, kind: Kind, place: str | None = None) -> None:
        place = tempfile.gettempdir() if place is None else place
        sweep(place)
        lock = None
        while lock is None:  # between the two steps somebody who sweeps may take it for a dead one's
            self.path = Path(tempfile.mkdtemp(prefix=_prefix(kind), dir=place))
            lock = _locked(self.path)
        self._lock: int | None = lock

    def end(self) -> None:
        """End every process whose environment names the folder (as TMPDIR, as HOME, in a marker), and remove it."""
        keeper.end(str(self.path), whole=False)
        self.remove()

    def remove(self) -> None:
        """Remove it. Nothing happens the second time."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def sweep(place: str | None = None) -> None:
    """Remove the folders of dead owners, and end what still runs in them. Those of the living are left alone.

    Args:
        place: where to look; without it, in the folder for temporary files.
    """
    for kind in get_args(Kind):
        for folder in Path(tempfile.gettempdir() if place is None else place).glob(f"{_prefix(kind)}*"):
            lock = _locked(folder)
            if lock is not None:
                keeper.end(str(folder), whole=False)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _prefix(kind: Kind) -> str:
    return f"hesper-{kind}-"


def _locked(folder: Path) -> int | None:
    """An open file that says the folder is this process's; None where it is another's, or gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
