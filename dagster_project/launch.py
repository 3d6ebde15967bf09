"""Materialise the lineage in this process, in its order: what `hesper run` and the retraining job both do."""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from dagster import DagsterEvent, DagsterEventType, DagsterInstance, DagsterRunStatus, RunsFilter

from assets.errors import InputError, StorageError
from assets.reporting import process_mark
from dagster_project.checks import passed
from dagster_project.lineage import Lineage
from dagster_project.materialise import STOP_TAG, Project, is_tracked

PROCESS_TAG = "hesper/process"
"""Names the process a run lives in, so that the next one can tell that it is gone."""


@dataclass(frozen=True)
class Outcome:
    """What became of one asset, or of one check of it."""

    address: str
    state: str  # ran | cached | failed
    seconds: float
    work_seconds: float = 0.0
    message: str = ""
    exit_code: int = 0


def open_instance(root: Path) -> DagsterInstance:
    """The project's Dagster instance, `.hesper/dagster`, configured by infra/dagster.yaml.

    Raises:
        StorageError: the disk is full or read-only.
    """
    home = root / ".hesper" / "dagster"
    configuration = root / "infra" / "dagster.yaml"
    try:
        home.mkdir(parents=True, exist_ok=True)
        target = home / "dagster.yaml"
        if configuration.is_file():
            if not target.is_file() or target.read_bytes() != configuration.read_bytes():
                shutil.copyfile(configuration, target)
        elif not target.is_file():
            target.write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{home} can't be written: {error.strerror}") from error
    os.environ["DAGSTER_HOME"] = str(home)
    return DagsterInstance.get()


def end_dead_runs(instance: DagsterInstance) -> int:
    """Fail the runs whose process was killed and give back the pool slots they held. Returns how many."""
    unfinished = [DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING]
    count = 0
    for run in instance.get_runs(filters=RunsFilter(statuses=unfinished)):
        mark = run.tags.get(PROCESS_TAG)
        if mark is None or not mark.startswith(f"{socket.gethostname()} ") or _alive(mark):
            continue
        instance.report_run_failed(run, "The process that executed this run is gone.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        count += 1
    return count


def materialise_lineage(
    definitions: dg.Definitions,
    project: Project,
    instance: DagsterInstance,
    addresses: Sequence[str],
    report: Callable[[Outcome], None],
    started: Callable[[str], None] = lambda address: None,
    tags: dict[str, str] | None = None,
) -> list[Outcome]:
    """Bring assets up to date and run their checks, in lineage order, until the first failure.

    A Dagster run holds one partition, so the lineage is cut into runs: neighbours without partitions together, each
    partition by itself. What is up to date, and known to Dagster as it is, is reported without a run.

    Args:
        addresses: `stage` or `stage@partition`; a bare partitioned stage means all its partitions.
        report: called for each asset, and for each failed check, as it ends.
        started: called with each address as it starts.

    Raises:
        KeyboardInterrupt: by Ctrl-C or SIGTERM; the stage that ran has been ended too.
    """
    job = definitions.resolve_implicit_global_asset_job_def()
    state = _State(project, instance, definitions)
    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> None:
        outcomes.append(outcome)
        report(outcome)

    for names, partition in segments(project.lineage, addresses):
        waiting: list[str] = []
        for name in names:
            begun = time.monotonic()
            if not set(waiting) & set(project.lineage.upstream(name)) and state.up_to_date(name, partition):
                address = project.lineage.stage(name).address(partition)
                note(Outcome(address, "cached", time.monotonic() - begun))
            else:
                waiting.append(name)
        if not waiting:
            continue
        run_id = str(uuid.uuid4())
        instance.add_event_listener(run_id, _Listener(project.lineage, partition, note, started))
        try:
            result = job.execute_in_process(
                instance=instance,
                run_id=run_id,
                asset_selection=[dg.AssetKey(name) for name in waiting],
                partition_key=partition,
                raise_on_error=False,
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                tags={**(tags or {}), PROCESS_TAG: process_mark(os.getpid()), STOP_TAG: "true"},
            )
        except dg.DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None
        if not result.success:
            if not any(outcome.state == "failed" for outcome in outcomes):
                note(_run_failure(instance, run_id))
            break
    return outcomes


class _State:
    """Whether an asset is up to date, asked of DVC once for all stages and again only after dvc.lock changed."""

    def __init__(self, project: Project, instance: DagsterInstance, definitions: dg.Definitions) -> None:
        self._project = project
        self._instance = instance
        self._addresses = [stage.address(key) for stage in project.lineage.stages for key in stage.keys]
        self._stamp: Any = None
        self._changes: dict[str, list[str]] = {}
        self._checks = definitions.resolve_asset_graph().asset_check_keys

    def up_to_date(self, name: str, partition: str | None) -> bool:
        """Whether the output is unchanged, and Dagster and MLflow have all of it, checks passed."""
        project = self._project
        stage = project.lineage.stage(name)
        address = stage.address(partition)
        lock = project.root / "dvc.lock"
        if not lock.is_file():
            return False
        found = lock.stat()
        if (found.st_mtime_ns, found.st_size) != self._stamp:
            self._changes = project.versions.all_changes(self._addresses)
            self._stamp = (found.st_mtime_ns, found.st_size)
        identity = project.versions.output(address).id
        if self._changes[address] or identity is None or data_version(self._instance, name, partition) != identity:
            return False
        if not is_tracked(project, stage, partition, identity):
            return False
        mine = [key for key in self._checks if key.asset_key == dg.AssetKey(name)]
        return all(passed(self._instance, key, identity) for key in mine)


def data_version(instance: DagsterInstance, name: str, partition: str | None) -> str | None:
    """Dagster's data version of an asset's latest materialisation."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(name), asset_partitions=[partition] if partition else None), limit=1
    ).records
    if not records or records[0].asset_materialization is None:
        return None
    return (records[0].asset_materialization.tags or {}).get("dagster/data_version")


def segments(lineage: Lineage, addresses: Sequence[str]) -> Iterator[tuple[list[str], str | None]]:
    """Cut the asked-for assets, in lineage order, into runs: (asset names, partition)."""
    wanted: dict[str, list[str]] = {}
    for address in addresses:
        name, _, partition = address.partition("@")
        wanted.setdefault(name, []).append(partition)
    together: list[str] = []
    for name in lineage.order():
        if name not in wanted:
            continue
        stage = lineage.stage(name)
        if not stage.partitions:
            together.append(name)
            continue
        if together:
            yield together, None
            together = []
        for key in stage.partitions:
            if "" in wanted[name] or key in wanted[name]:
                yield [name], key
    if together:
        yield together, None


class _Listener:
    """Turns the events of one run into outcomes, as they happen."""

    def __init__(
        self,
        lineage: Lineage,
        partition: str | None,
        note: Callable[[Outcome], None],
        started: Callable[[str], None],
    ) -> None:
        self._lineage = lineage
        self._stages = {stage.name for stage in lineage.stages}
        self._partition = partition
        self._note = note
        self._started = started

    def __call__(self, entry: Any) -> None:
        event: DagsterEvent | None = entry.dagster_event
        if event is None:
            return
        if event.event_type == DagsterEventType.STEP_START and event.step_key in self._stages:
            self._started(self._lineage.stage(event.step_key).address(self._partition))
        outcome = self._outcome(event)
        if outcome is not None:
            self._note(outcome)

    def _outcome(self, event: DagsterEvent) -> Outcome | None:
        if event.event_type == DagsterEventType.ASSET_MATERIALIZATION:
            materialization = event.step_materialization_data.materialization
            name = materialization.asset_key.to_user_string()
            if name not in self._stages:
                return None
            metadata: dict[str, Any] = {key: value.value for key, value in materialization.metadata.items()}
            state = "cached" if metadata["cached"] else "ran"
            address = self._lineage.stage(name).address(self._partition)
            return Outcome(address, state, metadata["seconds"], metadata["work_seconds"])
        if event.event_type == DagsterEventType.ASSET_CHECK_EVALUATION:
            evaluation = event.asset_check_evaluation_data
            if evaluation.passed or not evaluation.blocking:
                return None
            message = f"check {evaluation.check_name} failed: {evaluation.description}"
            name = evaluation.asset_key.to_user_string()
            return Outcome(name, "failed", 0.0, message=message, exit_code=InputError.exit_code)
        if event.event_type == DagsterEventType.STEP_FAILURE and event.step_key in self._stages:
            failure = event.step_failure_data.user_failure_data
            given = failure.metadata.items() if failure is not None else ()
            metadata = {key: value.value for key, value in given}
            if "not_started" in metadata:
                return None
            message = str(failure.description) if failure is not None else _root_cause(event.step_failure_data.error)
            address = self._lineage.stage(event.step_key).address(self._partition)
            return Outcome(address, "failed", 0.0, message=message, exit_code=int(metadata.get("exit_code", 1)))
        return None


def _run_failure(instance: DagsterInstance, run_id: str) -> Outcome:
    for record in instance.get_records_for_run(run_id).records:
        event = record.event_log_entry.dagster_event
        if event is not None and event.event_type == DagsterEventType.RUN_FAILURE:
            return Outcome("run", "failed", 0.0, message=event.message or "the run failed", exit_code=1)
    return Outcome("run", "failed", 0.0, message="the run failed; Dagster says why", exit_code=1)


def _root_cause(error: Any) -> str:
    while error is not None and error.cause is not None:
        error = error.cause
    return str(error.message).strip() if error is not None else "failed"


def _alive(mark: str) -> bool:
    import psutil

    try:
        return process_mark(int(mark.split()[1])) == mark
    except (psutil.NoSuchProcess, ValueError, IndexError):
        return False
