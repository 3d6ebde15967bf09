"""Programs of Debian at the size that people use them, each described by a YAML file in `desktop_apps/`.

    id: mousepad-full
    title: Mousepad
    locale: en
    split: train
    category: editor
    package: mousepad                  # the Debian package that brings the program
    command: [mousepad, --disable-server]
    arguments: [Documents/shopping.txt]
    window: 'shopping\\.txt'            # what the title of its window must match before an agent may look
    files:                             # the home folder it finds; see `Fixture` for all that a file can be made from
      Documents/shopping.txt: {text: "Milk\\nBread\\n"}
    settings:                          # settings files: file -> section -> key -> value
      .config/glib-2.0/settings/keyfile: {org/xfce/mousepad/preferences/view: {show-line-numbers: 'true'}}
    read:                              # what a task may ask of the outcome; see `outcomes.py` for the readers
      note: {kind: text, path: Documents/shopping.txt}

A task lays its own `TaskSpec` (its `resources`) over that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import AfterValidator, Field, ValidationError

from assets.environments.desktop.dialogs import SPECS
from assets.environments.desktop.display import Display
from assets.environments.desktop.fixtures import (
    GSETTINGS,
    Fixture,
    HomePath,
    Operation,
    ReaderName,
    Settings,
    Strict,
    TaskSpec,
    checked_pattern,
    fingerprint,
    lay_out,
    misplaced,
)
from assets.environments.desktop.outcomes import Reader, prints
from assets.environments.desktop.place import Place, program
from assets.environments.desktop.processes import Family, Thread
from assets.environments.session import Element
from assets.environments.task import TaskContract
from assets.errors import InfrastructureError, ParameterError
from assets.stage import YamlLoader


class ProgramSpec(Strict):
    """A program; see the head of the file.

    Attributes:
        category: what kind of program it is, such as `editor`.
        environment: further variables for it.

    """

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    title: str
    scale: Literal["full"] = "full"
    locale: Literal["en", "zh"]
    split: Literal["train", "heldout"]
    category: str
    package: str
    command: tuple[str, ...] = Field(min_length=1)
    arguments: tuple[str, ...] = ()
    window: Annotated[str, AfterValidator(checked_pattern)]
    environment: dict[str, str] = Field(default={})
    files: dict[HomePath, Fixture | None] = Field(default={})
    settings: Settings = Field(default={})
    setup: tuple[Operation, ...] = ()
    read: dict[ReaderName, Reader] = Field(default={})

    @property
    def program(self) -> str:
        """Name of the executable."""
        return self.command[0]

    def task_spec(self, task: TaskContract | None = None) -> TaskSpec:
        """The set-up of this program, with a task's laid over it.

        Raises:
            ParameterError: the task's `resources` are no TaskSpec, or it sets an `initial_state`.
        """
        own = TaskSpec(
            files=self.files,
            settings=self.settings,
            arguments=self.arguments,
            setup=self.setup,
            window=self.window,
            read=self.read,
        )
        if task is None:
            return own
        if task.initial_state:
            raise ParameterError(f"{task.id}: the initial state of {self.id} is given by `resources`, as a TaskSpec")
        try:
            return TaskSpec.model_validate_json(_json(task.resources)).over(own)
        except ValidationError as error:
            raise ParameterError(f"{task.id}: resources: {_first(error)}") from None

    def fingerprint(self, task: TaskContract | None = None) -> str:
        """sha256 of the set-up; see `fixtures.fingerprint`."""
        return fingerprint(self.id, self.command, self.task_spec(task))


@cache
def load_programs() -> tuple[ProgramSpec, ...]:
    """Every program in `desktop_apps/`, sorted by id.

    Raises:
        ParameterError: a spec is broken; says in which file, where, and how.
    """
    return tuple(sorted(map(load_program, SPECS.glob("*.yaml")), key=lambda spec: spec.id))


def load_program(file: Path) -> ProgramSpec:
    """One spec.

    Raises:
        ParameterError: it is broken; says where and how.
    """
    try:
        spec = ProgramSpec.model_validate_json(_json(yaml.load(file.read_text(encoding="utf-8"), YamlLoader)))
        for path, fixture in spec.files.items():
            if fixture is not None:
                fixture.content(path)
        return spec
    except yaml.YAMLError as error:
        raise ParameterError(f"{file.name}: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise ParameterError(f"{file.name}: {_first(error)}") from None
    except (OSError, ValueError) as error:
        raise ParameterError(f"{file.name}: {error}") from None


def _json(value: Any) -> str:
    """YAML's values by way of JSON, so that lists are taken for tuples as in a task contract."""
    import json

    return json.dumps(value)


def _first(error: ValidationError) -> str:
    trouble = error.errors()[0]
    return f"{'.'.join(map(str, trouble['loc'])) or 'top'}: {trouble['msg'].removeprefix('Value error, ')}"


# --- a running program -----------------------------------------------------------------------------------------------


class RunningProgram:
    """A program in a home of its own, with a session bus of its own.

    Raises:
        MissingProgramError: it is not installed.
        InfrastructureError: its home can't be furnished.
    """

    def __init__(self, spec: ProgramSpec, task: TaskContract, screen: Display, place: Place, run: int) -> None:
        self.spec, self.task_spec, self.screen, self.place = spec, spec.task_spec(task), screen, place
        program(spec.program, spec.package)
        place.furnish()
        for path, text in _TOOLKITS.items():
            (place.home / path).parent.mkdir(parents=True, exist_ok=True)
            (place.home / path).write_text(text, encoding="utf-8")
        own = self.task_spec.model_copy(update={"settings": {}})
        both = self.task_spec.over(TaskSpec(settings=_SETTINGS))
        lay_out(own.model_copy(update={"settings": both.settings}), place.home)
        place.hand_over()
        marker = f"{place.folder}/{run}"
        self._family = Family(f"HESPER_RUN={marker}")
        home, temporary = place.seen_home, place.seen_temporary
        self._environment = {
            **place.environment(),
            **{"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games:/usr/sbin:/sbin", "PWD": home, "LOGNAME": "user"},
            **{"DISPLAY": screen.name, "HOME": home, "TMPDIR": temporary, "HESPER_RUN": marker, "USER": "user"},
            **{"XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/.local/share", "TZ": "UTC"},
            **{"XDG_CACHE_HOME": f"{home}/.cache", "XDG_RUNTIME_DIR": f"{temporary}/run", "SHELL": "/bin/bash"},
            **{"DBUS_SESSION_BUS_ADDRESS": f"unix:path={temporary}/run/bus", "GSETTINGS_BACKEND": "keyfile"},
            **{"GTK_THEME": "Adwaita", "NO_AT_BRIDGE": "1", "GTK_IM_MODULE": "gtk-im-context-simple", "GTK_CSD": "0"},
            **({"LANGUAGE": "zh_CN"} if spec.locale == "zh" else {}),
            **spec.environment,
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the session bus, then the program, and wait until it opens a window."""
        bus = f"{self.place.seen_temporary}/run/bus"
        (self.place.runtime / "bus.conf").write_text(_BUS.format(path=bus), encoding="utf-8")
        self.open([program("dbus-daemon"), f"--config-file={bus}.conf", "--nofork", "--nopidfile"])
        self._wait_for("its session bus", lambda: (self.place.runtime / "bus").exists())
        self.open([*self.spec.command, *(self.task_spec.arguments or ())])
        self._wait_for("a window", lambda: bool(self.screen.titles()))

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.spec.id

    def open(self, command: Sequence[str]) -> None:
        """Start a program in the home, on the screen and on the bus; `~/` at the start of a word is the home."""
        home = self.place.seen_home
        words = [program(command[0]), *(home + word[1:] if word.startswith("~/") else word for word in command[1:])]
        self._processes.append(self.place.start(words, self._environment))

    def wait_for_window(self, pattern: str) -> None:
        """Wait until the title of the topmost window matches.

        Raises:
            InfrastructureError: it does not in time, or the program ended.
        """
        self._wait_for(
            f"a window '{pattern}' on top",
            lambda: bool((titles := self.screen.titles()) and re.search(pattern, titles[-1])),
        )

    def _wait_for(self, what: str, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.screen.timeout
        while not there():
            self.raise_if_killed()
            if time.monotonic() > deadline:
                titles = ", ".join(self.screen.titles()) or "none"
                raise InfrastructureError(
                    f"{self.name}: no sign of {what} in {self.screen.timeout:g} s; open windows: {titles}"
                )
            time.sleep(0.01)

    def preflight(self) -> None:
        """Check that the agent will find what the task promises.

        Raises:
            InfrastructureError: a fixture is not as described, or the expected window is not on top and active.
        """
        if wrong := misplaced(self.task_spec, self.place.home):
            raise InfrastructureError(f"{self.name}: before the first step these files are not as set up: {wrong}")
        windows = [window for window in self.screen.windows() if not window.popup]
        top = windows[-1] if windows else None
        if top is None or not re.search(self.task_spec.window or "", top.title) or not top.active:
            seen = "none" if top is None else f"'{top.title}'" + ("" if top.active else " (not active)")
            raise InfrastructureError(f"{self.name}: expected window '{self.task_spec.window}' on top, found {seen}")

    def state(self) -> dict[str, Any]:
        """Windows, files and what the readers find; see `DesktopSession`."""
        titles = self.screen.titles()
        home = self.place.home
        return {
            "windows": titles,
            "files": prints(home),
            "read": {name: reader.read(home, self.screen) for name, reader in sorted(self.task_spec.read.items())},
        }

    def elements(self, picture: np.ndarray) -> list[Element]:
        """The windows and open menus, the topmost first. What is in them only the program knows."""
        found = []
        for number, window in enumerate(reversed(self.screen.windows())):
            x0, y0 = max(window.box[0], 0), max(window.box[1], 0)
            x1, y1 = min(window.box[2], self.screen.width), min(window.box[3], self.screen.height)
            kind = "menu" if window.popup else "window"
            box = (float(x0), float(y0), float(x1), float(y1))
            found.append(Element(window.title, kind, box, f"{kind}.{number}", x0 < x1 and y0 < y1))
        return found

    def raise_if_killed(self) -> None:
        """Raises `InfrastructureError` if the bus ended, or a program by a signal: no action of an agent does that."""
        for number, process in enumerate(self._processes):
            code = process.poll()
            if code is None:
                continue
            if number == 0:
                raise InfrastructureError(f"{self.name}: its session bus died")
            if code < 0:
                raise InfrastructureError(f"{self.name} was killed by signal {-code}")
            if code in (126, 127):
                raise InfrastructureError(f"{self.name} can't be started")

    def threads(self) -> list[Thread]:
        """The threads of everything that was started for this task."""
        return self._family.threads()

    def kill(self) -> None:
        """End everything that was started for this task and empty its home."""
        for process in self._processes:
            process.kill()
        self.place.end(self._family.marker)
        for process in self._processes:
            process.wait()
        for folder in (self.place.home, self.place.temporary):
            shutil.rmtree(folder, ignore_errors=True)


_SETTINGS: Settings = {
    ".config/gtk-3.0/settings.ini": {
        "Settings": {
            **{"gtk-cursor-blink": "false", "gtk-enable-animations": "false", "gtk-overlay-scrolling": "false"},
            **{"gtk-xft-antialias": "1", "gtk-xft-hinting": "0", "gtk-xft-rgba": "none", "gtk-xft-dpi": "98304"},
            **{
                "gtk-font-name": "DejaVu Sans 10",
                "gtk-icon-theme-name": "Adwaita",
                "gtk-recent-files-enabled": "false",
            },
        }
    },
    GSETTINGS: {},
}
"""Nothing that blinks or moves, and one font: what GTK 3 programs start with."""

_TOOLKITS = {
    ".gtkrc-2.0": 'gtk-cursor-blink=0\ngtk-font-name="DejaVu Sans 10"\ngtk-icon-theme-name="Adwaita"\n'
    "gtk-enable-tooltips=0\ngtk-enable-animations=0\ngtk-can-change-accels=0\n",
    ".bashrc": "PS1='\\w$ '\nunset HISTFILE\n",
    ".Xdefaults": "XTerm*cursorBlink: false\nXTerm*faceName: DejaVu Sans Mono\nXTerm*faceSize: 11\n",
}
"""The same for GTK 2, and a shell that says neither the machine's name nor the time."""

_BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
</policy></busconfig>
"""
"""A bus for the programs that need one, which starts no services of the machine."""
