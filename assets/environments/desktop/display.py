"""One X server with a window manager: its screen is grabbed, its mouse and keyboard are moved, its windows listed.

Input goes through the XTEST extension, so programs see a mouse and a keyboard.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from assets.environments import keeper
from assets.environments.desktop.keys import keysym
from assets.environments.desktop.place import Place, program
from assets.environments.desktop.processes import Thread, threads
from assets.errors import HesperError, InfrastructureError

Scale = Literal["small", "full"]
"""small: one window fills a screen as large as a postage stamp. full: a desktop as people have it."""


@dataclass(frozen=True)
class WindowInfo:
    """A window on the screen; `box` is what it covers with its frame, in pixels. A `popup` has no frame: a menu."""

    title: str
    box: tuple[int, int, int, int]
    active: bool
    popup: bool = False


class Display:
    """One Xvfb display with openbox.

    Raises:
        InfrastructureError: the server or the window manager does not start within `timeout` seconds.
        MissingProgramError: Xvfb or openbox is not installed.
    """

    def __init__(self, width: int, height: int, scale: Scale, place: Place, timeout: float) -> None:
        import mss
        from Xlib import X, display

        self.width, self.height, self.timeout = width, height, timeout
        self._x = X
        self._manager: subprocess.Popen[bytes] | None = None
        self._socket: Path | None = None
        environment = place.environment()
        read, write = os.pipe()
        try:
            self.server = subprocess.Popen(
                [
                    *(program("Xvfb"), "-displayfd", str(write), "-screen", "0", f"{width}x{height}x24"),
                    *("-nolisten", "tcp", "-noreset"),
                ],
                pass_fds=(write,),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            os.close(write)
            number = _read_line(read, timeout)
        finally:
            os.close(read)
        if not number:
            self.close()
            raise InfrastructureError(f"Xvfb did not start within {timeout:g} s")
        self.name = f":{number}"
        with contextlib.suppress(OSError):  # a server that may not write there listens elsewhere
            self._socket = Path(f"/tmp/.X11-unix/X{number}")
            self._socket_id = self._socket.stat().st_ino
        (place.folder / "rc.xml").write_text(_OPENBOX[scale], encoding="utf-8")
        self._manager = place.start(
            [program("openbox"), "--config-file", str(place.folder / "rc.xml")],
            {**environment, "DISPLAY": self.name, "HOME": str(place.folder)},
            place.folder,
            "everything",
        )
        try:
            with self.answering():
                self._connection = display.Display(self.name)
                self._root = self._connection.screen().root
                self._grabber = mss.MSS(display=self.name)
                self._area = {"left": 0, "top": 0, "width": width, "height": height}
                self._given: dict[int, int] = {}
                self._spare = self._spare_keycodes()
                self._let_in(place.user)
                if scale == "full":
                    self._root.change_attributes(background_pixel=_WALLPAPER)
                    self._root.clear_area()
                deadline = time.monotonic() + timeout
                while self._property(self._root, "_NET_SUPPORTING_WM_CHECK") is None:
                    if time.monotonic() > deadline:
                        raise InfrastructureError(f"openbox did not start within {timeout:g} s")
                    time.sleep(0.01)
        except HesperError:
            self.close()
            raise

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Around whatever talks to the server: one that does not answer in time is killed, so that no call waits on.

        Raises:
            InfrastructureError: the server is gone, or was killed for its silence.
        """
        silent = threading.Event()

        def give_up() -> None:
            silent.set()
            self.server.kill()

        timer = threading.Timer(2 * self.timeout, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except HesperError:
            raise
        except Exception as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.server.wait(0.5)
            if self.server.poll() is None:
                raise
            what = "does not answer" if silent.is_set() else "died"
            raise InfrastructureError(f"the X server {what}: {error}") from error
        finally:
            timer.cancel()

    def raise_if_dead(self) -> None:
        """Raises `InfrastructureError` if the server or the window manager is gone."""
        if self.server.poll() is not None:
            raise InfrastructureError("the X server died")
        if self._manager is None or self._manager.poll() is not None:
            raise InfrastructureError("the window manager died")

    def grab(self) -> bytes:
        """The whole screen without the pointer, four bytes a pixel: blue, green, red and nothing."""
        return bytes(self._grabber.grab(self._area).raw)

    def threads(self) -> list[Thread]:
        """The threads of the server and the window manager."""
        return [*threads(self.server.pid), *(threads(self._manager.pid) if self._manager else [])]

    def close(self) -> None:
        """End the window manager and the server, and with it whatever still draws on it."""
        if self._manager is not None:
            self._manager.kill()
            self._manager.wait()
        killed = self.server.poll() is not None or not keeper.end_server(self.server.pid)
        self.server.wait()
        if killed and self._socket is not None:
            with contextlib.suppress(OSError):
                if self._socket.stat().st_ino == self._socket_id:  # else another server has the number now
                    self._socket.unlink()
        for name in ("_grabber", "_connection"):
            handle = getattr(self, name, None)
            if handle is not None:
                with contextlib.suppress(Exception):  # there is nobody left to say goodbye to
                    handle.close()

    # --- windows ---

    def titles(self) -> list[str]:
        """Titles of the programs' windows, the topmost last."""
        return [title for _, title in self._stack()]

    def windows(self) -> list[WindowInfo]:
        """Everything on the screen that is a window or a menu, the topmost last."""
        from Xlib import error

        active = self._property(self._root, "_NET_ACTIVE_WINDOW")
        found = []
        for identity, title in self._stack():
            window = self._connection.create_resource_object("window", identity)
            frame = self._property(window, "_NET_FRAME_EXTENTS")
            left, right, top, bottom = (int(side) for side in (frame if frame is not None else (0, 0, 0, 0)))
            try:
                size, corner = window.get_geometry(), window.translate_coords(self._root, 0, 0)
            except (error.BadWindow, error.BadDrawable):
                continue
            x, y = -corner.x, -corner.y
            box = (x - left, y - top, x + size.width + right, y + size.height + bottom)
            found.append(WindowInfo(title, box, active is not None and identity == int(active[0])))
        for window in self._root.query_tree().children:
            try:
                attributes, size = window.get_attributes(), window.get_geometry()
            except (error.BadWindow, error.BadDrawable):
                continue
            if attributes.override_redirect and attributes.map_state == self._x.IsViewable and size.width > 8:
                box = (size.x, size.y, size.x + size.width, size.y + size.height)
                if 0 <= box[0] < self.width and 0 <= box[1] < self.height and size.height > 8:
                    found.append(WindowInfo("", box, False, popup=True))
        return found

    def responds(self, seconds: float) -> bool:
        """Whether the topmost window answers a ping of the window manager's kind; one that does not know pings does.

        A window that closes while it is asked never answers, and nobody says that it is gone: then the next is asked.
        """
        from Xlib.protocol import event

        atom = self._connection.intern_atom
        ping, deadline = atom("_NET_WM_PING"), time.monotonic() + seconds
        asked = None
        self._root.change_attributes(event_mask=self._x.SubstructureNotifyMask)
        try:
            while time.monotonic() < deadline:
                stack = self._stack()
                if not stack:
                    return True
                if stack[-1][0] != asked:
                    asked = stack[-1][0]
                    window = self._connection.create_resource_object("window", asked)
                    protocols = self._property(window, "WM_PROTOCOLS")
                    if protocols is None or ping not in list(protocols):
                        return True
                    values = [ping, self._x.CurrentTime, asked, 0, 0]
                    message = event.ClientMessage(window=window, client_type=atom("WM_PROTOCOLS"), data=(32, values))
                    window.send_event(message, event_mask=0)
                while self._connection.pending_events():
                    answer = self._connection.next_event()
                    if answer.type == self._x.ClientMessage and answer.data[1][0] == ping:
                        return True
                time.sleep(0.002)
            return False
        finally:
            self._root.change_attributes(event_mask=0)
            self._connection.sync()

    def clipboard(self, seconds: float = 2.0) -> str | None:
        """The text in the clipboard; None if there is none."""
        atom = self._connection.intern_atom
        if self._connection.get_selection_owner(atom("CLIPBOARD")) == self._x.NONE:
            return None
        asker = self._root.create_window(0, 0, 1, 1, 0, self._connection.screen().root_depth)
        try:
            asker.convert_selection(atom("CLIPBOARD"), atom("UTF8_STRING"), atom("HESPER"), self._x.CurrentTime)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                while self._connection.pending_events():
                    answer = self._connection.next_event()
                    if answer.type == self._x.SelectionNotify:
                        text = self._property(asker, "HESPER")
                        if text is None:
                            return None
                        return text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")
                time.sleep(0.002)
            return None
        finally:
            asker.destroy()

    def _stack(self) -> list[tuple[int, str]]:
        """(id, title) of the programs' windows, the topmost last."""
        stack = self._property(self._root, "_NET_CLIENT_LIST_STACKING")
        found = []
        for identity in [] if stack is None else stack:
            window = self._connection.create_resource_object("window", int(identity))
            title = self._property(window, "_NET_WM_NAME")
            if title is None:
                title = self._property(window, "WM_NAME")
            if title is not None:
                text = title if isinstance(title, str) else bytes(title).decode("utf-8", "replace")
                found.append((int(identity), text))
        return found

    def _property(self, window: Any, name: str) -> Any:
        from Xlib import error

        try:
            found = window.get_full_property(self._connection.intern_atom(name), self._x.AnyPropertyType)
        except (error.BadWindow, error.BadMatch):
            return None  # it closed between the two questions
        return None if found is None else found.value

    def _let_in(self, user: int) -> None:
        """Allow the user that programs run as to open windows here."""
        family_interpreted = 5
        name = b"localuser\0#" + str(user).encode()
        self._connection.change_hosts(self._x.HostInsert, family_interpreted, name)
        self._connection.sync()

    # --- input ---

    def move(self, x: float, y: float) -> None:
        """Put the pointer on a pixel."""
        self._fake(self._x.MotionNotify, x=int(x), y=int(y))

    def button(self, number: int, down: bool) -> None:
        """Press or release a mouse button: 1 left, 3 right, 4-7 the wheel up, down, left, right."""
        self._fake(self._x.ButtonPress if down else self._x.ButtonRelease, detail=number)

    def press(self, keysyms: Sequence[int]) -> None:
        """Press keys together and release them in reverse order."""
        strokes = [self._keycode(keysym) for keysym in keysyms]
        shift = self._keycode(keysym("Shift_L"))[0]
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


def _runs(codes: Sequence[int]) -> list[tuple[int, list[int]]]:
    """(index, codes) of each run of consecutive numbers in a sorted list."""
    runs: list[tuple[int, list[int]]] = []
    for index, code in enumerate(codes):
        if runs and code == runs[-1][1][-1] + 1:
            runs[-1][1].append(code)
        else:
            runs.append((index, [code]))
    return runs


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


_MULTIMEDIA = 0x10080000
"""X.org's vendor keysyms (XF86AudioPlay and its like) start here."""

_WALLPAPER = 0x3A6EA5

_SMALL = """<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
<focus><focusNew>yes</focusNew><followMouse>no</followMouse></focus>
<applications><application class="*"><decor>no</decor><maximized>yes</maximized><focus>yes</focus></application>
</applications></openbox_config>
"""
"""Every window fills the screen, undecorated, and has the focus: what a phone-sized desktop has room for."""


def _bind(context: str, button: str, event: str, *actions: str) -> str:
    inner = "".join(f'<action name="{action}"/>' for action in actions)
    return f'<context name="{context}"><mousebind button="{button}" action="{event}">{inner}</mousebind></context>'


_FULL = f"""<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
<focus><focusNew>yes</focusNew><followMouse>no</followMouse><focusLast>yes</focusLast></focus>
<placement><policy>Smart</policy><center>yes</center></placement>
<theme><name>Clearlooks</name><titleLayout>NLIMC</titleLayout><keepBorder>yes</keepBorder>
<font place="ActiveWindow"><name>DejaVu Sans</name><size>9</size><weight>bold</weight></font>
<font place="InactiveWindow"><name>DejaVu Sans</name><size>9</size><weight>bold</weight></font></theme>
<desktops><number>1</number><popupTime>0</popupTime></desktops>
<resize><popupShow>Never</popupShow></resize>
<keyboard>
<keybind key="A-F4"><action name="Close"/></keybind>
<keybind key="A-Tab"><action name="NextWindow"><dialog>none</dialog><finalactions><action name="Focus"/>
<action name="Raise"/></finalactions></action></keybind>
</keyboard>
<mouse><dragThreshold>2</dragThreshold><doubleClickTime>400</doubleClickTime>
{_bind("Frame", "A-Left", "Drag", "Move")}
{_bind("Titlebar", "Left", "Press", "Focus", "Raise")}
{_bind("Titlebar", "Left", "Drag", "Move")}
{_bind("Titlebar", "Left", "DoubleClick", "ToggleMaximize")}
{_bind("Client", "Left", "Press", "Focus", "Raise")}
{_bind("Client", "Right", "Press", "Focus", "Raise")}
{_bind("Close", "Left", "Click", "Close")}
{_bind("Maximize", "Left", "Click", "ToggleMaximize")}
{_bind("Iconify", "Left", "Click", "Iconify")}
{"".join(_bind(c, "Left", "Drag", "Resize") for c in ("Left", "Right", "Top", "Bottom"))}
{"".join(_bind(c, "Left", "Drag", "Resize") for c in ("TLCorner", "TRCorner", "BLCorner", "BRCorner"))}
</mouse>
<applications><application type="normal"><focus>yes</focus></application></applications>
</openbox_config>
"""
"""Windows with frames that can be moved, resized, raised, maximized and closed by mouse and by Alt+F4, Alt+Tab."""

_OPENBOX = {"small": _SMALL, "full": _FULL}
