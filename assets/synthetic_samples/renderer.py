"""What draws the screens: the browser's version and the fonts of this machine. Other ones draw other pixels."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assets.environments.chromium import find_chromium
from assets.errors import InfrastructureError

FONT_FOLDERS = (
    Path("/usr/share/fonts"),
    Path("/usr/local/share/fonts"),
    Path("~/.fonts"),
    Path("~/.local/share/fonts"),
    Path("/etc/fonts"),
)
"""Where fontconfig looks for fonts, and its own settings."""


@dataclass(frozen=True)
class Renderer:
    """The version that Chromium gives, and a hash of the fonts and of the settings that choose among them."""

    chromium: str
    fonts: str

    @property
    def id(self) -> str:
        """Names both."""
        return hashlib.sha256(f"{self.chromium}\n{self.fonts}".encode()).hexdigest()[:16]

    def metrics(self) -> dict[str, float]:
        """Numbers that change when it does: the main version of Chromium, and 48 bits of the fonts' hash."""
        numbers = [part for part in self.chromium.split() if part[:1].isdigit()]
        version = float(numbers[0].split(".")[0]) if numbers else 0.0
        return {"renderer_chromium": version, "renderer_fonts": float(int(self.fonts[:12], 16))}


def find_renderer(folders: Sequence[Path] = FONT_FOLDERS) -> Renderer:
    """What would draw a screen now.

    Raises:
        MissingProgramError: no Chromium is installed.
        InfrastructureError: it does not tell its version.
    """
    program = find_chromium()
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"{program} does not tell its version: {error}") from error
    return Renderer(" ".join(told.stdout.split()), _fonts_hash(folders))


def _fonts_hash(folders: Sequence[Path]) -> str:
    """The hash of the contents of all files, whatever they are called and wherever they lie."""
    found = set()
    for folder in folders:
        for file in folder.expanduser().rglob("*"):
            if file.is_file() and file.name not in (".uuid", "fonts.cache-1", "fonts.dir", "fonts.scale"):
                with file.open("rb") as stream:
                    found.add(hashlib.file_digest(stream, "sha256").hexdigest())
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()
