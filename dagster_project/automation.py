"""What happens by itself once somebody turns it on: retraining on a schedule, and new data taken in from an inbox.

- `retrain` (schedule): the verdicts of the last round become feedback for the next round's capability catalogue, then
  the lineage is brought up to date.
- `new_data` (sensor): a batch of trajectories that lies in the inbox is checked, versioned with DVC and becomes a
  partition of `imported_batches`. A broken batch goes to `quarantine` in the inbox with a file that says why.
- `changed_upstream` (automation sensor): an asset is materialised when something it is made from has new bytes.

All three are off until turned on in Dagster.
"""

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.errors import HesperError, InputError
from assets.stage import StageParameters, directory_id, load_section, load_yaml
from dagster_project import launch
from dagster_project.checks import suites, validate
from dagster_project.materialise import Project

IMPORTED = "imported_batches"
FEEDBACK = "feedback"
REVIEWS = "reviews"
VERIFIED = "verified_trajectories"
COLLECTED = "collected_trajectories"
TABLES = ("episodes.parquet", "steps.parquet")

BATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Automation(StageParameters):
    """Section `automation` of params.yaml."""

    inbox: str = Field("inbox", description="folder that is watched for new batches")
    retrain_at: str = Field("0 3 * * 0", description="cron expression of the retraining schedule, UTC")
    settle_seconds: float = Field(10.0, ge=0, description="a batch is taken when none of its files changed for so long")


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
        refused = take_inbox(project, load_automation(project.root))
        for name, reason in refused.items():
            context.log.warning(f"{name}: {reason}")
        known = set(context.instance.get_dynamic_partitions(IMPORTED))
        new = {name: identity for name, identity in batches(project).items() if name not in known}
        if not new:
            return dg.SkipReason(f"no new batch; {len(refused)} refused")
        partitions = dg.DynamicPartitionsDefinition(name=IMPORTED)
        return dg.SensorResult(
            dynamic_partitions_requests=[partitions.build_add_request(sorted(new))],
            asset_events=[
                dg.AssetMaterialization(
                    IMPORTED, partition=name, tags={"dagster/data_version": identity}, metadata={"dvc_id": identity}
                )
                for name, identity in sorted(new.items())
            ],
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


# --- the inbox -------------------------------------------------------------------------------------------------------


def take_inbox(project: Project, settings: Automation) -> dict[str, str]:
    """Version every good batch of the inbox and set the broken ones aside. Returns batch -> reason of the refused."""
    inbox = project.root / settings.inbox
    target = project.root / project.lineage.external[IMPORTED]
    refused: dict[str, str] = {}
    if inbox.is_dir():
        for batch in sorted(inbox.iterdir()):
            if batch.name in ("quarantine", ".gitkeep") or not _settled(batch, settings.settle_seconds):
                continue
            try:
                check_batch(batch)
                if (target / batch.name).exists():
                    raise InputError(f"a batch named {batch.name} was imported before: names are for ever")
                _move(batch, target / batch.name)
            except InputError as error:
                refused[batch.name] = str(error)
                _quarantine(inbox / "quarantine", batch, str(error))
    for batch in sorted(target.iterdir()):
        if (
            batch.is_dir()
            and not batch.name.endswith(".partial")
            and not batch.with_name(f"{batch.name}.dvc").is_file()
        ):
            project.versions.add(batch)  # also what a process that was killed after the move left undone
    return refused


def batches(project: Project) -> dict[str, str]:
    """Name -> DVC id of every imported batch."""
    folder = project.root / project.lineage.external[IMPORTED]
    found = {}
    for file in sorted(folder.glob("*.dvc")):
        found[file.stem] = str(load_yaml(file)["outs"][0]["md5"])
    return found


def check_batch(batch: Path) -> None:
    """Whether a folder is a batch of trajectories in this project's format.

    Raises:
        InputError: saying what is wrong with it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from assets.environments.trajectory import episodes_schema, steps_schema

    if not BATCH_NAME.fullmatch(batch.name):
        raise InputError(f"the name {batch.name!r} is not made of letters, digits, '.', '_' and '-'")
    if batch.is_symlink() or not batch.is_dir():
        raise InputError("a batch is a folder")
    for path in sorted(batch.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.name not in TABLES or path.parent != batch:
            raise InputError(f"{path.relative_to(batch)} does not belong in a batch; it holds {' and '.join(TABLES)}")
    for name, schema in zip(TABLES, (episodes_schema(), steps_schema()), strict=True):
        if not (batch / name).is_file():
            raise InputError(f"{name} is missing")
        try:
            found = pq.read_schema(batch / name)
            pq.ParquetFile(batch / name).read()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{name} can't be read: {error}") from None
        for field in schema:
            if field.name not in found.names:
                raise InputError(f"{name} has no column {field.name}")
            if found.field(field.name).type != field.type:
                raise InputError(f"{name}: column {field.name} is {found.field(field.name).type}, not {field.type}")
    for table, suite in suites()[COLLECTED].items():
        _, findings = validate(batch, table, suite)
        if findings:
            raise InputError("; ".join(f"{table}: {item.expectation}, {item.failing} failing" for item in findings))


def _settled(batch: Path, seconds: float) -> bool:
    try:
        times = [path.lstat().st_mtime for path in (batch, *batch.rglob("*"))]
    except FileNotFoundError:
        return False
    return time.time() - max(times) >= seconds


def _move(source: Path, target: Path) -> None:
    """Move a folder so that it is either there whole or not at all, across file systems too."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, partial)
    if directory_id(partial) != directory_id(source):
        raise InputError("it changed while it was copied")
    os.replace(partial, target)
    shutil.rmtree(source)


def _quarantine(folder: Path, batch: Path, reason: str) -> None:
    folder.mkdir(exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", batch.name) or "batch"
    place, number = folder / name, 1
    while place.exists() or place.is_symlink():
        number += 1
        place = folder / f"{name}.{number}"
    os.replace(batch, place)
    place.with_name(f"{place.name}.reason.txt").write_text(reason + "\n", encoding="utf-8")
