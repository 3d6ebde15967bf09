"""What a phone's shell answers: the programs that drivers of Android phones call, and the few that people type.

Outputs are those of Android 13 where a driver reads them. A program that is not here answers as Android does for one
that is not installed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from assets.environments.adb.device import (
    ACTIVITY,
    EMPTY_STATE,
    KEYBOARD,
    LATIN_KEYBOARD,
    LAUNCHER,
    LONG_PRESS_SECONDS,
    App,
    Device,
)
from assets.environments.adb.devtools import ALT, CONTROL, META, SHIFT, Key, ScriptError
from assets.environments.adb.files import FileError, resolve
from assets.environments.adb.shell import Command, ShellSyntaxError, Word, parse

LONGEST_SLEEP = 600.0
MOST_OUTPUT = 1 << 26
"""Bytes that a line may put out."""

Output = tuple[int, bytes, bytes]
"""Exit code, standard output, standard error."""


@dataclass
class Shell:
    """A shell on a phone."""

    device: Device
    incoming: AsyncIterator[bytes]
    folder: str = "/"
    code: int = 0
    last_tap: tuple[float, float] | None = None
    ended: bool = False

    async def run(self, line: str) -> tuple[int, list[tuple[bool, bytes]]]:
        """Carry out a line: its exit code, and (is an error, output) in order.

        Raises:
            BrokenError: the phone broke.
        """
        chunks: list[tuple[bool, bytes]] = []
        self.last_tap = None
        try:
            pipelines = parse(line)
        except ShellSyntaxError as error:
            self.code = 1
            return 1, [(True, f"/system/bin/sh: {error}\n".encode())]
        for pipeline in pipelines:
            if self.ended:
                break
            if (pipeline.joint == "&&" and self.code) or (pipeline.joint == "||" and not self.code):
                continue
            data: bytes | None = None
            for command in pipeline.commands:
                self.code, data, errors = await self._command(command, data)
                if errors:
                    chunks.append((True, errors))
            if data:
                chunks.append((False, data))
            if sum(len(data) for _, data in chunks) > MOST_OUTPUT:
                return 1, [*chunks, (True, b"sh: too much output\n")]
        return self.code, chunks

    async def _command(self, command: Command, data: bytes | None) -> Output:
        def text(word: Word) -> str:
            return word.expand({**_VARIABLES, "?": str(self.code), "PWD": self.folder})

        files = self.device.files
        try:
            if command.input is not None:
                data = files.read(self.path(text(command.input)))
            words = [text(word) for word in command.words]
            code, output, errors = await self._program(words, data)
            if command.errors_to_output:
                output, errors = errors + output, b""
            if command.errors is not None:
                files.write(self.path(text(command.errors)), errors)
                errors = b""
            if command.output is not None:
                path = self.path(text(command.output))
                before = files.find(path) if command.append else None
                files.write(path, (before.data or b"" if before else b"") + output)
                output = b""
        except FileError as error:
            return 1, b"", f"/system/bin/sh: {error}\n".encode()
        return code, output, errors

    async def _program(self, words: list[str], data: bytes | None) -> Output:
        if words[:1] == ["exec"]:
            words = words[1:]
        if not words:
            return 0, b"", b""
        name = words[0].rpartition("/")[2] if words[0].startswith("/system/bin/") else words[0]
        program = PROGRAMS.get(name)
        if program is None or (program is _hesper and not self.device.has_program):
            return 127, b"", f"/system/bin/sh: {words[0]}: inaccessible or not found\n".encode()
        try:
            return await program(self, words[1:], data)
        except UsageError as error:
            return error.code, b"", f"{error}\n".encode()
        except (FileError, ScriptError) as error:
            return 1, b"", f"{words[0]}: {error}\n".encode()

    def path(self, name: str) -> str:
        """The absolute path of a name."""
        return resolve(name if name.startswith("/") else f"{self.folder}/{name}")

    async def standard_input(self, data: bytes | None) -> bytes:
        """What comes through a pipe, or from the client until it closes its side."""
        if data is not None:
            return data
        chunks = [chunk async for chunk in self.incoming]
        return b"".join(chunks)


class UsageError(Exception):
    """A program was called in a way that it does not know."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


Program = Callable[[Shell, list[str], bytes | None], Awaitable[Output]]

_VARIABLES = {
    "ANDROID_DATA": "/data",
    "ANDROID_ROOT": "/system",
    "EXTERNAL_STORAGE": "/sdcard",
    "HOME": "/",
    "PATH": "/system/bin",
    "SHELL": "/system/bin/sh",
    "TMPDIR": "/data/local/tmp",
    "USER": "shell",
}


def _said(text: str) -> Output:
    return 0, text.encode(), b""


# --- input -----------------------------------------------------------------------------------------------------------


async def _input(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    """`input [-d DISPLAY] [SOURCE] COMMAND …`"""
    device = shell.device
    words = list(arguments)
    if words[:1] == ["-d"]:
        words = words[2:]
    if words and words[0] in _SOURCES:
        words = words[1:]
    if not words:
        raise UsageError(_INPUT_USAGE, 255)
    name, rest = words[0], words[1:]
    async with device.turn:
        match name, len(rest):
            case "tap", 2:
                x, y = _numbers(name, rest)
                again = shell.last_tap == (x, y)
                shell.last_tap = None if again else (x, y)
                await device.press(x, y, clicks=2 if again else 1)
            case ("swipe", 4 | 5):
                x0, y0, x1, y1, *duration = _numbers(name, rest)
                seconds = min((duration[0] if duration else 300) / 1000, LONGEST_SLEEP)
                if (x0, y0) == (x1, y1):
                    await device.press(x0, y0, seconds)
                else:
                    await device.drag(x0, y0, x1, y1)
            case ("draganddrop", 4 | 5):
                x0, y0, x1, y1, *_ = _numbers(name, rest)
                await device.drag(x0, y0, x1, y1, LONG_PRESS_SECONDS)
            case "text", 1:
                if not rest[0].isascii():
                    return 255, b"", _NO_KEYS.encode()
                await device.insert(rest[0].replace("%s", " "))
            case ("keyevent", count) if count > 0:
                for word in rest:
                    if not word.startswith("--"):
                        await _key(device, word)
            case ("keycombination", count) if count > 1:
                codes = [_key_code(word) for word in (rest[2:] if rest[0] == "-t" else rest)]
                modifiers = sum({_MODIFIERS[code] for code in codes if code in _MODIFIERS})
                for code in codes:
                    if code in _KEYS:
                        await device.key(_KEYS[code], modifiers)
            case ("press", 0) | ("roll", 2):
                pass
            case _:
                raise UsageError(f"Error: Invalid arguments for command: {name}\n{_INPUT_USAGE}", 255)
    return 0, b"", b""


def _numbers(name: str, words: list[str]) -> list[float]:
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        raise UsageError(f"Error: Invalid arguments for command: {name}\n{_INPUT_USAGE}", 255) from None
    if not all(abs(number) < 1e6 for number in numbers):
        raise UsageError(f"Error: Invalid arguments for command: {name}\n{_INPUT_USAGE}", 255)
    return numbers


async def _key(device: Device, word: str) -> None:
    code = _key_code(word)
    match code:
        case 3:
            await device.home()
        case 4:
            await device.back()
        case 187:
            await device.recent()
        case 120:
            await device.save_screenshot()
        case _ if code in _KEYS:
            await device.key(_KEYS[code])


def _key_code(word: str) -> int:
    if word.isdecimal():
        return int(word[:9])
    code = _KEY_NAMES.get(word.removeprefix("KEYCODE_"))
    if code is None:
        raise UsageError(f"Error: Invalid arguments for command: keyevent\n{_INPUT_USAGE}", 255)
    return code


_SOURCES = ("dpad", "keyboard", "mouse", "touchpad", "gamepad", "touchnavigation", "joystick", "touchscreen",
            "stylus", "trackball")  # fmt: skip
_INPUT_USAGE = """Usage: input [<source>] [-d DISPLAY_ID] <command> [<arg>...]

The commands and default sources are:
      text <string> (Default: touchscreen)
      keyevent [--longpress|--doubletap] <key code number or name> ... (Default: keyboard)
      tap <x> <y> (Default: touchscreen)
      swipe <x1> <y1> <x2> <y2> [duration(ms)] (Default: touchscreen)
      draganddrop <x1> <y1> <x2> <y2> [duration(ms)] (Default: touchscreen)
      press (Default: trackball)
      roll <dx> <dy> (Default: trackball)
      keycombination [-t duration(ms)] <key code 1> <key code 2> ... (Default: keyboard)"""
_NO_KEYS = (
    "Exception occurred while executing 'text':\njava.lang.NullPointerException: Attempt to get length of null array\n"
)
_KEYS: dict[int, Key] = {
    19: Key("ArrowUp", "ArrowUp", 38), 20: Key("ArrowDown", "ArrowDown", 40), 21: Key("ArrowLeft", "ArrowLeft", 37),
    22: Key("ArrowRight", "ArrowRight", 39), 61: Key("Tab", "Tab", 9), 62: Key(" ", "Space", 32, " "),
    66: Key("Enter", "Enter", 13, "\r"), 67: Key("Backspace", "Backspace", 8), 92: Key("PageUp", "PageUp", 33),
    93: Key("PageDown", "PageDown", 34), 111: Key("Escape", "Escape", 27), 112: Key("Delete", "Delete", 46),
    122: Key("Home", "Home", 36), 123: Key("End", "End", 35), 160: Key("Enter", "NumpadEnter", 13, "\r"),
    55: Key(",", "Comma", 188, ","), 56: Key(".", "Period", 190, "."), 69: Key("-", "Minus", 189, "-"),
    **{7 + digit: Key(str(digit), f"Digit{digit}", 48 + digit, str(digit)) for digit in range(10)},
    **{29 + n: Key(chr(97 + n), f"Key{chr(65 + n)}", 65 + n, chr(97 + n)) for n in range(26)},
}  # fmt: skip
_MODIFIERS = {57: ALT, 58: ALT, 59: SHIFT, 60: SHIFT, 113: CONTROL, 114: CONTROL, 117: META, 118: META}
_KEY_NAMES = {
    "HOME": 3, "BACK": 4, "DPAD_UP": 19, "DPAD_DOWN": 20, "DPAD_LEFT": 21, "DPAD_RIGHT": 22, "DPAD_CENTER": 23,
    "VOLUME_UP": 24, "VOLUME_DOWN": 25, "POWER": 26, "CAMERA": 27, "CLEAR": 28, "COMMA": 55, "PERIOD": 56,
    "ALT_LEFT": 57, "ALT_RIGHT": 58, "SHIFT_LEFT": 59, "SHIFT_RIGHT": 60, "TAB": 61, "SPACE": 62, "ENTER": 66,
    "DEL": 67, "MINUS": 69, "MENU": 82, "SEARCH": 84, "PAGE_UP": 92, "PAGE_DOWN": 93, "ESCAPE": 111,
    "FORWARD_DEL": 112, "CTRL_LEFT": 113, "CTRL_RIGHT": 114, "META_LEFT": 117, "META_RIGHT": 118, "SYSRQ": 120,
    "MOVE_HOME": 122, "MOVE_END": 123, "NUMPAD_ENTER": 160, "VOLUME_MUTE": 164, "APP_SWITCH": 187, "SLEEP": 223,
    "WAKEUP": 224, "CUT": 277, "COPY": 278, "PASTE": 279,
    **{str(digit): 7 + digit for digit in range(10)}, **{chr(65 + n): 29 + n for n in range(26)},
}  # fmt: skip


# --- the screen ------------------------------------------------------------------------------------------------------


async def _screencap(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    """`screencap [-p] [-d DISPLAY] [FILE]`; without `-p` the pixels, behind width, height, format and colour space."""
    words, display = list(arguments), None
    png = "-p" in words
    if "-d" in words:
        display = words.index("-d")
        del words[display : display + 2]
    names = [word for word in words if not word.startswith("-")]
    async with shell.device.turn:
        shot = await shell.device.page.screenshot()
    if not png and not (names and names[0].endswith(".png")):
        shot = await asyncio.to_thread(_raw_pixels, shot)
    if names:
        shell.device.files.write(shell.path(names[0]), shot)
        return 0, b"", b""
    return 0, shot, b""


def _raw_pixels(png: bytes) -> bytes:
    import io
    import struct

    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        pixels = image.convert("RGBA")
        return struct.pack("<IIII", pixels.width, pixels.height, 1, 1) + pixels.tobytes()


async def _wm(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    match arguments:
        case ["size"]:
            return _said("Physical size: {}x{}\n".format(*shell.device.size))
        case ["density"]:
            return _said("Physical density: 160\n")
        case ["size" | "density", "reset"]:
            return 0, b"", b""
    raise UsageError("Error: this phone's screen has one size", 255)


async def _uiautomator(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    """`uiautomator dump [--compressed] [FILE]`"""
    if arguments[:1] != ["dump"]:
        raise UsageError(
            "Usage: uiautomator <subcommand> [options]\n\nAvailable subcommands:\n\ndump: creates a dump", 1
        )
    names = [word for word in arguments[1:] if not word.startswith("-")]
    device = shell.device
    async with device.turn:
        elements = json.loads(await device.elements_text())
        package = (await device.focus()).partition("/")[0]
    width, height = device.size
    nodes = [_node(0, "", "android.widget.FrameLayout", package, "", False, (0, 0, width, height), open_end=True)]
    for index, (label, kind, box, identity, visible, *_) in enumerate(elements):
        if visible:
            corners = tuple(round(edge) for edge in box)
            nodes.append(
                _node(index, label, _WIDGETS.get(kind, "android.widget.Button"), package, identity, True, corners)
            )
    document = (
        "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>"
        f'<hierarchy rotation="0">{"".join(nodes)}</node></hierarchy>'
    )
    path = names[0] if names else "/sdcard/window_dump.xml"
    if path == "/dev/tty":
        return _said(f"{document}UI hierchary dumped to: /dev/tty\n")
    device.files.write(shell.path(path), document.encode())
    return _said(f"UI hierchary dumped to: {path}\n")


def _node(
    index: int, text: str, widget: str, package: str, identity: str, clickable: bool, box: tuple[int, ...],
    open_end: bool = False,
) -> str:  # fmt: skip
    x0, y0, x1, y1 = box
    resource = quoteattr(f"{package}:id/{identity}" if identity else "")
    return (
        f'<node index="{index}" text={quoteattr(text)} resource-id={resource} class="{widget}" '
        f'package="{package}" content-desc="" checkable="false" checked="false" clickable="{str(clickable).lower()}" '
        f'enabled="true" focusable="{str(clickable).lower()}" focused="false" scrollable="false" '
        f'long-clickable="false" password="false" selected="false" bounds="[{x0},{y0}][{x1},{y1}]"'
        f"{'' if open_end else ' /'}>"
    )


_WIDGETS = {
    "checkbox": "android.widget.CheckBox",
    "field": "android.widget.EditText",
    "link": "android.widget.TextView",
    "radio": "android.widget.RadioButton",
    "row": "android.widget.TextView",
    "select": "android.widget.Spinner",
    "switch": "android.widget.Switch",
}


# --- apps ------------------------------------------------------------------------------------------------------------


async def _am(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    device = shell.device
    match arguments:
        case ["start" | "start-activity", *rest]:
            return await _start(device, rest)
        case ["force-stop" | "kill", *_, package]:
            app = device.app_of(package)
            if app is not None:
                async with device.turn:
                    await device.stop(app)
            return 0, b"", b""
        case ["broadcast", *rest]:
            return await _broadcast(device, _intent(rest))
        case ["get-current-user"]:
            return _said("0\n")
        case ["stack" | "task", "list"]:
            return _said(f"  taskId=1: {await device.focus()} visible=true\n")
    raise UsageError("Activity manager (activity) commands:\n  start, force-stop, broadcast, get-current-user", 255)


async def _start(device: Device, words: list[str]) -> Output:
    intent = _intent(words)
    told = f"Starting: Intent {{ {_shown(intent)} }}\n"
    action, categories = intent.get("-a", [""])[0], intent.get("-c", [])
    package = intent.get("-p", [""])[0] or intent.get("", [""])[0]
    if "-n" in intent:
        package = intent["-n"][0].partition("/")[0]
    app = device.app_of(package)
    async with device.turn:
        if app is not None:
            if "-S" in intent:
                await device.stop(app)
            await device.launch(app)
        elif package == LAUNCHER or "android.intent.category.HOME" in categories:
            await device.home()
        elif "-n" in intent:
            missing = f"Error type 3\nError: Activity class {{{intent['-n'][0]}}} does not exist.\n"
            return 1, told.encode(), missing.encode()
        elif (settings := _settings_app(device)) is not None and action.startswith("android.settings."):
            await device.launch(settings)
        else:
            unresolved = (
                f"Error: Activity not started, unable to resolve Intent {{ {_shown(intent)} flg=0x10000000 }}\n"
            )
            return 1, told.encode(), unresolved.encode()
        if "-W" in intent:
            focus = await device.focus()
            told += f"Status: ok\nLaunchState: COLD\nActivity: {focus}\nTotalTime: 0\nWaitTime: 0\nComplete\n"
    return _said(told)


def _settings_app(device: Device) -> App | None:
    apps = [app for app in device.catalogue.apps.values() if app.category == "settings"]
    return apps[0] if apps else None


async def _broadcast(device: Device, intent: dict[str, list[str]]) -> Output:
    """What the ADB keyboard takes, where it is the input method; anything else reaches nobody."""
    action = intent.get("-a", [""])[0]
    extras = intent.get("extras", [])
    message = extras[1] if len(extras) > 1 else ""
    if device.settings["secure"]["default_input_method"] == KEYBOARD:
        async with device.turn:
            match action:
                case "ADB_INPUT_TEXT":
                    await device.insert(message)
                case "ADB_INPUT_B64":
                    with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                        await device.insert(base64.b64decode(message, validate=True).decode())
                case "ADB_INPUT_CHARS":
                    with contextlib.suppress(ValueError, OverflowError):
                        await device.insert("".join(chr(int(code)) for code in message.split(",")))
                case "ADB_INPUT_CODE" if message.isdecimal():
                    await _key(device, message)
                case "ADB_EDITOR_CODE":
                    await _key(device, "66")
                case "ADB_CLEAR_TEXT":
                    await device.key(_KEYS[29], CONTROL)
                    await device.key(_KEYS[67])
    extra = " (has extras)" if extras else ""
    return _said(f"Broadcasting: Intent {{ act={action} flg=0x400000{extra} }}\nBroadcast completed: result=0\n")


def _intent(words: list[str]) -> dict[str, list[str]]:
    """Options of an intent; `extras` holds name and value of its extras, the empty key what has no option."""
    intent: dict[str, list[str]] = {}
    position = 0
    while position < len(words):
        word = words[position]
        if word in ("-a", "-c", "-d", "-n", "-p", "-t", "-f", "--user", "--display"):
            intent.setdefault(word, []).append(words[position + 1] if position + 1 < len(words) else "")
            position += 2
        elif re.fullmatch(r"--?e[a-z]{0,4}", word):
            intent.setdefault("extras", []).extend(words[position + 1 : position + 3])
            position += 3
        else:
            intent.setdefault(word if word.startswith("-") else "", []).append(word)
            position += 1
    return intent


def _shown(intent: dict[str, list[str]]) -> str:
    parts = []
    if "-a" in intent:
        parts.append(f"act={intent['-a'][0]}")
    if "-c" in intent:
        parts.append(f"cat=[{','.join(intent['-c'])}]")
    if "-d" in intent:
        parts.append(f"dat={intent['-d'][0]}")
    if "-n" in intent:
        parts.append(f"cmp={intent['-n'][0]}")
    elif "-p" in intent or "" in intent:
        parts.append(f"pkg={intent.get('-p', intent.get('', ['']))[0]}")
    return " ".join(parts)


async def _monkey(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    """`monkey -p PACKAGE -c android.intent.category.LAUNCHER 1`, as drivers start apps with it."""
    package = arguments[arguments.index("-p") + 1] if "-p" in arguments[:-1] else ""
    app = shell.device.app_of(package)
    if app is None:
        return 252, b"", b"** No activities found to run, monkey aborted.\n"
    async with shell.device.turn:
        await shell.device.launch(app)
    return _said("Events injected: 1\n## Network stats: elapsed time=1ms (0ms mobile, 0ms wifi, 1ms not connected)\n")


async def _pm(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    device = shell.device
    apps = sorted(device.catalogue.apps.values(), key=lambda app: app.package)
    match arguments:
        case ["list", "packages", *rest]:
            system = "-s" in rest
            wanted = next((word for word in rest if not word.startswith("-") and not word.isdecimal()), "")
            names = [] if system else [app.package for app in apps]
            if "-3" not in rest:
                names += [KEYBOARD.partition("/")[0], LATIN_KEYBOARD.partition("/")[0], LAUNCHER]
            path = (lambda name: f"/data/app/{name}/base.apk=") if "-f" in rest else (lambda name: "")
            return _said("".join(f"package:{path(name)}{name}\n" for name in names if wanted in name))
        case ["path", package]:
            if device.app_of(package) is None:
                return 1, b"", b""
            return _said(f"package:/data/app/{package}/base.apk\n")
        case ["clear", *_, package]:
            app = device.app_of(package)
            if app is None:
                return 1, b"Failed\n", b""
            async with device.turn:
                await device.clear(app)
            return _said("Success\n")
        case ["resolve-activity", *_, package]:
            if device.app_of(package) is None:
                return _said("No activity found\n")
            return _said(
                f"priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=true\n{package}/.{ACTIVITY}\n"
            )
        case ["query-activities", *_]:
            return _said("".join(f"{app.package}/.{ACTIVITY}\n" for app in apps))
        case ["list", "users"]:
            return _said("Users:\n\tUserInfo{0:Owner:c13} running\n")
        case ["grant" | "revoke", *_]:
            return 0, b"", b""
        case ["install" | "uninstall", *_]:
            return 1, b"Failure [INSTALL_FAILED_USER_RESTRICTED: this phone's apps are fixed]\n", b""
    raise UsageError("Package manager (package) commands:\n  list packages, path, clear, resolve-activity", 255)


async def _cmd(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    services = {"package": _pm, "activity": _am, "input": _input, "window": _wm, "settings": _settings}
    if not arguments or arguments[0] not in services:
        raise UsageError(f"cmd: Can't find service: {(arguments or [''])[0]}", 20)
    return await services[arguments[0]](shell, arguments[1:], data)


# --- what the phone tells of itself ----------------------------------------------------------------------------------


async def _focus(device: Device) -> tuple[str, str, str]:
    """What has the focus, its package, and the short way of writing it: `package/.Activity`."""
    async with device.turn:
        focus = await device.focus()
    package, _, activity = focus.partition("/")
    return focus, package, f"{package}/{activity.removeprefix(package)}"


async def _dumpsys(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    device = shell.device
    width, height = device.size
    match arguments:
        case ["window", *_]:
            focus, _, short = await _focus(device)
            return _said(
                "WINDOW MANAGER LAST ANR (dumpsys window lastanr)\n  <no ANR has occurred since boot>\n\n"
                f"  mCurrentFocus=Window{{5c1f0de u0 {focus}}}\n"
                f"  mFocusedApp=ActivityRecord{{9a41e2b u0 {short} t1}}\n"
                f"  mDisplayId=0 init={width}x{height} 160dpi cur={width}x{height} app={width}x{height}\n"
            )
        case ["activity", *_]:
            _, package, short = await _focus(device)
            return _said(
                "ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\n"
                f"TASK 10000:{package} id=1 userId=0\n  ACTIVITY {short} 9a41e2b pid=1000\n"
                f"  topResumedActivity=ActivityRecord{{9a41e2b u0 {short} t1}}\n"
                f"  mResumedActivity: ActivityRecord{{9a41e2b u0 {short} t1}}\n"
            )
        case ["input_method", *_]:
            async with device.turn:
                focused = (await device.get_state()).get("view") or {}
            shown = str(focused.get("focus") is not None).lower()
            return _said(
                f"  mInputShown={shown}\n  mShowRequested={shown}\n"
                f"  mCurMethodId={device.settings['secure']['default_input_method']}\n"
            )
        case ["display", *_]:
            return _said(
                "  DisplayViewport{type=INTERNAL, valid=true, isActive=true, displayId=0, orientation=0, "
                f"logicalFrame=Rect(0, 0 - {width}, {height}), deviceWidth={width}, deviceHeight={height}}}\n"
            )
        case ["power", *_]:
            return _said("  mWakefulness=Awake\n  mHoldingDisplaySuspendBlocker=true\nDisplay Power: state=ON\n")
        case ["battery", *_]:
            return _said(
                "Current Battery Service state:\n  AC powered: true\n  status: 5\n  level: 100\n  scale: 100\n"
            )
        case ["SurfaceFlinger", "--display-id"]:
            return _said('Display 0 (HWC display 0): port=0 pnpId=HSP displayName="Hesper"\n')
        case ["package", package] if device.app_of(package) is not None:
            return _said(
                f"Packages:\n  Package [{package}] (1f2e3d4):\n    versionCode=1 minSdk=24\n    versionName=1.0\n"
            )
        case [name, *_]:
            return _said(f"Can't find service: {name}\n")
    return _said("Currently running services:\n  SurfaceFlinger\n  activity\n  battery\n  display\n  input_method\n"
                 "  package\n  power\n  window\n")  # fmt: skip


async def _getprop(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    device = shell.device
    properties = {
        "ro.build.characteristics": "default", "ro.build.version.release": "13", "ro.build.version.sdk": "33",
        "ro.product.brand": "Hesper", "ro.product.cpu.abi": "x86_64", "ro.product.device": device.product,
        "ro.product.locale": "en-US", "ro.product.manufacturer": "Hesper",
        "ro.product.model": device.model.replace("_", " "), "ro.product.name": device.product,
        "ro.serialno": device.serial, "ro.sf.lcd_density": "160", "sys.boot_completed": "1",
        "init.svc.bootanim": "stopped", "dev.bootcomplete": "1", "persist.sys.timezone": "UTC",
    }  # fmt: skip
    if arguments:
        return _said(properties.get(arguments[0], arguments[1] if len(arguments) > 1 else "") + "\n")
    return _said("".join(f"[{name}]: [{value}]\n" for name, value in sorted(properties.items())))


async def _settings(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    words = arguments[2:] if arguments[:1] == ["--user"] else arguments
    spaces = shell.device.settings
    if len(words) < 2 or words[1] not in spaces:
        raise UsageError("Settings provider (settings) commands:\n  get|put|delete|list system|secure|global KEY", 255)
    values = spaces[words[1]]
    match words[0], words[2:]:
        case "get", [name]:
            return _said(values.get(name, "null") + "\n")
        case "put", [name, value, *_]:
            if name not in values and len(values) > 1000:
                raise UsageError("too many settings", 255)
            values[name] = value
            return 0, b"", b""
        case "delete", [name]:
            return _said(f"Deleted {int(values.pop(name, None) is not None)} rows\n")
        case "list", []:
            return _said("".join(f"{name}={value}\n" for name, value in sorted(values.items())))
    raise UsageError("Settings provider (settings) commands:\n  get|put|delete|list system|secure|global KEY", 255)


async def _ime(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    secure = shell.device.settings["secure"]
    known = (LATIN_KEYBOARD, KEYBOARD)
    match arguments:
        case ["list", *options]:
            names = known if "-a" in options else tuple(secure["enabled_input_methods"].split(":"))
            end = "\n" if "-s" in options else ":\n  mId\n"
            return _said("".join(f"{name}{end}" for name in names if name))
        case ["set" | "enable" | "disable" as what, name]:
            if name not in known:
                return 255, b"", f"Unknown input method {name} cannot be {_DONE[what]} for user #0\n".encode()
            enabled = [other for other in secure["enabled_input_methods"].split(":") if other and other != name]
            if what != "disable":
                enabled.append(name)
            secure["enabled_input_methods"] = ":".join(sorted(enabled))
            if what == "set":
                secure["default_input_method"] = name
                return _said(f"Input method {name} selected for user #0\n")
            if what == "disable" and secure["default_input_method"] == name:
                secure["default_input_method"] = LATIN_KEYBOARD
            return _said(f"Input method {name}: now {_DONE[what]} for user #0\n")
        case ["reset"]:
            secure["default_input_method"] = LATIN_KEYBOARD
            return _said(f"Reset current and enabled IMEs for user #0\n  Selected: {LATIN_KEYBOARD}\n")
    raise UsageError("ime <command>:\n  list, enable, disable, set, reset", 255)


_DONE = {"set": "selected", "enable": "enabled", "disable": "disabled"}


# --- Hesper's own ----------------------------------------------------------------------------------------------------


async def _hesper(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    """`hesper get | set JSON | begin JSON | elements | apps`; the JSON may be the name of a file that holds it."""
    device = shell.device
    match arguments:
        case ["apps"]:
            apps = [[app.id, app.title, app.locale, app.package] for app in device.catalogue.apps.values()]
            return _said(json.dumps(apps, ensure_ascii=False) + "\n")
        case ["get"]:
            async with device.turn:
                return _said(await device.state_text() + "\n")
        case ["elements"]:
            async with device.turn:
                return _said(await device.elements_text() + "\n")
        case ["set" | "begin" as what, source]:
            text = source if source.startswith("{") else device.files.read(shell.path(source)).decode()
            try:
                state = json.loads(text)
                if not isinstance(state, dict) or not EMPTY_STATE.keys() <= state.keys():
                    raise ValueError(f"it has {', '.join(EMPTY_STATE)}")
                async with device.turn:
                    await (device.set_state if what == "set" else device.begin)(state)
            except (ValueError, RecursionError, ScriptError) as error:
                return 1, b"", f"hesper: not a state: {error}\n".encode()
            return 0, b"", b""
    raise UsageError("usage: hesper get | set STATE | begin STATE | elements | apps", 2)


# --- files and text --------------------------------------------------------------------------------------------------


async def _ls(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    options = "".join(word[1:] for word in arguments if word.startswith("-"))
    code, lines, errors = 0, [], []
    for name in [word for word in arguments if not word.startswith("-")] or [shell.folder]:
        path = shell.path(name)
        file = shell.device.files.find(path)
        if file is None:
            code = 1
            errors.append(f"ls: {name}: No such file or directory\n")
            continue
        listed = [(name, file)] if file.data is not None or "d" in options else [*shell.device.files.list(path)]
        for shown, entry in listed:
            if "l" in options:
                kind = "d" if entry.data is None else "-"
                changed = time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.mtime))
                lines.append(f"{kind}rw-rw---- 1 shell shell {entry.size} {changed} {shown}\n")
            else:
                lines.append(f"{shown}\n")
    return code, "".join(lines).encode(), "".join(errors).encode()


async def _cat(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    if not arguments:
        return 0, await shell.standard_input(data), b""
    output, errors = b"", ""
    for name in arguments:
        try:
            output += shell.device.files.read(shell.path(name))
        except FileError as error:
            errors += f"cat: {name}: {error}\n"
        if len(output) > MOST_OUTPUT:
            raise FileError("too much output")
    return int(bool(errors)), output, errors.encode()


async def _rm(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    options = "".join(word[1:] for word in arguments if word.startswith("-"))
    code, errors = 0, ""
    for name in arguments:
        if name.startswith("-"):
            continue
        try:
            shell.device.files.remove(shell.path(name), "r" in options or "R" in options)
        except FileError as error:
            if "f" not in options or "No such file" not in str(error):
                code, errors = 1, errors + f"rm: {name}: {error}\n"
    return code, b"", errors.encode()


async def _mkdir(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    for name in arguments:
        if not name.startswith("-"):
            if "-p" not in arguments and shell.device.files.find(shell.path(name)) is not None:
                raise FileError(f"'{name}': File exists")
            shell.device.files.make_folder(shell.path(name))
    return 0, b"", b""


async def _copy(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    names = [word for word in arguments if not word.startswith("-")]
    if len(names) != 2:
        raise UsageError("cp: Needs 2 arguments")
    target = shell.path(names[1])
    file = shell.device.files.find(target)
    if file is not None and file.data is None:
        target += "/" + shell.path(names[0]).rpartition("/")[2]
    shell.device.files.write(target, shell.device.files.read(shell.path(names[0])))
    return 0, b"", b""


async def _mv(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    await _copy(shell, arguments, data)
    shell.device.files.remove(shell.path(next(word for word in arguments if not word.startswith("-"))))
    return 0, b"", b""


async def _cd(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    path = shell.path(arguments[0] if arguments else "/")
    file = shell.device.files.find(path)
    if file is None or file.data is not None:
        raise UsageError(f"/system/bin/sh: cd: {path}: No such file or directory", 2)
    shell.folder = path
    return 0, b"", b""


async def _echo(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    words = arguments[1:] if arguments[:1] == ["-n"] else arguments
    return _said(" ".join(words) + ("" if words is not arguments else "\n"))


async def _grep(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    """`grep [-EFivcn] PATTERN [FILE]`. A pattern is words with `.`, `.*`, `^`, `$`, joined by `|`."""
    options = "".join(word[1:] for word in arguments if word.startswith("-") and len(word) > 1)
    words = [word for word in arguments if not word.startswith("-") or len(word) == 1]
    if not words:
        raise UsageError("grep: no REGEX", 2)
    if len(words) > 1:
        data = b"".join(shell.device.files.read(shell.path(name)) for name in words[1:])
    lines = (await shell.standard_input(data)).decode(errors="replace").splitlines()
    matches = matcher(words[0], ignore_case="i" in options, fixed="F" in options)
    found = [line for line in lines if matches(line) != ("v" in options)]
    if "q" in options:
        return int(not found), b"", b""
    if "c" in options:
        return int(not found), f"{len(found)}\n".encode(), b""
    return int(not found), "".join(f"{line}\n" for line in found).encode(), b""


def matcher(pattern: str, ignore_case: bool = False, fixed: bool = False) -> Callable[[str], bool]:
    """Whether a line holds a pattern. It takes linear time whatever the pattern is: no repetition but `.*` is
    understood, everything else stands for itself.
    """
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    alternatives = []
    for alternative in [pattern] if fixed else re.split(r"\\?\|", pattern):
        at_start = not fixed and alternative.startswith("^")
        at_end = not fixed and alternative.endswith("$") and not alternative.endswith("\\$")
        body = alternative[at_start : len(alternative) - at_end]
        pieces = []
        for part in [body] if fixed else re.split(r"(?<!\\)\.\*", body):
            atoms = list(part) if fixed else re.findall(r"\\.|.", part)
            source = "".join("." if atom == "." and not fixed else re.escape(atom[-1]) for atom in atoms)
            pieces.append((re.compile(source, flags), len(atoms)))
        alternatives.append((at_start, at_end, pieces))

    def matches(line: str) -> bool:
        for at_start, at_end, pieces in alternatives:
            position = 0
            for number, (piece, length) in enumerate(pieces):
                if at_end and number == len(pieces) - 1:
                    position, free = len(line) - length, position
                    found = (
                        piece.match(line, position)
                        if position >= free and (number or not at_start or not position)
                        else None
                    )
                elif at_start and number == 0:
                    found = piece.match(line)
                else:
                    found = piece.search(line, position)
                if found is None:
                    break
                position = found.end()
            else:
                return True
        return False

    return matches


async def _lines(shell: Shell, arguments: list[str], data: bytes | None, from_end: bool) -> Output:
    count, names = 10, []
    words = iter(arguments)
    for word in words:
        if word == "-n":
            word = "-" + next(words, "10")
        if re.fullmatch(r"-n?\d{1,9}", word):
            count = int(word.lstrip("-n"))
        else:
            names.append(word)
    if names:
        data = b"".join(shell.device.files.read(shell.path(name)) for name in names)
    lines = (await shell.standard_input(data)).splitlines(keepends=True)
    kept = lines[max(len(lines) - count, 0) :] if from_end else lines[:count]
    return 0, b"".join(kept), b""


async def _head(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    return await _lines(shell, arguments, data, from_end=False)


async def _tail(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    return await _lines(shell, arguments, data, from_end=True)


async def _wc(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    names = [word for word in arguments if not word.startswith("-")]
    if names:
        data = shell.device.files.read(shell.path(names[0]))
    text = await shell.standard_input(data)
    counts = {"l": text.count(b"\n"), "w": len(text.split()), "c": len(text)}
    wanted = [counts[option] for option in "lwc" if f"-{option}" in arguments] or [*counts.values()]
    return _said(" ".join(map(str, wanted)) + "\n")


async def _sleep(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    try:
        seconds = float(arguments[0])
    except (IndexError, ValueError):
        raise UsageError("sleep: Needs 1 argument") from None
    await asyncio.sleep(min(max(seconds, 0.0), LONGEST_SLEEP) if seconds == seconds else 0.0)
    return 0, b"", b""


async def _pidof(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    async with shell.device.turn:
        recents = (await shell.device.get_state())["recents"]
    for number, app in enumerate(recents):
        known = shell.device.catalogue.apps.get(app)
        if known is not None and [known.package] == arguments:
            return _said(f"{1000 + number}\n")
    return 1, b"", b""


async def _which(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    names = [word for word in arguments if not word.startswith("-")]
    known = [name for name in names if name in PROGRAMS and (name != "hesper" or shell.device.has_program)]
    return int(not known), "".join(f"/system/bin/{name}\n" for name in known).encode(), b""


def _fixed(text: str, code: int = 0) -> Program:
    async def program(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
        return code, text.encode(), b""

    return program


async def _exit(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    shell.ended = True
    return (int(arguments[0]) & 255 if arguments and arguments[0].isdecimal() else shell.code), b"", b""


async def _pwd(shell: Shell, arguments: list[str], data: bytes | None) -> Output:
    return _said(shell.folder + "\n")


PROGRAMS: dict[str, Program] = {
    "am": _am,
    "cat": _cat,
    "cd": _cd,
    "cmd": _cmd,
    "command": _which,
    "cp": _copy,
    "date": _fixed("Thu Jan  1 00:00:00 UTC 1970\n"),
    "dumpsys": _dumpsys,
    "echo": _echo,
    "exit": _exit,
    "export": _fixed(""),
    "false": _fixed("", 1),
    "getprop": _getprop,
    "grep": _grep,
    "head": _head,
    "hesper": _hesper,
    "id": _fixed("uid=2000(shell) gid=2000(shell) groups=2000(shell)\n"),
    "ime": _ime,
    "input": _input,
    "logcat": _fixed(""),
    "ls": _ls,
    "mkdir": _mkdir,
    "monkey": _monkey,
    "mv": _mv,
    "pidof": _pidof,
    "pm": _pm,
    "pwd": _pwd,
    "rm": _rm,
    "screencap": _screencap,
    "settings": _settings,
    "sleep": _sleep,
    "svc": _fixed(""),
    "sync": _fixed(""),
    "tail": _tail,
    "true": _fixed(""),
    "uiautomator": _uiautomator,
    "uname": _fixed("Linux\n"),
    "wc": _wc,
    "which": _which,
    "whoami": _fixed("shell\n"),
    "wm": _wm,
}
