"""A batch from outside becomes our two tables; what can't be taken is kept beside them, one reason each.

The same batch gives the same bytes. Memory stays flat: episodes are read, checked and written one after another.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from assets.environments.trajectory import episodes_schema, steps_schema
from assets.errors import InputError
from assets.stage import write_parquet
from assets.verified_trajectories.imports.episodes import ImportedEpisode, Rows, to_rows
from assets.verified_trajectories.imports.formats import recognise
from assets.verified_trajectories.imports.parameters import ImportParameters
from assets.verified_trajectories.imports.rows import BatchFiles, Place, Rejected, Rejection

SOURCE = "source.json"
"""Beside the two tables: what they were made from."""

REASONS = "reasons.txt"
"""Among what was not taken: a line for each thing."""

CHUNK = 8
"""Episodes that are held in memory before they are written."""


@dataclass
class Import:
    """What came of a batch.

    Attributes:
        format: name of the reader.
        episodes: how many were taken.
        rejections: how many things were not, of all kinds.
        reasons: why, in one line.
    """

    format: str
    episodes: int = 0
    rejections: int = 0
    reasons: str = ""


def import_batch(
    source: Path,
    out: Path,
    parameters: ImportParameters,
    digits: int,
    known: Mapping[str, str],
    digest: str,
    besides: Sequence[Rejection] = (),
) -> Import:
    """Read a batch into `out`: `batch/` with the two tables and `source.json`, `rejected/` with what was not taken.

    Args:
        source: the batch's folder; it is only read.
        out: a new folder.
        digits: see `AgentParameters.coordinate_digits`.
        known: id -> batch of every episode that was imported before.
        digest: `source_digest` of the batch.
        besides: what of the batch never became a file.

    Raises:
        InputError: no reader knows the format, or nothing of the batch is good. What was wrong is in `rejected/`.
    """
    files = BatchFiles(source, parameters)
    rejects = _Rejects(out / "rejected")
    for rejection in (*besides, *files.strange):
        rejects.add(rejection)
    try:
        form = recognise(files)
    except InputError:
        # Broken files are worth saying, even of a batch that nobody understands.
        for name in files.tables:
            for rejection in islice((row for row in files.rows(name) if isinstance(row, Rejection)), 10):
                rejects.add(rejection)
        raise
    done = Import(form.name)
    parts = out / "parts"
    parts.mkdir(parents=True)
    good = _good(form.read(files), form.name, digits, parameters, known, rejects)
    for number, start in enumerate(good):
        chunk = [start, *islice(good, CHUNK - 1)]
        write_parquet(parts / f"episodes-{number:06d}.parquet", (episode for episode, _ in chunk), episodes_schema())
        steps = (step for _, steps in chunk for step in steps)
        write_parquet(parts / f"steps-{number:06d}.parquet", steps, steps_schema())
        done.episodes += len(chunk)
    done.rejections, done.reasons = rejects.count, rejects.summary
    if not done.episodes:
        raise InputError(f"nothing of it can be taken ({form.name}): {rejects.summary or 'it holds no episode'}")
    batch = out / "batch"
    batch.mkdir()
    for table, schema in (("episodes", episodes_schema()), ("steps", steps_schema())):
        rows = chain.from_iterable(_rows_of(path) for path in sorted(parts.glob(f"{table}-*.parquet")))
        write_parquet(batch / f"{table}.parquet", rows, schema)
    shutil.rmtree(parts)
    origin = {
        "digest": digest,
        "format": form.name,
        "episodes": done.episodes,
        "rejections": done.rejections,
        "tables": {path.name: _sha256(path) for path in sorted(batch.glob("*.parquet"))},
    }
    (batch / SOURCE).write_text(json.dumps(origin, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return done


def source_digest(source: Path) -> str:
    """sha256 of everything below a folder: names and bytes, and of a link where it points."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(source, followlinks=False):
        folders.sort()
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(folder) / name
            digest.update(os.fsencode(path.relative_to(source).as_posix()) + b"\0")
            if path.is_symlink():
                digest.update(b"link" + os.fsencode(os.readlink(path)))
            elif path.is_file():
                with path.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def origin_of(batch: Path) -> dict[str, Any]:
    """What an imported batch was made from; empty where that is not written down."""
    try:
        found = json.loads((batch / SOURCE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_whole(batch: Path) -> bool:
    """Whether an imported batch is what was written: all its files, nothing else, and their bytes."""
    tables = origin_of(batch).get("tables")
    if not isinstance(tables, dict) or {path.name for path in batch.iterdir()} != {SOURCE, *tables}:
        return False
    return all(_sha256(batch / name) == digest for name, digest in tables.items())


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def imported_ids(batch: Path) -> list[str]:
    """Ids of the episodes of an imported batch."""
    ids: list[str] = pq.read_table(batch / "episodes.parquet", columns=["id"])["id"].to_pylist()
    return ids


def _rows_of(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(64):
            yield from batch.to_pylist()


def _good(
    found: Iterator[ImportedEpisode | Rejection],
    kind: str,
    digits: int,
    parameters: ImportParameters,
    known: Mapping[str, str],
    rejects: _Rejects,
) -> Iterator[Rows]:
    """What can be taken. The rest goes to `rejects`."""
    sources: dict[str, Place] = {}
    taken: dict[str, Place] = {}
    for item in found:
        if isinstance(item, Rejection):
            rejects.add(item)
            continue
        place = item.place
        try:
            row, steps = to_rows(item, kind, digits, parameters)
        except Rejected as error:
            rejects.add(Rejection(replace(place, step=error.step), error.reason, item.raw))
            continue
        identity = row["id"]
        # Several episodes of our own format may be of one task; their own ids were looked at by the reader.
        named = place.episode or item.source
        if identity in taken:
            rejects.add(Rejection(place, f"duplicate: the same episode is at {taken[identity]}", item.raw))
        elif identity in known:
            rejects.add(
                Rejection(place, f"duplicate: the same episode came with the batch {known[identity]}", item.raw)
            )
        elif named in sources:
            rejects.add(Rejection(place, f"duplicate id: {named!r} is also at {sources[named]}", item.raw))
        else:
            sources[named] = taken[identity] = place
            yield row, steps


class _Rejects:
    """A folder of what was not taken: a reason in JSON each and, where there is something to keep, the thing itself.

    `reasons.txt` has a line for each: its place and the reason.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[Path, str] = {}
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self.count = 0

    @property
    def summary(self) -> str:
        """The reasons by their kind, in the order in which they came: how often, and the first with its place."""
        said = {kind: f"{count} x {kind}, first " if count > 1 else "" for kind, count in self._kinds.items()}
        return "; ".join(often + self._first[kind] for kind, often in said.items())

    def add(self, rejection: Rejection) -> None:
        """Keep one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.count += 1
        number = f"{self.count:06d}"
        reason = {"reason": rejection.reason, **rejection.place.as_json()}
        original = rejection.original
        if isinstance(original, Path):
            reason["kept"] = self._keep(number, original)
        elif original is not None:
            reason["kept"] = f"{number}.row.json"
            (self._folder / reason["kept"]).write_bytes(original)
        if rejection.picture is not None:
            reason["picture"] = self._keep(number, rejection.picture)
        text = json.dumps(reason, ensure_ascii=False, indent=1, sort_keys=True)
        path = self._folder / f"{number}.reason.json"
        path.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        self._kinds[rejection.kind] += 1
        line = " ".join(f"{rejection.place}: {rejection.reason}".split())
        self._first.setdefault(rejection.kind, line)
        with (self._folder / REASONS).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{line}\n")

    def _keep(self, number: str, original: Path) -> str:
        """The file's name here: a second name of the same bytes where the file system can, a copy where it can't."""
        if original not in self._kept:
            name = f"{number}.{re.sub(r'[^A-Za-z0-9._-]', '_', original.name)[-80:]}"
            try:
                os.link(original, self._folder / name, follow_symlinks=False)
            except OSError:
                shutil.copyfile(original, self._folder / name, follow_symlinks=False)
            self._kept[original] = name
        return self._kept[original]
