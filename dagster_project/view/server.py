"""A web server for one person on this machine: loopback, a free port, and a secret in every address."""

from __future__ import annotations

import json
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HOST = "127.0.0.1"
MOST_BYTES = 1 << 20
"""Largest request."""


@dataclass(frozen=True)
class Reply:
    """What a request gets."""

    body: bytes = b""
    type: str = "application/json"
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


def reply_json(value: Any, status: int = HTTPStatus.OK) -> Reply:
    """A JSON reply."""
    return Reply(json.dumps(value, ensure_ascii=False).encode(), status=status)


Handler = Callable[[dict[str, Any]], Reply]
"""Called, from any thread, with the query of a GET or the JSON object of a POST."""


class LocalServer:
    """Serves handlers by (method, path below the secret).

    Who does not know the secret gets nothing, nor does a page of another origin: the host name must be this server's
    own (so no other name can be pointed at it) and a POST must come from its own page.
    """

    def __init__(self, routes: Mapping[tuple[str, str], Handler]) -> None:
        self._server = _Server((HOST, 0), _Request)
        self._server.routes = routes
        self._server.secret = secrets.token_urlsafe(16)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="view", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the page is, secret and all."""
        return f"http://{HOST}:{self._server.server_port}/{self._server.secret}/"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    routes: Mapping[tuple[str, str], Handler], ready: Callable[[str], None], done: threading.Event | None = None
) -> None:
    """Serve until `done` is set or the process is told to end; to be called in the main thread.

    Args:
        ready: called with the page's address.
    """
    over = done or threading.Event()
    server = LocalServer(routes)
    before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ready(server.address)
        while not over.wait(0.2):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    routes: Mapping[tuple[str, str], Handler]
    secret: str

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that no longer wants what it asked for is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent one after the other; the body would wait for an answer

    def do_GET(self) -> None:
        self._answer(dict(parse_qsl(urlsplit(self.path).query)))

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MOST_BYTES:
            self.close_connection = True
            return self._send(Reply(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
        body = self.rfile.read(length)
        own = f"http://{HOST}:{self.server.server_port}"
        if self.headers.get("Origin", own) != own:
            return self._send(Reply(status=HTTPStatus.FORBIDDEN))
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            return self._send(Reply(status=HTTPStatus.BAD_REQUEST))
        return self._answer(given)

    def _answer(self, given: dict[str, Any]) -> None:
        secret, _, path = urlsplit(self.path).path.lstrip("/").partition("/")
        known = secrets.compare_digest(secret.encode(), self.server.secret.encode())
        if not known or self.headers.get("Host") != f"{HOST}:{self.server.server_port}":
            return self._send(Reply(status=HTTPStatus.FORBIDDEN))
        handler = self.server.routes.get((self.command, path))
        if handler is None:
            return self._send(Reply(status=HTTPStatus.NOT_FOUND))
        try:
            reply = handler(given)
        except Exception:
            self._send(Reply(status=HTTPStatus.INTERNAL_SERVER_ERROR))
            raise
        return self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        headers = {
            "Content-Type": reply.type,
            "Content-Length": str(len(reply.body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": "frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            **reply.headers,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *arguments: object) -> None:
        """Quiet: the address holds the secret."""
