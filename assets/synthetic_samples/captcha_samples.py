"""Stage `captcha_samples`: puzzles drawn from latent states, rendered in Chromium, asked and answered.

The latent state (puzzles.py) defines answer, geometry and legal actions, and was checked to have one answer before it
is rendered; the page says where its items really lie and proves them by the nine-point hit test. The same latent state
drives the page that accepts or rejects an answer (puzzle_pages.py). Those are the puzzles in the closed vocabulary of a
small model; the full-scale ones, in a phone's or a browser's page, are made in captcha/.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count

from pydantic import PositiveInt, field_validator, model_validator

from assets.agent.parameters import AgentParameters
from assets.stage import Stage, StageParameters
from assets.synthetic_samples.captcha.samples import PageParameters, write_page_samples
from assets.synthetic_samples.puzzle_pages import PUZZLE_CSS, puzzle_html
from assets.synthetic_samples.puzzles import ENGINES, Challenge, Puzzle, draw_puzzle
from assets.synthetic_samples.scenes import theme_style
from assets.synthetic_samples.sheets import Box, Drawn, Element, sheet_page
from assets.synthetic_samples.tables import Sample, SampleTables, SplitParameters, question_row, sample
from assets.synthetic_samples.themes import SPLITS, Split


class PuzzleParameters(StageParameters):
    """What to draw at small scale.

    Attributes:
        types: the types of puzzle, in turn; a type named twice comes twice as often.
        tiles: screens across and down on the page of one browser pass.
        font_size: of every text, in pixels.
    """

    types: tuple[str, ...]
    tiles: tuple[PositiveInt, PositiveInt]
    font_size: PositiveInt

    @field_validator("types")
    @classmethod
    def _known(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        unknown = sorted(set(types) - set(ENGINES))
        if unknown or not types:
            raise ValueError(
                f"no such type of puzzle: {', '.join(unknown) or 'none named'}; known: {', '.join(ENGINES)}"
            )
        return types


class Parameters(SplitParameters):
    """What to draw: `puzzles` at small scale, of the size that `agent.screen` says, or `pages` at full scale.

    Attributes:
        puzzles: null draws none.
        pages: null draws none.
    """

    puzzles: PuzzleParameters | None
    pages: PageParameters | None

    @model_validator(mode="after")
    def _one_scale(self) -> Parameters:
        if (self.puzzles is None) == (self.pages is None):
            raise ValueError("give either puzzles (small scale) or pages (full scale)")
        return self


def run(stage: Stage[Parameters]) -> None:
    """Write `train-00000.parquet`, `heldout-00000.parquet`, contact sheets and the counts of each type."""
    parameters = stage.parameters
    if parameters.pages is not None:
        write_page_samples(
            stage, parameters.pages, parameters.screens, parameters.near_copy_distance, parameters.contact_sheet
        )
        return
    assert parameters.puzzles is not None
    _write_puzzles(stage, parameters.puzzles)


def _write_puzzles(stage: Stage[Parameters], puzzles: PuzzleParameters) -> None:
    agent = stage.section("agent", AgentParameters)
    tables = SampleTables(stage, stage.parameters, ("type", "family", "latent"))
    with sheet_page(agent.screen, puzzles.tiles, PUZZLE_CSS, puzzles.font_size) as page:
        for split in SPLITS:
            make = partial(_sample, split, agent)
            with closing(page.draw_all(_puzzles(stage, puzzles.types, agent, split), _look, make)) as rows:
                tables.write(split, rows)
    tables.report()


def _puzzles(stage: Stage[Parameters], types: Sequence[str], agent: AgentParameters, split: Split) -> Iterator[Puzzle]:
    for index in count():
        yield draw_puzzle(stage.rng(split, index), types[index % len(types)], split, agent.screen)


def _look(puzzle: Puzzle) -> tuple[str, str]:
    return theme_style(puzzle.theme), puzzle_html(puzzle)


def _sample(split: Split, agent: AgentParameters, puzzle: Puzzle, drawn: Drawn) -> Sample | None:
    """The puzzle with its questions, or None when the page does not prove an item of an answer."""
    labelled = [index for index, item in enumerate(puzzle.items) if item.label]
    elements = dict(zip(labelled, drawn.elements, strict=True))
    needed = {index for challenge in puzzle.challenges for index in challenge.items()}
    if not all(elements[index].target for index in needed):
        return None
    questions = [
        question_row(challenge.instruction, challenge.ask, _gestures(challenge, elements), agent)
        for challenge in puzzle.challenges
    ]
    names = {
        "type": puzzle.type,
        "family": puzzle.family,
        "latent": json.dumps(puzzle.latent(), ensure_ascii=False, sort_keys=True),
        "locale": puzzle.locale,
    }
    proven = [element for element in drawn.elements if element.target]
    return sample("captcha", split, drawn, proven, questions, **names)


def _gestures(challenge: Challenge, elements: dict[int, Element]) -> list[tuple[str, list[Box]]]:
    """The answer as gestures on the boxes that the page gave."""
    if challenge.drag is not None:
        return [("Drag", [elements[challenge.drag.handle].box, challenge.drag.end_box()])]
    return [("Click", [elements[index].box]) for index in challenge.clicks]
