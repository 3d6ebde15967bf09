"""The code location: everything Dagster shows of this project, assembled once from dvc.yaml."""

import os
from functools import partial
from pathlib import Path

import dagster as dg

from assets.stage import load_yaml, project_root
from dagster_project.automation import build_automation, external_specs, on_new_bytes
from dagster_project.checks import build_checks
from dagster_project.lineage import build_assets
from dagster_project.materialise import Project, materialise


def definitions(project: Project) -> dg.Definitions:
    """Everything Dagster shows of a project."""
    assets = build_assets(
        project.versions,
        project.lineage,
        partial(materialise, project),
        project.parameters,
        load_yaml(project.root / "params.yaml"),
        external_specs=external_specs(),
        automation_condition=on_new_bytes(),
        retry_policy=dg.RetryPolicy(max_retries=1, delay=5),
    )
    lineage = dg.Definitions(
        assets=assets,
        asset_checks=build_checks(project.root, project.lineage),
        executor=dg.in_process_executor,  # a stage is a process of its own already
    )
    return dg.Definitions.merge(lineage, build_automation(project))


project = Project.open(project_root(Path(os.environ["HESPER_ROOT"]) if "HESPER_ROOT" in os.environ else None))
defs = definitions(project)
