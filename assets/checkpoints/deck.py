"""Dealing training data: shuffled epoch after epoch, and a function of the step's number alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from assets.stage import Stage

T = TypeVar("T")


class Deck(Generic[T]):
    """Deals items in a shuffled order; when all are dealt, in another one. What a place holds depends on the stage's
    seed and the place alone, so that a run that was killed goes on with the same items."""

    def __init__(self, stage: Stage[Any], name: str, items: Sequence[T]) -> None:
        self._items = items

        @lru_cache(maxsize=2)
        def order(epoch: int) -> list[int]:
            return stage.rng("deck", name, epoch).sample(range(len(items)), len(items))

        self._order = order

    def deal(self, start: int, count: int) -> list[T]:
        """The items at places `start` to `start + count` of the endless order."""
        dealt = []
        for place in range(start, start + count):
            epoch, index = divmod(place, len(self._items))
            dealt.append(self._items[self._order(epoch)[index]])
        return dealt


def share_out(step: int, count: int, weights: Sequence[float]) -> list[tuple[int, int]]:
    """Split `count` places a step by weights: `(start, count)` a weight, in the endless order of each deck.

    Fractions carry over, so that over many steps each weight gets its share; every step hands out `count` or, by
    rounding, a few more or less.
    """
    total = sum(weights)
    shares = []
    for weight in weights:
        start = int(step * count * weight / total + 1e-9)
        shares.append((start, int((step + 1) * count * weight / total + 1e-9) - start))
    return shares
