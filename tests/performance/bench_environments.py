"""The catalogue: how long it takes to probe every app of both scales, all screens and pages of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from tests.performance.__main__ import Comparison

ROOT = Path(__file__).parents[2]
PROMISED = 5.0
"""Minutes on two cores."""


def whole_catalogue() -> Iterator[Comparison]:
    """The stage, once, as `params.yaml` has it but for the scales."""
    minutes, found = probed(most=0)
    yield Comparison(
        name="probe_catalogue",
        work=f"{found['apps'] + found['broken']} apps of both scales and their {found['screens']} screens, probed",
        peer="promised",
        ours=lambda: minutes,
        theirs=PROMISED,
        unit="minutes",
        runs=1,
        note=f"{found['broken']} broken, {found['screens_reached']} screens reached",
    )


def probed(most: int) -> tuple[float, dict[str, int]]:
    """Minutes that the stage takes for so many apps of each kind, scale and split (0: all), and its metrics."""
    parameters = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    parameters["environments"] |= {"scales": ["small", "full"], "most": most}
    with tempfile.TemporaryDirectory(prefix="hesper-bench-") as folder:
        root = Path(folder)
        for name in ("assets", "dvc.yaml"):
            (root / name).symlink_to(ROOT / name)
        (root / "params.yaml").write_text(yaml.safe_dump(parameters, allow_unicode=True), encoding="utf-8")
        command = [sys.executable, "-m", "assets", "environments"]
        begun = time.perf_counter()
        subprocess.run(command, cwd=root, env={**os.environ, "HESPER_TRACKING": "off"}, check=True)
        seconds = time.perf_counter() - begun
        return seconds / 60, json.loads((root / "data/environments/metrics.json").read_text(encoding="utf-8"))


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"probe_catalogue": whole_catalogue}
