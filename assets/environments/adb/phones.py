"""The ADB server of this process: started with the first phone, ended with the last one.

It lives in a process of its own, with the browser that draws its phones below it, and ends when its standard input
closes: nothing of it outlives the process that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assets.environments.chromium import START_SECONDS
from assets.errors import HesperError, InfrastructureError, MissingProgramError

ROOT = Path(__file__).parents[3]
PING_SECONDS = 10.0
"""How long a server that works may take for the simplest answer on a busy machine."""


class Phones:
    """A running server. `acquire` gives the one of this process.

    Attributes:
        port: where it answers clients, on 127.0.0.1.
        timeout: seconds after which a call of a phone's page counts as hung.
    """

    _here: Phones | None = None
    _lock = threading.RLock()

    def __init__(self, timeout: float = 60.0, port: int = 0) -> None:
        self.timeout = timeout
        self._wanted_port = port
        self._users = 0
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self.port = 0

    @classmethod
    def acquire(cls) -> Phones:
        """The server of this process, started if need be. Each `acquire` wants a `release`.

        Raises:
            InfrastructureError: it does not start.
        """
        with cls._lock:
            if cls._here is None or cls._here._owner != os.getpid():
                cls._here = cls()
            cls._here._users += 1
            return cls._here

    def release(self) -> None:
        """Somebody does not need it any more; the last one ends it."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                self.close()
                if Phones._here is self:
                    Phones._here = None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of its process, 0 before the first phone. The browser is below it."""
        return 0 if self._process is None else self._process.pid

    def add(self, size: tuple[int, int], specs: Mapping[str, Any] | None = None, program: bool = True) -> str:
        """Switch a phone on.

        Args:
            size: width and height of its screen, in pixels.
            specs: its apps as JSON values by id; those that ship without it.
            program: whether its shell knows `hesper`.

        Returns:
            Its serial number.

        Raises:
            InfrastructureError: the server or its browser does not do it.
            MissingProgramError: no Chromium is installed.
        """
        return str(self._ask({"do": "add", "size": size, "specs": specs, "program": program})["serial"])

    def remove(self, serial: str) -> None:
        """Switch a phone off. Nothing happens where it is gone already, with its server or without."""
        with contextlib.suppress(InfrastructureError):
            if self.alive:
                self._ask({"do": "remove", "serial": serial})

    def close(self) -> None:
        """End the server, its phones and their browser."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if not self._answers():
                self._kill()
                self._start()
            process = self._process
            assert process is not None
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(question, ensure_ascii=False).encode() + b"\n")
                process.stdin.flush()
            except OSError as error:
                raise InfrastructureError(f"the ADB server is gone: {error}") from None
            answer = self._read(self.timeout + START_SECONDS)
        if "missing" in answer:
            raise MissingProgramError(str(answer["missing"]))
        if "error" in answer:
            raise InfrastructureError(f"the ADB server failed to {question['do']} a phone: {answer['error']}")
        return answer

    def _answers(self) -> bool:
        """Whether the server is there, and not stopped."""
        if not self.alive:
            return False
        try:
            with socket.create_connection(("127.0.0.1", self.port), PING_SECONDS) as connection:
                connection.sendall(b"000chost:version")
                return connection.recv(4) == b"OKAY"
        except OSError:
            return False

    def _kill(self) -> None:
        """End the server at once; its browser follows when the pipe between them closes."""
        if self._process is not None:
            self._process.kill()
            self.close()

    def _start(self) -> None:
        command = [sys.executable, "-m", "assets.environments.adb", "--owned", "--timeout", str(self.timeout)]
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._pending = b""
        self._process = subprocess.Popen(
            [*command, "--port", str(self._wanted_port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        self.port = int(self._read(60)["port"])

    def _read(self, seconds: float) -> dict[str, Any]:
        """The next line that the server writes."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))
            data = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                self._kill()
                reason = "ended" if ready else f"did not answer within {seconds:g} s"
                raise InfrastructureError(f"the ADB server {reason}")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            raise HesperError(f"the ADB server said {line[:80]!r}") from None
        return answer
