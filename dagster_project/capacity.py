"""`hesper plan`: read a profile, and print what training its model needs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.errors import ParameterError

if TYPE_CHECKING:
    from rich.table import Table

    from assets.capacity.plan import Fit, Plan, StagePlan


def plan_training(
    params: Path,
    gpus: int,
    memory: Sequence[float],
    checkpointing: bool,
    rows: int | None,
    question_tokens: int | None,
    answer_tokens: int | None,
    teraflops: float | None,
    as_json: bool,
    console: Any,
) -> None:
    """Print the plan of a params file.

    Raises:
        ParameterError: the file is wrong, or nothing tells the shape of its model.
    """
    from transformers.utils import logging

    from assets.capacity.architecture import find_architecture
    from assets.capacity.plan import GPU_MEMORY, make_plan
    from assets.capacity.workload import Lengths, read_profile

    logging.set_verbosity_error()
    if teraflops is not None and not teraflops > 0:
        raise ParameterError("--teraflops must be more than 0")
    lengths = Lengths()
    lengths = Lengths(question_tokens or lengths.question, answer_tokens or lengths.answer, lengths.characters)
    profile = read_profile(params)
    architecture = find_architecture(profile.source)
    plan = make_plan(profile, architecture, gpus, memory or GPU_MEMORY, lengths, checkpointing, rows)
    if as_json:
        document = plan.as_json()
        if teraflops is not None:
            for stage in document["stages"]:
                stage["seconds_a_step_estimate"] = _seconds(stage["flops_a_step_estimate"], gpus, teraflops)
        print(json.dumps(document, indent=1))
        return
    _print(plan, teraflops, console)


def _print(plan: Plan, teraflops: float | None, console: Any) -> None:
    total = sum(plan.parameters.values())
    print(f"{plan.architecture.name}, {plan.gpus} GPU{'s' if plan.gpus > 1 else ''}: {total:,} weights")
    print("  " + ", ".join(f"{name} {count:,}" for name, count in plan.parameters.items() if count))
    console.print(_step_table(plan, teraflops))
    sizes = sorted(plan.recommended)
    for stages in plan.stages:
        console.print(_memory_table(stages))
    print("Peak of each stage on one GPU, in GiB, by ZeRO stage")
    console.print(_peak_table(plan))
    for size in sizes:
        zero = plan.recommended[size]
        advice = f"ZeRO {zero} fits all stages" if zero is not None else "no ZeRO stage fits all stages"
        print(f"{plan.gpus} x {size:g} GiB: {advice}")
        for fit in plan.fits:
            if fit.memory == size:
                print(f"  {fit.stage}: {_verdict(fit)}")
    print("This rests on:")
    for assumption in plan.assumptions:
        print(f"  {assumption}")
    for source in plan.architecture.sources:
        print(f"  {source}")


def _verdict(fit: Fit) -> str:
    if fit.zero is not None:
        return f"fits under ZeRO {fit.zero} ({fit.needed:.1f} GiB)"
    needed = f"does not fit ({fit.needed:.1f} GiB at least)"
    if fit.rows:
        return f"{needed}; it would under ZeRO 3 with --rows {fit.rows}"
    return f"{needed}, not even with one row in a pass"


def _step_table(plan: Plan, teraflops: float | None) -> Table:
    from rich.table import Table

    columns = [
        "a step, on all GPUs",
        "screenshots",
        "prefix tokens",
        "suffix tokens",
        "of them answers",
        "FLOP (estimate)",
    ]
    if teraflops is not None:
        columns.append(f"seconds at {teraflops:g} TFLOP/s a GPU (estimate)")
    table = Table(*columns)
    for stages in plan.stages:
        tokens, flops = stages[0].tokens, stages[0].flops
        row = [stages[0].stage, *(f"{n:,}" for n in (tokens.screens, tokens.prefix, tokens.suffix, tokens.answer))]
        row.append(f"{flops:.1e}")
        if teraflops is not None:
            row.append(f"{_seconds(flops, plan.gpus, teraflops):.0f}")
        table.add_row(*row)
    return table


def _memory_table(stages: Sequence[StagePlan]) -> Table:
    """Parts of the stage's phases under the ZeRO stages, in GiB."""
    from rich.table import Table

    shape = stages[0].largest
    title = (
        f"{stages[0].stage}: largest pass {shape.prefixes} screenshots of {shape.screen[0]}x{shape.screen[1]} "
        f"({shape.prefix_tokens} tokens each), {shape.rows} rows of {shape.suffix_tokens} tokens; GiB on one GPU"
    )
    columns = [(plan.zero, phase) for plan in (stages[0], stages[-1]) for phase in plan.phases]
    table = Table("", *(f"ZeRO {zero}: {phase.name}" for zero, phase in columns), title=title, title_justify="left")
    parts = dict.fromkeys(part for _, phase in columns for part in phase.parts)
    for part in parts:
        values = [phase.parts.get(part, 0) for _, phase in columns]
        if any(values):
            table.add_row(part, *(_gib(value) for value in values))
    table.add_row("total", *(_gib(phase.total) for _, phase in columns))
    return table


def _peak_table(plan: Plan) -> Table:
    from rich.table import Table

    table = Table("", *(f"ZeRO {item.zero}" for item in plan.stages[0]))
    for stages in plan.stages:
        table.add_row(stages[0].stage, *(f"{_gib(item.peak.total)} ({item.peak.name})" for item in stages))
    return table


def _gib(value: float) -> str:
    return f"{value / (1 << 30):.1f}" if value else ""


def _seconds(flops: float, gpus: int, teraflops: float) -> float:
    """FLOP over the arithmetic that all GPUs together really do in a second."""
    seconds = flops / (gpus * teraflops * 1e12)
    return round(seconds, 1) if seconds < 10 else math.ceil(seconds)
