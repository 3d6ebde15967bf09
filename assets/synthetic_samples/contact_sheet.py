"""A contact sheet: screens with the boxes of their questions drawn on, and the instructions beside them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

MARKS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#0aa3a3", "#c71585", "#808000")
LINE = 15
"""Height of a line of text."""


class ContactSheet:
    """Collects the first `count` screens it is given.

    Args:
        width: into which every screen is fitted, in pixels, and three quarters of it high; boxes then bear the numbers
            of their instructions. Without it screens are as large as they are.
    """

    def __init__(self, count: int, columns: int, width: int | None = None) -> None:
        self._count = count
        self._columns = columns
        self._width = width
        self._screens: list[tuple[npt.NDArray[np.uint8], Sequence[Mapping[str, Any]], str, float]] = []

    def add(self, pixels: npt.NDArray[np.uint8], questions: Sequence[Mapping[str, Any]], caption: str) -> None:
        """Add a screen with its questions (rows of the table), while there is room."""
        if len(self._screens) < self._count:
            shown, scale = (pixels.copy(), 1.0) if self._width is None else _resized(pixels, self._width)
            self._screens.append((shown, questions, caption, scale))

    def image(self) -> Image:
        """The sheet: each screen with its boxes in the colours of the instructions below it."""
        from PIL import Image, ImageDraw, ImageFont

        font = ImageFont.truetype("NotoSansCJK-Bold.ttc", 11)
        height, width = (max(screen[0].shape[side] for screen in self._screens) for side in (0, 1))
        texts = [
            [caption, *(f"{number} {_line(question)}" for number, question in enumerate(questions, 1))]
            for _, questions, caption, _ in self._screens
        ]
        widest = max(width, *(math.ceil(font.getlength(text)) for lines in texts for text in lines))
        cell = (widest + 12, height + max(map(len, texts)) * LINE + 12)
        rows = -(-len(self._screens) // self._columns)
        sheet = Image.new("RGB", (self._columns * cell[0], rows * cell[1]), "white")
        draw = ImageDraw.Draw(sheet)
        for index, ((pixels, questions, _, scale), lines) in enumerate(zip(self._screens, texts, strict=True)):
            left, top = index % self._columns * cell[0] + 6, index // self._columns * cell[1] + 6
            sheet.paste(Image.fromarray(pixels), (left, top))
            draw.text((left, top + height), lines[0], "black", font)
            for number, question in enumerate(questions):
                mark = MARKS[number % len(MARKS)]
                draw.text((left, top + height + (number + 1) * LINE), lines[number + 1], mark, font)
                boxes = [[scale * side for side in box] for box in question["boxes"]]
                for x0, y0, x1, y1 in boxes:
                    draw.rectangle((left + x0, top + y0, left + x1 - 1, top + y1 - 1), outline=mark, width=2)
                    if self._width is not None:  # there are more questions than colours
                        corner = (left + x0, top + y0)
                        draw.rectangle(draw.textbbox(corner, str(number + 1), font), fill=mark)
                        draw.text(corner, str(number + 1), "white", font)
                if any(action["end"] is not None for action in question["actions"]):
                    middles = [(left + (x0 + x1) / 2, top + (y0 + y1) / 2) for x0, y0, x1, y1 in boxes]
                    draw.line(middles, fill=mark, width=2)
        return sheet


def _resized(pixels: npt.NDArray[np.uint8], width: int) -> tuple[npt.NDArray[np.uint8], float]:
    """A picture `[height, width, 3]` that fits, and by what it was scaled."""
    from PIL import Image

    scale = min(width / pixels.shape[1], 0.75 * width / pixels.shape[0], 1)
    size = (round(pixels.shape[1] * scale), round(pixels.shape[0] * scale))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)), scale


def _line(question: Mapping[str, Any]) -> str:
    """The instruction and the coordinates of the answer, as the response writes them."""
    points = " ".join(re.findall(r"\(-?\d+, -?\d+\)", question["response"]))
    return f"{question['instruction']} → {points}"
