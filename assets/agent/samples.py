"""Samples: one question about one screenshot and its verified answer, whichever table it comes from.

Grounding screens, CAPTCHA puzzles and the verified steps of trajectories are read into one shape. Samples that share
a screenshot stay together as a `Screen`, because the fan encodes the screenshot once for all of them.

Pictures of small tables are kept in memory. Those of large ones stay in their table and are read when they are looked
at, so that memory doesn't grow with the size of a screenshot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.agent.actions import DOMAIN_OF_PLATFORM, Action, action_from_row, action_to_row, action_type
from assets.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

DOMAINS: tuple[str, ...] = ("grounding", "captcha", "mobile", "web", "computer")
TABLE_OF_DOMAIN: dict[str, str] = {
    "grounding": "data/grounding_samples",
    "captcha": "data/captcha_samples",
    "mobile": "data/verified_trajectories",
    "web": "data/verified_trajectories",
    "computer": "data/verified_trajectories",
}
"""The stage output that holds a domain's samples."""

TRAINING_VERDICTS = ("correct", "exploratory")
"""Step verdicts that may be imitated (METHOD.md, step level)."""

KEPT_BYTES = 1 << 29
"""Size of a domain's tables, in bytes, up to which their pictures are kept in memory."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class StoredPicture:
    """A picture of a table, known by the hash of its bytes and read anew each time."""

    digest: bytes
    file: Path = field(compare=False)
    column: str = field(compare=False)
    row_group: int = field(compare=False)
    row: int = field(compare=False)

    def read(self) -> bytes:
        """The PNG bytes.

        Raises:
            InputError: the table was changed since its samples were loaded.
        """
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.file) as table:
                group = table.read_row_group(self.row_group, columns=[f"{self.column}.bytes"])
                picture: bytes = group[self.column][self.row].as_py()["bytes"]
        except (OSError, LookupError, ValueError) as error:
            raise InputError(f"{self.file} was changed while its samples were in use: {error}") from error
        if _digest(picture) != self.digest:
            raise InputError(f"{self.file} was changed while its samples were in use")
        return picture


def _digest(picture: bytes) -> bytes:
    return hashlib.blake2b(picture, digest_size=16).digest()


def _bytes_of(picture: bytes | StoredPicture) -> bytes:
    return picture if isinstance(picture, bytes) else picture.read()


@dataclass(frozen=True)
class Element:
    """What the DOM knows of one control: its label and its box in pixels, half-open."""

    label: str
    kind: str
    box: Box


@dataclass(frozen=True)
class Sample:
    """One question and its verified answer.

    Attributes:
        group: what dependent samples share (the screen, or the episode): intervals are clustered by it.
        picture: the screenshot; `image` gives its PNG bytes.
        platform: `mobile`, `web`, `desktop`, or None for grounding and CAPTCHA.
        history: every earlier response of the episode, oldest first.
        boxes: one box in pixels for each coordinate of `actions`, in order.
    """

    id: str
    domain: str
    split: str
    group: str
    picture: bytes | StoredPicture
    width: int
    height: int
    platform: str | None
    instruction: str
    history: tuple[str, ...]
    response: str
    actions: tuple[Action, ...]
    boxes: tuple[Box, ...]
    kind: str

    @property
    def image(self) -> bytes:
        """The PNG bytes of the screenshot."""
        return _bytes_of(self.picture)


@dataclass(frozen=True)
class Screen:
    """A screenshot and all that is asked about it; `elements` is empty where no DOM told of them."""

    picture: bytes | StoredPicture
    width: int
    height: int
    domain: str
    samples: tuple[Sample, ...]
    elements: tuple[Element, ...] = ()

    @property
    def image(self) -> bytes:
        """The PNG bytes of the screenshot."""
        return _bytes_of(self.picture)


def question_type() -> pa.DataType:
    """The Arrow type of a question about a screen, as the synthetic tables store it."""
    import pyarrow as pa

    return pa.struct(
        [
            ("instruction", pa.string()),
            ("response", pa.string()),
            ("kind", pa.string()),
            ("actions", pa.list_(action_type())),
            ("boxes", pa.list_(pa.list_(pa.float32()))),
        ]
    )


def load_screens(folder: Path, domain: str, split: str, perception: bool = False) -> list[Screen]:
    """Read a domain's screens of one split, in the order of the table.

    `folder` is the stage output that holds the domain (TABLE_OF_DOMAIN). Of trajectories, only steps that may be
    imitated are read: the episode was judged completed, the step correct or exploratory. With `perception`, the
    questions that are answered in words come too, where a screen has such; their kinds begin with `perception/`.

    Raises:
        InputError: no such table in the folder, or an unknown domain.
    """
    if domain not in DOMAINS:
        raise InputError(f"no domain '{domain}'; known: {', '.join(DOMAINS)}")
    if domain in ("grounding", "captcha"):
        rows = _rows(folder, f"{split}-*.parquet", picture="image")
        return [_synthetic_screen(row, domain, split, perception) for row in rows]
    return _trajectory_screens(folder, domain, split)


def load_samples(folder: Path, domain: str, split: str) -> list[Sample]:
    """The samples of `load_screens`, one after another."""
    return [sample for screen in load_screens(folder, domain, split) for sample in screen.samples]


def group_screens(samples: Iterable[Sample]) -> list[Screen]:
    """Samples that share a screenshot become one screen; screens in the order of their first sample."""
    shared: dict[bytes | StoredPicture, list[Sample]] = {}
    for sample in samples:
        shared.setdefault(sample.picture, []).append(sample)
    return [
        Screen(picture, members[0].width, members[0].height, members[0].domain, tuple(members))
        for picture, members in shared.items()
    ]


def _synthetic_screen(row: Mapping[str, Any], domain: str, split: str, perception: bool) -> Screen:
    picture, width, height = row["image"], row["width"], row["height"]
    questions = [*row["questions"], *map(_perception_question, row.get("perception", ()) if perception else ())]
    samples = tuple(
        Sample(
            id=f"{row['id']}/{number}",
            domain=domain,
            split=split,
            group=row["id"],
            picture=picture,
            width=width,
            height=height,
            platform=None,
            instruction=question["instruction"],
            history=(),
            response=question["response"],
            actions=tuple(action_from_row(action) for action in question["actions"]),
            boxes=_boxes(question["boxes"]),
            kind=question["kind"],
        )
        for number, question in enumerate(questions)
    )
    elements = tuple(Element(item["label"], item["kind"], _box(item["box"])) for item in row["elements"])
    return Screen(picture, width, height, domain, samples, elements)


def _perception_question(question: Mapping[str, Any]) -> dict[str, Any]:
    action = action_to_row(Action("Answer", content=question["answer"]))
    return {**question, "kind": f"perception/{question['kind']}", "actions": [action], "boxes": []}


def _trajectory_screens(folder: Path, domain: str, split: str) -> list[Screen]:
    completed = {
        row["id"]
        for row in _rows(folder, "episodes*.parquet", ["id", "platform", "split", "verdict"])
        if row["verdict"] == "completed" and row["split"] == split and DOMAIN_OF_PLATFORM[row["platform"]] == domain
    }
    samples = [
        Sample(
            id=f"{row['episode_id']}/{row['index']}",
            domain=domain,
            split=split,
            group=row["episode_id"],
            picture=row["screenshot"],
            width=row["width"],
            height=row["height"],
            platform=row["platform"],
            instruction=row["instruction"],
            history=tuple(row["history"]),
            response=row["response"],
            actions=tuple(action_from_row(action) for action in row["actions"]),
            boxes=_boxes(row["boxes"]),
            kind=row["actions"][0]["name"] if row["actions"] else "none",
        )
        for row in _rows(folder, "steps*.parquet", picture="screenshot")
        if row["episode_id"] in completed and row["step_verdict"] in TRAINING_VERDICTS
    ]
    return group_screens(samples)


def _rows(
    folder: Path, pattern: str, columns: list[str] | None = None, picture: str | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of every shard that matches, a group at a time; of the column `picture`, the bytes or where they are."""
    import pyarrow.parquet as pq

    files = sorted(folder.glob(pattern))
    if not files:
        raise InputError(f"{folder} holds no {pattern}")
    kept = sum(file.stat().st_size for file in files) <= KEPT_BYTES
    for file in files:
        with pq.ParquetFile(file) as table:
            for group in range(table.num_row_groups):
                for number, row in enumerate(table.read_row_group(group, columns=columns).to_pylist()):
                    if picture is not None:
                        seen = row[picture]["bytes"]
                        row[picture] = seen if kept else StoredPicture(_digest(seen), file, picture, group, number)
                    yield row


def _boxes(boxes: Iterable[Iterable[float]]) -> tuple[Box, ...]:
    return tuple(_box(box) for box in boxes)


def _box(values: Iterable[float]) -> Box:
    left, top, right, bottom = values
    return (left, top, right, bottom)
