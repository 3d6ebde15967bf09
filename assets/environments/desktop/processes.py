"""What the processes of a desktop are doing, read from /proc: whether they sleep, and how long they have worked."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

Thread = tuple[str, int]
"""State of a thread as /proc names it (S sleeps, R runs, T is stopped, Z is over), its processor time in ns."""


def threads(pid: int) -> list[Thread]:
    """The threads of a process: while one works for it, the main one may sleep."""
    found = []
    for folder in glob.glob(f"/proc/{pid}/task/*"):
        state, spent = _state(folder), _read(f"{folder}/schedstat")
        if state and spent:
            found.append((state, int(spent.split()[0])))
    return found


class Family:
    """The processes that carry a marker `NAME=value` in their environment: a program and all it has started."""

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self._wanted = b"\0" + marker.encode() + b"\0"
        self._strangers: set[str] = set()

    def threads(self, without: Iterable[int] = ()) -> list[Thread]:
        """The threads of all processes of the family, but for those of some processes."""
        left_out = {str(pid) for pid in without}
        names = [name for name in os.listdir("/proc") if name.isdigit()]
        self._strangers &= set(names)  # an id that is gone may come back as somebody else's
        found = []
        for name in names:
            if name in self._strangers or name in left_out:
                continue
            environment = _bytes(f"/proc/{name}/environ")
            if self._wanted in b"\0" + environment + b"\0":
                found += threads(int(name))
            elif environment:  # in the middle of exec a process shows none, and may be of the family yet
                self._strangers.add(name)
        return found


def _state(folder: str) -> str:
    """State of a process or thread; empty if it is gone."""
    text = _read(f"{folder}/stat")
    return text[text.rindex(")") + 2 :][:1] if ")" in text else ""


def _read(path: str) -> str:
    return _bytes(path).decode(errors="replace")


def _bytes(path: str) -> bytes:
    """A small file of /proc, empty if it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
