"""What a desktop costs: how soon the screen after an action can be trusted, how soon a program stands as promised."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from assets.agent.actions import Action
from assets.environments.desktop import DesktopSession, program
from assets.environments.task import TaskContract
from tests.performance.__main__ import Comparison

TASK = TaskContract("bench", "desktop", "galculator", "en", "")
PAUSE = 2.0
"""Seconds that OSWorld's `DesktopEnv.step` waits after an action unless told otherwise."""


def desktop() -> Iterator[Comparison]:
    """Galculator at 1024×768: a key and the next screenshot; and from nothing to the first screenshot."""
    with DesktopSession((1024, 768), timeout=60) as session:
        session.reset(TASK)
        environment = {**os.environ, "DISPLAY": session._display().name}
        yield Comparison(
            name="desktop_act",
            work="a key typed into a calculator and the screenshot after it, 1024x768",
            peer=f"xdotool, then a fixed pause of {PAUSE:g} s (OSWorld's default), then a screenshot",
            ours=lambda: (session.act(Action("Type", content="1")), session.observe()),
            theirs=lambda: fixed_pause(environment),
            note="the peer's time is its pause: it does not know when the screen is at rest, ours waits until it is",
        )
        yield Comparison(
            name="desktop_reset",
            work="the program killed, files laid out, started again, preflight passed, screenshot",
            peer="a new Xvfb and window manager for every start, screenshot when its window is there, no preflight",
            ours=lambda: (session.reset(TASK), session.observe()),
            theirs=cold_start,
            note="the peer neither isolates the program nor checks what it shows",
        )


def fixed_pause(environment: dict[str, str]) -> None:
    """One step of a loop that waits for a fixed time."""
    import mss
    import mss.tools

    subprocess.run([program("xdotool"), "key", "1"], env=environment, check=True, capture_output=True)
    time.sleep(PAUSE)
    with mss.MSS(display=environment["DISPLAY"]) as screen:
        picture = screen.grab(screen.monitors[0])
        mss.tools.to_png(picture.rgb, picture.size)


def cold_start() -> None:
    """A server, a window manager and the program, all new; ends when the program's window is there and is grabbed."""
    import mss
    import mss.tools

    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as started:
        read, write = os.pipe()
        command = [program("Xvfb"), "-displayfd", str(write), "-screen", "0", "1024x768x24", "-nolisten", "tcp"]
        _start(started, command, {**os.environ}, write)
        os.close(write)
        display = ":" + os.read(read, 16).decode().strip()
        os.close(read)
        environment = {**os.environ, "DISPLAY": display, "HOME": home, "NO_AT_BRIDGE": "1"}
        (Path(home) / ".config").mkdir()
        _start(started, [program("openbox")], environment)
        _start(started, [program("galculator")], environment)
        search = [program("xdotool"), "search", "--sync", "--onlyvisible", "--class", "galculator"]
        subprocess.run(search, env=environment, check=True, capture_output=True)
        with mss.MSS(display=display) as screen:
            picture = screen.grab(screen.monitors[0])
            mss.tools.to_png(picture.rgb, picture.size)


def _start(started: contextlib.ExitStack, command: list[str], environment: dict[str, str], *descriptors: int) -> None:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, pass_fds=descriptors, stdout=quiet, stderr=quiet)
    started.callback(process.wait)
    started.callback(process.kill)


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"desktop": desktop}
