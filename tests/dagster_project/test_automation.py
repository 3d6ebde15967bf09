"""The inbox: good batches become versioned partitions once, broken ones are set aside with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import dagster as dg
import pytest

from assets.environments.trajectory import episodes_schema, steps_schema
from assets.stage import directory_id, write_parquet
from dagster_project.automation import (
    Automation,
    batches,
    build_automation,
    on_new_bytes,
    take_feedback,
    take_inbox,
)
from dagster_project.materialise import Project
from tests.toy import HERE

PICTURE = {"bytes": b"\x89PNG" + bytes(100), "path": "screen.png"}
NOW = Automation(inbox="inbox", retrain_at="0 3 * * 0", settle_seconds=0.0)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The lineage of the real project, with nothing made."""
    root = tmp_path / "project"
    (root / "data" / "imported_batches").mkdir(parents=True)
    for name in ("dvc.yaml", "params.yaml", ".dvcignore"):
        shutil.copyfile(HERE / name, root / name)
    import subprocess

    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".dvc").mkdir()
    shutil.copyfile(HERE / ".dvc" / "config", root / ".dvc" / "config")
    return Project.open(root)


def write_batch(folder: Path, episodes: int = 2, outcome: str = "success", owner: str = "e0") -> Path:
    folder.mkdir(parents=True)
    rows = [
        {
            "id": f"e{i}", "task_id": "t", "policy": "people", "platform": "mobile", "app": "notes", "locale": "en",
            "split": "train", "instruction": "Open Notes", "keypoints": ["Notes"], "steps": 1, "outcome": outcome,
            "claimed": True, "final_screenshot": PICTURE,
        }
        for i in range(episodes)
    ]  # fmt: skip
    action = {"name": "Click", "point": [10, 20], "end": None, "content": None, "keys": [], "direction": None}
    steps = [
        {
            "episode_id": owner, "index": 0, "platform": "mobile", "instruction": "Open Notes", "history": [],
            "screenshot": PICTURE, "width": 192, "height": 192, "think": "Notes", "response": "<action></action>",
            "actions": [{**action, "index": None}], "boxes": [[1.0, 2.0, 30.0, 40.0]], "state_before": "a",
            "state_after": "b",
        }
    ]  # fmt: skip
    write_parquet(folder / "episodes.parquet", rows, episodes_schema())
    write_parquet(folder / "steps.parquet", steps, steps_schema())
    return folder


def test_a_good_batch_is_versioned_and_becomes_a_partition_once(project: Project) -> None:
    batch = write_batch(project.root / "inbox" / "monday")
    identity = directory_id(batch)
    sensor = next(item for item in build_automation(project).sensors or () if item.name == "new_data")
    (project.root / "params.yaml").write_text("automation: {settle_seconds: 0.0}\n")
    instance = dg.DagsterInstance.ephemeral()

    context = dg.build_sensor_context(instance=instance)
    result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    (request,) = result.dynamic_partitions_requests or ()
    assert list(request.partition_keys) == ["monday"]
    (event,) = result.asset_events
    assert event.partition == "monday"
    assert (event.tags or {})["dagster/data_version"] == identity == batches(project)["monday"]
    assert not batch.exists()

    instance.add_dynamic_partitions("imported_batches", ["monday"])
    assert isinstance(sensor(dg.build_sensor_context(instance=instance)), dg.SkipReason)


def test_a_batch_moved_but_not_versioned_before_a_kill_is_finished(project: Project) -> None:
    write_batch(project.root / "data" / "imported_batches" / "half")
    take_inbox(project, NOW)
    assert list(batches(project)) == ["half"]


def broken_not_parquet(inbox: Path) -> None:
    (write_batch(inbox / "bad") / "steps.parquet").write_bytes(b"PAR1 not really")


def broken_missing(inbox: Path) -> None:
    (write_batch(inbox / "bad") / "steps.parquet").unlink()


def broken_rows(inbox: Path) -> None:
    write_batch(inbox / "bad", outcome="maybe")


def broken_orphan(inbox: Path) -> None:
    write_batch(inbox / "bad", owner="nobody")


def broken_extra(inbox: Path) -> None:
    (write_batch(inbox / "bad") / "run.py").write_text("print()")


def broken_link(inbox: Path) -> None:
    folder = write_batch(inbox / "bad")
    (folder / "steps.parquet").unlink()
    (folder / "steps.parquet").symlink_to("/etc/passwd")


def broken_name(inbox: Path) -> None:
    write_batch(inbox / "..bad name")


def broken_schema(inbox: Path) -> None:
    folder = write_batch(inbox / "bad")
    shutil.copyfile(folder / "steps.parquet", folder / "episodes.parquet")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (broken_not_parquet, "steps.parquet can't be read"),
        (broken_missing, "steps.parquet is missing"),
        (broken_rows, "expect_column_values_to_be_in_set(column=outcome"),
        (broken_orphan, "expect_column_values_to_be_in_set(column=episode_id"),
        (broken_extra, "run.py does not belong in a batch"),
        (broken_link, "steps.parquet does not belong in a batch"),
        (broken_name, "is not made of letters"),
        (broken_schema, "episodes.parquet has no column id"),
    ],
)
def test_a_broken_batch_is_set_aside_with_a_reason(project: Project, spoil, reason: str) -> None:  # type: ignore[no-untyped-def]
    inbox = project.root / "inbox"
    inbox.mkdir()
    spoil(inbox)
    write_batch(inbox / "good")
    refused = take_inbox(project, NOW)
    assert len(refused) == 1
    assert reason in next(iter(refused.values()))
    assert list(batches(project)) == ["good"]
    (note,) = (inbox / "quarantine").glob("*.reason.txt")
    assert reason in note.read_text()
    assert [path.name for path in inbox.iterdir()] == ["quarantine"]


def test_a_name_is_taken_once_and_a_growing_batch_waits(project: Project) -> None:
    write_batch(project.root / "inbox" / "monday")
    assert take_inbox(project, NOW.model_copy(update={"settle_seconds": 60.0})) == {}
    assert batches(project) == {}
    take_inbox(project, NOW)
    write_batch(project.root / "inbox" / "monday", episodes=3)
    assert "was imported before" in take_inbox(project, NOW)["monday"]


def test_feedback_is_copied_once_a_version(project: Project) -> None:
    assert take_feedback(project) is None
    folder = project.root / "data" / "verified_trajectories"
    folder.mkdir(parents=True)
    (folder / "feedback.json").write_text(json.dumps({"open": [1, 2]}))
    lock = {"schema": "2.0", "stages": {"verified_trajectories": {"outs": [
        {"path": "data/verified_trajectories", "md5": directory_id(folder)}]}}}  # fmt: skip
    (project.root / "dvc.lock").write_text(json.dumps(lock))
    name = take_feedback(project)
    assert name == directory_id(folder).removesuffix(".dir") + ".json"
    assert (project.root / "data" / "feedback" / name).read_text() == (folder / "feedback.json").read_text()
    assert take_feedback(project) is None


def test_retraining_takes_feedback_and_brings_the_lineage_up_to_date(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dagster_project import automation, launch

    asked: list[list[str]] = []
    outcomes = [launch.Outcome("environments", "cached", 0.1)]

    def materialise_lineage(defs, opened, instance, names, report, tags):  # type: ignore[no-untyped-def]
        asked.append(list(names))
        assert "hesper/started_by" in tags
        return outcomes

    monkeypatch.setattr(automation.launch, "materialise_lineage", materialise_lineage)
    monkeypatch.setattr(automation, "take_feedback", lambda opened: asked.append([opened.root.name]))
    job = next(item for item in build_automation(project).jobs or () if item.name == "retrain")
    assert isinstance(job, dg.JobDefinition)
    assert job.execute_in_process().success
    assert asked == [["project"], [stage.name for stage in project.lineage.stages]]

    outcomes.append(launch.Outcome("base_model", "failed", 0.0, message="no disk", exit_code=4))
    result = job.execute_in_process(raise_on_error=False)
    (failure,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    assert failure.step_failure_data.user_failure_data.description == "base_model: no disk"  # type: ignore[union-attr]


def test_automation_fires_on_new_bytes_only() -> None:
    version = "1"

    @dg.asset
    def data() -> dg.MaterializeResult:
        return dg.MaterializeResult(data_version=dg.DataVersion(version))

    @dg.asset(deps=[data], automation_condition=on_new_bytes())
    def model() -> None: ...

    instance = dg.DagsterInstance.ephemeral()
    definitions = dg.Definitions([data, model])
    result = dg.evaluate_automation_conditions(definitions, instance)
    fired = []
    for version in ("1", "1", "2", "2"):  # noqa: B007  # read by the asset
        dg.materialize([data], instance=instance)
        result = dg.evaluate_automation_conditions(definitions, instance, cursor=result.cursor)
        fired.append(result.total_requested)
        if result.total_requested:
            dg.materialize([data, model], selection=[model], instance=instance)
    assert fired == [1, 0, 1, 0]
