"""A small app's spec at work: what pressing its controls does, worked out by the same rules as the runtime follows.

A way is a series of presses from the start of an app, what is said about them and where they lead. The validity gate
checks later that the real app agrees.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assets.agent.vocabulary import WORDS
from assets.environments.apps import AppSpec, Control, Scalar
from assets.generated_tasks.plan import READ, PlannedStep, Reading
from assets.generated_tasks.templates import BACK, IT, PLACES, Clause

TOGGLES = ("switch", "checkbox")


@dataclass
class Way:
    """What was said and done so far, and where it led.

    Attributes:
        changed: the screens on which something was changed, in order.
        passed: the screens that were passed since the last change.
        used: ids of what was pressed.
    """

    values: dict[str, Scalar]
    lists: dict[str, list[str]]
    screen: str
    stack: list[str] = field(default_factory=list)
    dialog: str | None = None
    item: str | None = None
    clauses: list[Clause] = field(default_factory=list)
    plan: list[PlannedStep] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    reading: Reading | None = None
    answered: bool = False

    @property
    def place(self) -> str:
        """The screen, or the dialog over it."""
        return f"dialog:{self.dialog}" if self.dialog is not None else self.screen

    def copy(self) -> Way:
        """A way that can go on for itself."""
        own: dict[str, Any] = {name: list(value) for name, value in vars(self).items() if isinstance(value, list)}
        lists = {name: list(rows) for name, rows in self.lists.items()}
        return replace(self, values=dict(self.values), lists=lists, **own)

    def differs(self, other: Way) -> bool:
        """Whether a check can tell the two apart."""
        mine, theirs = ((way.values, way.lists, way.screen, way.answered) for way in (self, other))
        return mine != theirs


def start(spec: AppSpec) -> Way:
    """The way of no presses."""
    state = spec.initial_state()
    return Way(state["values"], state["lists"], spec.start, passed=[spec.start])


def short_ways(spec: AppSpec, longest: int, rng: random.Random) -> Iterator[Way]:
    """Every way of at most `longest` named things whose last press changes something or opens a screen.

    Depth first: each control in sight is pressed, each field filled with a random word.
    """
    yield from _further(spec, start(spec), start(spec), longest, rng)


def _further(spec: AppSpec, way: Way, first: Way, longest: int, rng: random.Random) -> Iterator[Way]:
    if len(way.clauses) == longest:
        return
    for control, label in in_sight(spec, way):
        if only_leads_back(control) or _identity(way, label) in way.used:
            continue
        following = pressed(spec, way, control, label, rng)
        if following is None or not following.differs(first):
            continue
        if following.clauses[-1].verb != "type" and following.differs(way):
            yield following
        yield from _further(spec, following, first, longest, rng)


def words_of_rows(spec: AppSpec) -> list[str]:
    """The words that a task may put into the app's lists: none that names a control, a screen or a default row."""
    taken = {control.label for _, control in spec.all_controls()} | {screen.title for screen in spec.screens.values()}
    taken.update(row for rows in spec.lists.values() for row in rows if isinstance(row, str))
    return [word for word in WORDS[spec.locale] if word not in taken]


def in_sight(spec: AppSpec, way: Way) -> Iterator[tuple[Control, str]]:
    """(control, label) of everything on the screen or, if one is open, in the dialog."""
    if way.dialog is not None:
        controls: Sequence[Control] = spec.dialogs[way.dialog].controls
    else:
        controls = list(spec.screens[way.screen].all_controls())
    for control in controls:
        if control.kind == "list":
            yield from ((control, item) for item in way.lists[control.label])
        elif control.kind not in ("text", "select"):
            yield control, control.label


def only_leads_back(control: Control) -> bool:
    """Whether a control does nothing but go back or home."""
    return (control.back or control.home) and not changes(control)


def changes(control: Control) -> bool:
    """Whether a press changes more than what is on the screen."""
    effects = (control.put, control.add, control.remove, control.clear, control.records)
    return any(effects) or control.kind in (*TOGGLES, "radio", "field")


def pressed(
    spec: AppSpec, before: Way, control: Control, label: str, rng: random.Random, word: str | None = None
) -> Way | None:
    """The way after one more named thing, or None if that does nothing.

    Args:
        word: what a field is filled with, READ for what was read; without it a random word.
    """
    idle = control.kind in ("tab", "nav") and control.open == before.screen
    if idle or any(not before.values.get(key) for key in control.needs):
        return None
    way = before.copy()
    identity = _identity(before, label)
    way.used.append(identity)
    named = control.label if control.kind == "list" else label
    way.capabilities.append(f"{spec.id}/{before.place}/{named}")
    way.plan.append(PlannedStep("Click", identity))
    if control.kind == "field":
        word = word or rng.choice([word for word in WORDS[spec.locale] if word != label])
        way.clauses.append(Clause("type", (IT[spec.locale] if word == READ else word, label)))
        way.plan.append(PlannedStep("Type", content=word))
        way.values[control.key] = word
        return way
    moves = control.open or control.dialog
    way.clauses.append(Clause("open" if moves else "press", (label,)))
    _press(spec, way, control, label)
    if (way.values, way.lists) != (before.values, before.lists):
        way.changed.append(before.screen)
        way.passed = []
    way.passed.append(way.screen)
    return way


def _identity(way: Way, label: str) -> str:
    return f"{way.place}/{label}"


def _press(spec: AppSpec, way: Way, control: Control, label: str) -> None:
    """What the runtime does on a press, on the spec."""

    def text(template: str) -> Any:
        if template == "$item":
            return way.item
        return way.values[template[1:]] if template.startswith("$") else template

    if control.kind == "list":
        way.item = label
    if control.kind in TOGGLES:
        way.values[control.key] = not way.values[control.key]
    if control.kind == "radio":
        way.values[control.key] = control.label
    if control.records:
        way.lists["done"].append(control.label)
    way.values.update(control.put)
    for name, template in control.add.items():
        way.lists[name].append(text(template))
    for name, template in control.remove.items():
        if text(template) in way.lists[name]:
            way.lists[name].remove(text(template))
    for key in control.clear:
        way.values[key] = spec.initial_state()["values"][key]
    if control.close:
        way.dialog = None
    if control.dialog:
        way.dialog = control.dialog
    if control.open and control.open != way.screen:
        way.stack.append(way.screen)
        way.screen = control.open
    if control.back and way.stack:
        way.screen = way.stack.pop()
    if control.home:
        way.stack = []
        way.screen = spec.start


def back(before: Way, locale: str) -> Way | None:
    """The way after the system's back, which no instruction names; None where that would leave the app."""
    if before.dialog is not None or not before.stack:
        return None
    way = before.copy()
    way.screen = way.stack.pop()
    way.passed.append(way.screen)
    way.plan.append(PlannedStep("PressBack", thought=BACK[locale]))
    return way


# --- longer ways ------------------------------------------------------------------------------------------------------


def paths(spec: AppSpec, longest: int, rng: random.Random) -> dict[str, list[Way]]:
    """Screen -> the ways of at most `longest` presses that do nothing but lead there, the shortest first."""
    found = {spec.start: [start(spec)]}
    edge = [start(spec)]
    for _ in range(longest):
        edge = [
            following
            for way in edge
            for control, label in in_sight(spec, way)
            if control.open and control.kind != "list" and not changes(control)
            if (following := pressed(spec, way, control, label, rng)) is not None
            if following.screen not in way.passed
        ]
        for way in edge:
            found.setdefault(way.screen, []).append(way)
    return found


def lists_of(spec: AppSpec, screen: str) -> list[Control]:
    """The lists that a screen shows."""
    return [control for control in spec.screens[screen].all_controls() if control.kind == "list"]


def toggled(spec: AppSpec, way: Way, count: int, rng: random.Random) -> Way | None:
    """The way after that many switches and boxes of the screen; None where there are not so many."""
    toggles = [(control, label) for control, label in in_sight(spec, way) if control.kind in TOGGLES]
    if len(toggles) < count:
        return None
    for control, label in rng.sample(toggles, count):
        following = pressed(spec, way, control, label, rng)
        assert following is not None  # a switch needs nothing
        way = following
    return way


def repeated(
    spec: AppSpec, path: Way, control: Control, operation: str, rows: Sequence[str], rng: random.Random
) -> Way | None:
    """The way on which the same is done to several rows of the list at the end of a path; None where that can't be.

    Args:
        operation: label of the control of a row's screen that is pressed for each.
    """
    way = path
    for row in rows:
        if way.screen != path.screen:
            again = _again(spec, way, path, rng)
            if again is None:
                return None
            way = again
        if row not in way.lists[control.label]:
            return None
        opened = pressed(spec, way, control, row, rng)
        if opened is None or opened.screen == path.screen or opened.dialog is not None:
            return None
        found = [pair for pair in in_sight(spec, opened) if pair[1] == operation and changes(pair[0])]
        done = pressed(spec, opened, *found[0], rng) if found else None
        if done is None or done.dialog is not None or not done.differs(opened):
            return None
        way = done
    return way


def _again(spec: AppSpec, way: Way, path: Way, rng: random.Random) -> Way | None:
    """Back to where a path leads, with the system's back or by the path itself."""
    returned = back(way, spec.locale)
    if returned is not None and returned.screen == path.screen:
        return returned
    if way.screen != spec.start or way.stack:
        return None
    for step in path.plan:
        named = [pair for pair in in_sight(spec, way) if _identity(way, pair[1]) == step.target]
        following = pressed(spec, way, *named[0], rng) if named else None
        if following is None:
            return None
        way = following
    return way


def read(spec: AppSpec, path: Way, control: Control, which: str) -> Way:
    """The way that reads the first or the last row of the list at the end of a path."""
    way = path.copy()
    way.passed = [way.screen]
    rows = tuple(_identity(way, row) for row in way.lists[control.label])
    way.clauses.append(Clause("read", (PLACES[spec.locale][which],)))
    way.capabilities.append(f"{spec.id}/{way.place}/{control.label}")
    way.reading = Reading(at=len(way.plan), rows=rows, last=which == "last")
    return way


def answered(way: Way, platform: str) -> Way:
    """The way that says what it read."""
    way = way.copy()
    name = "Answer" if platform == "mobile" else "Finished"
    way.plan.append(PlannedStep(name, content=READ, thought=READ))
    way.answered = True
    return way


def typed(spec: AppSpec, way: Way, longest: int, rng: random.Random) -> Way | None:
    """The way that goes on to a field and there uses what was read; None where none was found by wandering."""
    while len(way.clauses) < longest:
        fields = [pair for pair in in_sight(spec, way) if pair[0].kind == "field"]
        rng.shuffle(fields)
        for control, label in fields:
            filled = pressed(spec, way, control, label, rng, READ)
            assert filled is not None  # a field needs nothing
            for use, name in in_sight(spec, filled):
                used = pressed(spec, filled, use, name, rng) if control.key in use.needs else None
                if used is not None and used.dialog is not None:
                    used = _confirmed(spec, used, rng)
                if used is not None and any(READ in rows for rows in used.lists.values()):
                    return used if len(used.clauses) <= longest else None
        following = _wandered(spec, way, rng)
        if following is None:
            return None
        way = following
    return None


def _confirmed(spec: AppSpec, way: Way, rng: random.Random) -> Way | None:
    """The way after the press of a dialog that changes something."""
    for control, label in in_sight(spec, way):
        following = pressed(spec, way, control, label, rng) if changes(control) else None
        if following is not None and following.lists != way.lists:
            return following
    return None


def _wandered(spec: AppSpec, way: Way, rng: random.Random) -> Way | None:
    """One step to a screen that was not passed since the last change."""
    steps = [
        pressed(spec, way, control, label, rng)
        for control, label in in_sight(spec, way)
        if (control.open or control.back or control.home) and control.kind != "list" and not changes(control)
    ]
    steps.append(back(way, spec.locale))
    fresh = [step for step in steps if step is not None and step.screen not in way.passed]
    return rng.choice(fresh) if fresh else None


def wander(spec: AppSpec, longest: int, rng: random.Random) -> Way | None:
    """A random way that changes something on two screens; None where wandering led to none."""
    way = start(spec)
    while len(way.clauses) < longest:
        following = _changed(spec, way, rng) if rng.random() < _EAGER else None
        following = following or _wandered(spec, way, rng)
        if following is None:
            return None
        way = following
        if len(set(way.changed)) > 1 and way.changed[-1] != way.changed[-2] and not way.passed[1:]:
            return way
    return None


_EAGER = 0.6
"""How often something is changed where something can be."""


def _changed(spec: AppSpec, way: Way, rng: random.Random) -> Way | None:
    """The way after a press that changes something here and now, filling the fields that it needs."""
    pairs = [
        (control, label)
        for control, label in in_sight(spec, way)
        if changes(control) and control.kind != "field" and _identity(way, label) not in way.used
    ]
    rng.shuffle(pairs)
    for control, label in pairs:
        filled: Way | None = way
        for key in control.needs:
            fields = [pair for pair in in_sight(spec, way) if pair[0].kind == "field" and pair[0].key == key]
            filled = pressed(spec, filled, *fields[0], rng) if fields and filled is not None else None
        following = pressed(spec, filled, control, label, rng) if filled is not None else None
        if following is not None and following.changed != way.changed:
            return following
    return None
