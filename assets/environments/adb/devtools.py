"""The browser that draws the phones, spoken to over its DevTools pipe: one connection for all pages, no driver between.

The browser ends when the pipe closes, so it can't outlive this process, however that ends; a waiting `sh` then removes
its folder, the only place it writes to.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from assets.environments.chromium import FLAGS, START_SECONDS, STILL_SCRIPT, find_chromium
from assets.environments.folders import OwnedFolder

log = logging.getLogger(__name__)

MORE_FLAGS = (
    "--headless",
    "--mute-audio",
    "--no-startup-window",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--allow-pre-commit-input",
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",
    "--disable-back-forward-cache",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-features=PaintHolding,OptimizationHints,MediaRouter,NetworkTimeServiceQuerying,HttpsUpgrades,"
    "DestroyProfileOnBrowserClose,PreconnectToSearch",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    "--disable-infobars",
    "--disable-ipc-flooding-protection",
    "--disable-popup-blocking",
    "--disable-renderer-backgrounding",
    "--disable-search-engine-choice-screen",
    "--enable-features=CDPScreenshotNewSurface",
    "--enable-unsafe-swiftshader",
    "--metrics-recording-only",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--remote-debugging-pipe",
)
"""What Playwright passes too, so that both draw the same bytes; and a proxy that is not there, so that nothing leaves
the browser, whatever asks for it."""

CLOSE_SECONDS = 10.0
"""How long a page may take to close, before it counts as hung."""

_LONGEST_MESSAGE = 1 << 28
_LONGEST_PATH = 35
"""Of the folder for temporary files: Chromium makes a socket in it, whose path may have 107 characters."""
_RUN = '"$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf "$0"'

Result = TypeVar("Result")


class BrokenError(Exception):
    """The browser or a page of it is gone, or did not answer in time."""


class ScriptError(Exception):
    """A script of ours threw."""


class Browser:
    """A running Chromium.

    Attributes:
        timeout: seconds after which a call counts as hung.
        gone: set when the process has ended.
    """

    def __init__(self, process: asyncio.subprocess.Process, folder: OwnedFolder, timeout: float) -> None:
        self.timeout = timeout
        self.gone = asyncio.Event()
        self.pages: dict[str, Page] = {}
        self._process = process
        self._folder = folder
        self._waiting: dict[int, tuple[str | None, asyncio.Future[Any]]] = {}
        self._last = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, timeout: float) -> Browser:
        """Start one and wait until it answers.

        Raises:
            MissingProgramError: no Chromium is installed.
            BrokenError: it does not start.
        """
        program = find_chromium()
        owned = OwnedFolder("adb", "/tmp" if len(tempfile.gettempdir()) > _LONGEST_PATH else None)
        folder = str(owned.path)
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", _RUN, folder, program, *FLAGS, *MORE_FLAGS, f"--user-data-dir={folder}/profile",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_MESSAGE, env={**os.environ, "TMPDIR": folder}, start_new_session=True,
        )  # fmt: skip
        browser = cls(process, owned, timeout)
        try:
            await browser.call("Browser.getVersion", timeout=START_SECONDS)
            await browser.call("Browser.setDownloadBehavior", {"behavior": "deny"})
        except BrokenError:
            browser.kill()
            raise
        return browser

    async def call(
        self,
        method: str,
        parameters: dict[str, Any] | None = None,
        session: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Call a method of the DevTools protocol.

        Raises:
            BrokenError: no answer, or the answer is an error.
        """
        if self.gone.is_set():
            raise BrokenError("the browser is gone")
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = session
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = session, future
        assert self._process.stdin is not None
        seconds = self.timeout if timeout is None else timeout
        try:
            self._process.stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\0")
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise BrokenError(f"{method}: no answer for {seconds:g} s") from None
        except (ConnectionError, RuntimeError) as error:
            raise BrokenError(f"{method}: {error}") from None
        finally:
            self._waiting.pop(message["id"], None)

    async def new_page(self, url: str, width: int, height: int) -> Page:
        """A tab with a document of our own: a tab is drawn like a window, at a third of the time and memory.

        Raises:
            BrokenError: the browser does not give one, or the document does not load.
        """
        target = await self.call("Target.createTarget", {"url": url})
        attached = await self.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        page = Page(self, target["targetId"], attached["sessionId"])
        self.pages[page.session] = page
        screen = {
            "width": width,
            "height": height,
            "screenWidth": width,
            "screenHeight": height,
            "deviceScaleFactor": 1,
            "mobile": False,
        }
        features = {"prefers-reduced-motion": "reduce", "prefers-color-scheme": "light"}
        still = [{"name": name, "value": value} for name, value in features.items()]
        await gathered(
            page.call("Page.enable"),
            page.call("Inspector.enable"),
            page.call("Emulation.setDeviceMetricsOverride", screen),
            page.call("Emulation.setTouchEmulationEnabled", {"enabled": True}),
            page.call("Emulation.setFocusEmulationEnabled", {"enabled": True}),
            page.call("Emulation.setEmulatedMedia", {"features": still}),
            page.call("Emulation.setTimezoneOverride", {"timezoneId": "UTC"}),
            page.call("Emulation.setLocaleOverride", {"locale": "en-US"}),
            page.call("Fetch.enable", {"patterns": [{"urlPattern": "http*"}, {"urlPattern": "ws*"}]}),
        )
        await self._loaded(url, page.session)
        await page.evaluate(STILL_SCRIPT)
        return page

    async def _loaded(self, url: str, session: str) -> None:
        """Wait until a tab shows a document whole."""
        question = {"expression": "document.readyState + ' ' + location.href", "returnByValue": True}
        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            # The empty document before it may go away while it is asked.
            with contextlib.suppress(BrokenError):
                answer = await self.call("Runtime.evaluate", question, session)
                if answer["result"].get("value") == f"complete {url}":
                    return
            if self.gone.is_set():
                raise BrokenError("the browser is gone")
            await asyncio.sleep(0.005)
        raise BrokenError(f"{url} did not load within {self.timeout:g} s")

    def abandon(self, session: str | None, reason: str) -> None:
        """Fail the calls that wait for an answer of a session."""
        for owner, future in self._waiting.values():
            if owner == session and not future.done():
                future.set_exception(BrokenError(reason))

    def kill(self) -> None:
        """End the process at once, and take its folder away."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._folder.remove()

    async def close(self) -> None:
        """End the process and wait until it is gone."""
        with contextlib.suppress(BrokenError):
            await self.call("Browser.close", timeout=5)
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        await self._reading
        self._folder.remove()

    async def _read(self) -> None:
        """Hand answers and events on until the pipe ends."""
        assert self._process.stdout is not None
        while True:
            try:
                message = json.loads((await self._process.stdout.readuntil(b"\0"))[:-1])
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
                break
            if "id" in message:
                _, future = self._waiting.get(message["id"], (None, None))
                if future is not None and not future.done():
                    if "error" in message:
                        future.set_exception(BrokenError(message["error"].get("message", "unknown error")))
                    else:
                        future.set_result(message["result"])
            elif page := self.pages.get(message.get("sessionId", "")):
                page.happened(message["method"], message["params"])
        self.gone.set()
        for session in {session for session, _ in self._waiting.values()}:
            self.abandon(session, "the browser is gone")
        for page in [*self.pages.values()]:
            page.fail("the browser is gone")


class Page:
    """A page of the browser, attached. `broken` is set when it crashed, hung or lost its browser."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self.browser = browser
        self.target = target
        self.session = session
        self.broken = asyncio.Event()
        self.on_broken: Callable[[], None] | None = None
        self._reason = ""

    async def call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a method of the DevTools protocol on this page.

        Raises:
            BrokenError: the page is broken, now or before.
        """
        if self.broken.is_set():
            raise BrokenError(self._reason)
        try:
            return await self.browser.call(method, parameters, self.session)
        except BrokenError as error:
            self.fail(str(error))
            raise

    async def evaluate(self, expression: str) -> Any:
        """The JSON value of an expression.

        Raises:
            ScriptError: it threw.
            BrokenError: the page is broken.
        """
        result = await self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details["text"]
            raise ScriptError(str(text).splitlines()[0])
        return result["result"].get("value")

    async def screenshot(self) -> bytes:
        """PNG of what the page shows."""
        picture = await self.call("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
        return base64.b64decode(picture["data"])

    async def move(self, x: float, y: float, pressed: bool = False) -> None:
        """Move the mouse, with its left button down or not."""
        button = {"button": "left", "buttons": 1} if pressed else {"button": "none", "buttons": 0}
        await self.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y, **button})

    async def press(self, x: float, y: float, clicks: int = 1, when: float | None = None) -> None:
        """Push the left button down, for the `clicks`-th time at this place.

        Args:
            when: the time of it that the page is told, in seconds since 1970; the present one without it.
        """
        event = {"type": "mousePressed", "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": clicks}
        await self.call("Input.dispatchMouseEvent", event | _stamp(when))

    async def release(self, x: float, y: float, clicks: int = 1, when: float | None = None) -> None:
        """Let the left button go; `when` as in `press`."""
        event = {"type": "mouseReleased", "x": x, "y": y, "button": "left", "buttons": 0, "clickCount": clicks}
        await self.call("Input.dispatchMouseEvent", event | _stamp(when))

    async def key(self, key: Key, modifiers: int = 0) -> None:
        """Press and release a key."""
        event = {"key": key.key, "code": key.code, "windowsVirtualKeyCode": key.number, "modifiers": modifiers}
        text = key.text if modifiers in (0, SHIFT) else ""
        down = {"type": "keyDown" if text else "rawKeyDown", "text": text, "unmodifiedText": text}
        commands = {"commands": ["selectAll"]} if modifiers == CONTROL and key.key == "a" else {}
        await self.call("Input.dispatchKeyEvent", event | down | commands)
        await self.call("Input.dispatchKeyEvent", event | {"type": "keyUp"})

    async def insert(self, text: str) -> None:
        """Put text into what has the focus, as an input method does."""
        await self.call("Input.insertText", {"text": text})

    async def close(self) -> None:
        """Give the page back; one that hangs costs the whole browser."""
        self.browser.pages.pop(self.session, None)
        self.fail("the page is closed")
        if self.browser.gone.is_set():
            return
        try:
            await self.browser.call("Target.closeTarget", {"targetId": self.target}, timeout=CLOSE_SECONDS)
        except BrokenError as error:
            log.warning("closing a page failed (%s): the browser is killed", error)
            self.browser.kill()

    def fail(self, reason: str) -> None:
        """Mark as broken."""
        if not self.broken.is_set():
            self._reason = reason
            self.broken.set()
            self.browser.abandon(self.session, reason)
            if self.on_broken is not None:
                self.on_broken()

    def happened(self, event: str, parameters: dict[str, Any]) -> None:
        """An event of the page."""
        if event == "Inspector.targetCrashed":
            self.fail("the page crashed")
        elif event == "Inspector.detached":
            self.fail("the page was detached")
        elif event == "Fetch.requestPaused":
            log.warning("refused: %s", parameters["request"]["url"])
            refusal = {"requestId": parameters["requestId"], "errorReason": "BlockedByClient"}
            task = asyncio.create_task(self.browser.call("Fetch.failRequest", refusal, self.session))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _stamp(when: float | None) -> dict[str, float]:
    return {} if when is None else {"timestamp": when}


async def gathered(*work: Awaitable[Result]) -> list[Result]:
    """Results of work done side by side; the first failure after all have ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


# --- keys ------------------------------------------------------------------------------------------------------------

ALT, CONTROL, META, SHIFT = 1, 2, 4, 8
"""Modifiers of the DevTools protocol, to be added."""


@dataclass(frozen=True)
class Key:
    """A key as the DevTools protocol names it, with the Windows key number and the text it writes."""

    key: str
    code: str
    number: int
    text: str = ""
