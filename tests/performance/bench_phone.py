"""Phones over ADB: cold start, memory, snapshots, the cost of ADB, and many of them at once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from assets.environments.adb.devtools import Browser, Page
from tests.performance.__main__ import Comparison

SIZE = (360, 720)
MOST = 16
STEPS = 20
"""Taps with a screenshot each, of one session in one run."""
PUBLISHED = "MobileGym, as published"


def phone() -> Iterator[Comparison]:
    """A full app on a screen of 360x720 pixels; every phone has its own page and its own connection."""
    from assets.agent.actions import Action
    from assets.environments.apps import Shelf
    from assets.environments.phone import PhoneSession
    from assets.environments.task import TaskContract

    heads = Shelf("mobile").heads
    full = [head for head in heads.values() if head.scale == "full"]
    app = full[0].id
    task = TaskContract("t", "mobile", app, heads[app].locale, "")
    tap = Action("Click", point=(500, 400))

    def ready(stack: ExitStack) -> PhoneSession:
        session = stack.enter_context(PhoneSession(SIZE))
        session.reset(task)
        session.observe()
        return session

    def cold() -> float:
        with ExitStack() as stack:
            start = time.perf_counter()
            ready(stack)
            return time.perf_counter() - start

    with ExitStack() as stack:
        session = ready(stack)
        yield Comparison(
            "phone_cold_start", f"a phone with {app}, off to first screenshot, {SIZE[0]}x{SIZE[1]}, browser runs",
            PUBLISHED, cold, 3.0, unit="seconds_to_screenshot",
            note="a new page, the runtime, 200 apps known, the app's spec read and drawn; bar 0.5 s",
        )  # fmt: skip

        def start_all() -> float:
            from assets.environments.adb.client import Phone
            from assets.environments.adb.phones import Phones

            server = Phones()
            try:
                start = time.perf_counter()
                serial = server.add(SIZE)
                Phone(("127.0.0.1", server.port), serial, 60).shell("screencap -p")
                return time.perf_counter() - start
            finally:
                server.close()

        yield Comparison(
            "phone_first_start", "the ADB server and its browser, then a phone, nothing to first screenshot", PUBLISHED,
            start_all, 3.0, runs=3, unit="seconds_to_screenshot", note="once a process, shared by all its phones",
        )  # fmt: skip

        saved = session.snapshot()

        def snapshot_and_restore() -> None:
            session.snapshot()
            session.restore(saved)

        yield Comparison(
            "phone_snapshot_restore", f"snapshot and restore of {app}", "the bar of 50 ms", snapshot_and_restore, 0.05,
            runs=20,
        )  # fmt: skip

        def step() -> None:
            session.act(tap)
            session.observe()

        with asyncio.Runner() as runner:
            plain = runner.run(_PlainPage.open(app))
            yield Comparison(
                "phone_step", "a tap, then a screenshot, over ADB", "the same over the browser's pipe alone", step,
                lambda: runner.run(plain.step(180.0, 288.0)), runs=20,
                note="adbutils, two connections, the server's process: what ADB costs",
            )  # fmt: skip
            runner.run(plain.close())

        sessions = [session]
        pool = stack.enter_context(ThreadPoolExecutor(MOST))

        def together(count: int) -> Callable[[], None]:
            def run() -> None:
                list(pool.map(work, sessions[:count]))

            return run

        def work(one: PhoneSession) -> None:
            for _ in range(STEPS):
                one.act(tap)
                one.observe()

        for count in (1, 2, 4, 8, MOST):
            while len(sessions) < count:
                sessions.append(ready(stack))
            yield Comparison(
                f"phone_sessions_{count}", f"a tap and a screenshot, {count} sessions at once", "one session",
                together(count), together(1), units=(count * STEPS, STEPS), runs=3,
                note="time for each of all actions together: the ratio is how many times as many a second",
            )  # fmt: skip

        yield Comparison(
            "phone_busy_cores", f"cores that are busy while {MOST} sessions act at once, whoever keeps them busy",
            "all there are", lambda: _busy_cores(together(MOST)), float(os.cpu_count() or 1), runs=3, unit="cores",
        )  # fmt: skip

        server = session._phones
        assert server is not None
        yield Comparison(
            "phone_memory", f"memory of a phone session, {MOST} sessions at once", PUBLISHED,
            lambda: _proportional_megabytes(server.pid) / MOST, 400.0, runs=3, unit="megabytes",
            note="the server, the browser and all below it, proportional set size over 16; bar 100 MB",
        )  # fmt: skip


@dataclass
class _PlainPage:
    """The same page, spoken to over the DevTools pipe in this process, with no ADB between."""

    browser: Browser
    page: Page

    @classmethod
    async def open(cls, app: str) -> _PlainPage:
        from assets.environments.adb.catalogue import shipped
        from assets.environments.adb.device import Device

        browser = await Browser.start(60)
        device = Device("plain", 1, SIZE, shipped(), 1 << 20, True)
        await device.start(browser)
        await device.launch(device.catalogue.apps[app])
        return cls(browser, device.page)

    async def step(self, x: float, y: float) -> bytes:
        await self.page.move(x, y)
        await self.page.press(x, y)
        await self.page.release(x, y)
        return await self.page.screenshot()

    async def close(self) -> None:
        await self.browser.close()


def _busy_cores(work: Callable[[], None]) -> float:
    """How many cores of the machine were busy on average while some work was done."""
    import psutil

    before, start = psutil.cpu_times(), time.perf_counter()
    work()
    after, seconds = psutil.cpu_times(), time.perf_counter() - start
    idle = (after.idle - before.idle) + (after.iowait - before.iowait)
    return (os.cpu_count() or 1) - idle / seconds


def _proportional_megabytes(pid: int) -> float:
    """Proportional set size of a process and all below it."""
    import psutil

    process = psutil.Process(pid)
    total = 0
    for each in [process, *process.children(recursive=True)]:
        for line in Path(f"/proc/{each.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"phone": phone}
