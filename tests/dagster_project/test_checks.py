"""Suites: what they find in good and in spoiled tables, and the checks they become."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.errors import InputError
from dagster_project import checks
from dagster_project.checks import check_name, read_flat, suites, validate
from dagster_project.lineage import Lineage, LineageStage

SUITE = [
    {"column_values_to_be_unique": {"column": "id"}},
    {"column_values_to_be_between": {"column": "image.bytes.length", "min_value": 3}},
]


def write(folder: Path, rows: list[dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    box = pa.struct([("label", pa.string()), ("box", pa.list_(pa.float32()))])
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("elements", pa.list_(box)),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "table.parquet")


def row(identity: str, size: int = 5, boxes: int = 2) -> dict:
    elements = [{"label": f"l{i}", "box": [0.0, 1.0, 2.0 + i, 3.0]} for i in range(boxes)]
    return {"id": identity, "image": {"bytes": b"x" * size, "path": "p"}, "elements": elements}


def test_tables_are_flat_and_lists_unfold(tmp_path: Path) -> None:
    write(tmp_path, [row("a"), row("b", boxes=0), row("c", boxes=1)])
    flat = read_flat(tmp_path, "table.parquet")
    assert list(flat.columns) == ["id", "image.bytes.length", "image.path", "elements.length"]
    assert flat["elements.length"].tolist() == [2, 0, 1]
    items = read_flat(tmp_path, "table.parquet > elements")
    assert items["row.id"].tolist() == ["a", "a", "c"]
    assert items["box.2"].tolist() == [2.0, 3.0, 2.0]
    with pytest.raises(InputError, match="no column nothing"):
        read_flat(tmp_path, "table.parquet > nothing")
    with pytest.raises(InputError, match=r"no file other\.parquet"):
        read_flat(tmp_path, "other.parquet")


def test_findings_name_the_expectation_and_show_the_rows(tmp_path: Path) -> None:
    write(tmp_path, [row("a"), row("a"), row("b", size=1)])
    rows, findings = validate(tmp_path, "table.parquet", SUITE)
    assert rows == 3
    assert [(item.expectation.split("(")[0], item.failing) for item in findings] == [
        ("expect_column_values_to_be_unique", 2),
        ("expect_column_values_to_be_between", 1),
    ]
    assert findings[0].rows.count("| a |") == 2
    assert "| b | 1 |" in findings[1].rows
    with pytest.raises(InputError, match="missing"):
        validate(tmp_path, "table.parquet", [{"column_values_to_not_be_null": {"column": "missing"}}])


def test_values_of_another_table(tmp_path: Path) -> None:
    write(tmp_path, [row("a"), row("b")])
    suite = [
        {"column_values_to_be_in_set": {"column": "row.id", "value_set": {"table": "table.parquet", "column": "id"}}}
    ]
    assert validate(tmp_path, "table.parquet > elements", suite)[1] == []


def test_every_suite_is_of_a_stage_and_has_expectations_that_exist() -> None:
    import great_expectations.expectations as gxe

    from dagster_project.definitions import project

    names = {stage.name for stage in project.lineage.stages}
    for asset, tables in suites().items():
        assert asset in names
        assert len({check_name(table) for table in tables}) == len(tables)
        for suite in tables.values():
            for item in suite:
                ((name, arguments),) = item.items()
                cls = getattr(gxe, checks._class_name(name))
                if not isinstance(arguments.get("value_set"), dict):
                    cls(**arguments)


def test_a_failed_check_stops_what_is_downstream_and_results_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "suites", lambda: {"table": {"table.parquet": SUITE}})
    stage = LineageStage("table", "", "", {}, (), {None: "data/table"}, {None: ()}, (), None)
    lineage = Lineage((stage,), {}, {"data/table": ("table", None)})
    ran = []
    version = "1" * 32 + ".dir"

    @dg.asset
    def table() -> dg.MaterializeResult:
        return dg.MaterializeResult(data_version=dg.DataVersion(version))

    @dg.asset(deps=[table])
    def after() -> None:
        ran.append("after")

    validated = []
    real = checks.validate
    monkeypatch.setattr(checks, "validate", lambda *a: validated.append(a[1]) or real(*a))
    instance = dg.DagsterInstance.ephemeral()
    definitions = [table, after, *checks.build_checks(tmp_path, lineage)]

    write(tmp_path / "data" / "table", [row("a"), row("a")])
    result = dg.materialize(definitions, instance=instance, raise_on_error=False)
    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert "column_values_to_be_unique" in str(evaluation.description)
    assert any("| a |" in str(value.value) for value in evaluation.metadata.values())
    assert ran == []
    key = dg.AssetCheckKey(dg.AssetKey("table"), "table")
    assert not checks.passed(instance, key, version)

    write(tmp_path / "data" / "table", [row("a"), row("b")])
    version = "2" * 32 + ".dir"
    assert dg.materialize(definitions, instance=instance).success
    assert dg.materialize(definitions, instance=instance).success
    assert ran == ["after", "after"]
    assert validated == ["table.parquet", "table.parquet"]  # the third time the result was known
    assert checks.passed(instance, key, version)
    assert not checks.passed(instance, key, "3" * 32 + ".dir")
