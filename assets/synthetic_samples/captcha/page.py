"""A puzzle composed into a page: as a screen to be photographed, and as the page that answers."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha.latent import CONFIRM, FOOTER, Puzzle, confirm_box
from assets.synthetic_samples.captcha.settings import BAR, FIELD, HEADING, PADDING, Setting
from assets.synthetic_samples.scenes import theme_style
from assets.synthetic_samples.sheets import page_html, screen_html

SAYS: dict[Locale, dict[str, str]] = {
    "en": {
        "accepted": "Verified",
        "rejected": "Not right, here is another",
        "renewed": "A new one",
        "locked": "Too many attempts",
        "renew": "New puzzle",
        "confirm": "Confirm",
    },
    "zh": {
        "accepted": "验证通过",
        "rejected": "不对，请再试一次",
        "renewed": "已换一题",
        "locked": "尝试次数过多",
        "renew": "换一题",
        "confirm": "确定",
    },
}  # fmt: skip
"""What the puzzle's box says around the puzzle."""

PAGE_CSS = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
FONT_SIZE = 14


def puzzle_style(puzzle: Puzzle) -> str:
    """The colours of the page, as CSS variables."""
    theme = puzzle.setting.theme
    return f"{theme_style(theme)};--accent:{theme.fills[1]}"


def puzzle_screen(puzzle: Puzzle, proof: bool = False) -> str:
    """The inside of the screen. `proof` lays an unseen element over each place of the solution, labelled with its
    number, so that a sheet measures whether it is in view and not covered."""
    return _site(puzzle.setting, _box(puzzle) + (_proof(puzzle) if proof else ""))


def puzzle_page(puzzles: Sequence[Puzzle]) -> str:
    """A page that puts the first puzzle and, after wrong answers or on request, the others in turn.

    Its `captcha.state` tells `verdict` (open, accepted, locked), the number of the `puzzle` it shows, `rejections` and
    `renewals`; the form's field `verified` is ticked once an answer was accepted.
    """
    first = puzzles[0]
    views = [
        {"html": _box(puzzle), "rule": puzzle.interaction.rule(), "mechanic": _script(puzzle).removesuffix(".js")}
        for puzzle in puzzles
    ]
    scripts = "".join(
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.js", *sorted({_script(puzzle) for puzzle in puzzles}))
    )
    begin = f"captcha.begin({_in_script(views)}, {_in_script(SAYS[first.setting.locale])})"
    body = screen_html((0, 0), puzzle_style(first), puzzle_screen(first))
    field = '<input type="checkbox" name="verified" hidden>'
    return page_html(first.setting.screen, PAGE_CSS, FONT_SIZE, f"{body}{field}<script>{scripts}{begin}</script>")


def _script(puzzle: Puzzle) -> str:
    return puzzle.interaction.script


def _in_script(value: object) -> str:
    """JSON that can't end the script it stands in."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True).replace("</", "<\\/")


def _site(setting: Setting, box: str) -> str:
    """The page with the puzzle's box on it."""
    text, (width, _), bar = setting.text, setting.screen, BAR[setting.platform]
    x, y = setting.box_at
    across = setting.picture_width + 2 * PADDING
    parts = [f'<div class="bar" style="height:{bar}px;line-height:{bar}px">{html.escape(text.name)}</div>']
    if setting.layout == "column":
        left, column, top, count = x, across, bar, setting.fields_above
    else:
        left, column = (16, width - 32) if setting.platform == "mobile" else (width // 2 - 400, 380)
        top, count = bar + 20, len(text.fields)
    parts.append(f'<h1 data-kind="title" style="left:{left}px;top:{top + 8}px">{html.escape(text.heading)}</h1>')
    top += HEADING
    for label in text.fields[:count]:
        parts.append(_field(label, left, top, column))
        top += FIELD
    if setting.layout == "column":
        top = y
    else:
        parts.append(_submit(text.button, left, top + 8, column))
        parts.append(
            f'<a href="#" data-kind="link" style="left:{left}px;top:{top + 58}px">{html.escape(text.link)}</a>'
        )
    if setting.layout == "dialog":
        parts.append('<div class="shade"></div>')
    return f'<div class="site">{"".join(parts)}{box}</div>'


def _field(label: str, left: int, top: int, width: int) -> str:
    name = html.escape(label)
    return (
        f'<label style="left:{left}px;top:{top}px">{name}</label>'
        f'<input data-kind="field" aria-label="{name}" style="left:{left}px;top:{top + 20}px;width:{width}px">'
    )


def _submit(label: str, left: int, top: int, width: int) -> str:
    place = f"left:{left}px;top:{top}px;width:{width}px"
    return f'<button class="submit" data-kind="button" disabled style="{place}">{html.escape(label)}</button>'


def _box(puzzle: Puzzle) -> str:
    """The puzzle's box: instruction, frame, and the row of buttons."""
    setting, interaction = puzzle.setting, puzzle.interaction
    (x, y), (width, height) = setting.box_at, puzzle.frame
    header = setting.header(puzzle.instruction)
    foot = PADDING + header + height
    says = SAYS[setting.locale]
    svg = (
        f'<svg width="{puzzle.width}" height="{puzzle.height}" viewBox="0 0 {puzzle.width} {puzzle.height}">'
        f"{puzzle.picture}</svg>"
    )
    confirm = ""
    if interaction.confirm:
        x0, y0, _, _ = confirm_box(width, height)
        place = _place(PADDING + x0, PADDING + header + y0, *CONFIRM)
        confirm = f'<button class="confirm" data-kind="button" style="{place}">{says["confirm"]}</button>'
    ask = _place(PADDING, PADDING - 4, width, header - 8)
    frame = _place(PADDING, PADDING + header, width, height)
    renew = _place(PADDING, foot + 6, 84, 32)
    status = _place(PADDING + 88, foot + 6, width - 92 - CONFIRM[0], 32)
    return (
        f'<section class="captcha" style="{_place(x + 1, y + 1, width + 2 * PADDING, foot + FOOTER + 6)}">'
        f'<p class="ask" style="{ask}">{html.escape(puzzle.instruction)}</p>'
        f'<div class="frame" style="{frame}">{svg}{interaction.controls(setting.locale)}</div>'
        f'<button class="renew" data-kind="button" style="{renew}">{says["renew"]}</button>'
        f'<span class="status" style="{status}"></span>{confirm}</section>'
    )


def _place(x: float, y: float, width: float, height: float) -> str:
    """Within the box, whose border is a pixel wide."""
    return f"left:{x - 1:g}px;top:{y - 1:g}px;width:{width:g}px;height:{height:g}px"


def _proof(puzzle: Puzzle) -> str:
    # Where a drag begins and ends need not be painted: a part comes there only when the one before it was done.
    boxes = [
        ("place" if gesture.name == "Drag" else "target", puzzle.on_screen(box))
        for gesture in puzzle.gestures()
        for box in gesture.boxes
    ]
    return "".join(
        f'<i role="img" data-proof data-kind="{kind}" aria-label="{number}" '
        f'style="left:{x0}px;top:{y0}px;width:{x1 - x0}px;height:{y1 - y0}px"></i>'
        for number, (kind, (x0, y0, x1, y1)) in enumerate(boxes, 1)
    )
