"""Many screens on one page: a sheet is laid out, measured and photographed in a single browser pass, then cut."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from assets.environments.chromium import Chromium, browser, devtools

if TYPE_CHECKING:
    from playwright.sync_api import Page

T = TypeVar("T")
R = TypeVar("R")
Box = tuple[float, float, float, float]
Pixels = npt.NDArray[np.uint8]

PATIENCE = 60.0
"""Seconds after which a browser that draws a sheet counts as hung; a sheet takes half a second."""

SMALLEST_SIDE = 4
"""Pixels that the box of a target must be wide and high."""


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
    """A browser page that draws sheets of screens, all of one size. After `draw`, `page` still shows the sheet."""

    def __init__(self, chromium: Chromium, page: Page, screen: tuple[int, int], tiles: tuple[int, int]) -> None:
        self.page = page
        self._chromium = chromium
        self._screen = screen
        self._columns = tiles[0]
        self._per_sheet = tiles[0] * tiles[1]

    def draw_all(
        self, drawings: Iterable[T], look: Callable[[T], tuple[str, str]], make: Callable[[T, Drawn], R]
    ) -> Generator[R, None, None]:
        """What `make` makes of each drawing of a stream of any length, in order; a full sheet is drawn at a time.

        `look` gives a drawing's style and HTML. `make` runs in a thread of its own while the browser draws the next
        sheet. Close the generator if you stop early: the thread ends with it.
        """
        stream = iter(drawings)
        with ThreadPoolExecutor(1) as thread:
            made: Future[list[R]] | None = None
            while batch := list(islice(stream, self._per_sheet)):
                before, made = made, thread.submit(_make, make, batch, self.draw([look(it) for it in batch]))
                if before is not None:
                    yield from before.result()
            if made is not None:
                yield from made.result()

    def draw(self, screens: Sequence[tuple[str, str]]) -> list[Drawn]:
        """Draw screens given as (style, inner HTML), at most a sheet of them.

        Raises:
            InfrastructureError: the browser died or hangs.
        """
        width, height = self._screen
        places = [(index % self._columns * width, index // self._columns * height) for index in range(len(screens))]
        sheet = "".join(screen_html(place, *screen) for place, screen in zip(places, screens, strict=True))
        with self._chromium.guard("draw a sheet of screens"):
            measured: list[list[Any]] = json.loads(self.page.evaluate(SHEET_SCRIPT, sheet))
            png = self._photograph()
        pixels = decode_png(png)
        drawn = []
        for (x, y), found in zip(places, measured, strict=True):
            tile = pixels[y : y + height, x : x + width]
            drawn.append(Drawn(tile, tuple(_element(tile, *values) for values in found)))
        return drawn

    def _photograph(self) -> bytes:
        # The PNG is decoded at once: its size doesn't matter, the time to write it does.
        options = {"format": "png", "optimizeForSpeed": True}
        return base64.b64decode(devtools(self.page).send("Page.captureScreenshot", options)["data"])


def _make(make: Callable[[T, Drawn], R], batch: list[T], drawn: list[Drawn]) -> list[R]:
    return [make(drawing, it) for drawing, it in zip(batch, drawn, strict=True)]


@contextmanager
def sheet_page(screen: tuple[int, int], tiles: tuple[int, int], css: str, font_size: int) -> Iterator[SheetPage]:
    """Open a page for sheets of `tiles` (across, down) screens, with a style sheet of its own.

    Raises:
        MissingProgramError: no Chromium is installed.
        InfrastructureError: it does not start.
    """
    with browser(timeout=PATIENCE) as chromium:
        page = chromium.new_page(screen[0] * tiles[0], screen[1] * tiles[1])
        with chromium.guard("open a page for sheets"):
            page.set_content(page_html(screen, css, font_size))
        yield SheetPage(chromium, page, screen, tiles)


def screen_html(place: tuple[int, int], style: str, inner: str) -> str:
    """One screen, at its place on the page."""
    return f'<div class="screen" style="left:{place[0]}px;top:{place[1]}px;{style}">{inner}</div>'


def page_html(screen: tuple[int, int], css: str, font_size: int, body: str = "") -> str:
    """A page for screens of one size, with a style sheet of its own."""
    frame = (
        f"body {{ margin: 0; font: bold {font_size}px/{font_size + 3}px {FONTS}; }}"
        "* { box-sizing: border-box; }"
        ".screen { position: absolute; overflow: hidden; contain: strict;"
        f" width: {screen[0]}px; height: {screen[1]}px; }}"
    )
    return f"<!DOCTYPE html><html><head><style>{frame}{css}</style></head><body>{body}</body></html>"


FONTS = '"DejaVu Sans", "Noto Sans CJK SC", sans-serif'
SHEET_SCRIPT = files("assets.synthetic_samples").joinpath("sheet.js").read_text(encoding="utf-8")


def _element(tile: Pixels, label: str, kind: str, box: list[float], hits: int, fits: bool) -> Element:
    x0, y0, x1, y1 = (round(value) for value in box)
    inner = tile[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
    large = x1 - x0 >= SMALLEST_SIDE and y1 - y0 >= SMALLEST_SIDE
    painted = large and bool((inner != inner[:1, :1]).any())
    return Element(label, kind, (box[0], box[1], box[2], box[3]), hits, fits, painted)


def decode_png(data: bytes) -> Pixels:
    """`[height, width, 3]` RGB."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def encode_png(pixels: Pixels) -> bytes:
    """A lossless PNG; the same pixels give the same bytes.

    Rows go unfiltered to the fastest Deflate: on flat colours that is smaller than any filter and takes a quarter of
    Pillow's time.
    """
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
