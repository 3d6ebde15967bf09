"""The Dagster graph that dvc.yaml gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import dagster as dg
import pytest
import yaml
from pydantic import Field

from assets.stage import DATA_FOLDERS, StageParameters
from dagster_project.lineage import config_schema, numbered_groups, read_lineage
from dagster_project.versions import Versions
from tests.toy import HERE, clean_environment, hesper, make_toy

SNAPSHOT = Path(__file__).with_name("asset_graph.json")


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    from dagster_project.definitions import defs

    return defs


def graph(definitions: dg.Definitions) -> dict[str, Any]:
    """Everything a team sees of the graph, in words."""
    resolved = definitions.resolve_asset_graph()
    found = {}
    for key in resolved.get_all_asset_keys():
        node = resolved.get(key)
        definition = node.assets_def
        partitions = node.partitions_def
        found[key.to_user_string()] = {
            "group": node.group_name,
            "description": node.description,
            "kinds": sorted(node.kinds),
            "pools": sorted(node.pools or ()),
            "op_tags": dict(sorted((definition.op.tags if definition.is_executable else {}).items())),
            "deps": {
                parent.to_user_string(): type(node.partition_mappings.get(parent)).__name__
                for parent in sorted(node.parent_keys)
            },
            "partitions": (
                partitions.get_partition_keys() if isinstance(partitions, dg.StaticPartitionsDefinition) else
                type(partitions).__name__ if partitions is not None else None
            ),
            "executable": definition.is_executable,
            "checks": sorted(check.name for check in resolved.asset_check_keys if check.asset_key == key),
        }  # fmt: skip
    return {name: found[name] for name in sorted(found)}


def test_asset_graph_is_the_snapshot(definitions: dg.Definitions) -> None:
    text = json.dumps(graph(definitions), indent=1, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        SNAPSHOT.write_text(text, encoding="utf-8")
    assert text == SNAPSHOT.read_text(encoding="utf-8"), "if this is meant: UPDATE_SNAPSHOTS=1 pytest"


def test_groups_sort_in_lineage_order(definitions: dg.Definitions) -> None:
    lineage = read_lineage(Versions(HERE), DATA_FOLDERS)
    groups = numbered_groups(lineage)
    shown = {stage.name: groups[str(stage.meta["group"])] for stage in lineage.stages}
    for stage in lineage.stages:
        for upstream in lineage.upstream(stage.name):
            if upstream in shown and shown[upstream] != shown[stage.name]:
                assert lineage.order().index(upstream) < lineage.order().index(stage.name)
    assert list(groups.values()) == sorted(groups.values())


def test_a_stage_added_to_dvc_yaml_appears_with_no_other_change(tmp_path: Path) -> None:
    root = make_toy(tmp_path / "project")
    document = yaml.safe_load((root / "dvc.yaml").read_text())
    document["stages"]["extra"] = {
        "desc": "One more.",
        "cmd": "python -m assets extra",
        "deps": ["assets/stage.py", "reports/joined", "models/split/red"],
        "params": ["seed"],
        "outs": [{"reports/extra": {"persist": True}}],
        "meta": {"group": "reports", "kinds": ["json"], "pool": "cpu", "op_tags": {"team": {"name": "eval"}}},
    }
    (root / "dvc.yaml").write_text(yaml.safe_dump(document))
    program = (
        "from dagster_project.definitions import defs\n"
        "import dagster as dg\n"
        "node = defs.resolve_asset_graph().get(dg.AssetKey('extra'))\n"
        "print(sorted(key.to_user_string() for key in node.parent_keys), node.group_name, node.description,"
        " sorted(node.kinds), node.pools, node.assets_def.op.tags['team'],"
        " type(node.partition_mappings[dg.AssetKey('split')]).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "['joined', 'split'] 3_reports One more. ['json'] {'cpu'} {\"name\": \"eval\"} "
        "SpecificPartitionsPartitionMapping"
    )


def test_partitions_map_as_the_paths_say(definitions: dg.Definitions) -> None:
    node = definitions.resolve_asset_graph().get(dg.AssetKey("distilled_model"))
    assert isinstance(node.partition_mappings[dg.AssetKey("rl_checkpoint")], dg.AllPartitionMapping)


class Nested(StageParameters):
    share: float = 0.5


class Colour(Enum):
    RED = "red"


class Example(StageParameters):
    rows: int
    rate: float = 0.1
    mode: Literal["fast", "slow"] = "fast"
    colour: Colour = Colour.RED
    sizes: tuple[int, ...] = (1, 2)
    limit: int | None = None
    nested: Nested = Nested()
    table: dict[str, float] = Field(default_factory=dict)


def test_parameters_become_typed_configuration_with_the_defaults_of_the_file() -> None:
    fields = config_schema(Example, "example", {"rows": 4, "rate": 0.2, "nested": {"share": 0.9}})

    @dg.op(config_schema=fields)
    def take(context) -> dict:  # type: ignore[no-untyped-def]
        return dict(context.op_config)

    @dg.job
    def job() -> None:
        take()

    taken = job.execute_in_process().output_for_node("take")
    assert taken == {
        "rows": 4, "rate": 0.2, "mode": "fast", "colour": "red", "sizes": [1, 2], "limit": None,
        "nested": {"share": 0.9}, "table": {},
    }  # fmt: skip
    for wrong in ({"rows": "many"}, {"mode": "medium"}, {"nested": {"part": 1}}, {"colours": "red"}):
        with pytest.raises(dg.DagsterInvalidConfigError):
            job.execute_in_process(run_config={"ops": {"take": {"config": wrong}}})


def test_launched_values_are_written_to_params_where_dvc_sees_them(tmp_path: Path) -> None:
    root = make_toy(tmp_path / "project")
    program = (
        "from dagster_project.definitions import defs, project\n"
        "from dagster_project import launch\n"
        "import dagster as dg\n"
        "job = defs.resolve_implicit_global_asset_job_def()\n"
        "config = {'ops': {'first': {'config': {'rows': 7}}}}\n"
        "done = job.execute_in_process(run_config=config, asset_selection=[dg.AssetKey('first')],"
        " instance=launch.open_instance(project.root))\n"
        "print(project.versions.changes('first'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env={**clean_environment(), "HESPER_TRACKING": "off"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
    text = (root / "params.yaml").read_text()
    assert "# a comment that stays" in text
    assert yaml.safe_load(text)["first"] == {"rows": 7, "pause": 0.0, "mode": "good"}
    assert len(json.loads((root / "data" / "first" / "rows.json").read_text())) == 7
    lock = yaml.safe_load((root / "dvc.lock").read_text())
    assert lock["stages"]["first"]["params"]["params.yaml"]["first"]["rows"] == 7


def test_external_folders_are_assets_that_nobody_runs(definitions: dg.Definitions) -> None:
    for name in ("imported_batches", "feedback", "reviews"):
        assert not definitions.resolve_asset_graph().get(dg.AssetKey(name)).is_executable


def test_automation_is_off_until_turned_on(definitions: dg.Definitions) -> None:
    assert {item.name: item.default_status for item in definitions.schedules} == {
        "retrain_weekly": dg.DefaultScheduleStatus.STOPPED
    }
    assert {item.name: item.default_status.name for item in definitions.sensors} == {
        "new_data": "STOPPED",
        "changed_upstream": "STOPPED",
    }


def test_selection_strings_work(toy_project: Path) -> None:
    """Dagster's selection grammar needs antlr4 4.13, DVC's Hydra part asks for 4.9: the lock decides for Dagster."""
    program = (
        "from dagster import AssetSelection; from dagster_project.definitions import defs;"
        "print(sorted(k.to_user_string() for k in AssetSelection.from_string('+split+')"
        ".resolve(defs.resolve_asset_graph())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=toy_project, env=clean_environment(), capture_output=True, text=True
    )
    assert done.stdout.strip() == "['joined', 'second', 'split']", done.stderr
    assert hesper(toy_project, "status", "first").returncode == 0
