"""Stage `collected_trajectories`: episodes of oracles, of policies that go wrong and of models, with all they saw.

Every task that is played is played once by the oracle or, for a share of them, by an oracle that makes a mistake and
mends it; some are played once more by a policy that fails, so that verification has something to catch, or by a model.
Shards are written as they end, into the stage's work folder: a killed run goes on where it was.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import pyarrow.parquet as pq
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from assets.agent.endpoint import Endpoint, EndpointParameters, Usage
from assets.agent.endpoint_policy import EndpointPolicy
from assets.agent.observation import Policy
from assets.agent.parameters import AgentParameters
from assets.environments.miniwob import PREFIX, MiniwobSession
from assets.environments.miniwob_oracles import MiniwobOracle
from assets.environments.phone import PhoneParameters
from assets.environments.session import Session, fits, rollout, rollout_batch
from assets.environments.task import TaskContract, from_row
from assets.environments.trajectory import Episode, episode_row, episodes_schema, step_rows, steps_schema
from assets.environments.workers import Sessions, spread
from assets.errors import InfrastructureError, InputError, ParameterError
from assets.generated_tasks.failing_oracles import FAILING, can_fail
from assets.generated_tasks.oracle import (
    EarlyClaimOracle,
    MisclickingOracle,
    MistakenOracle,
    OraclePolicy,
    WrongEntityOracle,
)
from assets.generated_tasks.plan import PlannedStep, plan_from_json
from assets.stage import DATA_FOLDERS, Stage, StageParameters, directory_id, write_parquet
from assets.verified_trajectories.drawing import load_strips
from assets.verified_trajectories.explorer import ExplorerPolicy

if TYPE_CHECKING:
    from PIL.Image import Image

Failure = Literal[
    "wrong_entity",
    "early_claim",
    "misclick",
    "explorer",
    "undone",
    "neighbour",
    "wrong_value",
    "wrong_field",
    "side_effect",
    "repeated",
]
POLICIES: tuple[str, ...] = ("oracle", "mistaken", *get_args(Failure))


class Played(StageParameters):
    """How many of the accepted tasks of each platform are played; 0 plays them all."""

    mobile: NonNegativeInt
    web: NonNegativeInt
    desktop: NonNegativeInt


class Player(StageParameters):
    """A model that plays too: an endpoint, or a model folder that this lineage did not make.

    Attributes:
        name: of the policy in the tables; that of a folder is followed by the first digits of its id.
        share: of the tasks that it plays.
        endpoint: where the model answers.
        folder: a Hugging Face model folder, instead of an endpoint.
        id: of the folder's bytes, as `directory_id` tells it. It stands here because the folder is no stage's output:
            so the lineage sees when another model plays.
        max_new_tokens: of one answer of a folder's model.
        threads: of torch in each process, for a folder's model.
        sessions: episodes side by side in one process, answered in one batch.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_.-]{0,39}$")
    share: float = Field(gt=0, le=1)
    endpoint: EndpointParameters | None = None
    folder: str = ""
    id: str = Field(default="", pattern=r"^([0-9a-f]{32}\.dir)?$")
    max_new_tokens: PositiveInt = 256
    threads: PositiveInt = 1
    sessions: PositiveInt = 4

    @model_validator(mode="after")
    def _one_place(self) -> Player:
        if (self.endpoint is None) == (not self.folder):
            raise ValueError("a model answers at an endpoint or from a folder: name one of the two")
        if self.name in POLICIES:
            raise ValueError(f"'{self.name}' is the name of another policy")
        return self

    @property
    def policy(self) -> str:
        """The policy's name in the tables."""
        return f"{self.name}@{self.id[:12]}" if self.folder else self.name


class Parameters(StageParameters):
    """Who plays.

    Attributes:
        tasks: how many tasks are played, drawn evenly over splits, apps and kinds, family by family.
        mistaken: share of the tasks whose main episode makes one recoverable mistake.
        failures: policy -> share of the tasks that it plays too. `wrong_entity` does what a sibling task asks,
            `early_claim` stops before the last step, `misclick` hits something else once, `explorer` tries what is
            there; the others are those of failing_oracles.py.
        explorer_steps: most steps of an explorer's episode.
        models: models that play a share of the tasks too.
        shard: tasks that are played in one go by one process.
        processes: sessions that act at once.
        strips: episodes on the contact sheet.
    """

    tasks: Played
    mistaken: float = Field(ge=0, le=1)
    failures: dict[Failure, Annotated[float, Field(ge=0, le=1)]]
    explorer_steps: PositiveInt
    models: tuple[Player, ...] = ()
    shard: PositiveInt
    processes: PositiveInt
    strips: PositiveInt

    @model_validator(mode="after")
    def _different_names(self) -> Parameters:
        names = [player.name for player in self.models]
        if len(set(names)) < len(names):
            raise ValueError(f"two models have one name: {', '.join(sorted(names))}")
        return self


@dataclass(frozen=True)
class Assignment:
    """One episode to play: the task, its plan, the policy's name and, for some policies, a sibling's plan.

    `player` is set where a model plays.
    """

    task: TaskContract
    plan: tuple[PlannedStep, ...]
    policy: str
    sibling: tuple[PlannedStep, ...]
    seed: int
    most_steps: int | None = None
    player: Player | None = None


@dataclass(frozen=True)
class Shard:
    """Episodes of one platform that one process plays, and the folder they go to."""

    assignments: tuple[Assignment, ...]
    folder: Path
    agent: AgentParameters


def run(stage: Stage[Parameters]) -> None:
    """Write `episodes.parquet` and `steps.parquet`, sorted by platform, task and policy; `models.json` if any play."""
    _check_models(stage)
    agent = stage.section("agent", AgentParameters)
    shards = _shards(stage, agent)
    missing = [shard for shard in shards if not shard.folder.exists()]
    # Desktop episodes take longest: begun first, they don't keep the others waiting at the end.
    missing.sort(key=lambda shard: shard.assignments[0].task.platform != "desktop")
    phone = stage.section("phone", PhoneParameters)
    results = spread(missing, play_shard, agent.screen, stage.parameters.processes, phone=phone)
    spent: dict[str, Usage] = {}
    for _, used in stage.progress(results, "shards", total=len(missing)):
        for name, usage in used.items():
            spent[name] = spent[name].plus(usage) if name in spent else usage
    for name, schema in (("episodes", episodes_schema()), ("steps", steps_schema())):
        rows = (row for shard in shards for row in pq.read_table(shard.folder / f"{name}.parquet").to_pylist())
        write_parquet(stage.output / f"{name}.parquet", rows, schema)
    _report(stage)
    _report_models(stage, spent)


# --- who plays what --------------------------------------------------------------------------------------------------


def _check_models(stage: Stage[Parameters]) -> None:
    """Models that play must be there, be those that the parameters name, and not be made of what they are to make.

    Raises:
        ParameterError: a folder of the lineage, or an endpoint that can't be asked.
        InputError: a folder is missing, or holds other bytes than its id says.
    """
    for player in stage.parameters.models:
        if player.endpoint is not None:
            Endpoint(player.endpoint)
            continue
        folder = _folder(player, stage.root)
        if any(folder.is_relative_to((stage.root / name).resolve()) for name in DATA_FOLDERS):
            raise ParameterError(
                f"models.{player.name}: {player.folder} belongs to this lineage, and its models are made of what is "
                "collected here: copy it to a place outside it"
            )
        if not folder.is_dir():
            raise InputError(f"models.{player.name}: there is no folder {player.folder}")
        found = directory_id(folder)
        if found != player.id:
            named = f"not {player.id}" if player.id else "and params.yaml must name it"
            raise InputError(f"models.{player.name}: the id of {player.folder} is {found}, {named}")


def _folder(player: Player, root: Path) -> Path:
    return (root / player.folder).resolve()


def _shards(stage: Stage[Parameters], agent: AgentParameters) -> list[Shard]:
    """All episodes in the order of their ids, cut into shards of a number of tasks of one platform."""
    folder = stage.input("data/generated_tasks")
    tasks = [from_row(row) for row in pq.read_table(folder / "tasks.parquet").to_pylist()]
    solutions = {row["task_id"]: row for row in pq.read_table(folder / "solutions.parquet").to_pylist()}
    plans = {identity: plan_from_json(row["plan"]) for identity, row in solutions.items()}
    family_of = {identity: str(row["family"]) for identity, row in solutions.items()}
    families: dict[str, list[str]] = {}
    for identity, family in sorted(family_of.items()):
        families.setdefault(family, []).append(identity)
    groups: list[list[Assignment]] = []
    for platform in sorted({task.platform for task in tasks}):
        fitting = (task for task in tasks if task.platform == platform and fits(task, agent.screen))
        mine = sorted(fitting, key=lambda task: task.id)
        count: int = getattr(stage.parameters.tasks, platform)
        mine = choose(mine, family_of, count, stage.rng(platform, "tasks")) if count else mine
        for start in range(0, len(mine), stage.parameters.shard):
            group: list[Assignment] = []
            for task in mine[start : start + stage.parameters.shard]:
                siblings = [plans[other] for other in families[family_of[task.id]] if other != task.id]
                group += _assignments(stage, task, plans[task.id], siblings)
            groups.append(group)
    return [Shard(tuple(group), stage.work / f"shard-{number:05d}", agent) for number, group in enumerate(groups)]


def choose(
    tasks: Sequence[TaskContract], family_of: Mapping[str, str], count: int, rng: random.Random
) -> list[TaskContract]:
    """`count` tasks (all, if there are no more), sorted by id; families stay together, but for the last one drawn.

    The next family is always one of the split, of it of the app, of it of the kinds that were drawn least so far.
    """
    by_family: dict[str, list[TaskContract]] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        by_family.setdefault(family_of[task.id], []).append(task)
    families = [by_family[name] for name in sorted(by_family)]
    rng.shuffle(families)
    splits, apps, kinds = Counter[str](), Counter[str](), Counter[str]()

    def drawn_so_far(family: Sequence[TaskContract]) -> tuple[float, ...]:
        one = family[0]
        return splits[one.split], apps[one.app], sum(kinds[task.kind] for task in family) / len(family)

    drawn: list[TaskContract] = []
    while families and len(drawn) < count:
        family = min(families, key=drawn_so_far)
        families.remove(family)
        for task in family[: count - len(drawn)]:
            drawn.append(task)
            splits[task.split] += 1
            apps[task.app] += 1
            kinds[task.kind] += 1
    return sorted(drawn, key=lambda task: task.id)


def _assignments(
    stage: Stage[Parameters],
    task: TaskContract,
    plan: tuple[PlannedStep, ...],
    siblings: Sequence[tuple[PlannedStep, ...]],
) -> list[Assignment]:
    """The episodes of one task, sorted by policy."""
    rng, parameters = stage.rng(task.id), stage.parameters
    page = task.app.startswith(PREFIX)
    mistaken = rng.random() < parameters.mistaken and not page and task.kind != "query"
    policies = ["mistaken" if mistaken else "oracle"]
    for policy, share in sorted(parameters.failures.items()):
        possible = policy == "explorer" or (not page and can_fail(policy, plan))
        if rng.random() < share and possible and (siblings or policy != "wrong_entity"):
            policies.append(policy)
    sibling = rng.choice(list(siblings)) if siblings else ()
    played = [
        Assignment(
            task=task,
            plan=plan,
            policy=policy,
            sibling=sibling,
            seed=stage.rng(task.id, policy).randrange(1 << 30),
            most_steps=parameters.explorer_steps if policy == "explorer" else None,
        )
        for policy in policies
    ]
    for player in parameters.models:
        # A folder is looked for from the project's root, wherever the process that opens it stands.
        placed = player.model_copy(update={"folder": str(_folder(player, stage.root)) if player.folder else ""})
        if stage.rng(task.id, player.name).random() < player.share:
            played.append(Assignment(task, plan, player.policy, (), 0, player=placed))
    return sorted(played, key=lambda assignment: assignment.policy)


# --- playing ---------------------------------------------------------------------------------------------------------

ATTEMPTS = 2
"""How often an episode is played whose environment breaks, before it is recorded as an infrastructure failure."""


def play_shard(sessions: Sessions, shard: Shard) -> dict[str, Usage]:
    """Play a shard and write its two tables; the folder appears when both are complete.

    Returns what each endpoint was asked.

    Raises:
        InfrastructureError: an endpoint answered nothing at all, so that going on makes no sense.
    """
    models, used = _play_models(sessions, shard)
    rows: list[dict[str, Any]] = []

    def steps() -> Iterator[dict[str, Any]]:
        for number, assignment in enumerate(shard.assignments):
            episode = models.pop(number) if number in models else _play(sessions, assignment, shard.agent)
            rows.append(episode_row(episode))
            yield from step_rows(episode)

    partial = shard.folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    write_parquet(partial / "steps.parquet", steps(), steps_schema())
    write_parquet(partial / "episodes.parquet", rows, episodes_schema())
    partial.rename(shard.folder)
    return used


def _play(sessions: Sessions, assignment: Assignment, agent: AgentParameters) -> Episode:
    for _ in range(ATTEMPTS):
        session = sessions.get(assignment.task.platform, assignment.task.app)
        policy = _policy(session, assignment, agent.coordinate_digits)
        episode = rollout(session, assignment.task, policy, assignment.most_steps)
        if episode.outcome != "infrastructure":
            break
    return episode


def _policy(session: Session, assignment: Assignment, digits: int) -> Policy:
    task, plan = assignment.task, assignment.plan
    rng = random.Random(assignment.seed)
    if assignment.policy == "explorer":
        return ExplorerPolicy(session, task, rng, digits)
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
        case policy if policy in FAILING:
            return FAILING[policy](session, task, plan, digits, rng)
    raise ParameterError(f"no policy '{assignment.policy}'; known: {', '.join(POLICIES)}")


def _play_models(sessions: Sessions, shard: Shard) -> tuple[dict[int, Episode], dict[str, Usage]]:
    """(number of the assignment -> episode, what each endpoint was asked): the episodes of models, side by side."""
    groups: dict[tuple[Player, bool], list[int]] = {}
    for number, assignment in enumerate(shard.assignments):
        if assignment.player is not None:
            groups.setdefault((assignment.player, assignment.task.app.startswith(PREFIX)), []).append(number)
    episodes: dict[int, Episode] = {}
    used: dict[str, Usage] = {}
    for (player, _), numbers in groups.items():
        policy = model_policy(player, shard.agent)
        before = policy.endpoint.usage if isinstance(policy, EndpointPolicy) else Usage()
        broken = numbers
        for _ in range(ATTEMPTS):
            tasks = [shard.assignments[number].task for number in broken]
            opened = sessions.several(tasks[0].platform, tasks[0].app, min(player.sessions, len(tasks)))
            episodes.update(zip(broken, rollout_batch(opened, tasks, policy), strict=True))
            broken = [number for number in broken if episodes[number].outcome == "infrastructure"]
            if not broken:
                break
        if isinstance(policy, EndpointPolicy):
            usage = policy.endpoint.usage.plus(before, -1)
            if usage.failures and usage.failures == usage.requests:
                raise InfrastructureError(
                    f"{player.name} answered none of {usage.requests} requests; what was played is kept, and the next "
                    "run goes on from there"
                )
            used[player.name] = used[player.name].plus(usage) if player.name in used else usage
    return episodes, used


@cache
def model_policy(player: Player, agent: AgentParameters) -> Policy:
    """The policy of a model; opened once a process. A folder's model answers greedily, so its episodes repeat."""
    if player.endpoint is not None:
        return EndpointPolicy(Endpoint(player.endpoint), screenshots=agent.screenshots, name=player.policy)
    import torch

    from assets.agent.model_policy import ModelPolicy

    torch.set_num_threads(player.threads)
    return ModelPolicy(Path(player.folder), player.max_new_tokens, agent.system_prompt, name=player.policy)


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
    if played := [row for row in rows if row["outcome"] != "infrastructure" and row["steps"]]:
        stage.picture("trajectories", _sample_strips(stage, played))


def _report_models(stage: Stage[Parameters], spent: Mapping[str, Usage]) -> None:
    """Which models played. What endpoints cost depends on retries and on what a killed run had asked before, so it is
    told to the terminal and to MLflow, and is no part of the output."""
    if stage.parameters.models:
        models = {
            player.policy: {"folder_id": player.id} if player.endpoint is None else {"model": player.endpoint.model}
            for player in stage.parameters.models
        }
        text = json.dumps(models, indent=1, sort_keys=True, ensure_ascii=False)
        (stage.output / "models.json").write_text(text + "\n", encoding="utf-8")
    for name, usage in sorted(spent.items()):
        stage.log(
            f"{name}: {usage.requests} requests, {usage.failures} without an answer, {usage.input_tokens} tokens in, "
            f"{usage.output_tokens} out, cost {usage.cost:.4f}"
        )
        stage.reporter.metric(f"{name}.cost", usage.cost, 0)


def _sample_strips(stage: Stage[Parameters], rows: Sequence[Mapping[str, Any]]) -> Image:
    """Episodes of every platform and policy in turn, as many as the contact sheet holds."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_kind.setdefault((row["policy"], row["platform"]), []).append(row["id"])
    kinds = [stage.rng(*kind).sample(ids, len(ids)) for kind, ids in sorted(by_kind.items())]
    turns = [kind[turn] for turn in range(max(map(len, kinds))) for kind in kinds if turn < len(kind)]
    return load_strips(stage.output, sorted(turns[: stage.parameters.strips]))
