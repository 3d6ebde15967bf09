"""A table of trajectories, read in place: what is asked for comes from the Parquet files, never the whole of them."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from assets.agent.actions import REFUSAL, action_from_row, render_action
from assets.environments.session import flatten
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

CACHE_BYTES = 64 << 20
"""Memory for what was read and may be asked for again."""

_AHEAD_BYTES = 8 << 20
"""Pictures that are kept beyond the one asked for: the next to be asked for are its neighbours."""

_MOST_WORDS = 16
_MOST_DIFFERENCES = 200
_ABOUT = ("id", "policy", "platform", "app", "split", "instruction", "outcome", "claimed")
_INSTRUCTION_LETTERS = 240
"""Of an instruction in the index; the episode has all of it."""


class TrajectoryTable:
    """Episodes and steps of a folder with `episodes.parquet`, `steps.parquet` and perhaps `reports.parquet`.

    An episode is addressed by its row, a picture by the episode and its position: that of a step is the screen before
    it, the one after the last is the final screen. The files stay open, so a stage that replaces the folder meanwhile
    changes nothing here. May be used from many threads.

    Raises:
        InputError: a file is missing, is no Parquet file, or lacks a column.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cache = _Cache(CACHE_BYTES)
        self._episodes = _Rows(folder / "episodes.parquet", episodes_schema().names, cache)
        self._steps = _Rows(folder / "steps.parquet", steps_schema().names, cache)
        reports = folder / "reports.parquet"
        self._reports = _Rows(reports, _REPORT_COLUMNS, cache) if reports.is_file() else None
        self._owners, self._order, self._starts = _by_episode(self._episodes, self._steps)
        self._episode_of = _row_by_name(self._episodes.column("id"))
        self._report_of = {} if self._reports is None else _row_by_name(self._reports.column("episode_id"))

    @property
    def has_verdicts(self) -> bool:
        """Whether the episodes were judged."""
        return "verdict" in self._episodes.names

    @property
    def steps(self) -> int:
        """Rows of the steps table."""
        return len(self._owners)

    @property
    def stray_steps(self) -> int:
        """Steps of episodes that are not there."""
        return int(np.count_nonzero(self._owners < 0))

    def index(self) -> list[dict[str, Any]]:
        """What there is to choose from: a small object an episode, in the order of the table."""
        columns = [*_ABOUT, "verdict"] if self.has_verdicts else [*_ABOUT]
        counts = np.diff(self._starts)
        reports = self.reports()
        rows: list[dict[str, Any]] = []
        for batch in self._episodes.batches(columns, 4096):
            for row in batch.to_pylist():
                number = len(rows)
                report = reports.get(row["id"])
                rows.append(
                    {
                        **row,
                        "number": number,
                        "instruction": (row["instruction"] or "")[:_INSTRUCTION_LETTERS],
                        "steps": int(counts[number]),
                        **({} if report is None else {"review": _review_state(report)}),
                    }
                )
        return rows

    def reports(self) -> dict[str, dict[str, Any]]:
        """Episode -> its report without the keypoints; nothing where there is no `reports.parquet`."""
        if self._reports is None:
            return {}
        columns = [name for name in _REPORT_COLUMNS if name != "keypoints"]
        rows = (row for batch in self._reports.batches(columns, 4096) for row in batch.to_pylist())
        return {row["episode_id"]: {**row, **_finite(row, "probability", "disagreement")} for row in rows}

    def number(self, episode: str) -> int | None:
        """The row of an episode."""
        return self._episode_of.get(episode)

    def find(self, text: str) -> list[int]:
        """Episodes whose id, instruction and thoughts together hold every word of a text; case does not count."""
        words = text.split()[:_MOST_WORDS]
        # One more than there are, for the steps that belong to none.
        own = np.arange(len(self._starts) - 1)
        found = np.zeros((len(words), len(own) + 1), dtype=bool)
        places = [
            (self._episodes, "id", own),
            (self._episodes, "instruction", own),
            (self._steps, "think", self._owners),
        ]
        for rows, column, owners in places:
            begin = 0
            for batch in rows.batches([column], 4096):
                mine = owners[begin : begin + len(batch)]
                begin += len(batch)
                for row, word in enumerate(words):
                    hits = pc.match_substring(batch.column(0), word, ignore_case=True)
                    found[row, mine[pc.fill_null(hits, False).to_numpy(zero_copy_only=False)]] = True
        return [int(number) for number in np.flatnonzero(found[:, :-1].all(axis=0))]

    def episode(self, number: int) -> dict[str, Any] | None:
        """All that is known of an episode but its pictures; None if there is no such row."""
        if not 0 <= number < len(self._starts) - 1:
            return None
        (row,) = self._episodes.rows([number], [name for name in self._episodes.names if name != "final_screenshot"])
        columns = [name for name in self._steps.names if name not in ("screenshot", "history", "instruction")]
        steps = [_step(step) for step in self._steps.rows(self._rows_of(number), columns)]
        at = self._report_of.get(row["id"])
        report = None
        if self._reports is not None and at is not None:
            (report,) = self._reports.rows([at], [name for name in _REPORT_COLUMNS if name != "seen"])
            report |= _finite(report, "probability", "disagreement")
        return {
            **{name: row[name] for name in (*_ABOUT, "task_id", "locale")},
            "number": number,
            "named": row["keypoints"] or [],
            "verdict": row.get("verdict"),
            "votes": [{**vote, **_finite(vote, "confidence")} for vote in row.get("votes") or []],
            "report": report,
            "steps": steps,
            "final": self.picture(number, len(steps)) is not None,
        }

    def picture(self, number: int, position: int) -> bytes | None:
        """The bytes of a picture; None where there is none."""
        if not 0 <= number < len(self._starts) - 1:
            return None
        steps = self._rows_of(number)
        if position == len(steps):
            return self._episodes.picture(number, "final_screenshot")
        return self._steps.picture(steps[position], "screenshot") if 0 <= position < len(steps) else None

    def _rows_of(self, number: int) -> list[int]:
        """Rows of the steps table, in the order of the steps."""
        return [int(row) for row in self._order[self._starts[number] : self._starts[number + 1]]]


_REPORT_COLUMNS = (
    "episode_id", "seen", "verdict", "probability", "disagreement", "for_review", "decided_by", "keypoints",
)  # fmt: skip


def _review_state(report: Mapping[str, Any]) -> str:
    if report["for_review"]:
        return "to review"
    return "decided by vote" if report["decided_by"] == "vote" else "decided by a person"


def _by_episode(
    episodes: _Rows, steps: _Rows
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(episode of each step, -1 for none; rows of steps by episode and index; where in these each begins)."""
    ids = episodes.column("id").combine_chunks()
    owners, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batch in steps.batches(["episode_id", "index"], 65536):
        owner = pc.fill_null(pc.index_in(batch.column("episode_id"), value_set=ids), -1)
        owners.append(owner.to_numpy(zero_copy_only=False).astype(np.int64))
        places.append(pc.fill_null(batch.column("index"), 0).to_numpy(zero_copy_only=False).astype(np.int64))
    owner_of, place_of = np.concatenate(owners), np.concatenate(places)
    order = np.lexsort((place_of, owner_of))
    starts = np.searchsorted(owner_of[order], np.arange(len(ids) + 1))
    return owner_of, order, starts


def _row_by_name(names: pa.ChunkedArray) -> dict[str, int]:
    found: dict[str, int] = {}
    for row, name in enumerate(names.to_pylist()):
        found.setdefault(name, row)
    return found


# --- a step, made ready to be drawn -----------------------------------------------------------------------------------


def _step(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the steps table for the page: places are shares of the width and the height, from 0 to 1."""
    before, after = row["state_before"] or "", row["state_after"] or ""
    states = _state(before), _state(after)
    differences = None if states[0] is None or states[1] is None else _differences(states[0], states[1])
    return {
        "index": row["index"],
        "width": row["width"],
        "height": row["height"],
        "think": row["think"] or "",
        "response": row["response"] or "",
        "actions": [_action(action) for action in row["actions"] or []],
        "boxes": _boxes(row["boxes"] or [], row["width"], row["height"]),
        # A state is shown by its differences: it can be long.
        "before": before if differences is None else "",
        "after": after if differences is None else "",
        "differences": differences,
        "verdict": row.get("step_verdict"),
    }


def _action(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = render_action(action_from_row(row))
    except (ValueError, TypeError, IndexError):  # of somebody else's table
        text = f"{row['name']} {json.dumps({key: value for key, value in row.items() if value and key != 'name'})}"
    points = [point for point in (row["point"], row["end"]) if point is not None]
    seen = [point for point in points if len(point) == 2 and all(v is not None and 0 <= v <= 999 for v in point)]
    return {
        "name": row["name"],
        "text": text,
        "brief": f"“{row['content']}”" if row["content"] else "+".join(row["keys"] or []) or row["direction"] or "",
        "points": [[(value + 0.5) / 1000 for value in point] for point in seen],
        "absent": row["point"] == list(REFUSAL),
        "direction": row["direction"],
    }


def _boxes(boxes: Sequence[Sequence[float | None]], width: int | None, height: int | None) -> list[list[float]]:
    if not width or not height:
        return []
    known = [box for box in boxes if len(box) == 4 and all(v is not None and math.isfinite(v) for v in box)]
    return [[left / width, top / height, right / width, low / height] for left, top, right, low in known]  # type: ignore[operator]


def _state(text: str) -> dict[str, Any] | None:
    """The state, where a table holds it as JSON and not only its digest."""
    if not text.startswith("{"):
        return None
    try:
        return flatten(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[list[str | None]]:
    """(dotted path, value before, value after) of what differs; values as JSON, None where there is none."""

    def written(state: Mapping[str, Any], path: str) -> str | None:
        return json.dumps(state[path], ensure_ascii=False) if path in state else None

    pairs = ([path, written(before, path), written(after, path)] for path in sorted({*before, *after}))
    return [pair for pair in pairs if pair[1] != pair[2]][:_MOST_DIFFERENCES]


def _finite(row: Mapping[str, Any], *names: str) -> dict[str, float | None]:
    """Numbers that JSON can hold."""
    return {name: row[name] if row[name] is not None and math.isfinite(row[name]) else None for name in names}


# --- Parquet in place -------------------------------------------------------------------------------------------------


class _Cache:
    """Values by key; those that were not used for the longest go when all together are too large."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        with self._lock:
            if key in self._values or size > self._limit:
                return
            self._values[key] = value, size
            self._size += size
            while self._size > self._limit:
                _, (_, freed) = self._values.popitem(last=False)
                self._size -= freed


class _Rows:
    """Rows of one Parquet file by their number."""

    def __init__(self, path: Path, needed: Sequence[str], cache: _Cache) -> None:
        try:
            # A buffer, so that a column is read page by page and not in one piece.
            self._file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        except FileNotFoundError:
            raise InputError(f"there is no {path}") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path} can't be read as Parquet: {error}") from None
        self.names: list[str] = self._file.schema_arrow.names
        missing = sorted(set(needed) - set(self.names))
        if missing:
            raise InputError(f"{path} lacks the columns {', '.join(missing)}")
        self._path, self._cache = path, cache
        self._lock = threading.Lock()  # a ParquetFile is for one thread at a time
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def column(self, name: str) -> pa.ChunkedArray:
        """A whole column: for narrow ones."""
        with self._lock:
            return self._file.read([name], use_threads=False).column(0)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, a batch at a time."""
        with self._lock:
            batches = self._file.iter_batches(size, columns=list(columns), use_threads=False)
        while True:
            with self._lock:  # given back between batches: whoever goes through all of it keeps nobody waiting
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def rows(self, numbers: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Rows in the order of their numbers."""
        found: list[dict[str, Any]] = []
        for group, mine in groupby(numbers, self._group):
            places = [number - int(self._begins[group]) for number in mine]
            found += self._texts(group, columns).take(places).to_pylist()
        return found

    def picture(self, number: int, column: str) -> bytes | None:
        """The bytes of an embedded picture; None if the row has none."""
        with self._lock:
            found = self._cache.get((self._path, column, number))
            if found is None:
                found = self._read_picture(number, column)
        return found or None

    def _read_picture(self, wanted: int, column: str) -> bytes:
        """The picture; those that lie beside it in the file are kept, since they are read with it."""
        group = self._group(wanted)
        number, ahead, found = int(self._begins[group]), 0, b""
        for batch in self._file.iter_batches(8, [group], [f"{column}.bytes"], use_threads=False):
            for value in batch.column(0).to_pylist():
                picture = (value or {}).get("bytes") or b""
                if number == wanted:
                    found = picture
                ahead += len(picture) if number > wanted else 0
                self._cache.put((self._path, column, number), picture, len(picture) + 100)
                number += 1
            if ahead > _AHEAD_BYTES:
                break
        return found

    def _texts(self, group: int, columns: Sequence[str]) -> pa.Table:
        key = (self._path, tuple(columns), group)
        with self._lock:
            found = self._cache.get(key)
            if found is None:
                found = self._file.read_row_group(group, list(columns), use_threads=False)
                self._cache.put(key, found, found.nbytes)
        return found

    def _group(self, number: int) -> int:
        return int(np.searchsorted(self._begins, number, side="right")) - 1
