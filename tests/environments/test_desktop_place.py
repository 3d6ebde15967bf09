"""Programs of a desktop reach no network, with namespaces or without; where nothing keeps them in, none is started."""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.agent.actions import Action
from assets.environments.desktop import DesktopSession, place
from assets.environments.desktop.confined import program
from assets.environments.desktop.place import Place
from assets.environments.task import TaskContract
from assets.errors import InfrastructureError


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine whose kernel allows no namespaces, as that of most containers."""
    refusing = tmp_path / "bin" / "unshare"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho unshare: unshare failed: Operation not permitted >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(refusing.parent), prepend=":")
    place._isolation.cache_clear()
    yield
    place._isolation.cache_clear()


class Neighbour:
    """Somebody on this machine who can be reached over the network: what they heard of whom."""

    def __init__(self) -> None:
        self.stream = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        for each in (self.stream, self.datagrams):
            each.settimeout(0.2)

    def call(self) -> str:
        """The line of a shell that tries to reach them, also from a process that left its session."""
        stream, datagrams = (each.getsockname()[1] for each in (self.stream, self.datagrams))
        ways = f"echo x > /dev/tcp/127.0.0.1/{stream}; echo x > /dev/udp/127.0.0.1/{datagrams}"
        return f"({ways}) 2> said; setsid --wait bash -c '{ways}' 2>> said"

    def heard(self) -> list[str]:
        """How they were reached."""
        ways = []
        with contextlib.suppress(TimeoutError):
            self.stream.accept()[0].close()
            ways.append("stream")
        with contextlib.suppress(TimeoutError):
            self.datagrams.recvfrom(16)
            ways.append("datagram")
        return ways

    def close(self) -> None:
        self.stream.close()
        self.datagrams.close()


def reached(corner: Place, reach: str) -> list[str]:
    """The ways by which a program of a session reaches a neighbour."""
    neighbour = Neighbour()
    try:
        corner.furnish()
        corner.hand_over()
        Path("/tmp/.X11-unix").mkdir(mode=0o1777, exist_ok=True)  # any X server makes it
        folder = None if reach == "home" else corner.folder
        line = ["bash", "-c", neighbour.call()]
        corner.start(line, corner.environment(), folder, reach).wait(30)  # type: ignore[arg-type]
        assert (corner.home if folder is None else folder).joinpath("said").exists(), "it did not try"
        return neighbour.heard()
    finally:
        neighbour.close()


def test_programs_reach_nobody_where_namespaces_are_allowed() -> None:
    with contextlib.closing(Place()) as corner:
        assert reached(corner, "everything") == ["stream", "datagram"]
        assert reached(corner, "home") == reached(corner, "machine") == []


def test_programs_reach_nobody_where_namespaces_are_forbidden(no_namespaces: None) -> None:
    with contextlib.closing(Place()) as corner:
        assert corner.isolation.startswith("a filter of system calls")
        assert reached(corner, "everything") == ["stream", "datagram"]
        assert reached(corner, "home") == reached(corner, "machine") == []


def test_a_session_works_where_namespaces_are_forbidden(no_namespaces: None) -> None:
    neighbour = Neighbour()
    with DesktopSession((192, 192), 120) as session:
        resources = {"read": {"said": {"kind": "text", "path": "said"}}}
        session.reset(TaskContract("t", "desktop", "xterm", "en", "Do it", resources=resources))
        session.act(Action("Type", content=f"{neighbour.call()}\n"))
        assert session.state()["read"]["said"].count("socket: Address family not supported") == 4
        session.reset(TaskContract("t", "desktop", "desk", "en", ""))
        assert session.elements()
    assert neighbour.heard() == []
    neighbour.close()


def test_where_nothing_keeps_programs_in_no_session_opens(
    no_namespaces: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setitem(place._OFFLINE, "filter", ("false",))
    with pytest.raises(InfrastructureError, match=r"neither namespaces .* nor a seccomp filter"):
        DesktopSession((192, 192))
    assert not list(tmp_path.glob("hesper-*"))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_the_filter_leads_to_an_instruction(machine: str) -> None:
    instructions = list(struct.iter_unpack("=HBBI", program(machine)))
    for number, (code, yes, no, _) in enumerate(instructions):
        assert code & 7 != 5 or max(number + 1 + yes, number + 1 + no) < len(instructions)
    assert instructions[-1][0] == 6
