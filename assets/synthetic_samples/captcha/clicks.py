"""Answers by clicking: places of the picture, in an order or as a set."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha.latent import Answer, Box, Facts, Gesture


@dataclass(frozen=True)
class Clicks:
    """Click the places named by `answer`, indices of `zones`.

    In an order, the last click puts the answer; as a set (`ordered` false), a second click takes a mark back, and the
    confirm button puts it.
    """

    zones: tuple[Box, ...]
    answer: tuple[int, ...]
    picture: tuple[int, int]
    ordered: bool = True
    script: str = "clicks.js"
    strip: int = 0

    @property
    def confirm(self) -> bool:
        """A set needs a button: only the person knows when it is complete."""
        return not self.ordered

    def rule(self) -> dict[str, Any]:
        """The zones to click, and all that can be marked."""
        return {
            "zones": [list(box) for box in self.zones],
            "answer": list(self.answer),
            "ordered": self.ordered,
            "picture": list(self.picture),
        }

    def controls(self, locale: Locale) -> str:
        """None: the picture itself is clicked."""
        return ""

    def solution(self) -> tuple[Gesture, ...]:
        """A click a place."""
        return tuple(Gesture("Click", (self.zones[index],)) for index in self.answer)

    def misses(self, rng: random.Random) -> list[tuple[Gesture, ...]]:
        """A click just outside its zone, one on another zone, two in the wrong order, one too few."""
        found = []
        clicks = list(self.solution())
        position = rng.randrange(len(clicks))
        beside = self._beside(rng, self.answer[position])
        others = [index for index in range(len(self.zones)) if index not in self.answer]
        if beside is not None:
            found.append([*clicks[:position], Gesture("Click", (beside,)), *clicks[position + 1 :]])
        if others:
            other = Gesture("Click", (self.zones[rng.choice(others)],))
            found.append([*clicks[:position], other, *clicks[position + 1 :]])
        if self.ordered and len(clicks) > 1:
            first = rng.randrange(len(clicks) - 1)
            found.append([*clicks[:first], clicks[first + 1], clicks[first], *clicks[first + 2 :]])
        if not self.ordered:
            found.append(clicks[:position] + clicks[position + 1 :])
        return [tuple(gestures) for gestures in found]

    def places(self) -> Sequence[Box]:
        """The zones."""
        return self.zones

    def _beside(self, rng: random.Random, index: int) -> Box | None:
        """A small place on the picture, 3 to 7 pixels off a zone and on no other."""
        x0, y0, x1, y1 = self.zones[index]
        middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
        sides = [(x1 + 5, middle_y), (x0 - 5, middle_y), (middle_x, y1 + 5), (middle_x, y0 - 5)]
        rng.shuffle(sides)
        for x, y in sides:
            box = (x - 2, y - 2, x + 2, y + 2)
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= self.picture[0] and box[3] <= self.picture[1]
            if inside and not any(z[0] < x + 2 and x - 2 < z[2] and z[1] < y + 2 and y - 2 < z[3] for z in self.zones):
                return box
        return None


def click_items(facts: Facts, answer: Answer) -> Clicks:
    """Click the items of `facts["items"]` that the answer names, in its order; `box` is an item's place."""
    return _clicks(facts, answer, ordered=True)


def mark_items(facts: Facts, answer: Answer) -> Clicks:
    """Mark the items that the answer names, in any order, and confirm."""
    return _clicks(facts, answer, ordered=False)


def _clicks(facts: Facts, answer: Answer, ordered: bool) -> Clicks:
    zones = tuple((box[0], box[1], box[2], box[3]) for box in (item["box"] for item in facts["items"]))
    return Clicks(zones, tuple(answer), (facts["size"][0], facts["size"][1]), ordered)
