"""A walk through an app: every screen and dialog that its spec names must be arrived at by real taps.

The walk starts where a reset leads to. From each view that it has reached it presses what the spec says leads on, fills
the form if that is not enough, then presses everything else, scrolls if there is more below, and goes on from whatever
new view that leads to. Going back to a view, to try the next press there, is not walked again: its snapshot is
restored, which is exact (the probe has compared pictures before). So for every screen that counts as reached there is a
sequence of real inputs from the start, and nothing but real inputs was ever needed to get there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from assets.agent.actions import Action, from_pixel
from assets.environments.session import Element, Session, free_point
from assets.environments.task import canonical_json

INPUT_KINDS = frozenset({"field", "search", "entry"})
"""Kinds of elements that take text."""

FORM_KINDS = INPUT_KINDS | {"checkbox"}
"""Kinds of elements that a form is filled in by."""

TRIES = 2
"""Times that an element is pressed because a place that is missing lies somewhere behind the one it leads to."""

SCROLLS = 6
"""Most times that one view is scrolled on."""


@dataclass(frozen=True)
class Hints:
    """What a spec says about the way, so that a walk need not try everything.

    Attributes:
        taps: the places that a tap may lead to, by label and by each part of the id of what is tapped.
        holds: the same for long presses.
        samples: what a field takes that does not take anything, by the last part of its id.
        ways: place -> the places that something on it may lead to.
    """

    taps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    holds: Mapping[str, frozenset[str]] = field(default_factory=dict)
    samples: Mapping[str, str] = field(default_factory=dict)
    ways: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass
class Walk:
    """What a walk found: the named places it reached, in order, and the actions it took."""

    reached: list[str] = field(default_factory=list)
    actions: int = 0


def places(state: Mapping[str, Any]) -> list[str]:
    """The named places that a state shows: a screen and `dialog:<name>`, or a window of a desktop application."""
    view = state.get("view")
    if view is None:
        return [state["open"]] if state.get("open") else []
    return [view["screen"], *([f"dialog:{view['dialog']}"] if view.get("dialog") else [])]


def walk(session: Session, named: Collection[str], hints: Hints, size: tuple[int, int], most: int) -> Walk:
    """Walk from the session's present state until every named place is reached or `most` actions are taken.

    Args:
        named: the places to reach, as `places` tells them.
        size: width and height of the screen, in pixels.
    """
    explorer = _Explorer(session, set(named), hints, size, most)
    explorer.run()
    return explorer.walk


@dataclass(frozen=True)
class _Moment:
    """A moment that the walk comes back to: the session's snapshot, and its state, which is not read again."""

    snapshot: Any
    state: dict[str, Any]


class _Explorer:
    def __init__(self, session: Session, missing: set[str], hints: Hints, size: tuple[int, int], most: int) -> None:
        self.walk = Walk()
        self._session = session
        self._missing = missing
        self._hints = hints
        self._size = size
        self._most = most
        self._views: set[str] = set()
        self._pressed: Counter[str] = Counter()
        self._tries: Counter[str] = Counter()
        self._later: list[tuple[int, int, _Moment]] = []
        self._planned = 0
        self._left: Any = None

    def run(self) -> None:
        state = self._session.state()
        if self._arrive(state):
            self._go_on(self._moment(state))
        while self._later and not self._done:
            job, _, start = heapq.heappop(self._later)
            self._session.restore(start.snapshot)
            if job == _FILL:
                self._fill(start)
            elif job == _SENT:
                self._tries.clear()
                self._go_on(start)
            elif job == _CHANGED:
                self._go_on(start)
            else:
                self._press_all(start, lambda element: not self._leads(element))

    @property
    def _done(self) -> bool:
        return not self._missing or self.walk.actions >= self._most

    def _arrive(self, state: Mapping[str, Any]) -> bool:
        """Note where the session is. True if nothing was tried in this view yet."""
        new = [place for place in places(state) if place in self._missing]
        self._missing.difference_update(new)
        self.walk.reached += new
        view = state.get("view", {})
        key = canonical_json([places(state), [view.get(part) for part in _PARTS]])
        fresh = key not in self._views
        self._views.add(key)
        return fresh

    def _moment(self, state: dict[str, Any]) -> _Moment:
        """The present one, whose state was just read."""
        return _Moment(self._session.snapshot(), state)

    def _go_on(self, start: _Moment) -> None:
        """From here, press what leads on, and so from wherever that leads; the rest of this view is for later."""
        if self._done:
            return
        self._press_all(start, self._leads)
        self._plan(_FILL, start)
        self._plan(_REST, start)

    def _plan(self, job: int, start: _Moment) -> None:
        self._planned += 1
        heapq.heappush(self._later, (job, self._planned, start))

    def _press_all(self, start: _Moment, wanted: Callable[[Element], bool]) -> None:
        """Press what is wanted of this view. Stays wherever the last press led to."""
        for here, elements in self._scrolled(start, wanted):
            before = here.state
            for element in sorted(elements, key=lambda element: self._pressed[element.id]):
                if self._done:
                    return
                if element.kind in INPUT_KINDS or not wanted(element):
                    continue
                self._return()
                self._press("LongPress" if self._may_reach(element, self._hints.holds) else "Click", element, elements)
                after = self._session.state()
                if after == before:
                    continue
                stayed = places(after) == places(before)
                changed = _data(after) != _data(before) and self._pressed[element.id] == 1
                if changed:
                    self._tries.clear()  # what led nowhere may lead on now: a list may have another row
                leads_on = self._arrive(after) or self._is_new(after, before)
                if changed or leads_on or stayed:
                    there = self._moment(after)
                    if changed:
                        self._plan(_CHANGED if stayed else _SENT, there)
                    if leads_on:
                        self._go_on(there)
                    elif stayed:  # what was locked here may be open now
                        self._plan(_CHANGED, there)
                self._left = here.snapshot

    def _fill(self, start: _Moment) -> None:
        """Type something into every field of this view, tick what is to be ticked, and go on from there."""
        filled = False
        for _, elements in self._scrolled(start, lambda element: element.kind in FORM_KINDS):
            for element in elements:
                if element.kind not in FORM_KINDS or self._pressed[element.id]:
                    continue
                self._press("Click", element, elements)
                if element.kind in INPUT_KINDS:
                    name = element.id.rpartition("/")[2]
                    self._act(Action("Type", content=self._hints.samples.get(name, "12")))
                filled = True
        if filled:
            state = self._session.state()
            self._arrive(state)
            filled_in = self._moment(state)
            self._go_on(filled_in)
            if not self._done:  # a form is sent by one of its buttons
                self._session.restore(filled_in.snapshot)
                self._press_all(filled_in, lambda element: element.kind == "button" and not self._leads(element))

    def _scrolled(self, start: _Moment, wanted: Callable[[Element], bool]) -> Iterator[tuple[_Moment, list[Element]]]:
        """The moment and what is newly in sight: here, and after each scroll as long as more is wanted below."""
        self._left = None
        seen: set[str] = set()
        here = start
        for _ in range(SCROLLS + 1):
            elements = self._session.elements()
            new = [element for element in elements if element.visible and element.id not in seen]
            if seen and not new:
                return
            seen.update(element.id for element in new)
            yield here, new
            if self._done or not any(wanted(element) for element in elements if element.id not in seen):
                return
            self._return()
            self._act(Action("Swipe", point=(500, 700), end=(500, 300)))
            here = self._moment(self._session.state())

    def _return(self) -> None:
        """Back to the view that the last press left, if it left one."""
        if self._left is not None:
            self._session.restore(self._left)
            self._left = None

    def _leads(self, element: Element) -> bool:
        """Whether the spec says that this may lead to a place that is missing."""
        return self._may_reach(element, self._hints.taps) or self._may_reach(element, self._hints.holds)

    def _is_new(self, after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
        """Whether a view that is known shows something that leads on: another row's page may have another button."""
        if places(after) == places(before):
            return False
        return any(self._leads(element) and not self._pressed[element.id] for element in self._session.elements())

    def _may_reach(self, element: Element, hints: Mapping[str, frozenset[str]]) -> bool:
        names = (element.label, *element.id.split("/")[1:])  # the first part is the place where it stands
        places_of = [place for name in names if name in hints for place in hints[name]]
        if not self._missing.isdisjoint(places_of):
            return True
        # What leads to where something may lead on is worth a few tries: each row has a page of its own.
        return self._tries[element.id] < TRIES and not self._gates.isdisjoint(places_of)

    @property
    def _gates(self) -> set[str]:
        """The places from which the spec has a way to one that is missing."""
        gates: set[str] = set()
        while True:
            behind = gates | self._missing
            more = {place for place, ways in self._hints.ways.items() if not behind.isdisjoint(ways)}
            if more <= gates:
                return gates
            gates |= more

    def _press(self, press: str, element: Element, elements: Iterable[Element]) -> None:
        self._pressed[element.id] += 1
        self._tries[element.id] += 1
        self._act(Action(press, point=from_pixel(*free_point(element, elements), *self._size)))

    def _act(self, action: Action) -> None:
        self.walk.actions += 1
        self._session.act(action)


def _data(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what is in view."""
    return {name: part for name, part in state.items() if name != "view"}


_FILL, _SENT, _CHANGED, _REST = range(4)
"""What is done later, in this order: fill in a form, go on from where a press led that changed data too, as sending a
form does, go on from a view that a press changed, press all else."""

_PARTS = ("picker", "drawer", "asking")
"""What lies over a screen beside its dialog, in the view of a full app."""
