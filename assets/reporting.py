"""Where a stage reports to: Dagster Pipes, when Dagster launched it, or an MLflow run of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
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
    """Where a stage's metrics go.

    A stage that Dagster launched hands them to its launcher over Pipes, and the launcher keeps the MLflow run: a remote
    worker needs no way to MLflow, and a run is finished only when its output is committed. A stage run by hand or by
    `dvc repro` keeps its MLflow run itself; `HESPER_TRACKING=off` leaves MLflow out.

    Pictures and tables are files of the output: whoever keeps the MLflow run, and Dagster, take them from there.
    """

    def __init__(self, run: MlflowRun | None, pipes: Any) -> None:
        self._run = run
        self._pipes = pipes
        self._points: list[tuple[str, float, int, int]] = []
        self._sent = time.monotonic()

    @classmethod
    def open(cls, root: Path, entry: Any, inputs: Mapping[str, str], parameters: BaseModel) -> Reporter:
        """Join the Pipes session where there is one, else start an MLflow run."""
        pipes = open_pipes()
        if pipes is not None or os.environ.get("HESPER_TRACKING") == "off":
            return cls(None, pipes)
        values = parameters.model_dump(mode="json")
        return cls(MlflowRun.start(root, entry.name, entry.partition, inputs, values), None)

    def metric(self, name: str, value: float, step: int) -> None:
        """One point of a curve. Sent on a hundred at a time, or after a second."""
        self._points.append((name, value, step, int(time.time() * 1000)))
        if len(self._points) >= 100 or time.monotonic() - self._sent > 1.0:
            self._flush()

    def finish(
        self, output: Path, path: str, identity: str, metrics: Mapping[str, float], seconds: Mapping[str, float]
    ) -> None:
        """Say that the output (the folder `output`, in dvc.yaml `path`) is complete."""
        self._flush()
        if self._run is not None:
            self._run.finish(output, path, identity, metrics, seconds)
        if self._pipes is not None:
            self._pipes.report_custom_message(
                {"finished": identity, "metrics": dict(metrics), "seconds": dict(seconds)}
            )

    def fail(self, error: BaseException) -> None:
        """Close the MLflow run as failed."""
        if self._run is not None:
            self._run.fail(str(error))

    def _flush(self) -> None:
        points, self._points, self._sent = self._points, [], time.monotonic()
        if points and self._run is not None:
            self._run.points(points)
        if points and self._pipes is not None:
            self._pipes.report_custom_message({"points": points})


class MlflowRun:
    """One MLflow run a materialisation: parameters, curves, pictures, input and output datasets by DVC id.

    The store is MLFLOW_TRACKING_URI, or SQLite and a local artifact folder under `.hesper/mlflow`.
    """

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    @classmethod
    def start(
        cls,
        root: Path,
        asset: str,
        partition: str | None,
        inputs: Mapping[str, str],
        parameters: Mapping[str, Any],
        dagster_run_id: str = "",
    ) -> MlflowRun:
        """Open a run, tagged with asset, partition, git commit, Dagster run id and the inputs' ids.

        Raises:
            TrackingError: the store can't be reached or its database is locked.
        """
        from mlflow.entities import Param

        client = connect(root)
        try:
            tags = {
                "mlflow.runName": asset if partition is None else f"{asset}@{partition}",
                "asset": asset,
                "partition": partition or "",
                "git_commit": _git_commit(root),
                "dagster_run_id": dagster_run_id,
                "process": process_mark(os.getpid()),
                **{f"input:{path}": identity for path, identity in inputs.items()},
            }
            run_id = client.create_run(experiment_id(root), tags=tags).info.run_id
            flat = flatten(parameters)
            client.log_batch(run_id, params=[Param(key, str(value)[:6000]) for key, value in flat.items()])
            client.log_inputs(run_id, [_dataset(path, identity, "input") for path, identity in inputs.items()])
        except Exception as error:
            raise tracking_error(error) from error
        return cls(client, run_id)

    def points(self, points: Sequence[tuple[str, float, int, int]]) -> None:
        """Points of curves: name, value, step, milliseconds since 1970."""
        from mlflow.entities import Metric

        try:
            self._client.log_batch(
                self.run_id, metrics=[Metric(name, value, ms, step) for name, value, step, ms in points]
            )
        except Exception as error:
            raise tracking_error(error) from error

    def finish(
        self, output: Path, path: str, identity: str, metrics: Mapping[str, float], seconds: Mapping[str, float]
    ) -> None:
        """Write the final metrics, the pictures and tables and the output's id, and close the run."""
        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        try:
            if (output / "pictures").is_dir():
                self._client.log_artifacts(self.run_id, str(output / "pictures"), "pictures")
            for table in sorted(output.glob("*.md")):
                self._client.log_artifact(self.run_id, str(table), "tables")
            self._client.log_batch(
                self.run_id,
                metrics=[Metric(key, value, now, 0) for key, value in {**metrics, **seconds}.items()],
                tags=[RunTag("dvc_hash", identity), RunTag("output", path)],
            )
            self._client.log_inputs(self.run_id, [_dataset(path, identity, "output")])
            self._client.set_terminated(self.run_id, "FINISHED")
        except Exception as error:
            raise tracking_error(error) from error

    def fail(self, message: str) -> None:
        """Close the run as failed. The failure itself matters more than whether this works."""
        import contextlib

        with contextlib.suppress(Exception):
            self._client.set_tag(self.run_id, "error", message[:500])
            self._client.set_terminated(self.run_id, "FAILED")


def _dataset(path: str, identity: str, context: str) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = json.dumps({"path": path, "dvc_hash": identity})
    return DatasetInput(Dataset(path, identity, "dvc", source), [InputTag("mlflow.data.context", context)])


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
    given = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)  # the registry reads logged models through the process-wide address
    if given is None:
        os.environ.pop("MLFLOW_TRACKING_URI", None)  # which MLflow writes there too, for every project of this process
    try:
        client = mlflow.MlflowClient(uri)
        _experiment(client, root)
    except Exception as error:
        raise tracking_error(error) from error
    return client


def experiment_id(root: Path) -> str:
    """The id of the project's experiment."""
    return _experiment(connect(root), root)


LOCK_SECONDS = 10.0
"""How long a locked database is waited for before that is an error."""


def _probe(database: Path) -> None:
    """Find out in ten seconds, not after MLflow's minutes of retries, that nobody can write here."""
    import sqlite3

    try:
        connection = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None)
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
