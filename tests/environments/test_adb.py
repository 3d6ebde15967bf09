"""The ADB server: the real protocol, the programs that drivers call, and nothing that garbage or a kill could break."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import os
import random
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import adbutils
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from assets.agent.actions import Action
from assets.environments.adb import protocol
from assets.environments.adb.client import Phone
from assets.environments.adb.device import RUNTIME_URL
from assets.environments.adb.devtools import Browser
from assets.environments.adb.files import FileError, Files, resolve
from assets.environments.adb.phones import Phones
from assets.environments.adb.programs import matcher
from assets.environments.adb.shell import ShellSyntaxError, parse
from assets.environments.phone import PhoneParameters, PhoneSession
from assets.environments.task import TaskContract
from assets.errors import InfrastructureError, ParameterError
from tests.environments.conftest import SIZE

MAIL = TaskContract("t", "mobile", "mail-en", "en", "")
SLOW = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def phones() -> Iterator[Phones]:
    server = Phones()
    yield server
    server.close()


@pytest.fixture(scope="module")
def serial(phones: Phones) -> str:
    return phones.add(SIZE)


@pytest.fixture
def phone(phones: Phones, serial: str) -> Phone:
    """The phone, in its launcher."""
    reached = Phone(("127.0.0.1", phones.port), serial, 60)
    reached.shell("input keyevent HOME")
    return reached


@pytest.fixture
def device(phones: Phones, serial: str) -> adbutils.AdbDevice:
    return adbutils.AdbClient("127.0.0.1", phones.port, 60).device(serial)


def said(phone: Phone, line: str) -> str:
    return phone.shell(line).decode()


# --- the wire --------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300))
def test_whatever_comes_in_is_a_request_or_a_named_error(data: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        with contextlib.suppress(EOFError, protocol.ProtocolError):
            while True:
                request = await protocol.read_request(reader)
                assert protocol.block(request)[4:] in data

    asyncio.run(read())


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), min_size=1, max_size=5))
def test_what_shlex_quotes_comes_back_word_for_word(words: list[str]) -> None:
    (pipeline,) = parse(shlex.join(["echo", *words]))  # alone, `if` would be a word of the shell's own
    assert [word.expand({}) for word in pipeline.commands[0].words] == ["echo", *words]


@given(st.text(st.sampled_from("ab '\"\\$?{};&|<>2(`#\n*é"), max_size=30))
def test_any_line_is_parsed_or_refused(line: str) -> None:
    with contextlib.suppress(ShellSyntaxError):
        for pipeline in parse(line):
            assert pipeline.commands
            assert all(command.words for command in pipeline.commands)


def test_lists_pipes_and_redirections() -> None:
    first, second, third = parse("a 'b c' | d >/x 2>&1 && e; f")
    assert [len(pipeline.commands) for pipeline in (first, second, third)] == [2, 1, 1]
    assert [pipeline.joint for pipeline in (first, second, third)] == [";", "&&", ";"]
    assert first.commands[1].output is not None
    assert first.commands[1].errors_to_output
    for broken in ("a 'b", "a |", "| a", "a && && b", "a >", "$(a)", "`a`", "for x in y; do z; done", "a (b)"):
        with pytest.raises(ShellSyntaxError):
            parse(broken)


@given(
    st.text(st.sampled_from("ab.*^$|"), max_size=8).filter(
        lambda pattern: not re.search(r"(?<!\.)\*|\*\*|.\^|\$[^|]", pattern)
    ),
    st.text(st.sampled_from("abc"), max_size=6),
)
def test_patterns_mean_what_they_mean_to_grep(pattern: str, line: str) -> None:
    assert matcher(pattern)(line) == (re.search(pattern, line) is not None)


def test_no_pattern_takes_long() -> None:
    started = time.monotonic()
    assert not matcher("(a+)+.*(a+)+.*a.*a.*a.*a.*a.*a.*b")("a" * 20000)
    assert time.monotonic() - started < 5


@given(st.text(st.sampled_from("./ab\0\n"), max_size=30))
def test_no_path_leads_out_of_the_phone(path: str) -> None:
    files = Files(1 << 20)
    assert resolve(path).startswith("/")
    assert ".." not in resolve(path).split("/")
    with contextlib.suppress(FileError):
        files.write(path, b"x", make_parents=True)
        assert resolve(path) == "/dev/null" or resolve(path).startswith(("/data/local/tmp/", "/storage/emulated/0/"))


def test_a_phone_is_full_some_day() -> None:
    files = Files(200_000)
    files.write("/sdcard/full", bytes(100_000))
    with pytest.raises(FileError, match="No space left"):
        files.write("/sdcard/more", bytes(100_000))
    with pytest.raises(FileError, match="No space left"):
        files.make_folder("/sdcard" + "/deep" * 50)


# --- files and garbage over a real connection ------------------------------------------------------------------------


@SLOW
@given(
    data=st.binary(max_size=200_000),
    name=st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=20),
)
def test_any_bytes_come_back_from_the_phone(device: adbutils.AdbDevice, data: bytes, name: str) -> None:
    path = f"/sdcard/Download/{name}"
    device.sync.push(data, path, 0o640)
    assert device.sync.read_bytes(path) == data
    found = device.sync.stat(path)
    assert (found.mode, found.size) == (0o100640, len(data))
    assert name in [entry.path for entry in device.sync.iter_directory("/storage/emulated/0/Download")]
    device.shell(["rm", path])
    assert not device.sync.exists(path)


def test_a_large_file_is_whole_and_a_too_large_one_refused(phones: Phones, device: adbutils.AdbDevice) -> None:
    data = random.Random(1).randbytes(5_000_001)
    device.sync.push(data, "/data/local/tmp/large")
    assert device.sync.read_bytes("/data/local/tmp/large") == data
    device.shell("rm /data/local/tmp/large")
    with pytest.raises(adbutils.AdbError):
        device.sync.read_bytes("/data/local/tmp/large")
    with pytest.raises(adbutils.AdbError):
        device.sync.push(b"x", "/system/bin/x")
    with pytest.raises(adbutils.AdbError):
        device.sync.push(bytes(70 << 20), "/data/local/tmp/too_large")
    assert not device.sync.exists("/data/local/tmp/too_large")


@SLOW
@given(data=st.binary(max_size=200), kind=st.integers(0, 4))
def test_garbage_ends_its_own_connection_and_no_other(phones: Phones, serial: str, data: bytes, kind: int) -> None:
    with socket.create_connection(("127.0.0.1", phones.port)) as good:
        good.sendall(protocol.block("host:track-devices"))
        assert good.recv(4) == protocol.OKAY
        good.recv(1 << 16)
        with socket.create_connection(("127.0.0.1", phones.port)) as bad:
            before = {
                0: b"",
                1: protocol.block(f"host:transport:{serial}"),
                2: protocol.block(f"host:transport:{serial}") + protocol.block("sync:"),
                3: protocol.block(f"host:transport:{serial}") + protocol.block("shell,v2:"),
                4: protocol.block(data.decode(errors="replace")[:100]),
            }[kind]
            with contextlib.suppress(ConnectionError):
                bad.sendall(before + data)
                bad.shutdown(socket.SHUT_WR)
                bad.settimeout(30)
                while bad.recv(1 << 16):
                    pass
        good.setblocking(False)
        with pytest.raises(BlockingIOError):
            good.recv(1)
    client = adbutils.AdbClient("127.0.0.1", phones.port, 60)
    assert client.server_version() == protocol.VERSION
    assert [info.state for info in client.list() if info.serial == serial] == ["device"]


def test_clients_hear_of_every_phone_that_comes_and_goes(phones: Phones, serial: str) -> None:
    with socket.create_connection(("127.0.0.1", phones.port)) as watching:
        watching.settimeout(60)
        stream = watching.makefile("rb")
        watching.sendall(protocol.block("host:track-devices"))
        assert stream.read(4) == protocol.OKAY

        def listed() -> list[str]:
            return stream.read(int(stream.read(4), 16)).decode().split()[::2]

        before = listed()
        second = phones.add(SIZE)
        assert listed() == [*before, second]
        client = adbutils.AdbClient("127.0.0.1", phones.port, 60)
        client.wait_for(second, timeout=60)
        with pytest.raises(adbutils.AdbError, match="more than one device"):
            _ask(phones, "host:transport-any")
        phones.remove(second)
        assert listed() == before
    with pytest.raises(adbutils.AdbError, match="not found"):
        _ask(phones, f"host:transport:{second}")


def _ask(phones: Phones, request: str) -> None:
    with adbutils.AdbClient("127.0.0.1", phones.port, 60).make_connection() as connection:
        connection.send_command(request)
        connection.check_okay()


# --- Debian's adb ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("adb") is None, reason="the adb program is not installed")
def test_the_adb_program_drives_the_phone(phones: Phones, serial: str, tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "ANDROID_ADB_SERVER_PORT": str(phones.port)}

    def adb(*arguments: str, code: int = 0, standard_input: bytes = b"") -> bytes:
        done = subprocess.run(
            ["adb", *arguments], capture_output=True, env=environment, input=standard_input, timeout=60
        )
        assert done.returncode == code, done.stderr.decode()
        return done.stdout + done.stderr

    on = ("-s", serial)
    assert f"{serial}\tdevice".encode() in adb("devices")
    assert b"model:Hesper_Phone" in adb("-L", f"tcp:127.0.0.1:{phones.port}", "devices", "-l")
    assert adb(*on, "get-state") == b"device\n"
    adb(*on, "wait-for-device")
    adb(*on, "shell", "monkey -p org.hesper.mail_en -c android.intent.category.LAUNCHER 1")
    assert b"org.hesper.mail_en" in adb(*on, "shell", "dumpsys window | grep mCurrentFocus")
    picture = adb(*on, "exec-out", "screencap", "-p")
    assert Image.open(io.BytesIO(picture)).size == SIZE
    adb(*on, "shell", "input", "tap", "40", "48")
    assert adb(*on, "exec-out", "screencap -p") != picture
    assert adb(*on, "shell", "nosuch", code=127) == b"/system/bin/sh: nosuch: inaccessible or not found\n"
    assert adb(*on, "shell", standard_input=b"echo one\nfalse\necho $?\n") == b"one\n1\n"
    data = random.Random(2).randbytes(300_000)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "data.bin").write_bytes(data)
    adb(*on, "push", str(tmp_path / "here"), "/sdcard/Download/")
    adb(*on, "pull", "/sdcard/Download/here", str(tmp_path / "back"))
    assert (tmp_path / "back" / "data.bin").read_bytes() == data
    assert b"Read-only file system" in adb(*on, "push", str(tmp_path / "here" / "data.bin"), "/etc/passwd", code=1)
    assert b"No such file" in adb(*on, "pull", "/sdcard/../../../../etc/passwd", str(tmp_path), code=1)
    adb("kill-server")
    assert f"{serial}\tdevice".encode() in adb("devices"), "a phone outlives what people type"


# --- the programs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("wm size", "Physical size: 192x192\n"),
        ("wm density", "Physical density: 160\n"),
        ("getprop sys.boot_completed", "1\n"),
        ("getprop no.such.property", "\n"),
        ("settings put system screen_brightness 7; settings get system screen_brightness", "7\n"),
        ("settings get secure nothing", "null\n"),
        ("ime list -s", "com.android.inputmethod.latin/.LatinIME\ncom.android.adbkeyboard/.AdbIME\n"),
        ("pm path org.hesper.mail_en", "package:/data/app/org.hesper.mail_en/base.apk\n"),
        ("cmd package list packages hesper.mail_en", "package:org.hesper.mail_en\n"),
        ("monkey -p com.none -c android.intent.category.LAUNCHER 1; echo $?", "252\n"),
        ("echo 'a;b' \"$HOME\" $?; false || echo no && echo yes", "a;b / 0\nno\nyes\n"),
        ("echo one > /sdcard/t; echo two >> /sdcard/t; cat /sdcard/t | grep -c o; rm /sdcard/t", "2\n"),
        ("cd /sdcard && mkdir -p a/b && cp /dev/../sdcard/x a 2>/dev/null; ls a; rm -r a", "b\n"),
        ("seq 3 2>&1 | head -1", "/system/bin/sh: seq: inaccessible or not found\n"),
        ("printenv 2>/dev/null; echo $?", "127\n"),
        ("id | grep -o 2000 >/dev/null && echo shell", "shell\n"),
        ("echo a; exit; echo b", "a\n"),
        ("uiautomator dump", "UI hierchary dumped to: /sdcard/window_dump.xml\n"),
    ],
)
def test_programs_answer_as_on_a_phone(phone: Phone, line: str, output: str) -> None:
    code, answered, _ = phone.run(line)
    assert (code, answered.decode()) == (0, output)


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("su", 127, "su: inaccessible or not found"),
        ("input tap 5", 255, "Invalid arguments for command: tap"),
        ("input tap nan 5", 255, "Invalid arguments"),
        ("input tap 1e999 5", 255, "Invalid arguments"),
        ("input keyevent NOSUCH", 255, "Invalid arguments for command: keyevent"),
        ("input text 你好", 255, "NullPointerException"),
        ("am start -n com.none/.Main", 1, "Activity class {com.none/.Main} does not exist"),
        ("am start -a android.intent.action.VIEW -d https://example.org", 1, "unable to resolve Intent"),
        ("cat /etc/passwd", 1, "No such file or directory"),
        ("rm -r /sdcard", 1, "Permission denied"),
        ("echo $(id)", 1, "no command substitution"),
        ("hesper set '{\"a\": 1}'", 1, "not a state"),
        ("hesper set /sdcard/none", 1, "No such file"),
        ("hesper eval 1", 2, "usage"),
    ],
)
def test_what_does_not_work_says_so(phone: Phone, line: str, code: int, message: str) -> None:
    found, _, errors = phone.run(line)
    assert found == code
    assert message in errors.decode()
    phone.shell("true")


def test_apps_start_stop_and_forget(phone: Phone) -> None:
    phone.shell("am start -n org.hesper.mail_en/.MainActivity")
    assert "u0 org.hesper.mail_en/.MainActivity" in said(phone, "dumpsys activity top")
    phone.shell("am force-stop org.hesper.mail_en")
    assert "org.hesper.launcher/" in said(phone, "dumpsys window | grep -E 'mCurrentFocus|mFocusedApp'")
    assert '"mail-en"' not in said(phone, "hesper get | grep -o recents.*]")[:60]
    assert "org.hesper.mail_en" in said(phone, "pm list packages -3")
    assert said(phone, "pm clear org.hesper.mail_en") == "Success\n"


def test_keys_and_text_reach_the_field_that_has_the_focus(phone: Phone) -> None:
    phone.shell("monkey -p org.hesper.notes_zh -c android.intent.category.LAUNCHER 1")
    _tap(phone, "添加")
    _tap(phone, "日程")

    def field() -> str:
        return re.search(r'"日程":"(.*?)"', said(phone, "hesper get"))[1]  # type: ignore[index]

    phone.shell("input text 'Room%s12;'")
    assert field() == "Room 12;"
    phone.shell("input keyevent DEL KEYCODE_A 55")
    assert field() == "Room 12a,"
    phone.shell("am broadcast -a ADB_CLEAR_TEXT")
    assert field() == ""
    phone.shell(f"am broadcast -a ADB_INPUT_B64 --es msg {base64.b64encode('酒店 ’'.encode()).decode()}")
    assert field() == "酒店 ’"
    phone.shell("am broadcast -a ADB_INPUT_TEXT --es msg '好 1'")
    assert field() == "酒店 ’好 1"
    phone.shell("input keycombination 113 29; input keyevent FORWARD_DEL")
    assert field() == ""
    phone.shell("ime set com.android.inputmethod.latin/.LatinIME; am broadcast -a ADB_INPUT_TEXT --es msg x")
    assert field() == "", "another input method takes no broadcasts"
    phone.shell("ime set com.android.adbkeyboard/.AdbIME")


def _tap(phone: Phone, label: str) -> None:
    phone.shell("uiautomator dump")
    node = re.search(
        rf'text="{label}".*?bounds="\[(\d+),(\d+)\]\[(\d+),(\d+)\]"', said(phone, "cat /sdcard/window_dump.xml")
    )
    assert node is not None
    x0, y0, x1, y1 = map(int, node.groups())
    phone.shell(f"input tap {(x0 + x1) / 2} {(y0 + y1) / 2}")


def test_pictures_are_the_same_in_every_form(phone: Phone) -> None:
    png = phone.shell("screencap -p")
    width, height, form, _ = struct.unpack("<IIII", phone.shell("screencap")[:16])
    raw = Image.frombytes("RGBA", (width, height), phone.shell("screencap")[16:])
    assert (width, height, form) == (*SIZE, 1)
    assert raw.convert("RGB").tobytes() == Image.open(io.BytesIO(png)).convert("RGB").tobytes()
    phone.shell("screencap -p /sdcard/shot.png")
    assert phone.shell("cat /sdcard/shot.png") == png
    phone.shell("input keyevent 120")
    assert said(phone, "ls /sdcard/Pictures/Screenshots").split()[-1].startswith("Screenshot_")


def test_adbutils_own_helpers_work(device: adbutils.AdbDevice) -> None:
    assert device.window_size() == SIZE
    device.app_start("org.hesper.mail_en")
    assert device.app_current().package == "org.hesper.mail_en"
    assert "org.hesper.mail_en" in device.list_packages()
    assert device.screenshot().size == SIZE
    assert device.prop.model == "Hesper Phone"
    assert device.shell2("false").returncode == 1
    assert device.shell2("false", v2=True).returncode == 1
    assert device.rotation() == 0
    assert device.is_screen_on()
    assert "shell_v2" in device.get_features()
    assert device.forward_list() == []


# --- a phone that is not ours ----------------------------------------------------------------------------------------


def test_a_phone_without_our_program_is_driven_as_a_real_one(phones: Phones) -> None:
    serial = phones.add((180, 240), program=False)
    real = PhoneParameters(
        adb=f"127.0.0.1:{phones.port}", serial=serial, apps={"信息": "org.hesper.mail_en"}, settle_seconds=0.0
    )
    with PhoneSession(SIZE, phone=real) as session:
        session.reset(TaskContract("t", "mobile", "信息", "zh", ""))
        shot = session.observe()
        assert (shot.width, shot.height) == session.size == (180, 240)
        state = session.state()
        assert (state["package"], state["activity"]) == ("org.hesper.mail_en", "org.hesper.mail_en.MainActivity")
        labels = {element.label: element for element in session.elements()}
        assert "Draft" in labels
        x, y = labels["Draft"].center
        session.act(Action("Click", point=(int(x * 1000 / 180), int(y * 1000 / 240))))
        after = session.state()
        assert after["screen"] != state["screen"]
        session.act(Action("LaunchApp", content="org.hesper.notes_zh"))
        assert session.state()["package"] == "org.hesper.notes_zh"
        session.act(Action("LaunchApp", content="Nowhere"))
        assert session.note() == "no app 'Nowhere'"
        session.act(Action("PressHome"))
        assert session.state()["package"] == "org.hesper.launcher"
        session.act(Action("GetScreenshot"))
        assert session.state()["album"] == 1
        session.reset(TaskContract("t", "mobile", "信息", "zh", ""))
        assert session.state()["screen"] == state["screen"]
        with pytest.raises(ParameterError, match="no snapshots"):
            session.snapshot()
        with pytest.raises(ParameterError, match="does not let itself be given"):
            session.reset(TaskContract("t", "mobile", "信息", "zh", "", initial_state={"view.screen": "x"}))
        with pytest.raises(ParameterError, match=r"phone\.apps"):
            session.reset(TaskContract("t", "mobile", "Nowhere", "zh", ""))
    phones.remove(serial)


def test_a_phone_that_is_not_there_is_named(phones: Phones) -> None:
    with (
        PhoneSession(SIZE, phone=PhoneParameters(adb=f"127.0.0.1:{phones.port}", serial="none")) as session,
        pytest.raises(InfrastructureError, match=r"phone none .* is not there; attached: hesper-"),
    ):
        session.reset(MAIL)
    with (
        PhoneSession(SIZE, phone=PhoneParameters(adb="somewhere")) as session,
        pytest.raises(ParameterError, match="host:port"),
    ):
        session.reset(MAIL)
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    with (
        PhoneSession(SIZE, phone=PhoneParameters(adb=f"127.0.0.1:{port}")) as session,
        pytest.raises(InfrastructureError, match="connect to adb server failed"),
    ):
        session.reset(MAIL)
    assert not any("adb" in process.name() and "fork-server" in process.cmdline() for process in psutil.process_iter())


# --- what breaks is mended -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["server", "browser", "page", "everything"])
def test_what_is_killed_is_noticed_and_back_after_the_next_reset(victim: str) -> None:
    with PhoneSession(SIZE) as session, PhoneSession(SIZE) as neighbour:
        session.reset(MAIL)
        neighbour.reset(MAIL)
        first = session.observe()
        server = psutil.Process(_server_of(session).pid)
        below = server.children(recursive=True)
        for process in _victims(victim, server, below):
            process.kill()
        started = time.monotonic()
        with pytest.raises(InfrastructureError):
            _work_until_it_fails(session)
        assert time.monotonic() - started < 60
        with pytest.raises(InfrastructureError, match="reset the session first"):
            session.observe()
        for mended in (session, neighbour):
            with contextlib.suppress(InfrastructureError):
                mended.observe()
            mended.reset(MAIL)
            assert mended.observe() == first
        if victim in ("server", "everything"):
            assert _gone(below)


def _work_until_it_fails(session: PhoneSession) -> None:
    for _ in range(100):
        session.observe()
        session.act(Action("Click", point=(500, 500)))
        time.sleep(0.05)


def _victims(name: str, server: psutil.Process, below: list[psutil.Process]) -> list[psutil.Process]:
    match name:
        case "server":
            return [server]
        case "browser":
            return [
                process
                for process in below
                if "--remote-debugging-pipe" in _command(process)
                and "--type=" not in " ".join(_command(process))
                and process.name() != "sh"
            ]
        case "page":
            return [process for process in below if "--type=renderer" in _command(process)]
    return [server, *below]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _server_of(session: PhoneSession) -> Phones:
    assert session._phones is not None
    return session._phones


def _gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=30)
    return not alive


@pytest.mark.parametrize("what", ["page", "server"])
def test_what_hangs_is_noticed_in_time(what: str) -> None:
    with PhoneSession(SIZE, timeout=4) as session:
        session.reset(MAIL)
        first = session.observe()
        server = psutil.Process(_server_of(session).pid)
        renderers = _victims("page", server, server.children(recursive=True))
        stopped = [server] if what == "server" else renderers
        for process in stopped:
            process.suspend()
        started = time.monotonic()
        with pytest.raises(InfrastructureError):
            session.observe()
        assert time.monotonic() - started < 15
        session.timeout = 60
        session.reset(MAIL)
        assert session.observe() == first
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def test_a_dropped_connection_is_no_success(phones: Phones) -> None:
    """A server that hangs up before the exit code: for a tap, silence would look like success."""
    listener = socket.create_server(("127.0.0.1", 0))
    serial = phones.add(SIZE)
    script = f"""
import socket, threading, sys
listener = socket.socket(fileno={listener.fileno()})
def pipe(a, b, cut):
    while data := a.recv(65536):
        if cut and b"input tap" in data: break
        b.sendall(data)
    for s in (a, b):
        try: s.shutdown(socket.SHUT_RDWR)
        except OSError: pass
while True:
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", {phones.port}))
    threading.Thread(target=pipe, args=(client, server, True), daemon=True).start()
    threading.Thread(target=pipe, args=(server, client, False), daemon=True).start()
"""
    proxy = subprocess.Popen([sys.executable, "-c", script], pass_fds=[listener.fileno()])
    try:
        at = PhoneParameters(adb=f"127.0.0.1:{listener.getsockname()[1]}", serial=serial)
        with PhoneSession(SIZE, phone=at) as session:
            session.reset(MAIL)
            before = session.digest()
            with pytest.raises(InfrastructureError, match="input tap"):
                session.act(Action("Click", point=(500, 500)))
            session.reset(MAIL)
            assert session.digest() == before
    finally:
        proxy.kill()
        proxy.wait()
        listener.close()
    phones.remove(serial)


@pytest.fixture
def short_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, with a path short enough for Chromium."""
    folder = Path(tempfile.mkdtemp(prefix="adb-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


def test_a_killed_process_leaves_nothing_behind(short_folder: Path) -> None:
    script = (
        "import time\n"
        "from assets.agent.actions import Action\n"
        "from assets.environments.phone import PhoneSession\n"
        "from assets.environments.task import TaskContract\n"
        "session = PhoneSession((192, 192))\n"
        "session.reset(TaskContract('t', 'mobile', 'mail-en', 'en', ''))\n"
        "session.act(Action('GetScreenshot'))\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) > 4
    assert list(short_folder.iterdir())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert _gone(below)
    deadline = time.monotonic() + 20
    while list(short_folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not list(short_folder.iterdir())


def test_sessions_of_a_process_share_one_server_and_the_last_ends_it(short_folder: Path) -> None:
    with PhoneSession(SIZE) as one:
        one.reset(MAIL)
        with PhoneSession(SIZE) as two:
            two.reset(MAIL)
            assert _server_of(one) is _server_of(two)
            server = psutil.Process(_server_of(one).pid)
        assert server.is_running()
        below = [server, *server.children(recursive=True)]
        assert list(short_folder.iterdir())
    assert _gone(below)
    assert not list(short_folder.iterdir())


@pytest.mark.parametrize(
    "attempt",
    [
        "fetch(ADDRESS).catch(() => 0)",
        "new Image().src = ADDRESS",
        "try { new WebSocket(ADDRESS.replace('http', 'ws')) } catch {}",
        "new Worker(URL.createObjectURL(new Blob([`fetch('${ADDRESS}').catch(() => 0)`])))",
        "location.href = ADDRESS",
        "window.open(ADDRESS)",
    ],
)
def test_nothing_on_a_phones_page_reaches_even_this_machine(attempt: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    script = f"const ADDRESS = 'http://127.0.0.1:{listener.getsockname()[1]}/'; {attempt}; 0"

    async def try_it() -> None:
        browser = await Browser.start(60)
        try:
            page = await browser.new_page(RUNTIME_URL, *SIZE)
            assert await page.evaluate(f"{{ {script} }}") == 0
            await asyncio.sleep(1.5)
        finally:
            await browser.close()

    asyncio.run(try_it())
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()
