"""What happens when an asset is materialised: known already, or run, versioned and tracked."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import FileLock, Timeout

from assets.errors import HesperError, ParameterError
from assets.reporting import MlflowRun, experiment_id
from assets.stage import DATA_FOLDERS, StageParameters, load_section, load_yaml, stage_module, validate_section
from dagster_project import tracking
from dagster_project.lineage import Lineage, LineageStage, read_lineage
from dagster_project.versions import Versions
from dagster_project.workers import Report, Worker, run_stage

PICTURE_SIDE = 1000
"""Longest side, in pixels, of a picture in an asset's metadata: the whole picture lies in the output and in MLflow."""

PICTURES = 6
"""How many of an output's pictures its metadata shows."""


STOP_TAG = "hesper/stop_at_first_failure"
"""A run with this tag starts no further asset once one has failed; Dagster would go on with the independent ones."""


@dataclass(frozen=True)
class Project:
    """One checkout: where it is, its versions and its lineage."""

    root: Path
    versions: Versions
    lineage: Lineage

    @classmethod
    def open(cls, root: Path) -> Project:
        """Read dvc.yaml of the project at `root`."""
        versions = Versions(root)
        return cls(root, versions, read_lineage(versions, DATA_FOLDERS))

    def parameters(self, name: str) -> type[StageParameters] | None:
        """The model of a stage's section of params.yaml; None while the stage has no module yet."""
        module = stage_module(self.root, name)
        return getattr(module, "Parameters", None) if module is not None else None

    @property
    def tracked(self) -> bool:
        """Whether MLflow takes part (`HESPER_TRACKING=off` leaves it out)."""
        return os.environ.get("HESPER_TRACKING") != "off"


def materialise(
    project: Project,
    context: dg.AssetExecutionContext,
    stage: LineageStage,
    partition: str | None,
    launched: Mapping[str, Any],
) -> dg.MaterializeResult:
    """Bring one asset up to date and say what it is: its DVC id, which is Dagster's data version, and what to look at.

    An unchanged stage is not run. Parameters given at launch are written to params.yaml first: they are part of what
    the output is made from, so they must be where DVC, Git and the next run see them.

    Raises:
        dagster.Failure: with one message for a person and the exit code in its metadata.
    """
    started = time.monotonic()
    address = stage.address(partition)
    if STOP_TAG in context.run.tags and _failed_already(context):
        raise dg.Failure("not started, since an asset before it failed", {"not_started": True}, allow_retries=False)
    report = Report()
    try:
        with _alone(context, project.root, address):
            if launched and stage.section:
                write_parameters(project.root, stage.section, launched, project.parameters(stage.name))
            changes, before = project.versions.look(address)
            if changes:
                context.log.info(f"{address}: {'; '.join(changes)}")
                identity, report = _run(project, context, stage, partition, before)
            else:
                identity = str(project.versions.output(address).id)
            links = track(project, stage, partition, identity)
    except HesperError as error:
        raise dg.Failure(
            description=str(error), metadata={"exit_code": error.exit_code, "stage": address}, allow_retries=False
        ) from None
    return dg.MaterializeResult(
        data_version=dg.DataVersion(identity),
        metadata={
            "dvc_id": identity,
            "cached": not changes,
            "seconds": time.monotonic() - started,
            "work_seconds": report.seconds.get("work_seconds", 0.0),
            **links,
            **show(project.root / stage.output[partition]),
        },
    )


def _run(
    project: Project,
    context: dg.AssetExecutionContext,
    stage: LineageStage,
    partition: str | None,
    made_from: Mapping[str, str],
) -> tuple[str, Report]:
    """Run a stage, commit its output, and keep the MLflow run of it; returns the output's id."""
    root, address = project.root, stage.address(partition)
    worker = load_worker(root)
    if not project.tracked:
        report = run_stage(context, worker, root, address, stage.meta)
        return project.versions.commit(address, made_from), report
    tracking.prepare(root)
    inputs = {path: made_from[path] for path in stage.data[partition]}
    parameters = load_yaml(root / "params.yaml").get(stage.section or "") or {}
    model = project.parameters(stage.name)
    if stage.section and model is not None:
        parameters = validate_section(parameters, stage.section, model, "params.yaml").model_dump(mode="json")
    run = MlflowRun.start(root, stage.name, partition, inputs, parameters, context.run.run_id)
    problems: list[Exception] = []

    def on_points(points: Any) -> None:
        try:
            run.points([(str(name), float(value), int(step), int(ms)) for name, value, step, ms in points])
        except Exception as error:
            problems.append(error)

    try:
        tracking.describe_run(root, run.run_id, address, stage.output[partition], None)
        report = run_stage(context, worker, root, address, stage.meta, on_points)
        if problems:
            raise problems[0]
        identity = project.versions.commit(address, made_from)
        run.finish(root / stage.output[partition], stage.output[partition], identity, report.metrics, report.seconds)
    except BaseException as error:
        run.fail(str(error.description if isinstance(error, dg.Failure) else error))
        raise
    return identity, report


def track(project: Project, stage: LineageStage, partition: str | None, identity: str) -> dict[str, Any]:
    """Everything MLflow should know of a version, whether it was made just now or found; returns links to it.

    What was done is noted beside the project's other state, so that asking about an unchanged version costs nothing: a
    third of a second of MLflow's time an asset, and two seconds to import it.
    """
    if not project.tracked:
        return {}
    root = project.root
    note = _note(project, stage, partition)
    known = _read_json(note) or {}
    if not is_tracked(project, stage, partition, identity):
        found = _track(project, stage, partition, identity)
        known = {"mark": _mark(project, stage, identity), **found}
        note.parent.mkdir(parents=True, exist_ok=True)
        note.with_suffix(".partial").write_text(json.dumps(known), encoding="utf-8")
        os.replace(note.with_suffix(".partial"), note)
    links: dict[str, Any] = {name: known[name] for name in ("model_version", "champion") if name in known}
    if known.get("mlflow_run_id"):
        links["mlflow_run_id"] = known["mlflow_run_id"]
        links["mlflow_run"] = dg.MetadataValue.url(
            f"{tracking.web_address(root)}/#/experiments/{known['experiment']}/runs/{known['mlflow_run_id']}"
        )
    return links


def is_tracked(project: Project, stage: LineageStage, partition: str | None, identity: str) -> bool:
    """Whether `track` has nothing left to do for this version."""
    if not project.tracked:
        return True
    known = _read_json(_note(project, stage, partition)) or {}
    return bool(known.get("mark") == _mark(project, stage, identity))


def noted_run(project: Project, stage: LineageStage, partition: str | None) -> str | None:
    """The MLflow run of the version that dvc.lock records, as it was noted when `track` was done with it."""
    identity = project.versions.output(stage.address(partition)).id
    known = _read_json(_note(project, stage, partition)) or {}
    if identity is None or known.get("mark") != _mark(project, stage, identity):
        return None
    return known.get("mlflow_run_id")


def _note(project: Project, stage: LineageStage, partition: str | None) -> Path:
    return project.root / ".hesper" / "tracked" / f"{stage.address(partition)}.json"


def _mark(project: Project, stage: LineageStage, identity: str) -> list[Any]:
    return [identity, tracking.store_mark(project.root), list(stage.meta.get("kinds", ()))]


def _track(project: Project, stage: LineageStage, partition: str | None, identity: str) -> dict[str, Any]:
    root = project.root
    run_id = tracking.find_run(root, stage.name, partition, identity)
    made = tracking.Made(stage.name, partition, stage.output[partition], identity, run_id)
    found: dict[str, Any] = {"mlflow_run_id": run_id, "experiment": experiment_id(root)}
    if run_id is not None:
        tracking.describe_run(root, run_id, made.address, made.path, identity)
    if "huggingface" in stage.meta.get("kinds", ()):
        version = tracking.register_model(root, made, project.versions.recorded(stage.address(partition)))
        found["model_version"] = f"{tracking.REGISTERED_MODEL} {version}"
    scores = measured(root / made.path)
    if scores:
        tracking.attach_scores(root, made, scores, _models(project))
    decision = _read_json(root / made.path / "decision.json")
    if decision:
        found["champion"] = str(tracking.set_champion(root, decision))
    return found


def measured(output: Path) -> dict[str, dict[str, float]]:
    """Model folder -> score -> value of every model that a report measures, from its `scores.parquet`."""
    if not (output / "scores.parquet").is_file():
        return {}
    import pyarrow.parquet as pq

    scores: dict[str, dict[str, float]] = {}
    columns = ["model_path", "domain", "metric", "value", "n"]
    for row in pq.read_table(output / "scores.parquet", columns=columns).to_pylist():
        if row["model_path"] and row["n"]:
            scores.setdefault(row["model_path"], {})[f"{row['domain']}.{row['metric']}"] = row["value"]
    return scores


def show(output: Path) -> dict[str, Any]:
    """What people look at in an output, as Dagster metadata: its metrics, pictures and tables.

    Read from the files rather than sent by the stage, so that a version that was pulled shows the same.
    """
    metadata: dict[str, Any] = {}
    for name, value in (_read_json(output / "metrics.json") or {}).items():
        metadata[name] = float(value)
    for path in sorted(output.glob("*.md")):
        metadata[path.stem] = dg.MetadataValue.md(path.read_text(encoding="utf-8"))
    for path in sorted((output / "pictures").glob("*.png"))[:PICTURES]:
        metadata[path.stem] = dg.MetadataValue.md(f"![{path.stem}]({_data_uri(path)})")
    return metadata


# --- parameters ------------------------------------------------------------------------------------------------------


def load_worker(root: Path) -> Worker:
    """Section `worker` of params.yaml; without it, stages run here."""
    params = root / "params.yaml"
    return load_section(params, "worker", Worker) if "worker" in load_yaml(params) else Worker.model_validate({})


def check_parameters(project: Project, sections: Mapping[str, type[StageParameters]]) -> None:
    """Check all of params.yaml before anything runs.

    Args:
        sections: the sections that belong to no stage, with their models.

    Raises:
        ParameterError: naming every wrong section, key and type.
    """
    document = load_yaml(project.root / "params.yaml")
    models: dict[str, Any] = dict(sections)
    known = {*sections}
    for stage in project.lineage.stages:
        if stage.section:
            known.add(stage.section)
            model = project.parameters(stage.name)
            if model is not None:
                models[stage.section] = model
    for stage in project.versions.stages():
        known.update(name for dep in stage.deps for name in getattr(dep, "params", None) or ())
    problems = []
    for name in document:
        if name not in known:
            problems.append(f"params.yaml: section '{name}' belongs to nothing; known: {', '.join(sorted(known))}")
    for name, model in models.items():
        if name not in document:
            if name not in sections:
                problems.append(f"params.yaml: section '{name}' is missing")
            continue
        try:
            validate_section(document[name], name, model, "params.yaml")
        except ParameterError as error:
            problems.append(str(error))
    if problems:
        raise ParameterError("\n".join(problems))


def write_parameters(root: Path, section: str, values: Mapping[str, Any], model: type[StageParameters] | None) -> None:
    """Set values of one section of params.yaml, keeping its comments; nothing is written if nothing changes.

    Raises:
        ParameterError: the section would not be valid.
    """
    from ruamel.yaml import YAML

    path = root / "params.yaml"
    with FileLock(_lock(root, "params")):
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = 120
        document = yaml.load(path.read_text(encoding="utf-8"))
        before = json.dumps(document[section], sort_keys=True)
        _merge(document[section], values)
        if json.dumps(document[section], sort_keys=True) == before:
            return
        if model is not None:
            validate_section(json.loads(json.dumps(document[section])), section, model, "params.yaml")
        partial = path.with_name("params.yaml.partial")
        with partial.open("w", encoding="utf-8") as stream:
            yaml.dump(document, stream)
        os.replace(partial, path)


def _merge(target: Any, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(target.get(key), Mapping):
            _merge(target[key], value)
        elif target.get(key) != value:
            target[key] = value


# --- inside ----------------------------------------------------------------------------------------------------------


def _failed_already(context: dg.AssetExecutionContext) -> bool:
    failures = dg.DagsterEventType.STEP_FAILURE
    return bool(context.instance.get_records_for_run(context.run.run_id, of_type=failures, limit=1).records)


def _models(project: Project) -> dict[str, tracking.Made]:
    """Folder -> recorded version of every model of the lineage."""
    found = {}
    for stage in project.lineage.stages:
        if "huggingface" in stage.meta.get("kinds", ()):
            for key in stage.keys:
                output = project.versions.output(stage.address(key))
                if output.id is not None:
                    found[output.path] = tracking.Made(stage.name, key, output.path, output.id, None)
    return found


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _data_uri(path: Path) -> str:
    """The picture as a data URI, small enough for an event log."""
    from PIL import Image

    with Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


@contextlib.contextmanager
def _alone(context: dg.AssetExecutionContext, root: Path, address: str) -> Iterator[None]:
    """One process makes an asset at a time; who has to wait for another says so."""
    lock = FileLock(_lock(root, address))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waiting = f"{address}: another run is at it; waiting for that to end"
        context.log.info(waiting)
        print(waiting, file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _lock(root: Path, name: str) -> Path:
    path = root / ".hesper" / "locks" / f"materialise-{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
