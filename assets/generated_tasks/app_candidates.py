"""Candidates for phone apps and web sites: ways through a spec, with the state each way must lead to.

The way is worked out on the spec alone, by the same rules as the runtime follows; the validity gate then checks that
the real app agrees.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from assets.agent.vocabulary import WORDS
from assets.environments.apps import AppSpec, Control, Scalar
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import Candidate, PlannedStep
from assets.generated_tasks.templates import Clause, instruction


def app_candidates(spec: AppSpec, arrangement: int, theme: str, longest: int, rng: random.Random) -> list[Candidate]:
    """Every way of at most `longest` named things that changes something or ends on another screen, shuffled.

    Args:
        arrangement: permutes the controls; candidates of one arrangement and theme are a family.
        longest: most clauses of an instruction.
    """
    ways = list(_ways(spec, _start(spec), longest, rng))
    rng.shuffle(ways)
    family = f"{spec.platform}/{spec.id}/{arrangement}/{theme}"
    overlay = {f"apps.{spec.id}.arrangement": arrangement, f"apps.{spec.id}.theme": theme}
    candidates = []
    for way in ways:
        text = instruction(way.clauses, spec.locale)
        kinds = "composite" if len(way.clauses) > 1 else "single"
        task = TaskContract(
            id="",
            platform=spec.platform,
            app=spec.id,
            locale=spec.locale,
            instruction=text,
            kind=kinds,
            capabilities=tuple(way.capabilities),
            initial_state=overlay,
            expected_state=_expected(spec, way),
            allowed_side_effects=("view",),
            keypoints=tuple(word for clause in way.clauses for word in clause.words),
            step_budget=len(way.plan) + 3,
            split=spec.split,
        )
        candidates.append(Candidate(task, tuple(way.plan), family, text))
    return candidates


# --- a spec at work ---------------------------------------------------------------------------------------------------


@dataclass
class _Way:
    """Presses from the start: what was said and done so far, and where it led."""

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


def _start(spec: AppSpec) -> _Way:
    state = spec.initial_state()
    return _Way(state["values"], state["lists"], spec.start)


def _ways(spec: AppSpec, way: _Way, longest: int, rng: random.Random) -> Iterator[_Way]:
    """Depth first: each control in sight is pressed, each field filled with a random word."""
    if len(way.clauses) == longest:
        return
    for control, label in _in_sight(spec, way):
        following = _pressed(spec, way, control, label, rng)
        if following is None:
            continue
        if following.clauses[-1].verb != "type" and _worth(spec, way, following):
            yield following
        yield from _ways(spec, following, longest, rng)


def _in_sight(spec: AppSpec, way: _Way) -> Iterator[tuple[Control, str]]:
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


def _pressed(spec: AppSpec, before: _Way, control: Control, label: str, rng: random.Random) -> _Way | None:
    """The way after one more named thing, or None if it says or does nothing new."""
    place = f"dialog:{before.dialog}" if before.dialog is not None else before.screen
    identity = f"{place}/{label}"
    moves = control.open or control.dialog
    idle = control.kind in ("tab", "nav") and control.open == before.screen
    if identity in before.used or idle or control.back or control.home:
        return None
    if any(not before.values.get(key) for key in control.needs):
        return None
    way = copy.deepcopy(before)
    way.used.append(identity)
    way.capabilities.append(f"{spec.id}/{identity}")
    way.plan.append(PlannedStep("Click", identity))
    if control.kind == "field":
        word = rng.choice([word for word in WORDS[spec.locale] if word != label])
        way.clauses.append(Clause("type", (word, label)))
        way.plan.append(PlannedStep("Type", content=word))
        way.values[control.key] = word
        return way
    way.clauses.append(Clause("open" if moves else "press", (label,)))
    _press(spec, way, control, label)
    return way


def _press(spec: AppSpec, way: _Way, control: Control, label: str) -> None:
    """What the runtime does on a press, on the spec."""

    def text(template: str) -> Any:
        if template == "$item":
            return way.item
        return way.values[template[1:]] if template.startswith("$") else template

    if control.kind == "list":
        way.item = label
    if control.kind in ("switch", "checkbox"):
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


def _worth(spec: AppSpec, before: _Way, after: _Way) -> bool:
    """Whether the last press gives a task: it changed something, or it opened a screen."""
    changed = (after.values, after.lists) != (before.values, before.lists)
    return changed or after.screen != before.screen


def _expected(spec: AppSpec, way: _Way) -> dict[str, Any]:
    """Dotted paths of everything that changed, and where the app must be."""
    initial = spec.initial_state()
    expected: dict[str, Any] = {"view.screen": way.screen, "view.dialog": way.dialog}
    if way.item is not None:
        expected["view.item"] = way.item
    for part, values in (("values", way.values), ("lists", way.lists)):
        for key, value in values.items():
            if value != initial[part].get(key):
                expected[f"apps.{spec.id}.{part}.{key}"] = value
    return expected
