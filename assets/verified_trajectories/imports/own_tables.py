"""Our own format: `episodes.parquet` and `steps.parquet` of assets/environments/trajectory.py, or shards of them.

As recorded by `hesper play`, by another project of this kind, or written with Hugging Face datasets: 64-bit numbers and
large strings are taken for ours, further columns are left out. Each episode's rows are read, checked and written anew;
what the file says of the split, the policy and the outcome is not believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from assets.agent.actions import Action
from assets.agent.observation import Box
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.verified_trajectories.imports.episodes import ImportedEpisode, ImportedStep, number, text_of
from assets.verified_trajectories.imports.pictures import load_picture
from assets.verified_trajectories.imports.rows import BatchFiles, Place, Rejected, Rejection, Row, check_row_group

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "hesper"

TABLES = ("episodes", "steps")
SHARD = re.compile(r"(episodes|steps)([-_.][^/]*)?\.parquet|(episodes|steps)/[^/]+\.parquet")


def recognises_files(files: BatchFiles) -> bool:
    """Whether the batch holds one of the two tables."""
    return any(_table_of(name) is not None for name in files.tables)


def read(files: BatchFiles) -> Iterator[ImportedEpisode | Rejection]:
    """The episodes of a batch in the order of their table, then the steps that belong to none."""
    tables: dict[str, list[str]] = {table: [] for table in TABLES}
    for name in files.tables:
        table = _table_of(name)
        if table is None:
            yield Rejection(Place(name), "neither episodes nor steps of our own format", files[name])
        else:
            tables[table].append(name)
    for table in TABLES:
        if not tables[table]:
            yield Rejection(Place(f"{table}.parquet"), "missing: a batch of our own format holds both tables")
    rejected: list[Rejection] = []
    steps = _Steps(files, [name for name in tables["steps"] if _sound(files, name, steps_schema(), rejected)])
    rejected += steps.rejected
    episodes = [name for name in tables["episodes"] if _sound(files, name, episodes_schema(), rejected)]
    yield from rejected
    seen: dict[str, Place] = {}
    for name in episodes:
        yield from _episodes(files, name, steps, seen)
    for identity, places in steps.rest(seen):
        yield Rejection(places[0].place(identity), f"{len(places)} steps of an episode that is not there")


def _table_of(name: str) -> str | None:
    path = PurePosixPath(name)
    for start in (path.name, "/".join(path.parts[-2:])):
        match = SHARD.fullmatch(start)
        if match:
            return match[1] or match[3]
    return None


def _sound(files: BatchFiles, name: str, schema: pa.Schema, rejected: list[Rejection]) -> bool:
    """Whether a file is Parquet and has the columns of ours; if not, why is added to `rejected`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_schema(files[name])
    except (pa.ArrowException, OSError) as error:
        rejected.append(Rejection(Place(name), f"broken Parquet: {error}", files[name]))
        return False
    missing = [column for column in schema.names if column not in found.names]
    if missing:
        rejected.append(Rejection(Place(name), f"no column {', '.join(missing)}", files[name]))
        return False
    return True


# --- the two tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _At:
    """Where a step's row is."""

    file: str
    group: int
    offset: int
    row: int
    index: int

    def place(self, episode: str | None = None) -> Place:
        """The same, for a person."""
        return Place(self.file, row=self.row, episode=episode, step=self.index)


class _Steps:
    """The rows of the steps table by episode. Only where they are is kept; a row group is read when it is asked for."""

    def __init__(self, files: BatchFiles, names: Sequence[str]) -> None:
        self._files = files
        self._places: dict[str, list[_At]] = {}
        self._group: tuple[str, int] | None = None
        self._table: pa.Table | None = None
        self.rejected: list[Rejection] = []
        for name in names:
            self._index(name)

    def _index(self, name: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        row = 0
        try:
            with pq.ParquetFile(self._files[name]) as file:
                for group in range(file.num_row_groups):
                    count = file.metadata.row_group(group).num_rows
                    try:
                        found = file.read_row_group(group, columns=["episode_id", "index"]).to_pylist()
                    except (pa.ArrowException, OSError, ValueError) as error:
                        reason = f"broken Parquet: {count} rows from here can't be read: {error}"
                        self.rejected.append(Rejection(Place(name, row=row), reason, self._files[name]))
                        found = []
                    for offset, values in enumerate(found):
                        self._add(_At(name, group, offset, row + offset, values["index"]), values["episode_id"])
                    row += count
        except (pa.ArrowException, OSError) as error:
            self.rejected.append(Rejection(Place(name), f"broken Parquet: {error}", self._files[name]))

    def _add(self, at: _At, episode: Any) -> None:
        if not isinstance(episode, str) or not isinstance(at.index, int):
            self.rejected.append(Rejection(Place(at.file, row=at.row), "a step without an episode or an index"))
        else:
            self._places.setdefault(episode, []).append(at)

    def of(self, episode: str) -> list[_At]:
        """Where the steps of an episode are, in their order."""
        return sorted(self._places.get(episode, ()), key=lambda at: at.index)

    def rest(self, taken: Mapping[str, Any]) -> Iterator[tuple[str, list[_At]]]:
        """Episodes that have steps and nothing else."""
        yield from ((name, places) for name, places in self._places.items() if name not in taken)

    def values(self, at: _At) -> dict[str, Any]:
        """The row itself.

        Raises:
            Rejected: it can't be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if self._group != (at.file, at.group):
                with pq.ParquetFile(self._files[at.file]) as file:
                    check_row_group(file, at.group, self._files.parameters.row_group_bytes)
                    self._table = file.read_row_group(at.group, columns=steps_schema().names)
                self._group = (at.file, at.group)
            assert self._table is not None
            values: dict[str, Any] = self._table.slice(at.offset, 1).to_pylist()[0]
        except (pa.ArrowException, OSError, ValueError) as error:
            self._group = None
            raise Rejected(f"broken Parquet: {error}") from None
        return values


def _episodes(
    files: BatchFiles, name: str, steps: _Steps, seen: dict[str, Place]
) -> Iterator[ImportedEpisode | Rejection]:
    for row in files.rows(name):
        if isinstance(row, Rejection):
            yield row
            continue
        identity = row.values.get("id")
        if not isinstance(identity, str) or not identity:
            yield row.rejection("an episode without an id")
        elif identity in seen:
            yield row.rejection(f"duplicate id: {identity!r} is also at {seen[identity]}", identity)
        else:
            seen[identity] = row.place
            try:
                yield _episode(files, row, steps.of(identity), steps)
            except Rejected as error:
                yield row.rejection(error, identity)


def _episode(files: BatchFiles, row: Row, places: Sequence[_At], steps: _Steps) -> ImportedEpisode:
    values, identity = row.values, str(row.values["id"])
    indices = [at.index for at in places]
    if len(set(indices)) < len(indices):
        raise Rejected(f"duplicate id: steps of {identity!r} have the same index", _twice(indices))
    if indices != list(range(len(indices))) or len(indices) != values.get("steps"):
        raise Rejected(f"the episode says {values.get('steps')} steps, there are those numbered {indices[:20]}")
    made = []
    for at in places:
        try:
            made.append(_step(files, steps.values(at), values))
        except Rejected as error:
            raise Rejected(f"{at.place()}: {error.reason}", at.index, error.picture) from None
    final = values.get("final_screenshot")
    held = isinstance(final, Mapping) and any(final.get(key) for key in ("bytes", "path"))
    locale = values.get("locale")
    return ImportedEpisode(
        place=replace(row.place, episode=identity),
        source=text_of(values.get("task_id"), "the task's id") or identity,
        platform=text_of(values.get("platform"), "the platform"),
        apps=tuple(app for app in [text_of(values.get("app"), "the app")] if app and app != "unknown"),
        instruction=text_of(values.get("instruction"), "the instruction"),
        steps=tuple(made),
        claimed=values.get("claimed") is True,
        raw=row.raw,
        final=load_picture(files, final) if held else None,
        keypoints=_texts(values.get("keypoints"), "keypoints"),
        locale=locale if locale in ("en", "zh") else None,
        outcome="infrastructure" if values.get("outcome") == "infrastructure" else "",
    )


def _step(files: BatchFiles, values: Mapping[str, Any], episode: Mapping[str, Any]) -> ImportedStep:
    for name in ("platform", "instruction"):
        if values.get(name) != episode.get(name):
            raise Rejected(f"its {name} is {values.get(name)!r}, the episode's {episode.get(name)!r}")
    screenshot = load_picture(files, values.get("screenshot"))
    stated = (values.get("width"), values.get("height"))
    if stated != (screenshot.width, screenshot.height):
        raise Rejected(f"the screen is said to be {stated}, its picture is {(screenshot.width, screenshot.height)}")
    actions = values.get("actions") or []
    if not isinstance(actions, list):
        raise Rejected("actions are a list")
    return ImportedStep(
        screenshot=screenshot,
        think=text_of(values.get("think"), "the thought"),
        actions=tuple(_action(action) for action in actions),
        boxes=_boxes(values.get("boxes")),
        response=text_of(values.get("response"), "the response"),
        history=_texts(values.get("history"), "the history"),
        state_before=text_of(values.get("state_before"), "the state"),
        state_after=text_of(values.get("state_after"), "the state"),
    )


def _action(values: Any) -> Action:
    if not isinstance(values, Mapping):
        raise Rejected("unknown action: it is no record")
    index = values.get("index")
    if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
        raise Rejected(f"unknown action: the index {index!r}")
    content, direction = values.get("content"), values.get("direction")
    return Action(
        name=text_of(values.get("name"), "an action's name"),
        point=_point(values.get("point")),
        end=_point(values.get("end")),
        content=None if content is None else text_of(content, "the content"),
        keys=_texts(values.get("keys"), "keys"),
        direction=None if direction is None else text_of(direction, "the direction"),
        index=index,
    )


def _point(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2 or not all(type(item) is int for item in value):
        raise Rejected(f"coordinates are two integers, not {value!r}")
    return value[0], value[1]


def _boxes(value: Any) -> tuple[Box, ...]:
    boxes: list[Box] = []
    for box in value or ():
        if not isinstance(box, list) or len(box) != 4:
            raise Rejected(f"a box is four numbers, not {box!r}")
        left, top, right, bottom = (number(item, "a side of a box") for item in box)
        boxes.append((left, top, right, bottom))
    return tuple(boxes)


def _texts(value: Any, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Rejected(f"{what}: a list of texts, not {value!r}")
    return tuple(value)


def _twice(indices: Sequence[int]) -> int:
    return next(index for index in indices if indices.count(index) > 1)
