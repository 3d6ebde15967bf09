"""hesper ablate: what each part of distillation gives, variant against the settings of params.yaml.

A variant is a change of the section `distilled_model`. Every variant and every seed is a run of the real stage, in a
folder of its own that borrows the project's code and inputs. What it answers on the held-out samples is kept, so that
an interrupted ablation goes on where it was. Variants are compared sample by sample, seeds together.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field

from assets.checkpoints.distilled_model import Parameters
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
    """

    seeds: int = Field(ge=1)
    variants: dict[str, dict[str, Any]]


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
    unknown = sorted(set(names) - set(settings.variants))
    if unknown:
        raise ParameterError(f"no variant '{unknown[0]}' in params.yaml; there are: {', '.join(settings.variants)}")
    entry = find_stage(root, "distilled_model", None)
    configured = load_yaml(root / "params.yaml")["distilled_model"]
    sections = {CONFIGURED: configured}
    for name in names or settings.variants:
        sections[name] = merge(configured, settings.variants[name])
        validate_section(sections[name], f"ablation.variants.{name}", Parameters, "params.yaml")
    inputs = input_ids(root, entry)
    count = seeds or settings.seeds
    found: dict[str, Outcomes] = {}
    for name, section in sections.items():
        for seed in range(count):
            say(f"{name}, seed {seed + 1} of {count}")
            outcomes = _outcomes(root, entry, inputs, section, seed)
            for domain, cases in outcomes.items():
                found.setdefault(name, {}).setdefault(domain, {}).update(cases)
    rows = compare(found, count, averaged=configured["start"] == "average")
    _record(root, inputs, settings, rows)
    return rows


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


def _outcomes(
    root: Path, entry: StageEntry, inputs: Mapping[str, str], section: Mapping[str, Any], seed: int
) -> Outcomes:
    """What a student trained with `section` and `seed` answers; from an earlier run where there was one."""
    params = {"seed": seed, "agent": load_yaml(root / "params.yaml")["agent"], entry.name: section}
    source = {path: directory_id(root / path) for path in entry.source if (root / path).is_dir()}
    key = hashlib.sha256(json.dumps([inputs, params, source], sort_keys=True).encode()).hexdigest()[:16]
    kept = root / ".hesper" / "ablation" / f"{key}.parquet"
    if not kept.is_file():
        folder = kept.with_suffix("")
        _lay(root, folder, inputs, params)
        _run(folder, entry)
        shutil.copyfile(folder / entry.output / "outcomes.parquet", kept.with_suffix(".partial"))
        os.replace(kept.with_suffix(".partial"), kept)
        shutil.rmtree(folder)
    return _read(kept, seed)


def _lay(root: Path, folder: Path, inputs: Mapping[str, str], params: Mapping[str, Any]) -> None:
    """A project that borrows everything but its parameters. One that was left by a killed run is gone on with."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in ("assets", "dvc.yaml", *inputs):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(root / path)
    (folder / "params.yaml").write_text(yaml.safe_dump(dict(params), sort_keys=False), encoding="utf-8")


def _run(folder: Path, entry: StageEntry) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "HESPER"))}
    environment |= {"HESPER_TRACKING": "off", **tied_environment()}
    done = subprocess.run([sys.executable, "-m", "assets", entry.name], cwd=folder, env=environment, check=False)
    if done.returncode:
        message = f"{entry.name} in {folder} ended with exit code {done.returncode}; its message is above"
        raise with_exit_code(done.returncode, message) or InfrastructureError(message)


def _read(file: Path, seed: int) -> Outcomes:
    import pyarrow.parquet as pq

    outcomes: Outcomes = {}
    for row in pq.read_table(file).to_pylist():
        case = (row["group"], row["start"], row["teacher"], row["student"])
        outcomes.setdefault(row["domain"], {})[seed, row["sample"]] = case
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
