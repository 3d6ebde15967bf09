"""A session's own corner of the machine: its folder, its processes, and what they see of the rest.

Programs get a home, a temporary folder and a session bus of their own, and no network. Where the kernel allows it
(root, or user namespaces), they run in namespaces as the user `user` in `/home/user`, with no network device, and
neither people's homes nor the machine's `/tmp` are there for them. Elsewhere, as in most containers, they run as
whoever started the session, in a home below the temporary folder, and a filter of system calls (`confined.py`) refuses
them every socket that leads off the machine. `Place.isolation` says which it is; where neither can be had, no session
opens.

Everything a program starts inherits a marker in its environment. By it the processes are found and ended, however far
they ran from their parent; a keeper process does so when the session itself was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Literal

from assets.environments import keeper
from assets.environments.desktop import confined
from assets.errors import InfrastructureError, MissingProgramError

MARKER = "HESPER_DESKTOP"
USER = "user"
USER_ID = 1000


def program(name: str, package: str | None = None) -> str:
    """Path of a program of the desktop.

    Raises:
        MissingProgramError: it is not installed.
    """
    path = shutil.which(name)
    if path is None:
        wanted = package or {"Xvfb": "xvfb", "dbus-daemon": "dbus"}.get(name, name)
        raise MissingProgramError(f"{name} is not installed: run `apt-get install {wanted}`")
    return path


class Place:
    """A folder and the processes that belong to it.

    Attributes:
        folder: everything of the session lies here, owned by this process alone. Its name has a small number, the
            lowest that is free, so a session alone on the machine always finds itself in the same place.
        home, temporary, runtime: folders of the programs, as this process sees them.
        isolation: how programs are kept from the rest of the machine, in words.

    Raises:
        InfrastructureError: no folder can be had, or nothing here keeps programs from the network.
    """

    def __init__(self) -> None:
        self._kind = _isolation()
        self.folder, self._lock = _take_folder()
        self.home, self.temporary = self.folder / "home", self.folder / "tmp"
        self.runtime = self.temporary / "run"
        self.isolation = {
            "root": "namespaces: a user, a home and a temporary folder of its own, no network device",
            "user": "user namespaces: a user, a home and a temporary folder of its own, no network device",
            "filter": "a filter of system calls: no socket leads off the machine; files are kept by their modes alone",
        }[self._kind]
        self.marker = f"{MARKER}={self.folder}"
        # The keeper holds the lock too: the folder's number is not free before the keeper is done.
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(self.folder), self.marker],
            pass_fds=(self._lock.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def user(self) -> int:
        """Id of the user that isolated programs run as."""
        return USER_ID if self._kind == "root" else os.geteuid()

    @property
    def _moved(self) -> bool:
        """Whether programs see other folders than this process."""
        return self._kind != "filter"

    @property
    def seen_home(self) -> str:
        """The home's path as the programs see it."""
        return f"/home/{USER}" if self._moved else str(self.home)

    @property
    def seen_temporary(self) -> str:
        """The temporary folder's path as the programs see it."""
        return "/tmp" if self._moved else str(self.temporary)

    def furnish(self) -> None:
        """Make the programs' folders afresh, empty.

        Raises:
            InfrastructureError: the folder can't be written.
        """
        try:
            for folder in (self.home, self.temporary):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
            for folder, mode in ((self.runtime, 0o700), (self.temporary / ".X11-unix", 0o755)):
                folder.mkdir(mode=mode)
            users = f"root:x:0:0:root:/root:/bin/sh\n{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n"
            (self.folder / "passwd").write_text(users, encoding="utf-8")
            (self.folder / "group").write_text(f"root:x:0:\n{USER}:x:{USER_ID}:\n", encoding="utf-8")
        except OSError as error:
            raise InfrastructureError(f"no room for a desktop in {self.folder}: {error}") from error

    def hand_over(self) -> None:
        """Give the programs' folders to the user they run as."""
        if self._kind == "root":
            for folder in (self.home, self.temporary):
                for path in (folder, *folder.rglob("*")):
                    os.chown(path, USER_ID, USER_ID, follow_symlinks=False)

    def environment(self) -> dict[str, str]:
        """Of this machine's variables only the paths and the time zone reach a process, and the marker."""
        return {
            **{key: value for key, value in os.environ.items() if key in ("PATH", "TZ")},
            **{"LANG": "C.UTF-8", "LANGUAGE": "C", MARKER: str(self.folder)},
        }

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
        reach: Literal["everything", "machine", "home"] = "home",
    ) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own, in `folder`, or without one in the programs' home.

        Args:
            reach: everything that this process reaches; the machine, but no network; or, where programs see other
                folders than this process, no more than their home.
        """
        words = list(command)
        if reach == "home" and self._moved:
            words = [*_ENTER[self._kind], _MOVE_IN, "sh", str(self.folder), *_BECOME[self._kind], *words]
        elif reach != "everything":
            words = [*_OFFLINE[self._kind], *words]
        return subprocess.Popen(
            words,
            cwd=self.home if folder is None else folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self, marker: str) -> None:
        """End every process that carries a marker.

        Raises:
            InfrastructureError: one can't be killed.
        """
        if left := keeper.end(marker):
            raise InfrastructureError(f"processes of the desktop can't be killed: {left}")

    def close(self) -> None:
        """End everything and remove the folder: tell the keeper, or do it where the keeper is gone."""
        if self._lock.closed:
            return
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        if self._keeper.wait() != 0:
            keeper.end(self.marker)
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


# --- what keeps programs in -------------------------------------------------------------------------------------------

_ENTER = {
    "root": ("unshare", "--net", "--mount", "--propagation", "private", "sh", "-c"),
    "user": ("unshare", "--map-root-user", "--net", "--mount", "--propagation", "private", "sh", "-c"),
}
"""root: of the machine. user: of a user namespace, where being root means nothing outside."""

_BECOME = {
    "root": ("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--no-new-privs", "--"),
    "user": ("unshare", f"--map-user={USER_ID}", f"--map-group={USER_ID}", "--"),
}

_OFFLINE = {
    "root": ("unshare", "--net", "--"),
    "user": ("unshare", "--map-root-user", "--net", "--"),
    "filter": (sys.executable, "-I", "-S", confined.__file__),
}

_MOVE_IN = f"""set -e
mount --rbind "$1" /mnt; shift
mount -t tmpfs -o mode=755 none /home; mkdir /home/{USER}; mount --bind /mnt/home /home/{USER}
mount --bind /tmp/.X11-unix /mnt/tmp/.X11-unix; mount --bind /mnt/passwd /etc/passwd; mount --bind /mnt/group /etc/group
mount --rbind /mnt/tmp /tmp; umount -l /mnt
cd /home/{USER}; exec "$@"
"""


@cache
def _isolation() -> Literal["root", "user", "filter"]:
    """What keeps programs in here: namespaces of the machine's root, of a user, or a filter of system calls.

    Raises:
        InfrastructureError: this process may use none of them.
    """
    own: Literal["root", "user"] = "root" if os.geteuid() == 0 else "user"
    trial = [*_ENTER[own], 'mount -t tmpfs none /mnt && exec "$@"', "sh", *_BECOME[own], "true"]
    if _works(trial):
        return own
    if _works([*_OFFLINE["filter"], "true"]):
        return "filter"
    raise InfrastructureError(
        "nothing keeps a desktop's programs from the network here, so none is opened: the kernel allows neither "
        "namespaces (run as root, or `sysctl kernel.unprivileged_userns_clone=1`; a container needs CAP_SYS_ADMIN) nor "
        "a seccomp filter (a kernel of x86_64 or aarch64 with CONFIG_SECCOMP_FILTER)"
    )


def _works(command: Sequence[str]) -> bool:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    return False


# --- folders ---------------------------------------------------------------------------------------------------------

_NAME = "hesper-desktop-"
_MOST = 1000


def sweep() -> None:
    """Remove the folders of sessions that are gone with their keeper, and end what still runs in them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_NAME}*"):
        _bury(folder)


def _take_folder() -> tuple[Path, IO[str]]:
    """The first free numbered folder, and the lock that says it is in use. What dead sessions left is removed.

    Raises:
        InfrastructureError: none is free.
    """
    sweep()
    root = Path(tempfile.gettempdir())
    for number in range(1, _MOST):
        folder = root / f"{_NAME}{number}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise InfrastructureError(f"no room for a desktop in {root}: {error}") from error
        lock = (folder / "lock.new").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "lock.new").rename(folder / "lock")
        return folder, lock
    raise InfrastructureError(f"{_MOST} desktops are open in {root}")


def _bury(folder: Path) -> None:
    """Remove a folder whose owner is gone, and what still runs in it; leave any other alone."""
    with contextlib.suppress(OSError):
        if not (folder / "lock").exists():
            if time.time() - folder.stat().st_mtime > 60:  # its owner was killed before it could lock
                shutil.rmtree(folder, ignore_errors=True)
            return
        with (folder / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            keeper.end(f"{MARKER}={folder}")
            grave = folder.with_name(f"{folder.name}.{os.getpid()}")
            folder.rename(grave)
            shutil.rmtree(grave, ignore_errors=True)
