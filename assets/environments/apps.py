"""Simulated apps and sites: declarative specs, validated, that the runtime in `runtime/` brings to life.

A spec names screens and, on each, controls with what they do. Everything a person can change is JSON state, so a task
can set it and a check can compare it. An app's own part of the state is

    {"values": {key: bool, text or number}, "lists": {name: [rows]}, "arrangement": int, "theme": name}

There are two scales. A `small` app is drawn for the small model: words of a closed vocabulary on a 16-pixel grid, rows
that are plain texts; `arrangement` permutes its controls. A `full` app is drawn as real apps are, for any size of
screen, and its rows are records: `{id, field: value, ...}`. `docs/your_own_apps.md` is the language's reference.
Many full apps are made from an archetype (`archetypes.py`), which expands to one plain spec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from assets.errors import ParameterError
from assets.stage import YamlLoader

FOLDER = Path(__file__).parent / "apps"
RUNTIME = Path(__file__).parent / "runtime"

SmallKind = Literal[
    "button", "outline", "link", "row", "card", "tool", "tab", "nav", "switch", "checkbox", "radio", "field", "select",
    "text", "list",
]  # fmt: skip
FullKind = Literal[
    "heading", "picture", "stat", "progress", "chart", "map", "notice", "divider", "section", "tile", "chip", "fab",
    "search", "stepper", "slider", "date", "time", "rating", "segmented", "chips", "keypad", "calendar",
]  # fmt: skip
Kind = Literal[SmallKind, FullKind]
INPUTS = frozenset(
    ["switch", "checkbox", "radio", "field", "select", "search", "stepper", "slider", "date", "time", "rating",
     "segmented", "chips", "keypad", "calendar"]
)  # fmt: skip
"""Kinds that keep a value under their key."""
Layout = Literal["rows", "grid", "cards", "form", "stagger", "columns", "stack", "line", "group", "panel"]
ListLook = Literal[
    "row", "card", "button", "link", "compact", "grid", "poster", "bubbles", "timeline", "table", "post", "tile",
]  # fmt: skip
Scalar = bool | int | float | str


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


class Look(_Part):
    """A full app's theme: `page` is the ground, `surface` cards and bars, `raised` what lies on them, `ink` and `muted`
    the text, `line` borders, `accent` with its text `on_accent` and its pale `tint`, `art` the colours of pictures."""

    split: Literal["train", "heldout"]
    dark: bool = False
    page: str
    surface: str
    raised: str
    ink: str
    muted: str
    line: str
    accent: str
    on_accent: str
    tint: str
    art: tuple[str, ...]


class Style(_Part):
    """How a full app is drawn, beside its colours."""

    header: Literal["plain", "accent", "large", "centred", "tinted"] = "plain"
    density: Literal["compact", "normal", "roomy"] = "normal"
    corners: Literal["square", "soft", "round"] = "soft"
    lists: Literal["lines", "gaps", "plain", "panels"] = "lines"
    font: Literal["sans", "serif", "mono", "condensed"] = "sans"
    icons: Literal["thin", "bold", "filled"] = "thin"


class Empty(_Part):
    """What a list shows that has no rows."""

    text: str
    icon: str = "inbox"
    note: str = ""


class Update(_Part):
    """Fields set in all rows of a list that match."""

    where: str = ""
    set: dict[str, Scalar]


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

    A full app has more to say; texts are templates (`{name}`, `{price|money}`), `$name` alone is a typed value, and a
    condition is `name`, `!name` or `name = value`, several joined by ` and `:
        when: shown only while this condition holds.
        submit: nothing happens while a field of the screen or dialog is wrong; each wrong one says why.
        asks: a permission that must be granted first (value `permission_<name>`: ask, allowed, once or denied).
        only, otherwise: nothing but the message `otherwise` happens unless the condition holds.
        toggle: keys that are flipped; step: key -> number to add, within `minimum` and `maximum`.
        edit, flip, bump: the same for fields of the row; delete, move: the row is taken out, or goes to another list.
        insert: list -> fields of a new row; update: list -> rows changed at once; purge: list -> condition of the rows
        that go.
        say: a message at the bottom, with `undo` also a button that takes it all back.
        new: the row that was inserted is the one that the next screen is about.
    """

    kind: Kind
    label: str
    key: str = ""
    options: tuple[str, ...] = ()
    as_: ListLook = Field("row", alias="as")
    fill: int | None = None
    needs: tuple[str, ...] = ()
    put: dict[str, Scalar] = {}
    add: dict[str, str] = {}
    remove: dict[str, str] = {}
    clear: tuple[str, ...] = ()
    close: bool = False
    dialog: str | None = None
    open: str | None = None
    back: bool = False
    home: bool = False

    # What a full app adds: names and looks.
    id: str = ""
    when: str = ""
    style: str = ""
    icon: str = ""
    title: str = ""
    note: str = ""
    value: str = ""
    meta: str = ""
    badge: str = ""
    avatar: str = ""
    picture: str = ""
    strong: str = ""
    faded: str = ""
    # Inputs.
    type: Literal["text", "number", "decimal", "phone", "email", "password", "pin", "lines", "calculator", "dial"] = (
        "text"
    )
    hint: str = ""
    required: bool = False
    length: int = 0
    minimum: float | None = None
    maximum: float | None = None
    by: float = 1
    unit: str = ""
    # Lists.
    where: str = ""
    search: str = ""
    inside: tuple[str, ...] = ()
    sort: str = ""
    orders: dict[str, str] = {}
    filter: str = ""
    filters: dict[str, str] = {}
    matches: str = ""
    group: str = ""
    limit: int = 0
    empty: Empty | None = None
    mine: str = ""
    marks: str = ""
    lit: str = ""
    hold: str = ""
    lead: Control | None = None
    actions: tuple[Control, ...] = ()
    # Sections.
    layout: Layout = "stack"
    columns: int = 2
    controls: tuple[Control, ...] = ()
    # Effects.
    submit: bool = False
    asks: str = ""
    only: str = ""
    otherwise: str = ""
    toggle: tuple[str, ...] = ()
    step: dict[str, Scalar] = {}
    edit: dict[str, Scalar] = {}
    flip: tuple[str, ...] = ()
    bump: dict[str, Scalar] = {}
    insert: dict[str, dict[str, Scalar]] = {}
    update: dict[str, Update] = {}
    purge: dict[str, str] = {}
    delete: bool = False
    move: str = ""
    say: str = ""
    undo: bool = False
    new: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, values: Any) -> Any:
        """`{button: Send}` is `{kind: button, label: Send}`; the key defaults to the label."""
        if isinstance(values, dict) and "kind" not in values:
            kinds = [kind for kind in KINDS if kind in values and kind not in _ALSO_FIELDS]
            if not kinds:
                kinds = [kind for kind in _ALSO_FIELDS if kind in values]
            if len(kinds) != 1:
                raise ValueError(f"a control has exactly one kind of {', '.join(KINDS)}; found {kinds}")
            values = {**values, "kind": kinds[0], "label": values[kinds[0]]}
            del values[kinds[0]]
        if isinstance(values, dict) and not values.get("key"):
            values = {**values, "key": values.get("label", "")}
        return values

    @model_validator(mode="after")
    def _whole(self) -> Control:
        if self.kind in ("select", "segmented", "chips") and len(self.options) < 2:
            raise ValueError(f"{self.kind} '{self.label}' needs at least two options")
        if self.kind == "radio" and self.key == self.label:
            raise ValueError(f"radio '{self.label}' needs the key of its group")
        for condition in (
            self.when,
            self.strong,
            self.faded,
            self.lit,
            self.where,
            self.mine,
            self.only,
            *self.purge.values(),
        ):
            parse_condition(condition)
        for condition in (*self.filters.values(), *(update.where for update in self.update.values())):
            parse_condition(condition)
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

    @property
    def identity(self) -> str:
        """What names a full app's control on its screen: its id, an input's key, else its label."""
        return self.id or (self.key if self.kind in INPUTS and self.kind != "radio" else self.label)

    def within(self) -> Iterator[Control]:
        """The control and all that it holds."""
        yield self
        if self.lead is not None:
            yield self.lead
        for control in (*self.controls, *self.actions):
            yield from control.within()


KINDS = (*get_args(SmallKind), *get_args(FullKind))
_ALSO_FIELDS = ("picture", "search")
"""Kinds whose name is also a field of others: `{list: notes, search: query}` is a list."""


class Dialog(_Part):
    """A dialog over the screen: a title, then controls. A full app's may have a text; a `sheet` comes from below."""

    title: str
    controls: tuple[Control, ...]
    text: str = ""
    style: Literal["alert", "sheet"] = "alert"


class Failure(_Part):
    """What a screen shows instead of its body while a condition holds: a trouble, and a button to try again."""

    when: str
    text: str
    note: str = ""
    icon: str = "cloud-off"
    retry: Control


class Screen(_Part):
    """A screen: an optional title bar or a bar of controls on top, a body, a bar at the bottom or down the side.

    `columns` counts for grid and columns, `pitch` is the distance of rows in pixels, `inset` the body's margin.
    A full app's tools stand in the title bar and the rest of `top` below it; `failure` may take the body's place.
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
    note: str = ""
    failure: Failure | None = None

    def all_controls(self) -> Iterator[Control]:
        """Every control, top to bottom."""
        for control in (*self.top, *self.side, *self.controls, *self.bottom):
            yield from control.within()
        if self.failure is not None:
            yield self.failure.retry


class Computed(_Part):
    """A number worked out from a list: the `count` of its rows or the `sum` of the product of the fields `of`, of the
    rows that match; then `plus` other values, `times` another."""

    count: str = ""
    sum: str = ""
    of: tuple[str, ...] = ()
    where: str = ""
    plus: tuple[str, ...] = ()
    times: str = ""

    @model_validator(mode="after")
    def _one(self) -> Computed:
        if bool(self.count) == bool(self.sum):
            raise ValueError("a computed number is either the count of a list or a sum over it")
        if self.sum and not self.of:
            raise ValueError("a sum needs the fields it is of")
        parse_condition(self.where)
        return self


class AppSpec(_Part):
    """A phone app or a web site. Its first screen is the one it starts on.

    `fields` gives a full app's lists their fields, with what a row has that names none; `computed` its numbers;
    `navigation` leads to its main screens and is drawn on each of them as `menu` says; `clock` is the time it is there.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    platform: Literal["mobile", "web"]
    locale: Literal["en", "zh"]
    split: Literal["train", "heldout"]
    category: str
    theme: str
    scale: Literal["small", "full"] = "small"
    archetype: str = ""
    icon: str = "app"
    style: Style = Style()
    currency: str = ""
    clock: str = Field("2026-05-18 09:41", pattern=r"^\d{4}-\d\d-\d\d \d\d:\d\d$")
    menu: Literal["bottom", "tabs", "drawer", "rail"] = "bottom"
    navigation: tuple[Control, ...] = ()
    values: dict[str, Scalar] = {}
    fields: dict[str, dict[str, Scalar]] = {}
    computed: dict[str, Computed] = {}
    lists: dict[str, tuple[str | dict[str, Scalar], ...]] = {}
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
            yield from ((f"dialog:{name}", held) for control in dialog.controls for held in control.within())
        for item in self.navigation:
            yield from ((self.start, held) for held in item.within())

    def initial_state(self) -> dict[str, Any]:
        """The app's part of the state, before anybody touched it."""
        return self._small_state() if self.scale == "small" else self._full_state()

    def _small_state(self) -> dict[str, Any]:
        values: dict[str, Scalar] = {}
        lists: dict[str, list[Any]] = {}
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

    def _full_state(self) -> dict[str, Any]:
        values: dict[str, Scalar] = {}
        for _, control in self.all_controls():
            if control.kind in INPUTS and not control.key.startswith("."):
                values.setdefault(control.key, _blank(control, self.clock))
            if control.asks:
                values.setdefault(f"permission_{control.asks}", "ask")
        values.update(self.values)
        lists: dict[str, list[Any]] = {}
        for name in (*self.fields, *self.lists):
            rows = [dict(row) for row in self.lists.get(name, ()) if isinstance(row, Mapping)]
            defaults = self.fields.get(name, {})
            lists[name] = [{"id": str(number), **defaults, **row} for number, row in enumerate(rows, start=1)]
        return {"values": values, "lists": lists, "arrangement": 0, "theme": self.theme}

    @model_validator(mode="after")
    def _consistent(self) -> AppSpec:
        if not self.screens:
            raise ValueError("an app needs at least one screen")
        for place, control in self.all_controls():
            where = f"{place}, {control.kind} '{control.label}'"
            if control.open is not None and control.open not in self.screens:
                raise ValueError(f"{where}: opens '{control.open}', but the screens are {', '.join(self.screens)}")
            for dialog in (control.dialog, control.hold or None):
                if dialog is not None and dialog not in self.dialogs:
                    raise ValueError(f"{where}: shows '{dialog}', but the dialogs are {', '.join(self.dialogs)}")
        if self.scale == "small":
            self._check_small()
        else:
            _FullCheck(self).run()
        reached = self._reachable()
        if lost := [name for name in self.screens if name not in reached]:
            raise ValueError(f"no control leads to screen {', '.join(lost)}")
        if hidden := [name for name in self.dialogs if f"dialog:{name}" not in reached]:
            raise ValueError(f"no control shows dialog {', '.join(hidden)}")
        return self

    def _check_small(self) -> None:
        if any(not isinstance(row, str) for rows in self.lists.values() for row in rows):
            raise ValueError("lists: the rows of a small app are texts")
        state = self._small_state()
        for place, control in self.all_controls():
            where = f"{place}, {control.kind} '{control.label}'"
            if control.kind in get_args(FullKind):
                raise ValueError(f"{where}: a small app has no {control.kind}")
            used = [*control.needs, *control.put, *control.clear]
            used += [text[1:] for text in (*control.add.values(), *control.remove.values()) if text.startswith("$")]
            for key in used:
                if key not in state["values"] and key != "item":
                    raise ValueError(f"{where}: no value '{key}'; known: {', '.join(sorted(state['values']))}")

    def _reachable(self) -> set[str]:
        reached, frontier = {self.start}, [self.start]
        while frontier:
            controls = list(self.screens[frontier.pop()].all_controls())
            controls += [held for item in self.navigation for held in item.within()]
            shown: set[str] = set()
            for control in controls:  # Grows while dialogs lead to dialogs.
                for name in (control.dialog, control.hold):
                    if name and name not in shown:
                        shown.add(name)
                        controls += [held for inner in self.dialogs[name].controls for held in inner.within()]
                if control.open and control.open not in reached:
                    reached.add(control.open)
                    frontier.append(control.open)
            reached.update(f"dialog:{name}" for name in shown)
        return reached


# --- what a full app says in texts ------------------------------------------------------------------------------------

_CONDITION = re.compile(r"^(?:(?P<name>\w+)\s*(?P<op>!=|<=|>=|=|<|>|~)\s*(?P<value>.*)|(?P<not>!?)(?P<flag>\w+))$")
_TEMPLATE = re.compile(r"\{(\w+)(?:\|(\w+))?\}")
FORMATS = frozenset(
    ["money", "number", "date", "day", "weekday", "time", "moment", "duration", "percent", "size", "signed", "stars",
     "month"]
)  # fmt: skip
"""How a template may write a value: `{price|money}`."""
ALWAYS = frozenset(["now", "today", "index", "id"])
"""Names that every app knows."""


@dataclass(frozen=True)
class Clause:
    """`name op value` of a condition; `reference` says that the value is the name of another one (`$name`)."""

    name: str
    op: Literal["=", "!=", "<", ">", "<=", ">=", "~", "is", "not"]
    value: str = ""
    reference: bool = False


def parse_condition(text: str) -> tuple[Clause, ...]:
    """The clauses of a condition, all of which must hold.

    Raises:
        ValueError: it is none, with the part that isn't.
    """
    clauses = []
    for part in text.split(" and ") if text else []:
        match = _CONDITION.match(part.strip())
        if match is None:
            raise ValueError(f"'{part}' is no condition: write `name`, `!name` or `name = value`, joined by ` and `")
        if match["flag"]:
            clauses.append(Clause(match["flag"], "not" if match["not"] else "is"))
        else:
            value = match["value"].strip()
            clauses.append(Clause(match["name"], match["op"], value.lstrip("$"), value.startswith("$")))  # type: ignore[arg-type]
    return tuple(clauses)


def names_in(text: str) -> Iterator[str]:
    """Names that a template or a `$name` refers to.

    Raises:
        ValueError: it has a format that does not exist.
    """
    if re.fullmatch(r"-?\$\w+", text):
        yield text.lstrip("-$")
        return
    for name, form in _TEMPLATE.findall(text):
        if form and form not in FORMATS:
            raise ValueError(f"'{text}': no format '{form}'; known: {', '.join(sorted(FORMATS))}")
        yield name


def _blank(control: Control, clock: str) -> Scalar:
    """The value of an input that nobody touched."""
    if control.kind in ("switch", "checkbox"):
        return False
    if control.kind in ("stepper", "slider", "rating"):
        least = control.minimum or 0
        return int(least) if least == int(least) else least
    if control.kind in ("select", "segmented", "chips"):
        return control.options[0]
    if control.kind in ("date", "calendar"):
        return clock[:10]
    if control.kind == "time":
        return "08:00"
    return ""


class _FullCheck:
    """That everything a full app's spec names exists, and that no two controls of a screen have one name."""

    def __init__(self, spec: AppSpec) -> None:
        self.spec = spec
        state = spec.initial_state()
        self.values = {*state["values"]}
        self.lists = {name: {"id", *spec.fields.get(name, {})} for name in state["lists"]}
        self.known = {*self.values, *spec.computed, *ALWAYS}.union(*self.lists.values(), set())

    def run(self) -> None:
        """Check all parts.

        Raises:
            ValueError: what is wrong with each of them, a line each.
        """
        spec, problems = self.spec, list[str]()
        checks: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (self._icon, ("icon", spec.icon)),
            *((self._rows, (name, rows)) for name, rows in spec.lists.items()),
            *((self._computed, (f"computed.{name}", computed)) for name, computed in spec.computed.items()),
            *((self._screen, (name, screen)) for name, screen in spec.screens.items()),
            *((self._dialog, (f"dialog:{name}", dialog)) for name, dialog in spec.dialogs.items()),
            *((self._control, (f"{at}, {one.kind} '{one.label}'", one)) for at, one in spec.all_controls()),
        ]
        for check, part in checks:
            try:
                check(*part)
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("\n".join(dict.fromkeys(problems)))

    def _rows(self, name: str, rows: Iterable[Any]) -> None:
        for number, row in enumerate(rows):
            where = f"lists.{name}.{number}"
            if not isinstance(row, Mapping):
                raise ValueError(f"{where}: a row of a full app is a record of fields, not '{row}'")
            self._all(where, "field", row, self.lists[name])

    def _computed(self, where: str, computed: Computed) -> None:
        self._list(where, computed.count or computed.sum)
        self._all(where, "field", computed.of, self.lists[computed.count or computed.sum])
        self._all(where, "value", (*computed.plus, *filter(None, [computed.times])), self.known)
        self._condition(where, computed.where)

    def _screen(self, name: str, screen: Screen) -> None:
        for text in (screen.title or "", screen.note):
            self._text(name, text)
        if screen.failure is not None:
            self._condition(name, screen.failure.when)
        self._once(name, (*screen.top, *screen.side, *screen.controls, *screen.bottom))

    def _dialog(self, name: str, dialog: Dialog) -> None:
        for text in (dialog.title, dialog.text):
            self._text(name, text)
        self._once(name, dialog.controls)

    def _control(self, where: str, control: Control) -> None:
        if control.kind == "list" and control.label not in self.lists:
            raise ValueError(f"{where}: no list '{control.label}'; known: {', '.join(self.lists)}")
        rows = {"list": control.label, "chart": control.label, "map": control.marks}.get(control.kind, "")
        fields = self.lists.get(rows, set())
        self._all(where, "field", control.inside, fields)
        for name in (control.matches, control.group.lstrip("-"), *(o.lstrip("-") for o in control.orders.values())):
            self._all(where, "field", filter(None, [name]), fields)
        self._all(where, "value", filter(None, [control.search if control.kind == "list" else ""]), self.values)
        self._all(where, "value", filter(None, [control.filter]), self.values)
        self._all(
            where, "value", (*control.needs, *control.put, *control.clear, *control.toggle, *control.step), self.values
        )
        texts = (
            "" if control.kind == "list" else control.label, control.title, control.note, control.value, control.meta,
            control.badge, control.avatar, control.picture, control.say, control.otherwise, control.hint,
        )  # fmt: skip
        given = (*control.put.values(), *control.step.values(), *control.edit.values(), *control.bump.values())
        for text in (*texts, *(value for value in given if isinstance(value, str))):
            self._text(where, text)
        for condition in (
            control.when,
            control.where,
            control.strong,
            control.faded,
            control.lit,
            control.mine,
            control.only,
        ):
            self._condition(where, condition)
        for condition in (*control.filters.values(), *control.purge.values()):
            self._condition(where, condition)
        every = set[str]().union(*self.lists.values(), set())
        self._all(where, "field", (*control.edit, *control.flip, *control.bump), every)
        if control.key.startswith("."):
            self._all(where, "field", [control.key[1:]], every)
        for name, row in control.insert.items():
            self._list(where, name)
            self._all(where, "field", row, self.lists[name])
            for value in row.values():
                self._text(where, value if isinstance(value, str) else "")
        for name, update in control.update.items():
            self._list(where, name)
            self._all(where, "field", update.set, self.lists[name])
            self._condition(where, update.where)
        for name in (*control.purge, *filter(None, [control.move, control.marks])):
            self._list(where, name)
        for icon in (control.icon, control.empty.icon if control.empty else ""):
            self._icon(where, icon)

    def _icon(self, where: str, icon: str) -> None:
        if icon and "{" not in icon and icon not in load_icons():
            raise ValueError(f"{where}: no icon '{icon}'; known: {', '.join(load_icons())}")

    def _once(self, place: str, controls: Iterable[Control]) -> None:
        seen: set[tuple[str, str]] = set()
        for control in controls:
            for held in _outside_lists(control):
                identity = f"{held.label}@{held.id}" if held.kind == "list" else held.identity
                if held.kind in (
                    "text",
                    "heading",
                    "picture",
                    "divider",
                    "section",
                    "stat",
                    "progress",
                    "chart",
                    "map",
                ):
                    continue
                if (identity, held.when) in seen:
                    raise ValueError(f"{place}: two controls are called '{identity}'; give one an `id`")
                seen.add((identity, held.when))

    def _list(self, where: str, name: str) -> None:
        if name not in self.lists:
            raise ValueError(f"{where}: no list '{name}'; known: {', '.join(self.lists)}")

    def _text(self, where: str, text: str) -> None:
        self._all(where, "name", names_in(text), self.known)

    def _condition(self, where: str, text: str) -> None:
        for clause in parse_condition(text):
            self._all(where, "name", [clause.name, *([clause.value] if clause.reference else [])], self.known)

    def _all(self, where: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
        for name in names:
            if name not in known:
                raise ValueError(f"{where}: no {what} '{name}'; known: {', '.join(sorted(known))}")


def _outside_lists(control: Control) -> Iterator[Control]:
    yield control
    for held in control.controls:
        yield from _outside_lists(held)


# --- files ------------------------------------------------------------------------------------------------------------


def load_spec(path: Path) -> AppSpec:
    """One spec from its YAML file; a file that names an archetype is expanded.

    Raises:
        ParameterError: naming the file, the place and the trouble.
    """
    from assets.environments.archetypes import expand

    document = read_yaml(path)
    if isinstance(document, dict) and document.get("archetype"):
        document = expand(document, path)
    try:
        return AppSpec.model_validate(document)
    except ValidationError as error:
        problems = [
            ": ".join(filter(None, [path.name, ".".join(map(str, item["loc"])), line]))
            for item in error.errors()
            for line in item["msg"].removeprefix("Value error, ").splitlines()
        ]
        raise ParameterError("\n".join(problems)) from None


class _Loader(YamlLoader):
    """The project's loader, by which `on`, `no`, dates and times are the texts that they look like (as in YAML 1.2)."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("null", "merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9]\d*)$"), list("-0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^-?\d+\.\d+$"), list("-0123456789"))


def read_yaml(path: Path) -> Any:
    """A YAML document.

    Raises:
        ParameterError: it is none.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise ParameterError(f"{path.name} is not valid YAML: {error}") from None


@dataclass(frozen=True)
class Head:
    """What a launcher and a catalogue need of a spec: the first lines of its file, so that none has to be loaded."""

    id: str
    title: str
    platform: str
    locale: str
    split: str
    category: str
    theme: str
    scale: str = "small"
    archetype: str = ""
    icon: str = "app"


@cache
def load_heads() -> dict[str, Head]:
    """Every shipped spec's head by id, sorted.

    Raises:
        ParameterError: a head is broken, or its id is not its file's name.
    """
    return {path.stem: read_head(path) for path in sorted(FOLDER.glob("*.yaml"))}


def read_head(path: Path) -> Head:
    """The head of a spec. Reads no further than the first line that opens a block.

    Raises:
        ParameterError: it lacks something or has what can't be, or its id is not its file's name.
    """
    found: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if not line.strip() or line[0] in " #-":
                    continue
                name, _, value = line.partition(":")
                plain = value.partition(" #")[0].strip()
                if not plain:
                    break
                if name in Head.__dataclass_fields__:
                    # There are hundreds of heads, and YAML is slow.
                    found[name] = str(yaml.load(value, Loader=_Loader)) if plain[0] in "\"'" else plain
        head = Head(**found)
    except (yaml.YAMLError, TypeError) as error:
        raise ParameterError(f"{path.name}: its first lines must name id, title, platform, …: {error}") from None
    if head.id != path.stem:
        raise ParameterError(f"{path.name}: its id is '{head.id}'; it must be the file's name")
    for name in ("platform", "locale", "split", "scale"):
        choices = get_args(AppSpec.model_fields[name].annotation)
        if getattr(head, name) not in choices:
            raise ParameterError(f"{path.name}: {name}: '{getattr(head, name)}' is none of {', '.join(choices)}")
    return head


@cache
def find_spec(name: str) -> AppSpec:
    """The shipped spec of this id.

    Raises:
        ParameterError: there is none, it is broken, or it names no known theme.
    """
    if name not in load_heads():
        raise ParameterError(f"no app '{name}'")
    spec = load_spec(FOLDER / f"{name}.yaml")
    themes: Mapping[str, object] = load_themes() if spec.scale == "small" else load_looks()
    if spec.theme not in themes:
        raise ParameterError(f"{name}.yaml: no theme '{spec.theme}'; known: {', '.join(themes)}")
    return spec


def head_of(spec: AppSpec) -> Head:
    """The head of a spec at hand."""
    return Head(**{name: getattr(spec, name) for name in Head.__dataclass_fields__})


class Shelf(Mapping[str, AppSpec]):
    """The shipped specs of a platform by id, each read when it is asked for."""

    def __init__(self, platform: str) -> None:
        self.heads = {name: head for name, head in load_heads().items() if head.platform == platform}

    def __getitem__(self, name: str) -> AppSpec:
        if name not in self.heads:
            raise KeyError(name)
        return find_spec(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.heads)

    def __len__(self) -> int:
        return len(self.heads)

    def __contains__(self, name: object) -> bool:
        return name in self.heads


@cache
def load_specs(scale: Literal["small", "full"] = "small") -> dict[str, AppSpec]:
    """Every shipped spec of a scale by id, sorted.

    Raises:
        ParameterError: a spec is broken, names no known theme, or its id is not its file's name.
    """
    return {name: find_spec(name) for name, head in load_heads().items() if head.scale == scale}


@cache
def load_themes() -> dict[str, Theme]:
    """The themes of small apps by name."""
    document = read_yaml(RUNTIME / "themes.yaml")
    return {name: Theme.model_validate(theme) for name, theme in document.items()}


@cache
def load_looks() -> dict[str, Look]:
    """The themes of full apps by name."""
    document = read_yaml(RUNTIME / "looks.yaml")
    return {name: Look.model_validate(look) for name, look in document.items()}


@cache
def load_icons() -> dict[str, str]:
    """Name -> SVG path of every icon, 24 by 24."""
    icons: dict[str, str] = read_yaml(RUNTIME / "icons.yaml")
    return icons
