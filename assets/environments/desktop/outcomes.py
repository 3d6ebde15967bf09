"""How the outcome of a task on the desktop is read: from files, settings, windows and the clipboard, as JSON values.

A reader never fails on what a program or an agent left behind: a file that is missing or broken reads as null.
"""

from __future__ import annotations

import csv
import email
import email.policy
import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from assets.environments.desktop.display import Display


class _Reader(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextReader(_Reader):
    """Text of a file, its lines ended by one newline each; null if there is none."""

    kind: Literal["text"]
    path: str

    def read(self, home: Path, screen: Display) -> Any:
        """The text."""
        content = _content(home, self.path)
        return None if content is None else content.decode("utf-8", "replace").replace("\r\n", "\n")


class BytesReader(_Reader):
    """`{"size", "sha256"}` of a file."""

    kind: Literal["bytes"]
    path: str

    def read(self, home: Path, screen: Display) -> Any:
        """Size and hash."""
        content = _content(home, self.path)
        return None if content is None else {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


class ExistsReader(_Reader):
    """Whether there is such a file or folder."""

    kind: Literal["exists"]
    path: str

    def read(self, home: Path, screen: Display) -> Any:
        """True or false."""
        return _inside(home, self.path) is not None


class FolderReader(_Reader):
    """Names in a folder, sorted, without hidden ones."""

    kind: Literal["folder"]
    path: str

    def read(self, home: Path, screen: Display) -> Any:
        """The names, or null."""
        folder = _inside(home, self.path)
        if folder is None or not folder.is_dir():
            return None
        return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))


class CellReader(_Reader):
    """Content of a cell such as `B3` as it was entered: a number, a text or a formula; null if empty.

    The file is a .gnumeric or a .csv. In a .csv a formula is its result.
    """

    kind: Literal["cell"]
    path: str
    cell: Annotated[str, Field(pattern=r"^[A-Z]{1,2}[1-9][0-9]*$")]
    sheet: str | None = None

    def read(self, home: Path, screen: Display) -> Any:
        """The content."""
        content = _content(home, self.path)
        if content is None:
            return None
        letters, digits = re.match(r"([A-Z]+)([0-9]+)", self.cell).groups()  # type: ignore[union-attr]
        column = 0
        for letter in letters:
            column = column * 26 + ord(letter) - ord("A") + 1
        read = _csv_cell if self.path.endswith(".csv") else _gnumeric_cell
        return _number(read(content, int(digits) - 1, column - 1, self.sheet))


class SheetReader(_Reader):
    """All rows of a sheet of a .gnumeric or a .csv, as `CellReader` reads cells, without their empty ends."""

    kind: Literal["sheet"]
    path: str
    sheet: str | None = None

    def read(self, home: Path, screen: Display) -> Any:
        """The rows, or null without a file that can be read."""
        content = _content(home, self.path)
        if content is None:
            return None
        if self.path.endswith(".csv"):
            return [[*map(_number, row)] for row in csv.reader(io.StringIO(content.decode("utf-8", "replace")))]
        cells = _gnumeric_cells(content, self.sheet)
        if cells is None:
            return None
        ends = Counter[int]()
        for row, column in cells:
            ends[row] = max(ends[row], column + 1)
        return [
            [_number(cells.get((row, column))) for column in range(ends[row])]
            for row in range(max(ends, default=-1) + 1)
        ]


class ArchiveReader(_Reader):
    """Members of a .zip or .tar (also compressed), sorted; with `member`, that member's text."""

    kind: Literal["archive"]
    path: str
    member: str | None = None

    def read(self, home: Path, screen: Display) -> Any:
        """Names or text."""
        content = _content(home, self.path)
        members = None if content is None else _members(content)
        if members is None or self.member is None:
            return None if members is None else sorted(members)
        found = members.get(self.member)
        return None if found is None else found.decode("utf-8", "replace")


class SettingReader(_Reader):
    """A value of a settings file: sections of `key=value` lines (GSettings, GTK, INI); null if it is not set.

    Of lines before the first section the section is the empty text. `separator` is what stands between key and value.
    """

    kind: Literal["setting"]
    path: str
    section: str
    key: str
    separator: str = "="

    def read(self, home: Path, screen: Display) -> Any:
        """The value as written."""
        content = _content(home, self.path)
        section = ""
        for line in ("" if content is None else content.decode("utf-8", "replace")).splitlines():
            line = line.strip()
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif section == self.section and not line.startswith("#"):
                key, found, value = line.partition(self.separator)
                if found and key.strip() == self.key:
                    return value.strip()
        return None


class WindowReader(_Reader):
    """Whether a window's title matches a regular expression somewhere."""

    kind: Literal["window"]
    title: str

    def read(self, home: Path, screen: Display) -> Any:
        """True or false."""
        return any(re.search(self.title, title) for title in screen.titles())


class ClipboardReader(_Reader):
    """Text in the clipboard."""

    kind: Literal["clipboard"]

    def read(self, home: Path, screen: Display) -> Any:
        """The text, or null."""
        return screen.clipboard()


class ImageReader(_Reader):
    """Size of a picture `[width, height]`; with `at`, the colour of that pixel as `#rrggbb`."""

    kind: Literal["image"]
    path: str
    at: tuple[int, int] | None = None

    def read(self, home: Path, screen: Display) -> Any:
        """Size or colour, or null."""
        from PIL import Image

        content = _content(home, self.path)
        try:
            with Image.open(io.BytesIO(content or b"")) as image:
                if self.at is None:
                    return list(image.size)
                pixel = image.convert("RGB").getpixel(self.at)
        except (OSError, IndexError):
            return None
        assert isinstance(pixel, tuple)
        return "#" + "".join(f"{int(part):02x}" for part in pixel)


class MessagesReader(_Reader):
    """Messages of a mail folder, a file each: `[{"to", "subject", "body"}]`, sorted by subject."""

    kind: Literal["messages"]
    path: str

    def read(self, home: Path, screen: Display) -> Any:
        """The messages, or null without the folder."""
        folder = _inside(home, self.path)
        if folder is None or not folder.is_dir():
            return None
        found = []
        for file in sorted(folder.iterdir()):
            if file.name.isdigit():
                message = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
                body = message.get_body(("plain",))
                text = "" if body is None else body.get_content().strip()
                found.append({"to": str(message["To"]), "subject": str(message["Subject"]), "body": text})
        return sorted(found, key=lambda message: (message["subject"], message["to"], message["body"]))


Reader = Annotated[
    TextReader
    | BytesReader
    | ExistsReader
    | FolderReader
    | CellReader
    | SheetReader
    | ArchiveReader
    | SettingReader
    | WindowReader
    | ClipboardReader
    | ImageReader
    | MessagesReader,
    Field(discriminator="kind"),
]


def prints(home: Path) -> dict[str, str]:
    """Path below home -> start of its sha256 for every file that is not hidden, `folder` for a bare one.

    A dot of a path is written `%2E`, since dots separate the keys of a state; a percent sign is `%25`.
    """
    found = {}
    for path in sorted(home.rglob("*")):
        relative = path.relative_to(home)
        if any(part.startswith(".") for part in relative.parts):
            continue
        name = escaped(str(relative))
        if path.is_symlink():
            found[name] = "link"
        elif path.is_file():
            found[name] = print_of(path.read_bytes())
        elif path.is_dir() and all(entry.name.startswith(".") for entry in path.iterdir()):
            found[name] = "folder"
    return found


def escaped(path: str) -> str:
    """A path as a key of the state."""
    return path.replace("%", "%25").replace(".", "%2E")


def print_of(content: bytes) -> str:
    """Start of the sha256 of a file's content."""
    return hashlib.sha256(content).hexdigest()[:16]


def _inside(home: Path, path: str) -> Path | None:
    """A path below home that exists, and that no link leads out of home."""
    target = home / path
    try:
        return target if target.exists() and target.resolve().is_relative_to(home.resolve()) else None
    except (OSError, RuntimeError):
        return None


def _content(home: Path, path: str) -> bytes | None:
    target = _inside(home, path)
    try:
        return None if target is None else target.read_bytes()
    except OSError:
        return None


def _number(text: str | None) -> str | int | float | None:
    """A number where the text is one."""
    if text is None or text == "":
        return None
    for convert in _NUMBERS:
        try:
            return convert(text)
        except ValueError:
            continue
    return text


_NUMBERS: tuple[Callable[[str], int | float], ...] = (int, float)


def _csv_cell(content: bytes, row: int, column: int, sheet: str | None) -> str | None:
    rows = list(csv.reader(io.StringIO(content.decode("utf-8", "replace"))))
    return rows[row][column] if row < len(rows) and column < len(rows[row]) else None


def _gnumeric_cell(content: bytes, row: int, column: int, sheet: str | None) -> str | None:
    return (_gnumeric_cells(content, sheet) or {}).get((row, column))


def _gnumeric_cells(content: bytes, sheet: str | None) -> dict[tuple[int, int], str] | None:
    """(row, column) -> text of a sheet, the first one where none is named; None if there is no such sheet."""
    try:
        root = ElementTree.fromstring(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    except (ElementTree.ParseError, OSError, EOFError):
        return None
    gnm = "{http://www.gnumeric.org/v10.dtd}"
    for page in root.iter(f"{gnm}Sheet"):
        if sheet is None or page.findtext(f"{gnm}Name") == sheet:
            found = ((cell.get("Row"), cell.get("Col"), cell.text) for cell in page.iter(f"{gnm}Cell"))
            return {(int(row), int(column)): text for row, column, text in found if row and column and text}
    return None


def _members(content: bytes) -> dict[str, bytes] | None:
    """Name -> bytes of the files in an archive."""
    buffer = io.BytesIO(content)
    try:
        if zipfile.is_zipfile(buffer):
            with zipfile.ZipFile(buffer) as archive:
                return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
        buffer.seek(0)
        with tarfile.open(fileobj=buffer) as tar:
            files = [member for member in tar.getmembers() if member.isfile()]
            return {member.name.removeprefix("./"): tar.extractfile(member).read() for member in files}  # type: ignore[union-attr]
    except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, RuntimeError):
        return None
