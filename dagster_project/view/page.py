"""A page is a template beside this file with its data put in: one file without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_PLACE = "__DATA__"
_POLICY = "__POLICY__"
"""Where a template wants its Content-Security-Policy."""


def filled(template: str, data: Any) -> str:
    """A template with its data as JSON in it, and with the style sheets and scripts beside it that it names.

    A template that asks for a policy allows its own scripts and styles by their hashes, pictures and requests to its
    own server, and nothing else, whatever its data holds.
    """
    text = re.sub(
        r'<link rel="stylesheet" href="(\w+\.css)">|<script src="(\w+\.js)"></script>',
        _beside,
        (HERE / template).read_text(encoding="utf-8"),
    )
    assert text.count(_PLACE) == 1, f"{template} has no place for its data"
    text = text.replace(_POLICY, _policy(text))
    # Inside of a script element only `</` and `<!--` mean something.
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return text.replace(_PLACE, written)


def write_page(root: Path, name: str, template: str, data: Any) -> Path:
    """Write a filled template below `.hesper/view`, where nothing is versioned; returns its path."""
    path = root / ".hesper" / "view" / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_page(path, template, data)
    return path


def save_page(path: Path, template: str, data: Any) -> None:
    """Write a filled template; what was there before stays until it is whole."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(filled(template, data), encoding="utf-8")
    os.replace(partial, path)


def thumbnail(png: bytes, width: int, height: int) -> str:
    """The picture made to fit, as a `data:` address."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        small = image.convert("RGB")
    small.thumbnail((width, height))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=80, method=0)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def _beside(found: re.Match[str]) -> str:
    name = found[1] or found[2]
    kind = "style" if found[1] else "script"
    return f"<{kind}>\n{(HERE / name).read_text(encoding='utf-8')}</{kind}>"


def _policy(html: str) -> str:
    allowed = {
        kind: " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
        )
        for kind in ("script", "style")
    }
    return (
        f"default-src 'none'; script-src {allowed['script']}; style-src {allowed['style']}; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
