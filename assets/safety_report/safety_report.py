"""Attack success of the release candidate and of the base, beside the same tasks without the attack.

Every model plays each attack task and its harmless twin greedily in a live session; so does chance, since an agent that
can do nothing is attacked in vain. What happened is read from the programmatic state.

Writes `scores.parquet` and `cases.parquet` in the benchmark's form, a table, and a picture of what the candidate did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import NonNegativeInt, PositiveInt

from assets.agent.model_policy import ModelPolicy
from assets.agent.observation import RandomPolicy
from assets.agent.parameters import AgentParameters
from assets.benchmark_scores.cases import Case, write_cases
from assets.benchmark_scores.live import Venue, choose_tasks, open_venues
from assets.benchmark_scores.scores import CHANCE, Checkpoint, Score, flat_metrics, score_cases, write_scores
from assets.environments.task import TaskContract
from assets.environments.trajectory import Episode
from assets.safety_report.safety_cases import DOMAIN, Attack, attack_cases, read_attacks
from assets.safety_report.screens import contact_sheet
from assets.stage import Stage, StageParameters
from assets.statistics import Interval

if TYPE_CHECKING:
    from assets.agent.observation import Policy


class Parameters(StageParameters):
    """How the attacks are played.

    Attributes:
        attacks: most attack tasks, spread over the apps; each is played with and without its attack.
        sessions: live sessions of a platform at once.
        max_steps: most steps of an episode.
        max_new_tokens: where an answer that doesn't end is cut.
        threads: of torch.
        screens: most screens in the picture.
    """

    attacks: PositiveInt
    sessions: PositiveInt
    max_steps: PositiveInt
    max_new_tokens: PositiveInt
    threads: PositiveInt
    screens: NonNegativeInt


def run(stage: Stage[Parameters]) -> None:
    """Play, judge, write."""
    import torch

    torch.set_num_threads(stage.parameters.threads)
    agent = stage.section("agent", AgentParameters)
    checkpoints = [Checkpoint(path) for path in stage.inputs if path.startswith("models/")]
    attacks = _chosen_attacks(stage)
    policies: dict[str, Policy] = {CHANCE: RandomPolicy(stage.rng(CHANCE).randrange(2**32), agent.coordinate_digits)}
    for checkpoint in checkpoints:
        policies[checkpoint.name] = ModelPolicy(
            stage.input(checkpoint.path), stage.parameters.max_new_tokens, agent.system_prompt, name=checkpoint.name
        )
    episodes: dict[str, dict[str, Episode]] = {}
    with open_venues(_by_platform(attacks), agent.screen, stage.parameters.sessions) as venues:
        for name, policy in stage.progress(policies.items(), "agents", total=len(policies)):
            episodes[name] = _play(policy, venues, stage.parameters.max_steps)

    cases = {name: attack_cases(attacks, played) for name, played in episodes.items()}
    scores = score_cases(CHANCE, "", cases[CHANCE])
    for checkpoint in checkpoints:
        scores += score_cases(checkpoint.name, checkpoint.path, cases[checkpoint.name])
    _write(stage, cases, scores)
    candidate = episodes[checkpoints[-1].name]
    under_attack = [candidate[attack.attacked.id] for attack in attacks]
    stage.picture("under_attack", contact_sheet(attacks, under_attack, stage.parameters.screens))


def _chosen_attacks(stage: Stage[Parameters]) -> list[Attack]:
    attacks = read_attacks(stage.input("data/generated_tasks") / "attacks.parquet")
    chosen = choose_tasks([attack.attacked for attack in attacks], stage.parameters.attacks, stage.rng("attacks"))
    ids = {task.id for task in chosen}
    return [attack for attack in attacks if attack.attacked.id in ids]


def _by_platform(attacks: Sequence[Attack]) -> list[list[TaskContract]]:
    platforms: dict[str, list[TaskContract]] = {}
    for attack in attacks:
        platforms.setdefault(attack.attacked.platform, []).extend([attack.attacked, attack.benign])
    return [platforms[platform] for platform in sorted(platforms)]


def _play(policy: Policy, venues: Sequence[Venue], max_steps: int) -> dict[str, Episode]:
    """Task id -> episode."""
    return {episode.task.id: episode for venue in venues for episode in venue.play(policy, max_steps)}


def _write(stage: Stage[Parameters], cases: Mapping[str, Sequence[Case]], scores: Sequence[Score]) -> None:
    write_cases(stage.output / "cases.parquet", cases)
    write_scores(stage.output / "scores.parquet", scores)
    stage.summary(**flat_metrics(scores))
    stage.summary(
        attacks=len({case.case for members in cases.values() for case in members}),
        infrastructure_failures=sum(score.excluded for score in scores if score.domain == DOMAIN),
    )
    metrics = ("attack_success", "task_success_under_attack", "task_success", "over_refusal")
    known = {(score.checkpoint, score.domain, score.metric): score.result for score in scores}
    stage.table(
        "safety",
        ["agent", "attacks", "cases", "attack success", "task success under attack", "task success", "over-refusal"],
        [
            [
                name,
                domain.removeprefix(f"{DOMAIN}.").replace(DOMAIN, "all"),
                known[name, domain, metrics[0]].n,
                *(_cell(known[name, domain, metric]) for metric in metrics),
            ]
            for name in cases
            for domain in sorted({score.domain for score in scores})
        ],
    )


def _cell(result: Interval) -> str:
    return str(result) if result.n else "not measured"
