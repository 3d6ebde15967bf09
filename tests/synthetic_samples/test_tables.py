"""What the tables of both stages promise to whoever reads them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

from assets.agent.actions import REFUSAL, action_from_row, to_pixel
from assets.agent.grammar import parse_response
from assets.agent.samples import load_samples, question_type
from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.errors import ParameterError
from assets.stage import directory_id, execute
from assets.synthetic_samples.templates import words

SIZES = {"grounding": {"train": 48, "heldout": 12}, "captcha": {"train": 40, "heldout": 12}}


def rows(project: Path, domain: str, split: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(project / f"data/{domain}_samples/{split}-00000.parquet").to_pylist()
    return rows


@pytest.fixture(params=["grounding", "captcha"])
def domain(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_sizes_and_ids(project: Path, domain: str) -> None:
    ids = []
    for split, size in SIZES[domain].items():
        table = rows(project, domain, split)
        assert len(table) == size
        assert {(row["domain"], row["split"]) for row in table} == {(domain, split)}
        ids += [row["id"] for row in table]
    assert len(set(ids)) == len(ids)


def test_schema(project: Path, domain: str) -> None:
    own = {"grounding": ["scene", "theme"], "captcha": ["type", "family", "latent"]}[domain]
    schema = pq.read_schema(project / f"data/{domain}_samples/train-00000.parquet")
    assert schema.names == [
        *["id", "domain", "split", *own, "locale", "image", "width", "height", "elements", "questions"]
    ]
    assert schema.field("questions").type.value_type == question_type()


def test_responses_parse_to_the_stored_actions(project: Path, domain: str) -> None:
    for split in SIZES[domain]:
        for row in rows(project, domain, split):
            for question in row["questions"]:
                actions = [action_from_row(action) for action in question["actions"]]
                response = parse_response(question["response"])
                assert list(response.actions) == actions
                assert not response.think
                assert re.fullmatch(r"[^\d]*((?<!\d)(\d{3}|-1)(?!\d)[^\d]*)+", question["response"])


def test_points_lie_in_their_boxes(project: Path, domain: str) -> None:
    refusals = 0
    for split in SIZES[domain]:
        for row in rows(project, domain, split):
            for question in row["questions"]:
                points = [point for action in question["actions"] for point in action_from_row(action).points()]
                if points == [REFUSAL]:
                    refusals += 1
                    assert question["kind"] == "absent"
                    assert question["boxes"] == []
                    continue
                for point, (x0, y0, x1, y1) in zip(points, question["boxes"], strict=True):
                    x, y = to_pixel(point, row["width"], row["height"])
                    assert x0 <= x < x1
                    assert y0 <= y < y1
                    assert 0 <= x0 < x1 <= row["width"]
                    assert 0 <= y0 < y1 <= row["height"]
    assert (refusals > 0) == (domain == "grounding")


def test_pictures(project: Path, domain: str) -> None:
    for row in rows(project, domain, "train"):
        with Image.open(io.BytesIO(row["image"]["bytes"])) as image:
            assert image.size == (row["width"], row["height"]) == (192, 192)
            assert image.mode == "RGB"
            assert row["image"]["path"] == f"{row['id']}.png"


def test_splits_share_no_look(project: Path) -> None:
    for column in ("scene", "theme"):
        train, heldout = ({row[column] for row in rows(project, "grounding", split)} for split in ("train", "heldout"))
        assert train
        assert heldout
        assert not train & heldout
    for key in ("theme", "layout"):
        train, heldout = (
            {json.loads(row["latent"])[key] for row in rows(project, "captcha", split)}
            for split in ("train", "heldout")
        )
        assert train
        assert heldout
        assert not train & heldout


def test_every_word_is_known_to_the_small_tokenizer(project: Path, domain: str) -> None:
    known = {*words(), *ENGLISH, *CHINESE}
    for split in SIZES[domain]:
        for row in rows(project, domain, split):
            texts = [question["instruction"] for question in row["questions"]] + [e["label"] for e in row["elements"]]
            assert not {word for text in texts for word in text.split()} - known


def test_latent_states_hold_the_answers(project: Path) -> None:
    for row in rows(project, "captcha", "train"):
        latent = json.loads(row["latent"])
        assert latent["type"] == row["type"]
        assert [challenge["instruction"] for challenge in latent["challenges"]] == [
            question["instruction"] for question in row["questions"]
        ]
        for challenge, question in zip(latent["challenges"], row["questions"], strict=True):
            assert {action["name"] for action in question["actions"]} <= set(latent["legal"])
            touched = challenge["clicks"] or [challenge["drag"]["handle"]]
            for index, box in zip(touched, question["boxes"], strict=False):
                item = latent["items"][index]
                place = [item["x"], item["y"], item["x"] + item["width"], item["y"] + item["height"]]
                assert box == place


def test_the_agent_reads_them(project: Path, domain: str) -> None:
    samples = load_samples(project / f"data/{domain}_samples", domain, "heldout")
    assert len(samples) == sum(len(row["questions"]) for row in rows(project, domain, "heldout"))


def test_hugging_face_datasets_opens_them(project: Path, domain: str, tmp_path: Path) -> None:
    from datasets import load_dataset

    files = {split: str(project / f"data/{domain}_samples/{split}-*.parquet") for split in SIZES[domain]}
    loaded = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    assert {split: len(loaded[split]) for split in loaded} == SIZES[domain]
    assert loaded["train"][0]["questions"] == rows(project, domain, "train")[0]["questions"]


def test_the_same_seed_gives_the_same_bytes(
    project: Path, new_project: Callable[[], Path], domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    before = directory_id(project / f"data/{domain}_samples")
    root = new_project()
    assert execute(f"{domain}_samples", root=root) == before


def test_an_unknown_type_of_puzzle_is_named(new_project: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    root = new_project()
    parameters = root / "params.yaml"
    parameters.write_text(parameters.read_text().replace("slider_puzzle", "slider_puzle"))
    with pytest.raises(ParameterError, match="slider_puzle"):
        execute("captcha_samples", root=root)


def test_more_elements_than_fit_is_an_error(new_project: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    root = new_project()
    parameters = root / "params.yaml"
    parameters.write_text(parameters.read_text().replace("elements: [4, 7]", "elements: [14, 16]"))
    with pytest.raises(ParameterError, match="did not fit"):
        execute("grounding_samples", root=root)
    assert not (root / "data/grounding_samples").exists()
