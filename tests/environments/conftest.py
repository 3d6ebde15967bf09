"""One Chromium for all tests of the environments, and a site of our own on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from assets.environments.chromium import Chromium, browser

SIZE = (192, 192)


class Site(ThreadingHTTPServer):
    """A site that remembers which paths were asked for; `/away` redirects to an address that nobody may reach."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/elsewhere")
            self.end_headers()
            return
        body = (
            b"<title>Staging</title><body style='margin:0'><button onclick=\"document.title='Pressed'\">Save</button>"
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    server = Site()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def chromium(site: Site) -> Iterator[Chromium]:
    """A browser that may reach `site` and nothing else."""
    with browser(allow=[site.origin], timeout=60) as running:
        yield running
