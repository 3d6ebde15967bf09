"""What is there and where it came from: the state of every asset, the ancestry of an id, and its reproduction."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster import DagsterEventType, DagsterInstance

from assets.errors import HesperError, InputError, ParameterError
from assets.reporting import connect, experiment_id, tracking_error
from assets.stage import directory_id, load_yaml
from dagster_project import tracking
from dagster_project.launch import data_version
from dagster_project.lineage import LineageStage
from dagster_project.materialise import Project, noted_run

# --- status ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Status:
    """One asset as it stands.

    Attributes:
        state: `fresh` (what the lineage would make is there), `stale` (something it is made from changed), `missing`
            (never made, or its files are gone) or `failed` (the last try failed).
        why: what changed, or how it failed.
        dvc_id, data_version, dataset_digest: the three names of the version that is there; they are equal.
    """

    asset: str
    partition: str | None
    state: str
    why: str
    path: str
    dvc_id: str | None
    data_version: str | None
    dataset_digest: str | None
    mlflow_run: str | None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """`stage` or `stage@partition`."""
        return self.asset if self.partition is None else f"{self.asset}@{self.partition}"

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def status(project: Project, instance: DagsterInstance, names: Iterable[str]) -> list[Status]:
    """The state of the named assets, all partitions, in lineage order."""
    wanted = set(names)
    stages = [project.lineage.stage(name) for name in project.lineage.order() if name in wanted]
    places = [(stage, key) for stage in stages for key in stage.keys]
    changes = project.versions.all_changes([stage.address(key) for stage, key in places])
    records = mlflow_records(project, places)
    found = []
    for stage, key in places:
        address = stage.address(key)
        output = project.versions.output(address)
        if output.id is None or not (project.root / output.path).is_dir():
            state, why = "missing", ""
        elif changes[address]:
            state, why = "stale", "; ".join(changes[address])
        else:
            state, why = "fresh", ""
        failure = last_failure(instance, stage.name, key) if state != "fresh" else None
        if failure is not None:
            state, why = "failed", failure
        run_id, digest = records[address]
        metrics = project.root / output.path / "metrics.json"
        found.append(
            Status(
                asset=stage.name,
                partition=key,
                state=state,
                why=why,
                path=output.path,
                dvc_id=output.id,
                data_version=data_version(instance, stage.name, key),
                dataset_digest=digest,
                mlflow_run=run_id,
                metrics=json.loads(metrics.read_text(encoding="utf-8")) if metrics.is_file() else {},
            )
        )
    return found


def last_failure(instance: DagsterInstance, name: str, partition: str | None) -> str | None:
    """How the latest try to materialise an asset failed; None if it succeeded, or there was none."""
    planned = instance.get_event_records(
        dg.EventRecordsFilter(
            DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
            asset_key=dg.AssetKey(name),
            asset_partitions=[partition] if partition else None,
        ),
        limit=1,
    )
    if not planned:
        return None
    run_id = planned[0].run_id
    for record in instance.get_records_for_run(run_id, of_type=DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        if event is not None and event.step_key == name:
            failure = event.step_failure_data.user_failure_data
            if failure is not None and "not_started" in failure.metadata:
                return None
            return str(failure.description if failure is not None else event.message)
    return None


Record = tuple[str | None, str | None]
"""The MLflow run that made a version, and the digest of that run's output dataset."""


def mlflow_records(project: Project, places: Sequence[tuple[LineageStage, str | None]]) -> dict[str, Record]:
    """Address -> what MLflow has of the version that is there.

    MLflow takes seconds to import. So what it said is kept beside the project's other state, and it is asked again only
    when its database was written to, or a version is another one.
    """
    records: dict[str, Record] = {stage.address(key): (None, None) for stage, key in places}
    versions = {address: project.versions.output(address).id for address in records}
    wanted = {address: identity for address, identity in versions.items() if identity is not None}
    if not project.tracked or not wanted:
        return records
    answers = _Answers(project.root)
    known = {address: answers.kept[address] for address in wanted if address in answers.kept}
    if any(known.get(address, ("",))[0] != identity for address, identity in wanted.items()):
        known = _ask_mlflow(project, [(stage, key) for stage, key in places if stage.address(key) in wanted])
        answers.keep(known)
    return records | {address: (run_id, digest) for address, (_, run_id, digest) in known.items()}


def _ask_mlflow(
    project: Project, places: Sequence[tuple[LineageStage, str | None]]
) -> dict[str, tuple[str, str | None, str | None]]:
    """Address -> the version and its `Record`.

    The runs that were noted when the versions were tracked are asked for together, others one by one.
    """
    noted = {stage.address(key): noted_run(project, stage, key) for stage, key in places}
    runs = tracking.read_runs(project.root, [run_id for run_id in noted.values() if run_id is not None])
    found = {}
    for stage, key in places:
        address = stage.address(key)
        identity = str(project.versions.output(address).id)
        run = runs.get(noted[address] or "")
        if run is None:
            run_id = tracking.find_run(project.root, stage.name, key, identity)
            run = tracking.read_runs(project.root, [run_id]).get(run_id) if run_id is not None else None
        made = [item.dataset.digest for item in run.inputs.dataset_inputs if _is_output(item)] if run else []
        found[address] = (identity, run.info.run_id if run else None, made[0] if made else None)
    return found


class _Answers:
    """What MLflow answered, in a file that counts for as long as its database is not written to.

    Attributes:
        kept: question -> answer.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._file = root, root / ".hesper" / "mlflow_answers.json"
        self._store = tracking.store_state(root)
        self.kept: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            document = json.loads(self._file.read_text(encoding="utf-8"))
            if self._store is not None and document["store"] == self._store:
                self.kept = dict(document["answers"])

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Keep more of them, unless the database has been written to since the others were read."""
        if self._store is None or tracking.store_state(self._root) != self._store:
            return
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({"store": self._store, "answers": {**self.kept, **answers}}), encoding="utf-8")
        os.replace(partial, self._file)


def _is_output(item: Any) -> bool:
    return any(tag.value == "output" for tag in item.tags)


# --- trace -----------------------------------------------------------------------------------------------------------


@dataclass
class Ancestry:
    """Every known version and what it was made from.

    Attributes:
        name: id -> the folder it is a version of.
        parents: id -> the ids it was made from.
        runs: id -> the MLflow runs that made it.
    """

    name: dict[str, str] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    runs: dict[str, list[str]] = field(default_factory=dict)
    current: set[str] = field(default_factory=set)

    def children(self, identity: str) -> list[str]:
        """The ids that were made from this one."""
        return [child for child, parents in self.parents.items() if identity in parents]

    def note(self, identity: str, path: str, parents: Mapping[str, str]) -> None:
        """Record a version and the versions (path -> id) it was made from."""
        self.name.setdefault(identity, path)
        for parent_path, parent in parents.items():
            self.name.setdefault(parent, parent_path)
        known = self.parents.setdefault(identity, [])
        known += [parent for parent in parents.values() if parent not in known]


def read_ancestry(project: Project) -> Ancestry:
    """All versions that dvc.lock records now, and all that MLflow recorded ever."""
    ancestry = Ancestry()
    for stage in project.lineage.stages:
        for key in stage.keys:
            output = project.versions.output(stage.address(key))
            if output.id is None:
                continue
            recorded = project.versions.recorded(stage.address(key))
            ancestry.note(
                output.id, output.path, {path: recorded[path] for path in stage.data[key] if path in recorded}
            )
            ancestry.current.add(output.id)
    if project.tracked:
        answers = _Answers(project.root)
        runs = answers.kept.get(FINISHED)
        if runs is None:
            runs = _finished_runs(project)
            answers.keep({FINISHED: runs})
        for run_id, path, identity, inputs in runs:
            ancestry.note(identity, path, inputs)
            ancestry.runs.setdefault(identity, []).append(run_id)
    return ancestry


FINISHED = "finished runs"


def _finished_runs(project: Project) -> list[tuple[str, str, str, dict[str, str]]]:
    """Run, output and its id, inputs and their ids, of every run that has an output."""
    found = []
    try:
        client, page = connect(project.root), None
        while True:
            runs = client.search_runs(
                [experiment_id(project.root)], "attributes.status = 'FINISHED'", max_results=1000, page_token=page
            )
            for run in runs:
                items = run.inputs.dataset_inputs
                inputs = {item.dataset.name: item.dataset.digest for item in items if not _is_output(item)}
                for output in [item.dataset for item in items if _is_output(item)][-1:]:
                    found.append((run.info.run_id, output.name, output.digest, inputs))
            page = runs.token
            if not page:
                return found
    except HesperError:
        raise
    except Exception as error:
        raise tracking_error(error) from error


def resolve(project: Project, ancestry: Ancestry, what: str) -> str:
    """The id that an id (or the start of one), an asset, a folder or an MLflow run stands for.

    Raises:
        ParameterError: it stands for nothing known, or for several things.
    """
    for stage in project.lineage.stages:
        for key in stage.keys:
            if what in (stage.address(key), stage.output[key]):
                identity = project.versions.output(stage.address(key)).id
                if identity is None:
                    raise ParameterError(f"{what} was not made yet: hesper run {what}")
                return identity
        if what == stage.name:
            raise ParameterError(f"{what} has partitions, name one: {', '.join(map(stage.address, stage.partitions))}")
    for identity, runs in ancestry.runs.items():
        if what in runs:
            return identity
    found = [identity for identity in ancestry.name if identity.startswith(what)] if len(what) >= 6 else []
    if len(found) == 1:
        return found[0]
    if found:
        raise ParameterError(f"'{what}' begins {len(found)} ids; give more of it")
    raise ParameterError(f"'{what}' is no id, asset, folder or MLflow run that this project knows")


# --- reproduce -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reproduction:
    """The recorded id of a version and the id of the same stage run again elsewhere."""

    address: str
    recorded: str
    made: str
    folder: Path

    @property
    def same(self) -> bool:
        """Whether every byte came out the same."""
        return self.recorded == self.made


def reproduce(project: Project, identity: str) -> Reproduction:
    """Run the stage that made `identity` again in a folder of its own, from its recorded inputs, and compare.

    Raises:
        InputError: dvc.lock doesn't record that version, its sources or parameters have changed since, or an input is
            in neither the workspace nor the cache.
        HesperError: the stage failed.
    """
    versions = project.versions
    places = [(stage, key) for stage in project.lineage.stages for key in stage.keys]
    found = [(s, k) for s, k in places if versions.output(s.address(k)).id == identity]
    if not found:
        raise InputError(f"{identity} is not a version dvc.lock records: check out the commit whose dvc.lock does")
    stage, key = found[0]
    address = stage.address(key)
    recorded, now = versions.recorded(address), versions.dependencies(address)
    moved = sorted(path for path in stage.sources if recorded.get(path) != now.get(path))
    locked = load_yaml(project.root / "dvc.lock")["stages"][address].get("params", {}).get("params.yaml", {})
    document = load_yaml(project.root / "params.yaml")
    moved += [f"params.yaml: {section}" for section, values in locked.items() if document.get(section) != values]
    if moved:
        raise InputError(f"{', '.join(moved)} changed since {identity} was made: check out the commit that made it")
    folder = project.root / ".hesper" / "reproduce" / address
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for item in ("dvc.yaml", "params.yaml"):
        shutil.copyfile(project.root / item, folder / item)
    shutil.copytree(project.root / "assets", folder / "assets", ignore=shutil.ignore_patterns("__pycache__"))
    for path in stage.data[key]:
        if (project.root / path).is_dir() and directory_id(project.root / path) == recorded[path]:
            shutil.copytree(project.root / path, folder / path)
        else:
            versions.export(recorded[path], folder / path)
    command = [sys.executable, "-m", "assets", stage.name, *(["--partition", key] if key else [])]
    drop = ("DAGSTER_", "HESPER_", "MLFLOW_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    done = subprocess.run(command, cwd=folder, env={**environment, "HESPER_TRACKING": "off"}, check=False)
    if done.returncode != 0:
        error = HesperError(f"{address} failed where it was run again, in {folder}")
        error.exit_code = done.returncode
        raise error
    return Reproduction(address, identity, directory_id(folder / stage.output[key]), folder)
