"""Full-scale CAPTCHA puzzles: latent states, and what must hold of one before it is rendered.

A type of puzzle is a `PuzzleType`, listed in the `TYPES` of its family's file, in five parts:

    draw(draft)                 -> (facts, answer): a random latent state, and what its author takes for the answer
    solutions(facts)            -> every answer that the facts allow, found by search: `draw` is not asked
    paint(canvas, facts)        -> the picture as SVG (no outer `<svg>`), from the facts and a theme alone
    interaction(facts, answer)  -> how it is answered: what is clicked, dragged or typed, and where
    load(facts)                 -> how hard it is, as a number that grows with the difficulty 1..5

Facts and answers are JSON values. Coordinates are pixels of the *frame*: the picture, `draft.width` x `draft.height`
with its upper left corner at (0, 0), and below it the controls that the interaction brings along. `facts["terms"]`,
where it is there, fills the `{fields}` of the instruction, in the locale of the draft; `facts["size"]`, the width and
height of the picture, is put in by `draw_puzzle`. Where the wording has to differ between states, a field holds it.

An `Interaction` is a frozen dataclass with the members that its Protocol names. It comes with a script, a file of this
folder that sets `captcha.mechanics.NAME = (frame, rule, answer) => check`: `frame` is the element, `rule` is what
`Interaction.rule` gave, and `answer(right)` puts the verdict, once. A mechanic with a confirm button returns `check`,
which says whether the answer is right when the button is pressed. `Clicks` in clicks.py is the model.

`draw_puzzle` draws until a state is sound: its facts allow exactly one answer, and every gesture lies in the frame, is
large enough for 0-999 coordinates, and touches no other's place. Texts, icons and themes come from the draft, which
knows those of its split: held-out ones never occur in training. `NoRoom` in `draw` asks for another try.

The page (page.py, page.js) puts a puzzle and answers as a page does: accepted, or rejected and renewed with the puzzle
of the next seed, or renewed on request; session.py plays it with real input. A new family is a module in
`types._FAMILIES`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import as_file, files
from typing import Any, Literal, Protocol

from assets.agent.actions import Action
from assets.agent.vocabulary import Locale
from assets.errors import ParameterError
from assets.stage import load_yaml
from assets.synthetic_samples.captcha.settings import Setting
from assets.synthetic_samples.captcha.words import ICON_NAMES, WORDS
from assets.synthetic_samples.tables import centre_point
from assets.synthetic_samples.themes import Split, Theme

Box = tuple[float, float, float, float]
"""(x0, y0, x1, y1) in pixels of the frame, half-open."""

Facts = dict[str, Any]
Answer = Any
"""JSON values."""

Family = Literal[
    "OCR text entry",
    "text click order",
    "icon click order",
    "rotation",
    "drag to end",
    "slider puzzle",
    "visual reasoning",
    "one-click verification",
]

SMALLEST_SIDE = 8
"""Pixels that the place of a gesture must be wide and high."""
TRIES = 400
"""States that are drawn until one is sound; a type that needs more than a few is slow."""


class NoRoom(Exception):
    """The draft found no place for something, or no state of the wanted kind: the puzzle is drawn anew."""


@dataclass(frozen=True)
class Gesture:
    """One action of a solution: every point of each box is as good as any other. `content` is what a Type types."""

    name: str
    boxes: tuple[Box, ...] = ()
    content: str | None = None


class Interaction(Protocol):
    """How a puzzle is answered.

    Attributes:
        script: the file with the mechanic, which bears the same name without `.js`.
        confirm: whether the answer is given with the confirm button; its click is no gesture of the interaction.
        strip: pixels of the frame below the picture, for controls.
    """

    @property
    def script(self) -> str: ...

    @property
    def confirm(self) -> bool: ...

    @property
    def strip(self) -> int: ...

    def rule(self) -> dict[str, Any]:
        """What the page judges by, as JSON values."""
        ...

    def controls(self, locale: Locale) -> str:
        """HTML of the controls, each placed absolutely in the frame."""
        ...

    def solution(self) -> tuple[Gesture, ...]:
        """The gestures of the answer, in order."""
        ...

    def misses(self, rng: random.Random) -> list[tuple[Gesture, ...]]:
        """Complete answers that are wrong by more than the tolerance, each in another way."""
        ...

    def places(self) -> Sequence[Box]:
        """All places that can be acted on; no two may overlap."""
        ...


@dataclass(frozen=True)
class PuzzleType:
    """A type of puzzle. The module's docstring tells what its parts do.

    Attributes:
        ask: the instruction in each locale: how training words it, and how the held-out split does.
        aspect: height of the picture over its width, at most 0.8.
    """

    name: str
    family: Family
    ask: Mapping[Locale, tuple[str, str]]
    draw: Callable[[Draft], tuple[Facts, Answer]]
    solutions: Callable[[Facts], list[Answer]]
    paint: Callable[[Canvas, Facts], str]
    interaction: Callable[[Facts, Answer], Interaction]
    load: Callable[[Facts], float]
    aspect: float = 0.66


@dataclass
class Draft:
    """A latent state being drawn."""

    rng: random.Random
    split: Split
    locale: Locale
    difficulty: int
    width: int
    height: int

    def grade(self, easy: float, hard: float) -> float:
        """A value between that of difficulty 1 and that of difficulty 5."""
        return easy + (hard - easy) * (self.difficulty - 1) / 4

    def number(self, easy: int, hard: int) -> int:
        """The same as a whole number."""
        return round(self.grade(easy, hard))

    def words(self, count: int, topic: str | None = None) -> list[str]:
        """Different words of the locale and the split; of one topic of `words.WORDS`, or of any."""
        topics = WORDS[self.split][self.locale]
        pool = topics[topic] if topic is not None else [word for words in topics.values() for word in words]
        return self.rng.sample(pool, count)

    def icons(self, count: int) -> list[str]:
        """Different icons of the split, by name; `paint.icon` paints them."""
        return self.rng.sample(sorted(ICON_NAMES[self.split]), count)

    def icon_name(self, icon: str) -> str:
        """What the locale calls an icon."""
        return icon if self.locale == "en" else ICON_NAMES[self.split][icon]

    def scatter(self, sizes: Sequence[tuple[float, float]], gap: float = 6.0, top: float = 0.0) -> list[Box]:
        """Boxes of these sizes at random places of the picture below `top`, none within `gap` of another.

        Raises:
            NoRoom: they don't fit.
        """
        boxes: list[Box] = []
        for width, height in sizes:
            for _ in range(200):
                x = round(self.rng.uniform(gap, self.width - width - gap))
                y = round(self.rng.uniform(top + gap, self.height - height - gap))
                box = (x, y, x + width, y + height)
                if x >= gap and y >= top + gap and not any(overlap(box, other, gap) for other in boxes):
                    boxes.append(box)
                    break
            else:
                raise NoRoom
        return boxes

    def cells(self, columns: int, rows: int, gap: float = 8.0, top: float = 0.0) -> list[Box]:
        """The cells of a regular grid over the picture below `top`, row by row."""
        width = (self.width - gap * (columns + 1)) // columns
        height = (self.height - top - gap * (rows + 1)) // rows
        return [
            (
                gap + column * (width + gap),
                top + gap + row * (height + gap),
                (column + 1) * (width + gap),
                top + (row + 1) * (height + gap),
            )
            for row in range(rows)
            for column in range(columns)
        ]


@cache
def load_icons() -> Mapping[str, str]:
    """Name -> SVG path of every icon of the interfaces, 24 by 24, to be stroked."""
    with as_file(files("assets.environments").joinpath("runtime/icons.yaml")) as path:
        return {name: str(drawing) for name, drawing in load_yaml(path).items()}


@dataclass
class Canvas:
    """What a picture is painted with; `rng` is for noise that means nothing."""

    rng: random.Random
    theme: Theme
    locale: Locale
    width: int
    height: int
    difficulty: int
    icons: Mapping[str, str] = field(default_factory=load_icons)

    def fill(self, number: int) -> str:
        """The colour of a number: those of `templates.COLOURS`, in their order."""
        return self.theme.fills[number]


@dataclass(frozen=True)
class Puzzle:
    """A sound latent state with its picture, at its place on the screen.

    Attributes:
        seed: gives the same puzzle again in the same setting.
        picture: SVG elements, `width` x `height` pixels.
        origin: the frame's upper left corner on the screen.
    """

    type: PuzzleType
    seed: int
    setting: Setting
    facts: Facts
    answer: Answer
    instruction: str
    interaction: Interaction
    picture: str
    width: int
    height: int

    @property
    def frame(self) -> tuple[int, int]:
        """Width and height of the frame: the picture and the controls below it."""
        return self.width, self.height + self.interaction.strip

    @property
    def origin(self) -> tuple[int, int]:
        """The frame's upper left corner on the screen."""
        return self.setting.frame_at(self.instruction)

    def gestures(self) -> tuple[Gesture, ...]:
        """The solution, with the click on the confirm button where there is one."""
        return self._confirmed(self.interaction.solution())

    def actions(self) -> list[Action]:
        """The solution trajectory: the actions of one turn, in order."""
        return [self._action(gesture) for gesture in self.gestures()]

    def misses(self, rng: random.Random) -> list[list[Action]]:
        """Complete answers that the page must reject."""
        return [
            [self._action(gesture) for gesture in self._confirmed(gestures)]
            for gestures in self.interaction.misses(rng)
        ]

    def on_screen(self, box: Box) -> Box:
        """A box of the frame in pixels of the screen."""
        x, y = self.origin
        return (box[0] + x, box[1] + y, box[2] + x, box[3] + y)

    def latent(self) -> dict[str, Any]:
        """Everything that defines the puzzle, as JSON values."""
        return {
            "type": self.type.name,
            "family": self.type.family,
            "seed": self.seed,
            **self.setting.written(),
            "facts": self.facts,
            "answer": self.answer,
            "instruction": self.instruction,
            "rule": self.interaction.rule(),
            "frame": [*self.origin, *self.frame],
            "legal": sorted({gesture.name for gesture in self.gestures()}),
            "load": self.type.load(self.facts),
        }

    def _confirmed(self, gestures: tuple[Gesture, ...]) -> tuple[Gesture, ...]:
        if not self.interaction.confirm:
            return gestures
        return (*gestures, Gesture("Click", (confirm_box(*self.frame),)))

    def _action(self, gesture: Gesture) -> Action:
        points = [centre_point(self.on_screen(box), self.setting.screen) for box in gesture.boxes]
        return Action(
            gesture.name,
            point=points[0] if points else None,
            end=points[1] if len(points) > 1 else None,
            content=gesture.content,
        )


CONFIRM = (96, 32)
"""Width and height of the confirm button."""
FOOTER = 44
"""Height of the row with the renew and confirm buttons, below the frame."""


def confirm_box(width: int, height: int) -> Box:
    """Where the confirm button of a frame of this size is."""
    return (width - CONFIRM[0], height + (FOOTER - CONFIRM[1]) / 2, width, height + (FOOTER + CONFIRM[1]) / 2)


def draw_puzzle(type: PuzzleType, seed: int, setting: Setting) -> Puzzle:
    """The sound puzzle that a seed gives in a setting.

    Raises:
        ParameterError: none of many states was sound: the difficulty or the screen does not suit the type.
    """
    rng = random.Random(f"{type.name}/{setting.split}/{setting.locale}/{setting.difficulty}/{seed}")
    width = setting.picture_width
    height = round(width * type.aspect)
    for _ in range(TRIES):
        draft = Draft(rng, setting.split, setting.locale, setting.difficulty, width, height)
        try:
            facts, answer = type.draw(draft)
        except NoRoom:
            continue
        facts, answer = json.loads(json.dumps([{**facts, "size": [width, height]}, answer]))
        if not is_unique(type, facts, answer):
            continue
        wording = type.ask[setting.locale][setting.split == "heldout"]
        canvas = Canvas(random.Random(rng.getrandbits(64)), setting.theme, setting.locale, width, height,
                        setting.difficulty)  # fmt: skip
        puzzle = Puzzle(
            type,
            seed,
            setting,
            facts,
            answer,
            wording.format(**facts.get("terms", {})),
            type.interaction(facts, answer),
            type.paint(canvas, facts),
            width,
            height,
        )
        if is_reachable(puzzle):
            return puzzle
    raise ParameterError(f"no {type.name} puzzle of difficulty {setting.difficulty} fits {width} x {height} pixels")


def is_unique(type: PuzzleType, facts: Facts, answer: Answer) -> bool:
    """Whether a search through the facts finds the answer, and no other."""
    return type.solutions(facts) == [answer]


def is_reachable(puzzle: Puzzle) -> bool:
    """Whether all places to act on lie in the frame and apart, and the whole puzzle lies on its screen."""
    width, height = puzzle.frame
    places = puzzle.interaction.places()
    if any(overlap(one, other) for index, one in enumerate(places) for other in places[:index]):
        return False
    for box in [*places, *(box for gesture in puzzle.interaction.solution() for box in gesture.boxes)]:
        x0, y0, x1, y1 = box
        if min(x0, y0) < 0 or x1 > width or y1 > height or min(x1 - x0, y1 - y0) < SMALLEST_SIDE:
            return False
    x, y = puzzle.origin
    return x + width <= puzzle.setting.screen[0] and y + height + FOOTER <= puzzle.setting.screen[1]


def overlap(one: Box, other: Box, gap: float = 0.0) -> bool:
    """Whether two boxes come nearer to each other than `gap`."""
    return (
        one[0] < other[2] + gap and other[0] < one[2] + gap and one[1] < other[3] + gap and other[1] < one[3] + gap
    )  # fmt: skip
