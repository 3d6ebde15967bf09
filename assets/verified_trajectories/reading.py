"""Reading what an agent pointed at, from pixels alone: the control under a point, its text, two ways to read it.

Small screens are flat: a control is a patch of one colour with text on it. The text nearest to the point, within the
patch (or, on a bare ground, within its line), is what the point names. Two readers that fail differently turn its
pixels into a word: RapidOCR's recogniser, and correlation with the words of the interface vocabulary as drawn by
Pillow. Both remember what they have read by the digest of the pixels.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.errors import MissingProgramError

Picture = NDArray[np.uint8]
"""`[height, width, 3]`, RGB."""

LINE = 15
"""Half the height in pixels of a line of text with its surroundings; what is further from the point is another line."""
CARD = 72
"""Height up to which a patch is taken to be one control; a higher one is the ground of several."""
LEADING = 2
"""Blank rows that part one line from the next."""
NEAR = 6
"""Pixels around the point in which its ground is looked for."""
GAP = 9
"""Blank columns that part one text from the next."""
CONTRAST = 90
"""Sum over the channels by which a pixel of text differs from its ground."""


@dataclass(frozen=True)
class Reading:
    """A text that was read and how sure the reader is of it, 0-1."""

    text: str
    confidence: float


class Reader(Protocol):
    """Turns the picture of one short text into the text."""

    name: str

    def read(self, texts: Sequence[Picture]) -> list[Reading]:
        """Read a batch of cut-out texts."""
        ...


def decode(png: bytes) -> Picture:
    """Pixels of a PNG."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def texts_at(picture: Picture, x: float, y: float) -> list[Picture]:
    """Cut-outs of the texts of the control under a point, framed in their ground, the nearest to the point first.

    Empty on a bare ground.
    """
    height, width = picture.shape[:2]
    column, row = min(max(int(x), 0), width - 1), min(max(int(y), 0), height - 1)
    (x0, y0, x1, y1), ground = _patch(picture, column, row)
    if y1 - y0 > CARD:
        y0, y1 = max(y0, row - LINE), min(y1, row + LINE + 1)
    if x1 - x0 < 4 or y1 - y0 < 4:
        return []
    area = picture[y0:y1, x0:x1]
    ink = _ink(area, ground)
    found: list[tuple[int, int, Picture]] = []
    for top, bottom in _spans(np.asarray(ink.any(axis=1)), LEADING):
        for start, stop in _spans(np.asarray(ink[top:bottom].any(axis=0)), GAP):
            rows = top + np.flatnonzero(ink[top:bottom, start:stop].any(axis=1))
            if stop - start >= 5 and rows[-1] - rows[0] >= 5:
                cut = area[rows[0] : rows[-1] + 1, start:stop]
                down = max(int(rows[0]) - (row - y0), (row - y0) - int(rows[-1]), 0)
                across = max(start - (column - x0), (column - x0) - (stop - 1), 0)
                found.append((down, across, _framed(cut, ground)))
    found.sort(key=lambda entry: entry[:2])
    return [cut for _, _, cut in found]


def _patch(picture: Picture, column: int, row: int) -> tuple[tuple[int, int, int, int], NDArray[np.int16]]:
    """(box, colour) of the largest connected patch of one colour that comes near a point: the control's ground.

    The largest, since ink makes patches too, and so do the holes of its letters.
    """
    import cv2

    top, left = max(row - NEAR, 0), max(column - NEAR, 0)
    window = (slice(top, row + NEAR + 1), slice(left, column + NEAR + 1))
    best, found = 0, ((column, row, column + 1, row + 1), picture[row, column].astype(np.int16))
    for colour in _commonest(picture[window], 3):
        same = (np.abs(picture.astype(np.int16) - colour).sum(axis=2) <= 12).astype(np.uint8)
        _, labels, boxes, _ = cv2.connectedComponentsWithStats(same, connectivity=4)
        for name in np.unique(labels[window]):
            x, y, wide, high, area = (int(value) for value in boxes[name])
            if name > 0 and area > best:
                best, found = area, ((x, y, x + wide, y + high), colour)
    return found


def _commonest(area: Picture, count: int) -> list[NDArray[np.int16]]:
    """The commonest colours of an area, the commonest first."""
    packed = area.reshape(-1, 3).astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
    values, counts = np.unique(packed, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:count]
    return [np.array([value >> 16, value >> 8 & 255, value & 255], np.int16) for value in values[order].tolist()]


def _ink(area: Picture, ground: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Where something is drawn on the ground. What touches the edge of the area is no text of it: round corners,
    frames, rules, the neighbouring line."""
    import cv2

    drawn = (np.abs(area.astype(np.int16) - ground).sum(axis=2) > CONTRAST).astype(np.uint8)
    _, labels = cv2.connectedComponents(drawn, connectivity=8)
    edges = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    ink: NDArray[np.bool_] = (labels > 0) & ~np.isin(labels, np.unique(edges))
    return ink


def _spans(used: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """[start, stop) of runs of used columns that at least `gap` unused ones part."""
    places = np.flatnonzero(used)
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) > gap)
    starts = [places[0], *places[breaks + 1]]
    stops = [*places[breaks], places[-1]]
    return [(int(start), int(stop) + 1) for start, stop in zip(starts, stops, strict=True)]


def read_at(reader: Reader, picture: Picture, x: float, y: float, sure: float) -> Reading:
    """What the control under a point says: its nearest text that the reader is sure of, else its surest.

    A single character comes last: a drawn switch or an icon looks like one.
    """
    readings = reader.read(texts_at(picture, x, y)[:MOST_TEXTS])
    certain = [reading for reading in readings if reading.confidence >= sure]
    certain.sort(key=lambda reading: len(reading.text) < 2)
    return certain[0] if certain else max(readings, key=lambda reading: reading.confidence, default=NOTHING)


def lines_of(picture: Picture) -> list[Picture]:
    """Cut-outs of every text that lies on the commonest colour of the screen, top to bottom."""
    ground = _commonest(picture, 1)[0]
    ink = np.abs(picture.astype(np.int16) - ground).sum(axis=2) > CONTRAST
    found = []
    for top, bottom in _spans(np.asarray(ink.any(axis=1)), LEADING):
        for start, stop in _spans(np.asarray(ink[top:bottom].any(axis=0)), GAP):
            if 5 < bottom - top < 2 * LINE and stop - start > 5:
                found.append(_framed(picture[top:bottom, start:stop], ground))
    return found


def shows(picture: Picture, word: str, sure: float) -> bool:
    """Whether a word of the vocabulary is drawn somewhere on the screen, on whatever ground."""
    import cv2

    template = dict(_templates()).get(word)
    if template is None:
        return False
    grey = picture.astype(np.float32).mean(axis=2)
    match = cv2.matchTemplate(grey, template, cv2.TM_CCOEFF_NORMED)
    return bool(max(float(match.max()), -float(match.min())) >= sure)


MOST_TEXTS = 3
"""Texts of one control that are looked at: a label, perhaps a value, perhaps a drawn switch."""
NOTHING = Reading("", 0.0)


# --- readers ---------------------------------------------------------------------------------------------------------


class Remembering:
    """A reader that reads each picture once. `hits` and `asked` say how often that helped."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.name
        self._reader = reader
        self._known: dict[bytes, Reading] = {}
        self.asked = 0
        self.hits = 0

    def read(self, texts: Sequence[Picture]) -> list[Reading]:
        """Read a batch, what is new of it only."""
        keys = [hashlib.sha256(repr(text.shape).encode() + text.tobytes()).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        self.asked += len(keys)
        self.hits += len(keys) - len(new)
        if new:
            self._known.update(zip(new, self._reader.read(list(new.values())), strict=True))
        return [self._known[key] for key in keys]


class OcrReader:
    """RapidOCR's text recogniser (PP-OCR, Chinese and English), offline: the model comes with its package.

    Run on ONNX Runtime without the package's own code, whose configuration needs a version of the antlr4 runtime that
    Dagster excludes.

    Args:
        threads: of ONNX Runtime.

    Raises:
        MissingProgramError: the package `rapidocr` is not installed or has no recogniser.
    """

    name = "ocr"

    def __init__(self, threads: int = 1) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(_recogniser(), options, providers=["CPUExecutionProvider"])
        characters = self._session.get_modelmeta().custom_metadata_map["character"].split("\n")
        # Class 0 is CTC's blank; the last class is the space, which the list leaves out.
        self._characters = ["", *(character for character in characters if character), " "]

    def read(self, texts: Sequence[Picture]) -> list[Reading]:
        """Read each cut-out as one line, alone: in a batch, the company it keeps would change its last digits."""
        return [self._read(text) for text in texts]

    def _read(self, text: Picture) -> Reading:
        """The line scaled to the height that the network was trained on, padded to one of a few widths."""
        import cv2

        width = max(round(text.shape[1] * OCR_HEIGHT / text.shape[0]), 16)
        line = cv2.resize(text, (width, OCR_HEIGHT), interpolation=cv2.INTER_CUBIC)
        pixels = np.zeros((1, 3, OCR_HEIGHT, -(-width // OCR_WIDTH) * OCR_WIDTH), np.float32)
        pixels[0, :, :, :width] = line[:, :, ::-1].transpose(2, 0, 1).astype(np.float32) / 127.5 - 1
        (probabilities,) = self._session.run(None, {self._session.get_inputs()[0].name: pixels})
        return self._decoded(np.asarray(probabilities)[0])

    def _decoded(self, probabilities: NDArray[np.float32]) -> Reading:
        """CTC, greedy: repeats merged, blanks dropped; the confidence is the characters' mean. `[time, class]`."""
        best = probabilities.argmax(axis=1)
        kept = (best != 0) & np.append(True, best[1:] != best[:-1])
        text = "".join(self._characters[index] for index in best[kept])
        confidence = float(probabilities.max(axis=1)[kept].mean()) if kept.any() else 0.0
        return Reading(text.strip(), confidence)


OCR_HEIGHT = 48
OCR_WIDTH = 96
"""Pixels; the widths are its multiples."""


def _recogniser() -> str:
    """Path of the recogniser's model in the package."""
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec("rapidocr")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    models = sorted(path for folder in folders for path in (Path(folder) / "models").glob("*_rec_*.onnx"))
    if not models:
        raise MissingProgramError("RapidOCR's recogniser is not installed: `pip install rapidocr`")
    return str(models[0])


class VocabularyReader:
    """The word of the interface vocabulary whose drawing correlates best with the cut-out."""

    name = "template"

    def read(self, texts: Sequence[Picture]) -> list[Reading]:
        """Compare each cut-out with every word of about its size."""
        return [self._read(text) for text in texts]

    def _read(self, text: Picture) -> Reading:
        import cv2

        ink = _coverage(text)
        best = Reading("", 0.0)
        for word, template in _templates():
            wider, higher = ink.shape[1] - template.shape[1], ink.shape[0] - template.shape[0]
            if not (0 <= wider <= 2 * MARGIN + 3 and 0 <= higher <= 2 * MARGIN + 4):  # underlined text is higher
                continue
            score = float(cv2.matchTemplate(ink, template, cv2.TM_CCOEFF_NORMED).max())
            if score > best.confidence:
                best = Reading(word, score)
        return best


def _framed(text: Picture, ground: NDArray[np.int16]) -> Picture:
    """The cut-out with a margin in the colour of its ground."""
    height, width = text.shape[:2]
    framed = np.empty((height + 2 * MARGIN, width + 2 * MARGIN, 3), np.uint8)
    framed[:] = ground
    framed[MARGIN : MARGIN + height, MARGIN : MARGIN + width] = text
    return framed


MARGIN = 3


def _coverage(text: Picture) -> NDArray[np.float32]:
    """How much of each pixel is ink, 0-1, whatever the colours."""
    distance = np.abs(text.astype(np.float32) - text[0, 0]).sum(axis=2)
    return (distance / max(float(distance.max()), 1.0)).astype(np.float32)


@cache
def _templates() -> tuple[tuple[str, NDArray[np.float32]], ...]:
    """(word, ink coverage) of every word, cut to its ink, in the two fonts that the interfaces are drawn with."""
    from PIL import Image, ImageDraw, ImageFont

    templates = []
    for words, path in ((ENGLISH, LATIN_FONT), (CHINESE, CHINESE_FONT)):
        font = ImageFont.truetype(path, FONT_SIZE, index=2 if path == CHINESE_FONT else 0)
        for word in words:
            image = Image.new("L", (160, 32))
            ImageDraw.Draw(image).text((8, 4), word, fill=255, font=font)
            ink = np.asarray(image, np.float32) / 255
            rows, columns = np.flatnonzero((ink > 0.3).any(axis=1)), np.flatnonzero((ink > 0.3).any(axis=0))
            cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            templates.append((word, cut.astype(np.float32)))
    return tuple(templates)


LATIN_FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf"
CHINESE_FONT = "/usr/share/fonts/opentype/noto/NotoSansCJK-Bold.ttc"
FONT_SIZE = 13
