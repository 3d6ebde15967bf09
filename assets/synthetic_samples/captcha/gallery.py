"""python -m assets.synthetic_samples.captcha.gallery FILE: a picture of one puzzle of every type, its answer marked."""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import TYPE_CHECKING

from assets.synthetic_samples.captcha.latent import FOOTER, Puzzle, draw_puzzle
from assets.synthetic_samples.captcha.page import FONT_SIZE, PAGE_CSS, puzzle_screen, puzzle_style
from assets.synthetic_samples.captcha.settings import PADDING, draw_setting
from assets.synthetic_samples.captcha.types import TYPES
from assets.synthetic_samples.contact_sheet import MARKS
from assets.synthetic_samples.sheets import Pixels, sheet_page
from assets.synthetic_samples.themes import SPLITS

if TYPE_CHECKING:
    from PIL.Image import Image

SCREEN = (360, 720)
TILES = (3, 2)
COLUMNS = 8
SCALE = 0.55
CAPTION = 18


def gallery(seed: int, difficulty: int) -> Image:
    """The puzzle boxes of all types in rows, a family after another; the splits and the languages take turns."""
    from PIL import Image, ImageDraw, ImageFont

    puzzles = [_puzzle(name, seed + number, difficulty) for number, name in enumerate(TYPES)]
    per_sheet = TILES[0] * TILES[1]
    boxes = []
    with sheet_page(SCREEN, TILES, PAGE_CSS, FONT_SIZE) as page:
        for start in range(0, len(puzzles), per_sheet):
            part = puzzles[start : start + per_sheet]
            drawn = page.draw([(puzzle_style(puzzle), puzzle_screen(puzzle)) for puzzle in part])
            boxes += [_marked(puzzle, screen.pixels) for puzzle, screen in zip(part, drawn, strict=True)]
    font = ImageFont.truetype("NotoSansCJK-Bold.ttc", 12)
    width, height = (max(box.size[side] for box in boxes) + 8 for side in (0, 1))
    rows = -(-len(boxes) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width, rows * (height + CAPTION)), "white")
    pen = ImageDraw.Draw(sheet)
    for number, (puzzle, box) in enumerate(zip(puzzles, boxes, strict=True)):
        left, top = number % COLUMNS * width + 4, number // COLUMNS * (height + CAPTION)
        pen.text((left, top), puzzle.type.name, "black", font)
        sheet.paste(box, (left, top + CAPTION))
    return sheet


def _puzzle(name: str, seed: int, difficulty: int) -> Puzzle:
    setting = draw_setting(random.Random(seed), SPLITS[seed % 2], "mobile", SCREEN, difficulty)
    return draw_puzzle(TYPES[name], seed, setting)


def _marked(puzzle: Puzzle, pixels: Pixels) -> Image:
    """The puzzle's box, with the places of its answer outlined and numbered."""
    from PIL import Image, ImageDraw

    screen = Image.fromarray(pixels)
    pen = ImageDraw.Draw(screen)
    places = [box for gesture in puzzle.gestures() for box in gesture.boxes]
    for number, (x0, y0, x1, y1) in enumerate(map(puzzle.on_screen, places)):
        pen.rectangle((x0, y0, x1 - 1, y1 - 1), outline=MARKS[number % len(MARKS)], width=3)
    (x, y), (left, top), (width, height) = puzzle.setting.box_at, puzzle.origin, puzzle.frame
    box = screen.crop((x, y, left + width + PADDING, top + height + FOOTER + 6))
    return box.resize((round(box.width * SCALE), round(box.height * SCALE)), Image.Resampling.LANCZOS)


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(prog="python -m assets.synthetic_samples.captcha.gallery", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--difficulty", type=int, default=3, choices=range(1, 6))
    arguments = parser.parse_args()
    picture = gallery(arguments.seed, arguments.difficulty)
    picture.quantize(128).save(arguments.file, optimize=True)


if __name__ == "__main__":
    main()
