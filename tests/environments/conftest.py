"""One Chromium for all tests of the environments, and a site of our own on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from assets.environments.chromium import Chromium, browser

SIZE = (192, 192)


PAGES = {
    "/form": """<title>Form</title><form action=/sent><input name=who><input name=files type=file multiple
      style="width: 90px">
      <select name=size><option>Small<option disabled>None<option>Large</select><button>Send</button></form>""",
    "/dialogs": """<title>Dialogs</title><button onclick="alert('Saved'); document.title = 'alerted'">Alert</button>
      <button onclick="document.title = confirm('Delete it?') ? 'deleted' : 'kept'">Confirm</button>
      <button onclick="document.title = prompt('Name?', 'Ada') ?? 'nobody'">Prompt</button>
      <button onclick="onbeforeunload = () => true; document.title = 'armed'">Arm</button>
      <button onclick="for (;;) alert('Again')">Loop</button>""",
    "/tabs": """<title>Tabs</title><a href=/page target=_blank>Open</a>
      <button onclick="window.open('/form')">Window</button><a href=/page>Stay</a>
      <a href=/report.csv download>Get</a><a href=/sheet.csv>Sheet</a>""",
    "/long": """<title>Long</title><style>body { margin: 0 } p { height: 100px; margin: 0 }</style>"""
    + "<p>x</p>" * 40,
    "/cookie": """<title>Cookie</title><script>document.title = document.cookie || 'none'; document.cookie = 'a=1'
      </script>""",
    "/worker.js": """onconnect = (e) => fetch(e.target.name).catch(() => 0)""",
    "/sw.js": "self.onfetch = () => 0",
}
"""What a site of a team could hold, by path."""


class Site(ThreadingHTTPServer):
    """A site that remembers which paths were asked for; `/away` redirects to the query's address."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.connections = 0

    def verify_request(self, request: object, client_address: object) -> bool:
        self.connections += 1
        return True

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        path, _, query = self.path.partition("?")
        if path == "/away":
            self.send_response(302)
            self.send_header("Location", query or f"http://localhost:{self.server.server_port}/elsewhere")
            self.end_headers()
            return
        default = (
            "<title>Staging</title><body style='margin:0'><button onclick=\"document.title='Pressed'\">Save</button>"
        )
        body = PAGES.get(path, default).encode()
        kind = "text/html"
        if path.endswith(".csv"):
            body, kind = b"a,b\n1,2\n", "application/octet-stream"
        if path.endswith(".js"):
            kind = "text/javascript"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

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
def outside() -> Iterator[Site]:
    """A site that no browser may reach: same host, another port."""
    server = Site()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")  # an open browser of one file would keep another from starting Playwright by itself
def chromium(site: Site) -> Iterator[Chromium]:
    """A browser that may reach `site` and nothing else."""
    with browser(allow=[site.origin], timeout=60) as running:
        yield running
