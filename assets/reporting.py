"""Where a stage reports to: an MLflow run of its own and, when Dagster launched it, Dagster Pipes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.errors import TrackingError

if TYPE_CHECKING:
    from pydantic import BaseModel


class Reporter:
    """Fans out to MLflow and to Dagster Pipes. `HESPER_TRACKING=off` leaves MLflow out (for unit tests)."""

    def __init__(self, run: MlflowRun | None, pipes: Any) -> None:
        self._run = run
        self._pipes = pipes
        self._metadata: dict[str, Any] = {}

    @classmethod
    def open(cls, root: Path, entry: Any, inputs: Mapping[str, str], parameters: BaseModel) -> Reporter:
        """Start the MLflow run of this materialisation and the Pipes session, where there is one."""
        pipes = None
        if "DAGSTER_PIPES_CONTEXT" in os.environ:
            from dagster_pipes import open_dagster_pipes

            pipes = open_dagster_pipes()
        off = os.environ.get("HESPER_TRACKING") == "off"
        run = None if off else MlflowRun.start(root, entry, inputs, parameters)
        return cls(run, pipes)

    def metric(self, name: str, value: float, step: int) -> None:
        """One point of a curve."""
        if self._run is not None:
            self._run.metric(name, value, step)

    def picture(self, name: str, path: Path) -> None:
        """A picture that lies in the output."""
        if self._run is not None:
            self._run.artifact(path, "pictures")
        if self._pipes is not None:
            self._metadata[name] = {"raw_value": f"![{name}]({_data_uri(path)})", "type": "md"}

    def table(self, name: str, path: Path, text: str) -> None:
        """A Markdown table that lies in the output."""
        if self._run is not None:
            self._run.artifact(path, "tables")
        self._metadata[name] = {"raw_value": text, "type": "md"}

    def finish(self, output: Path, identity: str, metrics: Mapping[str, float], **seconds: float) -> None:
        """Close the MLflow run as finished and hand the metadata to Dagster."""
        if self._run is not None:
            self._run.finish(output, identity, metrics, seconds)
            self._metadata["mlflow_run_id"] = self._run.run_id
        if self._pipes is not None:
            self._metadata.update({name: {"raw_value": value, "type": "float"} for name, value in metrics.items()})
            self._metadata.update({name: {"raw_value": value, "type": "float"} for name, value in seconds.items()})
            self._pipes.report_custom_message({"id": identity, "metadata": self._metadata})
            self._pipes.close()

    def fail(self, error: BaseException) -> None:
        """Close the MLflow run as failed."""
        if self._run is not None:
            self._run.fail(error)
        if self._pipes is not None:
            self._pipes.close()


def _data_uri(path: Path, side: int = 1200) -> str:
    """The picture as a data URI, small enough for an event log."""
    import base64
    import io

    from PIL import Image

    with Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((side, side))
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


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
            }
            run = client.create_run(experiment, tags=tags)
            flat = _flatten(parameters.model_dump(mode="json"))
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
            raise _tracking_error(error) from error
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

    def finish(self, output: Path, identity: str, metrics: Mapping[str, float], seconds: Mapping[str, float]) -> None:
        """Write the final metrics and the output's id, and close the run."""
        import time

        from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

        now = int(time.time() * 1000)
        try:
            self._pending += [Metric(key, value, now, 0) for key, value in {**metrics, **seconds}.items()]
            self._flush()
            name = output.relative_to(output.parents[len(output.parts) - 2]).as_posix()
            self._client.log_inputs(
                self.run_id,
                [
                    DatasetInput(
                        Dataset(name=name, digest=identity, source_type="dvc", source=name),
                        [InputTag("mlflow.data.context", "output")],
                    )
                ],
            )
            self._client.set_tag(self.run_id, "dvc_hash", identity)
            self._client.set_terminated(self.run_id, "FINISHED")
        except Exception as error:
            raise _tracking_error(error) from error

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


def connect(root: Path) -> Any:
    """The MLflow client of a project."""
    from mlflow import MlflowClient

    folder = root / ".hesper" / "mlflow"
    folder.mkdir(parents=True, exist_ok=True)
    return MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}"))


def _experiment(client: Any, root: Path) -> str:
    experiment = client.get_experiment_by_name("hesper")
    if experiment is not None:
        return str(experiment.experiment_id)
    location = None
    if "MLFLOW_TRACKING_URI" not in os.environ:
        location = (root / ".hesper" / "mlflow" / "artifacts").as_uri()
    return str(client.create_experiment("hesper", artifact_location=location))


def _tracking_error(error: Exception) -> TrackingError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return TrackingError(f"MLflow did not take the record ({reason}); is its database locked by another program?")


def _git_commit(root: Path) -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
