"""Stage `collected_trajectories`: episodes of oracles and of policies that go wrong, with everything they saw and did.

Every task is played once by the oracle or, for a share of them, by an oracle that makes a mistake and mends it; some
are played once more by a policy that fails, so that verification has something to catch. Finished shards are kept in
the stage's work folder: a killed run goes on where it was.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pydantic import Field, PositiveInt

from assets.agent.observation import Policy, RandomPolicy
from assets.agent.parameters import AgentParameters
from assets.environments.miniwob import PREFIX, MiniwobSession
from assets.environments.miniwob_oracles import MiniwobOracle
from assets.environments.session import Session, rollout
from assets.environments.task import TaskContract, from_row
from assets.environments.trajectory import Episode, episode_row, episodes_schema, step_rows, steps_schema
from assets.environments.workers import Sessions, spread
from assets.errors import ParameterError
from assets.generated_tasks.oracle import (
    EarlyClaimOracle,
    MisclickingOracle,
    MistakenOracle,
    OraclePolicy,
    WrongEntityOracle,
)
from assets.generated_tasks.plan import PlannedStep, plan_from_json
from assets.stage import Stage, StageParameters, write_parquet
from assets.verified_trajectories.drawing import load_strips

if TYPE_CHECKING:
    from PIL.Image import Image


class Parameters(StageParameters):
    """Who plays.

    Attributes:
        mistaken: share of the tasks whose main episode makes one recoverable mistake.
        failures: policy -> share of the tasks that it plays too. `wrong_entity` does what a sibling task asks,
            `early_claim` stops before the last step, `misclick` hits a neighbour once, `random` clicks anywhere.
        random_steps: most steps of a random episode.
        shard: tasks that are played in one go by one process.
        processes: sessions that act at once.
        strips: episodes on the contact sheet.
    """

    mistaken: float = Field(ge=0, le=1)
    failures: dict[str, float]
    random_steps: PositiveInt
    shard: PositiveInt
    processes: PositiveInt
    strips: PositiveInt


@dataclass(frozen=True)
class Assignment:
    """One episode to play: the task, its plan, the policy's name and, for some policies, a sibling's plan."""

    task: TaskContract
    plan: tuple[PlannedStep, ...]
    policy: str
    sibling: tuple[PlannedStep, ...]
    seed: int
    digits: int
    most_steps: int | None


@dataclass(frozen=True)
class Shard:
    """Episodes played one after another in one process, and the folder they go to."""

    assignments: tuple[Assignment, ...]
    folder: Path


def run(stage: Stage[Parameters]) -> None:
    """Write `episodes.parquet` and `steps.parquet`, sorted by episode."""
    agent = stage.section("agent", AgentParameters)
    shards = _shards(stage, agent.coordinate_digits)
    missing = [shard for shard in shards if not shard.folder.exists()]
    # Desktop episodes take longest: begun first, they don't keep the others waiting at the end.
    missing.sort(key=lambda shard: shard.assignments[0].task.platform != "desktop")
    results = spread(missing, play_shard, agent.screen, stage.parameters.processes)
    for _ in stage.progress(results, "shards", total=len(missing)):
        pass
    for name, schema in (("episodes", episodes_schema()), ("steps", steps_schema())):
        rows = (row for shard in shards for row in pq.read_table(shard.folder / f"{name}.parquet").to_pylist())
        write_parquet(stage.output / f"{name}.parquet", rows, schema)
    _report(stage)


# --- who plays what --------------------------------------------------------------------------------------------------


def _shards(stage: Stage[Parameters], digits: int) -> list[Shard]:
    """All episodes in the order of their ids, cut into shards of a number of tasks of one platform."""
    folder = stage.input("data/generated_tasks")
    tasks = [from_row(row) for row in pq.read_table(folder / "tasks.parquet").to_pylist()]
    solutions = {row["task_id"]: row for row in pq.read_table(folder / "solutions.parquet").to_pylist()}
    plans = {identity: plan_from_json(row["plan"]) for identity, row in solutions.items()}
    families: dict[str, list[str]] = {}
    for identity, row in sorted(solutions.items()):
        families.setdefault(row["family"], []).append(identity)
    groups: list[list[Assignment]] = []
    for platform in sorted({task.platform for task in tasks}):
        mine = sorted((task for task in tasks if task.platform == platform), key=lambda task: task.id)
        for start in range(0, len(mine), stage.parameters.shard):
            group: list[Assignment] = []
            for task in mine[start : start + stage.parameters.shard]:
                siblings = [plans[other] for other in families[solutions[task.id]["family"]] if other != task.id]
                group += _assignments(stage, task, plans[task.id], siblings, digits)
            groups.append(group)
    return [Shard(tuple(group), stage.work / f"shard-{number:05d}") for number, group in enumerate(groups)]


def _assignments(
    stage: Stage[Parameters],
    task: TaskContract,
    plan: tuple[PlannedStep, ...],
    siblings: Sequence[tuple[PlannedStep, ...]],
    digits: int,
) -> list[Assignment]:
    """The episodes of one task, sorted by policy."""
    rng, parameters = stage.rng(task.id), stage.parameters
    page = task.app.startswith(PREFIX)
    mistaken = rng.random() < parameters.mistaken and not page and task.kind != "query"
    policies = ["mistaken" if mistaken else "oracle"]
    for policy, share in sorted(parameters.failures.items()):
        possible = policy == "random" or not page
        if rng.random() < share and possible and (siblings or policy != "wrong_entity"):
            policies.append(policy)
    sibling = rng.choice(list(siblings)) if siblings else ()
    return [
        Assignment(
            task=task,
            plan=plan,
            policy=policy,
            sibling=sibling,
            seed=stage.rng(task.id, policy).randrange(1 << 30),
            digits=digits,
            most_steps=parameters.random_steps if policy == "random" else None,
        )
        for policy in sorted(policies)
    ]


# --- playing ---------------------------------------------------------------------------------------------------------

ATTEMPTS = 2
"""How often an episode is played whose environment breaks, before it is recorded as an infrastructure failure."""


def play_shard(sessions: Sessions, shard: Shard) -> int:
    """Play a shard and write its two tables; the folder appears when both are complete. Returns the episodes."""
    episodes = [_play(sessions, assignment) for assignment in shard.assignments]
    partial = shard.folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    write_parquet(partial / "episodes.parquet", map(episode_row, episodes), episodes_schema())
    steps = (row for episode in episodes for row in step_rows(episode))
    write_parquet(partial / "steps.parquet", steps, steps_schema())
    partial.rename(shard.folder)
    return len(episodes)


def _play(sessions: Sessions, assignment: Assignment) -> Episode:
    episode = None
    for _ in range(ATTEMPTS):
        session = sessions.get(assignment.task.platform, assignment.task.app)
        episode = rollout(session, assignment.task, _policy(session, assignment), assignment.most_steps)
        if episode.outcome != "infrastructure":
            break
    assert episode is not None
    return episode


def _policy(session: Session, assignment: Assignment) -> Policy:
    task, plan, digits = assignment.task, assignment.plan, assignment.digits
    rng = random.Random(assignment.seed)
    if assignment.policy == "random":
        return RandomPolicy(assignment.seed, digits)
    if isinstance(session, MiniwobSession):
        return MiniwobOracle(session, digits)
    match assignment.policy:
        case "oracle":
            return OraclePolicy(session, task, plan, digits)
        case "mistaken":
            return MistakenOracle(session, task, plan, digits, rng)
        case "wrong_entity":
            return WrongEntityOracle(session, task, assignment.sibling, digits)
        case "early_claim":
            return EarlyClaimOracle(session, task, plan, digits)
        case "misclick":
            return MisclickingOracle(session, task, plan, digits, rng)
    raise ParameterError(f"no policy '{assignment.policy}'; known: {', '.join(POLICIES)}")


POLICIES = ("oracle", "mistaken", "wrong_entity", "early_claim", "misclick", "random")


# --- reporting -------------------------------------------------------------------------------------------------------


def _report(stage: Stage[Parameters]) -> None:
    columns = ["id", "policy", "platform", "split", "app", "steps", "outcome", "claimed"]
    rows = pq.read_table(stage.output / "episodes.parquet", columns=columns).to_pylist()
    table = []
    for platform, policy in sorted({(row["platform"], row["policy"]) for row in rows}):
        mine = [row for row in rows if (row["platform"], row["policy"]) == (platform, policy)]
        outcomes = Counter(row["outcome"] for row in mine)
        steps = sum(row["steps"] for row in mine)
        counts = (len(mine), steps, outcomes["success"], outcomes["failure"], outcomes["infrastructure"])
        table.append((platform, policy, *counts, sum(row["claimed"] for row in mine)))
    stage.table(
        "episodes",
        ("platform", "policy", "episodes", "steps", "success", "failure", "infrastructure", "claimed success"),
        table,
    )
    oracle = [row for row in rows if row["policy"] == "oracle"]
    stage.summary(
        episodes=len(rows),
        steps=sum(row["steps"] for row in rows),
        infrastructure=sum(row["outcome"] == "infrastructure" for row in rows),
        oracle_success=sum(row["outcome"] == "success" for row in oracle) / max(1, len(oracle)),
    )
    stage.picture("trajectories", _sample_strips(stage, rows))


def _sample_strips(stage: Stage[Parameters], rows: Sequence[Mapping[str, Any]]) -> Image:
    """Episodes of every platform and policy in turn, as many as the contact sheet holds."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["outcome"] != "infrastructure" and row["steps"]:
            by_kind.setdefault((row["policy"], row["platform"]), []).append(row["id"])
    kinds = [stage.rng(*kind).sample(ids, len(ids)) for kind, ids in sorted(by_kind.items())]
    turns = [kind[turn] for turn in range(max(map(len, kinds))) for kind in kinds if turn < len(kind)]
    return load_strips(stage.output, sorted(turns[: stage.parameters.strips]))
