"""The files of a batch from outside, and the rows they hold, each with its place.

Nothing here trusts a file: links and special files are not followed, a path that a row names is looked up among the
files that are there and never opened as it is written, lines have a limit, and what can't be read is a `Rejection`
while the rest goes on.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from assets.verified_trajectories.imports.parameters import ImportParameters

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

TABLE_ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
ABOUT_IT = ("readme", "license", "licence", "notice", "citation", "changelog", "sha256sums", "md5sums")
"""Beginnings of names of files that speak of a data set and hold none of it."""

LOOKED_AT = 50
"""Rows of each file that are looked at to tell its format."""


@dataclass(frozen=True)
class Place:
    """Where in a batch something is: a file and, as far as known, the line (from 1), row (from 0), episode and step."""

    file: str
    line: int | None = None
    row: int | None = None
    episode: str | None = None
    step: int | None = None

    def __str__(self) -> str:
        parts = [self.file]
        for name in ("line", "row", "episode", "step"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name} {value}")
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """What is known of the place."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Rejection:
    """Something of a batch that is not taken.

    Attributes:
        reason: why, in words.
        original: the bytes of the row, or the whole file, for the quarantine; None where the place must do.
        picture: the file that is at fault, where the row is not.
    """

    place: Place
    reason: str
    original: bytes | Path | None = None
    picture: Path | None = None

    @property
    def kind(self) -> str:
        """The reason without what is of this one thing alone: what follows a colon, names in quotes, numbers."""
        return re.sub(r"'[^']*'|\"[^\"]*\"|\d[\d.x]*", "…", self.reason.partition(": ")[0])


class Rejected(Exception):
    """An episode can't be taken.

    Attributes:
        step: index of the step that is at fault, where one is.
        picture: the file that is at fault, where one is.
    """

    def __init__(self, reason: str, step: int | None = None, picture: Path | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.step = step
        self.picture = picture

    def at(self, step: int) -> Rejected:
        """The same, of a step."""
        return Rejected(self.reason, step, self.picture)


@dataclass(frozen=True)
class Row:
    """One record of a file: where it stood, its values, and its bytes as they were."""

    place: Place
    values: Mapping[str, Any]
    raw: bytes

    def rejection(self, why: str | Rejected, episode: str | None = None, step: int | None = None) -> Rejection:
        """The row, not taken."""
        if isinstance(why, str):
            why = Rejected(why, step)
        place = replace(self.place, episode=episode, step=why.step if step is None else step)
        return Rejection(place, why.reason, self.raw, why.picture)


class BatchFiles:
    """The regular files below a folder, by their path in it.

    Attributes:
        tables: JSON Lines, JSON and Parquet files, sorted.
        strange: links, special files and kinds of files that no batch has.
    """

    def __init__(self, root: Path, parameters: ImportParameters) -> None:
        self.root = root
        self.parameters = parameters
        self._files: dict[str, Path] = {}
        self._by_name: dict[str, list[str]] = {}
        self.strange: list[Rejection] = []
        for folder, folders, names in os.walk(root, followlinks=False):
            folders.sort()
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            for name in sorted([*names, *links]):
                self._add(Path(folder) / name)
        self.strange.sort(key=lambda rejection: rejection.place.file)
        self.tables = sorted(name for name in self._files if name.lower().endswith(TABLE_ENDINGS))

    def __getitem__(self, name: str) -> Path:
        """The path of a file by its name in the batch."""
        return self._files[name]

    def _add(self, path: Path) -> None:
        name = path.relative_to(self.root).as_posix()
        shown = name.encode("utf-8", "replace").decode("utf-8")
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "no regular file"
            self.strange.append(Rejection(Place(shown), f"{kind}: links and special files are not followed"))
        elif name != shown:
            self.strange.append(Rejection(Place(shown), "the file's name is not UTF-8", path))
        elif name.lower().endswith(TABLE_ENDINGS + PICTURE_ENDINGS):
            self._files[name] = path
            self._by_name.setdefault(path.name, []).append(name)
        elif not path.name.lower().startswith((".", *ABOUT_IT)):
            self.strange.append(Rejection(Place(name), "no kind of file that a batch has", path))

    def find(self, written: str) -> Path:
        """The file that a row means. A path of another machine means the file with the longest matching end.

        Raises:
            Rejected: it leads out of the batch, names no file of it, or several.
        """
        text = written.replace("\\", "/").strip()
        if not text or any(ord(character) < 32 for character in text):
            raise Rejected(f"{written!r} is no path")
        if "://" in text:
            raise Rejected(f"{written!r} is an address, not a file of the batch")
        parts = [part for part in PurePosixPath(text).parts if part not in ("/", ".")]
        if ".." in parts:
            raise Rejected(f"path traversal: {written!r} leads out of the batch")
        outside = text.startswith(("/", "~")) or text[1:2] == ":"
        for start in range(len(parts)):
            end = "/".join(parts[start:])
            if end in self._files:
                return self._files[end]
            fitting = [name for name in self._by_name.get(parts[-1], ()) if name.endswith(f"/{end}")]
            if len(fitting) > 1:
                raise Rejected(f"{written!r} may be any of {', '.join(fitting[:3])}")
            if fitting:
                return self._files[fitting[0]]
        raise Rejected(
            f"missing picture: {written!r} is "
            + ("a path outside the batch, which has no file of that name" if outside else "not in the batch")
        )

    @cached_property
    def first_rows(self) -> list[Row]:
        """The first readable rows of every file, to tell the format by."""
        return [row for name in self.tables for row in islice(self.rows(name), LOOKED_AT) if isinstance(row, Row)]

    def rows(self, name: str) -> Iterator[Row | Rejection]:
        """The records of one file, in order."""
        path = self._files[name]
        try:
            if path.suffix.lower() == ".parquet":
                yield from _parquet_rows(path, name, self.parameters.row_group_bytes)
            elif _is_document(path):
                yield from _document_rows(path, name, self.parameters.line_bytes)
            else:
                yield from _line_rows(path, name, self.parameters.line_bytes)
        except OSError as error:
            yield Rejection(Place(name), f"the file can't be read: {error.strerror or error}", path)


# --- JSON ------------------------------------------------------------------------------------------------------------

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
LISTS = ("episodes", "trajectories", "data", "rows")
"""Keys under which a JSON document holds its records."""


def parse_json(raw: bytes) -> Any:
    """Strict JSON in UTF-8.

    Raises:
        Rejected: saying what is wrong and where.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Rejected(f"not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}") from None
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as error:
        raise Rejected(f"broken JSON: {error.msg}, line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise Rejected("broken JSON: nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise Rejected(f"broken JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise Rejected(f"broken JSON: {name} is no number of JSON")


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise Rejected(f"broken JSON: the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return found


def _is_document(path: Path) -> bool:
    """Whether a file is one JSON document rather than a record a line."""
    with path.open("rb") as stream:
        start = stream.read(1 << 12).removeprefix(UTF8_MARK).lstrip()
        if path.suffix.lower() != ".json":
            return start.startswith(b"[")
        stream.seek(0)
        first = stream.readline(1 << 22)
        rest = stream.read(1 << 12).strip()
    try:
        return not (rest and isinstance(parse_json(first.removeprefix(UTF8_MARK)), dict))
    except Rejected:
        return True


def _document_rows(path: Path, name: str, most: int) -> Iterator[Row | Rejection]:
    if path.stat().st_size > most:
        yield Rejection(Place(name), f"a JSON document of more than {most} bytes; write a record a line", path)
        return
    try:
        document = parse_json(_as_utf8(path.read_bytes()))
    except Rejected as error:
        yield Rejection(Place(name), error.reason, path)
        return
    if isinstance(document, dict):
        lists = [document[key] for key in LISTS if isinstance(document.get(key), list)]
        document = lists[0] if lists else [document]
    if not isinstance(document, list):
        yield Rejection(Place(name), "holds no record", path)
        return
    for number, values in enumerate(document):
        place = Place(name, row=number)
        raw = json.dumps(values, ensure_ascii=True).encode()
        if isinstance(values, dict):
            yield Row(place, values, raw)
        else:
            yield Rejection(place, f"a record is an object, not {type(values).__name__}", raw)


def _line_rows(path: Path, name: str, most: int) -> Iterator[Row | Rejection]:
    for number, raw in _lines(path, most):
        place = Place(name, line=number)
        if raw is None:
            yield Rejection(place, f"longer than {most} bytes")
            continue
        if not raw.strip():
            continue
        try:
            values = parse_json(raw)
        except Rejected as error:
            yield Rejection(place, error.reason, raw)
            continue
        if isinstance(values, dict):
            yield Row(place, values, raw)
        else:
            yield Rejection(place, f"a record is an object, not {type(values).__name__}", raw)


def _lines(path: Path, most: int) -> Iterator[tuple[int, bytes | None]]:
    """(number, line without its end) of every line; None for one that is too long."""
    with path.open("rb") as stream:
        if stream.read(2) in UTF16_MARKS:
            if path.stat().st_size > most:
                yield 1, None
            else:
                yield from enumerate(_as_utf8(path.read_bytes()).split(b"\n"), 1)
            return
        stream.seek(0)
        if stream.read(3) != UTF8_MARK:
            stream.seek(0)
        number = 0
        while line := stream.readline(most + 1):
            number += 1
            if len(line) > most and not line.endswith(b"\n"):
                _skip_line(stream)
                yield number, None
            else:
                yield number, line.rstrip(b"\r\n")


def _skip_line(stream: IO[bytes]) -> None:
    while (more := stream.readline(1 << 20)) and not more.endswith(b"\n"):
        pass


def _as_utf8(raw: bytes) -> bytes:
    """Without its mark of the byte order. What can't be decoded is left as it is, for the parser to refuse."""
    if raw.startswith(UTF16_MARKS):
        try:
            return raw.decode("utf-16").encode("utf-8")
        except UnicodeError:
            return raw
    return raw.removeprefix(UTF8_MARK)


# --- Parquet ---------------------------------------------------------------------------------------------------------


def _parquet_rows(path: Path, name: str, most: int) -> Iterator[Row | Rejection]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                begun, number = number, number + file.metadata.row_group(group).num_rows
                try:
                    check_row_group(file, group, most)
                    for batch in file.iter_batches(16, row_groups=[group]):
                        for offset in range(batch.num_rows):
                            yield _parquet_row(batch.slice(offset, 1), Place(name, row=begun))
                            begun += 1
                except Rejected as error:
                    yield Rejection(Place(name, row=begun), error.reason, path)
                except (pa.ArrowException, OSError) as error:
                    reason = f"broken Parquet: {number - begun} rows from here can't be read: {error}"
                    yield Rejection(Place(name, row=begun), reason, path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        yield Rejection(Place(name), f"broken Parquet: {error}", path)


def check_row_group(file: pq.ParquetFile, group: int, most: int) -> None:
    """Refuse a row group that says it unpacks to more than `most` bytes.

    Raises:
        Rejected: it does.
    """
    size = file.metadata.row_group(group).total_byte_size
    if size > most:
        raise Rejected(f"decompression bomb: row group {group} unpacks to {size} bytes, more than {most}")


def _parquet_row(record: pa.RecordBatch, place: Place) -> Row | Rejection:
    try:
        values = record.to_pylist()[0]
        raw = json.dumps(values, default=lambda value: f"<{type(value).__name__}>")
    except ValueError as error:  # text that is not UTF-8, a time out of range
        return Rejection(place, f"the row can't be read: {error}")
    return Row(place, values, raw.encode("utf-8", "replace"))
