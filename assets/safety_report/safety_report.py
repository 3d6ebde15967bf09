"""Attack success of the release candidate and of the base, beside the same tasks without the attack.

Every model plays each attack task and its harmless twin greedily in a live session; so does chance, since an agent that
can do nothing is attacked in vain. What happened is read from the programmatic state.

Writes `scores.parquet` and `cases.parquet` in the benchmark's form, a table, and a picture of what the candidate did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import NonNegativeInt, PositiveInt

from assets.agent.parameters import AgentParameters
from assets.benchmark_scores.cases import Case, write_cases
from assets.benchmark_scores.examination import Examination, open_policy
from assets.benchmark_scores.live import choose_tasks, play
from assets.benchmark_scores.scores import CHANCE, Checkpoint, Score, flat_metrics, score_cases, write_scores
from assets.environments.phone import PhoneParameters
from assets.environments.trajectory import Episode
from assets.environments.workers import spread
from assets.safety_report.safety_cases import DOMAIN, Attack, attack_cases, read_attacks
from assets.safety_report.screens import contact_sheet
from assets.stage import Stage, StageParameters
from assets.statistics import Interval

if TYPE_CHECKING:
    from assets.environments.workers import Sessions


class Parameters(StageParameters):
    """How the attacks are played.

    Attributes:
        attacks: most attack tasks, spread over the apps; each is played with and without its attack.
        sessions: episodes side by side in one process.
        processes: agents that play at once.
        max_steps: most steps of an episode.
        max_new_tokens: where an answer that doesn't end is cut.
        threads: of torch, in each process.
        screens: most screens in the picture.
    """

    attacks: PositiveInt
    sessions: PositiveInt
    processes: PositiveInt
    max_steps: PositiveInt
    max_new_tokens: PositiveInt
    threads: PositiveInt
    screens: NonNegativeInt


def run(stage: Stage[Parameters]) -> None:
    """Play, judge, write."""
    checkpoints = [Checkpoint(path) for path in stage.inputs if path.startswith("models/")]
    attacks = _chosen_attacks(stage)
    episodes = _play(stage, checkpoints, attacks)
    cases = {name: attack_cases(attacks, played) for name, played in episodes.items()}
    scores = score_cases(CHANCE, "", cases[CHANCE])
    for checkpoint in checkpoints:
        scores += score_cases(checkpoint.name, checkpoint.path, cases[checkpoint.name])
    _write(stage, cases, scores)
    candidate = episodes[checkpoints[-1].name]
    under_attack = [candidate[attack.attacked.id] for attack in attacks]
    stage.picture("under_attack", contact_sheet(attacks, under_attack, stage.parameters.screens))


def play_attacks(sessions: Sessions, examination: Examination) -> dict[str, Episode]:
    """Task id -> episode of one agent. For `assets.environments.workers.spread`."""
    policy = open_policy(examination)
    played = play(sessions, examination.tasks, policy, examination.sessions, examination.max_steps)
    return {episode.task.id: episode for episode in played}


def _chosen_attacks(stage: Stage[Parameters]) -> list[Attack]:
    attacks = read_attacks(stage.input("data/generated_tasks") / "attacks.parquet")
    chosen = choose_tasks([attack.attacked for attack in attacks], stage.parameters.attacks, stage.rng("attacks"))
    ids = {task.id for task in chosen}
    return [attack for attack in attacks if attack.attacked.id in ids]


def _play(
    stage: Stage[Parameters], checkpoints: Sequence[Checkpoint], attacks: Sequence[Attack]
) -> dict[str, dict[str, Episode]]:
    """Agent -> task id -> episode, of chance and of every checkpoint."""
    parameters, agent = stage.parameters, stage.section("agent", AgentParameters)
    models = {CHANCE: None, **{checkpoint.name: stage.input(checkpoint.path) for checkpoint in checkpoints}}
    examinations = [
        Examination(
            name=name,
            model=model,
            seed=stage.rng(CHANCE).randrange(2**32),
            samples={},
            tasks=[task for attack in attacks for task in (attack.attacked, attack.benign)],
            sessions=parameters.sessions,
            max_steps=parameters.max_steps,
            max_new_tokens=parameters.max_new_tokens,
            threads=parameters.threads,
            agent=agent,
        )
        for name, model in models.items()
    ]
    phone = stage.section("phone", PhoneParameters)
    played = spread(examinations, play_attacks, agent.screen, parameters.processes, phone=phone)
    by_index = dict(stage.progress(played, "agents", total=len(examinations)))
    return {examination.name: by_index[index] for index, examination in enumerate(examinations)}


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
