"""The whole lineage in its smoke profile: one id everywhere, nothing runs twice, and MLflow knows every model."""

from __future__ import annotations

import itertools
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from assets.agent.samples import load_samples
from assets.environments.catalogue import catalogue
from assets.reporting import connect, experiment_id
from assets.stage import directory_id, load_yaml
from dagster_project import tracking
from dagster_project.checks import evaluation, passed, suites
from dagster_project.history import read_ancestry, resolve
from dagster_project.materialise import Project, measured
from tests.dagster_project.test_ui import materialise_by_clicking
from tests.toy import clean_environment, hesper, make_smoke, recorded_hashes, run_with_kills

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(3600), pytest.mark.flaky(reruns=0)]


@pytest.fixture(scope="module")
def smoke_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real project in its smoke profile after one `hesper run`. Tests leave it as it is."""
    root = make_smoke(tmp_path_factory.mktemp("smoke") / "project")
    hesper(root, "run")
    return root


@pytest.fixture(scope="module")
def project(smoke_project: Path) -> Project:
    """The smoke project, read in this process."""
    return Project.open(smoke_project)


@pytest.fixture(scope="module")
def items(smoke_project: Path) -> dict[str, dict[str, Any]]:
    """`hesper status --json`, by address."""
    found = json.loads(hesper(smoke_project, "status", "--json").stdout)
    return {item["asset"] + (f"@{item['partition']}" if item["partition"] else ""): item for item in found}


def test_every_asset_has_one_id(smoke_project: Path, items: dict[str, dict[str, Any]]) -> None:
    assert len(items) == 18
    for address, item in items.items():
        assert item["state"] == "fresh", address
        assert re.fullmatch(r"[0-9a-f]{32}\.dir", item["dvc_id"])
        assert item["dvc_id"] == item["data_version"] == item["dataset_digest"], address
        assert item["dvc_id"] == directory_id(smoke_project / item["path"])
        assert item["metrics"], address


def test_every_asset_has_something_to_look_at(smoke_project: Path, items: dict[str, dict[str, Any]]) -> None:
    for address, item in items.items():
        folder = smoke_project / item["path"]
        assert [*folder.glob("pictures/*.png"), *folder.glob("*.md")], address


def test_an_app_is_in_one_split_wherever_it_turns_up(smoke_project: Path) -> None:
    """From the catalogue to what is trained on and what is measured on: nothing of a held-out app is ever learned."""
    split_of = {app.id: app.split for app in catalogue()}
    data, reports = smoke_project / "data", smoke_project / "reports"
    told = {
        table: {(row["app"], row["split"]) for row in rows(data / f"{table}.parquet", ["app", "split"])}
        for table in (
            *("capability_catalog/capabilities", "generated_tasks/tasks", "generated_tasks/rejected"),
            *("generated_tasks/attacks", "collected_trajectories/episodes", "verified_trajectories/episodes"),
        )
    }
    told["environments/apps"] = {
        (r["id"], r["split"]) for r in rows(data / "environments/apps.parquet", ["id", "split"])
    }
    for table, pairs in told.items():
        assert pairs or table == "generated_tasks/rejected"
        assert {(app, split) for app, split in pairs if split_of[app] != split} == set(), table

    tasks = {row["id"]: row["app"] for row in rows(data / "generated_tasks/tasks.parquet", ["id", "app"])}
    for domain, split in itertools.product(("mobile", "web", "computer"), ("train", "heldout")):
        taken = load_samples(data / "verified_trajectories", domain, split)
        assert {split_of[tasks[sample.id.partition("/")[0]]] for sample in taken} <= {split}, (domain, split)
    measured = [reports / "benchmark_scores/cases.parquet", reports / "safety/cases.parquet"]
    measured += [*smoke_project.glob("models/**/outcomes.parquet")]
    assert len(measured) > 2
    of_tasks = 0
    for file in measured:
        name = "sample" if "models" in file.parts else "case"
        found = [row[name].partition("/")[0].removesuffix("-attack") for row in rows(file, [name])]
        splits = [split_of[tasks[task]] for task in found if task in tasks]  # grounding and CAPTCHA have no apps
        assert set(splits) <= {"heldout"}, file
        of_tasks += len(splits)
    assert of_tasks


def rows(file: Path, columns: list[str]) -> list[dict[str, Any]]:
    """Some columns of a table."""
    found: list[dict[str, Any]] = pq.read_table(file, columns=columns).to_pylist()
    return found


def test_a_second_run_is_cached_within_twenty_seconds_of_work(smoke_project: Path) -> None:
    before = recorded_hashes(smoke_project)
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = hesper(smoke_project, "run")
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime
    assert len(re.findall(r"^\S+ +cached ", done.stdout, re.M)) == 18
    assert recorded_hashes(smoke_project) == before
    assert seconds < 20


def test_every_table_was_checked_at_its_version(smoke_project: Path, items: dict[str, dict[str, Any]]) -> None:
    import dagster as dg

    from dagster_project.checks import check_name
    from dagster_project.launch import open_instance

    instance = open_instance(smoke_project)
    for asset, tables in suites().items():
        for table in tables:
            key = dg.AssetCheckKey(dg.AssetKey(asset), check_name(table))
            assert passed(instance, key, items[asset]["dvc_id"]), key
            known = evaluation(instance, key)
            assert known is not None
            assert known.blocking


def test_mlflow_links_back_and_knows_every_model(project: Project, items: dict[str, dict[str, Any]]) -> None:
    connect.cache_clear()
    client = connect(project.root)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project.root, capture_output=True, text=True, check=True)
    for item in items.values():
        run = client.get_run(item["mlflow_run"])
        assert run.data.tags["asset"] == item["asset"]
        assert run.data.tags["partition"] == (item["partition"] or "")
        assert run.data.tags["git_commit"] == commit.stdout.strip()
        assert run.data.tags["dagster_run_id"]
        assert run.data.tags["dvc_hash"] == item["dvc_id"]
        said = run.data.tags["mlflow.note.content"]
        assert f"(http://127.0.0.1:3000/runs/{run.data.tags['dagster_run_id']})" in said
        assert f"(http://127.0.0.1:3000/assets/{item['asset']}" in said
        assert said.endswith(f"DVC: `{item['path']}` at `{item['dvc_id']}`")
    models = {item["path"]: item for item in items.values() if item["path"].startswith("models/")}
    assert len(models) == 8
    reports = {asset: measured(project.root / items[asset]["path"]) for asset in ("benchmark_scores", "safety_report")}
    for path, item in models.items():
        query = f"name = 'hesper' and tags.dvc_hash = '{item['dvc_id']}' and tags.path = '{path}'"
        (version,) = client.search_model_versions(query)
        assert version.run_id == item["mlflow_run"]
        logged = client.search_logged_models([experiment_id(project.root)], filter_string=f"tags.path = '{path}'")
        attached = {metric.key: metric.value for metric in logged[0].metrics or ()}
        scores = {key: value for report in reports.values() for key, value in report.get(path, {}).items()}
        assert attached == pytest.approx(scores)
        assert {metric.dataset_digest for metric in logged[0].metrics} == {
            items[asset]["dvc_id"] for asset, report in reports.items() if path in report
        }
        on_its_run = client.get_run(version.run_id).data.metrics
        assert {key: on_its_run[key] for key in scores} == pytest.approx(scores)
    decision = json.loads((project.root / "reports" / "release" / "decision.json").read_text())
    champion = tracking.champion(project.root)
    assert (champion is not None) == decision["released"]
    if champion is not None:
        assert champion.tags["dvc_hash"] == items["distilled_model"]["dvc_id"]


def test_trace_reaches_from_release_to_environments(project: Project, items: dict[str, dict[str, Any]]) -> None:
    connect.cache_clear()
    ancestry = read_ancestry(project)
    found, waiting = set(), [resolve(project, ancestry, "release")]
    while waiting:
        identity = waiting.pop()
        if identity not in found:
            found.add(identity)
            waiting += ancestry.parents.get(identity, [])
    assert {item["dvc_id"] for item in items.values()} <= found


def test_killed_at_ten_random_moments_it_ends_in_the_same_hashes(smoke_project: Path, tmp_path: Path) -> None:
    root = make_smoke(tmp_path / "project")
    run_with_kills(root, kills=10, seconds=40.0, seed=5)
    assert recorded_hashes(root) == recorded_hashes(smoke_project)


def test_a_team_can_work_in_its_pages(smoke_project: Path) -> None:
    groups = ["1_environments", "2_generated_tasks", "3_verified_trajectories", "4_synthetic_samples", "5_checkpoints"]
    groups += ["6_benchmark_scores", "7_safety_report", "8_release"]
    materialise_by_clicking(smoke_project, "capability_catalog", ["environments", "generated_tasks"], groups)


@pytest.mark.slow
def test_dvc_repro_gives_the_same_hashes(smoke_project: Path, tmp_path: Path) -> None:
    root = make_smoke(tmp_path / "project")
    environment = {**clean_environment(), "HESPER_TRACKING": "off"}
    command = [sys.executable, "-m", "dvc", "repro", "-q"]
    subprocess.run(command, cwd=root, check=True, env=environment)
    by_dvc, by_dagster = (load_yaml(project / "dvc.lock")["stages"] for project in (root, smoke_project))
    assert by_dvc == by_dagster  # the order of the stages in the file is that of the run
