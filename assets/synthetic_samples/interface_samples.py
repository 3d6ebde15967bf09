"""Samples of full-scale interfaces: described from a seed, captured in one browser pass each, asked about.

The screens of a split are cut into shards. A shard is drawn by one process with a browser of its own and written as its
rows come, so memory stays flat; a killed run goes on from the shards that are complete. What a screen shows depends on
the seed and on its place in its shard alone.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, PositiveInt

from assets.agent.parameters import AgentParameters
from assets.agent.vocabulary import Locale
from assets.environments.workers import Sessions, spread
from assets.errors import InfrastructureError, ParameterError
from assets.stage import Stage, StageParameters, write_parquet
from assets.synthetic_samples.capture import Capture, InterfacePage, Node, interface_page
from assets.synthetic_samples.contact_sheet import ContactSheet
from assets.synthetic_samples.contamination import (
    Print,
    check_contamination,
    comparable,
    print_from_row,
    print_row,
    prints_schema,
)
from assets.synthetic_samples.instructions import instruction
from assets.synthetic_samples.interfaces.lexicon import icon_words
from assets.synthetic_samples.interfaces.scene import (
    Absent,
    Interface,
    SceneDescription,
    SceneParameters,
    describe,
    interface,
)
from assets.synthetic_samples.near_copies import difference_hash
from assets.synthetic_samples.perception_questions import perception_questions
from assets.synthetic_samples.queries import Query, absent_queries, queries_for
from assets.synthetic_samples.renderer import Renderer, find_renderer
from assets.synthetic_samples.sheets import decode_png, encode_png
from assets.synthetic_samples.tables import Screens, question_row, schema
from assets.synthetic_samples.themes import SPLITS, Split

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image

OWN = ("scene", "theme", "application", "platform", "persona", "density", "icons")
"""The text columns of these tables beside those of every synthetic table."""

ATTEMPTS = 3
"""How often a screen is drawn whose browser breaks."""


class InterfaceParameters(StageParameters):
    """What to draw and ask at full scale.

    Attributes:
        scenes: which scenes are drawn.
        questions: fewest and most targets that are asked for on a screen; one with fewer proven ones is dropped.
        absent: most hard negatives of a screen.
        perception: most perception questions of a screen.
        near_copy_overlap: share of texts from which on a screen that looks like a training screen is a near copy.
        shard: screens of a table.
        processes: browsers at work at once.
        contact_sheet_width: width in pixels of a screen on the contact sheet.
    """

    scenes: SceneParameters
    questions: tuple[PositiveInt, PositiveInt]
    absent: int = Field(ge=0)
    perception: int = Field(ge=0)
    near_copy_overlap: float = Field(gt=0, le=1)
    shard: PositiveInt
    processes: PositiveInt
    contact_sheet_width: PositiveInt


@dataclass(frozen=True)
class Shard:
    """Some screens of a split, and the folder they go to, which appears when they are complete."""

    split: Split
    seed: int
    screens: int
    parameters: InterfaceParameters
    agent: AgentParameters
    folder: Path


def write_interface_samples(
    stage: Stage[Any], parameters: InterfaceParameters, screens: Screens, near_copy_distance: int, pictured: int
) -> None:
    """Write the shards of both splits, `renderer.json`, contact sheets and the reports on questions and contamination.

    Args:
        near_copy_distance: bits of 256 by which a near copy's perceptual hash differs at most.
        pictured: screens on the contact sheet of each split.

    Raises:
        ParameterError: what is asked for does not fit, or a held-out screen is a near copy of a training screen.
        InfrastructureError: the browser broke again and again.
    """
    renderer = find_renderer()
    agent = stage.section("agent", AgentParameters)
    shards = list(_shards(stage, parameters, screens, agent, renderer))
    missing = [shard for shard in shards if not shard.folder.exists()]
    drawn = spread(missing, draw_shard, agent.screen, parameters.processes)
    for _ in stage.progress(drawn, "shards", len(missing)):
        pass
    train, heldout = (_prints([shard for shard in shards if shard.split == split]) for split in SPLITS)
    check_contamination(stage, train, heldout, near_copy_distance, parameters.near_copy_overlap)
    for split in SPLITS:
        mine = [shard for shard in shards if shard.split == split]
        for number, shard in enumerate(mine):
            shutil.copyfile(shard.folder / TABLE, stage.output / f"{split}-{number:05d}.parquet")
        stage.picture(f"contact_sheet_{split}", _contact_sheet(mine, pictured, parameters.contact_sheet_width))
    _report_questions(stage, shards)
    (stage.output / "renderer.json").write_text(
        json.dumps({"chromium": renderer.chromium, "fonts": renderer.fonts}, indent=1) + "\n", encoding="utf-8"
    )
    stage.table("renderer", ("chromium", "fonts"), [(renderer.chromium, renderer.fonts)])
    stage.summary(**renderer.metrics())


TABLE = "table.parquet"
PRINTS = "prints.parquet"


def _shards(
    stage: Stage[Any], parameters: InterfaceParameters, screens: Screens, agent: AgentParameters, renderer: Renderer
) -> Iterator[Shard]:
    """What one renderer drew is never joined to what another draws: its id is in the name of the folder."""
    for split in SPLITS:
        wanted: int = getattr(screens, split)
        for number, start in enumerate(range(0, wanted, parameters.shard)):
            seed = stage.rng("interfaces", split, number).getrandbits(64)
            folder = stage.work / f"{renderer.id}-{split}-{number:05d}"
            yield Shard(split, seed, min(parameters.shard, wanted - start), parameters, agent, folder)


# --- one shard -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A screen with its questions as a row of the table, and what it is compared by."""

    row: dict[str, Any]
    print: Print


def draw_shard(_: Sessions, shard: Shard) -> None:
    """Draw the screens of a shard and write its table and the prints of its screens.

    Raises:
        ParameterError: hardly any screen can be used.
        InfrastructureError: the browser broke again and again.
    """
    partial = shard.folder.with_name(shard.folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    prints: list[Print] = []

    def rows() -> Iterator[dict[str, Any]]:
        with interface_page() as page:
            for asked in asked_screens(page, shard):
                prints.append(asked.print)
                yield asked.row

    write_parquet(partial / TABLE, rows(), interface_schema(), row_group=16)
    write_parquet(partial / PRINTS, map(print_row, prints), prints_schema())
    partial.rename(shard.folder)


def asked_screens(page: InterfacePage, shard: Shard) -> Iterator[Asked]:
    """The screens of a shard, one after another.

    Raises:
        ParameterError: hardly any screen can be used.
        InfrastructureError: the browser broke again and again.
    """
    taken = 0
    for index in count():
        rng = random.Random(f"{shard.seed}/{index}")
        drawn = interface(rng, describe(rng, shard.split, shard.parameters.scenes))
        asked = ask(rng, shard, drawn, _captured(page, drawn.html, drawn.description.screen))
        if asked is not None:
            yield asked
            taken += 1
            if taken == shard.screens:
                return
        elif index - taken > 100 + 10 * taken:
            raise ParameterError(
                f"grounding_samples: of {index + 1} {shard.split} interfaces drawn, {taken} show the "
                f"{shard.parameters.questions[0]} targets that a screen must have"
            )


def _captured(page: InterfacePage, html: str, size: tuple[int, int]) -> Capture:
    for _ in range(ATTEMPTS - 1):
        try:
            return page.capture(html, size)
        except InfrastructureError:
            continue
    return page.capture(html, size)


def ask(rng: random.Random, shard: Shard, drawn: Interface, page: Capture) -> Asked | None:
    """A captured screen with its questions, or None when too little on it is proven."""
    parameters = shard.parameters
    agent = shard.agent.model_copy(update={"screen": page.size})
    chosen = choose_queries(page, parameters.questions[1], rng)
    if len(chosen) < parameters.questions[0]:
        return None
    locale, words = drawn.description.locale, icon_words()
    questions, queries = [], []
    for target, query in chosen:
        text = instruction(query, locale, words, rng)
        questions.append(question_row(text, query.by, [("Click", [target.box])], agent))
        queries.append({"query": query.to_json(), "role": target.role, "ui_type": "text" if target.texts else "icon"})
    plausible = [absent_query(thing, locale) for thing in drawn.absent]
    for query in _negatives(absent_queries(page, plausible, rng), parameters.absent):
        questions.append(question_row(instruction(query, locale, words, rng), "absent", [("Click", [])], agent))
        queries.append({"query": query.to_json(), "role": query.role, "ui_type": ""})
    seen = [node for node in page.nodes if node.seen and (node.text or node.name)]
    image = encode_png(page.pixels)
    identity = hashlib.sha256(image + repr(questions).encode()).hexdigest()[:16]
    row = {
        "id": identity,
        "domain": "grounding",
        "split": shard.split,
        **_names(drawn.description),
        "locale": locale,
        "image": {"bytes": image, "path": f"{identity}.png"},
        "width": page.size[0],
        "height": page.size[1],
        "elements": [{"label": node.text or node.name, "kind": node.role, "box": list(node.box)} for node in seen],
        "questions": questions,
        "queries": [json.dumps(query, ensure_ascii=False, sort_keys=True) for query in queries],
        "perception": perception_questions(page, locale, words, parameters.perception, rng),
    }
    return Asked(row, _print(identity, drawn.description, page))


def choose_queries(page: Capture, most: int, rng: random.Random) -> list[tuple[Node, Query]]:
    """At most `most` proven targets, each with a query that means it alone; every kind of query as often as can be."""
    targets = list(page.targets)
    rng.shuffle(targets)
    used: Counter[str] = Counter()
    chosen: list[tuple[Node, Query]] = []
    for target in targets:
        queries = queries_for(target, page)
        if not queries:
            continue
        rarest = min(used[query.by] for query in queries)
        query = rng.choice([query for query in queries if used[query.by] == rarest])
        used[query.by] += 1
        chosen.append((target, query))
        if len(chosen) == most:
            break
    return chosen


def _negatives(queries: Sequence[Query], most: int) -> list[Query]:
    """At most `most` of the queries, the kinds in turn."""
    by_kind: dict[str, list[Query]] = {}
    for query in queries:
        by_kind.setdefault(query.by, []).append(query)
    turns = zip_longest(*by_kind.values())
    return [query for turn in turns for query in turn if query is not None][:most]


def absent_query(thing: Absent, locale: Locale) -> Query:
    """What an interface says it does not show, as a query."""
    if thing.kind == "icon":
        return Query("icon", icon=next(icon for icon, words in icon_words().items() if words[locale] == thing.name))
    return Query("text", text=thing.name) if thing.kind == "label" else Query("function", function=thing.name)


def _names(description: SceneDescription) -> dict[str, str]:
    return {
        "scene": description.template,
        "theme": description.theme,
        "application": description.domain,
        "platform": description.platform,
        "persona": description.persona["en"],
        "density": description.density,
        "icons": description.icons,
    }


def _print(identity: str, description: SceneDescription, page: Capture) -> Print:
    texts = (text for node in page.nodes if node.seen for text in node.texts)
    look = (f"scene {description.template}", f"theme {description.theme}", f"icons {description.icons}")
    return Print(identity, difference_hash(page.pixels), comparable(texts), look)


def interface_schema() -> pa.Schema:
    """The table of full-scale interfaces, a row a screen.

    It has the columns of every synthetic table, and two more: `queries`, a JSON object for each question that says what
    it names (`query`), of which role that is and whether it shows text or an icon only (`ui_type`); and `perception`,
    questions that are answered in words.
    """
    import pyarrow as pa

    asked = pa.struct([(name, pa.string()) for name in ("instruction", "response", "kind", "answer")])
    return (
        schema(*OWN).append(pa.field("queries", pa.list_(pa.string()))).append(pa.field("perception", pa.list_(asked)))
    )


# --- over all shards -------------------------------------------------------------------------------------------------


def _prints(shards: Sequence[Shard]) -> list[Print]:
    import pyarrow.parquet as pq

    return [print_from_row(row) for shard in shards for row in pq.read_table(shard.folder / PRINTS).to_pylist()]


def _contact_sheet(shards: Sequence[Shard], pictured: int, width: int) -> Image:
    sheet = ContactSheet(pictured, columns=2, width=width)
    for row in islice(_rows(shards), pictured):
        caption = (
            f"{row['application']}, {row['platform']}, {row['theme']}, {row['locale']}, {row['width']}x{row['height']}"
        )
        sheet.add(decode_png(row["image"]["bytes"]), row["questions"], caption)
    return sheet.image()


def _rows(shards: Sequence[Shard], columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for shard in shards:
        with pq.ParquetFile(shard.folder / TABLE) as table:
            for batch in table.iter_batches(16, columns=columns):
                yield from batch.to_pylist()


def _report_questions(stage: Stage[Any], shards: Sequence[Shard]) -> None:
    """How many screens and questions there are, in all and by kind and application; how small the targets are."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for split in SPLITS:
        totals: Counter[str] = Counter()
        small = 0
        mine = [shard for shard in shards if shard.split == split]
        for row in _rows(mine, ["application", "platform", "width", "height", "questions", "perception"]):
            kinds = Counter(question["kind"] for question in row["questions"])
            small += sum(
                _area(box) <= SMALL * row["width"] * row["height"]
                for question in row["questions"]
                for box in question["boxes"]
            )
            counter = counts.setdefault((split, row["application"], row["platform"]), Counter())
            counter.update({"screens": 1, **kinds, "perception": len(row["perception"])})
            totals.update({"screens": 1, "questions": len(row["questions"]), "absent": kinds["absent"]})
            totals["perception"] += len(row["perception"])
        asked = totals["questions"] - totals["absent"]
        stage.summary(**{f"{split}_{name}": totals[name] for name in ("screens", "questions", "absent", "perception")})
        stage.summary(**{f"{split}_small_target_share": small / max(asked, 1)})
    columns = ("screens", "text", "icon", "function", "relation", "state", "absent", "perception")
    rows = [(*key, *(counter[name] for name in columns)) for key, counter in sorted(counts.items())]
    stage.table("questions", ("split", "application", "platform", *columns), rows)


SMALL = 0.001
"""The share of a screen up to which a target counts as small: where ScreenSpot-Pro's targets lie."""


def _area(box: Sequence[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
