"""One Chromium for many sessions: found, started with deterministic flags, cut off from the network, watched.

A browser holds many isolated pages, each a context of its own. Screenshots go over the DevTools protocol and are the
same bytes for the same page: no caret, no animations, no sub-pixel text. Whatever a page asks of the network is
refused and logged unless its origin is on the allow list. A browser that dies or hangs raises `InfrastructureError`
within its time-out and is started again for the next page.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import secrets
import shutil
import signal
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assets.errors import InfrastructureError, MissingProgramError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, Playwright, Route, WebSocketRoute

log = logging.getLogger(__name__)

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--disable-partial-raster",
    "--disable-skia-runtime-opts",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
    "--disable-frame-rate-limit",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
"""Every machine draws alike and nothing phones home."""

STILL = (
    "*,*::before,*::after{caret-color:transparent!important;animation:none!important;transition:none!important;"
    "scroll-behavior:auto!important}"
)
"""Style sheet of every page: what moves on its own would make two screenshots of one state differ."""

START_SECONDS = 60.0
"""How long a browser may take to start on a busy machine."""

_LOCAL_SCHEMES = ("file", "data", "about", "blob")


def find_chromium() -> str:
    """Path of the Chromium to drive: HESPER_CHROMIUM, else Playwright's own download, else the distribution's.

    Raises:
        MissingProgramError: none is installed; the message says how to get one.
    """
    named = os.environ.get("HESPER_CHROMIUM")
    if named:
        if not os.access(named, os.X_OK):
            raise MissingProgramError(f"HESPER_CHROMIUM names {named}, which is not a program")
        return named
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))
    downloads = sorted(cache.glob("chromium-*/chrome-linux*/chrome"), key=lambda path: (len(path.parts[-3]), path))
    if downloads:
        return str(downloads[-1])
    for name in ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    raise MissingProgramError(
        "no Chromium found: run `playwright install --with-deps chromium`, or `apt-get install chromium`, "
        "or set HESPER_CHROMIUM to the path of one"
    )


@contextmanager
def browser(allow: Sequence[str] = (), timeout: float = 60.0) -> Iterator[Chromium]:
    """A running Chromium, closed at the end of the block.

    Args:
        allow: origins that pages may reach, such as `https://staging.example.org`; everything else that is not a
            local file is refused and logged.
        timeout: seconds after which a call counts as hung and the browser is killed.
    """
    chromium = Chromium(allow, timeout)
    try:
        yield chromium
    finally:
        chromium.close()


def screenshot(page: Page, clip: tuple[float, float, float, float] | None = None) -> bytes:
    """PNG of what the page shows, or of `clip` (x, y, width, height in CSS pixels)."""
    options: dict[str, Any] = {"format": "png"}
    if clip is not None:
        options["clip"] = dict(zip(("x", "y", "width", "height"), clip, strict=True), scale=1)
    return base64.b64decode(devtools(page).send("Page.captureScreenshot", options)["data"])


def devtools(page: Page) -> CDPSession:
    """The page's DevTools session, opened once."""
    session = _devtools.get(page)
    if session is None:
        session = _devtools[page] = page.context.new_cdp_session(page)
    return session


_devtools: weakref.WeakKeyDictionary[Page, CDPSession] = weakref.WeakKeyDictionary()


class Chromium:
    """A Chromium process with its pages. It starts with the first page and again after it died.

    Attributes:
        allow: origins that pages may reach.
        timeout: seconds after which a guarded call counts as hung.
        refused: addresses that pages asked for and did not get, in order.
    """

    def __init__(self, allow: Sequence[str] = (), timeout: float = 60.0) -> None:
        self.allow = frozenset(_origin(url) for url in allow)
        self.timeout = timeout
        self.refused: list[str] = []
        self._browser: Browser | None = None
        self._token = ""
        self._driver = _Driver.acquire()
        self._watchdog = _Watchdog(self.kill)

    @property
    def alive(self) -> bool:
        """Whether the process runs and answers to its pipe."""
        return self._browser is not None and self._browser.is_connected()

    def new_page(
        self, width: int, height: int, locale: str = "en-US", touch: bool = False, downloads: bool = False
    ) -> Page:
        """A page in a context of its own. Closing `page.context` gives everything back.

        Raises:
            MissingProgramError: no Chromium is installed.
            InfrastructureError: it does not start or does not answer.
        """
        running = self._start()
        with self.guard("open a page"):
            context: BrowserContext = running.new_context(
                viewport={"width": width, "height": height},
                locale=locale,
                has_touch=touch,
                timezone_id="UTC",
                reduced_motion="reduce",
                color_scheme="light",
                accept_downloads=downloads,
                service_workers="block",
            )
            context.set_default_timeout(self.timeout * 1000)
            context.route(_REMOTE, self._decide)
            context.route_web_socket(re.compile(""), self._decide_socket)
            context.add_init_script(STILL_SCRIPT)
            return context.new_page()

    @contextmanager
    def guard(self, what: str, timeout: float | None = None) -> Iterator[None]:
        """Turn a crash of the browser, or its silence for `timeout` seconds, into an `InfrastructureError`."""
        from playwright.sync_api import Error

        timeout = self.timeout if timeout is None else timeout
        try:
            with self._watchdog.limit(timeout):
                yield
        except Error as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if self._watchdog.fired:
                reason = f"no answer for {timeout:g} s"
            raise InfrastructureError(f"Chromium failed to {what}: {reason}") from error

    def allows(self, url: str) -> bool:
        """Whether pages may reach an address."""
        return urlsplit(url).scheme in _LOCAL_SCHEMES or _origin(url) in self.allow

    def refuse(self, url: str) -> None:
        """Log that an address was asked for and is not allowed."""
        self.refused.append(url)
        log.warning("refused: %s", url)

    def kill(self) -> None:
        """End the process at once, whatever it is doing. The next page starts a new one."""
        for pid in _processes_with(self._token):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def pids(self) -> list[int]:
        """Process ids of the browser's main process (empty before the first page)."""
        return _processes_with(self._token)

    def close(self) -> None:
        """Close every page and the process."""
        from playwright.sync_api import Error

        if self._browser is not None:
            try:
                with self._watchdog.limit(self.timeout):
                    self._browser.close()
            except Error:
                self.kill()
            self._browser = None
        self._watchdog.stop()
        self._driver.release()

    def _start(self) -> Browser:
        if not self.alive:
            self._token = f"--hesper-instance={secrets.token_hex(8)}"
            hosts = sorted({urlsplit(origin).hostname or "" for origin in self.allow})
            resolver = ", ".join(["MAP * ~NOTFOUND", *(f"EXCLUDE {host}" for host in hosts)])
            program = find_chromium()
            with self.guard("start", START_SECONDS + self.timeout):
                self._browser = self._driver.playwright.chromium.launch(
                    executable_path=program,
                    args=[*FLAGS, f"--host-resolver-rules={resolver}", self._token],
                    timeout=START_SECONDS * 1000,
                )
        assert self._browser is not None
        return self._browser

    def _decide(self, route: Route) -> None:
        url = route.request.url
        if self.allows(url):
            route.continue_()
        else:
            self.refuse(url)
            route.abort("blockedbyclient")

    def _decide_socket(self, socket: WebSocketRoute) -> None:
        if _origin(socket.url) in self.allow:
            socket.connect_to_server()
        else:
            self.refuse(socket.url)
            socket.close(code=1008, reason="not on the allow list")


_REMOTE = re.compile(r"^(?!file:|data:|about:|blob:)")
STILL_SCRIPT = f"""(() => {{
  const sheet = new CSSStyleSheet();
  sheet.replaceSync({STILL!r});
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}})()"""


def _origin(url: str) -> str:
    """scheme://host:port with the default port written out; web sockets count as the http they start from."""
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    port = parts.port or {"http": 80, "https": 443}.get(scheme)
    return f"{scheme}://{parts.hostname}:{port}"


def _processes_with(token: str) -> list[int]:
    """Pids whose command line holds `token`; Playwright does not tell the pid of what it started."""
    if not token:
        return []
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in command and b"--type=" not in command:
            found.append(int(folder.name))
    return sorted(found)


class _Driver:
    """Playwright's driver process: one a thread, shared by its browsers, stopped with the last of them."""

    _of_thread = threading.local()

    def __init__(self) -> None:
        from playwright.sync_api import sync_playwright

        self.playwright: Playwright = sync_playwright().start()
        self._users = 0

    @classmethod
    def acquire(cls) -> _Driver:
        driver: _Driver | None = getattr(cls._of_thread, "driver", None)
        if driver is None:
            driver = cls._of_thread.driver = cls()
        driver._users += 1
        return driver

    def release(self) -> None:
        self._users -= 1
        if self._users == 0:
            self.playwright.stop()
            self._of_thread.driver = None


class _Watchdog:
    """A thread that calls `action` when a limit runs out. Playwright's evaluate and CDP calls have no time-out."""

    def __init__(self, action: Any) -> None:
        self._action = action
        self._deadline: float | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self.fired = False

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Let the block take `seconds`. Limits nest: the outermost holds."""
        if self._deadline is not None:
            yield
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="chromium-watchdog", daemon=True)
            self._thread.start()
        self.fired = False
        self._deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = None

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(0.25):
            deadline = self._deadline
            # Again and again until the call gives up: a process that was just starting may have been missed.
            if deadline is not None and time.monotonic() > deadline:
                self.fired = True
                self._action()
