"""Screenshots from outside, checked before they are decoded: where they lie, how large they are, what they are."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assets.environments.trajectory import Screenshot
from assets.verified_trajectories.imports.parameters import ImportParameters
from assets.verified_trajectories.imports.rows import BatchFiles, Rejected

FORMATS = ("PNG", "JPEG", "WEBP")
ORIENTATION = 0x0112
"""The Exif tag that says how a picture is turned."""


def load_picture(files: BatchFiles, value: Any) -> Screenshot:
    """The screenshot that a row means, as PNG: a path in the batch, or bytes as Hugging Face datasets embed them.

    Raises:
        Rejected: it is missing, too large, broken or not a picture.
    """
    raw: Any = None
    if isinstance(value, Mapping):
        raw, value = value.get("bytes"), value.get("path")
    if isinstance(raw, bytes) and raw:
        if len(raw) > files.parameters.picture_bytes:
            raise Rejected(f"the picture is too large: {len(raw)} bytes, more than {files.parameters.picture_bytes}")
        return decode_picture(raw, files.parameters, "the picture")
    if not isinstance(value, str) or not value.strip():
        raise Rejected("missing picture: the row names none")
    path = files.find(value)
    try:
        return decode_picture(read_small(path, files.parameters.picture_bytes), files.parameters, path.name)
    except Rejected as error:
        raise Rejected(error.reason, picture=path) from None


def read_small(path: Path, most: int) -> bytes:
    """The bytes of a file that has no more than `most`; a larger one is not opened.

    Raises:
        Rejected: it is larger, or can't be read.
    """
    try:
        size = path.stat().st_size
        if size > most:
            raise Rejected(f"the picture is too large: {path.name} has {size} bytes, more than {most}")
        return path.read_bytes()
    except OSError as error:
        raise Rejected(f"the picture can't be read: {path.name}: {error.strerror}") from None


def decode_picture(raw: bytes, parameters: ImportParameters, name: str) -> Screenshot:
    """Decode a picture whose header says that it is small enough. PNG keeps its bytes, others become PNG.

    Raises:
        Rejected: it is too large (a decompression bomb), broken, turned, or not a still picture.
    """
    from PIL import Image

    try:
        with _any_size():
            image = Image.open(io.BytesIO(raw), formats=FORMATS)
        width, height = image.size
        if width * height > parameters.picture_pixels:
            raise Rejected(
                f"decompression bomb: {name} unpacks to {width}x{height} pixels, more than {parameters.picture_pixels}"
            )
        if getattr(image, "n_frames", 1) != 1:
            raise Rejected(f"the picture is no still one: {name}")
        image.load()
        if image.getexif().get(ORIENTATION, 1) != 1:
            raise Rejected(f"the picture is stored turned (Exif orientation), its coordinates are in doubt: {name}")
    except Rejected:
        raise
    except Exception as error:  # whatever a decoder makes of bytes that may be anything
        raise Rejected(f"the picture is broken: {name}: {error}") from None
    if image.format == "PNG":
        return Screenshot(raw, width, height)
    png = io.BytesIO()
    image.convert("RGB").save(png, "PNG")
    return Screenshot(png.getvalue(), width, height)


@contextmanager
def _any_size() -> Iterator[None]:
    """Let Pillow read headers of any size: the limit is ours, on what a header states, before a pixel is decoded."""
    from PIL import Image

    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit
