"""The wire format of ADB: requests of a client to its server, the shell protocol, the sync protocol.

Sources: `packages/modules/adb` of the Android Open Source Project, files OVERVIEW.TXT, SERVICES.TXT, SYNC.TXT and
shell_protocol.h. Integers are little endian; lengths of requests and answers are four hexadecimal digits.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import TypeVar

VERSION = 41
"""Version of the server protocol: every `adb` since 2019 asks for it and would replace a server of another one."""

MAX_CHUNK = 64 * 1024
"""Most bytes of a DATA packet of the sync protocol."""

OKAY, FAIL = b"OKAY", b"FAIL"

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
"""Packet ids of the shell protocol."""

Result = TypeVar("Result")


class ProtocolError(Exception):
    """Bytes that are no ADB. The connection ends; others go on."""


async def read_request(reader: asyncio.StreamReader, timeout: float | None = None) -> str:
    """The next request of a client.

    Raises:
        EOFError: the client is gone.
        ProtocolError: not four hexadecimal digits and as many bytes of UTF-8, or no request within `timeout` seconds.
    """
    head = await _exactly(reader, 4, timeout)
    try:
        if not all(digit in b"0123456789abcdefABCDEF" for digit in head):
            raise ValueError
        return (await _exactly(reader, int(head, 16), timeout)).decode()
    except ValueError:
        raise ProtocolError("a request is four hexadecimal digits and that many bytes of UTF-8") from None


def answer(text: str) -> bytes:
    """OKAY with a text."""
    return OKAY + block(text)


def block(text: str) -> bytes:
    """A text with its length before it."""
    data = text.encode()
    return b"%04x" % len(data) + data


def failure(reason: str) -> bytes:
    """FAIL with its reason."""
    return FAIL + block(reason)


def shell_packet(kind: int, data: bytes) -> bytes:
    """A packet of the shell protocol."""
    return struct.pack("<BI", kind, len(data)) + data


async def read_shell_packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The next packet of the shell protocol: (id, data).

    Raises:
        EOFError: the client is gone.
        ProtocolError: longer than a megabyte.
    """
    kind, length = struct.unpack("<BI", await _exactly(reader, 5, None))
    if length > 1 << 20:
        raise ProtocolError("a shell packet of more than a megabyte")
    return kind, await _exactly(reader, length, None)


async def read_sync_request(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """The next request of the sync protocol: (id, length or other number).

    Raises:
        EOFError: the client is gone.
    """
    head = await _exactly(reader, 8, None)
    return head[:4], struct.unpack("<I", head[4:])[0]


async def read_sync_data(reader: asyncio.StreamReader, length: int, most: int) -> bytes:
    """The bytes of a sync packet.

    Raises:
        EOFError: the client is gone.
        ProtocolError: more than `most` of them.
    """
    if length > most:
        raise ProtocolError(f"{length} bytes where at most {most} are allowed")
    return await _exactly(reader, length, None)


def sync_failure(reason: str) -> bytes:
    """FAIL of the sync protocol, whose lengths are binary."""
    data = reason.encode()
    return FAIL + struct.pack("<I", len(data)) + data


async def _exactly(reader: asyncio.StreamReader, count: int, timeout: float | None) -> bytes:
    try:
        return await _within(timeout, reader.readexactly(count))
    except (asyncio.IncompleteReadError, ConnectionError):
        raise EOFError from None
    except TimeoutError:
        raise ProtocolError("no request came") from None


async def _within(timeout: float | None, work: Awaitable[Result]) -> Result:
    if timeout is None:
        return await work
    async with asyncio.timeout(timeout):
        return await work
