"""Collection of 5,000 steps: steps a second, and whether memory grows with what was collected."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import yaml

from tests.performance.__main__ import Comparison
from tests.performance.watched_stage import watch

ROOT = Path(__file__).parents[2]
STEPS = 5000
FIRST = 1000
"""Steps after which memory is compared with that at the end."""
STEPS_A_TASK = 9
"""On average: the oracle's way and an explorer's."""


def collection(platform: str) -> Iterator[Comparison]:
    """The stage as it is run, two processes, apps of one platform on screens of 192x192 pixels, oracle and explorer."""
    run = _collect(platform)
    yield Comparison(
        f"collection_{platform}_memory", f"memory of a run on {platform} after {STEPS} steps", f"after {FIRST}",
        lambda: run.last, run.first, runs=1, unit="megabytes",
        note="the stage, its processes, their browsers and ADB servers: private memory, mean over a tenth of the run; "
             f"highest {run.highest:.0f} MB; {run.steps} steps",
    )  # fmt: skip
    yield Comparison(
        f"collection_{platform}_writing_memory", f"memory while the tables of {STEPS} steps are written",
        f"playing, after {FIRST} steps", lambda: run.writing, run.first, runs=1, unit="megabytes",
        note="highest private memory from the last shard to the end",
    )  # fmt: skip
    yield Comparison(
        f"collection_{platform}_speed", f"{STEPS} steps with screenshot, thought, action and state digests",
        "what verification is to manage, 3 steps a second", lambda: run.seconds / run.steps, 1 / 3, runs=1,
        unit="seconds_a_step", note=f"{run.steps / run.seconds:.1f} steps a second, start and tables included",
    )  # fmt: skip


@dataclass(frozen=True)
class _Run:
    """Memory in megabytes, time in seconds."""

    steps: int
    seconds: float
    first: float
    last: float
    highest: float
    writing: float


def _collect(platform: str) -> _Run:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tasks = _project(root, platform)
        seconds, seen = watch(root, "collected_trajectories", lambda: _share_done(root, tasks))
        metrics: Mapping[str, Any] = yaml.safe_load((root / "data/collected_trajectories/metrics.json").read_text())
    playing = [(share, size) for share, size in seen if 0 < share < 1]
    start = FIRST / STEPS
    first = [size for share, size in playing if start <= share < start + 0.1]
    last = [size for share, size in playing if share >= 0.9]
    writing = [size for share, size in seen if share >= 1]
    return _Run(
        steps=int(metrics["steps"]),
        seconds=seconds,
        first=sum(first) / len(first),
        last=sum(last) / len(last),
        highest=max(size for _, size in seen),
        writing=max(writing, default=0.0),
    )


def _project(root: Path, platform: str) -> int:
    """A project with enough tasks of one platform; returns how many."""
    from assets.environments.apps import load_specs
    from assets.environments.task import task_schema, to_row
    from assets.generated_tasks.app_candidates import app_candidates
    from assets.generated_tasks.plan import Candidate, plan_to_json, solutions_schema
    from assets.stage import write_parquet

    (root / "assets").symlink_to(ROOT / "assets")
    shutil.copy(ROOT / "dvc.yaml", root)
    parameters = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    parameters["collected_trajectories"] |= {
        "tasks": {"mobile": 0, "web": 0, "desktop": 0},
        "mistaken": 0.0,
        "failures": {"explorer": 1.0},
    }
    (root / "params.yaml").write_text(yaml.safe_dump(parameters), encoding="utf-8")
    count = STEPS // STEPS_A_TASK
    rng = random.Random(1)
    specs = [spec for spec in load_specs().values() if spec.platform == platform]
    pools = [app_candidates(spec, 1, spec.theme, 3, rng) for spec in specs]
    longer = [[candidate for candidate in pool if len(candidate.plan) >= 3] for pool in pools]
    turns: Iterator[Candidate] = (rng.choice(pool) for pool in cycle(pool for pool in longer if pool))
    rows, solutions = [], []
    for number, candidate in enumerate(islice(turns, count)):
        identity = f"t-{number:05d}"
        rows.append({**to_row(candidate.task), "id": identity})
        solutions.append({"task_id": identity, "family": identity, "plan": plan_to_json(candidate.plan)})
    folder = root / "data" / "generated_tasks"
    folder.mkdir(parents=True)
    write_parquet(folder / "tasks.parquet", rows, task_schema())
    write_parquet(folder / "solutions.parquet", solutions, solutions_schema())
    return count


def _share_done(root: Path, tasks: int) -> float:
    size = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))["collected_trajectories"]["shard"]
    done = [path for path in (root / ".hesper/work").glob("*/*/shard-*") if not path.suffix]
    return min(1.0, len(done) * size / tasks)


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {
    f"collection_{platform}": partial(collection, platform) for platform in ("mobile", "web")
}
