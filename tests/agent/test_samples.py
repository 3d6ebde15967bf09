"""Samples come from the three kinds of table in one shape; only what may be imitated is read from trajectories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from assets.agent import samples as samples_module
from assets.agent.matching import match_step
from assets.agent.samples import DOMAINS, TABLE_OF_DOMAIN, group_screens, load_samples, load_screens
from assets.errors import InputError
from tests.checkpoints.small_project import write_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    write_project(root)
    return root


@pytest.mark.parametrize("domain", ["grounding", "captcha", "mobile", "web"])
def test_every_sample_is_right_by_its_own_verified_answer(project: Path, domain: str):
    samples = load_samples(project / TABLE_OF_DOMAIN[domain], domain, "train")
    assert samples
    for sample in samples:
        assert sample.domain == domain
        assert match_step(
            sample.response, sample.actions, sample.boxes, sample.width, sample.height, sample.platform
        ).correct
    assert len({sample.id for sample in samples}) == len(samples)


def test_trajectories_give_only_what_may_be_imitated(project: Path):
    folder = project / TABLE_OF_DOMAIN["mobile"]
    train = {sample.id for sample in load_samples(folder, "mobile", "train")}
    # e1's second step is incorrect, e3 is held out, e4 only partial, e5 on another platform
    assert train == {"e0/0", "e0/1", "e1/0", "e2/0", "e2/1"}
    assert {sample.group for sample in load_samples(folder, "mobile", "heldout")} == {"e3"}
    assert {sample.platform for sample in load_samples(folder, "web", "train")} == {"web"}
    assert load_samples(folder, "computer", "train") == []


def test_history_holds_the_earlier_responses(project: Path):
    by_id = {s.id: s for s in load_samples(project / TABLE_OF_DOMAIN["mobile"], "mobile", "train")}
    assert by_id["e0/0"].history == ()
    assert by_id["e0/1"].history == (by_id["e0/0"].response,)


def test_samples_that_share_a_screenshot_are_one_screen(project: Path):
    screens = load_screens(project / TABLE_OF_DOMAIN["mobile"], "mobile", "train")
    assert [{sample.group for sample in screen.samples} for screen in screens] == [{"e0", "e1"}, {"e2"}]
    assert all(sample.image == screen.image for screen in screens for sample in screen.samples)
    samples = [sample for screen in screens for sample in screen.samples]
    assert group_screens(samples) == screens


def test_synthetic_screens_keep_what_the_page_told(project: Path):
    screens = load_screens(project / TABLE_OF_DOMAIN["grounding"], "grounding", "train")
    assert [element.label for element in screens[1].elements] == ["Open", "发送"]
    assert screens[1].elements[0].box == (16.0, 0.0, 56.0, 24.0)
    assert len(screens[1].samples) == 4


@pytest.mark.parametrize("domain", ["grounding", "mobile"])
def test_pictures_of_large_tables_stay_in_them(project: Path, domain: str, monkeypatch: pytest.MonkeyPatch):
    folder = project / TABLE_OF_DOMAIN[domain]
    kept = load_screens(folder, domain, "train")
    monkeypatch.setattr(samples_module, "KEPT_BYTES", 0)
    stored = load_screens(folder, domain, "train")
    assert not any(isinstance(screen.picture, bytes) for screen in stored)
    assert [screen.image for screen in stored] == [screen.image for screen in kept]
    assert [[(it.id, it.image) for it in s.samples] for s in stored] == [
        [(it.id, it.image) for it in s.samples] for s in kept
    ]
    assert [screen.elements for screen in stored] == [screen.elements for screen in kept]


def test_a_table_that_is_changed_meanwhile_is_an_error(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(samples_module, "KEPT_BYTES", 0)
    table = tmp_path / "train-00000.parquet"
    shutil.copyfile(next((project / TABLE_OF_DOMAIN["grounding"]).glob("train-*")), table)
    screen, *_ = load_screens(tmp_path, "grounding", "train")
    rows = pq.read_table(table)
    pq.write_table(rows.take(list(range(len(rows)))[::-1]), table)
    with pytest.raises(InputError, match="changed"):
        _ = screen.image
    table.unlink()
    with pytest.raises(InputError, match="changed"):
        _ = screen.image


def test_what_is_missing_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="train-"):
        load_screens(tmp_path, "grounding", "train")
    with pytest.raises(InputError, match="no domain 'tablet'"):
        load_screens(tmp_path, "tablet", "train")
    assert set(TABLE_OF_DOMAIN) == set(DOMAINS)
