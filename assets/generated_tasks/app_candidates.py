"""Candidates for small phone apps and web sites: ways through a spec, with the state each way must lead to.

The instruction names the way. Five kinds:

    single      one named thing
    composite   two or three, one after another: `Open Settings then Mute`
    query       opens a list and reads a row of it: `Open Draft then Read first`
    batch       the same to several: switches of one screen, or rows of a list that each get the same done to them
    scenario    changes on two screens, a word that is read on one and typed on another, or changes in two apps
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Set
from typing import Any

from assets.environments.apps import AppSpec, Control
from assets.environments.task import TaskContract
from assets.generated_tasks import ways
from assets.generated_tasks.plan import READ, Candidate, PlannedStep, Reading
from assets.generated_tasks.templates import HOME, Clause, instruction
from assets.generated_tasks.ways import Way

LIST_ROWS = 3
"""Rows of a list in a task's initial state; as many fit on every screen that has one."""

DRAWS = 24
"""Random draws of batches and of scenarios for one arrangement."""


def app_candidates(
    spec: AppSpec,
    arrangement: int,
    theme: str,
    longest: int,
    rng: random.Random,
    neighbour: AppSpec | None = None,
) -> list[Candidate]:
    """Candidates of all five kinds, shuffled.

    Args:
        arrangement: permutes the controls; candidates of one arrangement and theme are a family. Their lists hold the
            same random rows.
        longest: most clauses of a single or composite instruction; those of other kinds have twice as many at most.
        neighbour: an app on the same phone, for scenarios in two apps.
    """
    spec, rows = _with_rows(spec, rng)
    family = f"{spec.platform}/{spec.id}/{arrangement}/{theme}"
    overlay: dict[str, Any] = {f"apps.{spec.id}.arrangement": arrangement, f"apps.{spec.id}.theme": theme, **rows}
    if neighbour is not None:
        overlay |= {f"apps.{neighbour.id}.arrangement": arrangement, f"apps.{neighbour.id}.theme": theme}
    found: dict[str, Candidate] = {}
    starts = {app.id: ways.start(app) for app in (spec, neighbour) if app is not None}
    toggles = {f"{spec.id}/{at}/{held.label}" for at, held in spec.all_controls() if held.kind in ways.TOGGLES}

    def propose(kind: str, way: Way, *more: Any) -> None:
        candidate = _candidate(spec, starts, kind, way, family, overlay, *more)
        found.setdefault(candidate.target, candidate)

    for way in ways.short_ways(spec, longest, rng):
        propose(_kind_of(way, toggles), way)
    paths = ways.paths(spec, 2, rng)
    for way in _queries(spec, paths):
        propose("query", way)
    for way in _batches(spec, paths, 2 * longest, rng):
        propose("batch", way)
    for way in _scenarios(spec, paths, 2 * longest, rng):
        propose("scenario", way)
    if neighbour is not None:
        for way, there in _in_two_apps(spec, paths, neighbour, 2 * longest, rng):
            propose("scenario", way, neighbour, there)
    candidates = list(found.values())
    rng.shuffle(candidates)
    return candidates


def _with_rows(spec: AppSpec, rng: random.Random) -> tuple[AppSpec, dict[str, Any]]:
    """The spec with random rows in its lists, and the initial state that says so."""
    free = ways.words_of_rows(spec)
    lists = {name: tuple(rng.sample(free, LIST_ROWS)) for name in spec.lists}
    overlay = {f"apps.{spec.id}.lists.{name}": list(rows) for name, rows in lists.items()}
    return spec.model_copy(update={"lists": {**spec.lists, **lists}}), overlay


def _kind_of(way: Way, toggles: Set[str]) -> str:
    """Of a short way: a batch where the same is done to several switches, a composite if it has several parts."""
    if sum(capability in toggles for capability in way.capabilities) > 1:
        return "batch"
    return "composite" if len(way.clauses) > 1 else "single"


# --- kinds ------------------------------------------------------------------------------------------------------------


def _queries(spec: AppSpec, paths: Mapping[str, list[Way]]) -> Iterator[Way]:
    """What is the first, what the last row of a list that has to be opened?"""
    for path, control in _opened_lists(spec, paths):
        for which in ("first", "last"):
            yield ways.answered(ways.read(spec, path, control, which), spec.platform)


def _opened_lists(spec: AppSpec, paths: Mapping[str, list[Way]]) -> Iterator[tuple[Way, Control]]:
    for screen, leading in paths.items():
        if screen != spec.start:
            yield from ((path, control) for control in ways.lists_of(spec, screen) for path in leading)


def _batches(spec: AppSpec, paths: Mapping[str, list[Way]], longest: int, rng: random.Random) -> Iterator[Way]:
    """The same done to several switches of a screen, or to several rows of a list."""
    for _ in range(DRAWS):
        path = rng.choice(paths[rng.choice(sorted(paths))])
        way = ways.toggled(spec, path, rng.choice((2, 2, 3)), rng)
        if way is not None and len(way.clauses) <= longest:
            yield way
        for control in ways.lists_of(spec, path.screen):
            operations = [held.label for held in spec.screens[control.open].all_controls()] if control.open else []
            if operations:
                rows = rng.sample(path.lists[control.label], 2)
                way = ways.repeated(spec, path, control, rng.choice(operations), rows, rng)
                if way is not None and len(way.clauses) <= longest:
                    yield way


def _scenarios(spec: AppSpec, paths: Mapping[str, list[Way]], longest: int, rng: random.Random) -> Iterator[Way]:
    """Changes on two screens of one app, or a word that is read on one and typed on another."""
    for _ in range(DRAWS):
        way = ways.wander(spec, longest, rng)
        if way is not None:
            yield way
    for path, control in _opened_lists(spec, paths):
        for which in ("first", "last"):
            way = ways.typed(spec, ways.read(spec, path, control, which), longest, rng)
            if way is not None:
                yield way


def _in_two_apps(
    spec: AppSpec, paths: Mapping[str, list[Way]], other: AppSpec, longest: int, rng: random.Random
) -> Iterator[tuple[Way, Way]]:
    """A change here and one there, or a word that is read here and typed there: (way here, way there)."""
    here, there = ([way for way in ways.short_ways(app, 2, rng) if way.changed] for app in (spec, other))
    for _ in range(DRAWS // 4 if here and there else 0):
        first, second = rng.choice(here), rng.choice(there)
        if len(first.clauses) + 1 + len(second.clauses) <= longest:
            yield first, second
    for path, control in _opened_lists(spec, paths):
        reading = ways.read(spec, path, control, rng.choice(("first", "last")))
        typing = ways.typed(other, ways.start(other), longest - len(reading.clauses) - 1, rng)
        if typing is not None:
            yield reading, typing


# --- contracts --------------------------------------------------------------------------------------------------------


def _candidate(
    spec: AppSpec,
    starts: Mapping[str, Way],
    kind: str,
    way: Way,
    family: str,
    overlay: Mapping[str, Any],
    other: AppSpec | None = None,
    there: Way | None = None,
) -> Candidate:
    clauses, plan, capabilities = list(way.clauses), list(way.plan), list(way.capabilities)
    expected = _kept(spec.id, starts, way)
    if other is not None and there is not None:
        clauses += [Clause("open", (other.title,)), *there.clauses]
        launch = (PlannedStep("PressHome", thought=HOME[spec.locale]), PlannedStep("Click", f"launcher/{other.title}"))
        plan += [*launch, *there.plan]
        capabilities += there.capabilities
        expected |= {"foreground": other.id, "recents": [other.id, spec.id], **_kept(other.id, starts, there)}
    expected |= _where(there or way)
    if way.answered:
        expected["answer"] = READ
    text = instruction(clauses, spec.locale)
    task = TaskContract(
        id="",
        platform=spec.platform,
        app=spec.id,
        locale=spec.locale,
        instruction=text,
        kind=kind,
        capabilities=tuple(dict.fromkeys(capabilities)),
        initial_state=dict(overlay),
        expected_state=expected,
        allowed_side_effects=("view",),
        keypoints=tuple(word for clause in clauses for word in clause.words),
        step_budget=len(plan) + 3,
        split=spec.split,
    )
    target = text if way.reading is None else f"{text} | {_rows(way.reading)}"
    names = tuple(clause.words[-1] for clause in clauses if clause.verb != "read")
    return Candidate(task, tuple(plan), family, target, way.reading, names)


def _rows(reading: Reading) -> str:
    return " ".join(row.rpartition("/")[2] for row in reading.rows)


def _kept(app: str, starts: Mapping[str, Way], way: Way) -> dict[str, Any]:
    """Dotted paths of everything that the way changed in an app."""
    first = starts[app]
    values = {f"values.{key}": value for key, value in way.values.items() if value != first.values.get(key)}
    lists = {f"lists.{name}": rows for name, rows in way.lists.items() if rows != first.lists.get(name)}
    return {f"apps.{app}.{path}": value for path, value in {**values, **lists}.items()}


def _where(way: Way) -> dict[str, Any]:
    """Where the app that is used last must be."""
    where: dict[str, Any] = {"view.screen": way.screen, "view.dialog": way.dialog}
    return where if way.item is None else {**where, "view.item": way.item}
