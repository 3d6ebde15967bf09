"""The `shell:` and `exec:` services: one command, or a terminal where a person types them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from assets.environments.adb import protocol
from assets.environments.adb.device import Device
from assets.environments.adb.devtools import BrokenError
from assets.environments.adb.programs import Shell


async def serve_shell(
    device: Device, line: str, options: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Carry out a line, or what comes in as lines where it is empty, and send its output.

    A phone that breaks meanwhile ends the connection without an exit code.
    """
    framed = "v2" in options
    shell = Shell(device, _incoming(reader, framed))
    try:
        if line:
            code = await _run(shell, line, framed, writer)
        else:
            code = await _converse(shell, "pty" in options or (options == ["shell"]), framed, writer)
    except BrokenError:
        return
    if framed:
        writer.write(protocol.shell_packet(protocol.EXIT, bytes([code & 255])))


async def _run(shell: Shell, line: str, framed: bool, writer: asyncio.StreamWriter) -> int:
    code, chunks = await shell.run(line)
    for to_errors, data in chunks:
        kind = protocol.STDERR if to_errors else protocol.STDOUT
        writer.write(protocol.shell_packet(kind, data) if framed else data)
    await writer.drain()
    return code


async def _converse(shell: Shell, terminal: bool, framed: bool, writer: asyncio.StreamWriter) -> int:
    """Lines until `exit` or the end. A terminal shows what is typed, and a prompt."""

    def show(text: str) -> None:
        if terminal:
            writer.write(protocol.shell_packet(protocol.STDOUT, text.encode()) if framed else text.encode())

    code, typed = 0, b""
    show(f"{shell.device.product}:/ $ ")
    async for data in shell.incoming:
        for byte in data:
            if byte in b"\r\n":
                show("\r\n")
                line = typed.decode(errors="replace").strip()
                typed = b""
                code, chunks = await shell.run(line)
                for to_errors, chunk in chunks:
                    kind = protocol.STDERR if to_errors else protocol.STDOUT
                    shown = chunk.replace(b"\n", b"\r\n") if terminal else chunk
                    writer.write(protocol.shell_packet(kind, shown) if framed else shown)
                if shell.ended:
                    return code
                show(f"{shell.device.product}:/ $ ")
            elif byte == 4:
                return code
            elif byte in b"\x7f\b":
                typed = typed.decode(errors="ignore")[:-1].encode()
                show("\b \b")
            elif byte == 3:
                typed = b""
                show(f"^C\r\n{shell.device.product}:/ $ ")
            elif len(typed) < 1 << 16:
                typed += bytes([byte])
                if terminal:
                    writer.write(protocol.shell_packet(protocol.STDOUT, bytes([byte])) if framed else bytes([byte]))
        await writer.drain()
    return code if not typed else await _run(shell, typed.decode(errors="replace"), framed, writer)


async def _incoming(reader: asyncio.StreamReader, framed: bool) -> AsyncIterator[bytes]:
    """What the client writes to the standard input, until it closes it."""
    while True:
        if framed:
            try:
                kind, data = await protocol.read_shell_packet(reader)
            except EOFError:
                return
            if kind == protocol.CLOSE_STDIN:
                return
            if kind == protocol.STDIN:
                yield data
        else:
            data = await reader.read(1 << 16)
            if not data:
                return
            yield data
