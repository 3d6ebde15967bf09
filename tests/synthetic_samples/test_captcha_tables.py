"""The tables of full-scale puzzles: answers of several actions in one turn, a benchmark, and no near copies."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from assets.agent.actions import action_from_row, to_pixel
from assets.agent.grammar import parse_response
from assets.agent.samples import load_samples
from assets.errors import ParameterError
from assets.stage import directory_id, execute

TYPES = ("words_as_shown", "icons_as_shown", "tiles", "open_ring", "neighbour", "numbers_in_words")
SIZES = {"train": 14, "heldout": 6, "benchmark": 5}
PAGES = {
    "types": list(TYPES),
    "screens": {"mobile": [360, 720], "web": [1280, 720]},
    "difficulties": [1, 5],
    "tiles": [2, 1],
    "benchmark": {"text click order": 3, "one-click verification": 2},
    "near_copy_overlap": 0.8,
    "contact_sheet_width": 320,
}


@pytest.fixture(scope="module")
def full_project(new_project: Callable[[], Path]) -> Callable[..., Path]:
    """Makes a project whose puzzles are in pages."""

    def make(distance: int = 12, **changes: Any) -> Path:
        root = new_project()
        file = root / "params.yaml"
        parameters = yaml.safe_load(file.read_text())
        parameters["captcha_samples"] = {
            "screens": {"train": SIZES["train"], "heldout": SIZES["heldout"]},
            "near_copy_distance": distance,
            "contact_sheet": 6,
            "puzzles": None,
            "pages": {**PAGES, **changes},
        }
        file.write_text(yaml.safe_dump(parameters))
        return root

    return make


@pytest.fixture(scope="module")
def data(full_project: Callable[..., Path]) -> Path:
    """What the stage wrote."""
    root = full_project()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HESPER_TRACKING", "off")
        execute("captcha_samples", root=root)
    return root / "data/captcha_samples"


def rows(data: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(data / f"{table}-00000.parquet").to_pylist()
    return rows


def test_each_table_has_its_size_and_no_screen_comes_twice(data: Path) -> None:
    tables = {table: rows(data, table) for table in SIZES}
    assert {table: len(found) for table, found in tables.items()} == SIZES
    ids = [row["id"] for found in tables.values() for row in found]
    assert len(set(ids)) == len(ids)
    assert {row["type"] for row in tables["train"]} == set(TYPES)
    assert Counter(row["family"] for row in tables["benchmark"]) == PAGES["benchmark"]
    assert {row["split"] for row in tables["benchmark"]} == {"heldout"}
    for found in tables.values():
        platforms = Counter(row["platform"] for row in found)
        assert abs(platforms["mobile"] - platforms["web"]) <= 2


def test_the_response_holds_all_actions_and_each_point_lies_in_its_box(data: Path) -> None:
    several = 0
    for table in SIZES:
        for row in rows(data, table):
            (question,) = row["questions"]
            actions = tuple(action_from_row(action) for action in question["actions"])
            assert parse_response(question["response"]).actions == actions
            several += len(actions) > 1
            points = [point for action in actions for point in action.points()]
            for point, (x0, y0, x1, y1) in zip(points, question["boxes"], strict=True):
                x, y = to_pixel(point, row["width"], row["height"])
                assert x0 <= x < x1 <= row["width"]
                assert y0 <= y < y1 <= row["height"]
            latent = json.loads(row["latent"])
            assert latent["instruction"] == question["instruction"]
            assert latent["platform"] == row["platform"]
    assert several > 10


def test_pictures_have_the_size_of_their_platform(data: Path) -> None:
    for row in rows(data, "heldout"):
        with Image.open(io.BytesIO(row["image"]["bytes"])) as image:
            assert list(image.size) == [row["width"], row["height"]] == PAGES["screens"][row["platform"]]


def test_the_agent_reads_them(data: Path) -> None:
    assert {len(sample.boxes) for sample in load_samples(data, "captcha", "train")} > {1}


def test_splits_share_no_look(data: Path) -> None:
    for key in ("theme", "site"):
        train, heldout = (
            {json.loads(row["latent"])[key] for table in tables for row in rows(data, table)}
            for tables in (("train",), ("heldout", "benchmark"))
        )
        assert train
        assert heldout
        assert not train & heldout


def test_the_same_seed_gives_the_same_bytes(
    data: Path, full_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    assert execute("captcha_samples", root=full_project()) == directory_id(data)


def test_a_near_copy_blocks_the_tables(full_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    # Both splits name colours.
    changes = {"types": ["print_colours"], "screens": {"mobile": [360, 720]}, "benchmark": {}}
    root = full_project(distance=256, near_copy_overlap=0.01, **changes)
    with pytest.raises(ParameterError, match="near cop"):
        execute("captcha_samples", root=root)
    assert not (root / "data/captcha_samples").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"types": ["words_as_shwon"]}, "words_as_shwon"),
        ({"types": []}, "none named"),
        ({"types": ["tiles"]}, "text click order"),
        ({"difficulties": [0, 6]}, "1 to 5"),
        ({"screens": {}}, "no platform"),
    ],
)
def test_what_does_not_exist_is_named(
    full_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    with pytest.raises(ParameterError, match=said):
        execute("captcha_samples", root=full_project(**changes))
