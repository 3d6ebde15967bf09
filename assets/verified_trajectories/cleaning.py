"""Cleaning: what adds nothing goes, errors that were mended stay.

Dropped are waits during which nothing changed, a scroll and the scroll back, and an action repeated word for word
because the first had no effect. A wrong step and its undoing are a recoverable error: they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assets.agent.actions import action_from_row

_OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


def clean(episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The steps that are worth keeping, numbered anew, each with the history of what was kept before it.

    Args:
        steps: rows of the steps table, in order.
    """
    kept = list(range(len(steps)))
    position = 0
    while position < len(kept):
        drop = _redundant(episode, steps, kept, position)
        if drop:
            del kept[position : position + drop]
            position = max(position - 1, 0)
        else:
            position += 1
    cleaned: list[dict[str, Any]] = []
    for number, index in enumerate(kept):
        history = [str(step["response"]) for step in cleaned]
        cleaned.append({**steps[index], "index": number, "history": history})
    return cleaned


def _redundant(
    episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], kept: Sequence[int], position: int
) -> int:
    """How many steps from `position` on can go: 0, 1 or, for there and back, 2."""

    def screen(place: int) -> bytes | None:
        if place < len(kept):
            return bytes(steps[kept[place]]["screenshot"]["bytes"])
        final = episode["final_screenshot"]
        return None if final is None else bytes(final["bytes"])

    actions = [action_from_row(row) for row in steps[kept[position]]["actions"]]
    if len(actions) != 1:
        return 0
    still = screen(position) == screen(position + 1)
    if actions[0].name == "Wait" and still:
        return 1
    if position + 1 == len(kept):
        return 0
    following = [action_from_row(row) for row in steps[kept[position + 1]]["actions"]]
    if still and following == actions and actions[0].name != "Type":
        return 1
    back = len(following) == 1 and _undoes(actions[0], following[0]) and screen(position) == screen(position + 2)
    return 2 if back else 0


def _undoes(action: Any, other: Any) -> bool:
    if action.name == other.name == "Scroll":
        return _OPPOSITE.get(action.direction or "") == other.direction
    return action.name == other.name == "Swipe" and (action.point, action.end) == (other.end, other.point)
