"""Ending every process of a session, however far it ran from its parent: by what its environment says.

`python -I -S keeper.py FOLDER MARKER` is what stays behind to clean up, a process of its own beside a desktop session.
It sleeps until the session's end of its standard input closes, which the kernel does even for a process that was
killed. Then it ends every process that carries the marker in its environment and removes the folder. The marker is
inherited by everything a program starts, so a process that left its group, its session or its parent is found too.
"""

import os
import shutil
import signal
import sys
import time


def carriers(text: str, whole: bool = True) -> list[int]:
    """Ids of the other living processes whose environment holds a text.

    Args:
        whole: the text is a whole `NAME=value`; else it is the path that a value is or begins with.
    """
    wanted = [f"\0{text}\0"] if whole else [f"={text}\0", f"={text}/"]
    texts = [os.fsencode(each) for each in wanted]
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as stream:
                    environment = stream.read()
            except OSError:
                continue  # it is gone, or somebody else's
            if any(each in b"\0" + environment + b"\0" for each in texts):
                found.append(int(name))
    return found


def end(text: str, seconds: float = 10.0, whole: bool = True) -> list[int]:
    """Kill the carriers of a text, also those that are born meanwhile; returns those that stayed. `whole` as there.

    A process shows no environment while it turns into another program, so one look that finds none is not enough.
    """
    deadline = time.monotonic() + seconds
    looks = 0
    while time.monotonic() < deadline:
        alive = carriers(text, whole)
        looks = 0 if alive else looks + 1
        if looks == 2:
            return []
        for process in alive:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.01)
    return carriers(text, whole)


def end_server(process: int, seconds: float = 2.0) -> bool:
    """End an X server; True if it removed its socket from /tmp, False if it did not listen and had to be killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(process, number)
        except OSError:
            return True
        deadline = time.monotonic() + seconds
        while _runs(process) and time.monotonic() < deadline:
            time.sleep(0.01)
        if not _runs(process):
            return number == signal.SIGTERM
    return False


def _runs(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _name(process: int) -> str:
    try:
        with open(f"/proc/{process}/comm") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def main() -> None:
    """Wait for the end of standard input, then clean up."""
    _, folder, marker = sys.argv
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of the session is the only sign to act on
    while os.read(0, 64):
        pass
    for process in carriers(marker):
        if _name(process) == "Xvfb":
            end_server(process)
    end(marker)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
