"""Cleaning: what adds nothing goes, errors that were mended stay.

A step or a few steps in a row may go only where they led nowhere: the screen after them is the screen before them and
so is the state, where it was recorded (trajectories from outside may have none). Of those go

- a wait;
- a scroll and the scroll back;
- an action that had no effect and is repeated word for word at once;
- a loop: a way out and back that was gone before, from the same place through the same places.

The first time, a way out and back is an error being mended, and it is kept: an agent has to learn to mend errors. Gone
a second time, nothing was learned from the first. So what separates the two is repetition alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assets.agent.actions import Action, action_from_row

_OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


def clean(episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The steps that are worth keeping, numbered anew, each with the history of what was kept before it.

    The steps kept lead from where the episode began to where it ended. Cleaning what is clean changes nothing.

    Args:
        episode: row of the episodes table.
        steps: its rows of the steps table, in order.
    """
    way = _Way.of(episode, steps)
    while found := _redundant(way):
        way = way.without(*found)
    cleaned: list[dict[str, Any]] = []
    for number, index in enumerate(way.kept):
        history = [str(step["response"]) for step in cleaned]
        cleaned.append({**steps[index], "index": number, "history": history})
    return cleaned


Place = tuple[str, str] | None
"""A screen and a state; None where the state moved between two steps, or the screen is not known."""


@dataclass(frozen=True)
class _Way:
    """The steps kept so far: their numbers, what each did, and the places before, between and after them."""

    kept: tuple[int, ...]
    acts: tuple[tuple[Action, ...], ...]
    places: tuple[Place, ...]

    @classmethod
    def of(cls, episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> _Way:
        screens = [step["screenshot"] for step in steps] + [episode["final_screenshot"]]
        before: list[str | None] = [step["state_before"] or "" for step in steps] + [None]
        after: list[str | None] = [None] + [step["state_after"] or "" for step in steps]
        return cls(
            kept=tuple(range(len(steps))),
            acts=tuple(tuple(map(action_from_row, step["actions"])) for step in steps),
            places=tuple(map(_place, screens, before, after)),
        )

    def without(self, start: int, stop: int) -> _Way:
        """The way without the steps from `start` up to `stop`, which led nowhere."""
        return _Way(
            self.kept[:start] + self.kept[stop:],
            self.acts[:start] + self.acts[stop:],
            self.places[:start] + self.places[stop:],
        )

    def leads_nowhere(self, start: int, stop: int) -> bool:
        """Whether the steps from `start` up to `stop` end where they began."""
        return stop <= len(self.kept) and self.places[start] is not None and self.places[start] == self.places[stop]

    def course(self, start: int, stop: int) -> tuple[object, ...]:
        """The places passed, and what kind of action led from each to the next."""
        return self.places[start:stop], tuple(tuple(act.name for act in acts) for acts in self.acts[start:stop])


def _place(screen: Mapping[str, Any] | None, before: str | None, after: str | None) -> Place:
    if screen is None or (before is not None and after is not None and before != after):
        return None
    state = before if before is not None else after
    return hashlib.sha256(screen["bytes"]).hexdigest(), state or ""


def _redundant(way: _Way) -> tuple[int, int] | None:
    """The first steps that can go, as a range; None if all are worth keeping."""
    for start, acts in enumerate(way.acts):
        if len(acts) == 1 and way.leads_nowhere(start, start + 1):
            again = start + 1 < len(way.acts) and way.acts[start + 1] == acts
            if acts[0].name == "Wait" or (again and acts[0].name != "Type"):
                return start, start + 1
        if way.leads_nowhere(start, start + 2) and _undoes(acts, way.acts[start + 1]):
            return start, start + 2
    return _loop(way)


def _loop(way: _Way) -> tuple[int, int] | None:
    """The first way out and back that was gone before, the shortest where several end at one place."""
    been: dict[Place, list[int]] = {}
    gone: set[tuple[object, ...]] = set()
    for stop, place in enumerate(way.places):
        for start in reversed(been.get(place, [])):
            passed = way.places[start:stop]
            if place is None or None in passed or all(other == place for other in passed):
                continue
            course = way.course(start, stop)
            if course in gone:
                return start, stop
            gone.add(course)
        been.setdefault(place, []).append(stop)
    return None


def _undoes(acts: Sequence[Action], others: Sequence[Action]) -> bool:
    if len(acts) != 1 or len(others) != 1:
        return False
    action, other = acts[0], others[0]
    if action.name == other.name == "Scroll":
        return _OPPOSITE.get(action.direction or "") == other.direction
    return action.name == other.name == "Swipe" and (action.point, action.end) == (other.end, other.point)
