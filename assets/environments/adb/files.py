"""A phone's files, in memory: there is no way from them to the machine's own, and nothing is left when it ends."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass

WRITABLE = ("/data/local/tmp", "/storage/emulated/0", "/dev")
FOLDERS = ("/", "/data", "/data/local", "/data/local/tmp", "/dev", "/storage", "/storage/emulated",
           "/storage/emulated/0", "/storage/emulated/0/DCIM", "/storage/emulated/0/Download",
           "/storage/emulated/0/Pictures", "/storage/emulated/0/Pictures/Screenshots", "/system")  # fmt: skip
LINKS = {"/sdcard": "/storage/emulated/0", "/mnt/sdcard": "/storage/emulated/0", "/storage/self/primary":
         "/storage/emulated/0"}  # fmt: skip
PICTURES = "/storage/emulated/0/Pictures/Screenshots"


class FileError(Exception):
    """What Android says of a path that can't be used so."""


@dataclass
class File:
    """A file or, with `data` None, a folder. `mode` is the permissions, `mtime` seconds since 1970."""

    data: bytes | None
    mode: int = 0o660
    mtime: int = 0

    @property
    def full_mode(self) -> int:
        """Permissions and type, as `stat` has them."""
        return self.mode | (stat.S_IFDIR if self.data is None else stat.S_IFREG)

    @property
    def size(self) -> int:
        """Bytes of a file; a folder counts as a block."""
        return 4096 if self.data is None else len(self.data)


class Files:
    """All files of one phone.

    Args:
        capacity: most bytes that they may hold together.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._files: dict[str, File] = {}
        self.clear()

    def clear(self) -> None:
        """As the phone came."""
        self._files = {folder: File(None, 0o771) for folder in FOLDERS}

    def find(self, path: str) -> File | None:
        """What is there, if anything."""
        return self._files.get(resolve(path))

    def read(self, path: str) -> bytes:
        """A file's bytes.

        Raises:
            FileError: there is none.
        """
        file = self.find(path)
        if file is None:
            raise FileError("No such file or directory")
        if file.data is None:
            raise FileError("Is a directory")
        return file.data

    def write(self, path: str, data: bytes, mode: int = 0o660, mtime: int = 0, make_parents: bool = False) -> None:
        """Put a file there, in place of the one before.

        Raises:
            FileError: the place can't be written, is a folder, lacks its folder, or the phone is full.
        """
        place = resolve(path)
        if place.startswith("/dev/"):
            if place != "/dev/null":
                raise FileError("Permission denied")
            return
        parent = place.rpartition("/")[0] or "/"
        self._check_writable(place)
        if make_parents:
            self.make_folder(parent)
        old, holder = self._files.get(place), self._files.get(parent)
        if old is not None and old.data is None:
            raise FileError("Is a directory")
        if holder is None:
            raise FileError("No such file or directory")
        if holder.data is not None:
            raise FileError("Not a directory")
        used = sum(file.size for file in self._files.values() if file is not old)
        if used + len(data) > self.capacity:
            raise FileError("No space left on device")
        self._files[place] = File(data, mode & 0o777, mtime)

    def make_folder(self, path: str) -> None:
        """A folder with those above it.

        Raises:
            FileError: the place can't be written, or a file is in the way.
        """
        place = resolve(path)
        parts = place.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            here = "/" + "/".join(parts[:depth])
            file = self._files.get(here)
            if file is None:
                self._check_writable(here)
                if len(self._files) * 4096 > self.capacity:
                    raise FileError("No space left on device")
                self._files[here] = File(None, 0o770)
            elif file.data is not None:
                raise FileError("Not a directory")

    def remove(self, path: str, recursive: bool = False) -> None:
        """Take a file, or a folder with all that is in it, away.

        Raises:
            FileError: it is not there, is a folder, or can't be removed.
        """
        place = resolve(path)
        file = self._files.get(place)
        if file is None:
            raise FileError("No such file or directory")
        if file.data is None and not recursive:
            raise FileError("is a directory")
        if place in FOLDERS:
            raise FileError("Permission denied")
        self._files = {at: file for at, file in self._files.items() if at != place and not at.startswith(place + "/")}

    def list(self, path: str) -> Iterator[tuple[str, File]]:
        """(name, file) of what a folder holds, by name; nothing where it is no folder."""
        place = resolve(path)
        file = self._files.get(place)
        if file is None or file.data is not None:
            return
        prefix = place.rstrip("/") + "/"
        for at in sorted(self._files):
            if at.startswith(prefix) and at != place and "/" not in at[len(prefix) :]:
                yield at[len(prefix) :], self._files[at]

    def _check_writable(self, place: str) -> None:
        if not any(place.startswith(root + "/") for root in WRITABLE):
            raise FileError("Read-only file system")


def resolve(path: str) -> str:
    """The absolute path without links, `.` and `..`; nothing is above the root."""
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
        link = LINKS.get("/" + "/".join(parts))
        if link is not None:
            parts = link.strip("/").split("/")
    return "/" + "/".join(parts)
