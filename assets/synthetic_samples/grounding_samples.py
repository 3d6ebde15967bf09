"""Stage `grounding_samples`: screens drawn in Chromium, and questions whose answers the page itself has proven.

A seeded generator draws scenes (scenes.py); many are laid out, measured and photographed in one browser pass
(sheets.py). An element may be asked for when it passed the nine-point hit test and no other on the screen bears its
label. A word that the screen does not show is a hard negative, answered with the refusal point.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field, NonNegativeInt, PositiveInt

from assets.agent.actions import REFUSAL, Action, action_to_row, from_pixel, render_response, to_pixel
from assets.agent.parameters import AgentParameters
from assets.agent.samples import question_type
from assets.agent.vocabulary import CHINESE, Locale
from assets.stage import Stage, StageParameters, write_parquet
from assets.synthetic_samples.contact_sheet import ContactSheet
from assets.synthetic_samples.near_copies import Fingerprints
from assets.synthetic_samples.scenes import (
    SCENE_CSS,
    TARGETS,
    Scene,
    SceneLocale,
    draw_scene,
    scene_html,
    theme_style,
)
from assets.synthetic_samples.sheets import Drawn, Element, SheetPage, encode_png, sheet_page
from assets.synthetic_samples.templates import GROUNDING
from assets.synthetic_samples.themes import Split

if TYPE_CHECKING:
    import pyarrow as pa


class Parameters(StageParameters):
    """What to draw.

    Attributes:
        screens: how many screens each split gets.
        tiles: screens across and down on the page of one browser pass.
        elements: fewest and most labelled elements of a screen; a screen with fewer proven ones is dropped.
        scatter_share: share of screens in the free grid layout.
        absent_share: share of screens that are also asked for something they don't show.
        locales: relative weight of each locale.
        font_size: of every text, in pixels.
        near_copy_distance: a held-out screen whose 256-bit perceptual hash differs from a training screen's in at most
            this many bits is counted as a near copy.
        contact_sheet: screens on the contact sheet of each split.
    """

    screens: dict[Split, PositiveInt]
    tiles: tuple[PositiveInt, PositiveInt]
    elements: tuple[PositiveInt, PositiveInt]
    scatter_share: float = Field(ge=0, le=1)
    absent_share: float = Field(ge=0, le=1)
    locales: dict[SceneLocale, float]
    font_size: PositiveInt
    near_copy_distance: NonNegativeInt
    contact_sheet: PositiveInt


def run(stage: Stage[Parameters]) -> None:
    """Write `train-00000.parquet`, `heldout-00000.parquet`, a contact sheet and the counts of what was asked."""
    parameters = stage.parameters
    agent = stage.section("agent", AgentParameters)
    prints = {split: Fingerprints() for split in parameters.screens}
    asked: dict[tuple[str, str], Counter[str]] = {}
    dropped = 0
    with sheet_page(agent.screen, parameters.tiles, SCENE_CSS, parameters.font_size) as page:
        for split, count in parameters.screens.items():
            maker = _Maker(stage, agent, page, split)
            sheet = ContactSheet(parameters.contact_sheet, columns=4)

            def rows(
                maker: _Maker = maker, sheet: ContactSheet = sheet, split: Split = split, count: int = count
            ) -> Iterator[dict[str, Any]]:
                for row, drawn in stage.progress(maker.screens(count), f"{split} screens", total=count):
                    prints[split].add(drawn.pixels)
                    sheet.add(drawn.pixels, row["questions"], row["scene"])
                    for question in row["questions"]:
                        asked.setdefault((split, row["scene"]), Counter())[question["kind"]] += 1
                    asked.setdefault((split, row["scene"]), Counter())["screens"] += 1
                    yield row

            write_parquet(stage.output / f"{split}-00000.parquet", rows(), schema())
            stage.picture(f"contact_sheet_{split}", sheet.image())
            dropped += maker.dropped

    for split in parameters.screens:
        of_split = [counter for (name, _), counter in asked.items() if name == split]
        stage.summary(
            **{
                f"{split}_screens": sum(counter["screens"] for counter in of_split),
                f"{split}_questions": sum(counter["text"] + counter["absent"] for counter in of_split),
                f"{split}_absent_questions": sum(counter["absent"] for counter in of_split),
            }
        )
    nearest = prints["heldout"].distances(prints["train"])
    stage.summary(
        dropped_screens=dropped,
        nearest_heldout_distance=min(nearest),
        near_copies=sum(distance <= parameters.near_copy_distance for distance in nearest),
    )
    stage.table(
        "questions",
        ("split", "scene", "screens", "by text", "absent"),
        [(*key, counter["screens"], counter["text"], counter["absent"]) for key, counter in sorted(asked.items())],
    )


def schema() -> pa.Schema:
    """The table of grounding screens, a row a screen."""
    import pyarrow as pa

    element = pa.struct([("label", pa.string()), ("kind", pa.string()), ("box", pa.list_(pa.float32()))])
    return pa.schema(
        [
            *((name, pa.string()) for name in ("id", "domain", "split", "scene", "theme", "locale")),
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("elements", pa.list_(element)),
            ("questions", pa.list_(question_type())),
        ]
    )


class _Maker:
    """Draws scenes of a split sheet by sheet, and keeps those with enough proven elements."""

    def __init__(self, stage: Stage[Parameters], agent: AgentParameters, page: SheetPage, split: Split) -> None:
        self._stage = stage
        self._agent = agent
        self._page = page
        self._split = split
        self.dropped = 0

    def screens(self, count: int) -> Iterator[tuple[dict[str, Any], Drawn]]:
        """`count` different screens as rows of the table, with what was drawn."""
        seen: set[str] = set()
        parameters = self._stage.parameters
        per_sheet = parameters.tiles[0] * parameters.tiles[1]
        number = 0
        while len(seen) < count:
            rngs = [self._stage.rng(self._split, index) for index in range(number, number + per_sheet)]
            number += per_sheet
            scenes = [self._scene(rng) for rng in rngs]
            drawn = self._page.draw([(theme_style(scene.theme), scene_html(scene)) for scene in scenes])
            for rng, scene, screen in zip(rngs, scenes, drawn, strict=True):
                row = self._row(rng, scene, screen)
                if row is None or row["id"] in seen:
                    self.dropped += 1
                elif len(seen) < count:
                    seen.add(row["id"])
                    yield row, screen

    def _scene(self, rng: random.Random) -> Scene:
        parameters = self._stage.parameters
        return draw_scene(
            rng, self._split, self._agent.screen, parameters.elements, parameters.scatter_share, parameters.locales
        )

    def _row(self, rng: random.Random, scene: Scene, drawn: Drawn) -> dict[str, Any] | None:
        """The screen as a row, or None when too little on it is proven."""
        parameters, (width, height) = self._stage.parameters, self._agent.screen
        shown = Counter(element.label for element in drawn.elements)
        proven = [element for element in drawn.elements if element.target and shown[element.label] == 1]
        targets = [element for element in proven if element.kind in TARGETS]
        if len(targets) < parameters.elements[0]:
            return None
        rng.shuffle(targets)
        questions = [self._question(rng, scene, element.label, element) for element in targets]
        if rng.random() < parameters.absent_share:
            questions.append(self._question(rng, scene, rng.choice(scene.absent), None))
        image = encode_png(drawn.pixels)
        identity = hashlib.sha256(image + repr(questions).encode()).hexdigest()[:16]
        return {
            "id": identity,
            "domain": "grounding",
            "split": self._split,
            "scene": scene.template,
            "theme": scene.theme.name,
            "locale": scene.locale,
            "image": {"bytes": image, "path": f"{identity}.png"},
            "width": width,
            "height": height,
            "elements": [{"label": item.label, "kind": item.kind, "box": list(item.box)} for item in proven],
            "questions": questions,
        }

    def _question(self, rng: random.Random, scene: Scene, label: str, element: Element | None) -> dict[str, Any]:
        """A click on `element`, or the refusal when there is none that shows `label`."""
        width, height = self._agent.screen
        language: Locale = "zh" if label in CHINESE else "en"
        point, boxes = REFUSAL, []
        if element is not None:
            x0, y0, x1, y1 = element.box
            point, boxes = from_pixel((x0 + x1) / 2, (y0 + y1) / 2, width, height), [list(element.box)]
            x, y = to_pixel(point, width, height)
            if not (x0 <= x < x1 and y0 <= y < y1):
                raise ValueError(f"the point {point} misses the box of {element}")
        actions = [Action("Click", point=point)]
        return {
            "instruction": rng.choice(GROUNDING[language]).format(label=label),
            "response": render_response(None, actions, self._agent.coordinate_digits),
            "kind": "text" if element is not None else "absent",
            "actions": [action_to_row(action) for action in actions],
            "boxes": boxes,
        }
