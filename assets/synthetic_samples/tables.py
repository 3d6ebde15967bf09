"""The tables of synthetic samples, a row a screen: how they are written, counted, and checked for near copies."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import NonNegativeInt, PositiveInt

from assets.agent.actions import REFUSAL, Action, Point, action_to_row, from_pixel, render_response, to_pixel
from assets.agent.parameters import AgentParameters
from assets.agent.samples import question_type
from assets.errors import ParameterError
from assets.stage import Stage, StageParameters, write_parquet
from assets.synthetic_samples.contact_sheet import ContactSheet
from assets.synthetic_samples.near_copies import Fingerprints, Hash, difference_hash
from assets.synthetic_samples.sheets import Box, Drawn, Element, Pixels, encode_png
from assets.synthetic_samples.themes import SPLITS, Split

if TYPE_CHECKING:
    import pyarrow as pa


class Screens(StageParameters):
    """How many screens each split gets."""

    train: PositiveInt
    heldout: PositiveInt


class SplitParameters(StageParameters):
    """What every synthetic domain is asked for.

    Attributes:
        screens: how many screens each split gets.
        near_copy_distance: a held-out screen whose 256-bit perceptual hash differs from a training screen's in at most
            this many bits is a near copy, and is dropped.
        contact_sheet: screens on the contact sheet of each split.
    """

    screens: Screens
    near_copy_distance: NonNegativeInt
    contact_sheet: PositiveInt


@dataclass(frozen=True)
class Sample:
    """A row of a table, the pixels of its screen and their hash."""

    row: dict[str, Any]
    pixels: Pixels
    hash: Hash


class SampleTables:
    """Writes the tables of a domain, training first, then held-out, and then the report on both.

    Args:
        stage: where they go.
        parameters: how many rows they get.
        own: the text columns that only this domain has; rows are counted by the first.
    """

    def __init__(self, stage: Stage[Any], parameters: SplitParameters, own: Sequence[str]) -> None:
        self._stage = stage
        self._parameters = parameters
        self._own = own
        self._prints: dict[Split, Fingerprints] = {split: Fingerprints() for split in SPLITS}
        self._counts: dict[tuple[str, str], Counter[str]] = {}

    def write(self, split: Split, samples: Iterable[Sample | None]) -> None:
        """Take different samples from a stream, which may be endless, until the split has as many as it should.

        A sample is None where the page did not prove enough of a screen.

        Raises:
            ParameterError: hardly any sample can be used: what is asked for does not fit.
        """
        wanted = getattr(self._parameters.screens, split)
        sheet = ContactSheet(self._parameters.contact_sheet, columns=4)
        taken = self._stage.progress(self._different(split, samples, wanted), f"{split} screens", wanted)
        rows = (self._counted(split, sheet, sample) for sample in taken)
        write_parquet(self._stage.output / f"{split}-00000.parquet", rows, schema(*self._own))
        self._stage.picture(f"contact_sheet_{split}", sheet.image())

    def report(self) -> None:
        """Counts, and how near the held-out screens come to those of training."""
        for split in SPLITS:
            total = sum((counter for (name, _), counter in self._counts.items() if name == split), Counter())
            self._stage.summary(**{f"{split}_{name}": total[name] for name in ("screens", "questions", "absent")})
        nearest = [self._prints["train"].nearest(print_) for print_ in self._prints["heldout"]]
        self._stage.summary(nearest_heldout_distance=min(nearest))
        columns = ("screens", "questions", "absent")
        rows = [(*key, *(counter[name] for name in columns)) for key, counter in sorted(self._counts.items())]
        self._stage.table("questions", ("split", self._own[0], *columns), rows)

    def _different(self, split: Split, samples: Iterable[Sample | None], wanted: int) -> Iterator[Sample]:
        seen: set[str] = set()
        dropped = near_copies = 0
        for sample in samples:
            if sample is None or sample.row["id"] in seen:
                dropped += 1
            elif split == "heldout" and self._is_near_copy(sample):
                near_copies += 1
            else:
                seen.add(sample.row["id"])
                yield sample
                if len(seen) == wanted:
                    break
            if dropped + near_copies > 100 + 10 * len(seen):
                raise ParameterError(
                    f"{self._stage.entry.name}: of the {split} screens drawn, {len(seen)} could be used, {dropped} did "
                    f"not fit or repeated another, {near_copies} were near copies"
                )
        self._stage.summary(**{f"{split}_dropped": dropped})
        if split == "heldout":
            self._stage.summary(near_copies_dropped=near_copies)

    def _is_near_copy(self, sample: Sample) -> bool:
        return self._prints["train"].nearest(sample.hash) <= self._parameters.near_copy_distance

    def _counted(self, split: Split, sheet: ContactSheet, sample: Sample) -> dict[str, Any]:
        row, own = sample.row, sample.row[self._own[0]]
        self._prints[split].add(sample.hash)
        sheet.add(sample.pixels, row["questions"], own)
        counter = self._counts.setdefault((split, own), Counter())
        counter["screens"] += 1
        counter["questions"] += len(row["questions"])
        counter["absent"] += sum(question["kind"] == "absent" for question in row["questions"])
        return row


def schema(*names: str) -> pa.Schema:
    """The table of a synthetic domain, a row a screen; `names` are the text columns of its own."""
    import pyarrow as pa

    element = pa.struct([("label", pa.string()), ("kind", pa.string()), ("box", pa.list_(pa.float32()))])
    return pa.schema(
        [
            *((name, pa.string()) for name in ("id", "domain", "split", *names, "locale")),
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("elements", pa.list_(element)),
            ("questions", pa.list_(question_type())),
        ]
    )


def sample(
    domain: str,
    split: Split,
    drawn: Drawn,
    elements: Sequence[Element],
    questions: list[dict[str, Any]],
    **own: str,
) -> Sample:
    """A screen and its questions as a row of the table. The id comes from the picture and the questions alone."""
    image = encode_png(drawn.pixels)
    identity = hashlib.sha256(image + repr(questions).encode()).hexdigest()[:16]
    height, width, _ = drawn.pixels.shape
    row = {
        "id": identity,
        "domain": domain,
        "split": split,
        **own,
        "image": {"bytes": image, "path": f"{identity}.png"},
        "width": width,
        "height": height,
        "elements": [{"label": item.label, "kind": item.kind, "box": list(item.box)} for item in elements],
        "questions": questions,
    }
    return Sample(row, drawn.pixels, difference_hash(drawn.pixels))


def question_row(
    instruction: str, kind: str, gestures: Sequence[tuple[str, Sequence[Box]]], agent: AgentParameters
) -> dict[str, Any]:
    """A question and its answer: each gesture is an action and the boxes of its coordinates, acted on at their centres.

    A gesture without boxes is the refusal: what is asked for is not on the screen.
    """
    actions = [_action(name, boxes, agent.screen) for name, boxes in gestures]
    return {
        "instruction": instruction,
        "response": render_response(None, actions, agent.coordinate_digits),
        "kind": kind,
        "actions": [action_to_row(action) for action in actions],
        "boxes": [list(box) for _, boxes in gestures for box in boxes],
    }


def _action(name: str, boxes: Sequence[Box], screen: tuple[int, int]) -> Action:
    if not boxes:
        return Action(name, point=REFUSAL)
    points = [centre_point(box, screen) for box in boxes]
    return Action(name, point=points[0], end=points[1] if len(points) > 1 else None)


def centre_point(box: tuple[float, float, float, float], screen: tuple[int, int]) -> Point:
    """The 0-999 point at the centre of a box of the screen.

    Raises:
        ValueError: the box is too small to be hit by 0-999 coordinates.
    """
    x0, y0, x1, y1 = box
    point = from_pixel((x0 + x1) / 2, (y0 + y1) / 2, *screen)
    x, y = to_pixel(point, *screen)
    if not (x0 <= x < x1 and y0 <= y < y1):
        raise ValueError(f"a box of {x1 - x0:g} x {y1 - y0:g} pixels is too small for 0-999 coordinates: {box}")
    return point
