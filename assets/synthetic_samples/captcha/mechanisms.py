"""Answers by moving parts: what can be taken hold of, what that moves, and which positions are right.

A mechanism has degrees of freedom. Controls change them (a handle on a rail, a part that is turned about a centre, one
that is dragged freely, a button that adds a step), motions show them (a part moves, turns, grows, blurs), and terms
say which values are right. Lengths are pixels of the frame, angles degrees, clockwise.

`mechanisms.js` plays the same data on real input events. A rule engine finds the answer with `search`, which tries all
values and looks where the parts then lie.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha.figures import HANDLE, button, groove, handle
from assets.synthetic_samples.captcha.latent import Answer, Box, Canvas, Draft, Facts, Family, Gesture, PuzzleType

Point = tuple[float, float]
Values = Sequence[float]

ROW = 46
"""Height of a row of controls below the picture."""

LEAST = 4.0
"""Half the side of the smallest place that 0-999 coordinates hit for certain, in pixels."""


@dataclass(frozen=True)
class Freedom:
    """A quantity that controls change: where it starts, its range, and the period after which it repeats (0: never)."""

    start: float
    low: float
    high: float
    period: float = 0

    def distance(self, one: float, other: float) -> float:
        """How far two values lie apart."""
        apart = abs(one - other)
        return apart if not self.period else min(apart % self.period, -apart % self.period)


@dataclass(frozen=True)
class Control:
    """What can be taken hold of, and what that changes.

    rail     the part's centre follows the pointer to the nearest point of `path`; the freedom is the way from its start
    guided   the same, but the part moves along the path and never leaps from one stretch of it to another, and it is
             lost, as if released, when the pointer strays from it
    turn     the part turns about `centre` with the pointer, and the freedom with it; `narrow` parts, like a hand of a
             clock, are taken hold of where they point
    free     the part's centre follows the pointer; the two freedoms are its x and y
    step     a click on the part, a button, adds `ratio`

    `size` is the width and height of a part that is dragged, `radius` how far from the centre a part is taken hold of
    that is turned, `box` the place of a button and `label` what it says.
    """

    kind: Literal["rail", "guided", "turn", "free", "step"]
    part: str
    freedoms: tuple[int, ...]
    path: tuple[Point, ...] = ()
    centre: Point = (0, 0)
    radius: float = 0
    narrow: bool = False
    ratio: float = 1
    size: Point = (HANDLE, HANDLE)
    box: Box = (0, 0, 0, 0)
    label: str = ""


@dataclass(frozen=True)
class Motion:
    """How a part shows a freedom's value v: by the amount `factor * (length * (v / length) ** power - offset)`, in
    either direction at most `limit` (0: any).

    move   by the amount along `vector`
    along  its origin lies that far along `path`
    turn   by the amount about `vector`, a point of the part
    scale  by the amount about `vector`
    blur   by the amount, in either direction
    hue    its fill has the amount as hue, in degrees
    count  as many of its children are shown as there are `stops` not above the amount
    """

    kind: Literal["move", "along", "turn", "scale", "blur", "hue", "count"]
    part: str
    freedom: int
    factor: float = 1
    offset: float = 0
    power: float = 1
    length: float = 1
    limit: float = 0
    vector: Point = (0, 0)
    path: tuple[Point, ...] = ()
    stops: tuple[float, ...] = ()

    def amount(self, value: float) -> float:
        """What is shown at a value of the freedom."""
        eased = value if self.power == 1 else self.length * (value / self.length) ** self.power
        amount = self.factor * (eased - self.offset)
        return max(-self.limit, min(amount, self.limit)) if self.limit else amount


@dataclass(frozen=True)
class Term:
    """A part of what is right: a freedom's value lies within `tolerance` of the target."""

    freedom: int
    target: float
    tolerance: float


@dataclass(frozen=True)
class Mechanism:
    """Moving parts and, once it is `aimed`, the values that are right.

    The answer is put when a part is released, or with the confirm button. A part dragged freely whose centre touches
    one of the `walls` is lost and goes back to its start; `route` are the places by which it comes to its target.
    """

    picture: Point
    freedoms: tuple[Freedom, ...]
    inputs: tuple[Control, ...]
    motions: tuple[Motion, ...]
    terms: tuple[Term, ...] = ()
    walls: tuple[Box, ...] = ()
    route: tuple[Point, ...] = ()
    confirm: bool = False
    strip: int = 0
    script: str = "mechanisms.js"

    def aimed(self, answer: Sequence[float], tolerances: Sequence[float]) -> Mechanism:
        """The mechanism with the values that are right, one for each of the first freedoms."""
        pairs = zip(answer, tolerances, strict=True)
        return replace(self, terms=tuple(Term(index, *pair) for index, pair in enumerate(pairs)))

    # --- the Interaction ---------------------------------------------------------------------------------------------

    def rule(self) -> dict[str, Any]:
        """Everything that the page needs to move the parts and to judge."""
        names = ("freedoms", "inputs", "motions", "terms")
        return {
            **{name: [asdict(one) for one in getattr(self, name)] for name in names},
            "walls": [list(wall) for wall in self.walls],
            "confirm": self.confirm,
        }

    def begun(self, drawn: str) -> str:
        """A drawing with each of its parts where it is before anything is done, as the page's script puts it."""
        for name in {motion.part for motion in self.motions}:
            drawn = drawn.replace(f'data-part="{name}"', f'data-part="{name}" {self._look(name)}')
        return drawn

    def controls(self, locale: Locale) -> str:
        """The sliders and buttons below the picture; what is dragged or turned in it is painted with it."""
        width, height = self.picture
        drawn = ""
        for control in self.inputs:
            if control.kind == "step":
                drawn += button(control.part, control.box, control.label)
            elif control.path and control.path[0][1] > height:
                drawn += groove(control.path) + handle(control.part, locale)
        return (
            f'<svg style="position:absolute;left:0;top:{height}px" width="{width}" height="{self.strip}" '
            f'viewBox="0 {height} {width} {self.strip}">{self.begun(drawn)}</svg>'
        )

    def solution(self) -> tuple[Gesture, ...]:
        """The gestures that bring all freedoms to their targets."""
        return self.reaching(self.target)

    def misses(self, rng: random.Random) -> list[tuple[Gesture, ...]]:
        """One freedom just beyond its tolerance, on either side; straight through a wall or across a corner; nothing
        done at all."""
        found = [self.reaching(values) for values in self._wrong()]
        if any(control.kind == "guided" for control in self.inputs):
            legs = self.solution()
            found.append((Gesture("Drag", (legs[0].boxes[0], legs[-1].boxes[1])),))
        if self.walls:
            straight = replace(self, route=())
            if straight._is_blocked():
                found.append(straight.solution())
        if self.confirm:
            found.append(())
        return found

    def places(self) -> Sequence[Box]:
        """The handles and parts where they are taken hold of, and the buttons."""
        return [self._grip(control) for control in self.inputs if control.kind != "turn"]

    # --- geometry ----------------------------------------------------------------------------------------------------

    @property
    def start(self) -> list[float]:
        """The values before anything is done."""
        return [freedom.start for freedom in self.freedoms]

    @property
    def target(self) -> list[float]:
        """The values in the middle of what is right; those that are left open stay as they start."""
        values = self.start
        for term in self.terms:
            values[term.freedom] = term.target
        return values

    def place(self, part: str, values: Values, point: Point = (0, 0)) -> Point:
        """Where a point of a part, by default its origin, lies on the picture."""
        x, y = point
        # The last motion of a part is the innermost, as in SVG.
        for motion in reversed([motion for motion in self.motions if motion.part == part]):
            amount = motion.amount(values[motion.freedom])
            match motion.kind:
                case "move":
                    x, y = x + amount * motion.vector[0], y + amount * motion.vector[1]
                case "along":
                    along = point_along(motion.path, amount)
                    x, y = x + along[0], y + along[1]
                case "turn":
                    x, y = turned((x, y), motion.vector, amount)
        return x, y

    def angle(self, part: str, values: Values) -> float:
        """By how many degrees a part is turned, from 0 up to 360."""
        turns = [motion for motion in self.motions if motion.part == part and motion.kind == "turn"]
        return sum(motion.amount(values[motion.freedom]) for motion in turns) % 360

    def amount(self, part: str, values: Values) -> float:
        """What the only motion of a part shows."""
        (motion,) = (motion for motion in self.motions if motion.part == part)
        return motion.amount(values[motion.freedom])

    def reaching(self, values: Values) -> tuple[Gesture, ...]:
        """The gestures that bring the freedoms to values."""
        gestures: list[Gesture] = []
        done: set[tuple[int, ...]] = set()
        for control in self.inputs:
            moved = any(abs(values[index] - self.start[index]) > 1e-6 for index in control.freedoms)
            if moved and control.freedoms not in done:
                gestures += self._steps(control, values) if control.kind == "step" else self._drags(control, values)
                done.add(control.freedoms)
        return tuple(gestures)

    def _look(self, part: str) -> str:
        """The attributes of a part at the start. A part that counts starts with all its children hidden."""
        transforms, styles = [], []
        for motion in self.motions:
            if motion.part != part:
                continue
            amount, (x, y) = motion.amount(self.start[motion.freedom]), motion.vector
            match motion.kind:
                case "move":
                    transforms.append(f"translate({amount * x} {amount * y})")
                case "along":
                    x, y = point_along(motion.path, amount)
                    transforms.append(f"translate({x} {y})")
                case "turn":
                    transforms.append(f"rotate({amount} {x} {y})")
                case "scale":
                    transforms.append(f"translate({x} {y}) scale({amount}) translate({-x} {-y})")
                case "blur":
                    styles.append(f"filter:blur({abs(amount)}px)")
                case "hue":
                    styles.append(f"fill:hsl({amount} 70% 50%)")
        given = {"transform": " ".join(transforms), "style": ";".join(styles)}
        return " ".join(f'{name}="{value}"' for name, value in given.items() if value)

    def _wrong(self) -> list[list[float]]:
        """Values beyond the tolerance of one term each."""
        wrong = []
        for term in self.terms:
            free = self.freedoms[term.freedom]
            steps = [abs(control.ratio) for control in self.inputs if control.freedoms == (term.freedom,)
                     and control.kind == "step"]  # fmt: skip
            away = max([term.tolerance + self._margin(term.freedom), *steps])
            for value in (term.target - away, term.target + away):
                if free.period or free.low <= value <= free.high:
                    wrong.append([value if index == term.freedom else old for index, old in enumerate(self.target)])
        return wrong

    def _margin(self, freedom: int) -> float:
        """By how much a value must lie outside the tolerance for 0-999 coordinates never to bring it inside."""
        (control, *_) = (control for control in self.inputs if freedom in control.freedoms)
        if control.kind != "turn":
            return 1.5 * LEAST
        return 2 * math.degrees(math.asin(LEAST * math.sqrt(0.5) / control.radius)) + 1

    def _drags(self, control: Control, values: Values) -> list[Gesture]:
        tolerances = [term.tolerance for term in self.terms if term.freedom in control.freedoms]
        reach = max(LEAST, min(tolerances) * math.sqrt(0.5))
        match control.kind:
            case "turn":
                return [self._turn(control, values, min(tolerances))]
            case "free":
                x, y = control.freedoms
                stations: list[Point] = [(self.start[x], self.start[y]), *self.route, (values[x], values[y])]
            case "guided":
                stations = stations_along(control.path, self.start[control.freedoms[0]], values[control.freedoms[0]])
            case _:
                stations = [point_along(control.path, at[control.freedoms[0]]) for at in (self.start, values)]
        boxes = [self._grip(control), *(around(point, LEAST) for point in stations[1:-1]), around(stations[-1], reach)]
        return [Gesture("Drag", pair) for pair in pairwise(boxes)]

    def _turn(self, control: Control, values: Values, tolerance: float) -> Gesture:
        (index,) = control.freedoms
        start, period = self.start[index], self.freedoms[index].period
        by = (values[index] - start + period / 2) % period - period / 2
        top = (control.centre[0], control.centre[1] - control.radius)
        hold = turned(top, control.centre, start if control.narrow else -by / 2)
        # Either end may be off by half the tolerance, in any direction.
        half = control.radius * math.sin(math.radians(tolerance / 2)) * math.sqrt(0.5)
        grip = LEAST if control.narrow else half
        return Gesture("Drag", (around(hold, grip), around(turned(hold, control.centre, by), half)))

    def _steps(self, control: Control, values: Values) -> list[Gesture]:
        """Clicks on a button of the freedom, the fewest that bring it near the value."""
        (index,) = control.freedoms
        free = self.freedoms[index]
        ways = []
        for other in self.inputs:
            if other.kind != "step" or other.freedoms != control.freedoms:
                continue
            for count in range(1, 120):
                value = self.start[index] + count * other.ratio
                if free.distance(value, values[index]) <= abs(other.ratio) / 4:
                    ways.append((count, other.box))
                    break
        if not ways:
            return []
        count, box = min(ways)
        return [Gesture("Click", (box,))] * count

    def _grip(self, control: Control) -> Box:
        """Where a control is taken hold of."""
        if control.kind == "step":
            return control.box
        if control.kind == "free":
            x, y = (self.start[index] for index in control.freedoms)
        else:
            x, y = point_along(control.path, self.start[control.freedoms[0]])
        width, height = control.size
        return (x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    def _is_blocked(self) -> bool:
        """Whether the way of the solution touches a wall."""
        (control,) = (control for control in self.inputs if control.kind == "free")
        x, y = control.freedoms
        stations = [(self.start[x], self.start[y]), *self.route, (self.target[x], self.target[y])]
        return any(crosses(leg, wall) for leg in pairwise(stations) for wall in self.walls)


def slider(size: Sequence[float], row: int = 0, start: float = 0, freedom: int = 0) -> tuple[Freedom, Control]:
    """A slider in a row below a picture of a size; its freedom goes from 0 to `travel`."""
    width, height = size
    y = height + ROW * (row + 0.5)
    path = ((HANDLE / 2 + 4, y), (HANDLE / 2 + 4 + travel(width), y))
    return Freedom(start, 0, travel(width)), Control("rail", f"slider{row}", (freedom,), path)


def sliding(size: Sequence[float], motions: Sequence[Motion], confirm: bool = False, start: float = 0) -> Mechanism:
    """A mechanism whose only control is a slider below the picture."""
    freedom, control = slider(size, start=start)
    shown = Motion("along", control.part, 0, path=control.path)
    return Mechanism((size[0], size[1]), (freedom,), (control,), (shown, *motions), confirm=confirm, strip=ROW)


def turning_tolerance(draft: Draft, radius: float, easy: float, hard: float) -> float:
    """Degrees by which a part may be off that is taken hold of at a radius: never less than 0-999 coordinates allow."""
    least = 2 * math.degrees(math.asin(min(1.0, (LEAST + 0.1) * math.sqrt(2) / radius)))
    return round(max(draft.grade(easy, hard), least), 2)


def travel(width: float) -> int:
    """How far the handle of a slider below a picture of a width goes."""
    return int(width - HANDLE - 8)


def begun(
    moves: Callable[[Facts], Mechanism], painted: Callable[[Canvas, Facts], str]
) -> Callable[[Canvas, Facts], str]:
    """The picture of a type with its moving parts where they start."""
    return lambda canvas, facts: moves(facts).begun(painted(canvas, facts))


def aimed(moves: Callable[[Facts], Mechanism]) -> Callable[[Facts, Answer], Mechanism]:
    """The interaction of a type whose facts say how parts move, and how far each freedom may be off (`tolerances`)."""
    return lambda facts, answer: moves(facts).aimed(answer, facts["tolerances"])


def moving_type(
    family: Family,
    load: Callable[[Facts], float],
    name: str,
    draw: Callable[[Draft], tuple[Facts, Answer]],
    moves: Callable[[Facts], Mechanism],
    solve: Callable[[Facts], list[Answer]],
    picture: Callable[[Canvas, Facts], str],
    en: tuple[str, str],
    zh: tuple[str, str],
    *,
    aspect: float,
    interaction: Callable[[Facts, Answer], Mechanism] | None = None,
) -> PuzzleType:
    """A type whose facts say how its parts move; it is answered by moving them, unless an `interaction` says more."""
    answered = interaction if interaction is not None else aimed(moves)
    return PuzzleType(name, family, {"en": en, "zh": zh}, draw, solve, begun(moves, picture), answered, load, aspect)


# --- search ----------------------------------------------------------------------------------------------------------


def search(
    mechanism: Mechanism, error: Callable[[Values], float], near: float, freedom: int = 0, step: float = 1
) -> list[float]:
    """Every value of a freedom at which an error is least and at most `near`, the others as they start.

    Of a run of values that are all near enough one is returned: the best, and of several best ones the middle.
    """
    free = mechanism.freedoms[freedom]
    values = mechanism.start
    tried = []
    for index in range(math.floor((free.high - free.low) / step + 1e-9) + (0 if free.period else 1)):
        values[freedom] = free.low + index * step
        tried.append((values[freedom], error(values)))
    if free.period:
        # Begin between two runs, so that none is cut in two.
        gap = next((index for index, (_, off) in enumerate(tried) if off > near), 0)
        tried = tried[gap:] + tried[:gap]
    found: list[float] = []
    run: list[tuple[float, float]] = []
    for value, off in [*tried, (0, math.inf)]:
        if off <= near:
            run.append((value, off))
        elif run:
            least = min(off for _, off in run)
            best = [value for value, off in run if off <= least + 1e-6]
            found.append(best[(len(best) - 1) // 2])
            run = []
    return sorted(found)


def only(
    moves: Callable[[Facts], Mechanism], error: Callable[[Mechanism, Facts, Values], float]
) -> Callable[[Facts], list[Answer]]:
    """The solutions of a type with one freedom: its values at which an error is least and within `facts["near"]`.

    They are tried in steps of `facts["step"]`, where the facts have it.
    """

    def solve(facts: Facts) -> list[Answer]:
        mechanism = moves(facts)
        step = facts.get("step", 1)
        found = search(mechanism, lambda values: error(mechanism, facts, values), facts["near"], step=step)
        return [[value] for value in found]

    return solve


def crosses(leg: tuple[Point, Point], wall: Box) -> bool:
    """Whether a straight leg touches a rectangle: Liang and Barsky's clipping, 1984."""
    (x, y), (end_x, end_y) = leg
    enter, leave = 0.0, 1.0
    for start, change, low, high in ((x, end_x - x, wall[0], wall[2]), (y, end_y - y, wall[1], wall[3])):
        if change == 0:
            if not low <= start <= high:
                return False
            continue
        near, far = sorted(((low - start) / change, (high - start) / change))
        enter, leave = max(enter, near), min(leave, far)
    return enter <= leave


def turned(point: Point, centre: Point, degrees: float) -> Point:
    """A point turned clockwise about a centre, on a screen whose y grows downwards."""
    angle = math.radians(degrees)
    x, y = point[0] - centre[0], point[1] - centre[1]
    return (
        centre[0] + x * math.cos(angle) - y * math.sin(angle),
        centre[1] + x * math.sin(angle) + y * math.cos(angle),
    )


def bearing(centre: Point, point: Point) -> float:
    """Direction from a centre to a point: degrees clockwise from straight up, from 0 up to 360."""
    return math.degrees(math.atan2(point[0] - centre[0], centre[1] - point[1])) % 360


def apart(one: float, other: float) -> float:
    """How far two directions differ, from 0 to 180 degrees."""
    return abs((one - other + 180) % 360 - 180)


def path_length(path: Sequence[Point]) -> float:
    """Length of a polyline."""
    return sum(math.dist(one, other) for one, other in pairwise(path))


def point_along(path: Sequence[Point], way: float) -> Point:
    """The point a way from the start of a polyline; beyond its ends, the end."""
    left = max(way, 0.0)
    for one, other in pairwise(path):
        length = math.dist(one, other)
        if left <= length:
            share = left / length if length else 0.0
            return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])
        left -= length
    return path[-1]


BEND = 14.0
"""Pixels by which straight drags may be off a bend that they follow: much less than `STRAY` in mechanisms.js."""


def stations_along(path: Sequence[Point], start: float, end: float) -> list[Point]:
    """Two places on a polyline, given by their ways from its start, and those between them by which drags follow it."""
    low, high = sorted((start, end))
    ways = [0.0, *accumulate(math.dist(one, other) for one, other in pairwise(path))]
    corners = [corner for corner, way in zip(path, ways, strict=True) if low < way < high]
    part = [point_along(path, low), *corners, point_along(path, high)]
    kept = [part[at] for at in sorted(_kept(part, 0, len(part) - 1))]
    return kept if start <= end else kept[::-1]


def _kept(path: Sequence[Point], first: int, last: int) -> set[int]:
    """The points of a part of a polyline off whose legs it is nowhere more than `BEND`: Douglas and Peucker, 1973."""
    leg = (path[first], path[last])
    off, farthest = max(((off_leg(path[at], leg), at) for at in range(first + 1, last)), default=(0.0, first))
    if off <= BEND:
        return {first, last}
    return _kept(path, first, farthest) | _kept(path, farthest, last)


def off_leg(point: Point, leg: tuple[Point, Point]) -> float:
    """How far a point is from a straight leg."""
    (x0, y0), (x1, y1) = leg
    # The square may be zero where the length is not.
    square = (x1 - x0) ** 2 + (y1 - y0) ** 2
    along = ((point[0] - x0) * (x1 - x0) + (point[1] - y0) * (y1 - y0)) / square if square else 0.0
    share = max(0.0, min(along, 1.0))
    return math.dist(point, (x0 + share * (x1 - x0), y0 + share * (y1 - y0)))


def around(point: Point, half: float) -> Box:
    """The square about a point."""
    return (point[0] - half, point[1] - half, point[0] + half, point[1] + half)
