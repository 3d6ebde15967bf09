"""As much of the S3 protocol as s3fs needs to list, read, write, copy and delete small objects, on loopback."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

DATE = "%Y-%m-%dT%H:%M:%S.000Z"


class Bucket:
    """Objects by key, with the time they were written.

    Attributes:
        requests: method and key of each request.
        refuse: a request for which this gives true is answered with 403.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.requests: list[tuple[str, str]] = []
        self.locked = False

    def put(self, key: str, content: bytes, age: float = 3600.0) -> None:
        """Write an object as if some time ago."""
        self.objects[key] = (content, time.time() - age)


@contextmanager
def serve(bucket: Bucket) -> Iterator[str]:
    """The address of a server that has one bucket."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if "Content_Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def fail(self, status: int, code: str) -> None:
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
            self.answer(status, body.encode())

        def handle_request(self) -> None:
            url = urlsplit(self.path)
            name, _, key = unquote(url.path).lstrip("/").partition("/")
            query = parse_qs(url.query, keep_blank_values=True)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            bucket.requests.append((self.command, key))
            if bucket.locked:
                self.fail(403, "InvalidAccessKeyId")
            elif name != bucket.name:
                self.fail(404, "NoSuchBucket")
            elif self.command == "GET" and "list-type" in query:
                self.list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
            elif self.command == "POST" and "delete" in query:
                self.delete_many(body.decode())
            elif self.command == "PUT" and "x-amz-copy-source" in self.headers:
                source = unquote(self.headers["x-amz-copy-source"]).lstrip("/").partition("/")[2].partition("?")[0]
                bucket.put(key, bucket.objects[source][0], 0.0)
                self.answer(200, b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>")
            elif self.command == "PUT":
                assert "aws-chunked" not in self.headers.get("Content-Encoding", "")
                bucket.put(key, body, 0.0)
                self.answer(200, ETag=etag(body))
            elif self.command == "DELETE":
                bucket.objects.pop(key, None)
                self.answer(204)
            elif key in bucket.objects:
                self.give(*bucket.objects[key])
            else:
                self.fail(404, "NoSuchKey")

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request

        def give(self, content: bytes, changed: float) -> None:
            said = {"ETag": etag(content), "Last_Modified": formatdate(changed, usegmt=True)}
            span = self.headers.get("Range")
            if span:
                first, _, last = span.removeprefix("bytes=").partition("-")
                part = content[int(first) : int(last or len(content)) + 1]
                self.answer(206, part, Content_Range=f"bytes {first}-{last}/{len(content)}", **said)
            else:
                self.answer(200, content, Content_Length=str(len(content)), **said)

        def list(self, prefix: str, delimiter: str) -> None:
            found, folders = [], set()
            for key, (content, changed) in sorted(bucket.objects.items()):
                if not key.startswith(prefix):
                    continue
                rest = key[len(prefix) :]
                if delimiter and delimiter in rest:
                    folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                    continue
                when = time.strftime(DATE, time.gmtime(changed))
                found.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
                    f"<ETag>{escape(etag(content))}</ETag><Size>{len(content)}</Size>"
                    "<StorageClass>STANDARD</StorageClass></Contents>"
                )
            found += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)]
            head = f"<Name>{bucket.name}</Name><KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
            body = f"<?xml version='1.0'?><ListBucketResult>{head}{''.join(found)}</ListBucketResult>"
            self.answer(200, body.encode(), Content_Type="application/xml")

        def delete_many(self, body: str) -> None:
            for part in body.split("<Key>")[1:]:
                bucket.objects.pop(part.partition("</Key>")[0], None)
            self.answer(200, b"<DeleteResult></DeleteResult>")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def etag(content: bytes) -> str:
    """As S3 has it for a small object."""
    return f'"{hashlib.md5(content).hexdigest()}"'
