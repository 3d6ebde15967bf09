"""Small desktop applications: windows of yad, or mousepad on one file, on a screen as large as a postage stamp.

An application is a JSON spec in `desktop_apps/`: windows of yad (a real GTK program) or an editor on a file. What its
windows hold and in which order is part of a task's initial state, so one program shows many different screens. The
outcome of a task is what a person could check afterwards: exit codes, what a program printed, the file it wrote, the
window it left open. The words are of the small model's closed vocabulary, the colours tell controls apart.
"""

from __future__ import annotations

import json
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from assets.environments.desktop.display import Display
from assets.environments.desktop.place import Place, program
from assets.environments.desktop.processes import Family, Thread
from assets.environments.session import Element
from assets.errors import InfrastructureError, ParameterError

Colour = tuple[int, int, int]

LIST_ROWS = 5
"""Rows of a list that a small screen shows without scrolling."""

SPECS = Path(__file__).parents[1] / "desktop_apps"


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
    scale: Literal["small"] = "small"
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
    """Every small application in `desktop_apps/`, sorted by id."""
    return tuple(
        DesktopApp.model_validate_json(file.read_text(encoding="utf-8")) for file in sorted(SPECS.glob("*.json"))
    )


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


# --- a running application -------------------------------------------------------------------------------------------


class SmallApplication:
    """The processes of one application with a folder of their own, which holds all they read and write."""

    def __init__(self, app: DesktopApp, state: Mapping[str, Any], screen: Display, place: Place, folder: Path) -> None:
        self.app, self.arrangement, self._screen, self._place, self.folder = app, state, screen, place, folder
        marker = f"HESPER_RUN={folder}"
        self._family = Family(marker)
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
        self._process = place.start(
            first or [program("mousepad"), "--disable-server", "note.txt"],
            {**place.environment(), **_ENVIRONMENT, "DISPLAY": screen.name, "HESPER_RUN": str(folder)}
            | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
            | {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={folder}/none"},
            folder,
            "machine",
        )

    def shown(self, name: str) -> list[Control]:
        """The controls of a window in the order the task gives them."""
        known = {control.id: control for control in self.app.windows[name].controls}
        return [known[identity] for identity in self.arrangement["windows"][name]["order"]]

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.app.id

    def state(self) -> dict[str, Any]:
        """What is to be seen of the application from outside: the open windows, what closed windows kept, the file."""
        titles = self._screen.titles()
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
        return self._process.poll() is None or any(state != "Z" for state, _ in self.threads())

    def raise_if_killed(self) -> None:
        """Raises `InfrastructureError` if a program ended by a signal, which no action of an agent does."""
        codes = [kept["exit"] or 0 for kept in map(self._kept, self.app.windows)]
        if (self._process.poll() or 0) < 0 or any(code > 128 and code - 128 in _SIGNALS for code in codes):
            raise InfrastructureError(f"{self.app.id} was killed")

    def threads(self) -> list[Thread]:
        """The threads of every process of the application."""
        return self._family.threads()

    def kill(self) -> None:
        """End every process of the application and remove its folder."""
        self._process.kill()
        self._place.end(self._family.marker)
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _script(self, name: str) -> str:
        """The shell command of a window: what yad prints goes to NAME.out, then its exit code to NAME.exit."""
        window, state = self.app.windows[name], self.arrangement["windows"][name]
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

    def elements(self, picture: np.ndarray) -> list[Element]:
        """The controls of the top window, found by their flat colours on the screen; no text is read.

        The theme gives every kind of control a colour of its own and a margin, so a control is a connected region of
        its colour, and regions in reading order are the controls in reading order.

        Args:
            picture: the screen, `[height, width, 3]`, uint8.
        """
        return [
            Element(control.label, control.kind, (float(box[0]), float(box[1]), float(box[2]), float(box[3])), name)
            for control, name, box in self._controls(picture)
        ]

    def _controls(self, picture: np.ndarray) -> list[tuple[Control, str, tuple[int, int, int, int]]]:
        """(control, `window.control`, box) of everything in the top window."""
        app, name = self.app, self.state()["open"]
        if not app.windows:
            note = Control(id="note", label="笔记" if app.locale == "zh" else "Note", kind="entry")
            return [(note, "note", box) for box in _regions(picture, [app.theme.entry])] if name else []
        if not name:
            return []
        theme, window = app.theme, app.windows[name]
        shown = self.shown(name)
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
                f"{app.id}/{name}: {len(found)}+{len(closers)} controls on the screen, "
                f"{len(shown)}+{len(window.closers)} expected"
            )
        pairs = [*zip(shown, found, strict=True), *zip(window.closers, closers, strict=True)]
        return [(control, f"{name}.{control.id}", box) for control, box in pairs]


_SIGNALS = frozenset(int(number) for number in signal.Signals)

_ENVIRONMENT = {
    "GTK_THEME": "Adwaita",
    "NO_AT_BRIDGE": "1",
    "GSETTINGS_BACKEND": "keyfile",
    "GTK_IM_MODULE": "gtk-im-context-simple",
}

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
