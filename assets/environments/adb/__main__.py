"""python -m assets.environments.adb: simulated phones behind an ADB server, for people and for sessions.

By hand it switches phones on, prints how to reach them, and runs until it is interrupted:

    python -m assets.environments.adb --size 360x640 --phones 2 --port 5038

With --owned it takes orders as JSON lines on its standard input, answers on its standard output, and ends when the
input does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
from typing import Any

from assets.environments.adb.device import Device
from assets.environments.adb.devtools import BrokenError, Browser, ScriptError
from assets.environments.adb.server import AdbServer
from assets.errors import HesperError, MissingProgramError

CAPACITY = 64 << 20
"""Bytes of files that a phone may hold."""


def main() -> None:
    """Run until the input ends, or somebody interrupts."""
    parser = argparse.ArgumentParser(prog="python -m assets.environments.adb", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--port", type=int, default=5038, help="where to answer adb clients, on 127.0.0.1 (0: any free port)"
    )
    parser.add_argument("--phones", type=int, default=1, help="how many phones to switch on")
    parser.add_argument("--size", default="360x640", help="their screen, in pixels")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds after which a phone's page counts as hung")
    parser.add_argument("--owned", action="store_true", help="take orders on the standard input")
    arguments = parser.parse_args()
    logging.basicConfig(format="adb server: %(message)s", level=logging.WARNING)
    try:
        width, height = (int(part) for part in arguments.size.split("x"))
    except ValueError:
        parser.error("--size is WIDTHxHEIGHT, such as 360x640")
    farm = Farm(arguments.timeout)
    with contextlib.suppress(KeyboardInterrupt):
        if arguments.owned:
            asyncio.run(_serve_owner(farm, arguments.port))
        else:
            asyncio.run(_serve_people(farm, arguments.port, (width, height), arguments.phones))


class Farm:
    """Phones on one browser, which is started with the first of them and again after it died."""

    def __init__(self, timeout: float) -> None:
        self.server = AdbServer()
        self._timeout = timeout
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()
        self._count = 0

    async def add(self, size: tuple[int, int], specs: dict[str, Any] | None, program: bool) -> Device:
        """Switch a phone on.

        Raises:
            BrokenError: the browser fails.
            HesperError: an app's spec is broken, or no Chromium is installed.
        """
        loading = asyncio.create_task(asyncio.to_thread(_load_apps, specs))
        try:
            browser = await self._running_browser()
        finally:
            apps = await loading
        self._count += 1
        device = Device(f"hesper-{self._count}", self._count, size, apps, CAPACITY, program)
        try:
            await device.start(browser)
        except BrokenError:
            # A browser that gives no page is of no use to the others either: once more with a fresh one.
            browser.kill()
            await browser.gone.wait()
            await device.start(await self._running_browser())
        self.server.attach(device)
        device.page.on_broken = self.server.tell
        return device

    async def close(self) -> None:
        """Switch everything off."""
        await self.server.close()
        if self._browser is not None:
            await self._browser.close()

    async def _running_browser(self) -> Browser:
        async with self._starting:
            if self._browser is not None and self._browser.gone.is_set():
                await self._browser.close()
                self._browser = None
            if self._browser is None:
                self._browser = await Browser.start(self._timeout)
            return self._browser


def _load_apps(specs: dict[str, Any] | None) -> Any:
    # Slow to import, so it is done while the browser starts.
    from assets.environments.adb import catalogue

    return catalogue.shipped() if specs is None else catalogue.GivenApps(specs)


async def _serve_owner(farm: Farm, port: int) -> None:
    """Orders as JSON lines: `{"do": "add", "size", "specs", "program"}` and `{"do": "remove", "serial"}`."""
    reader = asyncio.StreamReader(limit=1 << 28)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await farm.server.listen(port)
    _say({"port": farm.server.port})
    try:
        while line := await reader.readline():
            order = json.loads(line)
            if order["do"] == "remove":
                await farm.server.detach(order["serial"])
                _say({})
                continue
            try:
                device = await farm.add(tuple(order["size"]), order["specs"], order["program"])
            except MissingProgramError as error:
                _say({"missing": str(error)})
            except (BrokenError, ScriptError, HesperError, ValueError) as error:
                _say({"error": str(error)})
            else:
                _say({"serial": device.serial})
    finally:
        await farm.close()


async def _serve_people(farm: Farm, port: int, size: tuple[int, int], phones: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await farm.server.listen(port)
        for _ in range(phones):
            await farm.add(size, None, program=True)
        print(f"adb -L tcp:127.0.0.1:{farm.server.port} devices", flush=True)
        await stop.wait()
    finally:
        await farm.close()


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
