"""Where a stage reports to: an MLflow run of its own and, when Dagster launched it, Dagster Pipes."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.errors import TrackingError

if TYPE_CHECKING:
    from pydantic import BaseModel


def open_pipes() -> Any:
    """The Dagster Pipes session of this process where Dagster launched it, else None."""
    if "DAGSTER_PIPES_CONTEXT" not in os.environ:
        return None
    from dagster_pipes import open_dagster_pipes

    return open_dagster_pipes()


class Reporter:
    """Fans out to MLflow and to Dagster Pipes. `HESPER_TRACKING=off` leaves MLflow out (for unit tests).

    Pictures and tables reach Dagster as files of the output, so that an output that was pulled or made by `dvc repro`
    shows them too; Pipes carries what no file holds: the MLflow run and the seconds.
    """

    def __init__(self, run: MlflowRun | None, pipes: Any) -> None:
        self._run = run
        self._pipes = pipes

    @classmethod
    def open(cls, root: Path, entry: Any, inputs: Mapping[str, str], parameters: BaseModel) -> Reporter:
        """Start the MLflow run of this materialisation and join the Pipes session, where there is one."""
        off = os.environ.get("HESPER_TRACKING") == "off"
        run = None if off else MlflowRun.start(root, entry, inputs, parameters)
        return cls(run, open_pipes())

    def metric(self, name: str, value: float, step: int) -> None:
        """One point of a curve."""
        if self._run is not None:
            self._run.metric(name, value, step)

    def picture(self, name: str, path: Path) -> None:
        """A picture that lies in the output."""
        if self._run is not None:
            self._run.artifact(path, "pictures")

    def table(self, name: str, path: Path, text: str) -> None:
        """A Markdown table that lies in the output."""
        if self._run is not None:
            self._run.artifact(path, "tables")

    def finish(self, output: str, identity: str, metrics: Mapping[str, float], **seconds: float) -> None:
        """Close the MLflow run as finished and tell Dagster which run it was. `output`: the path in dvc.yaml."""
        if self._run is not None:
            self._run.finish(output, identity, metrics, seconds)
        if self._pipes is not None:
            run_id = self._run.run_id if self._run is not None else None
            self._pipes.report_custom_message({"id": identity, "mlflow_run_id": run_id, **seconds})

    def fail(self, error: BaseException) -> None:
        """Close the MLflow run as failed."""
        if self._run is not None:
            self._run.fail(error)


class MlflowRun:
    """One MLflow run a materialisation: parameters, curves, pictures, input and output datasets by DVC id.

    The store is MLFLOW_TRACKING_URI, or SQLite and a local artifact folder under `.hesper/mlflow`.
    """

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self.run_id = run_id
        self._pending: list[Any] = []

    @classmethod
    def start(cls, root: Path, entry: Any, inputs: Mapping[str, str], parameters: BaseModel) -> MlflowRun:
        """Open a run, tagged with asset, partition, git commit, Dagster run id and the inputs' ids.

        Raises:
            TrackingError: the store can't be reached or its database is locked.
        """
        from mlflow.entities import Dataset, DatasetInput, InputTag, Param, RunTag

        client = connect(root)
        try:
            experiment = _experiment(client, root)
            tags = {
                "mlflow.runName": entry.address,
                "asset": entry.name,
                "partition": entry.partition or "",
                "git_commit": _git_commit(root),
                "dagster_run_id": os.environ.get("DAGSTER_RUN_ID", ""),
                "process": process_mark(os.getpid()),
            }
            run = client.create_run(experiment, tags=tags)
            flat = flatten(parameters.model_dump(mode="json"))
            client.log_batch(
                run.info.run_id,
                params=[Param(key, str(value)[:6000]) for key, value in flat.items()],
                tags=[RunTag(f"input:{path}", identity) for path, identity in inputs.items()],
            )
            client.log_inputs(
                run.info.run_id,
                [
                    DatasetInput(
                        Dataset(name=path, digest=identity, source_type="dvc", source=path),
                        [InputTag("mlflow.data.context", "input")],
                    )
                    for path, identity in inputs.items()
                ],
            )
        except Exception as error:
            raise tracking_error(error) from error
        return cls(client, run.info.run_id)

    def metric(self, name: str, value: float, step: int) -> None:
        """Buffer one point; written a hundred at a time, since SQLite is slow a row at a time."""
        import time

        from mlflow.entities import Metric

        self._pending.append(Metric(name, value, int(time.time() * 1000), step))
        if len(self._pending) >= 100:
            self._flush()

    def artifact(self, path: Path, folder: str) -> None:
        """Copy a file beside the run."""
        self._client.log_artifact(self.run_id, str(path), folder)

    def finish(self, output: str, identity: str, metrics: Mapping[str, float], seconds: Mapping[str, float]) -> None:
        """Write the final metrics and the output's id, and close the run."""
        import time

        from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

        now = int(time.time() * 1000)
        try:
            self._pending += [Metric(key, value, now, 0) for key, value in {**metrics, **seconds}.items()]
            self._flush()
            self._client.log_inputs(
                self.run_id,
                [
                    DatasetInput(
                        Dataset(name=output, digest=identity, source_type="dvc", source=output),
                        [InputTag("mlflow.data.context", "output")],
                    )
                ],
            )
            self._client.set_tag(self.run_id, "dvc_hash", identity)
            self._client.set_terminated(self.run_id, "FINISHED")
        except Exception as error:
            raise tracking_error(error) from error

    def fail(self, error: BaseException) -> None:
        """Close the run as failed, with the message. The failure itself matters more than whether this works."""
        import contextlib

        with contextlib.suppress(Exception):
            self._flush()
            self._client.set_tag(self.run_id, "error", str(error)[:500])
            self._client.set_terminated(self.run_id, "FAILED")

    def _flush(self) -> None:
        if self._pending:
            self._client.log_batch(self.run_id, metrics=self._pending)
            self._pending = []


EXPERIMENT = "hesper"
"""The one MLflow experiment; its runs are told apart by their tags `asset` and `partition`."""


def tracking_uri(root: Path) -> str:
    """Where the project's MLflow store is: MLFLOW_TRACKING_URI, or SQLite under `.hesper/mlflow`."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root / '.hesper' / 'mlflow' / 'mlflow.db'}"


@functools.cache
def connect(root: Path) -> Any:
    """The MLflow client of a project. Makes the database where there is none: do that before workers start.

    Raises:
        TrackingError: the store can't be reached or its database is locked.
    """
    import logging

    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    uri = tracking_uri(root)
    if uri.startswith("sqlite:///"):
        database = Path(uri.removeprefix("sqlite:///"))
        database.parent.mkdir(parents=True, exist_ok=True)
        _probe(database)
    import mlflow

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    mlflow.set_tracking_uri(uri)  # the registry reads logged models through the process-wide address
    try:
        client = mlflow.MlflowClient(uri)
        _experiment(client, root)
    except Exception as error:
        raise tracking_error(error) from error
    return client


def experiment_id(root: Path) -> str:
    """The id of the project's experiment."""
    return _experiment(connect(root), root)


def _probe(database: Path, wait_seconds: float = 10.0) -> None:
    """Find out in ten seconds, not after MLflow's minutes of retries, that nobody can write here."""
    import sqlite3

    try:
        connection = sqlite3.connect(database, timeout=wait_seconds, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise TrackingError(f"MLflow's database {database} can't be written: {error}") from None


def _experiment(client: Any, root: Path) -> str:
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is not None:
        return str(experiment.experiment_id)
    location = None
    if "MLFLOW_TRACKING_URI" not in os.environ:
        location = (root / ".hesper" / "mlflow" / "artifacts").as_uri()
    return str(client.create_experiment(EXPERIMENT, artifact_location=location))


def process_mark(pid: int) -> str:
    """`host pid start-time`: names a process so that a later one with the same number is not taken for it."""
    import socket

    import psutil

    return f"{socket.gethostname()} {pid} {psutil.Process(pid).create_time():.0f}"


def tracking_error(error: Exception) -> TrackingError:
    """A failure of MLflow, whatever its class, as one message."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return TrackingError(f"MLflow did not take the record ({reason}); is its database locked by another program?")


def _git_commit(root: Path) -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
