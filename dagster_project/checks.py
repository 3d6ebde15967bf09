"""Great Expectations suites as blocking Dagster asset checks.

What must hold of every table is data, in suites.yaml; this file reads tables into the flat form that expectations are
written against and turns each suite into a check whose metadata shows the rows that fail. A failed check stops what is
downstream. The result for a data version that was checked already is given again, not computed again.
"""

import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.errors import InputError
from assets.stage import load_yaml
from dagster_project.lineage import Lineage

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SUITES = Path(__file__).with_name("suites.yaml")

FAILING_ROWS = 10
"""How many failing rows of an expectation the check's metadata shows."""

Suite = Sequence[Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Finding:
    """An expectation that doesn't hold, and the first rows for which it doesn't, as a Markdown table."""

    expectation: str
    failing: int
    rows: str


@functools.cache
def suites() -> dict[str, dict[str, Suite]]:
    """Asset -> table -> expectations."""
    return load_yaml(SUITES)


def build_checks(root: Path, lineage: Lineage) -> list[dg.AssetChecksDefinition]:
    """One blocking check a table of suites.yaml; the checks of an asset are one step."""
    return [
        _build(root / stage.output[None], stage.name, suites()[stage.name])
        for stage in lineage.stages
        if stage.name in suites() and not stage.partitions
    ]


def _build(folder: Path, asset: str, tables: Mapping[str, Suite]) -> dg.AssetChecksDefinition:
    specs = [
        dg.AssetCheckSpec(
            check_name(table), asset=asset, blocking=True, description=f"{table}: {len(suite)} expectations"
        )
        for table, suite in tables.items()
    ]

    @dg.multi_asset_check(name=f"{asset}_checks", specs=specs)
    def checks(context) -> Iterator[dg.AssetCheckResult]:  # type: ignore[no-untyped-def]  # Dagster reads annotations
        identity = _data_version(context.instance, asset)
        for table, suite in tables.items():
            key = dg.AssetCheckKey(dg.AssetKey(asset), check_name(table))
            known = evaluation(context.instance, key)
            if known is not None and _is_for(known, identity, suite):
                yield dg.AssetCheckResult(
                    check_name=key.name, passed=known.passed, metadata=known.metadata, description=known.description
                )
            else:
                yield _check(folder, table, suite, key.name, identity)

    return checks


def _check(folder: Path, table: str, suite: Suite, name: str, identity: str | None) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {"data_version": identity or "", "suite": digest(suite), "expectations": len(suite)}
    try:
        rows, findings = validate(folder, table, suite)
    except InputError as error:
        return dg.AssetCheckResult(check_name=name, passed=False, metadata=metadata, description=str(error))
    metadata["rows"] = rows
    for finding in findings:
        metadata[finding.expectation[:200]] = dg.MetadataValue.md(f"{finding.failing} failing\n\n{finding.rows}")
    description = f"{table}: {rows} rows, {len(suite)} expectations hold"
    if findings:
        what = "; ".join(f"{finding.expectation} ({finding.failing} failing)" for finding in findings)
        description = f"{table}: {what}"
    return dg.AssetCheckResult(check_name=name, passed=not findings, metadata=metadata, description=description)


def check_name(table: str) -> str:
    """`steps.parquet > actions` -> `steps_actions`; `*.parquet` -> `tables`."""
    parts = [part.strip().removesuffix(".parquet").replace("*", "tables") for part in table.split(">")]
    return "_".join("".join(c if c.isalnum() else "_" for c in part) for part in parts)


def digest(suite: Suite) -> str:
    """Names a suite: a changed suite is a reason to check again."""
    return hashlib.md5(json.dumps(list(suite), sort_keys=True).encode()).hexdigest()


def passed(instance: dg.DagsterInstance, key: dg.AssetCheckKey, identity: str) -> bool:
    """Whether the check as it is written now has passed for this data version."""
    suite = {check_name(table): suite for table, suite in suites().get(key.asset_key.to_user_string(), {}).items()}
    known = evaluation(instance, key)
    return known is not None and known.passed and _is_for(known, identity, suite.get(key.name, ()))


def evaluation(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dg.AssetCheckEvaluation | None:
    """The latest result of a check; a check that is planned, or was interrupted, has none."""
    from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status

    records = instance.event_log_storage.get_asset_check_execution_history(
        key, limit=1, status={Status.SUCCEEDED, Status.FAILED}
    )
    if not records or records[0].event is None or records[0].event.dagster_event is None:
        return None
    data = records[0].event.dagster_event.event_specific_data
    return data if isinstance(data, dg.AssetCheckEvaluation) else None


def _is_for(known: dg.AssetCheckEvaluation, identity: str | None, suite: Suite) -> bool:
    said = {name: value.value for name, value in known.metadata.items()}
    return identity is not None and said.get("data_version") == identity and said.get("suite") == digest(suite)


def _data_version(instance: dg.DagsterInstance, asset: str) -> str | None:
    event = instance.get_latest_materialization_event(dg.AssetKey(asset))
    if event is None or event.asset_materialization is None:
        return None
    return (event.asset_materialization.tags or {}).get("dagster/data_version")


# --- expectations ----------------------------------------------------------------------------------------------------


def validate(folder: Path, table: str, suite: Suite) -> tuple[int, list[Finding]]:
    """Check one table. Returns the number of its rows and what doesn't hold.

    Raises:
        InputError: a file or a column is missing.
    """
    frame = read_flat(folder, table)
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    import great_expectations.expectations as gxe

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
    definition = (
        context.data_sources.add_pandas("tables").add_dataframe_asset(table).add_batch_definition_whole_dataframe("all")
    )
    batch = definition.get_batch({"dataframe": frame})
    built = gx.ExpectationSuite(name=table)
    for item in suite:
        ((name, arguments),) = item.items()
        built.add_expectation(getattr(gxe, _class_name(name))(**_resolve(folder, arguments)))
    result = batch.validate(built, result_format={"result_format": "COMPLETE"})
    findings = []
    for outcome in result.results:
        if outcome.success:
            continue
        error = next((info["exception_message"] for info in _exceptions(outcome.exception_info)), None)
        if error is not None:
            raise InputError(f"{table}: {_text(outcome)}: {error}")
        index = outcome.result.get("unexpected_index_list") or []
        shown = frame.loc[index[:FAILING_ROWS]] if index else frame.iloc[:0]
        findings.append(Finding(_text(outcome), len(index) or 1, _markdown(shown, outcome)))
    return len(frame), findings


def _class_name(name: str) -> str:
    words = f"expect_{name}".split("_")
    return "".join("A" if word == "a" else "B" if word == "b" else word.capitalize() for word in words)


def _resolve(folder: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    resolved = dict(arguments)
    values = resolved.get("value_set")
    if isinstance(values, Mapping):
        column = read_flat(folder, values["table"])[values["column"]]
        resolved["value_set"] = sorted({value for value in column if value is not None})
    return resolved


def _exceptions(info: Any) -> Iterator[Mapping[str, Any]]:
    """GX gives one record, or one for each metric that failed."""
    if not info:
        return
    records = [info] if "raised_exception" in info else list(info.values())
    yield from (record for record in records if isinstance(record, Mapping) and record.get("raised_exception"))


def _text(outcome: Any) -> str:
    configuration = outcome.expectation_config
    kept = {key: value for key, value in configuration.kwargs.items() if key != "batch_id"}
    values = ", ".join(f"{key}={str(value)[:80]}" for key, value in kept.items())
    return f"{configuration.type}({values})"


def _markdown(frame: "pd.DataFrame", outcome: Any) -> str:
    if frame.empty:
        return f"observed: {str(outcome.result.get('observed_value', ''))[:500]}"
    named = [str(value) for key, value in outcome.expectation_config.kwargs.items() if key.startswith("column")]
    first = [name for name in frame.columns if name in ("id", "row.id", "episode_id", "row.episode_id", "index")]
    columns = list(dict.fromkeys([*first, *(name for name in frame.columns if name in named), *frame.columns]))[:8]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in frame[columns].itertuples(index=False):
        lines.append("| " + " | ".join(str(value)[:80].replace("|", "\\|").replace("\n", " ") for value in row) + " |")
    return "\n".join(lines)


# --- tables ----------------------------------------------------------------------------------------------------------


def read_flat(folder: Path, table: str) -> "pd.DataFrame":
    """A table of suites.yaml as a flat frame; see there for the names of its columns.

    Raises:
        InputError: no such file, or no such list column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    pattern, *columns = [part.strip() for part in table.split(">")]
    files = sorted(folder.glob(pattern))
    if not files:
        raise InputError(f"{folder.name} has no file {pattern}")
    parts = []
    for file in files:
        reader = pq.ParquetFile(file)
        for batch in reader.iter_batches(batch_size=256):
            part = pa.Table.from_batches([batch])
            for column in columns:
                part = _explode(part, column)
            parts.append(_flatten(part))
        if not reader.metadata.num_rows:
            part = reader.read()
            for column in columns:
                part = _explode(part, column)
            parts.append(_flatten(part))
    return pa.concat_tables(parts, promote_options="permissive").to_pandas()


def _explode(table: "pa.Table", column: str) -> "pa.Table":
    """A row an item of a list column; the columns of the row it came from are `row.*`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column not in table.column_names:
        raise InputError(f"no column {column}; there are: {', '.join(table.column_names)}")
    lists = table[column].combine_chunks()
    items, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
    names, arrays = [], []
    if pa.types.is_struct(items.type):
        for index, field in enumerate(items.type):
            names.append(field.name)
            arrays.append(pc.struct_field(items, [index]))
    else:
        names.append("item")
        arrays.append(items)
    for name in table.column_names:
        kind = table[name].type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or name.startswith("row."):
            continue
        names.append(f"row.{name}")
        arrays.append(table[name].take(rows))
    return pa.table(arrays, names=names)


def _flatten(table: "pa.Table") -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    names: list[str] = []
    arrays: list[Any] = []

    def add(name: str, values: Any) -> None:
        kind = values.type
        if pa.types.is_struct(kind):
            for index, field in enumerate(kind):
                add(f"{name}.{field.name}", pc.struct_field(values, [index]))
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            add(f"{name}.length", pc.binary_length(values))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            add(f"{name}.length", pc.list_value_length(values))
            if pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type):
                lists = values.to_pylist()
                for index in range(4):
                    picked = [None if items is None or len(items) <= index else items[index] for items in lists]
                    add(f"{name}.{index}", pa.array(picked, pa.float64()))
        else:
            names.append(name)
            arrays.append(values)

    for name in table.column_names:
        add(name, table[name].combine_chunks())
    return pa.table(arrays, names=names)
