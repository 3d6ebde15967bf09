"""make bench [ONLY=name]: run the benchmarks one after another and write reports/bench.json.

One record a row: `name, work, peer, peer_seconds, ours_seconds, ratio, runs, spread, machine` (or another unit in place
of seconds). Times are medians in
seconds for the same work, ours and the peer's runs taken in turn in one process; `spread` is the interquartile range
over the median of our runs. A benchmark is a function of tests/performance/bench_*.py named in its BENCHMARKS.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Comparison:
    """One piece of work done two ways.

    Attributes:
        work: what is done, with its size.
        peer: the named other way of doing it.
        ours, theirs: callables that do the work once; a figure in place of `theirs` is a published one.
        unit: what the figures count; other than seconds, the callables return them.
        units: how many units one call of each does, when they differ.
        runs: timed repetitions of each, after one warm-up.
        note: what else a reader must know to judge the ratio.
    """

    name: str
    work: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object] | float
    units: tuple[int, int] = (1, 1)
    runs: int = 5
    note: str = ""
    unit: str = "seconds"


def measure(comparison: Comparison) -> dict[str, object]:
    """Time both ways in turn and return the row of bench.json."""
    published = comparison.theirs if isinstance(comparison.theirs, float) else None
    comparison.ours()
    if callable(comparison.theirs):
        comparison.theirs()
    ours, theirs = [], [published] if published is not None else []
    for _ in range(comparison.runs):
        ours.append(_figure(comparison.ours, comparison.unit) / comparison.units[0])
        if callable(comparison.theirs):
            theirs.append(_figure(comparison.theirs, comparison.unit) / comparison.units[1])
    quartiles = statistics.quantiles(ours, n=4) if len(ours) > 1 else [ours[0]] * 3
    median_ours, median_theirs = statistics.median(ours), statistics.median(theirs)
    return {
        "name": comparison.name,
        "work": comparison.work,
        "peer": comparison.peer,
        f"ours_{comparison.unit}": median_ours,
        f"peer_{comparison.unit}": median_theirs,
        "ratio": median_theirs / median_ours,
        "runs": comparison.runs,
        "spread": (quartiles[2] - quartiles[0]) / median_ours,
        "note": comparison.note,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def main() -> None:
    """Run all benchmarks, or those whose name holds --only."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance")
    parser.add_argument("--only", default="", help="run the benchmarks whose name holds this text")
    only = parser.parse_args().only
    names = []
    rows = []
    for file in sorted(Path(__file__).parent.glob("bench_*.py")):
        module = importlib.import_module(f"tests.performance.{file.stem}")
        benchmarks: dict[str, Callable[[], Iterator[Comparison]]] = module.BENCHMARKS
        for name, make in benchmarks.items():
            names.append(name)
            if only in name:
                for comparison in make():
                    row = measure(comparison)
                    print(
                        f"{row['name']}: {row['work']}: ours {row[f'ours_{comparison.unit}']:.4g} {comparison.unit}, "
                        f"{row['peer']} {row[f'peer_{comparison.unit}']:.4g}, ratio {row['ratio']:.2f}",
                        flush=True,
                    )
                    rows.append(row)
    if not rows:
        raise SystemExit(f"no benchmark named '{only}'; known: {', '.join(names)}")
    path = Path("reports/bench.json")
    path.parent.mkdir(exist_ok=True)
    kept = []
    if only and path.exists():
        fresh = {row["name"] for row in rows}
        kept = [row for row in json.loads(path.read_text()) if row["name"] not in fresh]
    path.write_text(json.dumps(kept + rows, indent=1) + "\n")


def _figure(work: Callable[[], object], unit: str) -> float:
    """How long the work took, or what it returned where that is what is compared."""
    start = time.perf_counter()
    result = work()
    if unit == "seconds":
        return time.perf_counter() - start
    assert isinstance(result, float), "the callables of a comparison in another unit return its figure"
    return result


if __name__ == "__main__":
    main()
