"""CAPTCHA puzzles: latent states that define the picture, the questions, the legal actions and the solutions.

A rule engine draws a latent state: items on the grid and the challenges that can be put about them. What a challenge
asks is data, so `solutions` works out every answer from the items alone; a puzzle is kept only when each of its
challenges has exactly one. All puzzles are self-drawn and imitate no vendor's.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from assets.agent.vocabulary import WORDS, Locale
from assets.errors import ParameterError
from assets.synthetic_samples.scenes import GRID, fits
from assets.synthetic_samples.templates import COLOURS, PUZZLES, SHAPES, THEN
from assets.synthetic_samples.themes import Split, Theme, themes_of

Box = tuple[int, int, int, int]
Axis = Literal["x", "y", "both"]

SMALLEST = 8 * GRID
"""Pixels that the part of the screen left for a puzzle must be wide and high."""

TOLERANCE = 8
"""Pixels by which a dragged part may miss its target on either side."""


@dataclass(frozen=True)
class Item:
    """A part of the picture, in pixels: its kind, its label, where it lies, its shape and the number of its colour.

    Kinds: `word`, `shape`, `tick`, `handle`, `piece`, `gap`, `track`, `slot`, and `bar`, `panel`, `picture` as ground.
    """

    kind: str
    label: str
    x: int
    y: int
    width: int
    height: int
    shape: str = ""
    fill: int = 0

    @property
    def box(self) -> Box:
        """(x0, y0, x1, y1)."""
        return (self.x, self.y, self.x + self.width, self.y + self.height)

    @property
    def centre(self) -> tuple[float, float]:
        """The middle."""
        return (self.x + self.width / 2, self.y + self.height / 2)


@dataclass(frozen=True)
class Drag:
    """The rule of a drag: the handle's centre follows the pointer along `axis`, kept `within` a box.

    It is solved when the pointer is released inside `zone` with the handle's centre within TOLERANCE of `target`.
    `piece`, if any, moves along with the handle.
    """

    handle: int
    piece: int | None
    axis: Axis
    within: tuple[float, float, float, float]
    zone: Box
    target: tuple[float, float]
    tolerance: int = TOLERANCE

    def end_box(self) -> tuple[float, float, float, float]:
        """Where to release: all points of the zone from which the handle lands within tolerance."""
        low, high = [], []
        for axis, name in enumerate("xy"):
            zone_low, zone_high = self.zone[axis], self.zone[axis + 2]
            least, most = self.target[axis] - self.tolerance, self.target[axis] + self.tolerance
            # The handle stops at the end of its way, however far beyond it the pointer is.
            free = self.axis in (name, "both")
            low.append(zone_low if not free or self.within[axis] >= least else max(zone_low, least))
            high.append(zone_high if not free or self.within[axis + 2] <= most else min(zone_high, most))
        return (low[0], low[1], high[0], high[1])


@dataclass(frozen=True)
class Challenge:
    """One question about the picture: what is asked, as data and in words, and the answer.

    Either `clicks`, the items to click in order, or `drag` is the answer.
    """

    ask: str
    terms: tuple[str, ...]
    instruction: str
    clicks: tuple[int, ...] = ()
    drag: Drag | None = None

    def items(self) -> tuple[int, ...]:
        """The items that the answer touches."""
        return self.clicks if self.drag is None else (self.drag.handle,)


@dataclass(frozen=True)
class Puzzle:
    """A latent state. `legal` names the actions that the page reacts to."""

    type: str
    family: str
    layout: str
    theme: Theme
    locale: Locale
    items: tuple[Item, ...]
    challenges: tuple[Challenge, ...]
    legal: tuple[str, ...]

    def latent(self) -> dict[str, Any]:
        """Everything that defines the puzzle, as JSON values."""
        return {**asdict(self), "theme": self.theme.name}


def draw_puzzle(rng: random.Random, type: str, split: Split, screen: tuple[int, int]) -> Puzzle:
    """A random puzzle of a type whose every challenge has exactly one answer.

    Raises:
        ParameterError: the screen is too small for it.
    """
    engine = ENGINES[type]
    for _ in range(100):
        theme = rng.choice(themes_of(split))
        locale: Locale = rng.choice(("en", "zh"))
        layout = rng.choice(LAYOUTS[split])
        draft = _Draft(rng, screen, locale, len(theme.fills))
        draft.lay_out(layout)
        if min(draft.area[2] - draft.area[0], draft.area[3] - draft.area[1]) < SMALLEST:
            break
        try:
            challenges = engine.draw(draft)
        except _NoRoom:
            continue
        puzzle = Puzzle(type, engine.family, layout, theme, locale, tuple(draft.items), tuple(challenges), engine.legal)
        if is_sound(puzzle, screen):
            return puzzle
    raise ParameterError(f"no {type} puzzle fits a screen of {screen[0]} x {screen[1]} pixels")


# --- solvability -----------------------------------------------------------------------------------------------------


def is_sound(puzzle: Puzzle, screen: tuple[int, int]) -> bool:
    """Whether all items lie on the screen, none to be clicked covers another, and each challenge has one answer."""
    width, height = screen
    if any(item.x < 0 or item.y < 0 or item.box[2] > width or item.box[3] > height for item in puzzle.items):
        return False
    free = [item for item in puzzle.items if item.kind in ("word", "shape", "tick", "handle")]
    if any(_overlap(one, other) for index, one in enumerate(free) for other in free[:index]):
        return False
    return all(_is_unique(puzzle, challenge) for challenge in puzzle.challenges)


def _is_unique(puzzle: Puzzle, challenge: Challenge) -> bool:
    if challenge.drag is None:
        return solutions(puzzle.items, challenge.ask, challenge.terms) == [challenge.clicks]
    drag = challenge.drag
    start, (x0, y0, x1, y1) = puzzle.items[drag.handle].centre, drag.within
    reachable = x0 <= drag.target[0] <= x1 and y0 <= drag.target[1] <= y1
    # A drag that ends where it began would solve itself.
    far = max(abs(start[0] - drag.target[0]), abs(start[1] - drag.target[1])) > 2 * drag.tolerance
    return reachable and far


def solutions(items: Sequence[Item], ask: str, terms: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Every sequence of clicks that answers what is asked, worked out from the items alone."""
    shapes = [(index, item) for index, item in enumerate(items) if item.kind == "shape"]
    match ask:
        case "click_order":
            found: list[tuple[int, ...]] = [()]
            for term in terms:
                having = [i for i, item in enumerate(items) if item.kind in ("word", "shape") and item.label == term]
                found = [(*before, index) for before in found for index in having]
            return found
        case "colour":
            return [(index,) for index, item in shapes if (str(item.fill), item.shape) == terms]
        case "largest" | "smallest":
            sizes = {index: item.width for index, item in shapes if item.shape == terms[0]}
            best = (max if ask == "largest" else min)(sizes.values(), default=0)
            return [(index,) for index, size in sizes.items() if size == best]
        case "different":
            looks = Counter((item.shape, item.fill) for _, item in shapes)
            return [(index,) for index, item in shapes if looks[item.shape, item.fill] == 1]
        case "tick":
            return [(index,) for index, item in enumerate(items) if item.kind == "tick"]
        case _:
            raise ValueError(f"no rule to solve '{ask}'")


def _overlap(one: Item, other: Item) -> bool:
    (a, b, c, d), (e, f, g, h) = one.box, other.box
    return a < g and e < c and b < h and f < d


# --- engines ---------------------------------------------------------------------------------------------------------

LAYOUTS: dict[Split, tuple[str, ...]] = {"train": ("plain", "header"), "heldout": ("footer", "card")}
"""Where the picture lies on the screen; held-out layouts never occur in training."""


class _NoRoom(Exception):
    """An item found no free place: the puzzle is drawn anew."""


@dataclass
class _Draft:
    """A latent state being drawn, back to front."""

    rng: random.Random
    screen: tuple[int, int]
    locale: Locale
    fills: int
    items: list[Item] = field(default_factory=list)
    area: Box = (0, 0, 0, 0)

    def lay_out(self, layout: str) -> None:
        """The ground; sets `area`, the part of the screen left for the puzzle."""
        width, height = self.screen
        if layout == "header":
            self.items.append(Item("bar", "", 0, 0, width, 2 * GRID))
            self.area = (0, 2 * GRID, width, height)
        elif layout == "footer":
            self.items.append(Item("bar", "", 0, height - 2 * GRID, width, 2 * GRID))
            self.area = (0, 0, width, height - 2 * GRID)
        elif layout == "card":
            self.items.append(Item("panel", "", GRID, GRID, width - 2 * GRID, height - 2 * GRID))
            self.area = (GRID, GRID, width - GRID, height - GRID)
        else:
            self.area = (0, 0, width, height)

    def fill(self) -> int:
        return self.rng.randrange(self.fills)

    def place(self, kind: str, label: str, width: int, height: int, shape: str = "", fill: int | None = None) -> int:
        """Put an item on a free place of the grid; returns its index."""
        x0, y0, x1, y1 = self.area
        fill = self.fill() if fill is None else fill
        for _ in range(40):
            x = x0 + GRID * self.rng.randint(0, (x1 - x0 - width) // GRID)
            y = y0 + GRID * self.rng.randint(0, (y1 - y0 - height) // GRID)
            item = Item(kind, label, x, y, width, height, shape, fill)
            if not any(_overlap(item, other) for other in self.items if other.kind not in ("bar", "panel")):
                return self.put(item)
        raise _NoRoom

    def put(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1

    def say(self, ask: str, **terms: str) -> str:
        return PUZZLES[ask][self.locale].format(**terms)

    def in_order(self, labels: Sequence[str], names: Sequence[str]) -> list[Challenge]:
        """Challenges to click two or three of the labelled items in an order, each a different one."""
        indices = {item.label: index for index, item in enumerate(self.items) if item.label in labels}
        asked: dict[tuple[str, ...], Challenge] = {}
        for _ in range(CHALLENGES):
            chosen = self.rng.sample(range(len(labels)), self.rng.choice((2, 2, 3)))
            terms = tuple(labels[index] for index in chosen)
            things = THEN[self.locale].join(names[index] for index in chosen)
            clicks = tuple(indices[term] for term in terms)
            asked[terms] = Challenge("click_order", terms, self.say("click_order", things=things), clicks)
        return list(asked.values())


CHALLENGES = 4
"""Questions about one picture, where a picture allows several."""


def _text_click_order(draft: _Draft) -> list[Challenge]:
    labels = draft.rng.sample(WORDS[draft.locale], draft.rng.randint(4, 5))
    for label in labels:
        draft.place("word", label, 64 if fits(label, 64) else 80, 32)
    return draft.in_order(labels, labels)


def _icon_click_order(draft: _Draft) -> list[Challenge]:
    shapes = draft.rng.sample(sorted(SHAPES), draft.rng.randint(4, 5))
    for shape in shapes:
        draft.place("shape", shape, 32, 32, shape)
    return draft.in_order(shapes, [SHAPES[shape][draft.locale] for shape in shapes])


def _colour_click(draft: _Draft) -> list[Challenge]:
    looks = [(shape, fill) for shape in sorted(SHAPES) for fill in range(len(COLOURS))]
    chosen = draft.rng.sample(looks, 5)
    challenges = []
    for shape, fill in chosen:
        index = draft.place("shape", shape, 32, 32, shape, fill)
        words = {"colour": COLOURS[fill][draft.locale], "shape": SHAPES[shape][draft.locale]}
        challenges.append(Challenge("colour", (str(fill), shape), draft.say("colour", **words), (index,)))
    return challenges[:CHALLENGES]


def _size_click(draft: _Draft) -> list[Challenge]:
    challenges = []
    for shape in draft.rng.sample(sorted(SHAPES), 2):
        small, large = (draft.place("shape", shape, size, size, shape) for size in (24, 48))
        draft.place("shape", shape, 32, 32, shape)
        name = SHAPES[shape][draft.locale]
        challenges.append(Challenge("smallest", (shape,), draft.say("smallest", shape=name), (small,)))
        challenges.append(Challenge("largest", (shape,), draft.say("largest", shape=name), (large,)))
    return challenges


def _different_click(draft: _Draft) -> list[Challenge]:
    same, other = draft.rng.sample(sorted(SHAPES), 2)
    fill = draft.fill()
    for _ in range(draft.rng.randint(4, 6)):
        draft.place("shape", same, 32, 32, same, fill)
    index = draft.place("shape", other, 32, 32, other, fill)
    return [Challenge("different", (), draft.say("different"), (index,))]


def _one_click(draft: _Draft) -> list[Challenge]:
    index = draft.place("tick", "box", 32, 32)
    for label in draft.rng.sample(WORDS[draft.locale], 2):
        draft.place("word", label, 64 if fits(label, 64) else 80, 32)
    return [Challenge("tick", (), draft.say("tick"), (index,))]


def _slider_puzzle(draft: _Draft) -> list[Challenge]:
    x0, y0, x1, y1 = draft.area
    side, width = 2 * GRID, x1 - x0
    draft.put(Item("picture", "", x0, y0, width, y1 - y0 - 3 * GRID, fill=draft.fill()))
    gap_x = x0 + GRID * draft.rng.randint(3, (width - side) // GRID)
    gap_y = y0 + GRID * draft.rng.randint(0, (y1 - y0 - 3 * GRID - side) // GRID)
    fill = draft.fill()
    draft.put(Item("gap", "gap", gap_x, gap_y, side, side))
    piece = draft.put(Item("piece", "", x0, gap_y, side, side, fill=fill))
    track = Item("track", "", x0, y1 - side, width, side)
    draft.put(track)
    handle = draft.put(Item("handle", "slider", x0, y1 - side, side, side, fill=fill))
    half = side / 2
    within = (x0 + half, track.centre[1], x1 - half, track.centre[1])
    drag = Drag(handle, piece, "x", within, track.box, (gap_x + half, track.centre[1]))
    return [Challenge("slide_to_gap", (), draft.say("slide_to_gap"), drag=drag)]


def _drag_to_end(draft: _Draft) -> list[Challenge]:
    x0, y0, x1, y1 = draft.area
    side, upright, backwards = 2 * GRID, draft.rng.random() < 0.4, draft.rng.random() < 0.4
    space = (y1 - y0 if upright else x1 - x0) // GRID
    length = GRID * draft.rng.randint(7, space)
    size = (side, length) if upright else (length, side)
    track = draft.items[draft.place("track", "", *size)]
    near, far = (track.x, track.y), (track.box[2] - side, track.box[3] - side)
    if backwards:
        near, far = far, near
    draft.put(Item("slot", "end", *far, side, side))
    handle = draft.put(Item("handle", "slider", *near, side, side, fill=draft.fill()))
    half = side / 2
    within = (track.x + half, track.y + half, track.box[2] - half, track.box[3] - half)
    axis: Axis = "y" if upright else "x"
    drag = Drag(handle, None, axis, within, track.box, (far[0] + half, far[1] + half))
    return [Challenge("slide_to_end", (), draft.say("slide_to_end"), drag=drag)]


def _drag_to_slot(draft: _Draft) -> list[Challenge]:
    slot = draft.items[draft.place("slot", "box", 48, 48)]
    challenges = []
    x0, y0, x1, y1 = draft.area
    for shape in draft.rng.sample(sorted(SHAPES), 3):
        index = draft.place("shape", shape, 32, 32, shape)
        drag = Drag(index, None, "both", (x0 + 16, y0 + 16, x1 - 16, y1 - 16), slot.box, slot.centre, 16)
        name = SHAPES[shape][draft.locale]
        challenges.append(Challenge("drop", (shape,), draft.say("drop", shape=name), drag=drag))
    return challenges


@dataclass(frozen=True)
class Engine:
    """A type of puzzle: the interaction family it belongs to, how it is drawn, and the actions its page reacts to."""

    family: str
    draw: Callable[[_Draft], list[Challenge]]
    legal: tuple[str, ...]


ENGINES: dict[str, Engine] = {
    "text_click_order": Engine("text click order", _text_click_order, ("Click",)),
    "icon_click_order": Engine("icon click order", _icon_click_order, ("Click",)),
    "colour_click": Engine("visual reasoning", _colour_click, ("Click",)),
    "size_click": Engine("visual reasoning", _size_click, ("Click",)),
    "different_click": Engine("visual reasoning", _different_click, ("Click",)),
    "one_click": Engine("one-click verification", _one_click, ("Click",)),
    "slider_puzzle": Engine("slider puzzle", _slider_puzzle, ("Drag",)),
    "drag_to_end": Engine("drag to end", _drag_to_end, ("Drag",)),
    "drag_to_slot": Engine("drag to end", _drag_to_slot, ("Drag",)),
}
"""The types of puzzle, by name."""
