"""Candidates for desktop applications, from the windows of their specs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assets.agent.vocabulary import WORDS, Locale
from assets.environments.desktop import LIST_ROWS, Control, DesktopApp, Window
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import READ, Candidate, PlannedStep, Reading
from assets.generated_tasks.templates import IT, PLACES, Clause, instruction

SAVE = ("ctrl", "s")
"""The editor's shortcut: it has no button on a small screen."""


def desktop_candidates(app: DesktopApp, arrangement: int, most: int, rng: random.Random) -> list[Candidate]:
    """Ways through an application's windows, shuffled.

    Args:
        arrangement: number of the random initial state; candidates of one arrangement are a family.
        most: most toggles of one window that a task sets.
    """
    if not app.windows:
        return _editor_candidates(app, arrangement, rng)
    windows = {name: _arranged(window, rng) for name, window in app.windows.items()}
    overlay = {f"windows.{name}.order": [control.id for control in window.controls] for name, window in windows.items()}
    build = _Builder(app, windows, overlay, f"desktop/{app.id}/{arrangement}")
    first = next(iter(windows))
    openers = [control for control in windows[first].controls if control.kind == "opener" and control.opens]
    ways = {name: _window_ways(window, app.locale, most - (name != first), rng) for name, window in windows.items()}
    candidates = [build.candidate([_Visit(first, None, steps)]) for steps in ways[first]]
    for opener in openers:
        visits = [_Visit(str(opener.opens), opener, steps) for steps in ([], *ways[str(opener.opens)])]
        candidates += [build.candidate([visit]) for visit in visits]
    candidates += build.in_two_windows(openers, ways, rng)
    for opener in openers:
        candidates += build.readings(opener, openers)
    rng.shuffle(candidates)
    return candidates


Step = tuple[Control, str]
"""A control to act on and, for an entry, the word to type."""


@dataclass(frozen=True)
class _Visit:
    """A window, the control that opens it, what is done there and which row of it is read first, if one is."""

    window: str
    opener: Control | None
    steps: Sequence[Step] = ()
    reads: str = ""


def _arranged(window: Window, rng: random.Random) -> Window:
    """The window with its controls in another order; a list shows as many rows as fit. Entries stay on top."""
    controls = list(window.controls)
    rng.shuffle(controls)
    controls.sort(key=lambda control: control.kind != "entry")
    if window.kind == "list":
        controls = controls[:LIST_ROWS]
    return window.model_copy(update={"controls": tuple(controls)})


def _window_ways(window: Window, locale: Locale, most: int, rng: random.Random) -> list[list[Step]]:
    """Everything that can be done in one window. Each way ends with a closer, one that keeps it or one that doesn't."""
    toggles = [control for control in window.controls if control.kind == "toggle"]
    entries = [control for control in window.controls if control.kind == "entry"]
    rows = [control for control in window.controls if control.kind == "row"]
    ways: list[list[Step]] = []
    for closer in window.closers:
        if closer.code != 0:
            ways.append([(closer, "")])
            continue
        for count in range(1, most + 1):
            ways += [[*((t, "") for t in chosen), (closer, "")] for chosen in itertools.combinations(toggles, count)]
        # The first row is selected when the list opens: a task that asks for it could be done by pressing the closer.
        ways += [[(row, ""), (closer, "")] for row in rows[1:]]
        for entry in entries:
            words = rng.sample(WORDS[locale], 6)
            ways += [[(entry, word), (closer, "")] for word in words]
            ways += [
                [(entry, word), (toggle, ""), (closer, "")]
                for word, toggle in itertools.product(rng.sample(WORDS[locale], 3), toggles)
            ]
    return ways


PAIRS = 12
"""Random pairs of windows in each of which something is done, for one arrangement."""


class _Builder:
    """Puts a way together: words, clicks and the state they must lead to."""

    def __init__(self, app: DesktopApp, windows: dict[str, Window], overlay: dict[str, Any], family: str) -> None:
        self.app, self.windows, self.overlay, self.family = app, windows, overlay, family

    def in_two_windows(
        self, openers: Sequence[Control], ways: dict[str, list[list[Step]]], rng: random.Random
    ) -> list[Candidate]:
        """Something kept in one window, then something kept in another."""
        kept = {
            control: [steps for steps in ways[str(control.opens)] if steps[-1][0].code == 0 and len(steps) == 2]
            for control in openers
        }
        pairs = list(itertools.permutations(openers, 2))
        found = []
        for _ in range(PAIRS if pairs else 0):
            pair = rng.choice(pairs)
            found.append(self.candidate([_Visit(str(o.opens), o, rng.choice(kept[o])) for o in pair], "scenario"))
        return found

    def readings(self, opener: Control, openers: Sequence[Control]) -> Iterator[Candidate]:
        """A row of a list that has to be opened: said, or typed into another window."""
        name = str(opener.opens)
        window = self.windows[name]
        if window.kind != "list":
            return
        usual = self.app.initial_state()["windows"][name]["order"]
        for which, place in (("first", 0), ("last", -1)):
            if window.controls[place].id == usual[place]:
                continue  # who knows the program would not have to look
            yield self.candidate([_Visit(name, opener, (), which)], "query")
            leaving = next(closer for closer in window.closers if closer.code != 0)
            for other in openers:
                there = self.windows[str(other.opens)]
                entries = [control for control in there.controls if control.kind == "entry"]
                keeping = next(closer for closer in there.closers if closer.code == 0)
                if entries:
                    look = _Visit(name, opener, [(leaving, "")], which)
                    type_it = _Visit(str(other.opens), other, [(entries[0], READ), (keeping, "")])
                    yield self.candidate([look, type_it], "scenario")

    def candidate(self, visits: Sequence[_Visit], kind: str = "") -> Candidate:
        """A candidate that visits windows one after another; its kind, if none is given, follows from what it does."""
        clauses: list[Clause] = []
        plan: list[PlannedStep] = []
        capabilities: list[str] = []
        reading: Reading | None = None
        first = next(iter(self.windows))
        expected: dict[str, Any] = {"open": first}
        toggled = 0
        for visit in visits:
            name = visit.window
            if visit.opener is not None:
                clauses.append(Clause("open", (visit.opener.label,)))
                plan.append(PlannedStep("Click", f"{first}.{visit.opener.id}"))
                capabilities.append(f"{self.app.id}/{first}.{visit.opener.id}")
                expected["open"] = visit.opener.opens
            if visit.reads:
                clauses.append(Clause("read", (PLACES[self.app.locale][visit.reads],)))
                rows = tuple(f"{name}.{control.id}" for control in self.windows[name].controls)
                reading = Reading(len(plan), rows, visit.reads == "last")
            capabilities += [f"{self.app.id}/{name}.{control.id}" for control, _ in visit.steps]
            for control, word in visit.steps:
                toggled += control.kind == "toggle"
                if control.kind == "entry":
                    clauses.append(Clause("type", (IT[self.app.locale] if word == READ else word,)))
                    plan.append(PlannedStep("Type", content=word))  # the first entry of a window has the focus
                else:
                    clauses.append(Clause("press", (control.label,)))
                    plan.append(PlannedStep("Click", f"{name}.{control.id}"))
            if visit.steps:
                expected |= self._kept(name, visit.steps)
                expected["open"] = "" if name == first else first
        if kind == "query":
            plan.append(PlannedStep("Finished", content=READ, thought=READ))
            expected["answer"] = READ
        kind = kind or ("batch" if toggled > 1 else "composite" if len(clauses) > 1 else "single")
        text = instruction(clauses, self.app.locale)
        task = TaskContract(
            id="",
            platform="desktop",
            app=self.app.id,
            locale=self.app.locale,
            instruction=text,
            kind=kind,
            capabilities=tuple(dict.fromkeys(capabilities)),
            initial_state=self.overlay,
            expected_state=expected,
            keypoints=tuple(word for clause in clauses for word in clause.words),
            step_budget=len(plan) + 3,
            split=self.app.split,
        )
        target = text if reading is None else f"{text} | {' '.join(reading.rows)}"
        names = tuple(clause.words[0] for clause in clauses if clause.verb in ("open", "press"))
        return Candidate(task, tuple(plan), self.family, target, reading, names)

    def _kept(self, name: str, steps: Sequence[Step]) -> dict[str, Any]:
        """What a window keeps when it is closed this way."""
        closer = steps[-1][0]
        expected: dict[str, Any] = {f"closed.{name}.exit": closer.code}
        if closer.code != 0:
            return expected
        pressed = {control.id: word for control, word in steps}
        for control in self.windows[name].controls:
            if control.kind == "toggle":
                expected[f"closed.{name}.{control.id}"] = control.on != (control.id in pressed)
            elif control.kind == "entry":
                expected[f"closed.{name}.{control.id}"] = pressed.get(control.id, "")
            elif control.id in pressed:
                expected[f"closed.{name}.row"] = control.id
        return expected


def _editor_candidates(app: DesktopApp, arrangement: int, rng: random.Random) -> list[Candidate]:
    """Type a word and save; read out the word in the file."""
    old, *new = rng.sample(WORDS[app.locale], 5)
    family = f"desktop/{app.id}/{arrangement}"
    candidates = []
    save, note = ("Save", "Note") if app.locale == "en" else ("保存", "笔记")
    for word in new:
        text = instruction([Clause("type", (word,)), Clause("press", (save,))], app.locale)
        typed = (PlannedStep("Type", content=word), PlannedStep("Hotkey", keys=SAVE, thought=save))
        expected = {"text": word + old}
        candidates.append(_editor_task(app, text, "composite", old, expected, typed, (word, save), family, ("save",)))
    text = instruction([Clause("read", (note,))], app.locale)
    said = (PlannedStep("Finished", content=old, thought=old),)
    candidates.append(_editor_task(app, text, "query", old, {"answer": old}, said, (note,), family, ("read",)))
    return candidates


def _editor_task(
    app: DesktopApp,
    text: str,
    kind: str,
    old: str,
    expected: dict[str, Any],
    plan: tuple[PlannedStep, ...],
    keypoints: tuple[str, ...],
    family: str,
    capabilities: tuple[str, ...],
) -> Candidate:
    task = TaskContract(
        id="",
        platform="desktop",
        app=app.id,
        locale=app.locale,
        instruction=text,
        kind=kind,
        capabilities=tuple(f"{app.id}/note.{name}" for name in capabilities),
        initial_state={"text": old},
        expected_state=expected,
        keypoints=keypoints,
        step_budget=len(plan) + 3,
        split=app.split,
    )
    # The same question about another text is another task.
    target = f"{text} | {old}" if kind == "query" else text
    return Candidate(task, plan, family, target)
