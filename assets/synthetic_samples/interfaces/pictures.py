"""Pictures that interfaces show: landscapes, faces' initials, charts, waves, maps. All are drawn from chance as SVG."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup, escape

Point = tuple[float, float]

_HAIRLINE = 'vector-effect="non-scaling-stroke"'


class Pictures:
    """Draws pictures in the hues of the theme (`var(--hue0)` to `var(--hue5)`). Each fills the box it is put into.

    With a label a picture is an image in the accessibility tree, without one it is decoration.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def landscape(self, label: str = "") -> Markup:
        """Hills below a sun: stands for a photograph."""
        rng, first = self.rng, self.rng.randrange(6)
        parts = [_rectangle(0, 0, 100, 100, first, 0.45)]
        parts.append(f'<circle cx="{rng.randint(12, 88)}" cy="{rng.randint(12, 34)}" r="{rng.randint(5, 11)}"')
        parts.append(' fill="#fff" opacity=".8"/>')
        for layer in range(3):
            ridge = [(x, 45 + 16 * layer + rng.randint(-14, 10)) for x in range(-10, 115, 20)]
            hue = (first + 1 + layer) % 6
            parts.append(f'<path d="M0 100V{ridge[0][1]}{_curve(ridge)}V100Z" fill="var(--hue{hue})"')
            parts.append(f' opacity="{0.55 + layer / 8:g}"/>')
        return _svg("0 0 100 100", parts, label, "xMidYMid slice")

    def product(self, label: str = "") -> Markup:
        """A thing on a plain ground: stands for the photograph of an article."""
        rng = self.rng
        hue, other = rng.sample(range(6), 2)
        width, height = rng.randint(26, 52), rng.randint(26, 60)
        left, top = 50 - width / 2, 78 - height
        shapes = (
            _rectangle(left, top, width, height, hue, radius=rng.randint(2, 16)),
            f'<ellipse cx="50" cy="{78 - height / 2}" rx="{width / 2}" ry="{height / 2}" fill="var(--hue{hue})"/>',
            _polygon([(left, 78), (left + width, 78), (left + width * 0.8, top), (left + width * 0.2, top)], hue),
        )
        parts = (
            _rectangle(0, 0, 100, 100, other, 0.14),
            '<ellipse cx="50" cy="80" rx="30" ry="4" opacity=".15"/>',
            rng.choice(shapes),
            f'<circle cx="50" cy="{78 - height / 2}" r="{rng.randint(3, 9)}" fill="var(--hue{other})"/>',
        )
        return _svg("0 0 100 100", parts, label, "xMidYMid slice")

    def avatar(self, name: str, large: bool = False) -> Markup:
        """A disc with the initials of a name."""
        initials = "".join(word[0] for word in name.split()[:2]) if " " in name else name[-2:]
        return Markup('<span class="avatar{}" style="background:var(--hue{})" aria-hidden="true">{}</span>').format(
            " big" if large else "", self.rng.randrange(6), initials
        )

    def line_chart(self, label: str = "", points: int = 24) -> Markup:
        """One filled line over a grid."""
        hue, level, line = self.rng.randrange(5), self.rng.uniform(30, 70), []
        for index in range(points):
            level = min(max(level + self.rng.uniform(-11, 11), 8), 92)
            line.append((index * 300 / (points - 1), 100 - level))
        parts = [f'<path d="M0 {y}H300" stroke="var(--line)" {_HAIRLINE}/>' for y in (20, 40, 60, 80)]
        parts.append(_polygon([(0, 100), *line, (300, 100)], hue, 0.16))
        parts.append(f'<polyline points="{_points(line)}" fill="none" stroke="var(--hue{hue})"')
        parts.append(f' stroke-width="2" {_HAIRLINE}/>')
        return _svg("0 0 300 100", parts, label, "none")

    def bar_chart(self, label: str = "", bars: int = 12) -> Markup:
        """Bars, a few of them in another hue."""
        hue, other = self.rng.sample(range(6), 2)
        pitch, parts = 300 / bars, []
        for index in range(bars):
            height = self.rng.randint(12, 96)
            left, chosen = index * pitch + pitch * 0.18, other if self.rng.random() < 0.15 else hue
            parts.append(_rectangle(left, 100 - height, pitch * 0.64, height, chosen))
        return _svg("0 0 300 100", parts, label, "none")

    def wave(self, hue: int, steps: int = 60) -> Markup:
        """The wave of a recording."""
        loud, up, down = 20.0, [], []
        for index in range(steps):
            loud = min(max(loud + self.rng.uniform(-12, 12), 3), 46)
            up.append((index * 300 / steps, 50 - loud))
            down.append((index * 300 / steps, 50 + loud * 0.9))
        return _svg("0 0 300 100", [_polygon(up + down[::-1], hue)], "", "none")

    def map(self, label: str = "") -> Markup:
        """Streets, parks and a river."""
        rng = self.rng
        parts = ['<rect width="400" height="400" fill="var(--raised)"/>']
        for _ in range(4):
            left, top, width, height = (
                rng.randint(0, 340),
                rng.randint(0, 340),
                rng.randint(40, 130),
                rng.randint(40, 110),
            )
            parts.append(_rectangle(left, top, width, height, rng.choice((1, 2, 3)), 0.16, radius=8))
        bank = rng.randint(60, 330)
        parts.append(f'<path d="M-10 {bank}Q120 {bank - 90} 220 {bank}T420 {bank - 40}" fill="none"')
        parts.append(' stroke="var(--hue0)" stroke-width="26" opacity=".3"/>')
        for vertical in (False, True):
            for at in sorted(rng.sample(range(20, 390, 34), 6)):
                tilt, wide = rng.randint(-30, 30), rng.choice((3, 4, 8))
                line = f"M{at} -10L{at + tilt} 410" if vertical else f"M-10 {at}L410 {at + tilt}"
                parts.append(f'<path d="{line}" stroke="var(--line)" stroke-width="{wide}"/>')
        return _svg("0 0 400 400", parts, label, "xMidYMid slice")

    def solid(self, label: str = "") -> Markup:
        """Blocks on a floor in parallel projection."""
        rng, parts = self.rng, []
        for index in range(-6, 7):
            x = index * 40
            parts.append(
                f'<path d="M{x} -240L{x + 480} 240M{x} 240L{x + 480} -240" stroke="var(--line)" fill="none"'
                f" {_HAIRLINE}/>"
            )
        for _ in range(rng.randint(3, 5)):
            x, y = rng.randint(40, 360), rng.randint(-20, 90)
            w, h, hue = rng.randint(22, 52), rng.randint(30, 110), rng.randrange(6)
            parts.append(_polygon([(x, y), (x + w, y - w / 2), (x + w, y - w / 2 - h), (x, y - h)], hue, 0.95))
            parts.append(_polygon([(x, y), (x - w, y - w / 2), (x - w, y - w / 2 - h), (x, y - h)], hue, 0.7))
            top = [(x, y - h), (x + w, y - w / 2 - h), (x, y - w - h), (x - w, y - w / 2 - h)]
            parts.append(_polygon(top, hue, 0.45))
        return _svg("0 -170 420 300", parts, label, "xMidYMid slice")


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _curve(points: Sequence[Point]) -> str:
    """A smooth line through the middles between neighbouring points."""
    middles = [((a[0] + b[0]) / 2, (a[1] + b[1]) / 2) for a, b in pairwise(points)]
    return f"L{_points(middles[:1])}" + "".join(
        f"Q{_points([point, middle])}" for point, middle in zip(points[1:], middles[1:], strict=False)
    )


def _polygon(points: Sequence[Point], hue: int, opacity: float = 1) -> str:
    return f'<polygon points="{_points(points)}" fill="var(--hue{hue})" opacity="{opacity:g}"/>'


def _rectangle(x: float, y: float, width: float, height: float, hue: int, opacity: float = 1, radius: float = 0) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" '
        f'fill="var(--hue{hue})" opacity="{opacity:g}"/>'
    )


def _svg(view_box: str, parts: Sequence[str], label: str, ratio: str) -> Markup:
    name = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    return Markup(
        f'<svg class="picture" viewBox="{view_box}" preserveAspectRatio="{ratio}" {name}>{"".join(parts)}</svg>'
    )
