"""Copies of the project to run in: the toy, with the real machinery and trivial stages, and the smoke profile."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent.parent

STAGE = """
import json, os, signal, time
from assets.errors import InfrastructureError
from assets.stage import Stage, StageParameters

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
    if stage.parameters.mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if stage.parameters.mode == "large":
        (stage.output / "large").write_bytes(bytes(1 << 20))
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


def make_toy(root: Path, first_mode: str = "good", first_pause: float = 0.0) -> Path:
    """Write the toy project into `root`; `first_mode` says how its first stage fails."""
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
    (root / "params.yaml").write_text(
        PARAMS.replace("pause: 0.0, mode: good", f"pause: {first_pause}, mode: {first_mode}")
    )
    shutil.copyfile(HERE / ".dvcignore", root / ".dvcignore")
    (root / ".gitignore").write_text("__pycache__/\n/.hesper/\n/data/*\n!/data/incoming/\n/models/\n/reports/\n")
    return _start(root)


def make_smoke(root: Path) -> Path:
    """Copy the project into `root`, without what was made in it, with the smoke profile as params.yaml."""
    root.mkdir(parents=True)
    for name in ("assets", "dagster_project", "infra"):
        shutil.copytree(HERE / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dvc.yaml", ".dvcignore", ".gitignore", "pyproject.toml"):
        shutil.copyfile(HERE / name, root / name)
    shutil.copyfile(HERE / "infra" / "profiles" / "smoke.yaml", root / "params.yaml")
    for name in ("imported_batches", "feedback", "reviews"):
        (root / "data" / name).mkdir(parents=True)
        (root / "data" / name / ".gitkeep").touch()
    return _start(root)


def _start(root: Path) -> Path:
    (root / ".dvc").mkdir()
    shutil.copyfile(HERE / ".dvc" / "config", root / ".dvc" / "config")
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "start"]):
        subprocess.run(["git", *command], cwd=root, check=True)
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
        said = "\n".join(done.stderr.replace("\r", "\n").splitlines()[-20:])  # without all the progress
        raise AssertionError(f"hesper {arguments} gave {done.returncode}\n{done.stdout}\n{said}")
    return done


def clean_environment() -> dict[str, str]:
    """This process's environment without what would lead the copy astray."""
    drop = ("DAGSTER_", "HESPER_", "MLFLOW_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}", "OMP_NUM_THREADS": "1"}


def recorded_hashes(root: Path) -> dict[str, str]:
    """Output -> id in dvc.lock."""
    lock = yaml.safe_load((root / "dvc.lock").read_text())
    return {out["path"]: out["md5"] for stage in lock["stages"].values() for out in stage["outs"]}


def run_with_kills(root: Path, kills: int, seconds: float, seed: int, **environment: str) -> None:
    """`hesper run`, killed with -9 after random times of at most `seconds`, then once undisturbed.

    After each kill the cache must hold every output that dvc.lock records, whole: nothing broken is ever committed.
    """
    dice = random.Random(seed)
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster_project.cli", "run"],
            cwd=root,
            env={**clean_environment(), **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.2, seconds))
        process.kill()
        process.wait()
        if not (root / ".hesper" / "locks" / "dvc.lock.before").exists():  # else killed in a write: undone at the start
            check_cache(root)
    hesper(root, "run", check=True, **environment)
    check_cache(root)


def check_cache(root: Path) -> None:
    """Every output that dvc.lock records is in the cache, and its bytes are the ones its id names."""
    if not (root / "dvc.lock").is_file():
        return
    for path, identity in recorded_hashes(root).items():
        listing = _cached(root, identity).read_bytes()
        assert hashlib.md5(listing).hexdigest() + ".dir" == identity, path
        for item in json.loads(listing):
            assert hashlib.md5(_cached(root, item["md5"]).read_bytes()).hexdigest() == item["md5"], path


def _cached(root: Path, identity: str) -> Path:
    return root / ".dvc" / "cache" / "files" / "md5" / identity[:2] / identity[2:]
