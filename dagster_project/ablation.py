"""hesper ablate: what each part of distillation gives, variant against the settings of params.yaml.

A variant is a change of the section `distilled_model`; or reinforcement learning in all domains together, with what the
five teachers took, instead of distillation. Every variant and every seed is a run of the real stage, in a folder of its
own that borrows the project's code and inputs. What it answers on the held-out samples is kept, so that an interrupted
ablation goes on where it was. Variants are compared sample by sample, seeds together.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field, model_validator

from assets.agent.samples import DOMAINS
from assets.checkpoints import distilled_model, rl_checkpoint
from assets.errors import InfrastructureError, ParameterError, with_exit_code
from assets.reporting import MlflowRun, connect
from assets.stage import (
    StageEntry,
    StageParameters,
    directory_id,
    find_stage,
    input_ids,
    load_section,
    load_yaml,
    tied_environment,
    validate_section,
)
from assets.statistics import Interval, stratified_paired_bootstrap

if TYPE_CHECKING:
    from PIL.Image import Image

CONFIGURED = "as configured"
"""The variant that changes nothing."""
AVERAGED = "weights averaged, not trained"
"""What is measured at the start of the configured runs, where that is the average of the teachers."""

Outcomes = dict[str, dict[tuple[int, str], tuple[str, bool, bool, bool]]]
"""domain -> (seed, sample) -> its group, and whether start, teacher and student were right."""


class Ablation(StageParameters):
    """Section `ablation` of params.yaml.

    Attributes:
        seeds: runs of each variant.
        variants: name -> what it changes of the section `distilled_model`; nested mappings are merged.
        joint: name -> what it changes of the section `rl_checkpoint` for one run over all domains, which takes as many
            steps as the runs of the single domains together.
    """

    seeds: int = Field(ge=1)
    variants: dict[str, dict[str, Any]]
    joint: dict[str, dict[str, Any]]

    @model_validator(mode="after")
    def _names_are_different(self) -> Ablation:
        if twice := sorted(set(self.variants) & set(self.joint)):
            raise ValueError(f"'{twice[0]}' stands in both variants and joint")
        return self


@dataclass(frozen=True)
class Variant:
    """What is run for a row of the table: a stage with a section of its own, from inputs with these ids."""

    entry: StageEntry
    section: Mapping[str, Any]
    inputs: Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """A variant in the table.

    Attributes:
        accuracy: mean over the domains of the share of held-out samples answered right.
        against: that of the settings of params.yaml, sample by sample; None for those themselves.
        teachers: against each domain's own teacher.
    """

    name: str
    seeds: int
    accuracy: float
    against: Interval | None
    teachers: Interval


def ablate(
    root: Path, names: Sequence[str], seeds: int | None, say: Callable[[str], None] = lambda line: None
) -> list[Row]:
    """Run the variants named (all where none is), compare them, and record the comparison in MLflow.

    Raises:
        ParameterError: no such variant, or its changes are none of the stage's parameters.
        InputError: the checkpoints that distillation starts from are not there.
        HesperError: what a run failed with.
    """
    settings = load_section(root / "params.yaml", "ablation", Ablation)
    known = [*settings.variants, *settings.joint]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ParameterError(f"no variant '{unknown[0]}' in params.yaml; there are: {', '.join(known)}")
    entry = find_stage(root, "distilled_model", None)
    configured = load_yaml(root / "params.yaml")["distilled_model"]
    inputs = input_ids(root, entry)
    variants = {CONFIGURED: Variant(entry, configured, inputs)}
    for name in names or known:
        if name in settings.joint:
            variants[name] = _joint(root, name, settings.joint[name])
            continue
        section = merge(configured, settings.variants[name])
        validate_section(section, f"ablation.variants.{name}", distilled_model.Parameters, "params.yaml")
        variants[name] = Variant(entry, section, inputs)
    count = seeds or settings.seeds
    found: dict[str, Outcomes] = {}
    for name, variant in variants.items():
        for seed in range(count):
            say(f"{name}, seed {seed + 1} of {count}")
            outcomes = _read(_outcomes(root, variant, seed), seed, found.get(CONFIGURED, {}))
            for domain, cases in outcomes.items():
                found.setdefault(name, {}).setdefault(domain, {}).update(cases)
    rows = compare(found, count, averaged=configured["start"] == "average")
    _record(root, inputs, settings, rows)
    return rows


def _joint(root: Path, name: str, changes: Mapping[str, Any]) -> Variant:
    """Reinforcement learning in all domains: the steps of all single runs, and what measures distillation measures it.

    All that is counted in steps grows alike, so that it is measured and saved as often as a single run.
    """
    document = load_yaml(root / "params.yaml")
    section = merge(document["rl_checkpoint"], changes)
    validate_section(section, f"ablation.joint.{name}", rl_checkpoint.Parameters, "params.yaml")
    counted = ("steps", "warmup", "evaluate_every", "checkpoint_every")
    longer = {key: section["optimisation"][key] * len(DOMAINS) for key in counted}
    measurement = document["distilled_model"]["measurement"]
    section = merge(section, {"optimisation": longer, "measurement": measurement})
    single = find_stage(root, "rl_checkpoint", DOMAINS[0])
    entry = replace(single, partition=rl_checkpoint.JOINT, output=f"models/rl/{rl_checkpoint.JOINT}")
    return Variant(entry, section, input_ids(root, single))


def merge(section: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The section with the changes in it."""
    merged = dict(section)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def compare(found: Mapping[str, Outcomes], seeds: int, averaged: bool) -> list[Row]:
    """The rows of the table. Samples are compared with themselves, and resampled by their groups (screens, episodes),
    all seeds of a group together."""
    reference = found[CONFIGURED]
    rows = [_row(name, outcomes, reference, seeds, 3) for name, outcomes in found.items()]
    if averaged:
        rows.insert(1, _row(AVERAGED, reference, reference, seeds, 1))
    return rows


def _row(name: str, outcomes: Outcomes, reference: Outcomes, seeds: int, column: int) -> Row:
    """`column` is where an outcome stands that is compared: 1 start, 3 student."""
    against, taught, shares = [], [], []
    for domain, cases in sorted(outcomes.items()):
        keys = sorted(cases)
        groups = [cases[key][0] for key in keys]
        mine = [float(cases[key][column]) for key in keys]
        against.append(([float(reference[domain][key][3]) for key in keys], mine, groups))
        taught.append(([float(cases[key][2]) for key in keys], mine, groups))
        shares.append(sum(mine) / len(mine))
    difference = None if name == CONFIGURED else stratified_paired_bootstrap(against, seed=0)
    return Row(name, seeds, sum(shares) / len(shares), difference, stratified_paired_bootstrap(taught, seed=0))


# --- one run ---------------------------------------------------------------------------------------------------------


def _outcomes(root: Path, variant: Variant, seed: int) -> Path:
    """The file of what a model trained with a seed answers; from an earlier run where there was one."""
    entry, inputs = variant.entry, variant.inputs
    params = {"seed": seed, "agent": load_yaml(root / "params.yaml")["agent"], entry.name: variant.section}
    source = {path: directory_id(root / path) for path in entry.source if (root / path).is_dir()}
    key = hashlib.sha256(json.dumps([inputs, params, source], sort_keys=True).encode()).hexdigest()[:16]
    kept = root / ".hesper" / "ablation" / f"{key}.parquet"
    if not kept.is_file():
        folder = kept.with_suffix("")
        _lay(root, folder, variant, params)
        _run(folder, entry)
        shutil.copyfile(folder / entry.output / "outcomes.parquet", kept.with_suffix(".partial"))
        os.replace(kept.with_suffix(".partial"), kept)
        shutil.rmtree(folder)
    return kept


def _lay(root: Path, folder: Path, variant: Variant, params: Mapping[str, Any]) -> None:
    """A project that borrows everything but its parameters, and a partition that the project's own lacks. One that was
    left by a killed run is gone on with."""
    folder.mkdir(parents=True, exist_ok=True)
    entry = variant.entry
    lineage = () if entry.partition else ("dvc.yaml",)
    for path in ("assets", *lineage, *variant.inputs):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(root / path)
    if entry.partition:
        stage = load_yaml(root / "dvc.yaml")["stages"][entry.name]
        stage["matrix"] = {key: [entry.partition] for key in stage["matrix"]}
        (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": {entry.name: stage}}), encoding="utf-8")
    (folder / "params.yaml").write_text(yaml.safe_dump(dict(params), sort_keys=False), encoding="utf-8")


def _run(folder: Path, entry: StageEntry) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "HESPER"))}
    environment |= {"HESPER_TRACKING": "off", **tied_environment()}
    command = [sys.executable, "-m", "assets", entry.name]
    command += ["--partition", entry.partition] if entry.partition else []
    done = subprocess.run(command, cwd=folder, env=environment, check=False)
    if done.returncode:
        message = f"{entry.address} in {folder} ended with exit code {done.returncode}; its message is above"
        raise with_exit_code(done.returncode, message) or InfrastructureError(message)


def _read(file: Path, seed: int, reference: Outcomes) -> Outcomes:
    """Outcomes of a run. Joint reinforcement learning asks no teacher: what those answered stands in `reference`, in
    the domains that have one there."""
    import pyarrow.parquet as pq

    outcomes: Outcomes = {}
    for row in pq.read_table(file).to_pylist():
        domain, key = row["domain"], (seed, row["sample"])
        if "student" in row:
            case = (row["group"], row["start"], row["teacher"], row["student"])
        elif domain in reference:
            case = (row["group"], row["midtrained"], reference[domain][key][2], row["trained"])
        else:
            continue
        outcomes.setdefault(domain, {})[key] = case
    return outcomes


# --- the table -------------------------------------------------------------------------------------------------------


def as_markdown(rows: Sequence[Row]) -> str:
    """The table."""
    lines = [
        "| variant | seeds | mean of the domains | against configured | against teachers |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        against = "" if row.against is None else str(row.against)
        lines.append(f"| {row.name} | {row.seeds} | {row.accuracy:.3f} | {against} | {row.teachers} |")
    return "\n".join(lines) + "\n"


def _record(root: Path, inputs: Mapping[str, str], settings: Ablation, rows: Sequence[Row]) -> None:
    """A run of its own in MLflow: the table, a picture of the differences, and each as a metric."""
    run = MlflowRun.start(root, "ablation", None, inputs, settings.model_dump(mode="json"))
    client = connect(root)
    client.log_text(run.run_id, as_markdown(rows), "tables/ablation.md")
    client.log_image(run.run_id, draw(rows), "pictures/ablation.png")
    for row in rows:
        name = "".join(character if character.isalnum() else "_" for character in row.name)
        client.log_metric(run.run_id, f"accuracy/{name}", row.accuracy)
        if row.against is not None:
            for part, value in (("", row.against.value), ("/low", row.against.low), ("/high", row.against.high)):
                client.log_metric(run.run_id, f"difference/{name}{part}", value)
    client.set_terminated(run.run_id, "FINISHED")


def draw(rows: Sequence[Row]) -> Image:
    """Each variant's difference to the configured settings, with its interval."""
    import io

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure
    from PIL import Image

    compared = [(row.name, row.against) for row in reversed(rows) if row.against is not None]
    figure = Figure(figsize=(7, 1 + 0.4 * len(compared)), dpi=90, layout="constrained")
    axes = figure.add_subplot()
    for place, (_, interval) in enumerate(compared):
        axes.plot([interval.low, interval.high], [place, place], color="C0")
        axes.plot(interval.value, place, "o", color="C0")
    axes.axvline(0, color="grey", linewidth=1)
    axes.set_yticks(range(len(compared)), [name for name, _ in compared], fontsize=8)
    axes.set_xlabel("mean accuracy of the domains, minus that of the configured settings", fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return Image.open(buffer)
