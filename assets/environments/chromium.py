"""One Chromium for many sessions: found, started with deterministic flags, cut off from the network, watched.

A browser holds many isolated pages, each a context of its own. Screenshots go over the DevTools protocol and are the
same bytes for the same page: no caret, no animations, no sub-pixel text. Whatever a page asks of the network or of this
machine's files is refused and logged unless it is on the allow list: requests are stopped in the browser, and what that
does not see (redirects, shared workers, web sockets, prefetching) at the `Gate`. A browser that dies or hangs raises
`InfrastructureError` within its time-out and is started again for the next page. Profile and temporary files lie in one
folder that goes with the process, however it ends.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assets.environments.folders import OwnedFolder
from assets.environments.gate import Gate
from assets.errors import InfrastructureError, MissingProgramError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, Playwright, Route

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
    "--disable-smooth-scrolling",
    "--disable-breakpad",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
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

_LOCAL_SCHEMES = ("data", "about", "blob")
_MAKERS_HOSTS = frozenset(
    f"{name}.{domain}"
    for domain, names in {
        "google.com": ("accounts", "clients1", "clients2", "clients4", "android.clients", "www"),
        "googleapis.com": ("update", "optimizationguide-pa", "safebrowsing", "content-autofill", "www"),
    }.items()
    for name in names
)
"""Where Chromium calls for updates and accounts, whatever its flags say."""


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
def browser(allow: Sequence[str] = (), timeout: float = 60.0, files: Sequence[Path] = ()) -> Iterator[Chromium]:
    """A running Chromium, closed at the end of the block.

    Args:
        allow: origins that pages may reach, such as `https://staging.example.org:8443`; another port is another origin.
        timeout: seconds after which a call counts as hung and the browser is killed.
        files: folders whose pages may be opened as `file://`, beside the project's own.
    """
    chromium = Chromium(allow, timeout, files)
    try:
        yield chromium
    finally:
        chromium.close()


def screenshot(page: Page, clip: tuple[float, float, float, float] | None = None) -> bytes:
    """PNG of what the page shows, or of `clip` (x, y, width, height in CSS pixels)."""
    options: dict[str, Any] = {"format": "png", "optimizeForSpeed": True}
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
        flags: more flags of the program, for those who look into it.
        refused: addresses that pages asked for and did not get, in order. Of what goes through a tunnel (https, web
            sockets) and was not stopped in the page, host and port.
    """

    def __init__(self, allow: Sequence[str] = (), timeout: float = 60.0, files: Sequence[Path] = ()) -> None:
        self.allow = frozenset(_origin(url) for url in allow)
        self.timeout = timeout
        self.flags: tuple[str, ...] = ()
        self.refused: list[str] = []
        self._foreign = _all_but(self.allow, (*_own_pages(), *(folder.resolve() for folder in files)))
        self._browser: Browser | None = None
        self._gate: Gate | None = None
        self._token = ""
        self._driver = _Driver.acquire()
        self._watchdog = _Watchdog(self.kill)

    @property
    def folder(self) -> Path:
        """Where files may lie that shall not outlive this process."""
        return self._driver.folder

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
            context.route(self._foreign, self._abort)
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
        return self._foreign.match(url) is None

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
        if self._gate is not None:
            self._gate.close()
            self._gate = None
        self._watchdog.stop()
        self._driver.release()

    def _start(self) -> Browser:
        if not self.alive:
            self._token = f"--hesper-instance={secrets.token_hex(8)}"
            if self._gate is None:
                self._gate = Gate(self.allows, self._stop)
            program = find_chromium()
            with self.guard("start", START_SECONDS + self.timeout):
                self._browser = self._driver.playwright.chromium.launch(
                    executable_path=program,
                    args=[*FLAGS, *self.flags, f"--proxy-server={self._gate.address}", self._token],
                    env={**os.environ, "TMPDIR": str(self.folder)},
                    timeout=START_SECONDS * 1000,
                )
        assert self._browser is not None
        return self._browser

    def _stop(self, url: str) -> None:
        """Log what the gate refused. The browser's own attempts to reach its maker are no page's."""
        if urlsplit(url).hostname in _MAKERS_HOSTS:
            log.debug("refused the browser itself: %s", url)
        else:
            self.refuse(url)

    def _abort(self, route: Route) -> None:
        self.refuse(route.request.url)
        route.abort("blockedbyclient")


def _all_but(allow: frozenset[str], folders: Sequence[Path]) -> re.Pattern[str]:
    """Matches the addresses that pages may not reach, in the syntax that Python and the browser's driver share."""
    allowed = [f"{scheme}:" for scheme in _LOCAL_SCHEMES]
    allowed += [f"{_escape(folder.as_uri())}/" for folder in folders]
    for origin in sorted(allow):
        scheme, _, host = origin.partition("://")
        for spelling in sorted({host, host.removesuffix({"http": ":80", "https": ":443"}.get(scheme, "-"))}):
            allowed.append(f"{scheme}://{_escape(spelling)}(?:[/?#]|$)")
    return re.compile(f"^(?!{'|'.join(allowed)})")


def _escape(text: str) -> str:
    return re.sub(r"[.*+?^${}()|\[\]\\]", r"\\\g<0>", text)


@cache
def _own_pages() -> tuple[Path, ...]:
    """The folders of the project's own pages: the runtime's, and MiniWoB++ where it is installed."""
    found = find_spec("miniwob")
    package = [Path(place).resolve() for place in (found.submodule_search_locations or ())] if found else []
    return (Path(__file__).resolve().parent / "runtime", *package)


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
    """Playwright's driver process: one a thread, shared by its browsers, stopped with the last of them.

    It and its browsers keep their temporary files in `folder`. A shell waits for the end of this process, whatever it
    is, and then ends what is left of the browsers and removes the folder.
    """

    _of_thread = threading.local()
    _starting = threading.Lock()

    def __init__(self) -> None:
        from playwright.sync_api import sync_playwright

        # Chromium puts a socket in there, whose path may have 107 characters.
        place = tempfile.gettempdir()
        self._owned = OwnedFolder("chromium", place if len(place) <= _PLACE_LENGTH else "/tmp")
        self.folder = self._owned.path
        self._reaper = subprocess.Popen(
            ["/bin/sh", "-c", _REAP, "hesper-reaper", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with self._starting:
            # The driver makes profile folders where its environment says, and takes that from ours.
            before = os.environ.get("TMPDIR")
            os.environ["TMPDIR"] = str(self.folder)
            try:
                self.playwright: Playwright = sync_playwright().start()
            finally:
                if before is None:
                    del os.environ["TMPDIR"]
                else:
                    os.environ["TMPDIR"] = before
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
            self._reaper.communicate()
            self._owned.remove()


_PLACE_LENGTH = 39

_REAP = """trap '' INT TERM HUP
cat > /dev/null
killed=
attempt=0
while [ $attempt -lt 100 ]; do
  for file in $(grep -lsaF -e "=$1/" /proc/[0-9]*/cmdline); do
    pid=${file#/proc/}
    kill -9 "${pid%%/*}" && killed=yes
  done
  for file in $(grep -lsaF -e "TMPDIR=$1" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    pid=${pid%%/*}
    grep -qsaF run-driver "/proc/$pid/cmdline" && kill -9 "$pid" && killed=yes
  done
  rm -rf -- "$1"
  if [ ! -e "$1" ]; then
    [ "$killed" ] || exit
    killed=
  fi
  sleep 0.3
  attempt=$((attempt + 1))
done
"""
"""Reads until the process that holds the other end is gone. Then ends browsers with a profile in the folder, and the
driver, which may be about to start one. What is just dying may still write a file: after a kill comes a second look."""


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
