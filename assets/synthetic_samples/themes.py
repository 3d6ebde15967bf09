"""The colours of synthetic screens. A theme belongs to one split: held-out themes never occur in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")


@dataclass(frozen=True)
class Theme:
    """Colours as CSS writes them.

    `page` is the ground, `surface` what bars, rows and fields lie on, `ink` the text on both, `line` their border,
    `fills` the colours of filled controls, `on_fill` the text on them, `radius` the corner radius in pixels.
    """

    name: str
    split: Split
    page: str
    surface: str
    ink: str
    line: str
    fills: tuple[str, ...]
    on_fill: str
    radius: int


THEMES: tuple[Theme, ...] = (
    Theme("paper", "train", "#ffffff", "#f1f3f6", "#1d2129", "#c4c9d2",
          ("#dc3c3c", "#3c5adc", "#32a050", "#787882", "#d9822b", "#8c46be"), "#ffffff", 4),
    Theme("mist", "train", "#f0f0f5", "#ffffff", "#22252c", "#bcc2cf",
          ("#c62f4a", "#2f6fd0", "#20875a", "#5b6472", "#c8701a", "#7440b0"), "#ffffff", 8),
    Theme("night", "train", "#1e2028", "#2c303b", "#f2f4f8", "#565d6e",
          ("#e05252", "#4a72e8", "#3aa860", "#868c9a", "#e0913c", "#9a5cd0"), "#ffffff", 4),
    Theme("linen", "train", "#faf6eb", "#fffdf7", "#332b20", "#d3c7ae",
          ("#b8442e", "#345fa8", "#4c8a3c", "#7b7264", "#b97d16", "#84479a"), "#ffffff", 0),
    Theme("ocean", "train", "#e4eff8", "#f8fbfe", "#14283c", "#a9c1d6",
          ("#d0455c", "#1769c4", "#12866f", "#5c7183", "#cf7a22", "#6a4fc0"), "#ffffff", 12),
    Theme("slate", "train", "#2d3440", "#3b4452", "#eef1f6", "#667084",
          ("#d85a5a", "#5a86f0", "#45b072", "#929bab", "#e59a48", "#a56ad8"), "#ffffff", 8),
    Theme("rose", "heldout", "#fbeef0", "#fff8f9", "#3a1d24", "#dcb9c0",
          ("#cc3a50", "#4464c8", "#348c58", "#80707a", "#cc7a30", "#8f4aac"), "#ffffff", 6),
    Theme("moss", "heldout", "#eaf3e6", "#f8fcf6", "#1f2c1a", "#b3c8a9",
          ("#c64a3c", "#3a66bc", "#2f8f4a", "#6a7a66", "#c07a1e", "#7d4cb4"), "#ffffff", 3),
    Theme("ink", "heldout", "#16181d", "#24272f", "#f5f6f8", "#4c5260",
          ("#d64c4c", "#4068dc", "#35a058", "#7d838f", "#d6882f", "#9052c6"), "#ffffff", 10),
)  # fmt: skip


def themes_of(split: Split) -> tuple[Theme, ...]:
    """The themes that belong to a split."""
    return tuple(theme for theme in THEMES if theme.split == split)
