"""Pictures that interfaces show: landscapes, faces' initials, charts, waves, maps. All are drawn from chance as SVG."""

from __future__ import annotations

import random

from markupsafe import Markup, escape


class Pictures:
    """Draws pictures in the hues of the theme (`var(--hue0)` to `var(--hue5)`). Each fills the box it is put into."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def landscape(self, label: str = "") -> Markup:
        """Hills below a sun: stands for a photograph."""
        rng, first = self.rng, self.rng.randrange(6)
        hills = []
        for layer in range(3):
            base = 45 + 16 * layer
            points = " ".join(f"{x},{base + rng.randint(-14, 10)}" for x in range(0, 101, 20))
            hue = (first + 1 + layer) % 6
            hills.append(
                f'<polygon points="0,100 {points} 100,100" fill="var(--hue{hue})" opacity="{0.55 + layer / 8}"/>'
            )
        sun = f'<circle cx="{rng.randint(12, 88)}" cy="{rng.randint(12, 34)}" r="{rng.randint(5, 11)}" fill="#fff" opacity=".8"/>'
        sky = f'<rect width="100" height="100" fill="var(--hue{first})" opacity=".45"/>'
        return _svg("0 0 100 100", sky + sun + "".join(hills), label, "xMidYMid slice")

    def product(self, label: str = "") -> Markup:
        """A thing on a plain ground: stands for the photograph of an article."""
        rng = self.rng
        hue, other = rng.sample(range(6), 2)
        width, height = rng.randint(26, 52), rng.randint(26, 60)
        x, y = 50 - width / 2, 78 - height
        shape = rng.choice((
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{rng.randint(2, 16)}" fill="var(--hue{hue})"/>',
            f'<ellipse cx="50" cy="{78 - height / 2}" rx="{width / 2}" ry="{height / 2}" fill="var(--hue{hue})"/>',
            f'<polygon points="{x},78 {x + width},78 {x + width * 0.8},{y} {x + width * 0.2},{y}" fill="var(--hue{hue})"/>',
        ))  # fmt: skip
        detail = f'<circle cx="50" cy="{78 - height / 2}" r="{rng.randint(3, 9)}" fill="var(--hue{other})"/>'
        ground = f'<rect width="100" height="100" fill="var(--hue{other})" opacity=".14"/>'
        shadow = '<ellipse cx="50" cy="80" rx="30" ry="4" opacity=".15"/>'
        return _svg("0 0 100 100", ground + shadow + shape + detail, label, "xMidYMid slice")

    def avatar(self, name: str) -> Markup:
        """A disc with the initials of a name."""
        initials = "".join(word[0] for word in name.split()[:2]) if " " in name else name[-2:]
        return Markup('<span class="avatar" style="background:var(--hue{})" aria-hidden="true">{}</span>').format(
            self.rng.randrange(6), initials
        )

    def line_chart(self, label: str = "", points: int = 24) -> Markup:
        """One filled line over a grid."""
        rng, hue = self.rng, self.rng.randrange(5)
        level, ys = rng.uniform(30, 70), []
        for _ in range(points):
            level = min(max(level + rng.uniform(-11, 11), 8), 92)
            ys.append(100 - level)
        line = " ".join(f"{index * 300 / (points - 1):.1f},{y:.1f}" for index, y in enumerate(ys))
        grid = "".join(
            f'<path d="M0 {y}H300" stroke="var(--line)" vector-effect="non-scaling-stroke"/>' for y in (20, 40, 60, 80)
        )
        area = f'<polygon points="0,100 {line} 300,100" fill="var(--hue{hue})" opacity=".16"/>'
        stroke = f'<polyline points="{line}" fill="none" stroke="var(--hue{hue})" stroke-width="2" vector-effect="non-scaling-stroke"/>'
        return _svg("0 0 300 100", grid + area + stroke, label, "none")

    def bar_chart(self, label: str = "", bars: int = 12) -> Markup:
        hue, other = self.rng.sample(range(6), 2)
        pitch = 300 / bars
        drawn = []
        for index in range(bars):
            height, chosen = self.rng.randint(12, 96), other if self.rng.random() < 0.15 else hue
            drawn.append(
                f'<rect x="{index * pitch + pitch * 0.18:.1f}" y="{100 - height}" width="{pitch * 0.64:.1f}" '
                f'height="{height}" fill="var(--hue{chosen})"/>'
            )
        return _svg("0 0 300 100", "".join(drawn), label, "none")

    def wave(self, hue: int, steps: int = 60) -> Markup:
        """The wave of a recording."""
        loud, up, down = 20.0, [], []
        for index in range(steps):
            loud = min(max(loud + self.rng.uniform(-12, 12), 3), 46)
            up.append(f"{index * 300 / steps:.0f},{50 - loud:.0f}")
            down.append(f"{index * 300 / steps:.0f},{50 + loud * 0.9:.0f}")
        shape = f'<polygon points="{" ".join(up + down[::-1])}" fill="var(--hue{hue})"/>'
        return _svg("0 0 300 100", shape, "", "none")

    def map(self, label: str = "") -> Markup:
        """Streets, a park and a river."""
        rng = self.rng
        parts = ['<rect width="400" height="400" fill="var(--raised)"/>']
        for _ in range(4):
            x, y = rng.randint(0, 340), rng.randint(0, 340)
            parts.append(
                f'<rect x="{x}" y="{y}" width="{rng.randint(40, 130)}" height="{rng.randint(40, 110)}" rx="8" '
                f'fill="var(--hue{rng.choice((1, 2, 3))})" opacity=".16"/>'
            )
        y = rng.randint(60, 330)
        parts.append(
            f'<path d="M-10 {y}Q120 {y - 90} 220 {y}T420 {y - 40}" fill="none" stroke="var(--hue0)" stroke-width="26" opacity=".3"/>'
        )
        for vertical in (False, True):
            for at in sorted(rng.sample(range(20, 390, 34), 6)):
                tilt, wide = rng.randint(-30, 30), rng.choice((3, 4, 8))
                line = f"M{at} -10L{at + tilt} 410" if vertical else f"M-10 {at}L410 {at + tilt}"
                parts.append(f'<path d="{line}" stroke="var(--line)" stroke-width="{wide}"/>')
        return _svg("0 0 400 400", "".join(parts), label, "xMidYMid slice")

    def solid(self, label: str = "") -> Markup:
        """Blocks on a floor in parallel projection."""
        rng, parts = self.rng, []
        for index in range(-6, 7):
            parts.append(
                f'<path d="M{index * 40} -240L{index * 40 + 480} 240M{index * 40} 240L{index * 40 + 480} -240" stroke="var(--line)" stroke-width=".7" fill="none"/>'
            )
        for _ in range(rng.randint(3, 5)):
            x, y = rng.randint(40, 360), rng.randint(-20, 90)
            w, h, hue = rng.randint(22, 52), rng.randint(30, 110), rng.randrange(6)
            fill = f'fill="var(--hue{hue})"'
            parts.append(
                f'<polygon points="{x},{y} {x + w},{y - w / 2} {x + w},{y - w / 2 - h} {x},{y - h}" {fill} opacity=".95"/>'
                f'<polygon points="{x},{y} {x - w},{y - w / 2} {x - w},{y - w / 2 - h} {x},{y - h}" {fill} opacity=".7"/>'
                f'<polygon points="{x},{y - h} {x + w},{y - w / 2 - h} {x},{y - w - h} {x - w},{y - w / 2 - h}" {fill} opacity=".45"/>'
            )
        return _svg("0 -170 420 300", "".join(parts), label, "xMidYMid slice")


def _svg(view_box: str, inner: str, label: str, ratio: str) -> Markup:
    name = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    return Markup(f'<svg class="picture" viewBox="{view_box}" preserveAspectRatio="{ratio}" {name}>{inner}</svg>')
