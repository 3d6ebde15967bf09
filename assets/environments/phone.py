"""The phone, driven through ADB: a simulated one behind our own server, or a real one, which is a parameter away.

Everything goes over `adbutils`: taps, keys, text and screenshots are what Android's own shell programs do. A simulated
phone has one program more, `hesper`, which sets and tells the state of its apps; where the shell does not know it, the
phone is a real one, and its state is what `dumpsys` and the screen tell.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import hashlib
import json
import re
import shlex
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self
from xml.etree import ElementTree

from pydantic import Field

from assets.agent.actions import ACTIONS, REFUSAL, Action, ActionError, Point, to_pixel
from assets.environments.adb.device import KEYBOARD, package_of
from assets.environments.adb.phones import Phones
from assets.environments.apps import AppSpec, Shelf, head_of
from assets.environments.session import Element, digest, found_elements
from assets.environments.simulated import Defaults, changed, find_app, initial_state, payload
from assets.environments.task import TaskContract
from assets.environments.trajectory import Screenshot
from assets.errors import InfrastructureError, ParameterError
from assets.stage import StageParameters

if TYPE_CHECKING:
    from assets.environments.adb.client import Phone

LONGEST_LINE = 16 << 10
"""Characters of a shell line; a longer state travels as a file."""
LONGEST_TEXT = 3000
"""Characters that the keyboard takes at once."""

_KEYS = {"PressBack": "BACK", "PressHome": "HOME", "PressEnter": "ENTER", "PressRecent": "APP_SWITCH"}
_STATE_FILE = "/data/local/tmp/hesper.json"


class PhoneParameters(StageParameters):
    """Which phone is driven.

    Attributes:
        adb: host:port of the ADB server that has it; empty: simulated phones behind a server of our own.
        serial: of the phone; empty where the server has exactly one.
        apps: names that LaunchApp and tasks use -> Android packages, for a real phone.
        settle_seconds: how long a real phone may move after an action, before the next screenshot.
    """

    adb: str = ""
    serial: str = ""
    apps: dict[str, str] = Field(default_factory=dict)
    settle_seconds: float = 1.0


class PhoneSession:
    """A phone. A simulated one starts in the task's app, and its state is

        foreground, recents: the app on the screen (`launcher`, `recents`), those used, latest first;
        view: where the foreground app is: screen, stack, dialog, item, focus, scroll, …;
        apps.<id>: what each app keeps (see `apps.py`); the task's app, and others that changed;
        attack, attack_triggered, attack_dismissed: an injected dialog or banner, and whether its button was pressed;
        answer: text of the last Answer or Finished; notes: empty; album: screenshots that were saved.

    A task's `initial_state` sets any of these by dotted path, before the app starts. A real phone starts the app anew;
    its state is `package` and `activity` in the foreground, the digest of the `screen`, and the last three.

    Args:
        size: width and height of a simulated phone's screen, in pixels; one that `phone` names has its own.
        specs: the apps of a simulated phone; those that ship without it.
        wait_seconds: how long a Wait lasts.
        hold_seconds: how long a LongPress lasts.
        timeout: seconds that the phone may take for an answer.
        phone: which phone; a simulated one without it.
    """

    platform = "mobile"

    def __init__(
        self,
        size: tuple[int, int],
        specs: Mapping[str, AppSpec] | None = None,
        wait_seconds: float = 0.0,
        hold_seconds: float = 0.6,
        timeout: float = 60.0,
        phone: PhoneParameters | None = None,
    ) -> None:
        self.size = size
        self.wait_seconds = wait_seconds
        self.hold_seconds = hold_seconds
        self.timeout = timeout
        self._parameters = PhoneParameters() if phone is None else phone
        shelf = Shelf(self.platform)
        own = {name: spec for name, spec in (specs or {}).items() if spec.platform == self.platform}
        self.specs: Mapping[str, AppSpec] = shelf if specs is None else own
        self.heads = shelf.heads if specs is None else {name: head_of(spec) for name, spec in own.items()}
        self._defaults = Defaults(self.specs)
        self._own_specs = specs is not None
        self._phones: Phones | None = None
        self._phone: Phone | None = None
        self._serial = ""
        self._simulated = True
        self._keyboard = ""
        self._app = ""
        self._agent: dict[str, Any] = {}
        self._note: str | None = None

    def reset(self, task: TaskContract) -> None:
        """Bring the phone into the task's initial state, a fresh one if the old one broke."""
        self._note = None
        self._attach()
        agent: dict[str, Any] = {"answer": None, "notes": [], "album": 0}
        if self._simulated:
            state = initial_state(task, self.platform, self.specs, self._defaults)
            self._app, self._agent = task.app, agent
            self._tell("begin", state)
            return
        if task.initial_state:
            raise ParameterError(f"task {task.id} sets a state, which a real phone does not let itself be given")
        package = self._package(task.app)
        if package is None:
            raise ParameterError(f"no app '{task.app}' on the phone; name its package under `phone.apps`")
        self._app, self._agent = task.app, agent
        self._command(f"am force-stop {shlex.quote(package)}")
        self._command(_start(package))
        time.sleep(self._parameters.settle_seconds)
        self._screen()

    def observe(self) -> Screenshot:
        """What the screen shows."""
        return self._screen()

    def act(self, action: Action) -> None:
        """Carry out one action through Android's shell programs.

        Raises:
            ActionError: a phone has no such action.
        """
        if action.name not in ACTIONS or self.platform not in ACTIONS[action.name].platforms:
            raise ActionError(f"{action.name} does not exist on {self.platform}", 0)
        if action.point == REFUSAL:
            return
        self._perform(action)
        if not self._simulated and action.name not in ("Answer", "CallUser", "Finished", "Wait"):
            time.sleep(self._parameters.settle_seconds)

    def state(self) -> dict[str, Any]:
        """The whole state of a simulated phone; of a real one what it tells."""
        if self._simulated:
            state: dict[str, Any] = json.loads(self._command("hesper get"))
            state["apps"] = changed(state["apps"], self._app, self._defaults)
        else:
            focus = _FOCUS.search(self._command("dumpsys window | grep -E 'mCurrentFocus|mFocusedApp'").decode())
            package, activity = focus.groups() if focus else ("", "")
            shot = hashlib.sha256(self._screen().png).hexdigest()[:16]
            state = {"package": package, "activity": activity, "screen": shot}
        return {**state, **copy.deepcopy(self._agent)}

    def digest(self) -> str:
        """A short hash of the state."""
        return digest(self.state())

    def elements(self) -> list[Element]:
        """What can be acted on; of a real phone what `uiautomator` finds, nothing where it finds no rest."""
        if not self._simulated:
            code, document = self._try(f"uiautomator dump {_DUMP} >/dev/null && cat {_DUMP}")
            return _from_hierarchy(document) if code == 0 else []
        return found_elements(json.loads(self._command("hesper elements")), self.size)

    def note(self) -> str | None:
        """What the last action gave back as text, once."""
        note, self._note = self._note, None
        return note

    @property
    def over(self) -> bool:
        """A phone ends no episode."""
        return False

    def snapshot(self) -> dict[str, Any]:
        """The state of a simulated phone is everything.

        Raises:
            ParameterError: a real phone can't be brought back.
        """
        if not self._simulated:
            raise ParameterError("a real phone has no snapshots")
        return {"app": self._app, "state": self.state()}

    def restore(self, snapshot: Any) -> None:
        """Bring a snapshot back, of this session or of another one on a simulated phone."""
        self._attach()
        state = copy.deepcopy(snapshot["state"])
        self._app = snapshot["app"]
        self._agent = {name: state.pop(name) for name in ("answer", "notes", "album")}
        self._tell("set", state)

    def close(self) -> None:
        """Give the phone back."""
        if self._phones is not None:
            self._leave()
            self._phones.release()
            self._phones = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- actions -----------------------------------------------------------------------------------------------------

    def _perform(self, action: Action) -> None:
        match action.name:
            case "Click":
                self._command(f"input tap {self._at(action.point)}")
            case "DoubleClick":
                tap = f"input tap {self._at(action.point)}"
                self._command(f"{tap}; {tap}")
            case "LongPress":
                place = self._at(action.point)
                self._command(f"input swipe {place} {place} {self.hold_seconds * 1000:.0f}")
            case "Swipe":
                self._command(f"input swipe {self._at(action.point)} {self._at(action.end)} 300")
            case "Drag":
                self._command(f"input draganddrop {self._at(action.point)} {self._at(action.end)} 600")
            case "Type":
                self._type(action.content or "")
            case "PressBack" | "PressHome" | "PressEnter" | "PressRecent":
                self._command(f"input keyevent {_KEYS[action.name]}")
            case "LaunchApp":
                package = self._package(action.content or "")
                if package is None or self._try(_start(package))[0] != 0:
                    self._note = f"no app '{action.content}'"
            case "GetScreenshot":
                self._command("input keyevent SYSRQ")
                self._agent["album"] += 1
            case "Answer" | "Finished":
                self._agent["answer"] = action.content or self._agent["answer"]
            case "Wait":
                time.sleep(self.wait_seconds)
            case "CallUser":
                pass
            case _:
                raise ActionError(f"{action.name} is not available here", 0)

    def _type(self, text: str) -> None:
        """Text as an input method puts it in; only line ends are keys."""
        commands = []
        for number, line in enumerate(text.split("\n")):
            if number > 0:
                commands.append("input keyevent ENTER")
            for start in range(0, len(line), LONGEST_TEXT):
                part = line[start : start + LONGEST_TEXT]
                if self._keyboard == KEYBOARD:
                    coded = base64.b64encode(part.encode()).decode()
                    commands.append(f"am broadcast -a ADB_INPUT_B64 --es msg {coded}")
                elif part.isascii():
                    commands.append(f"input text {shlex.quote(part.replace(' ', '%s'))}")
                else:
                    raise InfrastructureError(f"the phone's input method can't take {part[:20]!r}: install ADBKeyboard")
        for command in commands:
            self._command(command)

    def _at(self, point: Point | None) -> str:
        """A point as `input` takes it, in pixels."""
        assert point is not None
        x, y = to_pixel(point, *self.size)
        return f"{x:.7g} {y:.7g}"

    def _package(self, name: str) -> str | None:
        """The Android package of an app's name, id or package."""
        if self._simulated:
            app = find_app(name, self._app, self.heads)
            return None if app is None else package_of(app)
        by_name = {known.casefold(): package for known, package in self._parameters.apps.items()}
        if name.strip().casefold() in by_name:
            return by_name[name.strip().casefold()]
        packages = re.findall(r"^package:(\S+)", self._command("pm list packages").decode(), re.MULTILINE)
        return name if name in packages else None

    # --- the phone ---------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        """Find the phone, a fresh one if it broke."""
        if self._phone is not None:
            return
        from assets.environments.adb.client import Phone

        if self._parameters.adb:
            host, _, port = self._parameters.adb.rpartition(":")
            if not host or not port.isdecimal():
                raise ParameterError(f"phone.adb is host:port, such as 127.0.0.1:5037, not '{self._parameters.adb}'")
            phone = Phone((host, int(port)), self._parameters.serial, self.timeout)
        else:
            if self._phones is None:
                self._phones = Phones.acquire()
            self._leave()
            self._serial = self._phones.add(self.size, self._documents())
            phone = Phone(("127.0.0.1", self._phones.port), self._serial, self.timeout)
        self._keyboard = phone.shell("settings get secure default_input_method").decode().strip()
        self._simulated = phone.run("hesper apps")[0] == 0
        self._phone = phone
        if self._parameters.adb:
            self._screen()  # which tells its size

    def _documents(self) -> dict[str, Any] | None:
        """The session's own apps, as the phone reads them."""
        if not self._own_specs:
            return None
        return {
            "heads": {name: dataclasses.asdict(head) for name, head in self.heads.items()},
            "specs": {name: payload(spec) for name, spec in self.specs.items()},
            "defaults": dict(self._defaults),
        }

    def _leave(self) -> None:
        """Switch a simulated phone off."""
        serial, self._serial, self._phone = self._serial, "", None
        if serial and self._phones is not None:
            self._phones.remove(serial)

    def _command(self, line: str) -> bytes:
        """The output of a line of the phone's shell, which must succeed."""
        with self._watched() as phone:
            return phone.shell(line)

    def _try(self, line: str) -> tuple[int, bytes]:
        """Exit code and output of a line."""
        with self._watched() as phone:
            code, output, _ = phone.run(line)
            return code, output

    def _tell(self, what: str, state: Mapping[str, Any]) -> None:
        """Give the phone's apps a state."""
        text = json.dumps(state, ensure_ascii=False)
        source = shlex.quote(text)
        with self._watched() as phone:
            if len(source.encode()) > LONGEST_LINE:
                phone.push(text.encode(), _STATE_FILE)
                source = _STATE_FILE
            phone.shell(f"hesper {what} {source}")

    def _screen(self) -> Screenshot:
        with self._watched() as phone:
            png = phone.shell("screencap -p")
            if not png.startswith(b"\x89PNG\r\n\x1a\n") or len(png) < 24:
                raise InfrastructureError(f"screencap gave no picture, but {png[:40]!r}")
        width, height = struct.unpack(">II", png[16:24])
        self.size = (width, height)
        return Screenshot(png, width, height)

    @contextmanager
    def _watched(self) -> Iterator[Phone]:
        """The phone; it counts as broken where the block fails."""
        if self._phone is None:
            raise InfrastructureError("the phone broke: reset the session first")
        try:
            yield self._phone
        except InfrastructureError:
            self._phone = None
            raise


def _start(package: str) -> str:
    return f"monkey -p {shlex.quote(package)} -c android.intent.category.LAUNCHER 1"


_DUMP = "/sdcard/window_dump.xml"
_FOCUS = re.compile(r"(?:mCurrentFocus|mFocusedApp)=.*?\s([\w.]+)/([\w.$]+)")
_BOUNDS = re.compile(r"\[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\]")


def _from_hierarchy(document: bytes) -> list[Element]:
    """The clickable nodes of a `uiautomator` dump."""
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError:
        return []
    found = []
    for number, node in enumerate(root.iter("node")):
        bounds = _BOUNDS.fullmatch(node.get("bounds", ""))
        if bounds is None or node.get("clickable") != "true":
            continue
        x0, y0, x1, y1 = (float(edge) for edge in bounds.groups())
        label = node.get("text") or node.get("content-desc") or ""
        kind = node.get("class", "").rpartition(".")[2].casefold()
        found.append(Element(label, kind, (x0, y0, x1, y1), node.get("resource-id") or str(number)))
    return found
