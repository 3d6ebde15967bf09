"""Simulated apps and sites: declarative specs, validated, that the runtime in `runtime/` brings to life.

A spec names screens and, on each, controls with what they do. Everything a person can change is JSON state, so a task
can set it and a check can compare it. An app's own part of the state is

    {"values": {key: bool or text}, "lists": {name: [texts]}, "arrangement": int, "theme": name}

`arrangement` permutes the controls of every screen and `theme` recolours it: one app gives many different screens.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from assets.errors import ParameterError

FOLDER = Path(__file__).parent / "apps"

Kind = Literal[
    "button", "outline", "link", "row", "card", "tool", "tab", "nav", "switch", "checkbox", "radio", "field", "select",
    "text", "list",
]  # fmt: skip
Layout = Literal["rows", "grid", "cards", "form", "stagger", "columns"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Theme(_Part):
    """Colours as CSS writes them: `page` is the ground, `surface` what bars, rows and fields lie on, `ink` the text on
    both, `line` their border, `fills` the colours of filled controls, `on_fill` the text on them."""

    split: Literal["train", "heldout"]
    page: str
    surface: str
    ink: str
    line: str
    fills: tuple[str, ...]
    on_fill: str
    radius: int


class Control(_Part):
    """A control: in YAML its kind and label are one pair, `{button: Send, open: sent}`.

    What it does when pressed (a field: on Enter; a list: on each row), in this order:
        needs: keys that must hold text, or nothing happens.
        put: key -> new value of the app's values.
        add: list -> text to append. `$key` is a value of the app, `$item` the list row that was opened.
        remove: list -> text to take out.
        clear: keys set back to empty.
        close: whether the dialog closes; dialog: the dialog to show.
        open, back, home: go to a screen, to the one before, to the first.
    A button, link, card, row or tool with none of these records its label in the list `done`.
    """

    kind: Kind
    label: str
    key: str = ""
    options: tuple[str, ...] = ()
    as_: Literal["row", "card", "button", "link"] = Field("row", alias="as")
    fill: int | None = None
    needs: tuple[str, ...] = ()
    put: dict[str, bool | str] = {}
    add: dict[str, str] = {}
    remove: dict[str, str] = {}
    clear: tuple[str, ...] = ()
    close: bool = False
    dialog: str | None = None
    open: str | None = None
    back: bool = False
    home: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, values: Any) -> Any:
        """`{button: Send}` is `{kind: button, label: Send}`; the key defaults to the label."""
        if isinstance(values, dict) and "kind" not in values:
            kinds = [kind for kind in get_args(Kind) if kind in values]
            if len(kinds) != 1:
                raise ValueError(f"a control has exactly one kind of {', '.join(get_args(Kind))}; found {kinds}")
            values = {**values, "kind": kinds[0], "label": values[kinds[0]]}
            del values[kinds[0]]
        if isinstance(values, dict) and not values.get("key"):
            values = {**values, "key": values.get("label", "")}
        return values

    @model_validator(mode="after")
    def _whole(self) -> Control:
        if self.kind == "select" and len(self.options) < 2:
            raise ValueError(f"select '{self.label}' needs at least two options")
        if self.kind == "radio" and self.key == self.label:
            raise ValueError(f"radio '{self.label}' needs the key of its group")
        return self

    @property
    def records(self) -> bool:
        """Whether a press leaves nothing but its record."""
        pressed = self.kind in ("button", "outline", "link", "card", "row", "tool", "nav", "tab")
        effects = (
            self.put,
            self.add,
            self.remove,
            self.clear,
            self.close,
            self.dialog,
            self.open,
            self.back,
            self.home,
        )
        return pressed and not any(effects)


class Dialog(_Part):
    """A dialog over the screen: a title, then controls."""

    title: str
    controls: tuple[Control, ...]


class Screen(_Part):
    """A screen: an optional title bar or a bar of controls on top, a body, a bar at the bottom or down the side.

    `columns` counts for grid and columns, `pitch` is the distance of rows in pixels, `inset` the body's margin.
    """

    title: str | None = None
    top: tuple[Control, ...] = ()
    side: tuple[Control, ...] = ()
    controls: tuple[Control, ...] = ()
    bottom: tuple[Control, ...] = ()
    layout: Layout = "rows"
    columns: int = 2
    pitch: int | None = None
    inset: int = 0

    def all_controls(self) -> Iterator[Control]:
        """Every control, top to bottom."""
        yield from (*self.top, *self.side, *self.controls, *self.bottom)


class AppSpec(_Part):
    """A phone app or a web site. Its first screen is the one it starts on."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    platform: Literal["mobile", "web"]
    locale: Literal["en", "zh"]
    split: Literal["train", "heldout"]
    category: str
    theme: str
    values: dict[str, bool | str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    screens: dict[str, Screen]
    dialogs: dict[str, Dialog] = {}

    @property
    def start(self) -> str:
        """The first screen."""
        return next(iter(self.screens))

    def all_controls(self) -> Iterator[tuple[str, Control]]:
        """(`screen` or `dialog:name`, control) of every control."""
        for name, screen in self.screens.items():
            yield from ((name, control) for control in screen.all_controls())
        for name, dialog in self.dialogs.items():
            yield from ((f"dialog:{name}", control) for control in dialog.controls)

    def initial_state(self) -> dict[str, Any]:
        """The app's part of the state, before anybody touched it."""
        values: dict[str, bool | str] = {}
        lists: dict[str, list[str]] = {}
        for _, control in self.all_controls():
            if control.kind in ("switch", "checkbox"):
                values.setdefault(control.key, False)
            elif control.kind in ("field", "radio"):
                values.setdefault(control.key, "")
            elif control.kind == "select":
                values.setdefault(control.key, control.options[0])
            elif control.kind == "list":
                lists.setdefault(control.label, [])
            if control.records:
                lists.setdefault("done", [])
            for name in (*control.add, *control.remove):
                lists.setdefault(name, [])
        values.update(self.values)
        lists.update({name: list(items) for name, items in self.lists.items()})
        return {"values": values, "lists": lists, "arrangement": 0, "theme": self.theme}

    @model_validator(mode="after")
    def _consistent(self) -> AppSpec:
        if not self.screens:
            raise ValueError("an app needs at least one screen")
        state = self.initial_state()
        for place, control in self.all_controls():
            where = f"{place}, {control.kind} '{control.label}'"
            if control.open is not None and control.open not in self.screens:
                raise ValueError(f"{where}: opens '{control.open}', but the screens are {', '.join(self.screens)}")
            if control.dialog is not None and control.dialog not in self.dialogs:
                raise ValueError(f"{where}: shows '{control.dialog}', but the dialogs are {', '.join(self.dialogs)}")
            used = [*control.needs, *control.put, *control.clear]
            used += [text[1:] for text in (*control.add.values(), *control.remove.values()) if text.startswith("$")]
            for key in used:
                if key not in state["values"] and key != "item":
                    raise ValueError(f"{where}: no value '{key}'; known: {', '.join(sorted(state['values']))}")
        reached, frontier = {self.start}, [self.start]
        while frontier:
            here = frontier.pop()
            controls = list(self.screens[here].all_controls())
            for shown in [control.dialog for control in controls if control.dialog]:
                controls += self.dialogs[shown].controls
            for control in controls:
                if control.open and control.open not in reached:
                    reached.add(control.open)
                    frontier.append(control.open)
        if lost := [name for name in self.screens if name not in reached]:
            raise ValueError(f"no control leads to screen {', '.join(lost)}")
        return self


def load_spec(path: Path) -> AppSpec:
    """One spec from its YAML file.

    Raises:
        ParameterError: naming the file, the place and the trouble.
    """
    try:
        return AppSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise ParameterError(f"{path.name} is not valid YAML: {error}") from None
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc'])) or 'spec'}: {item['msg']}" for item in error.errors()]
        raise ParameterError("\n".join(f"{path.name}: {problem}" for problem in problems)) from None


@cache
def load_specs() -> dict[str, AppSpec]:
    """Every shipped spec by id, sorted.

    Raises:
        ParameterError: a spec is broken, names no known theme, or its id is not its file's name.
    """
    specs: dict[str, AppSpec] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        spec = load_spec(path)
        if spec.id != path.stem:
            raise ParameterError(f"{path.name}: its id is '{spec.id}'")
        if spec.theme not in load_themes():
            raise ParameterError(f"{path.name}: no theme '{spec.theme}'; known: {', '.join(load_themes())}")
        specs[spec.id] = spec
    return specs


@cache
def load_themes() -> dict[str, Theme]:
    """The runtime's themes by name."""
    document = yaml.safe_load((FOLDER.parent / "runtime" / "themes.yaml").read_text(encoding="utf-8"))
    return {name: Theme.model_validate(theme) for name, theme in document.items()}
