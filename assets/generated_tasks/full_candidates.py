"""Candidates for full phone apps and sites, asked for in plain sentences.

    In Lantern Lane, open "Me", then switch "Sounds" on.
    请在“山野”里打开"设置"，然后把"声音"打开。

What is named on the screen stands in straight quotes, in the order in which it is pressed. Only what can be worked out
from the spec is asked for: screens, switches, choices among buttons, records that are opened, the first row of a list.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from assets.environments.apps import AppSpec, Clause, Control, parse_condition
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import READ, Candidate, PlannedStep, Reading

LINKS = ("row", "card", "tool", "button", "outline", "link", "chip", "tile", "fab")
"""Kinds of controls that open a screen."""

MENU = {"en": "Menu", "zh": "菜单"}
"""What the button of a drawer is called."""

PHRASES: dict[str, dict[str, str]] = {
    "en": {
        "open": 'open "{}"',
        "on": 'switch "{}" on',
        "off": 'switch "{}" off',
        "choose": 'choose "{}"',
        "read": "tell me what the list shows first",
    },
    "zh": {
        "open": '打开"{}"',
        "on": '把"{}"打开',
        "off": '把"{}"关闭',
        "choose": '选择"{}"',
        "read": "告诉我列表的第一项是什么",
    },
}

DRAWS = 12
"""Random batches and scenarios of one arrangement."""


@dataclass(frozen=True)
class _Press:
    """One thing to do: what is pressed, what it is called and what that does.

    Attributes:
        says: the phrase that asks for it.
        changes: (path below the app, value).
        screen: where it leads to, or an empty text.
        item: the record that the next screen is about.
    """

    says: Literal["open", "on", "off", "choose"]
    name: str
    target: str
    capability: str
    changes: tuple[str, Any] | None = None
    screen: str = ""
    item: tuple[str, str] | None = None


def full_candidates(spec: AppSpec, arrangement: int, rng: random.Random) -> list[Candidate]:
    """Candidates of all kinds that the app has, shuffled; those of one arrangement are a family."""
    return _Writer(spec, arrangement, rng).candidates()


class _Writer:
    def __init__(self, spec: AppSpec, arrangement: int, rng: random.Random) -> None:
        self._spec, self._arrangement, self._rng = spec, arrangement, rng
        self._state = spec.initial_state()
        self._state["lists"] = {name: rng.sample(rows, len(rows)) for name, rows in self._state["lists"].items()}

    def candidates(self) -> list[Candidate]:
        found = []
        paths = self._paths()
        for path in paths:
            if path:
                found.append(self._candidate("single" if len(path) == 1 else "composite", path))
            for press in self._presses(self._screen(path)):
                found.append(self._candidate("composite" if path else "single", (*path, press)))
            if path:
                found += [self._candidate("query", path, reading) for reading in self._readings(self._screen(path))]
        for _ in range(DRAWS):
            path = self._rng.choice(paths)
            switches = [press for press in self._presses(self._screen(path)) if press.says in ("on", "off")]
            chosen = self._rng.sample(switches, 2) if len(switches) > 1 else []
            if chosen and self._independent(self._screen(path), chosen):
                found.append(self._candidate("batch", (*path, *chosen)))
            scenario = self._scenario(paths)
            if scenario:
                found.append(self._candidate("scenario", scenario))
        distinct = {candidate.target: candidate for candidate in found}
        candidates = list(distinct.values())
        self._rng.shuffle(candidates)
        return candidates

    # --- what can be done ---

    def _paths(self) -> list[tuple[_Press, ...]]:
        """Ways of at most two links, and the one of none, to each screen."""
        start = self._spec.start
        first: list[tuple[_Press, ...]] = [(link,) for link in self._links(start)]
        drawer = self._spec.menu == "drawer" and self._spec.platform == "mobile"
        word = MENU[self._spec.locale]
        lead = (_Press("open", word, f"{start}/@menu", ""),) if drawer else ()
        for item in self._spec.navigation:
            if item.open and item.open != start and self._shown(item) and "{" not in item.label:
                name = item.id or item.label
                capability = f"{start}/{item.identity}"
                first.append((*lead, _Press("open", item.label, f"nav/{name}", capability, screen=item.open)))
        second = [(*path, link) for path in first for link in self._links(self._screen(path))]
        return [(), *first, *(path for path in second if self._screen(path) not in (start, path[-2].screen))]

    def _screen(self, path: Sequence[_Press]) -> str:
        return next((press.screen for press in reversed(path) if press.screen), self._spec.start)

    def _links(self, screen: str) -> Iterator[_Press]:
        """What does nothing but open another screen."""
        for control in self._spec.screens[screen].all_controls():
            plain = control.kind in LINKS and control.open and control.open != screen and not control.new
            if (
                plain
                and self._harmless(control)
                and self._shown(control)
                and control.label
                and "{" not in control.label
            ):
                target, capability = f"{screen}/{control.id or control.label}", f"{screen}/{control.identity}"
                yield _Press("open", control.label, target, capability, screen=str(control.open))

    def _presses(self, screen: str) -> list[_Press]:
        """Switches, choices and records of a screen."""
        found: list[_Press] = []
        for control in self._spec.screens[screen].all_controls():
            if control.key.startswith(".") or not self._shown(control):
                continue
            value = self._state["values"].get(control.key)
            capability = f"{screen}/{control.identity}"
            if control.kind == "switch" and self._harmless(control) and isinstance(value, bool) and control.label:
                change, target = (f"values.{control.key}", not value), f"{screen}/{control.id or control.key}"
                found.append(_Press("off" if value else "on", control.label, target, capability, change))
            elif control.kind == "segmented" and self._harmless(control):
                for option in control.options:
                    if option != value:
                        target, chosen = f"{screen}/{control.key}/{option}", (f"values.{control.key}", option)
                        found.append(_Press("choose", option, target, capability, chosen))
            elif control.kind == "list" and control.open and self._harmless(control) and not _narrowed(control):
                for row in self._state["lists"][control.label]:
                    if not all(_holds(clause, row) for clause in parse_condition(control.where)):
                        continue
                    name = _titled(control, row)
                    if name:
                        target = f"{screen}/{control.id or control.label}/{row['id']}"
                        item = (control.label, row["id"])
                        found.append(_Press("open", name, target, capability, screen=control.open, item=item))
        return found

    def _readings(self, screen: str) -> Iterator[tuple[Control, Reading]]:
        """Lists whose rows stand as they are in the state, with another first row than the app has by default."""
        for control in self._spec.screens[screen].all_controls():
            ordered = (control.where, control.search, control.sort, control.filter, control.matches, control.group)
            # A row that opens nothing is nothing to press, and an oracle sees only what can be pressed.
            plain = control.kind == "list" and control.open and not control.orders and not control.limit
            if not plain or any(ordered) or not self._shown(control):
                continue
            rows, usual = self._state["lists"][control.label], self._spec.initial_state()["lists"][control.label]
            if len(rows) > 1 and _titled(control, rows[0]) and rows[0]["id"] != usual[0]["id"]:
                path = f"{screen}/{control.id or control.label}"
                yield control, Reading(0, tuple(f"{path}/{row['id']}" for row in rows), last=False)

    def _scenario(self, paths: Sequence[tuple[_Press, ...]]) -> tuple[_Press, ...]:
        """Something changed on a main screen, then something on another screen; empty if there is nothing."""
        first, second = self._rng.choice(paths), self._rng.choice(paths)
        if len(first) > 1 or not second or self._screen(first) == self._screen(second):
            return ()
        if first and self._spec.platform == "mobile" and not first[0].target.startswith("nav/"):
            return ()  # a phone's screen that was opened on top of another shows no navigation
        kept = []
        for path in (first, second):
            changing = [press for press in self._presses(self._screen(path)) if press.changes]
            if not changing:
                return ()
            kept += [*path, self._rng.choice(changing)]
        return tuple(kept) if second[0].target.startswith("nav/") else ()

    def _shown(self, control: Control) -> bool:
        """Whether its condition holds at the start, as far as single values tell."""
        return all(_holds(clause, self._state["values"]) for clause in parse_condition(control.when))

    def _independent(self, screen: str, switches: Sequence[_Press]) -> bool:
        """Whether none of the switches decides whether another of them is shown."""
        keys = {str(press.changes[0]).removeprefix("values.") for press in switches if press.changes}
        mine = [control for control in self._spec.screens[screen].all_controls() if control.key in keys]
        return not any(clause.name in keys for control in mine for clause in parse_condition(control.when))

    @staticmethod
    def _harmless(control: Control) -> bool:
        """Whether it has no effect beside its own value and the screen that it opens."""
        effects = (
            *(control.put, control.add, control.remove, control.clear, control.toggle, control.step, control.edit),
            *(control.flip, control.bump, control.insert, control.update, control.purge, control.delete, control.move),
            *(control.asks, control.only, control.submit, control.dialog, control.needs, control.back, control.home),
        )
        return not any(effects)

    # --- contracts ---

    def _candidate(
        self, kind: str, presses: Sequence[_Press], reads: tuple[Control, Reading] | None = None
    ) -> Candidate:
        spec = self._spec
        plan = [PlannedStep("Click", press.target) for press in presses]
        phrases = [PHRASES[spec.locale][press.says].format(press.name) for press in presses]
        capabilities = [f"{spec.id}/{press.capability}" for press in presses if press.capability]
        item = next((press.item for press in reversed(presses) if press.screen), None)
        expected: dict[str, Any] = {
            f"apps.{spec.id}.{press.changes[0]}": press.changes[1] for press in presses if press.changes
        }
        expected["view.screen"] = self._screen(presses)
        if item is not None:
            expected |= {"view.item.list": item[0], "view.item.id": item[1]}
        reading = None
        if reads is not None:
            control, found = reads
            reading = Reading(len(plan), found.rows, found.last)
            phrases.append(PHRASES[spec.locale]["read"])
            capabilities.append(f"{spec.id}/{self._screen(presses)}/{control.identity}")
            plan.append(PlannedStep("Answer" if spec.platform == "mobile" else "Finished", content=READ, thought=READ))
            expected["answer"] = READ
        text = _sentence(spec, phrases)
        state = {f"apps.{spec.id}.lists.{name}": rows for name, rows in self._state["lists"].items() if len(rows) > 1}
        task = TaskContract(
            id="",
            platform=spec.platform,
            app=spec.id,
            locale=spec.locale,
            instruction=text,
            kind=kind,
            capabilities=tuple(dict.fromkeys(capabilities)),
            initial_state={f"apps.{spec.id}.arrangement": self._arrangement, **state},
            expected_state=expected,
            allowed_side_effects=("view",),
            keypoints=tuple(press.name for press in presses),
            step_budget=len(plan) + 5,
            split=spec.split,
        )
        target = text if reads is None else f"{text} | {reads[1].rows[0]}"
        family = f"{spec.platform}/{spec.id}/{self._arrangement}"
        return Candidate(task, tuple(plan), family, target, reading, tuple(press.name for press in presses))


def _holds(clause: Clause, values: Mapping[str, Any]) -> bool:
    """Whether a clause holds for values or for the fields of a record; not, where more than one value would tell."""
    value = values.get(clause.name)
    if value is None or clause.reference or clause.op not in ("is", "not", "=", "!="):
        return False
    met = bool(value) if clause.op in ("is", "not") else str(value) == clause.value
    return met == (clause.op in ("is", "="))


def _narrowed(control: Control) -> bool:
    """Whether a list shows not all of the rows that its condition leaves."""
    return bool(control.filter or control.matches or control.limit)


def _titled(control: Control, row: dict[str, Any]) -> str:
    """What a row is called on the screen, where that is one of its fields as it is; else an empty text."""
    template = control.title or ("{title}" if row.get("title") else "{name}")
    name = template[1:-1]
    value = row.get(name, "") if template == f"{{{name}}}" else ""
    return value if isinstance(value, str) and '"' not in value else ""


def _sentence(spec: AppSpec, phrases: Sequence[str]) -> str:
    if spec.locale == "en":
        return f"In {spec.title}, {', then '.join(phrases)}."
    joined = "".join(itertools.chain([phrases[0]], (f"，然后{phrase}" for phrase in phrases[1:])))
    return f"请在“{spec.title}”里{joined}。"
