"""What a task finds on the desktop: files and settings, made from a description, always the same bytes.

A fixture is data, so it has a fingerprint: the same set-up gives the same one, whoever wrote it, and two tasks with
one fingerprint and one instruction are one task. And it can be searched for answers that it should not show.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from xml.sax.saxutils import escape

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from assets.environments.desktop.outcomes import Reader
from assets.environments.task import TaskContract, canonical_json
from assets.errors import InfrastructureError

TIME = 1767603600
"""2026-01-05 09:00:00 UTC: when every fixture was last changed, in seconds since 1970."""


class Strict(BaseModel):
    """A part of a spec: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _below_home(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise ValueError(f"'{path}' is not a path below the home folder")
    return str(PurePosixPath(path))


HomePath = Annotated[str, AfterValidator(_below_home)]
"""A path below the home folder, such as `Documents/plan.txt`."""


ReaderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
"""A key of the state: no dots."""


class Picture(Strict):
    """A PNG: one colour with filled rectangles `[x0, y0, x1, y1, colour]` on it."""

    size: tuple[int, int]
    colour: str = "#ffffff"
    boxes: tuple[tuple[int, int, int, int, str], ...] = ()


class Mail(Strict):
    """A message as a mail program keeps it, a file each."""

    sender: str
    to: str
    subject: str
    body: str


class Fixture(Strict):
    """A file, given as exactly one of its fields.

    Attributes:
        text: UTF-8 text.
        base64: any bytes.
        picture: a PNG.
        sheet: rows of a spreadsheet; numbers are numbers, text that starts with `=` is a formula. The file's ending
            says the format: `.gnumeric` or `.csv`.
        archive: names and texts inside a `.zip`, `.tar` or `.tar.gz`.
        mail: a message.
        folder: true for an empty folder.
    """

    text: str | None = None
    base64: str | None = None
    picture: Picture | None = None
    sheet: tuple[tuple[str | int | float | None, ...], ...] | None = None
    archive: dict[str, str] | None = None
    mail: Mail | None = None
    folder: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> Fixture:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a file is given by one of {', '.join(type(self).model_fields)}; here: {given or 'none'}")
        return self

    def content(self, path: str) -> bytes:
        """The bytes of the file; those of a folder are empty.

        Raises:
            ValueError: the file's ending fits no format of a sheet or an archive.
        """
        if self.text is not None:
            return self.text.encode()
        if self.base64 is not None:
            return base64.b64decode(self.base64)
        if self.picture is not None:
            return _picture(self.picture)
        if self.sheet is not None:
            return _sheet(path, self.sheet)
        if self.archive is not None:
            return _archive(path, self.archive)
        return _mail(self.mail) if self.mail is not None else b""

    def words(self) -> str:
        """All that can be read in it."""
        sheet = [str(value) for row in self.sheet or () for value in row if value is not None]
        archive = [word for pair in (self.archive or {}).items() for word in pair]
        mail = [] if self.mail is None else list(self.mail.model_dump().values())
        return "\n".join([self.text or "", *sheet, *archive, *mail])


Settings = dict[HomePath, dict[str, dict[str, str]]]
"""File -> section -> key -> value as written. The GSettings of GTK programs are such a file, see `GSETTINGS`."""

GSETTINGS = ".config/glib-2.0/settings/keyfile"
"""Where GSettings keeps its values when its backend is `keyfile`: sections are schema paths, values GVariant text."""


class Operation(Strict):
    """A step of the set-up once the program's window is there, given as exactly one of its fields.

    Attributes:
        type: text to type into what has the focus.
        hotkey: keys to press together.
        window: regular expression; wait until a window has such a title.
        open: command that opens another window.
    """

    type: str | None = None
    hotkey: tuple[str, ...] | None = None
    window: str | None = None
    open: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _one(self) -> Operation:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"an operation is one of {', '.join(type(self).model_fields)}; here: {given or 'none'}")
        return self

    @field_validator("window")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        return pattern if pattern is None else checked_pattern(pattern)


def checked_pattern(pattern: str) -> str:
    """A regular expression.

    Raises:
        ValueError: it is none.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"'{pattern}' is no regular expression: {error}") from None
    return pattern


class TaskSpec(Strict):
    """What a task needs on the desktop and how its outcome is read: the `resources` of its contract.

    Attributes:
        files: path below home -> content, beside the program's own; null removes one of those.
        settings: laid over the program's own.
        arguments: take the place of the program's own arguments.
        setup: steps before the agent's first look.
        window: regular expression for the title of the window that must then be on top.
        read: name -> reader; what each finds is in the state under `read.<name>`.
        shown: fixtures in which the answer may be read, since reading it there is the task.
    """

    files: dict[HomePath, Fixture | None] = {}
    settings: Settings = {}
    arguments: tuple[str, ...] | None = None
    setup: tuple[Operation, ...] = ()
    window: Annotated[str, AfterValidator(checked_pattern)] | None = None
    read: dict[ReaderName, Reader] = {}
    shown: tuple[HomePath, ...] = ()

    def over(self, below: TaskSpec) -> TaskSpec:
        """This one laid over another: the program's own set-up with a task's changes."""
        settings = {file: dict(sections) for file, sections in below.settings.items()}
        for file, sections in self.settings.items():
            for section, values in sections.items():
                place = settings.setdefault(file, {})
                place[section] = {**place.get(section, {}), **values}
        return TaskSpec(
            files={**below.files, **self.files},
            settings=settings,
            arguments=below.arguments if self.arguments is None else self.arguments,
            setup=below.setup + self.setup,
            window=below.window if self.window is None else self.window,
            read={**below.read, **self.read},
            shown=self.shown,
        )


def lay_out(spec: TaskSpec, home: Path) -> None:
    """Write the files and settings of a spec into a home folder, all of one age.

    Raises:
        InfrastructureError: a file can't be written.
    """
    try:
        for path, fixture in sorted(spec.files.items()):
            if fixture is None:
                continue
            target = home / path
            if fixture.folder:
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(fixture.content(path))
        for path, sections in sorted(spec.settings.items()):
            target = home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_ini(sections), encoding="utf-8")
        for found in sorted(home.rglob("*"), reverse=True):
            os.utime(found, (TIME, TIME), follow_symlinks=False)
        os.utime(home, (TIME, TIME))
    except OSError as error:
        raise InfrastructureError(f"the desktop's files can't be written: {error}") from error


def misplaced(spec: TaskSpec, home: Path) -> list[str]:
    """Paths of fixtures that do not lie in a home folder as they were described."""
    wrong = []
    for path, fixture in sorted(spec.files.items()):
        target = home / path
        if fixture is None:
            there = not target.exists()
        elif fixture.folder:
            there = target.is_dir()
        else:
            there = target.is_file() and target.read_bytes() == fixture.content(path)
        if not there and not path.startswith("."):  # programs rewrite their hidden files when they start
            wrong.append(path)
    return wrong


# --- fingerprints and leaks ------------------------------------------------------------------------------------------


def fingerprint(app: str, command: tuple[str, ...], spec: TaskSpec) -> str:
    """sha256 of everything that a set-up puts before the agent; the same for every way to write the same set-up.

    Files count by their bytes, whatever they were made from. What is read afterwards and the instruction don't count.
    """
    files = {
        path: "folder" if fixture.folder else hashlib.sha256(fixture.content(path)).hexdigest()
        for path, fixture in spec.files.items()
        if fixture is not None
    }
    setup = [step.model_dump(exclude_none=True) for step in spec.setup]
    settings = {
        file: {name: keys for name, keys in sections.items() if keys} for file, sections in spec.settings.items()
    }
    canonical = {
        **{"app": app, "command": [*command, *(spec.arguments or ())], "files": files, "setup": setup},
        "settings": {file: sections for file, sections in settings.items() if sections},
    }
    return hashlib.sha256(canonical_json(canonical).encode()).hexdigest()


def leaks(task: TaskContract, spec: TaskSpec) -> list[str]:
    """Places that give away what the agent has to find out: `instruction`, or the path of a fixture.

    An expected value that the instruction gives to be entered is no secret; an expected `answer` always is one. A
    secret may stand in a fixture only where `shown` says so. Values of fewer than three characters, true and false are
    found everywhere and mean nothing.
    """
    found = set()
    for path, value in task.expected_state.items():
        for secret in _texts(value):
            if len(secret) < 3:
                continue
            if secret in task.instruction:
                if path == "answer":
                    found.add("instruction")
                continue
            found |= {
                name
                for name, fixture in spec.files.items()
                if fixture is not None and name not in spec.shown and (secret in fixture.words() or secret in name)
            }
    return sorted(found)


def _texts(value: Any) -> Iterator[str]:
    """The texts and numbers in a JSON value, as people write them."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{value:g}" if isinstance(value, float) else str(value)


# --- bytes -----------------------------------------------------------------------------------------------------------


def _picture(picture: Picture) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", picture.size, picture.colour)
    draw = ImageDraw.Draw(image)
    for x0, y0, x1, y1, colour in picture.boxes:
        draw.rectangle((x0, y0, x1 - 1, y1 - 1), fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _sheet(path: str, rows: tuple[tuple[str | int | float | None, ...], ...]) -> bytes:
    if path.endswith(".csv"):
        return "".join(",".join(_csv(value) for value in row) + "\n" for row in rows).encode()
    if not path.endswith(".gnumeric"):
        raise ValueError(f"{path}: a sheet ends with .gnumeric or .csv")
    cells = "".join(
        f'<gnm:Cell Row="{row}" Col="{column}"{_value_type(value)}>{escape(str(value))}</gnm:Cell>'
        for row, values in enumerate(rows)
        for column, value in enumerate(values)
        if value is not None
    )
    width = max((len(row) for row in rows), default=1)
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<gnm:Workbook xmlns:gnm="http://www.gnumeric.org/v10.dtd">'
        '<gnm:SheetNameIndex><gnm:SheetName gnm:Cols="256" gnm:Rows="65536">Sheet1</gnm:SheetName></gnm:SheetNameIndex>'
        f"<gnm:Sheets><gnm:Sheet><gnm:Name>Sheet1</gnm:Name><gnm:MaxCol>{width - 1}</gnm:MaxCol>"
        f"<gnm:MaxRow>{len(rows) - 1}</gnm:MaxRow><gnm:Cells>{cells}</gnm:Cells></gnm:Sheet></gnm:Sheets>"
        "</gnm:Workbook>\n"
    )
    return gzip.compress(text.encode(), mtime=0)


def _value_type(value: str | int | float) -> str:
    """Gnumeric's number for the type of a cell: 40 a number, 60 text; a formula has none."""
    if isinstance(value, str):
        return "" if value.startswith("=") else ' ValueType="60"'
    return ' ValueType="40"'


def _csv(value: str | int | float | None) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def _archive(path: str, members: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    if path.endswith(".zip"):
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in sorted(members.items()):
                archive.writestr(zipfile.ZipInfo(name, (2026, 1, 5, 9, 0, 0)), text)
        return buffer.getvalue()
    if not path.endswith((".tar", ".tar.gz")):
        raise ValueError(f"{path}: an archive ends with .zip, .tar or .tar.gz")
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, text in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(text.encode()), TIME
            tar.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue(), mtime=0) if path.endswith(".gz") else buffer.getvalue()


def _mail(mail: Mail) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = mail.sender, mail.to, mail.subject
    message["Date"] = "Mon, 05 Jan 2026 09:00:00 +0000"
    message["Message-ID"] = (
        f"<{hashlib.sha256(canonical_json(mail.model_dump()).encode()).hexdigest()[:16]}@example.org>"
    )
    message.set_content(mail.body)
    return message.as_bytes()


def _ini(sections: Mapping[str, Mapping[str, str]]) -> str:
    """Sections in their given order; a section without a name stands first and has no head."""
    lines = []
    for section, values in sorted(sections.items(), key=lambda item: item[0] != ""):
        lines += [f"[{section}]"] if section else []
        lines += [f"{key}={value}" for key, value in values.items()]
    return "\n".join(lines) + "\n"
