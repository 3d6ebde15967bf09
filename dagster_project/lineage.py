"""dvc.yaml as Dagster assets, the way dagster-dbt does it with a dbt manifest.

A stage is written once, in dvc.yaml; this file derives the Dagster graph from DVC's own resolution of it:

| dvc.yaml | Dagster |
|---|---|
| stage | asset of that name |
| `desc`, `cmd`, `outs` | description, metadata |
| a dependency another stage makes | asset dependency |
| a dependency in a data folder that no stage makes | external asset |
| every other dependency | source code: part of the asset's code version |
| `matrix`, `foreach` | static partitions; a consumer of all of them depends on all of them |
| the stage's own section of params.yaml | typed launch-time configuration, with the file's values as defaults |
| `meta.group` | group, numbered in lineage order, since the UI sorts groups by name |
| `meta.kinds`, `meta.pool`, `meta.op_tags` | kinds, concurrency pool, op tags |
| any other key of `meta` | op tag `dvc/<key>`, for launchers that place work by it |

Nothing here knows which project it serves: what a stage's asset does when it is materialised, and which model types
its parameters, are passed in.
"""

import enum
import hashlib
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from pydantic import BaseModel

from assets.stage import StageParameters, directory_id
from dagster_project.versions import Versions

Materialise = Callable[[dg.AssetExecutionContext, "LineageStage", str | None, Mapping[str, Any]], dg.MaterializeResult]
"""Called with the context, the stage, the partition and the explicitly launched parameter values (often none)."""


@dataclass(frozen=True)
class LineageStage:
    """A stage of dvc.yaml with all its partitions.

    Attributes:
        partitions: partition keys in the order of dvc.yaml; empty for a plain stage.
        output: partition (None for a plain stage) -> the folder it makes.
        data: partition -> the data folders it reads.
        sources: the source files and folders it runs.
        section: the section of params.yaml that bears its name, if it lists one.
    """

    name: str
    description: str
    command: str
    meta: Mapping[str, Any]
    partitions: tuple[str, ...]
    output: Mapping[str | None, str]
    data: Mapping[str | None, tuple[str, ...]]
    sources: tuple[str, ...]
    section: str | None

    @property
    def keys(self) -> tuple[str | None, ...]:
        """The partitions, or one None."""
        return self.partitions or (None,)

    def address(self, partition: str | None) -> str:
        """`stage` or `stage@partition`, as DVC writes it."""
        return self.name if partition is None else f"{self.name}@{partition}"


@dataclass(frozen=True)
class Lineage:
    """All stages in the order of dvc.yaml, and what they read that no stage makes (asset name -> folder)."""

    stages: tuple[LineageStage, ...]
    external: Mapping[str, str]
    producer: Mapping[str, tuple[str, str | None]] = field(repr=False)
    """Output folder -> stage name and partition."""

    def stage(self, name: str) -> LineageStage:
        """Look a stage up by name."""
        return next(stage for stage in self.stages if stage.name == name)

    def upstream(self, name: str) -> list[str]:
        """The names of the assets, stages and external ones, that a stage reads."""
        stage = self.stage(name)
        paths = dict.fromkeys(path for key in stage.keys for path in stage.data[key])
        named = {path: asset for asset, path in self.external.items()}
        return list(dict.fromkeys(self.producer[path][0] if path in self.producer else named[path] for path in paths))

    def order(self) -> list[str]:
        """Stage names, each after everything it reads; otherwise in the order of dvc.yaml."""
        done: list[str] = []
        waiting = [stage.name for stage in self.stages]
        while waiting:
            ready = next(
                name for name in waiting if not any(other in waiting for other in self.upstream(name) if other != name)
            )
            waiting.remove(ready)
            done.append(ready)
        return done

    def ancestors(self, names: Sequence[str]) -> set[str]:
        """The stages named and every stage they are made from."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found and name not in self.external:
                found.add(name)
                waiting += self.upstream(name)
        return found


def read_lineage(versions: Versions, data_folders: Sequence[str]) -> Lineage:
    """Read dvc.yaml through DVC. `data_folders`: the top-level folders that hold data; the rest is source code."""
    from dvc.dependency import ParamsDependency

    groups: dict[str, dict[str | None, Any]] = {}
    for resolved in versions.stages():
        name, _, partition = resolved.name.partition("@")
        groups.setdefault(name, {})[partition or None] = resolved

    def is_data(path: str) -> bool:
        return path.split("/")[0] in data_folders

    stages = []
    for name, variants in groups.items():
        first = next(iter(variants.values()))
        paths = {
            key: [dep.def_path for dep in stage.deps if not isinstance(dep, ParamsDependency)]
            for key, stage in variants.items()
        }
        stages.append(
            LineageStage(
                name=name,
                description=first.desc or "",
                command=first.cmd if isinstance(first.cmd, str) else " && ".join(first.cmd),
                meta=first.meta or {},
                partitions=tuple(key for key in variants if key is not None),
                output={key: stage.outs[0].def_path for key, stage in variants.items()},
                data={key: tuple(path for path in found if is_data(path)) for key, found in paths.items()},
                sources=tuple(path for path in next(iter(paths.values())) if not is_data(path)),
                section=name if any(name in (getattr(dep, "params", None) or ()) for dep in first.deps) else None,
            )
        )
    producer = {path: (stage.name, key) for stage in stages for key, path in stage.output.items()}
    read = dict.fromkeys(path for stage in stages for key in stage.keys for path in stage.data[key])
    external = {path.split("/", 1)[-1].replace("/", "_"): path for path in read if path not in producer}
    return Lineage(tuple(stages), external, producer)


def build_assets(
    versions: Versions,
    lineage: Lineage,
    materialise: Materialise,
    parameters: Callable[[str], type[StageParameters] | None],
    values: Mapping[str, Any],
    external_specs: Mapping[str, Mapping[str, Any]] | None = None,
    automation_condition: dg.AutomationCondition | None = None,
    retry_policy: dg.RetryPolicy | None = None,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """One Dagster asset a stage, one spec an external folder.

    Args:
        parameters: stage name -> the model of its section of params.yaml, if it has one.
        values: the content of params.yaml, for the defaults of the launch-time configuration.
        external_specs: external asset name -> further arguments of its `AssetSpec`, such as `partitions_def`.
    """
    groups = numbered_groups(lineage)
    built: list[dg.AssetsDefinition | dg.AssetSpec] = []
    for name, path in lineage.external.items():
        extra = dict((external_specs or {}).get(name, {}))
        built.append(dg.AssetSpec(name, group_name="0_incoming", metadata={"path": path}, **extra))
    for stage in lineage.stages:
        model = parameters(stage.name) if stage.section else None
        defaults = values.get(stage.section or "") or {}
        built.append(
            _build_asset(
                versions, lineage, stage, materialise, groups, model, defaults, automation_condition, retry_policy
            )
        )
    return built


def numbered_groups(lineage: Lineage) -> dict[str, str]:
    """`meta.group` -> the group's name in Dagster, numbered in lineage order: the UI sorts groups by name."""
    names = dict.fromkeys(str(lineage.stage(name).meta.get("group", "default")) for name in lineage.order())
    return {name: f"{index}_{name}" for index, name in enumerate(names, 1)}


def _build_asset(
    versions: Versions,
    lineage: Lineage,
    stage: LineageStage,
    materialise: Materialise,
    groups: Mapping[str, str],
    model: type[StageParameters] | None,
    defaults: Mapping[str, Any],
    automation_condition: dg.AutomationCondition | None,
    retry_policy: dg.RetryPolicy | None,
) -> dg.AssetsDefinition:
    meta = dict(stage.meta)
    group = groups[str(meta.pop("group", "default"))]
    kinds, pool = set(meta.pop("kinds", ())), meta.pop("pool", None)
    op_tags = {str(key): _tag(value) for key, value in (meta.pop("op_tags", None) or {}).items()}
    op_tags |= {f"dvc/{key}": _tag(value) for key, value in meta.items()}

    @dg.asset(
        name=stage.name,
        description=stage.description,
        deps=[_dependency(lineage, stage, name) for name in lineage.upstream(stage.name)],
        group_name=group,
        kinds=kinds,
        pool=pool,
        op_tags=op_tags,
        partitions_def=dg.StaticPartitionsDefinition(list(stage.partitions)) if stage.partitions else None,
        config_schema=config_schema(model, stage.name, defaults) if model is not None else None,
        code_version=code_version(versions, stage),
        metadata={"command": stage.command, "output": ", ".join(stage.output.values())},
        automation_condition=automation_condition,
        retry_policy=retry_policy,
    )
    def asset(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        ops: Mapping[str, Any] = dict(context.run.run_config).get("ops", {})  # type: ignore[assignment]
        launched = ops.get(context.op_handle.name, {}).get("config", {})
        partition = context.partition_key if stage.partitions else None
        return materialise(context, stage, partition, launched)

    return asset


def _dependency(lineage: Lineage, stage: LineageStage, upstream: str) -> dg.AssetDep:
    if upstream in lineage.external:
        return dg.AssetDep(upstream)
    source = lineage.stage(upstream)
    if not source.partitions:
        return dg.AssetDep(upstream)
    reads = {
        key: {lineage.producer[path][1] for path in stage.data[key] if lineage.producer.get(path, ("",))[0] == upstream}
        for key in stage.keys
    }
    everything = all(found == set(source.partitions) for found in reads.values())
    if everything:
        return dg.AssetDep(upstream, partition_mapping=dg.AllPartitionMapping())
    if not stage.partitions:
        return dg.AssetDep(
            upstream, partition_mapping=dg.SpecificPartitionsPartitionMapping(sorted(map(str, reads[None])))
        )
    if all(found == {key} for key, found in reads.items()):
        return dg.AssetDep(upstream, partition_mapping=dg.IdentityPartitionMapping())
    downstream = {key: {str(mine) for mine, found in reads.items() if key in found} for key in source.partitions}
    return dg.AssetDep(upstream, partition_mapping=dg.StaticPartitionMapping(downstream))


def code_version(versions: Versions, stage: LineageStage) -> str:
    """The command and the ids of the sources it runs, as one string; a changed source shows in the UI as stale."""
    ids = [stage.command]
    for source in stage.sources:
        path = versions.root / source
        if path.is_dir():
            ids.append(directory_id(path))
        elif path.is_file():
            ids.append(hashlib.md5(path.read_bytes()).hexdigest())
    return hashlib.md5(json.dumps(ids).encode()).hexdigest()


def _tag(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# --- typed launch-time configuration ---------------------------------------------------------------------------------


def config_schema(model: type[BaseModel], name: str, values: Mapping[str, Any]) -> dict[str, dg.Field]:
    """A Dagster config schema from a pydantic model; the defaults are `values`, then the model's own.

    Dagster checks types while somebody edits in the launchpad; ranges and cross-field rules stay with the model.
    """
    fields = {}
    for key, info in model.model_fields.items():
        kind = _config_type(info.annotation, f"{name}_{key}", values.get(key))
        given = values.get(key, dg.Field)
        if given is dg.Field and not info.is_required():
            given = info.get_default(call_default_factory=True)
        arguments: dict[str, Any] = {"description": info.description} if info.description else {}
        if isinstance(kind, dict):  # required exactly if something inside is
            fields[key] = dg.Field(dg.Shape(kind), **arguments)
            continue
        if given is not dg.Field:
            arguments["default_value"] = _plain(given)
        fields[key] = dg.Field(kind, is_required=given is dg.Field, **arguments)
    return fields


def _config_type(annotation: Any, name: str, value: Any) -> Any:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _config_type(arguments[0], name, value)
    if origin in (typing.Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        if len(others) == 1:
            inner = _config_type(others[0], name, value)
            return dg.Noneable(dg.Shape(inner) if isinstance(inner, dict) else inner)
        return dg.Any
    if origin is typing.Literal:
        if all(isinstance(argument, str) for argument in arguments):
            return dg.Enum(name, [dg.EnumValue(argument) for argument in arguments])
        return dg.Any
    if origin in (list, tuple, set, frozenset, Sequence) and arguments:
        members = {argument for argument in arguments if argument is not Ellipsis}
        if len(members) == 1:
            inner = _config_type(members.pop(), name, None)
            return dg.Array(dg.Shape(inner) if isinstance(inner, dict) else inner)
        return dg.Any
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return config_schema(annotation, name, value if isinstance(value, Mapping) else {})
        if issubclass(annotation, enum.Enum):
            return dg.Enum(name, [dg.EnumValue(str(member.value)) for member in annotation])
        simple = {bool: dg.Bool, int: dg.Int, float: dg.Float, str: dg.String}.get(annotation)
        if simple is not None:
            return simple
    return dg.Any


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value
