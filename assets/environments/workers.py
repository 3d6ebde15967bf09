"""Work that needs sessions, spread over processes. Each process keeps its own browser and desktop for all its items."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from assets.environments import folders
from assets.environments.folders import OwnedFolder
from assets.environments.session import Session, open_session
from assets.errors import HesperError, InfrastructureError

if TYPE_CHECKING:
    from assets.environments.chromium import Chromium
    from assets.environments.phone import PhoneParameters

Item = TypeVar("Item")
Result = TypeVar("Result")


class Sessions:
    """Sessions of every platform and size (MiniWoB pages apart), opened when first asked for; pages share a browser.

    Args:
        size: of a screen, where none is asked for.
        phone: which phone is driven; simulated ones without it.
    """

    def __init__(self, size: tuple[int, int], phone: PhoneParameters | None = None) -> None:
        self.size = size
        self.phone = phone
        self._open: dict[tuple[str, tuple[int, int]], list[Session]] = {}
        self._chromium: Chromium | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def get(self, platform: str, app: str, size: tuple[int, int] | None = None) -> Session:
        """The session that can play this app, on a screen of this size (default: the size of all)."""
        return self.several(platform, app, 1, size)[0]

    def several(self, platform: str, app: str, count: int, size: tuple[int, int] | None = None) -> list[Session]:
        """Sessions that can all play this app, for episodes side by side: `count`, or the one phone that was named."""
        if platform == "mobile" and self.phone is not None and self.phone.adb:
            count = 1
        kind = "miniwob" if app.startswith("miniwob/") else platform
        size = self.size if size is None else size
        opened = self._open.setdefault((kind, size), [])
        while len(opened) < count:
            browser = self._browser() if platform == "web" else None
            options = {"phone": self.phone} if platform == "mobile" else {}
            opened.append(self._stack.enter_context(open_session(platform, size, app, browser, **options)))
        return opened[:count]

    def _browser(self) -> Chromium:
        if self._chromium is None:
            from assets.environments.chromium import browser

            self._chromium = self._stack.enter_context(browser())
        return self._chromium


def spread(
    items: Iterable[Item],
    function: Callable[[Sessions, Item], Result],
    size: tuple[int, int],
    processes: int | Mapping[str, int],
    attempts: int = 2,
    seconds: float | None = None,
    lost: Callable[[Item, InfrastructureError], Result] | None = None,
    phone: PhoneParameters | None = None,
    kind: Callable[[Item], str] = lambda item: "",
) -> Iterator[tuple[int, Result]]:
    """Call `function(sessions, item)` on every item; yields (index, result) as they come.

    A process asks for its next item when it is done with one, and ends when this one is gone. One that dies, or takes
    more than `seconds` for an item, is replaced and the item tried again, `attempts` times in all; nothing that the
    process had started goes on running, and none of its files stay.

    Args:
        processes: how many are at work at once; by kind, where items of several kinds go on beside each other. Items of
            one kind are begun in their order.
        lost: makes the result of an item that was given up; without it that is an error.
        phone: which phone is driven; simulated ones without it. There is one phone of that name: where `processes` is a
            number, one process works.
        kind: of an item, where `processes` tells kinds apart.

    Raises:
        HesperError: `function` raised it, or (InfrastructureError) an item was given up.
    """
    everything = list(items)
    if isinstance(processes, int):
        processes = {"": 1 if phone is not None and phone.adb else processes}
    lanes = {name: _Lane(most) for name, most in processes.items()}
    for index, item in enumerate(everything):
        lanes[kind(item)].waiting.append(index)
    lives: Counter[int] = Counter()
    busy: dict[Connection, _Worker] = {}

    def employ(lane: _Lane) -> None:
        """Let a process of the lane begin what waits longest there."""
        worker = lane.idle.pop() if lane.idle else _Worker(function, size, phone, lane)
        lane.busy += 1
        busy[worker.connection] = worker
        worker.give(lane.waiting[0], everything[lane.waiting.popleft()], seconds)

    sweep()
    try:
        while busy or any(lane.waiting for lane in lanes.values()):
            for lane in lanes.values():
                while lane.waiting and lane.busy < lane.most:
                    employ(lane)
            for ready in _ready(busy, seconds):
                worker = busy[ready]
                answer = worker.answer()
                del busy[ready]
                worker.lane.busy -= 1
                if answer is None:
                    worker.end()
                    lives[worker.index] += 1
                    if lives[worker.index] < attempts:
                        worker.lane.waiting.appendleft(worker.index)
                        continue
                    trouble = InfrastructureError(f"{worker.trouble}, {attempts} times in a row")
                    if lost is None:
                        raise trouble
                    yield worker.index, lost(everything[worker.index], trouble)
                    continue
                worker.lane.idle.append(worker)
                result, error = answer
                if error is not None:
                    raise error
                index = worker.index
                if worker.lane.waiting:  # the process works on while the caller does something with the result
                    employ(worker.lane)
                yield index, result
    finally:
        workers = [*busy.values(), *(worker for lane in lanes.values() for worker in lane.idle)]
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            worker.end(patience=10)


@dataclass
class _Lane:
    """Items of one kind: those that wait, and the processes that work on them, `most` at once."""

    most: int
    waiting: deque[int] = field(default_factory=deque)
    idle: list[_Worker] = field(default_factory=list)
    busy: int = 0


class _Worker:
    """A process with sessions of its own, and a folder that holds all its temporary files and goes with it."""

    def __init__(
        self,
        function: Callable[[Sessions, Any], Any],
        size: tuple[int, int],
        phone: PhoneParameters | None,
        lane: _Lane,
    ) -> None:
        self.lane = lane
        context = multiprocessing.get_context("spawn")
        self.folder = OwnedFolder("worker")
        self.connection, there = context.Pipe()
        self.process = context.Process(target=_work, args=(there, function, size, self.folder.path, phone), daemon=True)
        self.process.start()
        there.close()
        self.index = -1
        self.deadline = 0.0
        self.trouble = ""

    def give(self, index: int, item: Any, seconds: float | None) -> None:
        """Send the next item."""
        self.index = index
        self.deadline = time.monotonic() + (seconds or 0.0)
        # A process that died while it had nothing to do: its connection tells, when it is asked for the answer.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(item)

    def answer(self) -> tuple[Any, HesperError | None] | None:
        """(result, error), or None if the process died or took too long; then `trouble` says which."""
        try:
            if not self.connection.poll():
                self.trouble = "a process that plays sessions did not answer in time"
                return None
            answer: tuple[Any, HesperError | None] = self.connection.recv()
            return answer
        except (EOFError, OSError):
            self.trouble = "a process that plays sessions died"
            return None

    def end(self, patience: float = 0.0) -> None:
        """End the process, what it started and its files; `patience` is how long it may take to do so itself."""
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()
        self.folder.end()


def _ready(busy: Mapping[Connection, _Worker], seconds: float | None) -> list[Connection]:
    """The connections that have an answer, are closed, or whose time is up."""
    if seconds is None:
        return [ready for ready in wait(list(busy)) if isinstance(ready, Connection)]
    while True:
        now = time.monotonic()
        late = [connection for connection, worker in busy.items() if worker.deadline <= now]
        patience = 0.0 if late else min(worker.deadline for worker in busy.values()) - now
        ready = [found for found in wait(list(busy), patience) if isinstance(found, Connection)]
        if ready or late:
            return [*ready, *(connection for connection in late if connection not in ready)]


def _work(
    connection: Connection,
    function: Callable[[Sessions, Any], Any],
    size: tuple[int, int],
    folder: Path,
    phone: PhoneParameters | None,
) -> None:
    """The loop of one process: an item in, (result, error) out, until the other side closes."""
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        with Sessions(size, phone) as sessions:
            while True:
                try:
                    item = connection.recv()
                except (EOFError, OSError):
                    return
                try:
                    answer: tuple[Any, HesperError | None] = (function(sessions, item), None)
                except HesperError as error:
                    answer = (None, error)
                except Exception:
                    answer = (None, HesperError(traceback.format_exc()))
                try:
                    connection.send(answer)
                except (BrokenPipeError, OSError):
                    return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """End and remove what was left behind by processes that were killed together with all that watched over them."""
    from assets.environments.desktop import place

    folders.sweep()
    place.sweep()
