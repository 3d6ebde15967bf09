"""The browser: cut off from the network, the same picture for the same page, noticed when it dies or hangs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.environments.chromium import Chromium, browser, find_chromium, screenshot
from assets.environments.simulated import RUNTIME_URL
from assets.errors import InfrastructureError, MissingProgramError
from tests.environments.conftest import Site

ADD = "(tag, values) => document.body.append(Object.assign(document.createElement(tag), values))"
ATTEMPTS = {
    "picture": "new Image().src = OUT + '/picture'",
    "fetch": "fetch(OUT + '/fetch').catch(() => 0)",
    "request": "const x = new XMLHttpRequest(); x.open('GET', OUT + '/xhr'); x.send()",
    "beacon": "navigator.sendBeacon(OUT + '/beacon', 'x')",
    "script": "add('script', {src: OUT + '/script'})",
    "style": "add('link', {rel: 'stylesheet', href: OUT + '/style'})",
    "frame": "add('iframe', {src: OUT + '/frame'})",
    "socket": "new WebSocket(OUT.replace('http', 'ws') + '/socket')",
    "events": "new EventSource(OUT + '/events')",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('${OUT}/worker').catch(() => 0)`])))",
    "worker's socket": "new Worker(URL.createObjectURL(new Blob([`new WebSocket('${OUT.replace('http', 'ws')}')`])))",
    "shared worker": "new SharedWorker(HERE + '/worker.js', OUT + '/shared')",
    "window": "window.open(OUT + '/window')",
    "navigation": "location.href = OUT + '/navigation'",
    "redirect": "location.href = HERE + '/away?' + OUT + '/redirect'",
    "redirected picture": "new Image().src = HERE + '/away?' + OUT + '/redirected'",
    "form": "add('form', {action: OUT + '/form', method: 'post'}); document.forms[0].submit()",
    "download": "add('a', {href: OUT + '/x.csv', download: 'x.csv'}); document.links[0].click()",
    "prefetch": "add('link', {rel: 'prefetch', href: OUT + '/prefetch'})",
}
"""Ways out of a page, from HERE, which is allowed, to OUT, which is not."""


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_tries_to_get_out_is_refused_and_logged(
    site: Site, outside: Site, chromium: Chromium, attempt: str
) -> None:
    page = chromium.new_page(64, 64, downloads=True)
    page.goto(site.origin + "/page")
    before = len(chromium.refused)
    page.evaluate(f"([HERE, OUT]) => {{ const add = {ADD}; {ATTEMPTS[attempt]} }}", [site.origin, outside.origin])
    deadline = time.monotonic() + 20
    while len(chromium.refused) == before and time.monotonic() < deadline:
        page.wait_for_timeout(20)
    assert f"127.0.0.1:{outside.server_port}" in chromium.refused[before]
    assert outside.asked == []
    page.context.close()


def test_connecting_and_looking_up_ahead_reaches_nobody(site: Site, outside: Site, chromium: Chromium) -> None:
    page = chromium.new_page(64, 64)
    page.goto(site.origin + "/page")
    connections = outside.connections
    for relation in ("preconnect", "dns-prefetch", "prerender", "modulepreload"):
        page.evaluate(f"([relation, OUT]) => ({ADD})('link', {{rel: relation, href: OUT}})", [relation, outside.origin])
    page.wait_for_timeout(1000)
    assert outside.connections == connections
    page.context.close()


def test_no_name_is_looked_up(tmp_path: Path) -> None:
    """Chromium's own record of what it does on the network tells of every lookup that leaves it."""
    record = tmp_path / "net.json"
    with browser() as chromium:
        chromium.flags = (f"--log-net-log={record}",)
        page = chromium.new_page(64, 64)
        page.goto("data:text/html,<link rel=dns-prefetch href=//one.example><img src=//two.example/x>")
        page.evaluate("fetch('https://three.example').catch(() => 0)")
        page.wait_for_timeout(500)
    text = record.read_text(errors="replace")
    kinds = json.loads(text if text.rstrip().endswith("}") else text.rstrip().rstrip(",") + "]}")
    names = {number: name for name, number in kinds["constants"]["logEventTypes"].items()}
    seen = {names[event["type"]] for event in kinds["events"]}
    assert "PROXY_RESOLUTION_SERVICE" in seen
    assert not seen & {"DNS_TRANSACTION", "HOST_RESOLVER_SYSTEM_TASK", "HOST_RESOLVER_DNS_TASK"}


def test_datagrams_do_not_get_out(site: Site, chromium: Chromium) -> None:
    """WebRTC and WebTransport: a server on loopback hears nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        page = chromium.new_page(64, 64)
        page.goto(site.origin + "/page")
        page.evaluate(
            """async (port) => {
              const peer = new RTCPeerConnection({ iceServers: [{ urls: `stun:127.0.0.1:${port}` }] });
              peer.createDataChannel("x");
              await peer.setLocalDescription(await peer.createOffer());
              new WebTransport(`https://127.0.0.1:${port}/`).ready.catch(() => 0);
              await new Promise((done) => setTimeout(done, 1500));
            }""",
            server.getsockname()[1],
        )
        with pytest.raises(TimeoutError):
            server.recv(1)
        page.context.close()


def test_a_service_worker_is_not_installed(site: Site, chromium: Chromium) -> None:
    page = chromium.new_page(64, 64)
    page.goto(site.origin + "/page")
    page.evaluate("navigator.serviceWorker?.register('/sw.js').catch(() => 0)")
    assert page.evaluate("navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0
    page.context.close()


def test_a_page_can_open_no_file_but_the_projects_own(chromium: Chromium, tmp_path: Path) -> None:
    page = chromium.new_page(64, 64)
    page.goto(RUNTIME_URL)
    page.evaluate("document.body.innerHTML = '<iframe src=\"file:///etc/passwd\"></iframe>'")
    page.wait_for_function("frames.length === 1")
    page.wait_for_timeout(200)
    assert chromium.refused[-1] == "file:///etc/passwd"
    assert "root:" not in "".join(frame.content() for frame in page.frames)
    page.context.close()
    secret = tmp_path / "secret.html"
    secret.write_text("<title>Secret</title>")
    assert not chromium.allows(secret.as_uri())
    with browser(files=[tmp_path]) as other:
        page = other.new_page(64, 64)
        page.goto(secret.as_uri())
        assert page.title() == "Secret"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://team.example/x", True),
        ("https://team.example:443", True),
        ("https://team.example:8443/", False),
        ("http://team.example/", False),
        ("https://team.example.evil.org/", False),
        ("https://team.example@evil.org/", False),
        ("https://sub.team.example/", False),
        ("http://10.0.0.7:8080/a", True),
        ("http://10.0.0.7/a", False),
        ("ftp://team.example/", False),
        ("file:///etc/passwd", False),
        ("chrome://version", False),
        ("data:text/html,x", True),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(url: str, allowed: bool) -> None:
    from assets.environments.chromium import _all_but, _origin

    names = frozenset(map(_origin, ("https://team.example", "http://10.0.0.7:8080")))
    assert (_all_but(names, ()).match(url) is None) == allowed


def test_an_allowed_origin_is_reached_but_not_where_it_redirects(site: Site, chromium: Chromium) -> None:
    page = chromium.new_page(64, 64)
    page.goto(site.origin + "/page")
    assert page.title() == "Staging"
    asked = len(site.asked)
    with pytest.raises(InfrastructureError, match="follow a redirect"), chromium.guard("follow a redirect"):
        page.goto(site.origin + "/away")
    assert set(site.asked[asked:]) == {"/away"}
    page.context.close()


def test_a_plain_web_socket_reaches_an_allowed_server(site: Site, chromium: Chromium) -> None:
    """The handshake arrives; that this server does not know the protocol is its business."""
    page = chromium.new_page(64, 64)
    page.goto(site.origin + "/page")
    page.evaluate("(url) => new Promise((done) => { new WebSocket(url).onerror = done; })", f"ws{site.origin[4:]}/ws")
    assert "/ws" in site.asked
    page.context.close()


def test_the_same_page_gives_the_same_bytes(chromium: Chromium) -> None:
    html = """<style>@keyframes k { from { margin-left: 0 } to { margin-left: 90px } }
      b { animation: k 0.3s infinite; display: block } button { transition: all 1s }</style>
      <body style="font: bold 13px 'DejaVu Sans'"><b>Play</b><input autofocus value="打开"><button>Save</button>"""
    shots = set()
    for _ in range(2):
        page = chromium.new_page(192, 192)
        page.set_content(html)
        page.focus("input")
        for _ in range(4):
            page.wait_for_timeout(40)
            shots.add(screenshot(page))
        page.context.close()
    assert len(shots) == 1


def test_a_clip_is_a_part_of_the_picture(chromium: Chromium) -> None:
    import io

    from PIL import Image

    page = chromium.new_page(100, 80)
    page.set_content("<body style='margin:0;background:linear-gradient(90deg,red 50%,blue 50%)'>")
    whole, part = (Image.open(io.BytesIO(screenshot(page, clip))).convert("RGB") for clip in (None, (40, 10, 20, 5)))
    assert part.size == (20, 5)
    assert part.tobytes() == whole.crop((40, 10, 60, 15)).tobytes()
    page.context.close()


def test_a_hung_page_is_noticed_in_time_and_the_next_works() -> None:
    with browser(timeout=60) as chromium:
        page = chromium.new_page(64, 64)
        started = time.monotonic()
        with pytest.raises(InfrastructureError, match="no answer for 2 s"), chromium.guard("run a script", 2):
            page.evaluate("() => { for (;;); }")
        assert time.monotonic() - started < 10
        assert chromium.new_page(64, 64).evaluate("1 + 1") == 2


def test_a_killed_browser_is_noticed_and_started_again() -> None:
    with browser(timeout=60) as chromium:
        page = chromium.new_page(64, 64)
        for pid in chromium.pids():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(InfrastructureError, match="take a picture"), chromium.guard("take a picture"):
            screenshot(page)
        assert chromium.new_page(64, 64).evaluate("1 + 1") == 2


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A temporary folder whose path leaves room for that of Chromium's socket."""
    with tempfile.TemporaryDirectory(prefix="hesper-test-", dir="/tmp") as path:
        yield Path(path)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_browser_dies_with_its_process_and_leaves_nothing(how: signal.Signals, short_path: Path) -> None:
    script = (
        "import sys, time\nfrom assets.environments.chromium import Chromium\n"
        "browser = Chromium(); browser.new_page(64, 64); print(browser.pids()[0], flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(short_path)}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    assert list(short_path.glob("hesper-*/*"))
    process.send_signal(how)
    process.wait()
    deadline = time.monotonic() + 20
    while (_runs(pid) or list(short_path.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)
    assert list(short_path.iterdir()) == []


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0])
def test_a_process_killed_while_its_browser_starts_leaves_nothing(seconds: float, short_path: Path) -> None:
    script = (
        "from assets.environments.chromium import Chromium\nimport time\nChromium().new_page(64, 64)\ntime.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(short_path)}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while list(short_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    assert list(short_path.iterdir()) == []


def test_a_closed_or_killed_browser_leaves_no_files(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr("tempfile.tempdir", str(short_path))

    def use() -> None:
        # A thread has a driver of its own, so this one's folder goes with its browser.
        with browser() as chromium:
            chromium.new_page(64, 64)
            chromium.kill()
            assert list(short_path.glob("hesper-*/*"))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert list(short_path.iterdir()) == []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_without_a_chromium_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HESPER_CHROMIUM", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingProgramError, match="playwright install --with-deps chromium"):
        find_chromium()
    monkeypatch.setenv("HESPER_CHROMIUM", "/nowhere/chrome")
    with pytest.raises(MissingProgramError, match="/nowhere/chrome"):
        find_chromium()


def test_playwrights_own_chromium_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in ("chromium-999", "chromium-1100"):
        program = tmp_path / version / "chrome-linux" / "chrome"
        program.parent.mkdir(parents=True)
        program.touch()
    monkeypatch.delenv("HESPER_CHROMIUM", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert find_chromium() == str(program)
