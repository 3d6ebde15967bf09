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

from assets.errors import StorageError
from assets.reporting import process_mark
from dagster_project.lineage import Lineage
from dagster_project.materialise import STOP_TAG

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
    lineage: Lineage,
    instance: DagsterInstance,
    addresses: Sequence[str],
    report: Callable[[Outcome], None],
    started: Callable[[str], None] = lambda address: None,
    tags: dict[str, str] | None = None,
) -> list[Outcome]:
    """Materialise assets and run their checks, in lineage order, until the first failure.

    A Dagster run holds one partition, so the lineage is cut into runs: neighbours without partitions together, each
    partition by itself.

    Args:
        addresses: `stage` or `stage@partition`; a bare partitioned stage means all its partitions.
        report: called for each asset, and for each failed check, as it ends.
        started: called with each address as it starts.
    """
    job = definitions.resolve_implicit_global_asset_job_def()
    outcomes: list[Outcome] = []
    for names, partition in segments(lineage, addresses):
        run_id = str(uuid.uuid4())

        def listen(entry: Any, partition: str | None = partition) -> None:
            event = entry.dagster_event
            if event is None:
                return
            if event.event_type == DagsterEventType.STEP_START and event.step_key in {s.name for s in lineage.stages}:
                started(lineage.stage(event.step_key).address(partition))
            outcome = _outcome(lineage, event, partition)
            if outcome is not None:
                outcomes.append(outcome)
                report(outcome)

        instance.add_event_listener(run_id, listen)
        result = job.execute_in_process(
            instance=instance,
            run_id=run_id,
            asset_selection=[dg.AssetKey(name) for name in names],
            partition_key=partition,
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            tags={**(tags or {}), PROCESS_TAG: process_mark(os.getpid()), STOP_TAG: "true"},
        )
        if not result.success:
            if not any(outcome.state == "failed" for outcome in outcomes):
                outcomes.append(_run_failure(instance, run_id))
                report(outcomes[-1])
            break
    return outcomes


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


def _outcome(lineage: Lineage, event: DagsterEvent, partition: str | None) -> Outcome | None:
    if event.event_type == DagsterEventType.ASSET_MATERIALIZATION:
        materialization = event.step_materialization_data.materialization
        metadata = {key: value.value for key, value in materialization.metadata.items()}
        name = materialization.asset_key.to_user_string()
        address = name if partition is None or not lineage.stage(name).partitions else f"{name}@{partition}"
        state = "cached" if metadata.get("cached") else "ran"
        return Outcome(address, state, metadata.get("seconds", 0.0), metadata.get("work_seconds", 0.0))
    if event.event_type == DagsterEventType.ASSET_CHECK_EVALUATION:
        evaluation = event.asset_check_evaluation_data
        if evaluation.passed:
            return None
        name = evaluation.asset_key.to_user_string()
        message = f"check {evaluation.check_name} failed: {evaluation.description or 'see Dagster'}"
        return Outcome(name, "failed", 0.0, message=message, exit_code=6)
    if event.event_type == DagsterEventType.STEP_FAILURE:
        data = event.step_failure_data
        failure = data.user_failure_data
        metadata = {key: value.value for key, value in failure.metadata.items()} if failure is not None else {}
        if "not_started" in metadata or event.step_key not in {stage.name for stage in lineage.stages}:
            return None  # a failed check has reported itself
        message = str(failure.description) if failure is not None else _root_cause(data.error)
        address = lineage.stage(event.step_key).address(partition)
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
