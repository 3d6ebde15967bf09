"""The inbox: what is good of a batch becomes a versioned partition once, the rest is set aside with reasons."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from assets.errors import PARTIAL, InfrastructureError, InputError, ParameterError
from assets.stage import directory_id
from dagster_project import inbox as taking
from dagster_project.automation import Automation, build_automation, on_new_bytes, take_feedback
from dagster_project.cli import main
from dagster_project.inbox import Arrival, FolderInbox, HandedFolder, batches, check_tables, open_inbox, take_inbox
from dagster_project.launch import open_instance
from dagster_project.materialise import Project
from tests.dagster_project.s3_server import Bucket, serve
from tests.toy import HERE, clean_environment
from tests.verified_trajectories.foreign_batches import (
    LIMITS,
    WRITERS,
    own_rows,
    write_agentnet,
    write_android,
    write_lines,
    write_own,
    write_tables,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The lineage of the real project, with nothing made.

    Great Expectations takes most of the time of an import, so it takes part only where it is at stake; that what the
    readers write meets it is tested with the readers.
    """
    monkeypatch.setattr(taking, "check_tables", lambda batch: None)
    return Project.open(make_project(tmp_path / "project"))


def make_project(root: Path) -> Path:
    (root / "data" / "imported_batches").mkdir(parents=True)
    (root / "data" / "feedback").mkdir()
    for name in ("dvc.yaml", "params.yaml", ".dvcignore", ".gitignore"):
        shutil.copyfile(HERE / name, root / name)
    text = (root / "params.yaml").read_text().replace("settle_seconds: 10.0", "settle_seconds: 0.0")
    (root / "params.yaml").write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".dvc").mkdir()
    shutil.copyfile(HERE / ".dvc" / "config", root / ".dvc" / "config")
    return root


def take(project: Project, seconds: float = 0.0) -> dict[str, Arrival]:
    inbox = open_inbox(project.root, "inbox")
    return {arrival.batch: arrival for arrival in take_inbox(project, inbox, LIMITS, seconds)}


def ids(project: Project) -> list[str]:
    """Of every imported episode, sorted."""
    return sorted(
        identity
        for name in batches(project)
        for identity in pq.read_table(
            project.root / "data" / "imported_batches" / name / "episodes.parquet", columns=["id"]
        )["id"].to_pylist()
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


# --- taken once -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
def test_a_good_batch_is_versioned_and_becomes_a_partition_once(project: Project, kind: str) -> None:
    WRITERS[kind](project.root / "inbox" / "monday")
    sensor = next(item for item in build_automation(project).sensors or () if item.name == "new_data")
    instance = dg.DagsterInstance.ephemeral()
    result = sensor(dg.build_sensor_context(instance=instance))
    assert isinstance(result, dg.SensorResult)
    (request,) = result.dynamic_partitions_requests or ()
    assert list(request.partition_keys) == ["monday"]
    (event,) = result.asset_events
    assert event.partition == "monday"
    identity = directory_id(project.root / "data" / "imported_batches" / "monday")
    assert (event.tags or {})["dagster/data_version"] == identity == batches(project)["monday"]
    assert event.metadata["format"].value == kind
    assert names(project.root / "inbox") == ["taken"]
    assert names(project.root / "inbox" / "taken") == ["monday"]

    # A daemon that is killed after the partition was added still owes the event.
    instance.add_dynamic_partitions("imported_batches", ["monday"])
    again = sensor(dg.build_sensor_context(instance=instance))
    assert isinstance(again, dg.SensorResult)
    assert not again.dynamic_partitions_requests
    assert [item.partition for item in again.asset_events] == ["monday"]
    instance.report_runless_asset_event(event)
    assert isinstance(sensor(dg.build_sensor_context(instance=instance)), dg.SkipReason)


def test_the_rest_of_a_batch_goes_on_and_what_is_wrong_lies_in_the_quarantine(project: Project) -> None:
    batch = write_android(project.root / "inbox" / "monday")
    with (batch / "episodes.jsonl").open("a") as stream:
        stream.write('{"goal": "half a\n')
    (batch / "images" / "2_1.png").unlink()
    arrival = take(project)["monday"]
    assert (arrival.episodes, arrival.rejections) == (2, 2)
    assert "missing picture" in str(arrival)
    place = project.root / "inbox" / "quarantine" / "monday"
    assert arrival.quarantine == str(place)
    found = [json.loads(path.read_text()) for path in sorted(place.glob("*.reason.json"))]
    assert [(item["file"], item["line"], item.get("step")) for item in found] == [
        ("episodes.jsonl", 2, 1),
        ("episodes.jsonl", 4, None),
    ]
    assert (place / found[1]["kept"]).read_bytes() == b'{"goal": "half a'
    assert json.loads((place / "refused.json").read_text())["batch"] == "monday"
    assert len(ids(project)) == 2
    assert names(project.root / "inbox" / "taken" / "monday") == ["episodes.jsonl", "images"]


def test_the_same_content_enters_once_whatever_it_is_called(project: Project) -> None:
    inbox = project.root / "inbox"
    write_android(inbox / "monday", [1, 2])
    first = take(project)["monday"]
    before = ids(project)
    shutil.copytree(inbox / "taken" / "monday", inbox / "tuesday")
    assert "is the batch monday again, byte for byte" in take(project)["tuesday"].reason
    shutil.copytree(inbox / "taken" / "monday", inbox / "monday")
    assert take(project)["monday"].again
    write_android(inbox / "wednesday", [2, 3])
    arrival = take(project)["wednesday"]
    assert (arrival.episodes, arrival.rejections) == (1, 1)
    assert "came with the batch monday" in arrival.reason
    assert len(ids(project)) == len(set(ids(project))) == 3
    assert set(before) < set(ids(project))
    assert first.episodes == 2
    assert sorted(batches(project)) == ["monday", "wednesday"]


def test_a_name_is_taken_once_and_a_growing_batch_waits(project: Project) -> None:
    write_own(project.root / "inbox" / "monday", [1])
    write_own(project.root / "inbox" / "tuesday.partial", [2])
    assert take(project, seconds=60.0) == {}
    assert batches(project) == {}
    assert list(take(project)) == ["monday"]
    write_own(project.root / "inbox" / "monday", [3])
    assert "was imported before: names are for ever" in take(project)["monday"].reason
    assert names(project.root / "inbox" / "quarantine" / "monday") == ["batch", "refused.json"]
    assert names(project.root / "inbox") == ["quarantine", "taken", "tuesday.partial"]


def test_a_batch_that_changes_while_it_is_read_waits(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = write_own(project.root / "inbox" / "monday")

    def grow(tables: Path) -> None:
        write_tables(batch, [own_rows(number) for number in (1, 2, 3, 4)])

    monkeypatch.setattr(taking, "check_tables", grow)
    assert take(project) == {}
    assert batches(project) == {}
    monkeypatch.setattr(taking, "check_tables", lambda tables: None)
    assert take(project)["monday"].episodes == 4


def test_a_folder_put_among_the_imported_batches_by_hand_is_versioned(project: Project) -> None:
    write_own(project.root / "data" / "imported_batches" / "half")
    take(project)
    assert list(batches(project)) == ["half"]


def test_imported_batches_that_are_not_here_stop_the_import_and_lose_nothing(project: Project) -> None:
    write_own(project.root / "inbox" / "monday")
    take(project)
    shutil.rmtree(project.root / "data" / "imported_batches" / "monday")
    write_own(project.root / "inbox" / "tuesday", [4])
    with pytest.raises(InputError, match="monday is not in the workspace"):
        take(project)
    assert names(project.root / "inbox" / "tuesday") == ["episodes.parquet", "steps.parquet"]


# --- refused whole ----------------------------------------------------------------------------------------------------


def broken_not_parquet(inbox: Path) -> None:
    (write_own(inbox / "bad") / "steps.parquet").write_bytes(b"PAR1 not really")


def broken_missing(inbox: Path) -> None:
    (write_own(inbox / "bad") / "steps.parquet").unlink()


def broken_link(inbox: Path) -> None:
    folder = write_own(inbox / "bad")
    (folder / "steps.parquet").unlink()
    (folder / "steps.parquet").symlink_to("/etc/passwd")


def broken_name(inbox: Path) -> None:
    write_own(inbox / "..bad name")


def broken_columns(inbox: Path) -> None:
    folder = write_own(inbox / "bad")
    shutil.copyfile(folder / "steps.parquet", folder / "episodes.parquet")


def broken_whole_link(inbox: Path) -> None:
    (inbox / "bad").symlink_to("/etc")


def broken_file(inbox: Path) -> None:
    (inbox / "bad").write_text("a batch?")


def broken_unknown(inbox: Path) -> None:
    (inbox / "bad").mkdir()
    write_lines(inbox / "bad" / "rows.jsonl", [{"prompt": "x"}])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (broken_not_parquet, "steps.parquet: broken Parquet"),
        (broken_missing, "steps.parquet: missing"),
        (broken_link, "steps.parquet: a link"),
        (broken_name, "is not made of letters"),
        (broken_columns, "episodes.parquet: no column id"),
        (broken_whole_link, "a batch is a folder"),
        (broken_file, "a batch is a folder"),
        (broken_unknown, "no reader knows the format"),
    ],
)
def test_a_batch_of_which_nothing_is_good_is_set_aside_whole(project: Project, spoil: Any, reason: str) -> None:
    inbox = project.root / "inbox"
    inbox.mkdir()
    spoil(inbox)
    write_own(inbox / "good", [1])
    arrivals = take(project)
    (refused,) = [arrival for arrival in arrivals.values() if arrival.refused]
    assert reason in refused.reason
    assert list(batches(project)) == ["good"]
    (place,) = (inbox / "quarantine").iterdir()
    assert reason in json.loads((place / "refused.json").read_text())["reason"]
    assert os.path.lexists(place / "batch")
    assert names(inbox) == ["quarantine", "taken"]
    assert Path("/etc/passwd").is_file()


def test_what_great_expectations_refuses_is_not_imported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from assets.verified_trajectories.imports import batches as importing

    real = importing.to_rows

    def sloppy(*arguments: Any) -> Any:
        row, steps = real(*arguments)
        return {**row, "outcome": "success"}, steps

    monkeypatch.setattr(importing, "to_rows", sloppy)
    monkeypatch.setattr(taking, "check_tables", check_tables)
    write_own(project.root / "inbox" / "monday")
    assert "expect_column_values_to_be_in_set(column=outcome" in take(project)["monday"].reason
    assert batches(project) == {}


# --- killed -----------------------------------------------------------------------------------------------------------


def test_a_process_that_is_killed_anywhere_is_followed_by_one_that_ends_in_the_same_bytes(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    inbox = root / "inbox"
    write_android(inbox / "a", [1, 2, 3])
    (inbox / "a" / "images" / "2_1.png").unlink()  # one episode goes to the quarantine
    write_agentnet(inbox / "b", [1])
    shutil.rmtree(inbox / "b" / "images")  # the whole batch does
    write_own(inbox / "c", [1])
    done = subprocess.run(
        [sys.executable, "-m", "tests.dagster_project.import_kills", str(root), "6"],
        cwd=HERE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    whole, *others = [json.loads(line) for line in done.stdout.splitlines()]
    assert set(whole["left"]) == {"a", "c", "data/a", "data/c", "inbox/taken", "inbox/quarantine"}
    assert len(others) == 6
    for other in others:
        assert other["killed"], other["place"]
        assert other["left"] == whole["left"], other["place"]


# --- S3 ---------------------------------------------------------------------------------------------------------------

KEY, SECRET = "AKIAEXAMPLEEXAMPLE00", "neverInALogNorInAFile0123456789"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket, and the environment that leads to it."""
    found = Bucket("data")
    with serve(found) as address:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_ENDPOINT_URL", address),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_CONFIG_FILE", "/dev/null"),
        ):
            monkeypatch.setenv(name, value)
        yield found


def upload(bucket: Bucket, batch: Path, prefix: str, age: float = 3600.0) -> None:
    for path in sorted(batch.rglob("*")):
        if path.is_file():
            bucket.put(f"{prefix}/{path.relative_to(batch).as_posix()}", path.read_bytes(), age)


def test_a_prefix_of_a_bucket_is_an_inbox_too(
    project: Project,
    bucket: Bucket,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", logger="dagster")
    android = write_android(tmp_path / "android")
    (android / "images" / "2_1.png").unlink()
    upload(bucket, android, "team/in/monday")
    bucket.put("team/in/monday/../../../etc/owned.png", b"x")
    nothing = write_agentnet(tmp_path / "agentnet", [1])
    shutil.rmtree(nothing / "images")
    upload(bucket, nothing, "team/in/nothing")
    upload(bucket, write_own(tmp_path / "own", [4]), "team/in/fresh", age=0.0)
    bucket.put("team/other/notes.txt", b"not ours")
    before = dict(bucket.objects)

    inbox = open_inbox(project.root, "s3://data/team/in/")
    arrivals = {arrival.batch: arrival for arrival in take_inbox(project, inbox, LIMITS, 1800.0)}
    assert set(arrivals) == {"monday", "nothing"}
    assert (arrivals["monday"].episodes, arrivals["monday"].rejections) == (2, 2)
    assert arrivals["monday"].quarantine == "s3://data/team/in/quarantine/monday"
    assert list(batches(project)) == ["monday"]

    def below(prefix: str) -> dict[str, bytes]:
        return {key[len(prefix) :]: value for key, (value, _) in bucket.objects.items() if key.startswith(prefix)}

    sent = {key[len("team/in/monday/") :]: value for key, (value, _) in before.items() if "/in/monday/" in key}
    assert below("team/in/taken/monday/") == sent
    assert below("team/in/monday/") == {}
    reasons = [
        json.loads(value)["reason"]
        for key, value in below("team/in/quarantine/monday/").items()
        if "reason.json" in key
    ]
    assert sorted(reason.partition(":")[0] for reason in reasons) == ["missing picture", "path traversal"]
    assert set(below("team/in/quarantine/nothing/batch/")) == {"agentnet.jsonl", "meta_data_merged.jsonl"}
    assert set(below("team/in/fresh/")) == {"episodes.parquet", "steps.parquet"}
    assert below("team/other/") == {"notes.txt": b"not ours"}
    assert not (tmp_path / "etc").exists()

    assert take_inbox(project, inbox, LIMITS, 1800.0) == []
    assert [arrival.batch for arrival in take_inbox(project, inbox, LIMITS, 0.0)] == ["fresh"]
    written = [path.read_bytes() for path in project.root.rglob("*") if path.is_file()]
    said = "".join([*capfd.readouterr(), caplog.text]).encode()
    for secret in (KEY.encode(), SECRET.encode()):
        assert not any(secret in text for text in (*written, said))


def test_a_move_in_a_bucket_that_was_cut_short_is_ended_first(
    project: Project, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(bucket, write_android(tmp_path / "android", [1]), "monday")
    inbox = taking.S3Inbox("s3://data", project.root / ".hesper" / "imports")
    removed = []
    real = inbox._s3.rm_file

    def cut(key: str) -> None:
        if len(removed) == 2:
            raise KeyboardInterrupt
        removed.append(key)
        real(key)

    monkeypatch.setattr(inbox._s3, "rm_file", cut)
    with pytest.raises(KeyboardInterrupt):
        take_inbox(project, inbox, LIMITS, 0.0)
    assert list(batches(project)) == ["monday"]
    again = taking.S3Inbox("s3://data", project.root / ".hesper" / "imports")
    assert take_inbox(project, again, LIMITS, 0.0) == []
    assert sorted(bucket.objects) == [
        "taken/monday/episodes.jsonl", *(f"taken/monday/images/1_{index}.png" for index in range(3))
    ]  # fmt: skip
    assert list(batches(project)) == ["monday"]


def test_a_bucket_that_can_t_be_reached_says_so_and_names_no_secret(project: Project, bucket: Bucket) -> None:
    with pytest.raises(InfrastructureError, match="s3://nowhere/x") as gone:
        take_inbox(project, open_inbox(project.root, "s3://nowhere/x"), LIMITS, 0.0)
    bucket.locked = True
    with pytest.raises(InfrastructureError, match="s3://data/x") as locked:
        take_inbox(project, open_inbox(project.root, "s3://data/x"), LIMITS, 0.0)
    for error in (gone, locked):
        assert KEY not in str(error.value)
        assert SECRET not in str(error.value)


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_a_folder_can_be_handed_over_and_stays_where_it_is(project: Project, tmp_path: Path) -> None:
    batch = write_agentnet(tmp_path / "recordings")
    (batch / "images" / "shot-2-1.png").unlink()
    shutil.copytree(HERE / "infra", project.root / "infra")
    done = subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", "import", str(batch), "--name", "friends"],
        cwd=HERE,
        env={**clean_environment(), "HESPER_ROOT": str(project.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == PARTIAL
    assert "friends: 2 episodes taken, 1 things not" in done.stdout
    assert "agentnet.jsonl, line 2" in done.stdout
    assert list(batches(project)) == ["friends"]
    assert names(batch) == ["agentnet.jsonl", "images", "meta_data_merged.jsonl"]
    assert names(project.root / "inbox" / "quarantine") == ["friends"]
    instance = open_instance(project.root)
    assert instance.get_dynamic_partitions("imported_batches") == ["friends"]
    assert instance.get_materialized_partitions(dg.AssetKey("imported_batches")) == {"friends"}


def test_what_is_handed_over_twice_enters_once(project: Project, tmp_path: Path) -> None:
    batch = write_android(tmp_path / "recordings")
    inbox = FolderInbox(project.root / "inbox")
    (first,) = take_inbox(project, HandedFolder(batch, "one", inbox), LIMITS, 0.0)
    (again,) = take_inbox(project, HandedFolder(batch, "one", inbox), LIMITS, 0.0)
    (renamed,) = take_inbox(project, HandedFolder(batch, "two", inbox), LIMITS, 0.0)
    assert first.episodes == again.episodes == 3
    assert again.again
    assert "is the batch one again" in renamed.reason
    assert list(batches(project)) == ["one"]


def spoil(batch: Path, pictures: int) -> Path:
    """Break three lines, and take that many pictures away."""
    with (batch / "episodes.jsonl").open("a") as stream:
        stream.write('{"goal": "half a\n{}}\n[1]\n')
    for number in range(1, pictures + 1):
        (batch / "images" / f"{number}_1.png").unlink()
    return batch


def test_every_reason_is_counted_and_listed_with_its_place(project: Project, tmp_path: Path) -> None:
    batch = spoil(write_android(tmp_path / "recordings", [1, 2, 3]), pictures=2)
    (arrival,) = take_inbox(project, HandedFolder(batch, "some", FolderInbox(project.root / "inbox")), LIMITS, 0.0)
    assert (arrival.episodes, arrival.rejections) == (1, 5)
    for counted in (
        "2 x missing picture, first episodes.jsonl, line 1, episode 1, step 1: missing picture",
        "2 x broken JSON, first episodes.jsonl, line 4: broken JSON",
        "; episodes.jsonl, line 6: a record is an object, not list",
    ):
        assert counted in str(arrival)
    listed = (Path(arrival.quarantine) / "reasons.txt").read_text().splitlines()
    assert str(Path(arrival.quarantine) / "reasons.txt") in str(arrival)
    assert [line.partition(": ")[0] for line in listed] == [
        "episodes.jsonl, line 1, episode 1, step 1",
        "episodes.jsonl, line 2, episode 2, step 1",
        "episodes.jsonl, line 4",
        "episodes.jsonl, line 5",
        "episodes.jsonl, line 6",
    ]


@pytest.mark.parametrize(("pictures", "code"), [(0, 9), (2, 9), (3, 6)])
def test_an_import_of_a_part_has_an_exit_code_of_its_own(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: int, code: int
) -> None:
    monkeypatch.setenv("HESPER_ROOT", str(project.root))
    batch = spoil(write_android(tmp_path / "recordings", [1, 2, 3]), pictures)
    monkeypatch.setattr(sys, "argv", ["hesper", "import", str(batch)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert list(batches(project)) == (["recordings"] if code == 9 else [])


def test_an_import_of_all_of_a_batch_succeeds(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HESPER_ROOT", str(project.root))
    monkeypatch.setattr(sys, "argv", ["hesper", "import", str(write_android(tmp_path / "recordings"))])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def test_two_processes_do_not_import_at_once(project: Project) -> None:
    from filelock import FileLock

    write_own(project.root / "inbox" / "monday")
    lock = project.root / ".hesper" / "locks" / "imports"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock), pytest.raises(InfrastructureError, match="another process is importing"):
        take_inbox(project, open_inbox(project.root, "inbox"), LIMITS, 0.0, wait=0)


def test_limits_are_typed() -> None:
    assert Automation.model_validate({"imports": {"picture_bytes": 5}}).limits().picture_bytes == 5
    with pytest.raises(ParameterError, match="no such parameter; did you mean 'picture_bytes'"):
        Automation.model_validate({"imports": {"picture_byte": 5}})


# --- feedback and retraining ------------------------------------------------------------------------------------------


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
