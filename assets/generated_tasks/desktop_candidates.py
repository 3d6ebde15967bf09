"""Candidates for desktop applications, from the windows of their specs."""

from __future__ import annotations

import itertools
import random
from typing import Any

from assets.agent.vocabulary import WORDS
from assets.environments.desktop import LIST_ROWS, Control, DesktopApp, Window
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import Candidate, PlannedStep
from assets.generated_tasks.templates import Clause, instruction

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
    candidates = []
    for steps in _window_ways(windows[first], first, app.locale, most, rng):
        candidates.append(build.candidate([(first, steps)], []))
    for opener in windows[first].controls:
        if opener.kind == "opener" and opener.opens is not None:
            candidates.append(build.candidate([], [(first, opener)]))
            for steps in _window_ways(windows[opener.opens], opener.opens, app.locale, most - 1, rng):
                candidates.append(build.candidate([(opener.opens, steps)], [(first, opener)]))
    rng.shuffle(candidates)
    return candidates


Step = tuple[Control, str]
"""A control to act on and, for an entry, the word to type."""


def _arranged(window: Window, rng: random.Random) -> Window:
    """The window with its controls in another order; a list shows as many rows as fit. Entries stay on top."""
    controls = list(window.controls)
    rng.shuffle(controls)
    controls.sort(key=lambda control: control.kind != "entry")
    if window.kind == "list":
        controls = controls[:LIST_ROWS]
    return window.model_copy(update={"controls": tuple(controls)})


def _window_ways(window: Window, name: str, locale: str, most: int, rng: random.Random) -> list[list[Step]]:
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
            words = rng.sample(list(WORDS[locale]), 6)  # type: ignore[index]
            ways += [[(entry, word), (closer, "")] for word in words]
            ways += [
                [(entry, word), (toggle, ""), (closer, "")]
                for word, toggle in itertools.product(rng.sample(list(WORDS[locale]), 3), toggles)  # type: ignore[index]
            ]
    return ways


class _Builder:
    """Puts a way together: words, clicks and the state they must lead to."""

    def __init__(self, app: DesktopApp, windows: dict[str, Window], overlay: dict[str, Any], family: str) -> None:
        self.app, self.windows, self.overlay, self.family = app, windows, overlay, family

    def candidate(self, used: list[tuple[str, list[Step]]], opened: list[tuple[str, Control]]) -> Candidate:
        """A candidate that opens windows, then acts in some."""
        clauses: list[Clause] = []
        plan: list[PlannedStep] = []
        capabilities: list[str] = []
        expected: dict[str, Any] = {"open": next(iter(self.windows))}
        for name, opener in opened:
            clauses.append(Clause("open", (opener.label,)))
            plan.append(PlannedStep("Click", f"{name}.{opener.id}"))
            capabilities.append(f"{self.app.id}/{name}.{opener.id}")
            expected["open"] = opener.opens
        for name, steps in used:
            capabilities += [f"{self.app.id}/{name}.{control.id}" for control, _ in steps]
            for control, word in steps:
                if control.kind == "entry":
                    clauses.append(Clause("type", (word,)))
                    plan.append(PlannedStep("Type", content=word))  # the first entry of a window has the focus
                else:
                    clauses.append(Clause("press", (control.label,)))
                    plan.append(PlannedStep("Click", f"{name}.{control.id}"))
            expected.update(self._kept(name, steps))
            expected["open"] = "" if name == next(iter(self.windows)) else next(iter(self.windows))
        text = instruction(clauses, self.app.locale)
        task = TaskContract(
            id="",
            platform="desktop",
            app=self.app.id,
            locale=self.app.locale,
            instruction=text,
            kind="composite" if len(clauses) > 1 else "single",
            capabilities=tuple(capabilities),
            initial_state=self.overlay,
            expected_state=expected,
            keypoints=tuple(word for clause in clauses for word in clause.words),
            step_budget=len(plan) + 3,
            split=self.app.split,
        )
        return Candidate(task, tuple(plan), self.family, text)

    def _kept(self, name: str, steps: list[Step]) -> dict[str, Any]:
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
    old, *new = rng.sample(list(WORDS[app.locale]), 5)
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
    return Candidate(task, plan, family, text)
