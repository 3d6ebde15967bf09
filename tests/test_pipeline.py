"""The whole lineage, environments to release, in the smoke profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.toy import hesper, recorded_hashes

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(1800)]


def test_every_asset_is_fresh_and_has_one_id(smoke_project: Path) -> None:
    assets = json.loads(hesper(smoke_project, "status", "--json").stdout)
    assert len(assets) >= 18
    for asset in assets:
        assert asset["state"] == "fresh", asset
        assert asset["dvc_id"] == asset["data_version"] == asset["dataset_digest"], asset
        assert recorded_hashes(smoke_project)[asset["path"]] == asset["dvc_id"]


def test_a_second_run_runs_nothing(smoke_project: Path) -> None:
    before = recorded_hashes(smoke_project)
    done = hesper(smoke_project, "run")
    assert " ran " not in done.stdout + done.stderr
    assert recorded_hashes(smoke_project) == before


def test_every_model_opens_as_a_hugging_face_folder(smoke_project: Path) -> None:
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    for path in sorted(path for path in recorded_hashes(smoke_project) if path.startswith("models/")):
        folder = smoke_project / path
        model, loading = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
        assert not loading["missing_keys"]
        assert not loading["unexpected_keys"]
        assert model.config.model_type == "qwen3_5"
        tokenizer = AutoTokenizer.from_pretrained(folder)
        text = "打开 Settings"
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
        assert AutoImageProcessor.from_pretrained(folder).patch_size == 16


def test_every_table_opens_as_a_hugging_face_dataset(smoke_project: Path, tmp_path: Path) -> None:
    import datasets
    import pyarrow.parquet as pq

    tables = [table for table in (smoke_project / "data").glob("*/*.parquet") if pq.read_metadata(table).num_rows]
    assert len(tables) > 10
    for table in tables:
        rows = datasets.load_dataset("parquet", data_files=str(table), split="train", cache_dir=str(tmp_path))
        assert len(rows.column_names) > 2
