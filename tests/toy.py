"""A small project with the real machinery and trivial stages, for tests that are about the machinery."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent

STAGE = """
import json, time
import pyarrow as pa
from assets.errors import InfrastructureError
from assets.stage import Stage, StageParameters, write_parquet

class Parameters(StageParameters):
    rows: int = 4
    pause: float = 0.0
    mode: str = "good"

def run(stage: Stage[Parameters]) -> None:
    total = 0
    for path in stage.inputs:
        for file in sorted(stage.input(path).glob("rows.json")):
            total += sum(json.loads(file.read_text()))
    time.sleep(stage.parameters.pause)
    if stage.parameters.mode == "broken":
        raise InfrastructureError("the toy machine is on fire")
    if stage.parameters.mode == "bug":
        raise KeyError("nobody thought of this")
    rows = [total + stage.rng("rows", i).randrange(100) for i in range(stage.parameters.rows)]
    (stage.output / "rows.json").write_text(json.dumps(rows))
    for i, row in enumerate(rows):
        stage.metric("row", row, i)
    stage.summary(total=total)
    stage.table("rows", ["i", "row"], [(i, r) for i, r in enumerate(rows)])
"""

DVC = """
stages:
  first:
    desc: Numbers.
    cmd: python -m assets first
    deps: [assets/stage.py, assets/links]
    params: [seed, first]
    outs: [data/first: {persist: true}]
    meta: {group: numbers, kinds: [json], pool: cpu, gpus: 1}
  second:
    desc: More numbers.
    cmd: python -m assets second
    deps: [assets/stage.py, data/first, data/incoming]
    params: [seed, second]
    outs: [data/second: {persist: true}]
    meta: {group: numbers, kinds: [json], pool: cpu}
  split:
    desc: One for each colour.
    matrix:
      colour: [red, blue]
    cmd: python -m assets split --partition ${item.colour}
    deps: [assets/stage.py, data/second]
    params: [seed, split]
    outs: ["models/split/${item.colour}": {persist: true}]
    meta: {group: models, kinds: [huggingface], pool: gpu}
  joined:
    desc: All colours together.
    cmd: python -m assets joined
    deps: [assets/stage.py, models/split/red, models/split/blue]
    params: [seed, joined]
    outs: [reports/joined: {persist: true}]
    meta: {group: reports, pool: cpu}
"""

PARAMS = """
# a comment that stays
seed: 3
first: {rows: 4, pause: 0.0, mode: good}
second: {rows: 3}
split: {rows: 2}
joined: {rows: 2}
"""


def make_toy(root: Path) -> Path:
    """Write the toy project into `root`."""
    (root / "assets" / "links").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "stage.py", "reporting.py", "errors.py"):
        shutil.copyfile(HERE / "assets" / name, root / "assets" / name)
    shutil.copytree(HERE / "dagster_project", root / "dagster_project", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "infra").mkdir()
    shutil.copyfile(HERE / "infra" / "dagster.yaml", root / "infra" / "dagster.yaml")
    (root / "assets" / "links" / "__init__.py").touch()
    for name in ("first", "second", "split", "joined"):
        (root / "assets" / "links" / f"{name}.py").write_text(STAGE)
    (root / "data" / "incoming").mkdir(parents=True)
    (root / "data" / "incoming" / ".gitkeep").touch()
    (root / "dvc.yaml").write_text(DVC)
    (root / "params.yaml").write_text(PARAMS)
    shutil.copyfile(HERE / ".dvcignore", root / ".dvcignore")
    (root / ".gitignore").write_text("__pycache__/\n/.hesper/\n/data/*\n!/data/incoming/\n/models/\n/reports/\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".dvc").mkdir()
    shutil.copyfile(HERE / ".dvc" / "config", root / ".dvc" / "config")
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "toy"], cwd=root, check=True
    )
    return root


def hesper(root: Path, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `hesper ...` of the copy in `root`."""
    done = subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", *arguments],
        cwd=root,
        env={**clean_environment(), **environment},
        text=True,
        capture_output=True,
        check=False,
        timeout=1800,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"hesper {arguments} gave {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def clean_environment() -> dict[str, str]:
    """This process's environment without what would lead the copy astray."""
    drop = ("DAGSTER_", "HESPER_", "MLFLOW_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}", "OMP_NUM_THREADS": "1"}
