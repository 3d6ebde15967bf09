"""Policies at play in real sessions; who plays what; a killed run that goes on; models of a folder and an endpoint."""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from assets.agent.parameters import AgentParameters
from assets.environments.adb.client import Phone
from assets.environments.adb.phones import Phones
from assets.environments.apps import load_specs
from assets.environments.desktop import load_apps
from assets.environments.task import TaskContract, task_schema, to_row
from assets.environments.trajectory import Episode, episode_row, episodes_schema, step_rows, steps_schema
from assets.environments.workers import Sessions
from assets.errors import HesperError, InfrastructureError, InputError, ParameterError
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.plan import Candidate, plan_to_json, solutions_schema
from assets.generated_tasks.validity import prove_family
from assets.stage import directory_id, execute, write_parquet
from assets.verified_trajectories.collected_trajectories import (
    POLICIES,
    Assignment,
    Parameters,
    Shard,
    _play,
    choose,
    play_shard,
)
from assets.verified_trajectories.drawing import load_strips

ROOT = Path(__file__).parents[2]
AGENT = AgentParameters(screen=(192, 192), coordinate_digits=3, system_prompt="brief", screenshots=1)
STEPS = 6


def assignments(candidates: list[Candidate]) -> tuple[Assignment, ...]:
    """Every policy on the first candidate; the second is its sibling."""
    first, second = candidates
    return tuple(
        Assignment(first.task, first.plan, policy, second.plan, 5, STEPS if policy == "explorer" else None)
        for policy in POLICIES
    )


def proven(sessions: Sessions) -> list[list[Candidate]]:
    spec = load_specs()["clock-en"]
    app = next(app for app in load_apps() if app.id == "mixer")
    pools = [
        app_candidates(spec, 1, spec.theme, 3, random.Random(3)),
        desktop_candidates(app, 1, 2, random.Random(3)),
    ]
    families = []
    for pool in pools:
        longer = [candidate for candidate in pool if len(candidate.plan) >= 3][:4]
        families.append([v.candidate for v in prove_family(sessions, longer) if not v.reason][:2])
    return families


def test_each_policy_does_what_its_name_says_and_shards_repeat(tmp_path: Path) -> None:
    with Sessions((192, 192)) as sessions:
        for number, candidates in enumerate(proven(sessions)):
            played = {a.policy: _play(sessions, a, AGENT) for a in assignments(candidates)}
            _check(played)
            shard = Shard(assignments(candidates), tmp_path / f"shard-{number}", AGENT)
            play_shard(sessions, shard)
            again = tmp_path / f"again-{number}"
            again.mkdir()
            write_parquet(again / "episodes.parquet", map(episode_row, played.values()), episodes_schema())
            steps = [row for episode in played.values() for row in step_rows(episode)]
            write_parquet(again / "steps.parquet", steps, steps_schema())
            assert directory_id(shard.folder) == directory_id(again)
            rows = pq.read_table(shard.folder / "episodes.parquet").to_pylist()
            assert [row["policy"] for row in rows] == list(POLICIES)
            assert load_strips(shard.folder, [rows[0]["id"], rows[-1]["id"]]).height > 300


def _check(played: dict[str, Episode]) -> None:
    oracle = played["oracle"]
    assert oracle.outcome == "success"
    assert oracle.claimed
    for step in oracle.steps[:-1]:
        for action, box in zip(step.actions, step.boxes, strict=False):
            assert action.point is not None
            x, y = ((value + 0.5) * 192 / 1000 for value in action.point)
            assert box[0] <= x < box[2]
            assert box[1] <= y < box[3]
            assert step.think
    assert played["mistaken"].outcome == "success"
    assert len(played["mistaken"].steps) > len(oracle.steps)
    assert (played["early_claim"].outcome, played["early_claim"].claimed) == ("failure", True)
    assert (played["wrong_entity"].outcome, played["wrong_entity"].claimed) == ("failure", True)
    assert played["misclick"].outcome == "failure"
    explorer = played["explorer"]
    assert (explorer.outcome, explorer.claimed, len(explorer.steps)) == ("failure", False, STEPS)
    assert not any(step.error for step in explorer.steps), "all it does can be done"
    assert len({step.state_after for step in explorer.steps}) > 1, "it gets somewhere"


def test_the_explorer_goes_back_scrolls_and_types_words() -> None:
    from assets.agent.vocabulary import WORDS
    from assets.environments.session import rollout
    from assets.verified_trajectories.explorer import ExplorerPolicy

    task = TaskContract("t", "mobile", "mail-en", "en", "")
    with Sessions((192, 192)) as sessions:
        session = sessions.get("mobile", task.app)
        episodes = [rollout(session, task, ExplorerPolicy(session, task, random.Random(7)), 30) for _ in range(2)]
        other = rollout(session, task, ExplorerPolicy(session, task, random.Random(8)), 30)
    assert episodes[0] == episodes[1] != other
    done = [action for step in [*episodes[0].steps, *other.steps] for action in step.actions]
    assert {action.name for action in done} == {"Click", "PressBack", "Swipe", "Type"}
    assert all(action.content in WORDS["en"] for action in done if action.name == "Type")


# --- who plays what --------------------------------------------------------------------------------------------------


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[TaskContract], dict[str, str]]:
    """Tasks of some apps in families of one to four, and each task's family."""
    tasks, family_of = [], {}
    for app in range(draw(st.integers(1, 6))):
        for family in range(draw(st.integers(1, 5))):
            for number in range(draw(st.integers(1, 4))):
                identity = f"{app}-{family}-{number}"
                kind = draw(st.sampled_from(["single", "composite"]))
                tasks.append(
                    TaskContract(identity, "web", f"app-{app}", "en", "", kind, split=("train", "heldout")[app % 2])
                )
                family_of[identity] = f"{app}-{family}"
    return tasks, family_of


@settings(deadline=None, max_examples=100)
@given(pools(), st.integers(0, 40), st.integers(0, 5), st.randoms(use_true_random=False))
def test_tasks_are_drawn_evenly_and_families_stay_together(
    pool: tuple[list[TaskContract], dict[str, str]], count: int, seed: int, order: random.Random
) -> None:
    tasks, family_of = pool
    drawn = choose(tasks, family_of, count, random.Random(seed))
    assert len(drawn) == min(count, len(tasks))
    assert [task.id for task in drawn] == sorted({task.id for task in drawn})
    shuffled = order.sample(tasks, len(tasks))
    assert choose(shuffled, family_of, count, random.Random(seed)) == drawn

    whole, taken = (Counter(family_of[task.id] for task in some) for some in (tasks, drawn))
    assert sum(0 < taken[family] < whole[family] for family in whole) <= 1
    for name in ("split", "app"):  # who got less than another by more than a family has nothing left to give
        have = Counter(getattr(task, name) for task in tasks)
        got = Counter(getattr(task, name) for task in drawn)
        for one in have:
            rivals = [other for other in have if name == "split" or _split(tasks, other) == _split(tasks, one)]
            assert got[one] == have[one] or max(got[other] for other in rivals) - got[one] <= 4


def _split(tasks: list[TaskContract], app: str) -> str:
    return next(task.split for task in tasks if task.app == app)


VALUES: dict[str, Any] = {
    "tasks": {"mobile": 0, "web": 0, "desktop": 0},
    "mistaken": 0.3,
    "failures": {"wrong_entity": 0.3, "early_claim": 0.3, "misclick": 0.3, "explorer": 0.3},
    "explorer_steps": 3,
    "shard": 2,
    "processes": 1,
    "strips": 4,
}
ENDPOINT = {"url": "http://127.0.0.1:9/v1", "model": "m", "retries": 0}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"failures": {"random": 0.1}}, "wrong_entity"),
        ({"failures": {"misclick": 2}}, "less than or equal to 1"),
        ({"models": [{"name": "a", "share": 0.1}]}, "name one of the two"),
        ({"models": [{"name": "a", "share": 0.1, "folder": "x", "endpoint": ENDPOINT}]}, "name one of the two"),
        ({"models": [{"name": "oracle", "share": 0.1, "folder": "x"}]}, "name of another policy"),
        ({"models": [{"name": "a/b", "share": 0.1, "folder": "x"}]}, "pattern"),
        ({"models": [{"name": "a", "share": 0.1, "folder": "x"}] * 2}, "two models have one name"),
        ({"tasks": {"mobile": 1}}, "Field required"),
    ],
)
def test_wrong_parameters_are_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Parameters.model_validate({**VALUES, **values})


def test_all_the_code_that_plays_is_in_the_lineage() -> None:
    """What the stage imports, now or later, is among its dependencies in dvc.yaml."""
    entry = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["collected_trajectories"]
    declared = [ROOT / path for path in entry["deps"]] + [ROOT / "assets/errors.py", ROOT / "assets/reporting.py"]
    waiting, found = [ROOT / "assets/verified_trajectories/collected_trajectories.py"], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in found or any(file.is_relative_to(folder) and folder.is_dir() for folder in declared):
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("assets"):
                place = ROOT / str(node.module).replace(".", "/")
                named = [place / alias.name for alias in node.names] + [place]
                waiting += [path.with_suffix(".py") for path in named if path.with_suffix(".py").is_file()]
    assert found <= set(declared), sorted(str(file.relative_to(ROOT)) for file in found - set(declared))


# --- the stage -------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve tasks of a phone app, in families of four."""
    monkeypatch.setenv("HESPER_TRACKING", "off")
    root = tmp_path / "project"
    folder = root / "data" / "generated_tasks"
    folder.mkdir(parents=True)
    (root / "assets").symlink_to(ROOT / "assets")
    shutil.copy(ROOT / "dvc.yaml", root)
    spec = load_specs()["clock-en"]
    rows, solutions = [], []
    for number, candidate in enumerate(app_candidates(spec, 1, spec.theme, 2, random.Random(3))[:12]):
        identity = f"t-{number:02d}"
        rows.append({**to_row(candidate.task), "id": identity})
        plan = plan_to_json(candidate.plan)
        solutions.append({"task_id": identity, "family": f"f-{number // 4}", "plan": plan})
    write_parquet(folder / "tasks.parquet", rows, task_schema())
    write_parquet(folder / "solutions.parquet", solutions, solutions_schema())
    set_parameters(root)
    return root


def set_parameters(root: Path, adb: str = "", **values: Any) -> None:
    agent = AGENT.model_dump(mode="json")
    document = {"seed": 3, "agent": agent, "phone": {"adb": adb}, "collected_trajectories": {**VALUES, **values}}
    (root / "params.yaml").write_text(yaml.safe_dump(document))


def table(root: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(root / "data/collected_trajectories" / f"{name}.parquet").to_pylist()
    return rows


def test_a_run_that_is_killed_again_and_again_ends_in_the_same_bytes(project: Path) -> None:
    wanted = execute("collected_trajectories", root=project)
    rows = table(project, "episodes")
    assert len({row["task_id"] for row in rows}) == 12
    assert len(rows) > 12
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    metrics = json.loads((project / "data/collected_trajectories/metrics.json").read_text())
    assert metrics["oracle_success"] == 1.0
    assert metrics["steps"] == len(table(project, "steps"))

    shutil.rmtree(project / "data/collected_trajectories")
    work = project / ".hesper/work/collected_trajectories"
    kept: dict[Path, int] = {}
    for shards in (1, 3):
        process = subprocess.Popen(
            [sys.executable, "-m", "assets", "collected_trajectories"],
            cwd=project,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while len(done := [path for path in work.glob("*/shard-*") if path.suffix == ""]) < shards:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not (project / "data/collected_trajectories").exists()
        played = {path: path.stat().st_mtime_ns for shard in done for path in shard.iterdir()}
        assert kept.items() <= played.items(), "what was played is not played again"
        kept = played
    assert execute("collected_trajectories", root=project) == wanted


def test_the_phone_that_the_parameters_name_is_driven(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        set_parameters(project, f"127.0.0.1:{nobody.getsockname()[1]}")
    execute("collected_trajectories", root=project)
    assert {row["outcome"] for row in table(project, "episodes")} == {"infrastructure"}
    with closing(Phones()) as elsewhere:
        serial = elsewhere.add((192, 192))  # the server is there once it has a phone
        device = Phone(("127.0.0.1", elsewhere.port), serial, 60)
        set_parameters(project, f"127.0.0.1:{elsewhere.port}", processes=2)
        execute("collected_trajectories", root=project)
        assert json.loads(device.shell("hesper get"))["foreground"] == "clock-en"
    metrics = json.loads((project / "data/collected_trajectories/metrics.json").read_text())
    assert metrics["oracle_success"] == 1.0


def test_models_of_a_folder_and_of_an_endpoint_play_alike(project: Path, tmp_path: Path) -> None:
    from assets.agent.server import ModelServer
    from tests.agent.micro_model import make_micro_model

    model = make_micro_model(tmp_path / "micro", ["Save", "Open", "mobile"])
    local = {"name": "local", "share": 0.5, "folder": str(model), "id": directory_id(model), "max_new_tokens": 24}
    with ModelServer(model, "brief", name="micro", threads=1) as server:
        endpoint = {"url": server.address, "model": "micro", "max_new_tokens": 24}
        remote = {"name": "remote", "share": 1.0, "endpoint": endpoint}
        set_parameters(
            project, models=[local, remote], failures={}, tasks={"mobile": 4, "web": 0, "desktop": 0}, shard=4
        )
        execute("collected_trajectories", root=project)
    policies = Counter(row["policy"] for row in table(project, "episodes"))
    named = f"local@{local['id'][:12]}"
    assert policies["remote"] == 4
    assert 0 < policies[named] < 4
    steps: dict[str, list[Any]] = {}
    for row in table(project, "steps"):
        steps.setdefault(row["episode_id"], []).append(
            {**row, "episode_id": "", "screenshot": row["screenshot"]["bytes"]}
        )
    for name, rows in steps.items():
        if name.endswith(named):
            assert rows == steps[name.replace(named, "remote")]
    told = json.loads((project / "data/collected_trajectories/models.json").read_text())
    assert told == {named: {"folder_id": local["id"]}, "remote": {"model": "micro"}}


def test_an_endpoint_that_is_down_stops_the_run_and_what_was_played_is_kept(project: Path) -> None:
    set_parameters(project, models=[{"name": "away", "share": 0.4, "endpoint": ENDPOINT}], failures={}, shard=1)
    with pytest.raises(InfrastructureError, match="away answered none of"):
        execute("collected_trajectories", root=project)
    assert not (project / "data/collected_trajectories").exists()
    assert any((project / ".hesper/work/collected_trajectories").glob("*/shard-*/steps.parquet"))


@pytest.mark.parametrize(
    ("folder", "identity", "error", "said"),
    [
        ("models/mine", "", ParameterError, "belongs to this lineage"),
        ("elsewhere/../models/mine", "", ParameterError, "belongs to this lineage"),
        ("nowhere", "", InputError, "there is no folder nowhere"),
        ("elsewhere", "", InputError, "params.yaml must name it"),
        ("elsewhere", f"{'0' * 32}.dir", InputError, f"not {'0' * 32}"),
    ],
)
def test_a_folder_that_plays_is_pinned_and_no_product_of_the_lineage(
    project: Path, folder: str, identity: str, error: type[HesperError], said: str
) -> None:
    for name in ("models/mine", "elsewhere"):
        (project / name).mkdir(parents=True)
        (project / name / "config.json").write_text("{}")
    set_parameters(project, models=[{"name": "mine", "share": 0.5, "folder": folder, "id": identity}])
    with pytest.raises(error, match=said):
        execute("collected_trajectories", root=project)
