"""The tables of full-scale puzzles: drawn, photographed in sheets of a phone's and of a browser's screens, answered.

Every place that an answer touches is measured on the page it lies on: in view, not covered and, where it is clicked,
painted. The held-out screens, and with them the benchmark, are compared with all training screens before the tables
count as made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Literal, get_args

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from assets.agent.actions import action_to_row, render_response
from assets.agent.parameters import AgentParameters
from assets.errors import ParameterError
from assets.stage import Stage, StageParameters, write_parquet
from assets.synthetic_samples.captcha.latent import Family, Puzzle, PuzzleType, draw_puzzle
from assets.synthetic_samples.captcha.page import FONT_SIZE, PAGE_CSS, puzzle_screen, puzzle_style
from assets.synthetic_samples.captcha.settings import PuzzlePlatform, draw_setting
from assets.synthetic_samples.captcha.types import TYPES
from assets.synthetic_samples.contact_sheet import ContactSheet
from assets.synthetic_samples.contamination import Print, check_contamination, comparable
from assets.synthetic_samples.near_copies import difference_hash
from assets.synthetic_samples.sheets import Drawn, Pixels, SheetPage, encode_png, sheet_page
from assets.synthetic_samples.tables import Screens, schema
from assets.synthetic_samples.themes import SPLITS, Split

OWN = ("type", "family", "platform", "latent")
"""The text columns of these tables beside those of every synthetic table."""


class PageParameters(StageParameters):
    """What to draw at full scale.

    Attributes:
        types: the types of puzzle, in turn; `all` takes every one.
        screens: width and height of a platform's screens; each platform gets as many.
        difficulties: the lowest and the highest, of 1 to 5.
        tiles: screens across and down on the page of one browser pass.
        benchmark: screens of each family in the benchmark, which is held out; none leaves it out.
        near_copy_overlap: share of texts from which on a screen that looks like a training screen is a near copy.
        contact_sheet_width: width in pixels of a screen on the contact sheet.
    """

    types: Literal["all"] | tuple[str, ...]
    screens: dict[PuzzlePlatform, tuple[PositiveInt, PositiveInt]]
    difficulties: tuple[int, int]
    tiles: tuple[PositiveInt, PositiveInt]
    benchmark: dict[Family, NonNegativeInt]
    near_copy_overlap: float = Field(gt=0, le=1)
    contact_sheet_width: PositiveInt

    @field_validator("types")
    @classmethod
    def _known(cls, types: Literal["all"] | tuple[str, ...]) -> Literal["all"] | tuple[str, ...]:
        unknown = [] if types == "all" else sorted(set(types) - set(TYPES))
        if unknown or not types:
            raise ValueError(f"no such type of puzzle: {', '.join(unknown) or 'none named'}; known: {', '.join(TYPES)}")
        return types

    @field_validator("difficulties")
    @classmethod
    def _in_order(cls, difficulties: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= difficulties[0] <= difficulties[1] <= 5:
            raise ValueError("must be a lowest and a highest of 1 to 5")
        return difficulties

    @model_validator(mode="after")
    def _has_families(self) -> PageParameters:
        there = {type.family for type in self.puzzle_types}
        missing = sorted(family for family, wanted in self.benchmark.items() if wanted and family not in there)
        if missing:
            raise ValueError(f"the benchmark asks for {', '.join(missing)}, but none of the types is of that family")
        if not self.screens:
            raise ValueError("screens names no platform")
        return self

    @property
    def puzzle_types(self) -> list[PuzzleType]:
        """The types by themselves."""
        return list(TYPES.values()) if self.types == "all" else [TYPES[name] for name in self.types]


FAMILIES: tuple[Family, ...] = get_args(Family)


@dataclass(frozen=True)
class Asked:
    """A screen with its question as a row of the table, its pixels, and what it is compared by."""

    row: dict[str, Any]
    pixels: Pixels
    print: Print


def write_page_samples(
    stage: Stage[Any], parameters: PageParameters, screens: Screens, near_copy_distance: int, pictured: int
) -> None:
    """Write `train`, `heldout` and `benchmark` tables, contact sheets, and the reports on types and contamination.

    Args:
        near_copy_distance: bits of 256 by which a near copy's perceptual hash differs at most.
        pictured: screens on the contact sheet of each table.

    Raises:
        ParameterError: what is asked for does not fit, or a held-out screen is a near copy of a training screen.
    """
    agent = stage.section("agent", AgentParameters)
    prints: dict[str, list[Print]] = {}
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    with ExitStack() as stack:
        pages = {
            platform: stack.enter_context(sheet_page(size, parameters.tiles, PAGE_CSS, FONT_SIZE))
            for platform, size in parameters.screens.items()
        }
        draw = partial(_samples, stage, agent, parameters, pages)
        seen: set[str] = set()
        for table in (*SPLITS, "benchmark"):
            if table == "benchmark":
                parts = [
                    ([type for type in parameters.puzzle_types if type.family == family], wanted)
                    for family, wanted in sorted(parameters.benchmark.items())
                ]
            else:
                parts = [(parameters.puzzle_types, getattr(screens, table))]
            total = sum(wanted for _, wanted in parts)
            if total == 0:
                continue
            sheet = ContactSheet(pictured, columns=4, width=parameters.contact_sheet_width)
            taken = (asked for types, wanted in parts for asked in _different(stage, draw(table, types), wanted, seen))
            rows = _counted(stage.progress(taken, f"{table} screens", total), table, sheet, prints, counts)
            write_parquet(stage.output / f"{table}-00000.parquet", rows, schema(*OWN), row_group=16)
            stage.picture(f"contact_sheet_{table}", sheet.image())
    _report(stage, counts)
    heldout = [*prints["heldout"], *prints.get("benchmark", [])]
    check_contamination(stage, prints["train"], heldout, near_copy_distance, parameters.near_copy_overlap)


# --- drawing ---------------------------------------------------------------------------------------------------------


def _samples(
    stage: Stage[Any],
    agent: AgentParameters,
    parameters: PageParameters,
    pages: Mapping[PuzzlePlatform, SheetPage],
    table: str,
    types: Sequence[PuzzleType],
) -> Generator[Asked | None, None, None]:
    """Screens without end, the platforms and the types in turn; None where the page did not prove an answer."""
    split: Split = "train" if table == "train" else "heldout"
    make = partial(ask, split, agent.coordinate_digits)
    with ExitStack() as stack:
        streams = [
            stack.enter_context(
                closing(pages[platform].draw_all(_puzzles(stage, parameters, table, platform, types), _look, make))
            )
            for platform in parameters.screens
        ]
        while True:
            for stream in streams:
                yield next(stream)


def _puzzles(
    stage: Stage[Any], parameters: PageParameters, table: str, platform: PuzzlePlatform, types: Sequence[PuzzleType]
) -> Iterator[Puzzle]:
    split: Split = "train" if table == "train" else "heldout"
    lowest, highest = parameters.difficulties
    # Platforms start at different types, so that few screens still show many of them.
    start = list(parameters.screens).index(platform) * len(types) // len(parameters.screens)
    for index in count():
        type = types[(start + index) % len(types)]
        rng = stage.rng("pages", table, platform, type.name, index)
        setting = draw_setting(rng, split, platform, parameters.screens[platform], rng.randint(lowest, highest))
        yield draw_puzzle(type, rng.getrandbits(32), setting)


def _look(puzzle: Puzzle) -> tuple[str, str]:
    return puzzle_style(puzzle), puzzle_screen(puzzle, proof=True)


def ask(split: Split, digits: int, puzzle: Puzzle, drawn: Drawn) -> Asked | None:
    """The screen with its question, or None when the page does not prove each place of the answer."""
    gestures, actions = puzzle.gestures(), puzzle.actions()
    boxes = [puzzle.on_screen(box) for gesture in gestures for box in gesture.boxes]
    proven = [element for element in drawn.elements if element.target]
    places = [element for element in drawn.elements if element.kind == "place" and element.hits == 9]
    if sum(element.kind == "target" for element in proven) + len(places) != len(boxes):
        return None
    question = {
        "instruction": puzzle.instruction,
        "response": render_response(None, actions, digits),
        "kind": puzzle.type.name,
        "actions": [action_to_row(action) for action in actions],
        "boxes": [list(box) for box in boxes],
    }
    image = encode_png(drawn.pixels)
    identity = hashlib.sha256(image + repr(question).encode()).hexdigest()[:16]
    height, width, _ = drawn.pixels.shape
    row = {
        "id": identity,
        "domain": "captcha",
        "split": split,
        "type": puzzle.type.name,
        "family": puzzle.type.family,
        "platform": puzzle.setting.platform,
        "latent": json.dumps(puzzle.latent(), ensure_ascii=False, sort_keys=True),
        "locale": puzzle.setting.locale,
        "image": {"bytes": image, "path": f"{identity}.png"},
        "width": width,
        "height": height,
        "elements": [
            {"label": element.label, "kind": element.kind, "box": list(element.box)}
            for element in proven
            if element.kind not in ("target", "place")
        ],
        "questions": [question],
    }
    look = (f"theme {puzzle.setting.theme.name}", f"page {puzzle.setting.site.id}", *sorted(_icons(puzzle.facts)))
    return Asked(row, drawn.pixels, Print(identity, difference_hash(drawn.pixels), comparable(_texts(puzzle)), look))


def _texts(puzzle: Puzzle) -> Iterator[str]:
    """What the screen says."""
    text = puzzle.setting.text
    yield from (text.name, text.heading, *text.fields, text.button, puzzle.instruction)
    yield from re.findall(r">([^<>]+)</text>", puzzle.picture)


def _icons(facts: Any) -> set[str]:
    """The icons that a state names, wherever it names them."""
    if isinstance(facts, dict):
        own = {f"icon {facts['icon']}"} if isinstance(facts.get("icon"), str) else set()
        return own.union(*map(_icons, facts.values()))
    return set().union(*map(_icons, facts)) if isinstance(facts, list) else set()


# --- tables ----------------------------------------------------------------------------------------------------------


def _different(
    stage: Stage[Any], samples: Generator[Asked | None, None, None], wanted: int, seen: set[str]
) -> Iterator[Asked]:
    """So many different screens of a stream, which is closed then.

    Raises:
        ParameterError: hardly any can be used.
    """
    taken = dropped = 0
    with closing(samples):
        while taken < wanted:
            asked = next(samples)
            if asked is None or asked.row["id"] in seen:
                dropped += 1
                if dropped > 100 + 10 * taken:
                    raise ParameterError(
                        f"{stage.entry.name}: of {taken + dropped} screens drawn, {taken} could be used; the others "
                        "did not show their whole answer or repeated another"
                    )
                continue
            seen.add(asked.row["id"])
            taken += 1
            yield asked


def _counted(
    samples: Iterable[Asked],
    table: str,
    sheet: ContactSheet,
    prints: dict[str, list[Print]],
    counts: dict[tuple[str, str, str], Counter[str]],
) -> Iterator[dict[str, Any]]:
    for asked in samples:
        row = asked.row
        prints.setdefault(table, []).append(asked.print)
        sheet.add(asked.pixels, row["questions"], row["type"])
        counter = counts.setdefault((table, row["family"], row["type"]), Counter())
        counter["screens"] += 1
        counter["actions"] += len(row["questions"][0]["actions"])
        yield row


def _report(stage: Stage[Any], counts: Mapping[tuple[str, str, str], Counter[str]]) -> None:
    for table in (*SPLITS, "benchmark"):
        own = [counter for (name, *_), counter in counts.items() if name == table]
        stage.summary(
            **{f"{table}_{name}": sum(counter[name] for counter in own) for name in ("screens", "actions")},
            **{f"{table}_types": len(own)},
        )
    rows = [(*key, counter["screens"], counter["actions"]) for key, counter in sorted(counts.items())]
    stage.table("types", ("table", "family", "type", "screens", "actions"), rows)
