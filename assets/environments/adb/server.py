"""The ADB server: a smart socket on loopback with host services, and a transport to each phone's own services."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct

from assets.environments.adb import protocol
from assets.environments.adb.device import Device
from assets.environments.adb.files import FileError
from assets.environments.adb.protocol import OKAY, ProtocolError
from assets.environments.adb.terminal import serve_shell

log = logging.getLogger(__name__)

FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
IDLE_SECONDS = 60.0
"""How long a client may keep a connection open without asking for anything."""
_TRANSPORTS = ("any", "usb", "local")


class Refused(Exception):
    """A request that gets FAIL; the message is its reason."""


class AdbServer:
    """Answers clients until it is closed.

    Attributes:
        devices: phones by serial, in the order they were attached.
        port: where it listens, on 127.0.0.1.
    """

    def __init__(self) -> None:
        self.devices: dict[str, Device] = {}
        self.port = 0
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    async def listen(self, port: int = 0) -> None:
        """Start to answer on a port (0: any free one)."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=1 << 20, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]

    def attach(self, device: Device) -> None:
        """Show a phone to clients."""
        self.devices[device.serial] = device
        self.tell()

    async def detach(self, serial: str) -> None:
        """Take a phone away from clients, and give back what it holds."""
        device = self.devices.pop(serial, None)
        if device is not None:
            self.tell()
            await device.close()

    def tell(self) -> None:
        """Wake the clients that wait for a change of the list of phones or of their states."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def close(self) -> None:
        """Stop listening and give all phones back."""
        if self._server is not None:
            self._server.close()
        for serial in list(self.devices):
            await self.detach(serial)

    # --- a connection ------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._converse(reader, writer)
        except EOFError:
            pass
        except (Refused, ProtocolError) as error:
            writer.write(protocol.failure(str(error)))
        except ConnectionError:
            pass
        except Exception:
            log.exception("a connection failed")
        finally:
            with contextlib.suppress(ConnectionError, OSError):
                await writer.drain()
                writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        device: Device | None = None
        while True:
            request = await protocol.read_request(reader, IDLE_SECONDS)
            if device is None:
                device = await self._host(request, reader, writer)
                if device is None:
                    return
            else:
                if device.broken:
                    raise Refused("device offline")
                await self._device(device, request, reader, writer)
                return

    # --- host services -----------------------------------------------------------------------------------------------

    async def _host(self, request: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Device | None:
        """Answer a request to the server itself. Returns the phone where the request switches to one."""
        device, service = self._addressed(request)
        match service.split(":"):
            case ["version"]:
                writer.write(protocol.answer(f"{protocol.VERSION:04x}"))
            case ["kill"]:
                raise Refused("this server ends with the session that it belongs to")
            case ["devices"] | ["devices-l"]:
                writer.write(protocol.answer(self._listing(service.endswith("-l"))))
            case ["track-devices"] | ["track-devices-l"]:
                await self._track(service.endswith("-l"), reader, writer)
            case ["features"] | ["host-features"]:
                writer.write(protocol.answer(FEATURES))
            case ["transport", *rest]:
                device = self._choose(":".join(rest))
                writer.write(OKAY)
                return device
            case ["transport-any"] | ["transport-usb"] | ["transport-local"]:
                device = self._choose("any")
                writer.write(OKAY)
                return device
            case ["transport-id", number]:
                device = self._by_id(number)
                writer.write(OKAY)
                return device
            case ["tport", "serial", *rest]:
                device = self._choose(":".join(rest))
                writer.write(OKAY + struct.pack("<Q", device.transport))
                return device
            case ["tport", "any"] | ["tport", "usb"] | ["tport", "local"]:
                device = self._choose("any")
                writer.write(OKAY + struct.pack("<Q", device.transport))
                return device
            case ["get-state"]:
                writer.write(protocol.answer((device or self._choose("any")).state))
            case ["get-serialno"]:
                writer.write(protocol.answer((device or self._choose("any")).serial))
            case ["get-devpath"]:
                writer.write(protocol.answer("unknown"))
            case [waiting] if waiting.startswith("wait-for-"):
                writer.write(OKAY)
                await self._wait(waiting, None if device is None else device.serial, reader)
                writer.write(OKAY)
            case ["list-forward"]:
                writer.write(protocol.answer(""))
            case ["killforward-all"]:
                writer.write(OKAY + OKAY)
            case ["forward" | "killforward", *_]:
                raise Refused("cannot bind listener: simulated phones have no ports")
            case ["connect" | "disconnect" | "pair", *_]:
                raise Refused("this server has simulated phones only")
            case ["mdns", *_] | ["server-status"]:
                raise Refused("unsupported operation")
            case _:
                raise Refused(f"unknown host service '{request[:64]}'")
        return None

    def _addressed(self, request: str) -> tuple[Device | None, str]:
        """The phone that a request names, if any, and the service it asks for."""
        kind, _, rest = request.partition(":")
        if kind == "host":
            return None, rest
        if kind in ("host-usb", "host-local"):
            return self._choose("any"), rest
        if kind == "host-transport-id":
            number, _, service = rest.partition(":")
            return self._by_id(number), service
        if kind == "host-serial":
            # A serial may hold colons itself, and one that is not attached yet can be waited for.
            for serial, device in self.devices.items():
                if rest.startswith(serial + ":"):
                    return device, rest[len(serial) + 1 :]
            raise Refused(f"device '{rest.rpartition(':')[0][:64]}' not found")
        raise Refused("no device was chosen: ask for host:transport first")

    def _choose(self, serial: str) -> Device:
        if serial not in ("", *_TRANSPORTS):
            device = self.devices.get(serial)
            if device is None:
                raise Refused(f"device '{serial[:64]}' not found")
        elif len(self.devices) != 1:
            raise Refused("more than one device/emulator" if self.devices else "no devices/emulators found")
        else:
            device = next(iter(self.devices.values()))
        if device.broken:
            raise Refused("device offline")
        return device

    def _by_id(self, number: str) -> Device:
        for device in self.devices.values():
            if str(device.transport) == number:
                return device
        raise Refused(f"no device with transport id '{number[:16]}'")

    def _listing(self, long: bool) -> str:
        lines = []
        for device in self.devices.values():
            if long:
                model = f"product:{device.product} model:{device.model} device:{device.product}"
                lines.append(f"{device.serial:<22} {device.state} {model} transport_id:{device.transport}\n")
            else:
                lines.append(f"{device.serial}\t{device.state}\n")
        return "".join(lines)

    async def _track(self, long: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The list of phones, again after every change, until the client is gone."""
        writer.write(OKAY)
        shown = None
        while True:
            change = self._changed
            listing = self._listing(long)
            if listing != shown:
                writer.write(protocol.block(listing))
                await writer.drain()
                shown = listing
            await _until(change, reader)

    async def _wait(self, service: str, serial: str | None, reader: asyncio.StreamReader) -> None:
        """Until a phone is in the state that `wait-for-TRANSPORT-STATE` names."""
        parts = service.removeprefix("wait-for-").split("-")
        state = parts[-1] if parts[-1] not in _TRANSPORTS else "device"
        if state not in ("device", "disconnect", "recovery", "rescue", "sideload", "bootloader"):
            raise Refused(f"unknown state '{state[:32]}'")
        while True:
            change = self._changed
            states = [device.state for device in self.devices.values() if serial in (None, device.serial)]
            if (not states) if state == "disconnect" else (state in states):
                return
            await _until(change, reader)

    # --- a phone's services ------------------------------------------------------------------------------------------

    async def _device(
        self, device: Device, request: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        service, _, rest = request.partition(":")
        options = service.split(",")
        if options[0] in ("shell", "exec"):
            writer.write(OKAY)
            await serve_shell(device, rest, options, reader, writer)
        elif service == "sync":
            writer.write(OKAY)
            await _Sync(device, reader, writer).serve()
        elif service == "root":
            writer.write(OKAY + b"adbd cannot run as root in production builds\n")
        elif service in ("remount", "reboot", "tcpip", "usb", "unroot", "disable-verity", "enable-verity"):
            writer.write(OKAY + b"not possible on this device\n")
        elif request == "reverse:list-forward":
            writer.write(OKAY + protocol.answer(""))
        else:
            raise Refused("closed")


async def _until(change: asyncio.Event, reader: asyncio.StreamReader) -> None:
    """Wait for a change.

    Raises:
        EOFError: the client left first.
    """
    waiting = [asyncio.ensure_future(change.wait()), asyncio.ensure_future(reader.read(1))]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not waiting[0].done():
            raise EOFError
    finally:
        for task in waiting:
            task.cancel()


class _Sync:
    """The file sync protocol, until the client quits."""

    def __init__(self, device: Device, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._files = device.files
        self._reader = reader
        self._writer = writer

    async def serve(self) -> None:
        """Answer requests.

        Raises:
            ProtocolError: a request is not understood.
        """
        while True:
            kind, length = await protocol.read_sync_request(self._reader)
            if kind == b"QUIT":
                return
            data = await protocol.read_sync_data(self._reader, length, 1024)
            path = data.decode(errors="replace")
            try:
                match kind:
                    case b"STAT":
                        self._writer.write(b"STAT" + self._stat(path))
                    case b"STA2" | b"LST2":
                        self._writer.write(kind + self._stat_v2(path))
                    case b"LIST" | b"LIS2":
                        self._list(path, kind == b"LIS2")
                    case b"RECV":
                        await self._give(path)
                    case b"SEND":
                        await self._take(path)
                    case _:
                        raise ProtocolError(f"unknown sync request {kind!r}")
            except FileError as error:
                self._writer.write(protocol.sync_failure(str(error)))
            except ProtocolError as error:
                self._writer.write(protocol.sync_failure(str(error)))
                return
            await self._writer.drain()

    def _stat(self, path: str) -> bytes:
        file = self._files.find(path)
        return struct.pack("<III", *((0, 0, 0) if file is None else (file.full_mode, file.size, file.mtime)))

    def _stat_v2(self, path: str) -> bytes:
        """error, dev, ino, mode, nlink, uid, gid, size, atime, mtime, ctime."""
        file = self._files.find(path)
        if file is None:
            return struct.pack("<IQQIIIIQqqq", 2, *[0] * 10)
        return struct.pack("<IQQIIIIQqqq", 0, 1, 1, file.full_mode, 1, 2000, 2000, file.size, *[file.mtime] * 3)

    def _list(self, path: str, second: bool) -> None:
        for name, file in self._files.list(path):
            encoded = name.encode()
            if second:
                entry = struct.pack("<IQQIIIIQqqqI", 0, 1, 1, file.full_mode, 1, 2000, 2000, file.size,
                                    *[file.mtime] * 3, len(encoded))  # fmt: skip
            else:
                entry = struct.pack("<IIII", file.full_mode, file.size, file.mtime, len(encoded))
            self._writer.write((b"DNT2" if second else b"DENT") + entry + encoded)
        self._writer.write(b"DONE" + bytes(72 if second else 16))

    async def _give(self, path: str) -> None:
        data = self._files.read(path)
        for start in range(0, len(data), protocol.MAX_CHUNK):
            chunk = data[start : start + protocol.MAX_CHUNK]
            self._writer.write(b"DATA" + struct.pack("<I", len(chunk)) + chunk)
            await self._writer.drain()
        self._writer.write(b"DONE" + bytes(4))

    async def _take(self, request: str) -> None:
        """`path,mode`, then DATA packets, then DONE with the time of the last change."""
        path, _, mode = request.rpartition(",")
        chunks: list[bytes] = []
        size = 0
        while True:
            kind, number = await protocol.read_sync_request(self._reader)
            if kind == b"DONE":
                break
            if kind != b"DATA":
                raise ProtocolError(f"unknown sync packet {kind!r}")
            chunk = await protocol.read_sync_data(self._reader, number, protocol.MAX_CHUNK)
            # What is too much is read to its end, so that the answer reaches the client, but not kept.
            size += len(chunk)
            if size <= self._files.capacity:
                chunks.append(chunk)
        if size > self._files.capacity:
            raise FileError("No space left on device")
        if not mode.isdecimal():
            raise FileError("a file is sent as PATH,MODE")
        self._files.write(path, b"".join(chunks), int(mode) & 0o777, number, make_parents=True)
        self._writer.write(OKAY + bytes(4))
