"""Full-scale grounding samples: targets proven by acting, queries by searching, tables by reading them."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from assets.agent.actions import REFUSAL, action_from_row, to_pixel
from assets.agent.grammar import parse_response
from assets.agent.samples import load_samples, load_screens
from assets.errors import InputError, ParameterError
from assets.stage import directory_id, execute
from assets.synthetic_samples import interface_samples
from assets.synthetic_samples.annotations import export_annotations
from assets.synthetic_samples.capture import InterfacePage, interface_page
from assets.synthetic_samples.interface_samples import choose_queries
from assets.synthetic_samples.queries import Query, absent_queries, queries_for
from assets.synthetic_samples.renderer import find_renderer
from assets.synthetic_samples.themes import SPLITS
from tests.synthetic_samples.acting import act
from tests.synthetic_samples.full_scale import Shown, full_parameters, shown
from tests.synthetic_samples.searching import search

REPOSITORY = Path(__file__).parents[2]
SCREENS = {"train": 6, "heldout": 3}
ACTED = 100


@pytest.fixture(scope="module")
def browser() -> Iterator[InterfacePage]:
    with interface_page() as opened:
        yield opened


@pytest.fixture(scope="module")
def new_interfaces(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes an empty project with a few interfaces to draw."""

    def make() -> Path:
        root = tmp_path_factory.mktemp("interfaces")
        shutil.copy(REPOSITORY / "dvc.yaml", root / "dvc.yaml")
        (root / "assets").symlink_to(REPOSITORY / "assets")
        document = yaml.safe_load((REPOSITORY / "infra/profiles/9b.yaml").read_text(encoding="utf-8"))
        section = document["grounding_samples"]
        section |= {"screens": SCREENS, "contact_sheet": 3}
        section["interfaces"] |= {"shard": 3, "processes": 2, "questions": [4, 12], "contact_sheet_width": 640}
        section["interfaces"]["scenes"]["screens"] = {
            "phone": [[360, 720]],
            "web": [[1280, 720]],
            "desktop": [[1280, 720]],
        }
        (root / "params.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        return root

    return make


@pytest.fixture(scope="module")
def project(new_interfaces: Callable[[], Path]) -> Path:
    """A project in which the stage was interrupted when all was drawn, and then went on."""
    root = new_interfaces()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def forbidden(*_: object) -> None:
        raise AssertionError("a shard that was complete is drawn again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HESPER_TRACKING", "off")
        patch.setattr(interface_samples, "check_contamination", interrupt)
        with pytest.raises(KeyboardInterrupt):
            execute("grounding_samples", root=root)
        assert not (root / "data/grounding_samples").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HESPER_TRACKING", "off")
        patch.setattr(interface_samples, "draw_shard", forbidden)
        execute("grounding_samples", root=root)
    return root


def rows(project: Path, split: str) -> list[dict[str, Any]]:
    files = sorted((project / "data/grounding_samples").glob(f"{split}-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


# --- truth -----------------------------------------------------------------------------------------------------------


def test_a_real_click_reaches_the_target_and_a_miss_does_not(browser: InterfacePage) -> None:
    acted = 0
    for screen in shown(browser, full_parameters((1280, 720)), "acted"):
        targets = tuple(target for target, _ in choose_queries(screen.capture, 20, screen.rng))
        for clicked in act(browser, screen.capture.nodes, targets):
            assert clicked.true, (screen.interface.description.words(), clicked)
            acted += 1
        if acted >= ACTED:
            break


def test_every_query_means_one_element_and_an_absent_one_none(browser: InterfacePage) -> None:
    kinds: set[str] = set()
    for screen in shown(browser, full_parameters((1280, 720)), "searched", screens=12):
        pairs = [
            (target, query) for target in screen.capture.targets for query in queries_for(target, screen.capture)
        ]  # fmt: skip
        for (target, query), found in zip(pairs, search(browser, [query for _, query in pairs]), strict=True):
            assert found == [target.index], (screen.interface.description.words(), query)
        absent = absent_queries(screen.capture, plausible(screen), screen.rng)
        assert search(browser, absent) == [[] for _ in absent]
        kinds |= {query.by for _, query in pairs}
    assert kinds == {"text", "icon", "function", "relation", "state"}


def plausible(screen: Shown) -> list[Query]:
    locale = screen.interface.description.locale
    return [interface_samples.absent_query(thing, locale) for thing in screen.interface.absent]


# --- tables ----------------------------------------------------------------------------------------------------------


def test_sizes_and_shards(project: Path) -> None:
    folder = project / "data/grounding_samples"
    assert sorted(file.name for file in folder.glob("*.parquet")) == [
        "heldout-00000.parquet",
        "train-00000.parquet",
        "train-00001.parquet",
    ]
    found = {split: rows(project, split) for split in SPLITS}
    assert {split: len(table) for split, table in found.items()} == SCREENS
    assert len({row["id"] for table in found.values() for row in table}) == sum(SCREENS.values())


def test_questions_answer_themselves(project: Path) -> None:
    for split in SPLITS:
        for row in rows(project, split):
            with Image.open(io.BytesIO(row["image"]["bytes"])) as image:
                assert image.size == (row["width"], row["height"])
            assert len(row["queries"]) == len(row["questions"])
            for question in row["questions"]:
                actions = [action_from_row(action) for action in question["actions"]]
                assert list(parse_response(question["response"]).actions) == actions
                (point,) = actions[0].points()
                if question["kind"] == "absent":
                    assert (point, question["boxes"]) == (REFUSAL, [])
                    continue
                ((x0, y0, x1, y1),) = question["boxes"]
                x, y = to_pixel(point, row["width"], row["height"])
                assert x0 <= x < x1
                assert y0 <= y < y1
            for question in row["perception"]:
                (action,) = parse_response(question["response"]).actions
                assert (action.name, action.content) == ("Answer", question["answer"])


def test_every_kind_is_asked(project: Path) -> None:
    questions = [question["kind"] for split in SPLITS for row in rows(project, split) for question in row["questions"]]
    assert set(questions) == {"text", "icon", "function", "relation", "state", "absent"}
    perceived = [question["kind"] for split in SPLITS for row in rows(project, split) for question in row["perception"]]
    assert set(perceived) >= {"text", "icon", "region"}


def test_splits_share_no_look(project: Path) -> None:
    for column in ("scene", "theme", "application", "icons"):
        train, heldout = ({row[column] for row in rows(project, split)} for split in SPLITS)
        assert not train & heldout


def test_the_agent_and_hugging_face_read_them(project: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    folder = project / "data/grounding_samples"
    samples = load_samples(folder, "grounding", "heldout")
    assert len(samples) == sum(len(row["questions"]) for row in rows(project, "heldout"))
    for screen, row in zip(load_screens(folder, "grounding", "train", True), rows(project, "train"), strict=True):
        perceived = [sample for sample in screen.samples if sample.kind.startswith("perception/")]
        assert len(perceived) == len(row["perception"])
        assert all(parse_response(sample.response).actions == sample.actions for sample in perceived)
    files = {split: str(folder / f"{split}-*.parquet") for split in SPLITS}
    loaded = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    assert {split: len(loaded[split]) for split in loaded} == SCREENS
    assert loaded["heldout"][0]["perception"] == rows(project, "heldout")[0]["perception"]


def test_what_drew_them_is_recorded(project: Path) -> None:
    folder = project / "data/grounding_samples"
    drawn_by = json.loads((folder / "renderer.json").read_text(encoding="utf-8"))
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert str(int(metrics["renderer_chromium"])) in drawn_by["chromium"]
    assert metrics["renderer_fonts"] == int(drawn_by["fonts"][:12], 16)
    assert metrics["near_copies"] == 0
    assert (folder / "nearest_neighbours.md").is_file()
    assert (folder / "pictures/contact_sheet_train.png").is_file()


def test_another_font_is_another_renderer(tmp_path: Path) -> None:
    fonts, empty = tmp_path / "fonts", tmp_path / "none"
    fonts.mkdir()
    (fonts / "one.ttf").write_bytes(b"one")
    before = find_renderer([fonts, empty])
    assert find_renderer([fonts, empty]) == before
    (fonts / "one.ttf").write_bytes(b"another")
    after = find_renderer([fonts, empty])
    assert after.id != before.id
    assert after.metrics()["renderer_fonts"] != before.metrics()["renderer_fonts"]
    assert after.chromium == before.chromium


def test_the_same_seed_gives_the_same_bytes(
    project: Path, new_interfaces: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    assert execute("grounding_samples", root=new_interfaces()) == directory_id(project / "data/grounding_samples")


def test_what_can_not_be_drawn_is_said(new_interfaces: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    root = new_interfaces()
    parameters = root / "params.yaml"
    document = yaml.safe_load(parameters.read_text(encoding="utf-8"))
    document["grounding_samples"]["scenes"] = yaml.safe_load((REPOSITORY / "params.yaml").read_text())[
        "grounding_samples"
    ]["scenes"]
    parameters.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(ParameterError, match=r"either scenes .* or interfaces"):
        execute("grounding_samples", root=root)


# --- export ----------------------------------------------------------------------------------------------------------


def test_annotation_files_have_the_shape_of_screenspot(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    counts = export_annotations(project / "data/grounding_samples", folder, "heldout")
    targets = json.loads((folder / "annotations/grounding.json").read_text(encoding="utf-8"))
    negatives = json.loads((folder / "annotations/negatives.json").read_text(encoding="utf-8"))
    assert counts == {"screens": 3, "targets": len(targets), "negatives": len(negatives)}
    assert len(targets) + len(negatives) == sum(len(row["questions"]) for row in rows(project, "heldout"))
    for item in targets:
        x0, y0, x1, y1 = item["bbox"]
        with Image.open(folder / "images" / item["img_filename"]) as image:
            assert list(image.size) == item["img_size"]
        assert 0 <= x0 < x1 <= item["img_size"][0]
        assert 0 <= y0 < y1 <= item["img_size"][1]
        assert item["ui_type"] in ("text", "icon")
        assert item["platform"] in ("phone", "web", "desktop")
        assert item["instruction"]
    assert {item["bbox"][0] for item in negatives} == {-1}


def test_the_command_exports_what_the_stage_made(project: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dagster_project.cli", "export", "grounding", "--to", str(tmp_path / "out")]
    environment = {**os.environ, "HESPER_ROOT": str(project)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 screens, ")
    wrong = subprocess.run(
        [*command, "--split", "test"], cwd=REPOSITORY, env=environment, capture_output=True, text=True
    )
    assert (wrong.returncode, wrong.stderr) == (2, "error: no split 'test'; there are: train, heldout\n")


def test_an_export_mixes_with_nothing(project: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ParameterError, match="not an empty folder"):
        export_annotations(project / "data/grounding_samples", tmp_path, "heldout")
    with pytest.raises(InputError, match="no table of the split 'test'"):
        export_annotations(project / "data/grounding_samples", tmp_path / "new", "test")
    assert not (tmp_path / "new").exists()
