"""MiniWoB++ `click-test` against BrowserGym 0.14: reset to first screenshot, action to next screenshot.

BrowserGym's dependencies conflict with ours, so it runs in an environment of its own (made on demand under
~/.cache/hesper), in a process that is asked for one reset or step at a time; the same Chromium, page and action.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from functools import partial
from importlib import resources
from pathlib import Path

from tests.performance.__main__ import Comparison

REQUIREMENT = "browsergym-miniwob==0.14.*"
PLACE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hesper" / "browsergym-0.14"
SIZE = (332, 164)
"""What BrowserGym's window of 332x214 shows below MiniWoB++'s instruction."""
NOWHERE = (300, 200)
"""A point of the window on which nothing lies."""

PEER = """
import pathlib, sys, time
import gymnasium
import browsergym.miniwob
from browsergym.core import _get_global_playwright
from browsergym.core.action.highlevel import HighLevelActionSet

program, delay, slow = sys.argv[1], float(sys.argv[2]), sys.argv[3]
# Its chat window takes the browser that Playwright downloads, wherever it is told to look for another.
download = pathlib.Path(_get_global_playwright().chromium.executable_path)
if not download.exists():
    download.parent.mkdir(parents=True)
    download.symlink_to(program)
actions = HighLevelActionSet(subsets=["coord"])
env = gymnasium.make(
    "browsergym/miniwob.click-test", headless=True, pre_observation_delay=delay, slow_mo=None if slow == "own" else 0,
    action_mapping=actions.to_python_code,
).unwrapped
env.reset(seed=1)
print("ready", flush=True)
seed = 1
for line in sys.stdin:
    command, _, text = line.strip().partition(" ")
    start = time.perf_counter()
    if command == "reset":
        seed += 1
        observation, _ = env.reset(seed=seed)
    elif command == "step":
        observation, *_ = env.step(text)
    else:
        break
    assert observation["screenshot"].shape[2] == 3, observation["screenshot"].shape
    error = observation["last_action_error"]
    print("error " + error.splitlines()[0] if error else f"done {time.perf_counter() - start:.6f}", flush=True)
env.close()
"""


def miniwob() -> Iterator[Comparison]:
    """Reset and step of one page in one browser; BrowserGym three ways."""
    from assets.agent.actions import Action, from_pixel
    from assets.environments.chromium import browser
    from assets.environments.miniwob import MiniwobSession

    python = _environment()
    with browser() as chromium, MiniwobSession(SIZE, chromium) as session:
        tasks = [session.task("click-test", seed) for seed in range(1, 9)]
        count = 0
        x, y = NOWHERE
        click = Action("Click", point=from_pixel(x, y - session.above, *SIZE))

        def reset() -> bytes:
            nonlocal count
            count += 1
            session.reset(tasks[count % len(tasks)])
            return session.observe().png

        def step() -> bytes:
            session.act(click)
            return session.observe().png

        also = (
            "Also in BrowserGym's time: a DOM snapshot, the accessibility tree, element ids, visibility and boxes, the "
            "reward. Also in ours: nothing beside the PNG; state and elements are read when somebody asks."
        )
        renewal = "BrowserGym starts a new browser at each reset, we begin the episode on the open page. "
        for delay, slow, said in (
            ("0", "none", "no delay, no slow motion"),
            ("0", "own", "no delay, its tasks' slow motion of 0.1 s a call"),
            ("0.5", "own", "as it is: 0.5 s delay, slow motion"),
        ):
            with _Peer(python, delay, slow) as peer:
                renew, click_there = partial(peer.ask, "reset"), partial(peer.ask, f"step mouse_click({x}, {y})")
                name = f"miniwob_{{}}_{'default' if delay != '0' else 'nodelay' if slow == 'own' else 'bare'}"
                yield Comparison(
                    name=name.format("reset"),
                    work="MiniWoB++ click-test, reset to first screenshot, 332x214",
                    peer=f"BrowserGym 0.14, {said}",
                    ours=reset,
                    theirs=renew,
                    runs=7,
                    note=renewal + also,
                )
                yield Comparison(
                    name=name.format("step"),
                    work="MiniWoB++ click-test, mouse click to next screenshot, 332x214",
                    peer=f"BrowserGym 0.14, {said}",
                    ours=step,
                    theirs=click_there,
                    runs=15,
                    note=also,
                )


class _Peer:
    """BrowserGym in its own process."""

    def __init__(self, python: Path, delay: str, slow: str) -> None:
        from assets.environments.chromium import find_chromium

        pages = Path(str(resources.files("miniwob"))) / "html" / "miniwob"
        self._process = subprocess.Popen(
            [str(python), "-c", PEER, find_chromium(), delay, slow],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "MINIWOB_URL": f"{pages.as_uri()}/",
                "PLAYWRIGHT_BROWSERS_PATH": str(PLACE / "browsers"),
            },
        )

    def __enter__(self) -> _Peer:
        self._read("ready")
        return self

    def ask(self, command: str) -> None:
        """Carry out one command."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        self._read("done")

    def _read(self, expected: str) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith(expected):
                return
            if line.startswith("error"):
                raise RuntimeError(f"BrowserGym: {line.strip()}")
        raise RuntimeError("BrowserGym ended")

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment() -> Path:
    """BrowserGym's Python, installed if it is not yet there."""
    python = PLACE / "bin" / "python"
    ready = PLACE / "ready"
    if not ready.exists():
        print(f"installing {REQUIREMENT} into {PLACE}", flush=True)
        started = time.monotonic()
        venv.create(PLACE, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", REQUIREMENT], check=True, stdout=sys.stderr)
        ready.touch()
        print(f"installed in {time.monotonic() - started:.0f} s", flush=True)
    return python


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"miniwob": miniwob}
