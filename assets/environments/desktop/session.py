"""The desktop as a session: reset to a task, look, act with mouse and keyboard, read the outcome.

A screenshot is taken when the picture has stopped changing and every process of the application sleeps, so it is the
same on a busy machine, and the effect of an action is complete when `act` returns.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.agent.actions import ActionError, to_pixel
from assets.environments.desktop.dialogs import DesktopApp, SmallApplication, load_apps, overlay
from assets.environments.desktop.display import Display, Scale
from assets.environments.desktop.keys import key, keysym_of
from assets.environments.desktop.place import Place, program
from assets.environments.desktop.programs import ProgramSpec, RunningProgram, load_programs
from assets.environments.session import Element, digest
from assets.environments.trajectory import Screenshot
from assets.errors import InfrastructureError, ParameterError

if TYPE_CHECKING:
    from assets.agent.actions import Action
    from assets.environments.task import TaskContract

FULL_SIZE = (1024, 768)
LEAST_FULL_SIZE = (800, 600)


def find_app(name: str) -> DesktopApp | ProgramSpec:
    """The spec of an application of either scale.

    Raises:
        ParameterError: there is none of this name.
    """
    apps: list[DesktopApp | ProgramSpec] = [*load_apps(), *load_programs()]
    known = {app.id: app for app in apps}
    if name not in known:
        raise ParameterError(f"no desktop application '{name}'; known: {', '.join(sorted(known))}")
    return known[name]


def screen_of(app: str, size: tuple[int, int], full_size: tuple[int, int] = FULL_SIZE) -> tuple[int, int]:
    """Size of the screen on which a session with these sizes shows an application; see `DesktopSession`.

    Raises:
        ParameterError: there is no such application.
    """
    return _sizes(size, full_size)[find_app(app).scale]


def _sizes(size: tuple[int, int], full_size: tuple[int, int]) -> dict[Scale, tuple[int, int]]:
    large = all(side >= least for side, least in zip(size, LEAST_FULL_SIZE, strict=True))
    return {"small": size, "full": size if large else full_size}


@dataclass(frozen=True)
class Pace:
    """How long things take, in seconds: `quiet` without a change before a screen is at rest, `wait` of a Wait."""

    quiet: float
    wait: float


class DesktopSession:
    """One desktop with one application at a time; see `Session` for the protocol.

    A small application's state is `{"open": top window or "", "closed": {window: {"exit": code or None, control:
    value, "row": id}}, "text": content of the file, "answer": content of Finished or None}`.

    That of a full-size program is `{"windows": [titles, the topmost last], "files": {path below home: start of its
    sha256}, "read": {name: what the reader of that name finds}, "answer": ...}`. In paths a dot is written `%2E`.

    Args:
        size: of the screen of small applications, and of full-size programs if it is at least `LEAST_FULL_SIZE`.
        full_size: of the screen of full-size programs where `size` is too small for them.
        timeout: seconds in which everything has to start, to come to rest and to answer.
        quiet_seconds: how long a full-size screen must stand still to be at rest.
        wait_seconds: how long a Wait takes at full size.

    Raises:
        MissingProgramError: Xvfb, openbox or a program that a task needs is not installed.
        InfrastructureError: a program, the window manager or the X server died, hangs or does not settle. The session
            works again from the next reset.
    """

    platform = "desktop"
    over = False

    def __init__(
        self,
        size: tuple[int, int],
        timeout: float = 20.0,
        full_size: tuple[int, int] = FULL_SIZE,
        quiet_seconds: float = 0.1,
        wait_seconds: float = 1.0,
    ) -> None:
        for name in ("Xvfb", "openbox"):
            program(name)
        self._sizes = _sizes(size, full_size)
        self._paces: dict[Scale, Pace] = {"small": Pace(0.0, _WAIT), "full": Pace(quiet_seconds, wait_seconds)}
        self._scale: Scale = "small"
        self.timeout = timeout
        self._runs = 0
        self._answer: str | None = None
        self._picture, self._spent = b"", 0
        self._settled = False
        self._broken = False
        self._task: TaskContract | None = None
        self._done: list[Action] = []
        self._application: SmallApplication | RunningProgram | None = None
        self._displays: dict[Scale, Display] = {}
        self.place = Place()

    @property
    def width(self) -> int:
        """Width of the screen in pixels."""
        return self._sizes[self._scale][0]

    @property
    def height(self) -> int:
        """Height of the screen in pixels."""
        return self._sizes[self._scale][1]

    def reset(self, task: TaskContract) -> None:
        """Kill the application that runs and start the task's afresh with files of its own."""
        app = find_app(task.app)
        self._stop()
        self._scale = app.scale
        self._task, self._done, self._answer, self._settled = task, [], None, False
        self._runs += 1
        with self._sound():
            screen = self._ready_display()
            with screen.answering():
                deadline = time.monotonic() + self.timeout
                while screen.titles():
                    if time.monotonic() > deadline:
                        raise InfrastructureError("windows of the last application do not close")
                    time.sleep(_POLL)
                screen.move(self.width - 1, self.height - 1)
                if isinstance(app, DesktopApp):
                    self._start_small(app, task.initial_state, screen)
                else:
                    self._start_full(app, task, screen)

    def observe(self) -> Screenshot:
        """The settled screen."""
        from PIL import Image

        with self._sound():
            picture = self._settle()
        buffer = io.BytesIO()
        image = Image.frombytes("RGB", (self.width, self.height), picture, "raw", "BGRX")
        image.save(buffer, "PNG", compress_level=6)
        return Screenshot(buffer.getvalue(), self.width, self.height)

    def act(self, action: Action) -> None:
        """Carry one action out with mouse and keyboard.

        Raises:
            ActionError: a desktop has no such action.
        """
        if action.name == "Finished":
            self._answer = action.content or self._answer
        elif action.name != "CallUser":
            with self._sound():
                self._settled = False
                with self._display().answering():
                    self._perform(action)
                self._settle()
        self._done.append(action)

    def state(self) -> dict[str, Any]:
        """What can be seen of the application from outside; see the class."""
        with self._sound(), self._display().answering():
            return {**self._running().state(), "answer": self._answer}

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
        """Controls of the top window of a small application; windows and menus of a full-size program."""
        with self._sound():
            picture = np.frombuffer(self._settle(), np.uint8).reshape(self.height, self.width, 4)[..., 2::-1]
            with self._display().answering():
                return self._running().elements(picture)

    def close(self) -> None:
        """End everything the session started and remove its files."""
        try:
            self._stop()
        finally:
            for screen in self._displays.values():
                screen.close()
            self._displays.clear()
            self.place.close()

    def __enter__(self) -> DesktopSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- start ---

    def _ready_display(self) -> Display:
        """The display of the present scale, made anew if it broke."""
        screen = self._displays.get(self._scale)
        if screen is not None:
            with contextlib.suppress(InfrastructureError):
                screen.raise_if_dead()
                if not self._broken:
                    return screen
            screen.close()
            del self._displays[self._scale]
        self._broken = False
        self._displays[self._scale] = Display(*self._sizes[self._scale], self._scale, self.place, self.timeout)
        return self._displays[self._scale]

    def _start_small(self, app: DesktopApp, changes: Mapping[str, Any], screen: Display) -> None:
        program(app.program)
        state = overlay(app.initial_state(), changes)
        self._application = SmallApplication(app, state, screen, self.place, self.place.folder / f"run{self._runs}")
        deadline = time.monotonic() + self.timeout
        while not screen.titles():
            if time.monotonic() > deadline or not self._application.running():
                raise InfrastructureError(f"{app.id} opened no window")
            time.sleep(_POLL)
        self._settle()

    def _start_full(self, app: ProgramSpec, task: TaskContract, screen: Display) -> None:
        started = self._application = RunningProgram(app, task, screen, self.place, self._runs)
        started.start()
        self._settle()
        for step in started.task_spec.setup:
            self._settled = False
            if step.type is not None:
                self._type(step.type, screen)
            elif step.hotkey is not None:
                self._press(step.hotkey, screen)
            elif step.open is not None:
                started.open(step.open)
            elif step.window is not None:
                started.wait_for_window(step.window)
            self._settle()
        started.wait_for_window(started.task_spec.window or "")
        self._settle()
        started.preflight()

    # --- act ---

    def _perform(self, action: Action) -> None:
        screen, name = self._display(), action.name
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
            if self._scale == "full":
                # The target is asked whether it takes what is dragged; it answers when the pointer moves once more.
                self._rest()
                screen.move(where[1][0] - 1, where[1][1])
                screen.move(*where[1])
                self._rest()
            screen.button(1, False)
        elif name == "Swipe" and len(where) == 2:
            screen.move(*where[0])
            across, down = where[1][0] - where[0][0], where[1][1] - where[0][1]
            wheel = (7 if across < 0 else 6) if abs(across) > abs(down) else (5 if down < 0 else 4)
            for _ in range(3):
                screen.button(wheel, True)
                screen.button(wheel, False)
        elif name == "Type" and action.content is not None:
            self._type(action.content, screen)
        elif name == "Hotkey" and action.keys:
            self._press(action.keys, screen)
        elif name == "Wait":
            time.sleep(self._paces[self._scale].wait)
        else:
            raise ActionError(f"{name} does not exist on desktop", 0)

    def _type(self, text: str, screen: Display) -> None:
        """Type text; characters that no key has get a spare key for the while."""
        keysyms = [keysym_of(character) for character in text]
        for start in range(0, len(keysyms), screen.spare_keys):
            part = keysyms[start : start + screen.spare_keys]
            if screen.give_keys(part):
                self._settle()
            for keysym in part:
                screen.press([keysym])
            self._settled = False
            if start + screen.spare_keys < len(keysyms):
                self._settle()

    def _press(self, keys: tuple[str, ...], screen: Display) -> None:
        """Press keys together."""
        combination = [key(name) for name in keys]
        if screen.give_keys(combination):
            self._settle()
        self._settled = False
        screen.press(combination)

    # --- watch ---

    @contextlib.contextmanager
    def _sound(self) -> Iterator[None]:
        """What breaks inside makes the next reset start with a new display."""
        try:
            yield
        except InfrastructureError:
            self._broken = True
            raise

    def _display(self) -> Display:
        screen = self._displays.get(self._scale)
        if screen is None:
            raise InfrastructureError("the desktop is closed")
        screen.raise_if_dead()
        return screen

    def _running(self) -> SmallApplication | RunningProgram:
        if self._application is None:
            raise InfrastructureError("no application was started")
        return self._application

    def _stop(self) -> None:
        if self._application is not None:
            self._application.kill()
            self._application = None

    def _settle(self) -> bytes:
        """Wait until the picture stands still and the application sleeps; returns the picture, as `Display.grab`."""
        with self._display().answering():
            return self._rest()

    def _rest(self) -> bytes:
        screen, application, quiet = self._display(), self._running(), self._paces[self._scale].quiet
        deadline = time.monotonic() + self.timeout
        seen, still = 0, time.monotonic()
        states = set[str]()
        while time.monotonic() < deadline:
            threads = application.threads()
            # A program that waits for the server or the window manager sleeps too: they must be at rest as well.
            states = {state for state, _ in [*threads, *screen.threads()]}
            before, self._spent = self._spent, sum(spent for _, spent in threads)
            same = states <= {"S", "Z"} and self._spent == before
            if same:
                last, self._picture = self._picture, screen.grab()
                same = self._picture == last
            if same:
                seen += 1
            else:
                seen, still, self._settled = 0, time.monotonic(), False
            # What was at rest before nothing happened needs one look, anything else three in a row.
            if seen >= (1 if self._settled else 3) and (self._settled or time.monotonic() - still >= quiet):
                self._settled = True
                self._raise_if_not_well(application, screen)
                return self._picture
            time.sleep(_LOOK)
        screen.raise_if_dead()
        if self._scale == "full" and "T" not in states:
            # A program that never sleeps, such as a loop in a terminal, may be what the agent wanted.
            self._raise_if_not_well(application, screen)
            self._picture = screen.grab()
            return self._picture
        raise InfrastructureError(f"{application.name} does not come to rest within {self.timeout:g} s")

    def _raise_if_not_well(self, application: SmallApplication | RunningProgram, screen: Display) -> None:
        screen.raise_if_dead()
        application.raise_if_killed()
        if self._scale == "full" and not screen.responds(self.timeout):
            raise InfrastructureError(f"{application.name} does not answer within {self.timeout:g} s")


_POLL = 0.005
_WAIT = 0.05
_LONG_PRESS = 0.6
_LOOK = 0.01
"""Seconds between looks. Three without a new pixel and without processor time: the program waits for input."""
