"""MLflow: links both ways, models once for one id, scores on the model they measure, the champion."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assets.benchmark_scores.scores import Score, write_scores
from assets.errors import ParameterError
from assets.reporting import MlflowRun, connect, experiment_id, process_mark
from assets.statistics import Interval
from dagster_project import tracking
from dagster_project.materialise import measured


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of its own."""
    folder = tmp_path_factory.mktemp("tracking")
    tracking.prepare(folder)
    return folder


@pytest.fixture(autouse=True)
def _own_store(root: Path) -> None:
    connect.cache_clear()
    connect(root)


def finished(root: Path, asset: str, identity: str, path: str) -> tracking.Made:
    run = MlflowRun.start(root, asset, None, {"data/x": "0" * 32 + ".dir"}, {"rate": 0.1, "deep": {"rows": 2}}, "d1")
    output = root / path
    (output / "pictures").mkdir(parents=True, exist_ok=True)
    (output / "pictures" / "sheet.png").write_bytes(b"png")
    (output / "scores.md").write_text("| a |")
    run.points([("loss", 1.0, 0, 1), ("loss", 0.5, 1, 2)])
    run.finish(output, path, identity, {"accuracy": 0.5}, {"work_seconds": 1.0})
    return tracking.Made(asset, None, path, identity, run.run_id)


def name(letter: str) -> str:
    return letter * 32 + ".dir"


def test_a_run_holds_parameters_curves_pictures_and_datasets(root: Path) -> None:
    made = finished(root, "one", name("1"), "models/one")
    client = connect(root)
    run = client.get_run(made.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"rate": "0.1", "deep.rows": "2"}
    assert run.data.metrics == {"loss": 0.5, "accuracy": 0.5, "work_seconds": 1.0}
    assert [point.value for point in client.get_metric_history(made.run_id, "loss")] == [1.0, 0.5]
    assert {item.path for item in client.list_artifacts(made.run_id)} == {"pictures", "tables"}
    assert (root / ".hesper" / "mlflow" / "artifacts" / made.run_id / "artifacts" / "pictures" / "sheet.png").is_file()
    for key, value in {"asset": "one", "partition": "", "dagster_run_id": "d1", "dvc_hash": name("1")}.items():
        assert run.data.tags[key] == value
    assert {"git_commit", "process"} <= set(run.data.tags)
    digests = {item.dataset.name: item.dataset.digest for item in run.inputs.dataset_inputs}
    assert digests == {"data/x": "0" * 32 + ".dir", "models/one": name("1")}
    query = f"dataset.digest = '{name('1')}'"
    assert [found.info.run_id for found in client.search_runs([experiment_id(root)], query)] == [made.run_id]
    assert tracking.find_run(root, "one", None, name("1")) == made.run_id


def test_models_are_registered_once_for_one_id(root: Path) -> None:
    made = finished(root, "two", name("2"), "models/two")
    first = tracking.register_model(root, made, {"data/x": name("0")})
    assert tracking.register_model(root, made, {"data/x": name("0")}) == first
    client = connect(root)
    version = client.get_model_version("hesper", first)
    assert version.tags == {
        "dvc_hash": name("2"), "asset": "two", "partition": "", "path": "models/two", "input:data/x": name("0")
    }  # fmt: skip
    assert version.run_id == made.run_id
    models = client.search_logged_models([experiment_id(root)], filter_string=f"tags.dvc_hash = '{name('2')}'")
    assert [model.name for model in models] == ["two"]
    assert client.get_run(made.run_id).outputs.model_outputs[0].model_id == models[0].model_id


def test_scores_are_on_the_model_they_measure_with_the_reports_digest(root: Path) -> None:
    models = {f"models/{letter}": finished(root, letter, name(letter), f"models/{letter}") for letter in "ab"}
    for made in models.values():
        tracking.register_model(root, made, {})
    report = finished(root, "scores", name("c"), "reports/scores")
    scores = {
        "models/a": {"grounding": 0.4, "web": 0.1},
        "models/b": {"grounding": 0.9},
        "models/unknown": {"web": 1.0},
    }
    assert tracking.attach_scores(root, report, scores, models) == 3
    assert tracking.attach_scores(root, report, scores, models) == 0
    client = connect(root)
    for letter, expected in (("a", {"grounding": 0.4, "web": 0.1}), ("b", {"grounding": 0.9})):
        query = f"tags.dvc_hash = '{name(letter)}'"
        (model,) = client.search_logged_models([experiment_id(root)], filter_string=query)
        assert {metric.key: metric.value for metric in model.metrics} == expected
        assert {metric.dataset_digest for metric in model.metrics} == {name("c")}


def test_models_are_compared_by_what_every_report_measured_on_both_of_mlflows_pages(root: Path) -> None:
    models = {f"models/{letter}": finished(root, letter, name(letter), f"models/{letter}") for letter in "fg"}
    for made in models.values():
        tracking.register_model(root, made, {})
    benchmark, safety = (finished(root, asset, name(asset[0]), f"reports/{asset}") for asset in ("quality", "harm"))
    tracking.attach_scores(
        root, benchmark, {"models/f": {"web.right": 0.4}, "models/g": {"web.right": 0.9, "web.refusal": 0.2}}, models
    )
    tracking.attach_scores(root, safety, {"models/g": {"safety.attack_success": 0.25}}, models)
    client = connect(root)
    expected = {
        "models/f": {"web.right": 0.4},
        "models/g": {"web.right": 0.9, "web.refusal": 0.2, "safety.attack_success": 0.25},
    }
    # The experiment's Models tab compares logged models, the page of the registered model the runs of its versions.
    logged = client.search_logged_models([experiment_id(root)], filter_string="metrics.`web.right` > 0.0")
    found = {model.tags["path"]: {metric.key: metric.value for metric in model.metrics} for model in logged}
    assert {path: metrics for path, metrics in found.items() if path in models} == expected
    for path, made in models.items():
        (version,) = client.search_model_versions(f"name = 'hesper' and tags.dvc_hash = '{made.id}'")
        metrics = client.get_run(version.run_id).data.metrics
        assert {key: value for key, value in metrics.items() if "." in key} == expected[path]


def test_scores_of_another_report_take_the_place_of_the_old_ones(root: Path) -> None:
    made = finished(root, "h", name("h"), "models/h")
    tracking.register_model(root, made, {})
    for identity, value in (("i", 0.9), ("j", 0.4), ("i", 0.9)):
        report = finished(root, "scores", name(identity), "reports/scores")
        tracking.attach_scores(root, report, {made.path: {"web.right": value}}, {made.path: made})
        assert connect(root).get_run(made.run_id).data.metrics["web.right"] == value


def test_a_model_whose_run_was_deleted_has_its_scores_all_the_same(root: Path) -> None:
    made = finished(root, "k", name("k"), "models/k")
    tracking.register_model(root, made, {})
    connect(root).delete_run(made.run_id)
    report = finished(root, "scores", name("l"), "reports/scores")
    assert tracking.attach_scores(root, report, {made.path: {"web.right": 0.5}}, {made.path: made}) == 1


def test_what_a_report_measured_is_read_from_its_scores(tmp_path: Path) -> None:
    nothing = Interval(math.nan, 0.0, 1.0, 0)
    scores = [
        Score("base", "models/base", "attacks", "safety.dialog", "attack_success", Interval(0.25, 0.1, 0.5, 12)),
        Score("base", "models/base", "attacks", "safety", "over_refusal", Interval(0.0, 0.0, 0.2, 12)),
        Score("base", "models/base", "live_apps", "web", "live_success", nothing),
        Score("chance", "", "attacks", "safety", "over_refusal", Interval(0.5, 0.2, 0.8, 12)),
    ]
    assert measured(tmp_path) == {}
    write_scores(tmp_path / "scores.parquet", scores)
    assert measured(tmp_path) == {"models/base": {"safety.dialog.attack_success": 0.25, "safety.over_refusal": 0.0}}


def described(root: Path, made: tracking.Made) -> str:
    return str(connect(root).get_run(made.run_id).data.tags["mlflow.note.content"])


def test_a_run_says_where_it_is_in_dagster_and_which_version_it_made(root: Path) -> None:
    made = finished(root, "linked", name("m"), "models/linked")
    tracking.describe_run(root, made.run_id, "linked@web", made.path, None)
    links = "Dagster: [run d1](http://127.0.0.1:3000/runs/d1), "
    links += "[linked@web](http://127.0.0.1:3000/assets/linked?view=partitions&partition=web)"
    assert described(root, made) == links
    tracking.describe_run(root, made.run_id, "linked@web", made.path, made.id)
    assert described(root, made) == f"{links}\n\nDVC: `models/linked` at `{made.id}`"


def test_links_lead_to_the_pages_that_are_up_and_before_them_to_the_public_ones(root: Path) -> None:
    made = [finished(root, asset, name(asset), f"data/{asset}") for asset in "no"]
    try:
        (root / ".hesper" / "ui.json").write_text('{"dagster": "http://127.0.0.1:4567"}')
        tracking.describe_run(root, made[0].run_id, "n", "data/n", made[0].id)
        (root / "params.yaml").write_text("ui: {dagster: 'https://dagster.example.org/'}")
        tracking.describe_run(root, made[1].run_id, "o", "data/o", made[1].id)
        assert "](http://127.0.0.1:4567/runs/d1), [n](http://127.0.0.1:4567/assets/n)" in described(root, made[0])
        assert "[o](https://dagster.example.org/assets/o)" in described(root, made[1])
        (root / "params.yaml").write_text("ui: {dagster: 'javascript:alert(1)'}")
        with pytest.raises(ParameterError, match=r"ui\.dagster"):
            tracking.dagster_address(root)
    finally:
        for path in (root / ".hesper" / "ui.json", root / "params.yaml"):
            path.unlink()


def test_what_a_person_wrote_about_a_run_stays(root: Path) -> None:
    made = finished(root, "p", name("p"), "data/p")
    for words in ("the one with the odd curve", f"Dagster: moved\n\nDVC: `data/p` at `{made.id}`, do not delete"):
        connect(root).set_tag(made.run_id, "mlflow.note.content", words)
        tracking.describe_run(root, made.run_id, "p", made.path, made.id)
        assert described(root, made) == words


def test_the_champion_follows_decisions(root: Path) -> None:
    for letter in "de":
        tracking.register_model(root, finished(root, letter, name(letter), f"models/{letter}"), {})

    def decide(letter: str, released: bool) -> dict[str, object]:
        candidate = {"path": f"models/{letter}", "dvc_hash": name(letter)}
        return {
            "released": released,
            "reasons": [],
            "candidate": candidate,
            "champion": None,
            "gate_scores": {"s": 0.5},
        }

    assert tracking.set_champion(root, decide("d", False)) is None
    first = tracking.set_champion(root, decide("d", True))
    assert tracking.set_champion(root, decide("d", True)) == first
    assert tracking.set_champion(root, decide("e", False)) == first
    second = tracking.set_champion(root, decide("e", True))
    champion = tracking.champion(root)
    assert str(champion.version) == second != first
    assert champion.tags["previous_champion"] == first
    assert champion.tags["gate_scores"] == '{"s": 0.5}'


def test_runs_of_killed_processes_are_closed(root: Path) -> None:
    client = connect(root)
    gone = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    tags = {"process": process_mark(gone.pid)}
    gone.kill()
    gone.wait()
    dead = client.create_run(experiment_id(root), tags=tags).info.run_id
    mine = client.create_run(experiment_id(root), tags={"process": process_mark(os.getpid())}).info.run_id
    other = client.create_run(experiment_id(root), tags={"process": "another-host 1 1"}).info.run_id
    tracking.prepare(root)
    states = [client.get_run(run).info.status for run in (dead, mine, other)]
    assert states == ["KILLED", "RUNNING", "RUNNING"]
