"""A page is a template beside this file with its data put in: one file without anything from elsewhere."""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_PLACE = "__DATA__"


def filled(template: str, data: Any) -> str:
    """A template with its data as JSON in it."""
    text = (HERE / template).read_text(encoding="utf-8")
    assert text.count(_PLACE) == 1, f"{template} has no place for its data"
    # Inside of a script element only `</` and `<!--` mean something.
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return text.replace(_PLACE, written)


def write_page(root: Path, name: str, template: str, data: Any) -> Path:
    """Write a filled template below `.hesper/view`, where nothing is versioned; returns its path."""
    path = root / ".hesper" / "view" / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(filled(template, data), encoding="utf-8")
    os.replace(partial, path)
    return path


def thumbnail(png: bytes, width: int, height: int) -> str:
    """The picture made to fit, as a `data:` address."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        small = image.convert("RGB")
    small.thumbnail((width, height))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=80, method=0)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
