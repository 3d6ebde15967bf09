"""What happens by itself once somebody turns it on: retraining on a schedule, and new data taken in from an inbox.

- `retrain` (schedule): the verdicts of the last round become feedback for the next round's capability catalogue, then
  the lineage is brought up to date.
- `new_data` (sensor): a batch of trajectories that lies in the inbox is read, checked, versioned with DVC and becomes a
  partition of `imported_batches`, see inbox.py. What is wrong with it goes to the quarantine, a reason each.
- `changed_upstream` (automation sensor): an asset is materialised when something it is made from has new bytes.

All three are off until turned on in Dagster.
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, model_validator

from assets.errors import HesperError, InfrastructureError
from assets.stage import StageParameters, load_section, load_yaml, validate_section
from dagster_project import launch
from dagster_project.inbox import IMPORTED, batches, open_inbox, take_inbox
from dagster_project.materialise import Project

if TYPE_CHECKING:
    from assets.verified_trajectories.imports.parameters import ImportParameters

FEEDBACK = "feedback"
REVIEWS = "reviews"
VERIFIED = "verified_trajectories"


class Automation(StageParameters):
    """Section `automation` of params.yaml."""

    inbox: str = Field("inbox", description="folder, or s3://bucket/prefix, that is watched for new batches")
    retrain_at: str = Field("0 3 * * 0", description="cron expression of the retraining schedule, UTC")
    settle_seconds: float = Field(10.0, ge=0, description="a batch is taken when none of its files changed for so long")
    imports: dict[str, Any] = Field({}, description="limits of what is taken from outside, see ImportParameters")

    @model_validator(mode="after")
    def _check_imports(self) -> "Automation":
        if self.imports:
            self.limits()
        return self

    def limits(self) -> "ImportParameters":
        """The limits, typed. Looked up late: a project without batches from outside has no such part."""
        from assets.verified_trajectories.imports.parameters import ImportParameters

        return validate_section(self.imports, "automation.imports", ImportParameters, "params.yaml")


def load_automation(root: Path) -> Automation:
    """Section `automation` of params.yaml, or its defaults."""
    params = root / "params.yaml"
    if "automation" in load_yaml(params):
        return load_section(params, "automation", Automation)
    return Automation.model_validate({})


def on_new_bytes() -> dg.AutomationCondition:
    """Materialise when an input has another data version; `eager()` would fire after a re-run with the same bytes."""
    condition = dg.AutomationCondition
    changed = condition.any_deps_match(condition.data_version_changed())
    return (changed & ~condition.any_deps_missing() & ~condition.in_progress()).with_label("an input has new bytes")


def external_specs() -> dict[str, dict[str, Any]]:
    """What is known of the assets that come from outside."""
    return {
        IMPORTED: {
            "description": "Trajectories from outside: demonstrations, data of other teams; a partition a batch.",
            "partitions_def": dg.DynamicPartitionsDefinition(name=IMPORTED),
        },
        FEEDBACK: {"description": "What earlier rounds completed and missed, by capability."},
        REVIEWS: {"description": "What people decided about episodes that the judges could not agree on."},
    }


def build_automation(project: Project) -> dg.Definitions:
    """Jobs, schedules and sensors of the project; none where nothing comes from outside."""
    if IMPORTED not in project.lineage.external:
        return dg.Definitions()
    settings = load_automation(project.root)

    @dg.op(name="retrain_lineage")
    def retrain_lineage(context) -> None:  # type: ignore[no-untyped-def]  # Dagster reads annotations
        from dagster_project.definitions import defs

        try:
            added = take_feedback(project)
            context.log.info(f"feedback of the last round: {added or 'none'}")
        except HesperError as error:
            raise dg.Failure(str(error), {"exit_code": error.exit_code}) from None
        names = [stage.name for stage in project.lineage.stages]
        outcomes = launch.materialise_lineage(
            defs,
            project,
            context.instance,
            names,
            lambda outcome: context.log.info(f"{outcome.address}: {outcome.state} {outcome.message}"),
            tags={"hesper/started_by": context.run.run_id},
        )
        for outcome in outcomes:
            if outcome.state == "failed":
                raise dg.Failure(f"{outcome.address}: {outcome.message}", {"exit_code": outcome.exit_code})

    @dg.job(name="retrain", description="Feed verdicts back, then bring the lineage up to date.")
    def retrain() -> None:
        retrain_lineage()

    @dg.sensor(
        name="new_data",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Takes batches from {settings.inbox}.",
    )
    def new_data(context) -> dg.SensorResult | dg.SkipReason:  # type: ignore[no-untyped-def]
        now = load_automation(project.root)
        try:
            inbox = open_inbox(project.root, now.inbox)
            arrivals = take_inbox(project, inbox, now.limits(), now.settle_seconds, wait=0)
        except InfrastructureError as error:
            return dg.SkipReason(str(error))
        for arrival in arrivals:
            (context.log.warning if arrival.rejections or arrival.refused else context.log.info)(str(arrival))
        added, events = unrecorded(project, context.instance)
        if not added and not events:
            return dg.SkipReason(f"no new batch; {sum(arrival.refused for arrival in arrivals)} refused")
        partitions = dg.DynamicPartitionsDefinition(name=IMPORTED)
        return dg.SensorResult(
            dynamic_partitions_requests=[partitions.build_add_request(added)] if added else [], asset_events=events
        )

    return dg.Definitions(
        jobs=[retrain],
        schedules=[
            dg.ScheduleDefinition(
                name="retrain_weekly",
                job=retrain,
                cron_schedule=settings.retrain_at,
                execution_timezone="UTC",
                default_status=dg.DefaultScheduleStatus.STOPPED,
            )
        ],
        sensors=[
            new_data,
            dg.AutomationConditionSensorDefinition(
                "changed_upstream", target=dg.AssetSelection.all(), default_status=dg.DefaultSensorStatus.STOPPED
            ),
        ],
    )


# --- imported batches -------------------------------------------------------------------------------------------------


def unrecorded(project: Project, instance: dg.DagsterInstance) -> tuple[list[str], list[dg.AssetMaterialization]]:
    """Partitions that Dagster doesn't have yet, and materialisations that it wasn't told of, of imported batches."""
    from assets.verified_trajectories.imports.batches import origin_of

    there = batches(project)
    events = []
    for name in sorted(there.keys() - instance.get_materialized_partitions(dg.AssetKey(IMPORTED))):
        origin = origin_of(project.root / project.lineage.external[IMPORTED] / name)
        told: dict[str, Any] = {key: origin[key] for key in ("format", "episodes", "rejections") if key in origin}
        tags = {"dagster/data_version": there[name]}
        events.append(
            dg.AssetMaterialization(IMPORTED, partition=name, tags=tags, metadata={"dvc_id": there[name], **told})
        )
    return sorted(there.keys() - set(instance.get_dynamic_partitions(IMPORTED))), events


def record(project: Project, instance: dg.DagsterInstance) -> None:
    """Tell Dagster of every imported batch that it doesn't know; the sensor does the same at its next tick."""
    added, events = unrecorded(project, instance)
    if added:
        instance.add_dynamic_partitions(IMPORTED, added)
    for event in events:
        instance.report_runless_asset_event(event)


# --- feedback --------------------------------------------------------------------------------------------------------


def take_feedback(project: Project) -> str | None:
    """Copy the last round's verdicts to `data/feedback`, named by the version they are from; None if already there.

    The copy is what keeps the lineage free of a cycle: a round reads the feedback of earlier ones.
    """
    stage = project.lineage.stage(VERIFIED)
    source = project.root / stage.output[None] / "feedback.json"
    identity = project.versions.output(VERIFIED).id
    if identity is None or not source.is_file():
        return None
    folder = project.root / project.lineage.external[FEEDBACK]
    target = folder / f"{identity.removesuffix('.dir')}.json"
    if target.is_file():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    shutil.copyfile(source, partial)
    os.replace(partial, target)
    return target.name
