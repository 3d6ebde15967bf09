"""What happens when an asset is materialised: known already, or run, versioned and tracked."""

from __future__ import annotations

import base64
import io
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import FileLock
from pydantic import BaseModel

from assets.errors import HesperError, ParameterError
from assets.stage import DATA_FOLDERS, load_section, load_yaml, stage_module, validate_section
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

    def parameters(self, name: str) -> type[BaseModel] | None:
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
    try:
        if project.tracked:
            tracking.prepare(project.root)
        with FileLock(_lock(project.root, address)):
            if launched and stage.section:
                model = project.parameters(stage.name)
                write_parameters(project.root, stage.section, launched, model)
            changes = project.versions.changes(address)
            report = Report()
            if changes:
                context.log.info(f"{address}: {'; '.join(changes)}")
                before = project.versions.dependencies(address)
                worker = load_worker(project.root)
                report = run_stage(context, worker, project.root, address, stage.meta)
                identity = project.versions.commit(address, before)
            else:
                identity = str(project.versions.output(address).id)
            links = track(project, stage, partition, identity, report.mlflow_run_id)
    except HesperError as error:
        raise dg.Failure(
            description=str(error), metadata={"exit_code": error.exit_code, "stage": address}, allow_retries=False
        ) from None
    seconds = time.monotonic() - started
    return dg.MaterializeResult(
        data_version=dg.DataVersion(identity),
        metadata={
            "dvc_id": identity,
            "cached": not changes,
            "seconds": seconds,
            "work_seconds": report.work_seconds,
            **links,
            **show(project.root / stage.output[partition]),
        },
    )


def track(
    project: Project, stage: LineageStage, partition: str | None, identity: str, run_id: str | None = None
) -> dict[str, Any]:
    """Everything MLflow should know of a version, whether it was made just now or found; returns links to it."""
    if not project.tracked:
        return {}
    root = project.root
    run_id = run_id or tracking.find_run(root, stage.name, partition, identity)
    made = tracking.Made(stage.name, partition, stage.output[partition], identity, run_id)
    links: dict[str, Any] = {}
    if run_id is not None:
        links["mlflow_run"] = dg.MetadataValue.url(tracking.run_url(root, run_id))
        links["mlflow_run_id"] = run_id
    if "huggingface" in stage.meta.get("kinds", ()):
        version = tracking.register_model(root, made, project.versions.recorded(stage.address(partition)))
        links["model_version"] = f"{tracking.REGISTERED_MODEL} {version}"
    scores = _read_json(root / made.path / "model_metrics.json")
    if scores:
        tracking.attach_scores(root, made, scores, _models(project))
    decision = _read_json(root / made.path / "decision.json")
    if decision:
        links["champion"] = str(tracking.set_champion(root, decision))
    return links


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
    return load_section(params, "worker", Worker) if "worker" in load_yaml(params) else Worker()


def check_parameters(project: Project, sections: Mapping[str, type[BaseModel]]) -> None:
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


def write_parameters(root: Path, section: str, values: Mapping[str, Any], model: type[BaseModel] | None) -> None:
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
            validate_section(json.loads(json.dumps(document[section])), section, model, "params.yaml")  # type: ignore[type-var]
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


def _lock(root: Path, name: str) -> Path:
    path = root / ".hesper" / "locks" / f"materialise-{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
