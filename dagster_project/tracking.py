"""MLflow: which run made a version, models in the registry, the scores that belong to them, the champion.

Everything is looked up by DVC id before it is made, so that doing it again changes nothing: a stage that was killed
after its commit, or found unchanged, gets the same model, version, scores and alias.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import Field

from assets.errors import HesperError
from assets.reporting import EXPERIMENT, connect, experiment_id, process_mark, tracking_error, tracking_uri
from assets.stage import StageParameters, load_section, load_yaml

REGISTERED_MODEL = EXPERIMENT
CHAMPION = "champion"


@dataclass(frozen=True)
class Made:
    """One version of one output: what MLflow's records of it are looked up by."""

    asset: str
    partition: str | None
    path: str
    id: str
    run_id: str | None

    @property
    def address(self) -> str:
        """`stage` or `stage@partition`."""
        return self.asset if self.partition is None else f"{self.asset}@{self.partition}"


def prepare(root: Path) -> None:
    """Make the database before workers start, and close as KILLED the runs of processes that are gone.

    Raises:
        TrackingError: the store can't be reached or its database is locked.
    """
    with FileLock(_lock(root, "mlflow")):
        client = connect(root)
        try:
            running = client.search_runs([experiment_id(root)], "attributes.status = 'RUNNING'", max_results=1000)
            for run in running:
                mark = run.data.tags.get("process", "")
                if mark.startswith(f"{socket.gethostname()} ") and not _alive(mark):
                    client.set_terminated(run.info.run_id, "KILLED")
        except Exception as error:
            raise tracking_error(error) from error


def find_run(root: Path, asset: str, partition: str | None, identity: str) -> str | None:
    """The MLflow run that made this version, the earliest where several gave the same bytes."""
    query = f"tags.dvc_hash = '{identity}' and tags.asset = '{asset}' and tags.partition = '{partition or ''}'"
    try:
        runs = connect(root).search_runs(
            [experiment_id(root)], query, max_results=1, order_by=["attributes.start_time ASC"]
        )
    except Exception as error:
        raise tracking_error(error) from error
    return str(runs[0].info.run_id) if runs else None


def read_runs(root: Path, run_ids: Sequence[str]) -> dict[str, Any]:
    """Id -> run, of those that MLflow has (deleted ones are left out)."""
    if not run_ids:
        return {}
    query = f"attributes.run_id IN ({', '.join(repr(run_id) for run_id in run_ids)})"
    try:
        runs = connect(root).search_runs([experiment_id(root)], query, max_results=len(run_ids))
    except Exception as error:
        raise tracking_error(error) from error
    return {run.info.run_id: run for run in runs}


def store_mark(root: Path) -> str:
    """Names the store: another address, or a database made anew, gives another mark."""
    uri = tracking_uri(root)
    if uri.startswith("sqlite:///"):
        try:
            return f"{uri} {Path(uri.removeprefix('sqlite:///')).stat().st_ino}"
        except FileNotFoundError:
            return f"{uri} missing"
    return uri


def store_state(root: Path) -> str | None:
    """Changes whenever the store is written to; None where that can't be told, as of a tracking server."""
    uri = tracking_uri(root)
    if not uri.startswith("sqlite:///"):
        return None
    database = Path(uri.removeprefix("sqlite:///"))
    state = [uri]
    for path in (database, database.with_name(f"{database.name}-wal")):
        if path.is_file():
            found = path.stat()
            state.append(f"{found.st_ino} {found.st_mtime_ns} {found.st_size}")
    return " ".join(state) if len(state) > 1 else None


# --- links -----------------------------------------------------------------------------------------------------------


class Pages(StageParameters):
    """Section `ui` of params.yaml."""

    dagster: str = Field(
        "",
        pattern=r"^(https?://[^\s()<>]+)?$",
        description="where people reach Dagster's pages; empty: where `hesper ui` starts them",
    )


def web_address(root: Path) -> str:
    """The MLflow web page: the tracking server itself, or the one `hesper ui` starts."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    return uri.rstrip("/") if uri.startswith("http") else _started_page(root, "mlflow", 5000)


def dagster_address(root: Path) -> str:
    """The Dagster web page: the public one that `ui.dagster` names, or the one `hesper ui` starts."""
    params = root / "params.yaml"
    known = params.is_file() and "ui" in load_yaml(params)
    given = load_section(params, "ui", Pages).dagster if known else ""
    return given.rstrip("/") or _started_page(root, "dagster", 3000)


def describe_run(root: Path, run_id: str, address: str, output: str, identity: str | None) -> None:
    """Write the description of a run: links to its Dagster run and asset, and the version it made, once there is one.

    What a person has written there stays.

    Args:
        address: `stage` or `stage@partition`.
        output: the folder that the stage makes.
    """
    client = connect(root)
    try:
        tags = client.get_run(run_id).data.tags
        said = tags.get(DESCRIPTION, "")
        if said and (not said.startswith(LINKS) or "\n" in said):
            return
        pages, asset, partition = dagster_address(root), *address.partition("@")[::2]
        asset_page = f"{pages}/assets/{asset}" + (f"?view=partitions&partition={partition}" if partition else "")
        links = [f"[{address}]({asset_page})"]
        if tags.get("dagster_run_id"):
            run = tags["dagster_run_id"]
            links.insert(0, f"[run {run[:8]}]({pages}/runs/{run})")
        made = f"\n\nDVC: `{output}` at `{identity}`" if identity is not None else ""
        client.set_tag(run_id, DESCRIPTION, f"{LINKS}{', '.join(links)}{made}")
    except HesperError:
        raise
    except Exception as error:
        raise tracking_error(error) from error


DESCRIPTION = "mlflow.note.content"
"""The tag that MLflow shows as a run's description, in Markdown."""

LINKS = "Dagster: "
"""How a description of ours begins. Until there is a version, it is one line."""


def _started_page(root: Path, name: str, port: int) -> str:
    """Where `hesper ui` has a page now, or would have it."""
    try:
        return str(json.loads((root / ".hesper" / "ui.json").read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, KeyError):
        return f"http://127.0.0.1:{port}"


# --- models ----------------------------------------------------------------------------------------------------------


def register_model(root: Path, made: Made, inputs: Mapping[str, str]) -> str:
    """The logged model of a checkpoint and its registered version, made once for one id. Returns the version.

    The weights stay with DVC; MLflow holds a model with an external source, tagged with the id to fetch it by.
    """
    import mlflow
    from mlflow.entities import LoggedModelOutput

    client = connect(root)
    tags = {
        "dvc_hash": made.id,
        "asset": made.asset,
        "partition": made.partition or "",
        "path": made.path,
        **{f"input:{path}": identity for path, identity in inputs.items()},
    }
    with FileLock(_lock(root, "mlflow")):
        try:
            versions = client.search_model_versions(
                f"name = '{REGISTERED_MODEL}' and tags.dvc_hash = '{made.id}' and tags.asset = '{made.asset}'"
            )
            for version in versions:
                if version.tags.get("partition", "") == (made.partition or ""):
                    return str(version.version)
            model = _logged_model(root, made)
            if model is None:
                model = mlflow.create_external_model(
                    name=made.address.replace("@", "-"),
                    source_run_id=made.run_id,
                    tags=tags,
                    model_type="checkpoint",
                    experiment_id=experiment_id(root),
                )
                if made.run_id is not None:
                    client.log_outputs(made.run_id, [LoggedModelOutput(model.model_id, 0)])
            if not client.search_registered_models(f"name = '{REGISTERED_MODEL}'"):
                client.create_registered_model(REGISTERED_MODEL)
            created = client.create_model_version(
                REGISTERED_MODEL,
                source=f"models:/{model.model_id}",
                run_id=made.run_id,
                tags=tags,
                description=f"{made.address}: `{made.path}` at {made.id}",
                model_id=model.model_id,
            )
        except Exception as error:
            raise tracking_error(error) from error
    return str(created.version)


def attach_scores(
    root: Path, report: Made, scores: Mapping[str, Mapping[str, float]], models: Mapping[str, Made]
) -> int:
    """Put a report's metrics on the logged models they measure, with the report's id as the dataset's digest.

    They also go to the run that made each model: MLflow compares versions of a registered model by the metrics of their
    runs, and logged models by their own.

    Args:
        scores: model folder -> metric -> value.
        models: model folder -> the version that was measured.

    Returns:
        How many metrics of models were new.
    """
    from mlflow.entities import LoggedModelInput, Metric

    client, now, added = connect(root), int(time.time() * 1000), 0
    if report.run_id is None:
        return 0
    try:
        for path, metrics in sorted(scores.items()):
            model = _logged_model(root, models[path]) if path in models else None
            if model is None:
                continue
            have = {metric.key for metric in model.metrics or () if metric.dataset_digest == report.id}
            new = [
                Metric(key, float(value), now, 0, model.model_id, report.path, report.id, report.run_id)
                for key, value in sorted(metrics.items())
                if key not in have
            ]
            if new:
                client.log_inputs(report.run_id, models=[LoggedModelInput(model.model_id)])
                client.log_batch(report.run_id, metrics=new)
                added += len(new)
            _note_scores(root, model.source_run_id, metrics, now)
    except HesperError:
        raise
    except Exception as error:
        raise tracking_error(error) from error
    return added


def _note_scores(root: Path, run_id: str | None, metrics: Mapping[str, float], now: int) -> None:
    """Write a model's scores on the run that made it, unless that is gone, deleted, or has them already."""
    from mlflow.entities import Metric

    for run in read_runs(root, [run_id] if run_id else []).values():
        new = {key: value for key, value in sorted(metrics.items()) if run.data.metrics.get(key) != value}
        if new:
            connect(root).log_batch(run_id, metrics=[Metric(key, float(value), now, 0) for key, value in new.items()])


def set_champion(root: Path, decision: Mapping[str, Any]) -> str | None:
    """Let the alias `champion` follow a release decision. Returns the version it stands on now, or None.

    A version's tags say what it was released on (`gate_scores`) and whom it followed (`previous_champion`).
    """
    client = connect(root)
    try:
        current = champion(root)
        if not decision["released"]:
            return str(current.version) if current is not None else None
        identity = decision["candidate"]["dvc_hash"]
        if current is not None and current.tags.get("dvc_hash") == identity:
            return str(current.version)
        found = client.search_model_versions(f"name = '{REGISTERED_MODEL}' and tags.dvc_hash = '{identity}'")
        if not found:
            return None
        version = max(found, key=lambda item: int(item.version)).version
        tags = {
            "gate_scores": json.dumps(decision.get("gate_scores", {}), sort_keys=True),
            "previous_champion": str(current.version) if current is not None else "",
        }
        for key, value in tags.items():
            client.set_model_version_tag(REGISTERED_MODEL, version, key, value)
        client.set_registered_model_alias(REGISTERED_MODEL, CHAMPION, version)
    except Exception as error:
        raise tracking_error(error) from error
    return str(version)


def champion(root: Path) -> Any:
    """The model version that bears the alias `champion`, or None."""
    return behind_alias(root, CHAMPION)


def behind_alias(root: Path, alias: str) -> Any:
    """The version of the registered model that bears an alias, or None."""
    from mlflow.exceptions import MlflowException

    try:
        return connect(root).get_model_version_by_alias(REGISTERED_MODEL, alias)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise tracking_error(error) from error


def _logged_model(root: Path, made: Made) -> Any:
    query = f"tags.dvc_hash = '{made.id}' and tags.asset = '{made.asset}' and tags.partition = '{made.partition or ''}'"
    found = connect(root).search_logged_models([experiment_id(root)], filter_string=query, max_results=1)
    return found[0] if found else None


def _alive(mark: str) -> bool:
    import psutil

    try:
        return process_mark(int(mark.split()[1])) == mark
    except (psutil.NoSuchProcess, ValueError, IndexError):
        return False


def _lock(root: Path, name: str) -> Path:
    path = root / ".hesper" / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
