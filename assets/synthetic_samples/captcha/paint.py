"""SVG for the pictures of puzzles."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from assets.synthetic_samples.captcha.latent import Box, Canvas

Spot = tuple[float, float]


def ground(canvas: Canvas, noise: float = 0.0) -> str:
    """The picture's ground; `noise` 0..1 lays soft blots and strokes over it."""
    rng, parts = canvas.rng, [rect((0, 0, canvas.width, canvas.height), canvas.theme.page)]
    for _ in range(round(noise * 14)):
        x, y, radius = rng.uniform(0, canvas.width), rng.uniform(0, canvas.height), rng.uniform(10, 46)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{canvas.theme.line}" opacity="0.28"/>')
    for _ in range(round(noise * 10)):
        points = [(rng.uniform(0, canvas.width), rng.uniform(0, canvas.height)) for _ in range(3)]
        parts.append(curve(points, canvas.theme.line, 1.5))
    return "".join(parts)


def specks(canvas: Canvas, count: int) -> str:
    """Small dots over the picture."""
    spots = [(canvas.rng.uniform(0, canvas.width), canvas.rng.uniform(0, canvas.height)) for _ in range(count)]
    return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.1" fill="{canvas.theme.ink}" opacity="0.4"/>'
                   for x, y in spots)  # fmt: skip


def text(content: str, box: Box, colour: str, angle: float = 0.0, bold: bool = True) -> str:
    """A text that fills the width of a box, turned about its centre by `angle` degrees."""
    x, y = centre(box)
    width, height = box[2] - box[0], box[3] - box[1]
    weight = "700" if bold else "400"
    return (
        f'<text x="{x:.1f}" y="{y + height * 0.3:.1f}" text-anchor="middle" font-size="{height * 0.82:.1f}" '
        f'font-weight="{weight}" fill="{colour}" textLength="{width * 0.94:.1f}" lengthAdjust="spacingAndGlyphs"'
        f"{_turn(angle, x, y)}>{html.escape(content)}</text>"
    )


def text_size(content: str, height: float) -> tuple[float, float]:
    """Width and height of a box that a text fills without being stretched."""
    ems = sum(1.0 if ord(character) > 0x2E7F else 0.66 for character in content)
    return max(round(ems * height * 0.82 / 0.94), round(height * 0.6)), height


def icon(canvas: Canvas, name: str, box: Box, colour: str, angle: float = 0.0, flip: bool = False,
         solid: bool = False) -> str:  # fmt: skip
    """An icon that fills a box; `flip` mirrors it, `solid` fills it as its shadow would."""
    x, y = centre(box)
    scale = (box[2] - box[0]) / 24
    across = -scale if flip else scale
    return (
        f'<g transform="translate({x:.1f} {y:.1f}) rotate({angle:g}) scale({across:.3f} {scale:.3f}) '
        f'translate(-12 -12)"><path d="{canvas.icons[name]}" fill="{colour if solid else "none"}" stroke="{colour}" '
        f'stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/></g>'
    )


def disc(spot: Spot, radius: float, fill: str, stroke: str = "none", width: float = 2.0) -> str:
    """A circle about a spot."""
    return (
        f'<circle cx="{spot[0]:.1f}" cy="{spot[1]:.1f}" r="{radius:.1f}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{width:g}"/>'
    )


def polygon(points: Iterable[Spot], fill: str, stroke: str = "none", width: float = 2.0) -> str:
    """A closed polygon."""
    written = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{written}" fill="{fill}" stroke="{stroke}" stroke-width="{width:g}"/>'


def regular(spot: Spot, radius: float, sides: int, angle: float = 0.0) -> list[Spot]:
    """The corners of a regular polygon; with angle 0 one points up."""
    turns = [math.radians(angle - 90 + 360 * corner / sides) for corner in range(sides)]
    return [(spot[0] + radius * math.cos(turn), spot[1] + radius * math.sin(turn)) for turn in turns]


def line(start: Spot, end: Spot, stroke: str, width: float = 2.0) -> str:
    """A straight line."""
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{stroke}" '
        f'stroke-width="{width:g}" stroke-linecap="round"/>'
    )


def curve(points: Sequence[Spot], stroke: str, width: float = 2.0) -> str:
    """A smooth thread through points."""
    (x, y), *rest = points
    written = [f"M{x:.1f} {y:.1f}"]
    for index, (here, there) in enumerate(zip(points, rest, strict=False)):
        before = points[index - 1] if index > 0 else here
        after = points[index + 2] if index + 2 < len(points) else there
        first = (here[0] + (there[0] - before[0]) / 6, here[1] + (there[1] - before[1]) / 6)
        second = (there[0] - (after[0] - here[0]) / 6, there[1] - (after[1] - here[1]) / 6)
        written.append(f"C{first[0]:.1f} {first[1]:.1f} {second[0]:.1f} {second[1]:.1f} {there[0]:.1f} {there[1]:.1f}")
    return (
        f'<path d="{"".join(written)}" fill="none" stroke="{stroke}" stroke-width="{width:g}" stroke-linecap="round"/>'
    )


def card(canvas: Canvas, box: Box) -> str:
    """A bordered cell."""
    return rect(box, canvas.theme.surface, canvas.theme.line, 6)


def centre(box: Box) -> Spot:
    """The middle of a box."""
    return ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)


def inset(box: Box, by: float) -> Box:
    """A box that is smaller by as many pixels on each side."""
    return (box[0] + by, box[1] + by, box[2] - by, box[3] - by)


def square(box: Box, side: float) -> Box:
    """The square of a side in the middle of a box."""
    x, y = centre(box)
    return (x - side / 2, y - side / 2, x + side / 2, y + side / 2)


def rect(box: Box, fill: str, stroke: str = "none", radius: float = 0) -> str:
    """A rectangle with round corners."""
    x0, y0, x1, y1 = box
    return (
        f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" rx="{radius:g}" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )


def _turn(angle: float, x: float, y: float) -> str:
    return f' transform="rotate({angle:g} {x:.1f} {y:.1f})"' if angle else ""
