"""Does a response do what the verified step did? Pure functions: text and geometry in, a `Match` out.

Shared by rewards (graded parts), held-out step accuracy (`correct`) and the routing of distillation weights
(`type` and `correct`). A response that the parser refuses matches nothing. The parser forgives missing tags and text
around them, since what is meant is clear; `format` does not, and rewards count only what has the format.

What counts, by action (METHOD.md, "Offline RL"):

- a point: inside the verified box; without a box, graded by the distance to the verified point;
- a swipe or drag: start and end as points, and for a swipe the direction; on the web the direction is enough;
- text: token F1 for the graded part, equality after normalisation for `correct`;
- the refusal (-1,-1): exactly the refusal;
- several actions in one turn (CAPTCHA): compared in order, position by position.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assets.agent.actions import REFUSAL, Action, ActionError, Point, to_pixel
from assets.agent.grammar import parse_response

Box = Sequence[float]
"""`[x0, y0, x1, y1]` in pixels of the screenshot, half-open; empty where no box is known."""

SCREEN_DISTANCE = 0.14
"""How far, as a part of the screen, a point may be from a verified point that has no box (AITW, arXiv:2307.10088)."""

_SWIPES = ("Swipe", "Scroll")
_FORMAT = re.compile(
    r"\s*(<think>((?!</?(think|action)>).)*</think>)?\s*<action>((?!</?(think|action)>).)*</action>\s*", re.DOTALL
)


@dataclass(frozen=True)
class Match:
    """How much of the verified step a response repeats.

    Attributes:
        format: the parser accepts the response, and it is a thought or none, then `<action>…</action>`, and no more.
        type: share of positions whose action has the right name.
        coordinate: share of the coordinates and directions that are right, 0 for a wrong type or where there are none.
        content: token F1 of the text (1 or 0 for keys and indices), 0 for a wrong type or where there is none.
        correct: the response is the verified step.
    """

    format: bool
    type: float
    coordinate: float
    content: float
    correct: bool


UNREADABLE = Match(format=False, type=0.0, coordinate=0.0, content=0.0, correct=False)


def match_step(
    response: str,
    gold: Sequence[Action],
    boxes: Sequence[Box],
    width: int,
    height: int,
    platform: str | None = None,
    distance: float = SCREEN_DISTANCE,
) -> Match:
    """Compare the text of a response with the verified actions of a step.

    Args:
        boxes: a box for each coordinate of the actions in order (refusals may be left out), or none at all.
        width: of the screenshot, in pixels; so is `height`.
        distance: see SCREEN_DISTANCE.

    Raises:
        ValueError: the number of boxes fits neither all coordinates nor those that are on the screen.
    """
    try:
        given = parse_response(response, platform).actions
    except ActionError:
        return UNREADABLE
    match = match_actions(given, gold, boxes, width, height, platform, distance)
    return match if _FORMAT.fullmatch(response) else replace(match, format=False)


def match_actions(
    given: Sequence[Action],
    gold: Sequence[Action],
    boxes: Sequence[Box],
    width: int,
    height: int,
    platform: str | None = None,
    distance: float = SCREEN_DISTANCE,
) -> Match:
    """Compare parsed actions with the verified ones; see `match_step`."""
    screen = _Screen(width, height, platform, distance)
    parts = [
        _match_action(given[position] if position < len(given) else None, action, targets, screen)
        for position, (action, targets) in enumerate(zip(gold, _targets(gold, boxes), strict=True))
    ]
    return Match(
        format=True,
        type=sum(part.type for part in parts) / max(len(given), len(gold), 1),
        coordinate=_mean([part.coordinate for part in parts if part.coordinate is not None]),
        content=_mean([part.content for part in parts if part.content is not None]),
        correct=len(given) == len(gold) and all(part.correct for part in parts),
    )


def token_f1(given: str, gold: str) -> float:
    """Harmonic mean of precision and recall over tokens as multisets; a Chinese character is a token of its own."""
    a, b = Counter(_tokens(given)), Counter(_tokens(gold))
    if not a or not b:
        return float(a == b)
    shared = (a & b).total()
    return 2 * shared / (a.total() + b.total())


def same_text(given: str, gold: str) -> bool:
    """Equal but for Unicode form, letter case and white space."""
    return _normalise(given) == _normalise(gold)


def swipe_direction(start: Point, end: Point, width: int, height: int) -> str | None:
    """The way the finger moves in pixels, `up|down|left|right` by the longer axis; None when it doesn't move."""
    (x0, y0), (x1, y1) = to_pixel(start, width, height), to_pixel(end, width, height)
    dx, dy = x1 - x0, y1 - y0
    if dx == dy == 0:
        return None
    if abs(dx) > abs(dy):
        return "right" if dx > 0 else "left"
    return "down" if dy > 0 else "up"


# --- one action ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Screen:
    width: int
    height: int
    platform: str | None
    distance: float


@dataclass(frozen=True)
class _Part:
    """One position; None for what the verified action does not have."""

    type: float
    coordinate: float | None
    content: float | None
    correct: bool


def _match_action(given: Action | None, gold: Action, targets: Sequence[Box], screen: _Screen) -> _Part:
    places = bool(gold.points()) or gold.direction is not None
    writes = bool(gold.content) or bool(gold.keys) or gold.index is not None
    if given is None or given.name != gold.name:
        return _Part(0.0, 0.0 if places else None, 0.0 if writes else None, False)
    coordinate, placed = _match_places(given, gold, targets, screen) if places else (None, True)
    content, written = _match_content(given, gold) if writes else (None, True)
    return _Part(1.0, coordinate, content, placed and written)


def _match_places(given: Action, gold: Action, targets: Sequence[Box], screen: _Screen) -> tuple[float, bool]:
    """Graded part and whether all of it is right."""
    scores: list[float] = []
    right: list[bool] = []
    if gold.name in _SWIPES:
        same = _direction(given, screen) == _direction(gold, screen)
        if screen.platform == "web":
            return float(same), same
        scores.append(float(same))
        right.append(same)
    answers = given.points()
    for position, (point, box) in enumerate(zip(gold.points(), targets, strict=True)):
        score, hit = _match_point(answers[position], point, box, screen) if position < len(answers) else (0.0, False)
        scores.append(score)
        right.append(hit)
    return _mean(scores), all(right)


def _direction(action: Action, screen: _Screen) -> str | None:
    if action.direction is not None:
        return action.direction
    if action.point is None or action.end is None:
        return None
    return swipe_direction(action.point, action.end, screen.width, screen.height)


def _match_point(given: Point, gold: Point, box: Box, screen: _Screen) -> tuple[float, bool]:
    if REFUSAL in (given, gold):
        return float(given == gold), given == gold
    if len(box):
        x, y = to_pixel(given, screen.width, screen.height)
        inside = box[0] <= x < box[2] and box[1] <= y < box[3]
        return float(inside), inside
    apart = math.hypot(given[0] - gold[0], given[1] - gold[1]) / 1000
    return max(0.0, 1 - apart / screen.distance), apart <= screen.distance


def _match_content(given: Action, gold: Action) -> tuple[float, bool]:
    if gold.keys:
        same = frozenset(map(str.lower, given.keys)) == frozenset(map(str.lower, gold.keys))
        return float(same), same
    if gold.index is not None:
        return float(given.index == gold.index), given.index == gold.index
    wanted, written = gold.content or "", given.content or ""
    return token_f1(written, wanted), same_text(written, wanted)


def _targets(gold: Sequence[Action], boxes: Sequence[Box]) -> list[list[Box]]:
    """The box of every coordinate, action by action; `[]` where there is none."""
    points = [point for action in gold for point in action.points()]
    on_screen = [point for point in points if point != REFUSAL]
    if len(boxes) == len(points):
        known = iter(boxes)
        return [[next(known) for _ in action.points()] for action in gold]
    if len(boxes) not in (0, len(on_screen)):
        raise ValueError(f"{len(boxes)} boxes for {len(points)} coordinates, {len(on_screen)} of them on the screen")
    known = iter(boxes)
    return [[[] if point == REFUSAL else next(known, []) for point in action.points()] for action in gold]


# --- text ------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"[぀-ヿ㐀-鿿豈-﫿]|[^\W_぀-ヿ㐀-鿿豈-﫿]+|[^\w\s]|_")
"""A kana or Chinese character, a word or number, or one other visible character."""


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_normalise(text))


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
