"""A walk through an app: every screen and dialog that its spec names must be arrived at by real taps.

The walk starts where a reset leads to. From each view that it has reached it taps what can be tapped, fills the form if
that is not enough, scrolls if there is more below, and goes on from whatever new view a tap leads to. Going back to a
view, to try the next tap there, is not walked again: its snapshot is restored, which is exact (the probe has compared
pictures before). So for every screen that counts as reached there is a sequence of real inputs from the start, and
nothing but real inputs was ever needed to get there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from assets.agent.actions import Action, from_pixel
from assets.environments.session import Element, Session
from assets.environments.task import canonical_json

INPUT_KINDS = frozenset({"field", "search", "entry"})
"""Kinds of elements that take text."""

SCROLLS = 6
"""Most times that one view is scrolled on."""

Samples = Mapping[str, str]
"""Text that a field accepts, by the last part of its element's id."""


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


def walk(
    session: Session,
    named: Collection[str],
    leads: Collection[str],
    samples: Samples,
    size: tuple[int, int],
    most: int,
) -> Walk:
    """Walk from the session's present state until every named place is reached or `most` actions are taken.

    Args:
        named: the places to reach, as `places` tells them.
        leads: labels and ids of what leads somewhere, by the spec; they are tapped first.
        samples: what to type into fields that accept only some text.
        size: width and height of the screen, in pixels.
    """
    explorer = _Explorer(session, set(named), frozenset(leads), samples, size, most)
    explorer.run()
    return explorer.walk


class _Explorer:
    def __init__(
        self,
        session: Session,
        missing: set[str],
        leads: frozenset[str],
        samples: Samples,
        size: tuple[int, int],
        most: int,
    ) -> None:
        self.walk = Walk()
        self._session = session
        self._missing = missing
        self._leads = leads
        self._samples = samples
        self._size = size
        self._most = most
        self._views: set[str] = set()
        self._tapped: Counter[str] = Counter()
        self._queue: list[tuple[int, int, Any]] = []

    def run(self) -> None:
        self._arrive(self._session.state())
        while self._queue and not self._done:
            _, _, snapshot = heapq.heappop(self._queue)
            self._tap_everything(snapshot)
            if not self._done:
                self._fill(snapshot)

    @property
    def _done(self) -> bool:
        return not self._missing or self.walk.actions >= self._most

    def _arrive(self, state: Mapping[str, Any]) -> bool:
        """Note where the session is; a view seen for the first time waits for its turn. False if it was seen before."""
        new = [place for place in places(state) if place in self._missing]
        self._missing.difference_update(new)
        self.walk.reached += new
        view = state.get("view", {})
        key = canonical_json([places(state), [view.get(part) for part in _PARTS]])
        if key in self._views:
            return False
        self._views.add(key)
        self._wait(_NEW_VIEW)
        return True

    def _wait(self, rank: int) -> None:
        """Go on from the present state later."""
        heapq.heappush(self._queue, (rank, self.walk.actions, self._session.snapshot()))

    def _tap_everything(self, snapshot: Any) -> None:
        self._session.restore(snapshot)
        for before, elements in self._scrolled():
            here = self._session.snapshot()
            for element in sorted(elements, key=self._rank):
                if self._done:
                    return
                if element.kind in INPUT_KINDS:
                    continue
                self._tap(element)
                after = self._session.state()
                if after != before:
                    if not self._arrive(after) and places(after) == places(before):
                        self._wait(_CHANGED_VIEW)  # what was locked here may be open now
                    self._session.restore(here)

    def _fill(self, snapshot: Any) -> None:
        """Type something into every field of this view; what the form leads to is tried from there."""
        self._session.restore(snapshot)
        filled = False
        for _, elements in self._scrolled():
            for element in elements:
                if element.kind in INPUT_KINDS and self._tapped[element.id] == 0:
                    self._tap(element)
                    name = element.id.rpartition("/")[2]
                    self._act(Action("Type", content=self._samples.get(name, "12")))
                    filled = True
        if filled:
            self._arrive(self._session.state())
            self._wait(_FILLED_FORM)

    def _scrolled(self) -> Iterator[tuple[dict[str, Any], list[Element]]]:
        """The state and what is newly in sight: here, and after each scroll as long as that brings something up."""
        seen: set[str] = set()
        for _ in range(SCROLLS + 1):
            elements = self._session.elements()
            new = [element for element in elements if element.visible and element.id not in seen]
            if seen and not new:
                return
            seen.update(element.id for element in new)
            yield self._session.state(), new
            if self._done or all(element.visible for element in elements):
                return
            self._act(Action("Swipe", point=(500, 700), end=(500, 300)))

    def _rank(self, element: Element) -> tuple[int, bool]:
        leads = element.label in self._leads or not self._leads.isdisjoint(element.id.split("/"))
        return (self._tapped[element.id], not leads)

    def _tap(self, element: Element) -> None:
        self._tapped[element.id] += 1
        self._act(Action("Click", point=from_pixel(*element.center, *self._size)))

    def _act(self, action: Action) -> None:
        self.walk.actions += 1
        self._session.act(action)


_NEW_VIEW, _FILLED_FORM, _CHANGED_VIEW = range(3)
"""The order in which states wait."""

_PARTS = ("picker", "drawer", "asking")
"""What lies over a screen beside its dialog, in the view of a full app."""
