"""Work that needs sessions, spread over processes. Each process keeps its own browser and desktop for all its items."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, TypeVar

from assets.environments.session import Session, open_session
from assets.errors import HesperError, InfrastructureError

if TYPE_CHECKING:
    from assets.environments.chromium import Chromium

Item = TypeVar("Item")
Result = TypeVar("Result")


class Sessions:
    """Sessions of every platform (MiniWoB pages apart), opened when first asked for, sharing one browser."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self._open: dict[str, list[Session]] = {}
        self._chromium: Chromium | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def get(self, platform: str, app: str) -> Session:
        """The session that can play this app."""
        return self.several(platform, app, 1)[0]

    def several(self, platform: str, app: str, count: int) -> list[Session]:
        """Sessions that can all play this app, for episodes side by side."""
        opened = self._open.setdefault("miniwob" if app.startswith("miniwob/") else platform, [])
        while len(opened) < count:
            browser = None if platform == "desktop" else self._browser()
            opened.append(self._stack.enter_context(open_session(platform, self.size, app, browser)))
        return opened[:count]

    def _browser(self) -> Chromium:
        if self._chromium is None:
            from assets.environments.chromium import browser

            self._chromium = self._stack.enter_context(browser())
        return self._chromium


def spread(
    items: Iterable[Item], function: Callable[[Sessions, Item], Result], size: tuple[int, int], processes: int
) -> Iterator[tuple[int, Result]]:
    """Call `function(sessions, item)` on every item; yields (index, result) as they come.

    A process asks for its next item when it is done with one, and ends when this one is gone.

    Raises:
        HesperError: `function` raised it, or (InfrastructureError) a process died.
    """
    waiting = list(enumerate(items))[::-1]
    context = multiprocessing.get_context("spawn")
    busy: dict[Connection, int] = {}
    workers = []
    try:
        for _ in range(min(processes, len(waiting))):
            here, there = context.Pipe()
            worker = context.Process(target=_work, args=(there, function, size), daemon=True)
            worker.start()
            there.close()
            workers.append((worker, here))
            index, item = waiting.pop()
            here.send(item)
            busy[here] = index
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                index = busy.pop(ready)
                try:
                    result, error = ready.recv()
                except EOFError:
                    raise InfrastructureError("a process that plays sessions died") from None
                if error is not None:
                    raise error
                if waiting:
                    following, item = waiting.pop()
                    ready.send(item)
                    busy[ready] = following
                yield index, result
    finally:
        for _, connection in workers:
            connection.close()
        for worker, _ in workers:
            worker.join(10)
            if worker.is_alive():
                worker.kill()
                worker.join()


def _work(connection: Connection, function: Callable[[Sessions, Any], Any], size: tuple[int, int]) -> None:
    """The loop of one process: an item in, (result, error) out, until the other side closes."""
    with Sessions(size) as sessions:
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
