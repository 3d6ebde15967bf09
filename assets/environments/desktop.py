"""The desktop: real X11 programs on an X server of their own, real input, outcomes read from what the programs leave.

A session owns one Xvfb display of the screenshot's size, an openbox window manager and one application at a time. Input
goes through XTEST, so the programs see a mouse and a keyboard. The outcome of a task is what a person could check
afterwards: exit codes, what a program printed, files it wrote, the window it left open. A screenshot is taken when the
picture has stopped changing and every process of the application sleeps, so it is the same on a busy machine.

An application is a spec in `desktop_apps/`: windows of yad (a real GTK program) or an editor on a file. What its
windows hold and in which order is part of a task's initial state, so one program shows many different screens.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from assets.agent.actions import ActionError, to_pixel
from assets.environments.session import Element, digest
from assets.environments.trajectory import Screenshot
from assets.errors import InfrastructureError, MissingProgramError, ParameterError

if TYPE_CHECKING:
    from assets.agent.actions import Action
    from assets.environments.task import TaskContract

Colour = tuple[int, int, int]

LIST_ROWS = 5
"""Rows of a list that a small screen shows without scrolling."""


# --- applications ----------------------------------------------------------------------------------------------------


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Control(_Model):
    """One control of a window.

    A `toggle` is on or off, an `opener` opens the window `opens`, an `entry` takes text, a `row` can be selected, a
    `closer` closes its window with exit code `code`: 0 keeps what was chosen, anything else throws it away.
    """

    id: str
    label: str
    kind: Literal["toggle", "opener", "entry", "row", "closer"]
    on: bool = False
    opens: str | None = None
    code: int = 0


class Window(_Model):
    """A window of yad: a form in columns or a list, and closers in a row at its bottom."""

    kind: Literal["form", "list"]
    columns: int = 1
    controls: tuple[Control, ...]
    closers: tuple[Control, ...]


class Theme(_Model):
    """Flat colours. Every kind of control has a colour of its own, by which it is found on the screen."""

    window: Colour
    text: Colour
    control: Colour
    on: Colour
    closer: Colour
    entry: Colour
    rows: tuple[Colour, Colour]
    selected: Colour
    radius: int
    inset: int


class DesktopApp(_Model):
    """A desktop application: yad windows (the first is opened at the start), or mousepad on the file `note.txt`."""

    id: str
    title: str
    locale: Literal["en", "zh"]
    split: Literal["train", "heldout"]
    program: Literal["yad", "mousepad"]
    theme: Theme
    windows: dict[str, Window] = {}

    def initial_state(self) -> dict[str, Any]:
        """What a task may set: per window the controls that are shown and their order, toggles that are on, the text.

        `{"windows": {name: {"order": [control ids], "on": [control ids]}}, "text": str}`. A list shows its first
        `LIST_ROWS` rows unless a task says otherwise.
        """
        windows = {
            name: {
                "order": [control.id for control in window.controls[: LIST_ROWS if window.kind == "list" else None]],
                "on": [control.id for control in window.controls if control.on],
            }
            for name, window in self.windows.items()
        }
        return {"windows": windows, "text": ""}


@cache
def load_apps() -> tuple[DesktopApp, ...]:
    """Every spec in `desktop_apps/`, sorted by id."""
    files = sorted((Path(__file__).parent / "desktop_apps").glob("*.json"))
    return tuple(DesktopApp.model_validate_json(file.read_text(encoding="utf-8")) for file in files)


def overlay(state: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A state with the values of `changes` (dotted path -> value) in place of its own.

    Raises:
        ParameterError: a path is not in the state.
    """
    state = json.loads(json.dumps(state))
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = state
        for key in parents:
            place = place.get(key, {})
        if last not in place:
            raise ParameterError(f"the initial state has no '{path}'")
        place[last] = value
    return state


# --- the X server ----------------------------------------------------------------------------------------------------


class _Display:
    """One Xvfb display with openbox: its screen is grabbed, its mouse and keyboard are moved, its windows listed.

    The server dies with this process, and every program on it with the server.
    """

    def __init__(self, width: int, height: int, folder: Path, environment: Mapping[str, str]) -> None:
        import mss
        from Xlib import X, display, error

        self.width, self.height = width, height
        self._x = X
        read, write = os.pipe()
        try:
            self.server = subprocess.Popen(
                [
                    *(program("Xvfb"), "-displayfd", str(write), "-screen", "0", f"{width}x{height}x24"),
                    *("-nolisten", "tcp", "-noreset"),
                ],
                pass_fds=(write,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=_end_with_parent,
            )
            os.close(write)
            number = _read_line(read, 10.0)
        finally:
            os.close(read)
        if not number:
            self.server.kill()
            self.server.wait()
            raise InfrastructureError("Xvfb did not start")
        self.name = f":{number}"
        self.environment = {**environment, "DISPLAY": self.name}
        (folder / "rc.xml").write_text(_OPENBOX, encoding="utf-8")
        self._manager = subprocess.Popen(
            [program("openbox"), "--config-file", str(folder / "rc.xml")],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._connection = display.Display(self.name)
            self._root = self._connection.screen().root
            self._grabber = mss.MSS(display=self.name)
            self._area = {"left": 0, "top": 0, "width": width, "height": height}
            self._given: dict[int, int] = {}
            self._spare = self._spare_keycodes()
            deadline = time.monotonic() + 10
            while self._property(self._root, "_NET_SUPPORTING_WM_CHECK") is None:
                if time.monotonic() > deadline:
                    raise InfrastructureError("openbox did not start")
                time.sleep(0.01)
        except (error.ConnectionClosedError, error.DisplayError, OSError) as failure:
            self.close()
            raise InfrastructureError(f"no connection to the X server: {failure}") from failure

    def grab(self) -> bytes:
        """RGB bytes of the whole screen, without the pointer."""
        return bytes(self._grabber.grab(self._area).rgb)

    def windows(self) -> list[str]:
        """Titles of the open windows, the topmost last."""
        stack = self._property(self._root, "_NET_CLIENT_LIST_STACKING")
        titles = []
        for identity in [] if stack is None else stack:
            title = self._property(self._connection.create_resource_object("window", int(identity)), "_NET_WM_NAME")
            if title is not None:
                titles.append(bytes(title).decode("utf-8", "replace"))
        return titles

    def threads(self) -> list[tuple[str, int]]:
        """(state, processor time in ns) of the threads of the server and the window manager."""
        return [*_threads(self.server.pid), *_threads(self._manager.pid)]

    def _property(self, window: Any, name: str) -> Any:
        from Xlib import error

        try:
            found = window.get_full_property(self._connection.intern_atom(name), self._x.AnyPropertyType)
        except (error.BadWindow, error.BadMatch):
            return None  # it closed between the two questions
        return None if found is None else found.value

    def move(self, x: float, y: float) -> None:
        """Put the pointer on a pixel."""
        self._fake(self._x.MotionNotify, x=int(x), y=int(y))

    def button(self, number: int, down: bool) -> None:
        """Press or release a mouse button: 1 left, 3 right, 4-7 the wheel up, down, left, right."""
        self._fake(self._x.ButtonPress if down else self._x.ButtonRelease, detail=number)

    def press(self, keysyms: Sequence[int]) -> None:
        """Press keys together and release them in reverse order."""
        strokes = [self._keycode(keysym) for keysym in keysyms]
        shift = self._keycode(_keysym("Shift_L"))[0]
        codes = [shift] if any(level for _, level in strokes) else []
        codes += [code for code, _ in strokes]
        for code in codes:
            self._fake(self._x.KeyPress, detail=code)
        for code in reversed(codes):
            self._fake(self._x.KeyRelease, detail=code)

    def _fake(self, event: int, detail: int = 0, x: int = 0, y: int = 0) -> None:
        from Xlib.ext import xtest

        xtest.fake_input(self._connection, event, detail=detail, x=x, y=y)
        self._connection.sync()

    def give_keys(self, keysyms: Sequence[int]) -> bool:
        """Give each of these keysyms a key; True if the keyboard changed and programs must take note first."""
        missing = [keysym for keysym in dict.fromkeys(keysyms) if not self._known(keysym)]
        codes = sorted(self._spare[: len(missing)])
        self._spare = self._spare[len(missing) :] + codes
        self._given = {known: code for known, code in self._given.items() if code not in codes}
        self._given.update(zip(missing, codes, strict=True))
        # Every request makes every program read the whole keyboard again: neighbours go together.
        for start, run in _runs(codes):
            keys = missing[start : start + len(run)]
            self._connection.change_keyboard_mapping(run[0], [[keysym, keysym] for keysym in keys])
        self._connection.sync()
        return bool(missing)

    @property
    def spare_keys(self) -> int:
        """How many keysyms can have a given key at a time."""
        return len(self._spare)

    def _known(self, keysym: int) -> bool:
        return keysym in self._given or any(level < 2 for _, level in self._connection.keysym_to_keycodes(keysym))

    def _keycode(self, keysym: int) -> tuple[int, int]:
        """The key of a keysym and whether it needs shift."""
        if keysym in self._given:
            return self._given[keysym], 0
        return min(self._connection.keysym_to_keycodes(keysym), key=lambda place: place[1])  # type: ignore[no-any-return]

    def _spare_keycodes(self) -> list[int]:
        """Keys that have no keysym, or only those of multimedia keyboards: they can be given any character."""
        first = self._connection.display.info.min_keycode
        count = self._connection.display.info.max_keycode - first + 1
        mapping = self._connection.get_keyboard_mapping(first, count)
        return [
            first + index
            for index, keysyms in enumerate(mapping)
            if all(keysym == 0 or keysym >= _MULTIMEDIA for keysym in keysyms)
        ]

    def close(self) -> None:
        """End the window manager and the server, and with it whatever still draws on it."""
        for name in ("_grabber", "_connection"):
            handle = getattr(self, name, None)
            if handle is not None:
                with contextlib.suppress(Exception):  # the server may be gone already
                    handle.close()
        for process in (self._manager, self.server):
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _runs(codes: Sequence[int]) -> list[tuple[int, list[int]]]:
    """(index, codes) of each run of consecutive numbers in a sorted list."""
    runs: list[tuple[int, list[int]]] = []
    for index, code in enumerate(codes):
        if runs and code == runs[-1][1][-1] + 1:
            runs[-1][1].append(code)
        else:
            runs.append((index, [code]))
    return runs


def program(name: str) -> str:
    """Path of a program of the desktop.

    Raises:
        MissingProgramError: it is not installed.
    """
    path = shutil.which(name)
    if path is None:
        package = {"Xvfb": "xvfb"}.get(name, name)
        raise MissingProgramError(f"{name} is not installed: run `apt-get install {package}`")
    return path


_OPENBOX = """<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
<focus><focusNew>yes</focusNew><followMouse>no</followMouse></focus>
<applications><application class="*"><decor>no</decor><maximized>yes</maximized><focus>yes</focus></application>
</applications></openbox_config>
"""
"""Every window fills the screen, undecorated, and has the focus: what a phone-sized desktop has room for."""

_MULTIMEDIA = 0x10080000
"""X.org's vendor keysyms (XF86AudioPlay and its like) start here."""

_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """In a child before it runs its program: be told to end when the parent is gone, however it went."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _read_line(descriptor: int, seconds: float) -> str:
    """One line from a pipe, or what came of it before the time was up or the writer gone."""
    import select

    line, deadline = b"", time.monotonic() + seconds
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(descriptor, 32) if ready else b""
        if not part:
            break
        line += part
    return line.decode().strip()


def _keysym(name: str) -> int:
    from Xlib import XK

    return int(XK.string_to_keysym(name))


def _keysym_of(character: str) -> int:
    """X11's keysym of a character: Latin-1 as it is, the rest of Unicode from 0x1000000 on."""
    named = {"\n": "Return", "\t": "Tab"}.get(character)
    if named is not None:
        return _keysym(named)
    point = ord(character)
    return point if 0x20 <= point <= 0x7E or 0xA0 <= point <= 0xFF else 0x1000000 | point


def _key(name: str) -> int:
    """The keysym of a key as agents name it, such as `ctrl` or `c`.

    Raises:
        ActionError: no such key.
    """
    known = _keysym(_KEYS.get(name.casefold(), name))
    if not known and len(name) != 1:
        raise ActionError(f"no key '{name}'", 0)
    return known or _keysym_of(name)


_KEYS = {
    **{"ctrl": "Control_L", "control": "Control_L", "alt": "Alt_L", "shift": "Shift_L", "meta": "Super_L"},
    **{"enter": "Return", "return": "Return", "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "space"},
    **{"backspace": "BackSpace", "delete": "Delete", "home": "Home", "end": "End"},
    **{"pageup": "Prior", "pagedown": "Next", "up": "Up", "down": "Down", "left": "Left", "right": "Right"},
}


# --- a running application -------------------------------------------------------------------------------------------


class _Application:
    """The processes of one application with a folder of their own, which holds all they read and write."""

    def __init__(self, app: DesktopApp, state: Mapping[str, Any], screen: _Display, folder: Path) -> None:
        self.app, self.state, self._screen, self.folder = app, state, screen, folder
        self._strangers: set[str] = set()
        folder.mkdir(parents=True)
        settings = folder / "config" / "gtk-3.0"
        settings.mkdir(parents=True)
        (settings / "gtk.css").write_text(_style_sheet(app), encoding="utf-8")
        (settings / "settings.ini").write_text(_GTK_SETTINGS, encoding="utf-8")
        keyfile = folder / "config" / "glib-2.0" / "settings" / "keyfile"
        keyfile.parent.mkdir(parents=True)
        keyfile.write_text(_MOUSEPAD_SETTINGS, encoding="utf-8")
        (folder / "note.txt").write_text(state["text"], encoding="utf-8")
        for name in app.windows:
            script = folder / f"{name}.sh"
            script.write_text(self._script(name), encoding="utf-8")
        first = ["/bin/sh", f"{next(iter(app.windows))}.sh"] if app.windows else []
        self._process = subprocess.Popen(
            first or [program("mousepad"), "--disable-server", "note.txt"],
            cwd=folder,
            env={**screen.environment, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def shown(self, name: str) -> list[Control]:
        """The controls of a window in the order the task gives them."""
        known = {control.id: control for control in self.app.windows[name].controls}
        return [known[identity] for identity in self.state["windows"][name]["order"]]

    def outcome(self) -> dict[str, Any]:
        """What is to be seen of the application from outside: the open windows, what closed windows kept, the file."""
        titles = self._screen.windows()
        closed = {name: self._kept(name) for name in self.app.windows}
        opened = [title for title in titles if title in self.app.windows]
        top = opened[-1] if opened else ""
        if not self.app.windows:
            top = "note" if titles else ""
        note = (self.folder / "note.txt").read_text(encoding="utf-8", errors="replace")
        return {"open": top, "closed": closed, "text": note}

    def _kept(self, name: str) -> dict[str, Any]:
        """Exit code of a closed window and, of one that was closed to keep it, the values yad printed."""
        file = self.folder / f"{name}.exit"
        if not file.exists():
            return {"exit": None}
        kept: dict[str, Any] = {"exit": int(file.read_text())}
        if kept["exit"] != 0:
            return kept
        values = (self.folder / f"{name}.out").read_text(encoding="utf-8").rstrip("\n").split("\x1f")
        controls = self.shown(name)
        if self.app.windows[name].kind == "list":
            labels = {control.label: control.id for control in controls}
            kept["row"] = labels.get(values[0], "")
        else:
            for control, value in zip(controls, values, strict=False):
                if control.kind == "toggle":
                    kept[control.id] = value == "TRUE"
                elif control.kind == "entry":
                    kept[control.id] = value
        return kept

    def running(self) -> bool:
        """Whether a process of the application is alive."""
        return any(state != "Z" for state, _ in self.threads())

    def raise_if_killed(self) -> None:
        """Raises `InfrastructureError` if a program ended by a signal, which no action of an agent does."""
        codes = [kept["exit"] or 0 for kept in map(self._kept, self.app.windows)]
        if (self._process.poll() or 0) < 0 or any(code > 128 and code - 128 in _SIGNALS for code in codes):
            raise InfrastructureError(f"{self.app.id} was killed")

    def threads(self) -> list[tuple[str, int]]:
        """(state, processor time in ns) of every thread of every process in the application's group."""
        group = str(self._process.pid)
        found = []
        for name in os.listdir("/proc"):
            if name in self._strangers or not name.isdigit():
                continue
            if _stat(f"/proc/{name}")[2:3] == [group]:
                found += _threads(int(name))
            else:
                self._strangers.add(name)  # nobody joins a group later
        return found

    def kill(self) -> None:
        """End every process of the application and remove its folder."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _script(self, name: str) -> str:
        """The shell command of a window: what yad prints goes to NAME.out, then its exit code to NAME.exit."""
        window, state = self.app.windows[name], self.state["windows"][name]
        words = [program("yad"), f"--title={name}", "--borders=0", "--no-escape", "--separator=\x1f"]
        values = []
        if window.kind == "list":
            words += ["--list", "--no-headers", "--print-column=1", "--column=label", "--column=@back@"]
            for index, control in enumerate(self.shown(name)):
                values += [control.label, _hex(self.app.theme.rows[index % 2])]
        else:
            words += ["--form", f"--columns={window.columns}"]
            for control in self.shown(name):
                kind = {"toggle": ":CHK", "opener": ":BTN", "entry": ""}[control.kind]
                words.append(f"--field={control.label if control.kind != 'entry' else ''}{kind}")
                if control.kind == "opener":
                    values.append(f"/bin/sh {control.opens}.sh")
                elif control.kind == "toggle":
                    values.append("TRUE" if control.id in state["on"] else "FALSE")
                else:
                    values.append("")
        words += [f"--button={closer.label}:{closer.code}" for closer in window.closers]
        command = " ".join(shlex.quote(word) for word in [*words, *values])
        return f"rm -f {name}.exit\n{command} > {name}.out\necho $? > {name}.exit.new\nmv {name}.exit.new {name}.exit\n"


def _threads(pid: int) -> list[tuple[str, int]]:
    """(state, processor time in ns) of the threads of a process: while one works for it, the main one may sleep."""
    found = []
    for folder in glob.glob(f"/proc/{pid}/task/*"):
        stat, spent = _stat(folder), _read(f"{folder}/schedstat")
        if stat and spent:
            found.append((stat[0], int(spent.split()[0])))
    return found


def _stat(folder: str) -> list[str]:
    """State, parent and group of a process or thread; empty if it is gone."""
    text = _read(f"{folder}/stat")
    return text[text.rindex(")") + 2 :].split(maxsplit=3)[:3] if ")" in text else []


def _read(path: str) -> str:
    """A small file of /proc, empty if it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 4096).decode()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


_SIGNALS = frozenset(int(number) for number in signal.Signals)

_GTK_SETTINGS = """[Settings]
gtk-cursor-blink=false
gtk-enable-animations=false
gtk-xft-antialias=1
gtk-xft-hinting=0
gtk-xft-rgba=none
gtk-xft-dpi=98304
gtk-overlay-scrolling=false
"""

_MOUSEPAD_SETTINGS = """[org/xfce/mousepad/preferences/view]
font-name='DejaVu Sans Bold 10'
use-default-monospace-font=false
[org/xfce/mousepad/preferences/window]
menubar-visible=false
toolbar-visible=false
statusbar-visible=false
remember-size=false
[org/xfce/mousepad/preferences/file]
session-restore='never'
"""


def _style_sheet(app: DesktopApp) -> str:
    """The theme as GTK 3 CSS: flat, still, the same under the pointer, with bold 13 px text."""
    theme = app.theme
    # mousepad warns whoever runs it as root; a container does, a person does not, and both shall see the same.
    warning = "label, separator { font-size: 0; min-height: 0; margin: 0; padding: 0; opacity: 0; }"
    window, text, control, on = (_hex(colour) for colour in (theme.window, theme.text, theme.control, theme.on))
    closer, entry, selected = (_hex(colour) for colour in (theme.closer, theme.entry, theme.selected))
    return f"""
* {{ font-family: "DejaVu Sans", "Noto Sans CJK SC"; font-size: 13px; font-weight: bold; outline-width: 0;
  text-shadow: none; -gtk-icon-shadow: none; box-shadow: none; transition: none; animation: none;
  -GtkCheckButton-indicator-size: 0; -GtkCheckButton-indicator-spacing: 0; -GtkDialog-content-area-border: 0;
  -GtkDialog-action-area-border: 0; -GtkDialog-button-spacing: 0; }}
window, dialog, decoration, scrolledwindow, viewport {{ background: {window}; border: 0; padding: 0; }}
button, checkbutton {{ background: {control}; border: 0; border-radius: {theme.radius}px; padding: 0;
  min-height: 28px; min-width: 80px; margin: {theme.inset}px 4px 0 4px; }}
checkbutton:checked {{ background: {on}; }}
checkbutton check {{ min-width: 0; min-height: 0; margin: 0; padding: 0; border: 0; background: none;
  -gtk-icon-source: none; opacity: 0; }}
button label, checkbutton label {{ color: #ffffff; padding: 0; margin: 0; }}
buttonbox button, .dialog-action-area button {{ background: {closer}; min-width: 74px; margin: 4px; }}
checkbutton {{ min-width: 66px; }}
checkbutton label {{ padding: 0 6px; }}
scrollbar, scrollbar slider {{ min-width: 0; min-height: 0; margin: 0; border: 0; opacity: 0; }}
entry {{ background: {entry}; color: {text}; caret-color: {text}; border: 0; border-radius: {theme.radius}px;
  padding: 0 6px; min-height: 28px; margin: {theme.inset}px 4px 4px 4px; }}
treeview.view {{ background: {window}; color: {text}; -GtkTreeView-vertical-separator: 4; }}
treeview.view:selected {{ background: {selected}; color: #ffffff; }}
textview, textview text {{ background: {entry}; color: {text}; caret-color: {text}; padding: 4px; }}
{warning if app.program == "mousepad" else ""}
"""


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)


# --- the session -----------------------------------------------------------------------------------------------------


class DesktopSession:
    """One desktop with one application at a time; see `Session` for the protocol.

    The state is `{"open": top window or "", "closed": {window: {"exit": code or None, control: value, "row": id}},
    "text": content of the file, "answer": content of Finished or None}`.

    Raises:
        MissingProgramError: Xvfb, openbox, yad or mousepad is not installed.
        InfrastructureError: a program or the X server died or does not settle.
    """

    platform = "desktop"
    over = False

    def __init__(self, size: tuple[int, int], timeout: float = 20.0) -> None:
        for name in ("Xvfb", "openbox", "yad", "mousepad"):
            program(name)
        self.width, self.height = size
        self.timeout = timeout
        self._runs = 0
        self._answer: str | None = None
        self._last: tuple[bytes, int] | None = None
        self._settled = False
        self._task: TaskContract | None = None
        self._done: list[Action] = []
        self._application: _Application | None = None
        self._screen: _Display | None = None
        self._folder, self._lock = _own_folder()

    def reset(self, task: TaskContract) -> None:
        """Kill the application that runs and start the task's afresh with files of its own."""
        app = next((app for app in load_apps() if app.id == task.app), None)
        if app is None:
            known = ", ".join(app.id for app in load_apps())
            raise ParameterError(f"no desktop application '{task.app}'; known: {known}")
        self._stop()
        if self._screen is not None and self._screen.server.poll() is not None:
            self._screen.close()
            self._screen = None
        if self._screen is None:
            self._screen = _Display(self.width, self.height, self._folder, self._environment())
        self._task, self._done, self._answer, self._settled = task, [], None, False
        deadline = time.monotonic() + self.timeout
        while self._screen.windows():
            if time.monotonic() > deadline:
                raise InfrastructureError("windows of the last application do not close")
            time.sleep(_POLL)
        self._screen.move(self.width - 1, self.height - 1)
        self._runs += 1
        state = overlay(app.initial_state(), task.initial_state)
        self._application = _Application(app, state, self._screen, self._folder / f"run{self._runs}")
        while not self._screen.windows():
            if time.monotonic() > deadline or not self._application.running():
                raise InfrastructureError(f"{app.id} opened no window")
            time.sleep(_POLL)
        self._settle()

    def observe(self) -> Screenshot:
        """The settled screen."""
        from PIL import Image

        buffer = io.BytesIO()
        Image.frombytes("RGB", (self.width, self.height), self._settle()).save(buffer, "PNG", compress_level=6)
        return Screenshot(buffer.getvalue(), self.width, self.height)

    def act(self, action: Action) -> None:
        """Carry one action out with mouse and keyboard.

        Raises:
            ActionError: a desktop has no such action.
        """
        if action.name == "Finished":
            self._answer = action.content or self._answer
        elif action.name != "CallUser":
            self._settled = False
            self._perform(action)
            self._settle()
        self._done.append(action)

    def state(self) -> dict[str, Any]:
        """What can be seen of the application from outside; see the class."""
        return {**self._running().outcome(), "answer": self._answer}

    def digest(self) -> str:
        """A short hash of `state()`."""
        return digest(self.state())

    def note(self) -> None:
        """Nothing: no action of a desktop asks for text."""

    def snapshot(self) -> tuple[TaskContract, tuple[Action, ...]]:
        """The way to this moment; real programs can't be copied, but they can be led here again."""
        if self._task is None:
            raise InfrastructureError("no application was started")
        return (self._task, tuple(self._done))

    def restore(self, snapshot: tuple[TaskContract, tuple[Action, ...]]) -> None:
        """Start afresh and go the way of the snapshot again."""
        task, actions = snapshot
        self.reset(task)
        for action in actions:
            self.act(action)

    def elements(self) -> list[Element]:
        """The controls of the top window, found by their flat colours on the screen; no text is read.

        The theme gives every kind of control a colour of its own and a margin, so a control is a connected region of
        its colour, and regions in reading order are the controls in reading order.
        """
        return [
            Element(control.label, control.kind, (float(box[0]), float(box[1]), float(box[2]), float(box[3])), name)
            for control, name, box in self._controls()
        ]

    def close(self) -> None:
        """End everything the session started and remove its files."""
        self._stop()
        if self._screen is not None:
            self._screen.close()
            self._screen = None
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> DesktopSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _perform(self, action: Action) -> None:
        screen, name = self._server(), action.name
        where = [to_pixel(point, self.width, self.height) for point in action.points()]
        if name in ("Click", "DoubleClick", "RightClick", "LongPress") and where:
            screen.move(*where[0])
            number = 3 if name == "RightClick" else 1
            for _ in range(2 if name == "DoubleClick" else 1):
                screen.button(number, True)
                if name == "LongPress":
                    time.sleep(_LONG_PRESS)
                screen.button(number, False)
        elif name == "Drag" and len(where) == 2:
            screen.move(*where[0])
            screen.button(1, True)
            for step in range(1, 9):
                screen.move(*(start + (end - start) * step / 8 for start, end in zip(*where, strict=True)))
            screen.button(1, False)
        elif name == "Swipe" and len(where) == 2:
            screen.move(*where[0])
            across, down = where[1][0] - where[0][0], where[1][1] - where[0][1]
            wheel = (7 if across < 0 else 6) if abs(across) > abs(down) else (5 if down < 0 else 4)
            for _ in range(3):
                screen.button(wheel, True)
                screen.button(wheel, False)
        elif name == "Type" and action.content is not None:
            keysyms = [_keysym_of(character) for character in action.content]
            for start in range(0, len(keysyms), screen.spare_keys):
                part = keysyms[start : start + screen.spare_keys]
                if screen.give_keys(part):
                    self._settle()
                for keysym in part:
                    screen.press([keysym])
                self._settled = False
                if start + screen.spare_keys < len(keysyms):
                    self._settle()
        elif name == "Hotkey" and action.keys:
            combination = [_key(key) for key in action.keys]
            if screen.give_keys(combination):
                self._settle()
            self._settled = False
            screen.press(combination)
        elif name == "Wait":
            time.sleep(_WAIT)
        else:
            raise ActionError(f"{name} does not exist on desktop", 0)

    def _controls(self) -> list[tuple[Control, str, tuple[int, int, int, int]]]:
        """(control, `window.control`, box) of everything in the top window."""
        application = self._running()
        picture = np.frombuffer(self._settle(), np.uint8).reshape(self.height, self.width, 3)
        name = application.outcome()["open"]
        if not application.app.windows:
            note = Control(id="note", label="笔记" if application.app.locale == "zh" else "Note", kind="entry")
            return [(note, "note", box) for box in _regions(picture, [application.app.theme.entry])] if name else []
        if not name:
            return []
        theme, window = application.app.theme, application.app.windows[name]
        shown = application.shown(name)
        if window.kind == "list":
            found = _regions(picture, [theme.rows[0]]) + _regions(picture, [theme.rows[1]])
            found = sorted(found + _regions(picture, [theme.selected]), key=lambda box: box[1])
        else:
            found = _regions(picture, [theme.control]) + _regions(picture, [theme.on])
            found = sorted(found + _regions(picture, [theme.entry]), key=_reading_order)
            per_column = -(-len(shown) // window.columns)
            rows = [shown[row::per_column] for row in range(per_column)]  # yad fills a column before the next
            shown = [control for row in rows for control in row]
        closers = sorted(_regions(picture, [theme.closer]), key=_reading_order)
        if len(found) != len(shown) or len(closers) != len(window.closers):
            raise InfrastructureError(
                f"{application.app.id}/{name}: {len(found)}+{len(closers)} controls on the screen, "
                f"{len(shown)}+{len(window.closers)} expected"
            )
        pairs = [*zip(shown, found, strict=True), *zip(window.closers, closers, strict=True)]
        return [(control, f"{name}.{control.id}", box) for control, box in pairs]

    def _environment(self) -> dict[str, str]:
        """Of this machine's variables only the paths and the time zone reach the programs."""
        return {
            **{key: value for key, value in os.environ.items() if key in ("PATH", "TZ")},
            **{"HOME": str(self._folder), "LANG": "C.UTF-8", "LANGUAGE": "C", "GTK_THEME": "Adwaita"},
            **{"NO_AT_BRIDGE": "1", "GSETTINGS_BACKEND": "keyfile", "GTK_IM_MODULE": "gtk-im-context-simple"},
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self._folder}/none",
        }

    def _server(self) -> _Display:
        if self._screen is None:
            raise InfrastructureError("the desktop is closed")
        if self._screen.server.poll() is not None:
            raise InfrastructureError("the X server died")
        return self._screen

    def _running(self) -> _Application:
        if self._application is None:
            raise InfrastructureError("no application was started")
        return self._application

    def _stop(self) -> None:
        if self._application is not None:
            self._application.kill()
            self._application = None

    def _settle(self) -> bytes:
        """Wait until the picture stands still and the application sleeps; returns the picture."""
        screen, application = self._server(), self._running()
        deadline = time.monotonic() + self.timeout
        seen = 0
        while time.monotonic() < deadline:
            picture = screen.grab()
            threads = application.threads()
            # A program that waits for the server or the window manager sleeps too: they must be at rest as well.
            states = {state for state, _ in [*threads, *screen.threads()]}
            now = (picture, sum(spent for _, spent in threads))
            seen = seen + 1 if now == self._last and states <= {"S", "Z"} else 0
            # What was at rest before nothing happened needs one look, anything else three in a row.
            if seen == (1 if self._settled else 3):
                self._settled = True
                application.raise_if_killed()
                return picture
            self._last, self._settled = now, self._settled and now == self._last
            time.sleep(_QUIET)
        raise InfrastructureError(f"{application.app.id} does not come to rest within {self.timeout:g} s")


_POLL = 0.005
_WAIT = 0.05
_LONG_PRESS = 0.6
_QUIET = 0.01
"""Seconds between looks. Three without a new pixel and without processor time: the program waits for input."""


def _own_folder() -> tuple[Path, IO[str]]:
    """A temporary folder and the lock that says it is in use. Folders whose owner was killed are removed."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*/lock"):
        with contextlib.suppress(OSError), lock.open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    own = (folder / "lock.new").open("w")
    fcntl.flock(own, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / "lock")
    return folder, own


_FOLDER = "hesper-desktop-"


def _regions(picture: np.ndarray, colours: Sequence[Colour]) -> list[tuple[int, int, int, int]]:
    """Boxes `[x0, y0, x1, y1)` of the connected regions of exactly these colours that are large enough for a control.

    Args:
        picture: `[height, width, 3]`, uint8.
    """
    from scipy import ndimage

    mask = np.zeros(picture.shape[:2], bool)
    for colour in colours:
        mask |= (picture == np.array(colour, np.uint8)).all(axis=2)
    labels, _ = ndimage.label(mask, structure=np.ones((3, 3)))
    boxes = []
    for rows, columns in ndimage.find_objects(labels):
        if columns.stop - columns.start >= 40 and rows.stop - rows.start >= 16:
            boxes.append((columns.start, rows.start, columns.stop, rows.stop))
    return boxes


def _reading_order(box: tuple[int, int, int, int]) -> tuple[int, int]:
    return (box[1] // 8, box[0])
