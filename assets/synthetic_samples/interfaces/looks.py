"""How an interface looks: its theme, its icons, its density. Each theme and each icon set belongs to one split."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from markupsafe import Markup

from assets.synthetic_samples.themes import Split

Density = Literal["compact", "regular", "comfortable"]


@dataclass(frozen=True)
class InterfaceTheme:
    """Colours as CSS writes them, and shapes.

    `page` is the ground, `surface` what bars and panels lie on, `raised` fields and cards, `ink` and `muted` text on
    them, `line` their borders, `accent` what is chosen and `on_accent` the text on it, `good`, `warn` and `bad` states,
    `hues` the colours of clips, charts and pictures, `radius` the corner radius and `font` the typeface.
    """

    name: str
    split: Split
    dark: bool
    page: str
    surface: str
    raised: str
    ink: str
    muted: str
    line: str
    accent: str
    on_accent: str
    good: str
    warn: str
    bad: str
    hues: tuple[str, ...]
    radius: int
    font: str

    def style(self) -> str:
        """The theme as CSS variables."""
        hues = "".join(f"--hue{index}:{hue};" for index, hue in enumerate(self.hues))
        return (
            f"--page:{self.page};--surface:{self.surface};--raised:{self.raised};--ink:{self.ink};"
            f"--muted:{self.muted};--line:{self.line};--accent:{self.accent};--on-accent:{self.on_accent};"
            f"--good:{self.good};--warn:{self.warn};--bad:{self.bad};{hues}--radius:{self.radius / 14:.3f}rem;"
            f"--font:{self.font};color-scheme:{'dark' if self.dark else 'light'}"
        )


_SANS = '"Noto Sans CJK SC",sans-serif'
_WIDE = '"DejaVu Sans","Noto Sans CJK SC",sans-serif'

THEMES: tuple[InterfaceTheme, ...] = (
    InterfaceTheme("porcelain", "train", False, "#f5f6f8", "#ffffff", "#ffffff", "#1c2330", "#667085", "#dfe3ea",
                   "#2563eb", "#ffffff", "#15803d", "#b45309", "#c62828",
                   ("#2563eb", "#0e9f8e", "#d97706", "#a855c7", "#dc4c64", "#5b7083"), 6, _SANS),
    InterfaceTheme("sandstone", "train", False, "#f4efe6", "#fcf9f3", "#fffdf9", "#33291c", "#7c6e59", "#e0d6c4",
                   "#a8541c", "#ffffff", "#4d7c0f", "#b7791f", "#b3362b",
                   ("#a8541c", "#4d7c6f", "#c79a2e", "#7a5a94", "#b3525f", "#6d6a5c"), 3, _WIDE),
    InterfaceTheme("mint", "train", False, "#eef5f2", "#ffffff", "#f7fbf9", "#12302a", "#5d776f", "#cfe0d9",
                   "#0b7a63", "#ffffff", "#15803d", "#a16207", "#be3144",
                   ("#0b7a63", "#3277b8", "#d08b2c", "#8c59b5", "#cf5473", "#6b7f78"), 10, _SANS),
    InterfaceTheme("lilac", "train", False, "#f6f3fb", "#ffffff", "#fbf9ff", "#271d3b", "#6f6585", "#e1d9ee",
                   "#6d3fc4", "#ffffff", "#2f855a", "#b7651b", "#c0314f",
                   ("#6d3fc4", "#2b86c5", "#dd8a3c", "#2f9b74", "#d14d83", "#77708a"), 14, _SANS),
    InterfaceTheme("chalkboard", "train", True, "#1b1d21", "#26292e", "#2f3339", "#e7e9ec", "#9aa1ab", "#3d424a",
                   "#4c8dff", "#081325", "#4ade80", "#fbbf24", "#f87171",
                   ("#4c8dff", "#2fb8a3", "#e3a23c", "#b57bdc", "#e46a7f", "#8795a5"), 4, _SANS),
    InterfaceTheme("harbour", "train", True, "#0f1b2a", "#16273a", "#1e334a", "#e3edf7", "#8fa6bd", "#2c445d",
                   "#38bdf8", "#052033", "#4ade80", "#facc15", "#fb7185",
                   ("#38bdf8", "#34d399", "#fbbf24", "#c084fc", "#fb7185", "#94a3b8"), 8, _SANS),
    InterfaceTheme("espresso", "train", True, "#211c1a", "#2c2623", "#38302c", "#efe6df", "#ab9c91", "#493f39",
                   "#e79b58", "#2a1608", "#9acb6a", "#f0c252", "#ef7e6d",
                   ("#e79b58", "#7fb3a6", "#d8c05c", "#b893c9", "#e07b86", "#a39a90"), 5, _WIDE),
    InterfaceTheme("graphite", "train", True, "#121212", "#1c1c1e", "#2a2a2d", "#f2f2f3", "#98989f", "#37373b",
                   "#30c48d", "#04170f", "#30c48d", "#f5b83d", "#ff6961",
                   ("#30c48d", "#4f9dff", "#f5b83d", "#bf7af0", "#ff6b81", "#8e8e96"), 2, _SANS),
    InterfaceTheme("glacier", "heldout", False, "#eaf1f7", "#fafdff", "#ffffff", "#10263a", "#5a7287", "#c9d9e6",
                   "#0f6fae", "#ffffff", "#187a53", "#ad6a12", "#bd2f3f",
                   ("#0f6fae", "#1a9d7c", "#cc7f22", "#7d57b8", "#c94b62", "#627a8c"), 7, _SANS),
    InterfaceTheme("apricot", "heldout", False, "#fff5ec", "#fffaf5", "#ffffff", "#3a2317", "#8a6a58", "#f0d9c7",
                   "#d2451e", "#ffffff", "#3f7d36", "#b8730f", "#b5243a",
                   ("#d2451e", "#3b7fa6", "#c5911c", "#8a549f", "#458c5f", "#8a7466"), 12, _WIDE),
    InterfaceTheme("obsidian", "heldout", True, "#17141f", "#211d2d", "#2b263a", "#ece8f5", "#9c93b3", "#3c3551",
                   "#a78bfa", "#1a0f38", "#5fd4a0", "#f2c14e", "#f47287",
                   ("#a78bfa", "#5bb8d6", "#e8a955", "#6fcf97", "#ee7fa5", "#938aa9"), 9, _SANS),
    InterfaceTheme("pinewood", "heldout", True, "#121c17", "#1a2821", "#22352b", "#e4efe8", "#8fa89a", "#304a3c",
                   "#7ccf5a", "#0a1f06", "#7ccf5a", "#e6b84a", "#ee7b6c",
                   ("#7ccf5a", "#5aa9cf", "#e0a84a", "#a98ad6", "#dd7482", "#8aa096"), 3, _SANS),
)  # fmt: skip

ICON_SETS: dict[Split, tuple[str, ...]] = {"train": ("lucide", "tabler"), "heldout": ("bootstrap",)}
"""Files of the folder icons/; LICENSES.md there says where they come from."""

DENSITIES: tuple[Density, ...] = ("compact", "regular", "comfortable")


def interface_themes(split: Split) -> tuple[InterfaceTheme, ...]:
    """The themes that belong to a split."""
    return tuple(theme for theme in THEMES if theme.split == split)


def theme_named(name: str) -> InterfaceTheme:
    """The theme of this name."""
    return next(theme for theme in THEMES if theme.name == name)


@dataclass(frozen=True)
class IconSet:
    """Drawings by our names for them; `style` says whether a set draws with strokes or fills."""

    name: str
    style: Literal["stroke", "fill"]
    view_box: str
    drawings: dict[str, str]

    def svg(self, icon: str) -> Markup:
        """The icon as an SVG one em wide and high, in the colour of the text around it."""
        paint = 'fill="currentColor"'
        if self.style == "stroke":
            paint = (
                'fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"'
            )
        return Markup(
            f'<svg class="icon" viewBox="{self.view_box}" {paint} aria-hidden="true">{self.drawings[icon]}</svg>'
        )


@cache
def icon_set(name: str) -> IconSet:
    """Read an icon set."""
    file = files("assets.synthetic_samples.interfaces") / "icons" / f"{name}.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    drawings = {icon: drawing for icon, (_, drawing) in content["icons"].items()}
    return IconSet(name, content["style"], content["view_box"], drawings)
