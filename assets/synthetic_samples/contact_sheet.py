"""A contact sheet: screens with the boxes of their questions drawn on, and the instructions beside them."""

from __future__ import annotations

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
    """Collects the first `count` screens it is given."""

    def __init__(self, count: int, columns: int) -> None:
        self._count = count
        self._columns = columns
        self._screens: list[tuple[npt.NDArray[np.uint8], Sequence[Mapping[str, Any]], str]] = []

    def add(self, pixels: npt.NDArray[np.uint8], questions: Sequence[Mapping[str, Any]], caption: str) -> None:
        """Add a screen with its questions (rows of the table), while there is room."""
        if len(self._screens) < self._count:
            self._screens.append((pixels.copy(), questions, caption))

    def image(self) -> Image:
        """The sheet: each screen with numbered boxes, its caption and its instructions below."""
        from PIL import Image, ImageDraw, ImageFont

        font = ImageFont.truetype("NotoSansCJK-Bold.ttc", 11)
        height, width = self._screens[0][0].shape[:2]
        lines = 1 + max(len(questions) for _, questions, _ in self._screens)
        cell = (max(width, 232) + 12, height + lines * LINE + 12)
        rows = -(-len(self._screens) // self._columns)
        sheet = Image.new("RGB", (self._columns * cell[0], rows * cell[1]), "white")
        draw = ImageDraw.Draw(sheet)
        for index, (pixels, questions, caption) in enumerate(self._screens):
            left, top = index % self._columns * cell[0] + 6, index // self._columns * cell[1] + 6
            sheet.paste(Image.fromarray(pixels), (left, top))
            draw.text((left, top + height), caption, "black", font)
            for number, question in enumerate(questions):
                mark = MARKS[number % len(MARKS)]
                text = f"{number + 1} {question['instruction']} → {_answer(question)}"
                draw.text((left, top + height + (number + 1) * LINE), text, mark, font)
                for x0, y0, x1, y1 in question["boxes"]:
                    draw.rectangle((left + x0, top + y0, left + x1 - 1, top + y1 - 1), outline=mark, width=2)
        return sheet


def _answer(question: Mapping[str, Any]) -> str:
    """The response without its tags, on one line."""
    return str(question["response"]).removeprefix("<action>").removesuffix("</action>").replace("\n", "; ")
