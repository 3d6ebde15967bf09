"""The only way out of a browser: a proxy on loopback that passes on what the allow list names and nothing else.

A browser that is told to use it for everything can't open a connection of another kind, whichever part of it asks:
pages, redirects, workers, web sockets, prefetching, downloads. Names are looked up here, and only allowed ones.
"""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

_HEAD_BYTES = 65536
_CHUNK = 65536
_CONNECT_SECONDS = 30.0
_HOP_BY_HOP = ("proxy-connection", "connection", "keep-alive", "proxy-authorization")


class Gate:
    """A running proxy.

    Args:
        allows: whether a URL may be reached; a tunnel to a host and port asks for it as https and as http (a plain web
            socket also comes as a tunnel).
        refuse: called with each address that was asked for and not given; from other threads.
    """

    def __init__(self, allows: Callable[[str], bool], refuse: Callable[[str], None]) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.allows, self._server.refuse = allows, refuse
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.5,), name="chromium-gate", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, as `http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Take no more connections; those that are open end with the browser."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    allows: Callable[[str], bool]
    refuse: Callable[[str], None]

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of a request is no trouble of the gate's."""


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        head, _, rest = self._read_head().partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3:
            return
        method, target, version = parts
        if method == "CONNECT":
            allowed = any(self.server.allows(f"{scheme}://{target}") for scheme in ("https", "http"))
            url = f"https://{target}"
        else:
            allowed, url = target.startswith("http://") and self.server.allows(target), target
        if not allowed:
            # No answer at all: a page must not take a refusal for an answer of the site's.
            self.server.refuse(url)
            return
        address = urlsplit(url)
        port = address.port or (443 if method == "CONNECT" else 80)
        try:
            upstream = socket.create_connection((address.hostname or "", port), timeout=_CONNECT_SECONDS)
        except OSError:
            self.request.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        with upstream:
            upstream.settimeout(None)
            if method == "CONNECT":
                self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                upstream.sendall(rest)
            else:
                # One request a connection: a second one could be for another origin.
                path = target[len(f"http://{address.netloc}") :] or "/"
                kept = [line for line in lines[1:] if line.partition(":")[0].casefold() not in _HOP_BY_HOP]
                request = "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close"])
                upstream.sendall(request.encode("latin-1") + b"\r\n\r\n" + rest)
            _relay(self.request, upstream)

    def _read_head(self) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data and len(data) < _HEAD_BYTES:
            chunk = self.request.recv(_CHUNK)
            if not chunk:
                break
            data += chunk
        return data


def _relay(left: socket.socket, right: socket.socket) -> None:
    """Carry bytes both ways until one side closes."""
    other = {left: right, right: left}
    while True:
        readable, _, _ = select.select([left, right], [], [])
        for side in readable:
            data = side.recv(_CHUNK)
            if not data:
                return
            other[side].sendall(data)
