"""Self-drawn SVG that pictures are made of: shapes, letters, small pictures with a clear top, landscapes, handles."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha.latent import Box, Canvas
from assets.synthetic_samples.captcha.paint import centre, disc, polygon, rect
from assets.synthetic_samples.themes import Split

Point = tuple[float, float]

OUTLINES: dict[str, str] = {
    "circle": "M16 2a14 14 0 1 0 0 28a14 14 0 1 0 0-28z",
    "square": "M3 3h26v26H3z",
    "triangle": "M16 2 31 29H1z",
    "star": "M16 1l4.4 10.3 11.1.9-8.5 7.3 2.7 10.9L16 24.5l-9.7 5.9L9 19.5.5 12.2l11.1-.9z",
    "cross": "M11 2h10v9h9v10h-9v9H11v-9H2V11h9z",
    "heart": "M16 29C6 21 2 16 2 10.5A7.2 7.2 0 0 1 16 8a7.2 7.2 0 0 1 14 2.5C30 16 26 21 16 29z",
    "moon": "M21 2A14 14 0 1 0 21 30A17 17 0 0 1 21 2z",
    "diamond": "M16 1 31 16 16 31 1 16z",
    "hexagon": "M9 3h14l8 13-8 13H9L1 16z",
    "drop": "M16 1C22 10 27 15 27 20a11 11 0 0 1-22 0C5 15 10 10 16 1z",
    "arrow": "M16 1 30 15h-8v16H10V15H2z",
    "house": "M16 2 30 14h-4v16H6V14H2z",
}
"""Shapes as paths in a box of 32 by 32."""

SHAPES: dict[Split, tuple[str, ...]] = {
    "train": ("circle", "square", "triangle", "star", "cross", "heart"),
    "heldout": ("moon", "diamond", "hexagon", "drop", "arrow", "house"),
}
"""Those of a split."""

SHAPE_NAMES: dict[str, dict[Locale, str]] = {
    "circle": {"en": "circle", "zh": "圆形"},
    "square": {"en": "square", "zh": "正方形"},
    "triangle": {"en": "triangle", "zh": "三角形"},
    "star": {"en": "star", "zh": "五角星"},
    "cross": {"en": "cross", "zh": "十字"},
    "heart": {"en": "heart", "zh": "心形"},
    "moon": {"en": "moon", "zh": "月亮"},
    "diamond": {"en": "diamond", "zh": "菱形"},
    "hexagon": {"en": "hexagon", "zh": "六边形"},
    "drop": {"en": "drop", "zh": "水滴"},
    "arrow": {"en": "arrow", "zh": "箭头"},
    "house": {"en": "house", "zh": "房子"},
}

PICTURES: dict[str, str] = {
    "house": '<path fill="{0}" d="M-30 -4h60v42h-60z"/><path fill="{1}" d="M-40 -4 0 -42 40 -4z"/>'
    '<path fill="{2}" d="M-8 12h18v26h-18zM16 4h10v10h-10z"/>',
    "boat": '<path fill="{0}" d="M-42 14h84l-16 24h-54z"/><path fill="{1}" d="M-2 -42v50h-30z"/>'
    '<path fill="{2}" d="M4 -30v38h26z"/>',
    "cup": '<path fill="{0}" d="M-32 -16h50v34a18 18 0 0 1-18 18h-14a18 18 0 0 1-18-18z"/>'
    '<path fill="none" stroke="{0}" stroke-width="6" d="M18 -8h10a11 11 0 0 1 0 22h-10"/>'
    '<path fill="none" stroke="{1}" stroke-width="6" d="M-18 -26v-14M0 -26v-14"/>',
    "lamp": '<path fill="{1}" d="M-16 -42h32l18 44h-68z"/><path fill="{2}" d="M-4 2h8v30h-8z"/>'
    '<path fill="{0}" d="M-26 32h52v10h-52z"/>',
    "person": '<circle fill="{2}" cx="0" cy="-29" r="13"/><path fill="{0}" d="M-16 -12h32l6 28h-44z"/>'
    '<path fill="{1}" d="M-14 16h10v28h-10zM4 16h10v28h-10z"/>',
    "tree": '<path fill="{2}" d="M-6 12h12v30h-12z"/><path fill="{0}" d="M0 -44 30 -8H-30zM0 -24 36 16H-36z"/>',
    "mushroom": '<path fill="{1}" d="M-40 2a40 40 0 0 1 80 0z"/><path fill="{2}" d="M-13 2h26l5 38h-36z"/>'
    '<path fill="{0}" d="M-20 -20h10v10h-10zM8 -26h10v10h-10z"/>',
    "flower": '<path fill="{0}" d="M-3 -6h6v50h-6zM3 34q24 -2 26 -22q-22 0 -26 22"/>'
    '<path fill="{1}" d="M-25 -20a12 12 0 0 1 13-12a12 12 0 0 1 24 0a12 12 0 0 1 0 24h-24a12 12 0 0 1-13-12z"/>'
    '<circle fill="{2}" cx="0" cy="-20" r="9"/>',
}
"""Pictures within 45 of (0, 0) that have one upright position, in three colours."""

UPRIGHT: dict[Split, tuple[str, ...]] = {
    "train": ("house", "boat", "cup", "lamp", "person"),
    "heldout": ("tree", "mushroom", "flower"),
}
"""The pictures of a split."""


def picture(name: str, x: float, y: float, scale: float, fills: Sequence[str], turn: float = 0) -> str:
    """A small picture about (x, y) in three colours."""
    transform = f"translate({number(x)} {number(y)}) rotate({number(turn)}) scale({number(scale)})"
    return f'<g transform="{transform}">{PICTURES[name].format(*fills)}</g>'


def shape(name: str, x: float, y: float, size: float, fill: str, turn: float = 0, more: str = "") -> str:
    """A shape about (x, y), `size` wide and high; `more` are attributes of its path."""
    turned = f" rotate({number(turn)})" if turn else ""
    return (
        f'<path d="{OUTLINES[name]}" fill="{fill}" {more} '
        f'transform="translate({number(x)} {number(y)}){turned} scale({number(size / 32)}) translate(-16 -16)"/>'
    )


def flag(x: float, y: float, size: float, colour: str) -> str:
    """A flag about (x, y), which marks an end in either split."""
    mast = line([(x - size / 3, y - size / 2), (x - size / 3, y + size / 2)], colour, 2.5)
    return mast + polygon([(x - size / 3, y - size / 2), (x + size / 2, y - size / 4), (x - size / 3, y)], colour)


def letters(text: str, x: float, y: float, size: float, fill: str, turn: float = 0, skew: float = 0) -> str:
    """Text whose middle lies at (x, y)."""
    transform = f"translate({number(x)} {number(y)}) rotate({number(turn)}) skewX({number(skew)})"
    return (
        f'<text transform="{transform}" y="{number(size * 0.36)}" font-size="{number(size)}" font-weight="bold" '
        f'text-anchor="middle" fill="{fill}">{html.escape(text)}</text>'
    )


def line(points: Sequence[Point], stroke: str, width: float, more: str = "") -> str:
    """A polyline with round ends."""
    drawn = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return (
        f'<polyline points="{drawn}" fill="none" stroke="{stroke}" stroke-width="{number(width)}" '
        f'stroke-linecap="round" stroke-linejoin="round" {more}/>'
    )


def window(box: Box, inner: str) -> str:
    """What of a drawing in the same coordinates lies inside a box."""
    x0, y0, x1, y1 = map(number, (box[0], box[1], box[2] - box[0], box[3] - box[1]))
    return f'<svg x="{x0}" y="{y0}" width="{x1}" height="{y1}" viewBox="{x0} {y0} {x1} {y1}">{inner}</svg>'


def part(name: str, drawn: str) -> str:
    """A part that a mechanism moves, or that can be taken hold of."""
    return f'<g data-part="{name}">{drawn}</g>'


def threads(canvas: Canvas, count: int) -> str:
    """Thin coloured lines across the picture, which mean nothing."""
    drawn = ""
    for _ in range(count):
        ends = [(canvas.rng.uniform(0, canvas.width), canvas.rng.uniform(0, canvas.height)) for _ in range(2)]
        drawn += line(ends, canvas.rng.choice(canvas.theme.fills), 1.5, 'opacity="0.6"')
    return drawn


def landscape(canvas: Canvas, box: Box) -> str:
    """A sky, a sun, hills and trees that fill a box: no two places of it look alike."""
    rng, (x, y, right, bottom), fills = canvas.rng, box, canvas.theme.fills
    width, height = right - x, bottom - y
    drawn = rect(box, rng.choice(("#b9d7ee", "#f3d9b8", "#cfd6f2", "#d7ead3")))
    drawn += disc((x + width * rng.uniform(0.1, 0.9), y + height * 0.2), height * 0.12, "#fff3c4")
    for depth, fill in enumerate(rng.sample(fills, 3)):
        base, swing = y + height * (0.45 + 0.2 * depth), height * rng.uniform(0.08, 0.2)
        phase, waves = rng.uniform(0, 6.3), rng.uniform(1.2, 3.5)
        ridge = [(x + width * step / 24, base + swing * math.sin(phase + waves * step / 4)) for step in range(25)]
        drawn += f'<g opacity="0.75">{polygon([*ridge, (right, bottom), (x, bottom)], fill)}</g>'
    for _ in range(int(width / 22)):
        tree = x + rng.uniform(0, width), y + height * rng.uniform(0.45, 0.95)
        drawn += shape(rng.choice(("triangle", "circle")), *tree, rng.uniform(8, 18), rng.choice(fills))
    return window(box, drawn)


# --- controls --------------------------------------------------------------------------------------------------------

HANDLE = 34
"""Width and height of a handle on a rail."""

HANDLE_NAME: dict[Locale, str] = {"en": "slider", "zh": "滑块"}


def groove(path: Sequence[Point]) -> str:
    """The rail of a handle."""
    return line(path, "var(--line)", HANDLE + 4) + line(path, "var(--page)", HANDLE + 1)


def handle(name: str, locale: Locale) -> str:
    """A handle about (0, 0), which a mechanism puts on its rail."""
    half = HANDLE / 2
    face = rect((-half, -half, half, half), "var(--accent)", "none", 7)
    grip = "".join(line([(x, -6), (x, 6)], "var(--on-fill)", 2) for x in (-5, 0, 5))
    return f'<g data-part="{name}" role="slider" aria-label="{HANDLE_NAME[locale]}">{face}{grip}</g>'


def button(name: str, box: Box, label: str) -> str:
    """A button that a mechanism reacts to."""
    face = rect(box, "var(--accent)", "none", 7)
    text = letters(label, *centre(box), 15, "var(--on-fill)")
    return f'<g data-part="{name}" role="button" aria-label="{html.escape(label)}">{face}{text}</g>'


def number(value: float) -> str:
    """A coordinate as SVG writes it, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"
