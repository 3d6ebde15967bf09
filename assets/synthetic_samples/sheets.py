"""Many screens on one page: a sheet is laid out, measured and photographed in a single browser pass, then cut."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from assets.environments.chromium import browser, screenshot

if TYPE_CHECKING:
    from playwright.sync_api import Page

Box = tuple[float, float, float, float]
Pixels = npt.NDArray[np.uint8]

MARGIN = 4
"""Pixels that a control's box must be wide and high at least, to be a target."""


@dataclass(frozen=True)
class Element:
    """Something labelled on a screen, as the browser laid it out.

    `box` is (x0, y0, x1, y1) in the screen's pixels. `hits` counts the points of the nine-point hit test that reach
    the element; `fits` tells whether its text is whole, `painted` whether its box shows more than one colour.
    """

    label: str
    kind: str
    box: Box
    hits: int
    fits: bool
    painted: bool

    @property
    def target(self) -> bool:
        """Whether a click anywhere in the box is a click on this element, and a person can see what it is."""
        return self.hits == 9 and self.fits and self.painted


@dataclass(frozen=True)
class Drawn:
    """One screen of a sheet: its pixels `[height, width, 3]` and what was found on it, in document order."""

    pixels: Pixels
    elements: tuple[Element, ...]


class SheetPage:
    """A browser page that draws sheets of screens, all of one size."""

    def __init__(self, page: Page, screen: tuple[int, int], tiles: tuple[int, int]) -> None:
        self._page = page
        self._screen = screen
        self._columns = tiles[0]

    def draw(self, screens: Sequence[tuple[str, str]]) -> list[Drawn]:
        """Draw screens given as (style, inner HTML), at most a sheet of them."""
        width, height = self._screen
        places = [(index % self._columns * width, index // self._columns * height) for index in range(len(screens))]
        sheet = "".join(
            f'<div class="screen" style="left:{x}px;top:{y}px;{style}">{inner}</div>'
            for (x, y), (style, inner) in zip(places, screens, strict=True)
        )
        measured: list[list[Any]] = self._page.evaluate(SHEET_SCRIPT, sheet)
        pixels = decode_png(screenshot(self._page))
        drawn = []
        for (x, y), found in zip(places, measured, strict=True):
            tile = pixels[y : y + height, x : x + width]
            drawn.append(Drawn(tile, tuple(_element(tile, *values) for values in found)))
        return drawn


@contextmanager
def sheet_page(screen: tuple[int, int], tiles: tuple[int, int], css: str, font_size: int) -> Iterator[SheetPage]:
    """Open a page for sheets of `tiles` (across, down) screens, with a style sheet of its own.

    Raises:
        MissingProgramError: no Chromium is installed.
        InfrastructureError: it does not start.
    """
    width, height = screen
    frame = (
        f"body {{ margin: 0; font: bold {font_size}px/{font_size + 3}px {FONTS}; }}"
        f".screen {{ position: absolute; overflow: hidden; contain: strict; width: {width}px; height: {height}px; }}"
        "* { box-sizing: border-box; }"
    )
    with browser() as chromium:
        page = chromium.new_page(width * tiles[0], height * tiles[1])
        page.set_content(f"<!DOCTYPE html><html><head><style>{frame}{css}</style></head><body></body></html>")
        yield SheetPage(page, screen, tiles)


FONTS = '"DejaVu Sans", "Noto Sans CJK SC", sans-serif'
SHEET_SCRIPT = files("assets.synthetic_samples").joinpath("sheet.js").read_text(encoding="utf-8")


def _element(tile: Pixels, label: str, kind: str, box: list[float], hits: int, fits: bool) -> Element:
    x0, y0, x1, y1 = (round(value) for value in box)
    inner = tile[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
    large = x1 - x0 >= MARGIN and y1 - y0 >= MARGIN
    painted = large and bool((inner != inner[:1, :1]).any())
    return Element(label, kind, (box[0], box[1], box[2], box[3]), hits, fits, painted)


def decode_png(data: bytes) -> Pixels:
    """`[height, width, 3]` RGB."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def encode_png(pixels: Pixels) -> bytes:
    """A small lossless PNG of a flat-coloured picture; the same pixels give the same bytes."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()
