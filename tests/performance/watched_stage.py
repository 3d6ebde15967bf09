"""A stage run as it is run, its memory looked at all the while."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def watch(root: Path, stage: str, share: Callable[[], float]) -> tuple[float, list[tuple[float, float]]]:
    """Run a stage of the project in `root`: its seconds, and the `share` done and megabytes held, twice a second.

    Raises:
        SystemExit: the stage failed.
    """
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "assets", stage],
        cwd=root,
        env={**os.environ, "HESPER_TRACKING": "off"},
        stdout=subprocess.DEVNULL,
    )
    seen: list[tuple[float, float]] = []
    try:
        while process.poll() is None:
            seen.append((share(), megabytes(process.pid)))
            time.sleep(0.5)
    finally:
        process.kill()
        process.wait()
    seconds = time.monotonic() - begun
    if process.returncode:
        raise SystemExit("the stage failed")
    return seconds, seen


def megabytes(pid: int) -> float:
    """Private memory of a process and all below it: what they share may be shared with browsers of others, that end."""
    import psutil

    total = 0
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    for each in family:
        try:
            text = Path(f"/proc/{each.pid}/smaps_rollup").read_text(encoding="utf-8")
        except OSError:  # it has just ended
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_"))
    return total / 1024
