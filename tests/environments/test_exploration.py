"""The walk through an app, on a house with locked doors."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from assets.agent.actions import Action, to_pixel
from assets.environments.exploration import Hints, places, walk
from assets.environments.session import Element

SIZE = (100, 100)
ROOMS = ("start", "deep", "form", "sent", "vault", "dialog:menu")
HINTS = Hints(
    taps={label: frozenset({place}) for label, place in
          (("Deep", "deep"), ("Form", "form"), ("Send", "sent"), ("Vault", "vault"))},
    holds={"Row": frozenset({"menu", "dialog:menu"})},
    samples={"Name": "Ada"},
)  # fmt: skip


class House:
    """A session on a few rooms: each needs another kind of input, and restoring is the only way back."""

    def __init__(self) -> None:
        self.at: dict[str, Any] = {"screen": "start", "dialog": None, "scroll": 0}
        self.name, self.lock, self.focus = "", False, False
        self.inputs: list[str] = []

    def _controls(self) -> list[tuple[str, str]]:
        rooms = {
            "start": [("Form", "button"), ("Row", "row"), ("Lock", "switch"), ("Vault", "button"), ("Deep", "button")],
            "form": [("Name", "field"), ("Send", "button")],
        }
        return [] if self.at["dialog"] else rooms.get(self.at["screen"], [])

    def elements(self) -> list[Element]:
        shift = self.at["scroll"]
        found = []
        for index, (label, kind) in enumerate(self._controls()):
            top = 25.0 * index - shift
            found.append(Element(label, kind, (0, top, 100, top + 20), f"{self.at['screen']}/{label}", 0 <= top <= 80))
        return found

    def act(self, action: Action) -> None:
        self.inputs.append(action.name)
        if action.name == "Swipe":
            self.at["scroll"] = 25 if self.at["screen"] == "start" else 0
            return
        if action.name == "Type":
            self.name = (action.content or "") if self.focus else self.name
            return
        assert action.point is not None
        y = to_pixel(action.point, *SIZE)[1]
        hit = [e.label for e in self.elements() if e.visible and e.box[1] <= y < e.box[3]]
        label = hit[0] if hit else ""
        self.focus = label == "Name"
        if action.name == "LongPress" and label == "Row":
            self.at["dialog"] = "menu"
        if action.name != "Click":
            return
        if label == "Lock":
            self.lock = not self.lock
        allowed = {"Form": True, "Deep": True, "Send": self.name == "Ada", "Vault": self.lock}
        if allowed.get(label):
            rooms = {"Form": "form", "Deep": "deep", "Send": "sent", "Vault": "vault"}
            self.at = {"screen": rooms[label], "dialog": None, "scroll": 0}

    def state(self) -> dict[str, Any]:
        return {"view": dict(self.at), "name": self.name, "lock": self.lock, "focus": self.focus}

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy({**self.state(), "view": self.at})

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.at, self.name, self.lock = dict(snapshot["view"]), snapshot["name"], snapshot["lock"]
        self.focus = snapshot["focus"]


@pytest.mark.parametrize("hints", [HINTS, Hints(samples=HINTS.samples)])
def test_every_room_that_can_be_reached_is(hints: Hints) -> None:
    house = House()
    found = walk(house, ROOMS, hints, SIZE, 200)  # type: ignore[arg-type]
    # Without the spec's word nobody thinks of holding a row down.
    expected = set(ROOMS) if hints.holds else set(ROOMS) - {"dialog:menu"}
    assert set(found.reached) == expected
    assert found.reached[0] == "start"
    assert found.actions == len(house.inputs)


def test_hints_save_steps() -> None:
    guided, blind = (walk(House(), ("start", "deep"), hints, SIZE, 200).actions for hints in (HINTS, Hints()))  # type: ignore[arg-type]
    assert guided == 2 < blind


def test_a_walk_ends() -> None:
    found = walk(House(), (*ROOMS, "nowhere"), HINTS, SIZE, 30)  # type: ignore[arg-type]
    assert "nowhere" not in found.reached
    assert found.actions <= 31
    assert walk(House(), ("start",), HINTS, SIZE, 30).actions == 0  # type: ignore[arg-type]


def test_places_of_every_platform() -> None:
    assert places({"view": {"screen": "a", "dialog": "b"}}) == ["a", "dialog:b"]
    assert places({"view": {"screen": "a", "dialog": None}}) == ["a"]
    assert places({"open": "mail"}) == ["mail"]
    assert places({"open": ""}) == places({"page": "click-test"}) == []
