"""The client's side: a phone at an ADB server, spoken to through `adbutils`, whose every failure is the machine's."""

from __future__ import annotations

import socket
from typing import Any

from adbutils import AdbClient, AdbConnection, AdbDevice
from adbutils.errors import AdbError

from assets.errors import InfrastructureError


class Phone:
    """A phone at an ADB server, simulated or real.

    Args:
        address: of the server, host and port.
        serial: of the phone; without it the server must have exactly one.
        timeout: seconds that an answer may take.

    Raises:
        InfrastructureError: there is no server, or no such phone.
    """

    def __init__(self, address: tuple[str, int], serial: str, timeout: float) -> None:
        self._timeout = timeout
        self._client = _Client(*address, socket_timeout=timeout)
        self._where = f"phone {serial or '(the only one)'} at {address[0]}:{address[1]}"
        try:
            listed = self._client.list(extended=True)
        except _FAILURES as error:
            raise InfrastructureError(f"{self._where}: {_reason(error)}") from error
        known = [info for info in listed if serial in ("", info.serial)]
        if len(known) != 1 or known[0].state != "device":
            states = ", ".join(f"{info.serial} {info.state}" for info in listed) or "none"
            raise InfrastructureError(f"{self._where} is not there; attached: {states}")
        self.serial = known[0].serial
        # By its number a phone is reached in one connection, by its name in two.
        number = known[0].transport_id
        self._device = AdbDevice(self._client, None if number else self.serial, number)

    def run(self, line: str) -> tuple[int, bytes, bytes]:
        """A line of its shell: exit code, output, errors.

        Raises:
            InfrastructureError: the connection, the server or the phone failed before the exit code came.
        """
        try:
            reply = self._device.shell2(line, timeout=self._timeout, encoding=None, v2=True)
        except _FAILURES as error:
            raise InfrastructureError(f"{self._where}: '{line[:60]}': {_reason(error)}") from error
        # Android before 7 has no shell protocol: errors come among the output.
        return reply.returncode, reply.stdout or reply.output, reply.stderr

    def shell(self, line: str) -> bytes:
        """The output of a line that must succeed.

        Raises:
            InfrastructureError: as `run`, or the line failed.
        """
        code, output, errors = self.run(line)
        if code != 0:
            said = (errors or output).decode(errors="replace").strip()
            raise InfrastructureError(f"{self._where}: '{line[:60]}' failed with {code}: {said[:200]}")
        return output

    def push(self, data: bytes, path: str) -> None:
        """Put a file on it.

        Raises:
            InfrastructureError: it did not take it.
        """
        try:
            self._device.sync.push(data, path)
        except _FAILURES as error:
            raise InfrastructureError(f"{self._where}: push {path}: {_reason(error)}") from error


_FAILURES = (AdbError, EOFError, OSError, ValueError, IndexError)
"""What adbutils raises when a server is gone, silent, or talks nonsense."""


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


class _Connection(AdbConnection):
    """A connection that starts no server of its own, and closes without a pause of 10 ms."""

    def _safe_connect(self) -> socket.socket:
        connected: socket.socket = self._create_socket()
        return connected

    def send_command(self, cmd: str) -> None:
        data = cmd.encode()
        self.conn.sendall(b"%04x" % len(data) + data)

    def close(self) -> None:
        if not self.closed:
            self.conn.close()


class _Client(AdbClient):
    """A client whose connections are those above."""

    def __init__(self, host: str, port: int, socket_timeout: float) -> None:
        super().__init__(host, port, socket_timeout)
        self._limit = socket_timeout

    def make_connection(self, timeout: float | None = None) -> Any:
        connection = _Connection(self.host, self.port)
        connection.conn.settimeout(timeout or self._limit)
        return connection
