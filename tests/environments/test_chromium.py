"""The browser: cut off from the network, the same picture for the same page, noticed when it dies or hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assets.environments.chromium import Chromium, browser, find_chromium, screenshot
from assets.errors import InfrastructureError, MissingProgramError
from tests.environments.conftest import Site


@pytest.mark.parametrize(
    "attempt",
    [
        "new Image().src = ADDRESS + '/picture'",
        "fetch(ADDRESS + '/fetch').catch(() => 0)",
        "navigator.sendBeacon(ADDRESS + '/beacon', 'x')",
        "document.head.append(Object.assign(document.createElement('script'), {src: ADDRESS + '/script'}))",
        "document.body.append(Object.assign(document.createElement('iframe'), {src: ADDRESS + '/frame'}))",
        "new WebSocket(ADDRESS.replace('http', 'ws') + '/socket')",
        "new Worker(URL.createObjectURL(new Blob([`fetch('${ADDRESS}/worker').catch(() => 0)`])))",
        "window.open(ADDRESS + '/window')",
        "location.href = ADDRESS + '/navigation'",
    ],
)
def test_what_tries_to_get_out_is_refused_and_logged(site: Site, chromium: Chromium, attempt: str) -> None:
    # The same server under a name that is not on the allow list.
    address = f"http://localhost:{site.server_port}"
    page = chromium.new_page(64, 64)
    page.goto("about:blank")
    before, asked = len(chromium.refused), len(site.asked)
    page.evaluate(f"(ADDRESS) => {{ {attempt} }}", address)
    deadline = time.monotonic() + 5
    while len(chromium.refused) == before and time.monotonic() < deadline:
        page.wait_for_timeout(20)
    assert f"localhost:{site.server_port}" in chromium.refused[before]
    assert site.asked[asked:] == []
    page.context.close()


def test_an_allowed_origin_is_reached_but_not_where_it_redirects(site: Site, chromium: Chromium) -> None:
    page = chromium.new_page(64, 64)
    page.goto(site.origin + "/page")
    assert page.title() == "Staging"
    asked = len(site.asked)
    with pytest.raises(InfrastructureError, match="follow a redirect"), chromium.guard("follow a redirect"):
        page.goto(site.origin + "/away")
    assert site.asked[asked:] == ["/away"]
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


def test_the_browser_dies_with_its_process() -> None:
    script = (
        "import sys, time\nfrom assets.environments.chromium import Chromium\n"
        "browser = Chromium(); browser.new_page(64, 64); print(browser.pids()[0], flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


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
