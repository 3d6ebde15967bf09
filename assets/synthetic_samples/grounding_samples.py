"""Stage `grounding_samples`: screens drawn in Chromium, and questions whose answers the page itself has proven.

At small scale a seeded generator draws scenes of a closed vocabulary (scenes.py); many are laid out, measured and
photographed in one browser pass (sheets.py). An element may be asked for when it passed the nine-point hit test and no
other on the screen bears its label. A word that the screen does not show is a hard negative, answered with the refusal
point. At full scale whole interfaces take their place (interface_samples.py).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count

from pydantic import Field, PositiveInt, field_validator, model_validator

from assets.agent.parameters import AgentParameters
from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.stage import Stage, StageParameters, Weights
from assets.synthetic_samples.interface_samples import InterfaceParameters, write_interface_samples
from assets.synthetic_samples.scenes import (
    SCENE_CSS,
    TARGETS,
    Scene,
    SceneLocale,
    draw_scene,
    scene_html,
    scene_style,
)
from assets.synthetic_samples.sheets import Drawn, sheet_page
from assets.synthetic_samples.tables import Sample, SampleTables, SplitParameters, question_row, sample
from assets.synthetic_samples.templates import GROUNDING
from assets.synthetic_samples.themes import SPLITS, Split


class SceneParameters(StageParameters):
    """The screens of the small scale.

    Attributes:
        tiles: screens across and down on the page of one browser pass.
        font_size: of every text, in pixels.
        elements: fewest and most labelled elements of a screen; a screen with fewer proven ones is dropped.
        scatter_share: share of screens in the free grid layout.
        absent_share: share of screens that are also asked for something they don't show.
        underlined_share: share of screens that underline rows and tools, as web pages do.
        locales: relative weight of each locale.
    """

    tiles: tuple[PositiveInt, PositiveInt]
    font_size: PositiveInt
    elements: tuple[PositiveInt, PositiveInt]
    scatter_share: float = Field(ge=0, le=1)
    absent_share: float = Field(ge=0, le=1)
    underlined_share: float = Field(ge=0, le=1)
    locales: Weights[SceneLocale]

    @field_validator("elements")
    @classmethod
    def _within_vocabulary(cls, elements: tuple[int, int]) -> tuple[int, int]:
        if not elements[0] <= elements[1] <= len(ENGLISH) // 2:
            raise ValueError(f"must be a fewest and a most, at most {len(ENGLISH) // 2}: half the vocabulary")
        return elements


class Parameters(SplitParameters):
    """What to draw: `scenes` at small scale, of the size that `agent.screen` says, or `interfaces` at full scale.

    Attributes:
        scenes: null draws none.
        interfaces: null draws none.
    """

    scenes: SceneParameters | None = None
    interfaces: InterfaceParameters | None = None

    @model_validator(mode="after")
    def _one_scale(self) -> Parameters:
        if (self.scenes is None) == (self.interfaces is None):
            raise ValueError("give either scenes (small scale) or interfaces (full scale)")
        return self


def run(stage: Stage[Parameters]) -> None:
    """Write `train-*.parquet`, `heldout-*.parquet`, contact sheets and the counts of what is asked."""
    parameters = stage.parameters
    if parameters.interfaces is not None:
        write_interface_samples(
            stage,
            parameters.interfaces,
            parameters.screens,
            parameters.near_copy_distance,
            parameters.contact_sheet,
        )
        return
    assert parameters.scenes is not None
    _write_scenes(stage, parameters.scenes)


def _write_scenes(stage: Stage[Parameters], scenes: SceneParameters) -> None:
    agent = stage.section("agent", AgentParameters)
    tables = SampleTables(stage, stage.parameters, ("scene", "theme"))
    with sheet_page(agent.screen, scenes.tiles, SCENE_CSS, scenes.font_size) as page:
        for split in SPLITS:
            make = partial(_sample, split, scenes, agent)
            with closing(page.draw_all(_scenes(stage, scenes, agent, split), _look, make)) as rows:
                tables.write(split, rows)
    tables.report()


Drawing = tuple[random.Random, Scene]
"""A scene, and the generator that drew it: it goes on to choose the questions."""


def _scenes(
    stage: Stage[Parameters], parameters: SceneParameters, agent: AgentParameters, split: Split
) -> Iterator[Drawing]:
    for index in count():
        rng = stage.rng(split, index)
        yield (
            rng,
            draw_scene(
                rng,
                split,
                agent.screen,
                parameters.elements,
                parameters.scatter_share,
                parameters.underlined_share,
                parameters.locales,
            ),
        )


def _look(drawing: Drawing) -> tuple[str, str]:
    _, scene = drawing
    return scene_style(scene), scene_html(scene)


def _sample(
    split: Split, parameters: SceneParameters, agent: AgentParameters, drawing: Drawing, drawn: Drawn
) -> Sample | None:
    """The screen with its questions, or None when too little on it is proven."""
    rng, scene = drawing
    shown = Counter(element.label for element in drawn.elements)
    proven = [element for element in drawn.elements if element.target and shown[element.label] == 1]
    targets = [element for element in proven if element.kind in TARGETS]
    if len(targets) < parameters.elements[0]:
        return None
    rng.shuffle(targets)
    questions = [
        question_row(_instruction(rng, element.label), "text", [("Click", [element.box])], agent) for element in targets
    ]
    if rng.random() < parameters.absent_share:
        absent = _instruction(rng, rng.choice(scene.absent))
        questions.append(question_row(absent, "absent", [("Click", [])], agent))
    names = {"scene": scene.template, "theme": scene.theme.name, "locale": scene.locale}
    return sample("grounding", split, drawn, proven, questions, **names)


def _instruction(rng: random.Random, label: str) -> str:
    """In the language of the label."""
    return rng.choice(GROUNDING["zh" if label in CHINESE else "en"]).format(label=label)
