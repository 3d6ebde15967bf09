"""The HTML of a puzzle: the picture alone, for a sheet, and the page that accepts or rejects an answer."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from importlib.resources import files

from assets.synthetic_samples.puzzles import Challenge, Item, Puzzle
from assets.synthetic_samples.scenes import theme_style
from assets.synthetic_samples.sheets import page_html, screen_html
from assets.synthetic_samples.themes import Theme


def puzzle_html(puzzle: Puzzle) -> str:
    """The inside of the puzzle's screen. `PUZZLE_CSS` gives the look, `theme_style` the colours."""
    return "".join(_item_html(index, item, puzzle.theme) for index, item in enumerate(puzzle.items))


def puzzle_page(puzzle: Puzzle, challenge: Challenge, screen: tuple[int, int], font_size: int) -> str:
    """A page of its own that puts one challenge. Its screen gets `data-verdict`, `accepted` or `rejected`, once the
    answer is complete or wrong."""
    rule = json.dumps({"clicks": challenge.clicks, "drag": asdict(challenge.drag) if challenge.drag else None})
    script = files("assets.synthetic_samples").joinpath("puzzle.js").read_text(encoding="utf-8")
    body = screen_html((0, 0), theme_style(puzzle.theme), puzzle_html(puzzle))
    return page_html(screen, PUZZLE_CSS, font_size, f"{body}<script>({script})({rule})</script>")


def _item_html(index: int, item: Item, theme: Theme) -> str:
    place = (
        f'class="{item.kind}" data-kind="{item.kind}" data-item="{index}" style="left:{item.x}px;top:{item.y}px;'
        f'width:{item.width}px;height:{item.height}px;--fill:{theme.fills[item.fill]}"'
    )
    label = html.escape(item.label)
    match item.kind:
        case "word":
            return f"<button {place}><span>{label}</span></button>"
        case "shape":
            picture = f'<svg viewBox="0 0 32 32">{_OUTLINES[item.shape]}</svg>'
            return f'<button {place} aria-label="{label}">{picture}</button>'
        case "tick":
            return f'<button role="checkbox" aria-checked="false" {place} aria-label="{label}"><i></i></button>'
        case "handle":
            return f'<button role="slider" {place} aria-label="{label}"><i></i></button>'
        case "gap" | "slot":
            return f'<div role="img" {place} aria-label="{label}"></div>'
        case _:
            return f"<div {place}></div>"


_OUTLINES = {
    "circle": '<circle cx="16" cy="16" r="14"/>',
    "square": '<rect x="3" y="3" width="26" height="26"/>',
    "triangle": '<path d="M16 2 31 29H1z"/>',
    "star": '<path d="M16 1l4.4 10.3 11.1.9-8.5 7.3 2.7 10.9L16 24.5l-9.7 5.9L9 19.5.5 12.2l11.1-.9z"/>',
    "cross": '<path d="M11 2h10v9h9v10h-9v9H11v-9H2V11h9z"/>',
}

PUZZLE_CSS = """
.screen { background: var(--page); color: var(--ink); user-select: none; }
.screen > * { position: absolute; margin: 0; padding: 0; border: 0; font: inherit; color: inherit; background: none;
  white-space: nowrap; overflow: hidden; touch-action: none; }
.bar, .panel { background: var(--surface) !important; box-shadow: 0 0 0 1px var(--line); }
.panel { border-radius: var(--radius); }
.word > span { position: absolute; inset: 0 2px 2px 0; padding: 8px 0 0 8px; line-height: 16px; text-align: left;
  background: var(--fill); color: var(--on-fill); border-radius: var(--radius); }
.shape > svg { display: block; width: 100%; height: 100%; fill: var(--fill); }
.tick > i { position: absolute; inset: 5px; border: 3px solid var(--fill); border-radius: 4px;
  background: var(--surface); }
.tick[aria-checked="true"] > i { background: var(--fill); }
.picture { background: repeating-linear-gradient(45deg, var(--line) 0 10px, var(--surface) 10px 20px) !important; }
.gap { background: #0b0c0f !important; box-shadow: inset 0 0 0 2px #ffffff; }
.piece { background: var(--fill) !important; box-shadow: inset 0 0 0 2px #ffffff; }
.track { background: var(--surface) !important; border: 1px solid var(--line) !important;
  border-radius: var(--radius); }
.slot { border: 3px dashed var(--ink) !important; border-radius: var(--radius); }
.handle > i { position: absolute; inset: 0; background: var(--fill); border-radius: var(--radius); }
.handle > i::after { content: ""; position: absolute; inset: 9px; background: var(--on-fill); border-radius: 50%; }
"""
