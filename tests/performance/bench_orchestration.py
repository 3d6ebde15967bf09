"""What Dagster, DVC and MLflow cost around stages that do nothing: `hesper run` beside `dvc repro`."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.performance.__main__ import Comparison
from tests.toy import clean_environment, hesper, make_toy


def orchestration() -> Iterator[Comparison]:
    """The toy project: four stages, one of them in two partitions, each reporting to an MLflow run of its own."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = make_toy(Path(folder) / "ours"), make_toy(Path(folder) / "theirs")
        yield Comparison(
            name="orchestration_cached",
            work="5 unchanged assets recognised, from a cold start",
            peer="dvc repro",
            ours=lambda: hesper(ours, "run"),
            theirs=lambda: repro(theirs),
            note="Dagster's and MLflow's records of every asset are compared too",
        )
        seeds = itertools.count(100)
        yield Comparison(
            name="orchestration_ran",
            work="5 assets run, versioned and tracked in MLflow, from a cold start",
            peer="dvc repro, each stage keeping its own MLflow run",
            ours=lambda: hesper(reseed(ours, next(seeds)), "run"),
            theirs=lambda: repro(reseed(theirs, next(seeds))),
            note="divide by 5 for what an asset costs, start-up included",
        )


def repro(root: Path) -> None:
    """`dvc repro` in the copy."""
    command = [sys.executable, "-m", "dvc", "repro", "-q"]
    subprocess.run(command, cwd=root, env=clean_environment(), check=True, capture_output=True)


def reseed(root: Path, seed: int) -> Path:
    """Make every stage stale; returns `root`."""
    lines = (root / "params.yaml").read_text().splitlines()
    lines = [f"seed: {seed}" if line.startswith("seed:") else line for line in lines]
    (root / "params.yaml").write_text("\n".join(lines) + "\n")
    return root


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"orchestration": orchestration}
