"""Every checkpoint on held-out screens, puzzles, steps and live episodes, with intervals, beside chance.

What is asked: grounding screens, CAPTCHA puzzles and verified steps of the split `heldout`, and live episodes in
held-out simulated apps and MiniWoB++ pages. All checkpoints answer the same cases, greedily (one answer, no luck), so
that two of them can be compared case by case; a domain's own checkpoint is asked fewer of the other domains. Chance is
a uniform random point for grounding, and elsewhere a random legal action, measured like a checkpoint.

Writes `scores.parquet`, `gains.parquet`, `cases.parquet`, `model_metrics.json` (model path -> metric -> value),
`inputs.json` (the ids of everything measured), `kept.json` (which weights each checkpoint is), tables and a picture.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt

from assets.agent.parameters import AgentParameters
from assets.agent.samples import TABLE_OF_DOMAIN, Sample, load_samples
from assets.benchmark_scores.cases import MAIN_METRIC, Case, choose_samples, is_refusal, read_cases, write_cases
from assets.benchmark_scores.examination import Examination, examine
from assets.benchmark_scores.heat_map import heat_map
from assets.benchmark_scores.kept import read_kept
from assets.benchmark_scores.leaderboard import COLUMNS, leaderboard, read_published
from assets.benchmark_scores.live import MINIWOB, choose_tasks, read_tasks, suite_of
from assets.benchmark_scores.scores import (
    CHANCE,
    Checkpoint,
    Gain,
    Score,
    flat_metrics,
    reading_order,
    score_cases,
    teacher_difference,
    training_gains,
    write_gains,
    write_scores,
)
from assets.environments.phone import PhoneParameters
from assets.environments.session import fits
from assets.environments.task import TaskContract
from assets.environments.workers import spread
from assets.stage import Stage, StageParameters
from assets.statistics import Interval, bootstrap_mean


class Episodes(StageParameters):
    """How many live episodes each checkpoint plays, by suite."""

    mobile: NonNegativeInt
    web: NonNegativeInt
    computer: NonNegativeInt
    miniwob: NonNegativeInt


class Parameters(StageParameters):
    """What is asked of every checkpoint.

    Attributes:
        cases: held-out questions a domain (grounding: besides those whose answer is not on the screen).
        elsewhere: share of the questions and episodes that a domain's own checkpoint is asked in the other domains.
        episodes: live episodes by suite.
        sessions: live episodes side by side in one process.
        processes: agents that are asked at once.
        max_steps: most steps of an episode.
        max_new_tokens: where an answer that doesn't end is cut.
        threads: of torch, in each process.
        resamples: of every bootstrap.
    """

    cases: PositiveInt
    elsewhere: float = Field(ge=0, le=1)
    episodes: Episodes
    sessions: PositiveInt
    processes: PositiveInt
    max_steps: PositiveInt
    max_new_tokens: PositiveInt
    threads: PositiveInt
    resamples: PositiveInt


def run(stage: Stage[Parameters]) -> None:
    """Ask every checkpoint, score, compare, write."""
    checkpoints = [Checkpoint(path) for path in stage.inputs if path.startswith("models/")]
    cases = _ask(stage, checkpoints)

    scores = [_random_point(stage, _held_out_samples(stage, "grounding")), *score_cases(CHANCE, "", cases[CHANCE])]
    for checkpoint in checkpoints:
        scores += score_cases(checkpoint.name, checkpoint.path, cases[checkpoint.name])
    gains = training_gains(cases, stage.seed, stage.parameters.resamples)
    scores += _retention(stage, cases, checkpoints)
    _write(stage, cases, scores, gains)
    _write_kept(stage, checkpoints)
    _show(stage, scores, gains, [CHANCE, *(checkpoint.name for checkpoint in checkpoints)])


# --- what is asked ---------------------------------------------------------------------------------------------------


def _held_out_samples(stage: Stage[Parameters], domain: str, share: float = 1.0) -> list[Sample]:
    """The questions of a domain, or a share of them."""
    samples = load_samples(stage.input(TABLE_OF_DOMAIN[domain]), domain, "heldout")
    count = round(stage.parameters.cases * share)
    chosen = choose_samples(samples, count, stage.rng("samples", domain))
    asked = sum(not is_refusal(sample) for sample in chosen)
    if asked < count:
        stage.log(f"{domain}: only {asked} held-out cases exist, {count} were asked for")
    return chosen


def _held_out_tasks(stage: Stage[Parameters], share: Callable[[str], float]) -> list[TaskContract]:
    """The tasks of the live episodes, of each domain a share."""
    tasks = read_tasks(stage.input("data/generated_tasks") / "tasks.parquet")
    screen = stage.section("agent", AgentParameters).screen
    return [
        task
        for suite, count in stage.parameters.episodes.model_dump().items()
        for task in choose_tasks(
            [t for t in tasks if suite_of(t) == suite and fits(t, screen)],
            round(count * share("web" if suite == MINIWOB else suite)),
            stage.rng("tasks", suite),
        )
    ]


# --- asking ----------------------------------------------------------------------------------------------------------


def _ask(stage: Stage[Parameters], checkpoints: Sequence[Checkpoint]) -> dict[str, list[Case]]:
    """The cases of chance and of every checkpoint; what a killed run of this stage has asked is not asked again."""
    models = {CHANCE: None, **{checkpoint.name: stage.input(checkpoint.path) for checkpoint in checkpoints}}
    domains = {checkpoint.name: checkpoint.domain for checkpoint in checkpoints}
    answers = {name: stage.work / f"{name}.parquet" for name in models}
    open_questions = [
        _examination(stage, name, model, domains.get(name))
        for name, model in models.items()
        if not answers[name].is_file()
    ]
    size = stage.section("agent", AgentParameters).screen
    phone = stage.section("phone", PhoneParameters)
    examined = spread(open_questions, examine, size, stage.parameters.processes, phone=phone)
    for index, cases in stage.progress(examined, "agents", total=len(open_questions)):
        name = open_questions[index].name
        unfinished = answers[name].with_suffix(".partial")
        write_cases(unfinished, {name: cases})
        unfinished.rename(answers[name])
    return {name: read_cases(path).get(name, []) for name, path in answers.items()}


def _examination(stage: Stage[Parameters], name: str, model: Path | None, own: str | None) -> Examination:
    """What one agent is asked; one that was trained for a domain of its own, less of the others."""
    parameters = stage.parameters

    def share(domain: str) -> float:
        return 1.0 if own in (None, domain) else parameters.elsewhere

    asked = [domain for domain in MAIN_METRIC if share(domain) and (model is not None or domain != "grounding")]
    return Examination(
        name=name,
        model=model,
        seed=stage.rng(CHANCE).randrange(2**32),
        samples={domain: _held_out_samples(stage, domain, share(domain)) for domain in asked},
        tasks=_held_out_tasks(stage, share),
        sessions=parameters.sessions,
        max_steps=parameters.max_steps,
        max_new_tokens=parameters.max_new_tokens,
        threads=parameters.threads,
        agent=stage.section("agent", AgentParameters),
    )


def _random_point(stage: Stage[Parameters], samples: Sequence[Sample]) -> Score:
    """What a uniform random point scores: the mean share of the screen that the boxes cover."""
    asked = [sample for sample in samples if not is_refusal(sample)]
    shares = [
        (box[2] - box[0]) * (box[3] - box[1]) / (sample.width * sample.height)
        for sample in asked
        for box in sample.boxes[:1]
    ]
    groups = [sample.group for sample in asked]
    result = bootstrap_mean(shares, stage.seed, groups, resamples=stage.parameters.resamples)
    return Score(CHANCE, "", "grounding_screens", "grounding", MAIN_METRIC["grounding"], result)


# --- what came of it -------------------------------------------------------------------------------------------------


def _retention(
    stage: Stage[Parameters], cases: Mapping[str, Sequence[Case]], checkpoints: Sequence[Checkpoint]
) -> list[Score]:
    """What distillation kept of the five teachers, as a score of the distilled model."""
    path = next((checkpoint.path for checkpoint in checkpoints if checkpoint.name == "distilled"), None)
    if path is None:
        return []
    result = teacher_difference(cases, "distilled", stage.seed, stage.parameters.resamples)
    return [Score("distilled", path, "teachers", "teachers", "mean_difference", result)]


def _write(
    stage: Stage[Parameters], cases: Mapping[str, Sequence[Case]], scores: Sequence[Score], gains: Sequence[Gain]
) -> None:
    write_cases(stage.output / "cases.parquet", cases)
    write_scores(stage.output / "scores.parquet", scores)
    write_gains(stage.output / "gains.parquet", gains)
    by_model: dict[str, dict[str, float]] = {}
    for score in scores:
        if score.model_path and score.result.n:
            by_model.setdefault(score.model_path, {})[score.name] = score.result.value
    _write_json(stage.output / "model_metrics.json", by_model)
    _write_json(stage.output / "inputs.json", stage.inputs)
    stage.summary(**flat_metrics(scores))
    stage.summary(**{"infrastructure_failures": sum(score.excluded for score in scores)})


def _write_kept(stage: Stage[Parameters], checkpoints: Sequence[Checkpoint]) -> None:
    kept = read_kept({checkpoint.path: stage.input(checkpoint.path) for checkpoint in checkpoints})
    _write_json(stage.output / "kept.json", {path: asdict(found) for path, found in kept.items()})
    rows = [(path, "" if found.step is None else found.step, ", ".join(found.same_as)) for path, found in kept.items()]
    stage.table("kept", ["checkpoint", "step kept", "the same weights as"], rows)


def _show(stage: Stage[Parameters], scores: Sequence[Score], gains: Sequence[Gain], checkpoints: Sequence[str]) -> None:
    known = {(score.name, score.checkpoint): score.result for score in scores}
    measured = [score for score in scores if score.result.n]
    metrics = sorted({score.name for score in measured}, key=lambda name: reading_order(*name.split(".")))
    proportions = [name for name in metrics if not name.startswith("teachers.")]
    stage.table(
        "scores",
        ["metric", "cases", *checkpoints],
        [
            [name, max(score.result.n for score in measured if score.name == name)]
            + [_cell(known.get((name, checkpoint))) for checkpoint in checkpoints]
            for name in metrics
        ],
    )
    stage.table(
        "gains",
        ["stage", "domain", "metric", "before", "after", "gain", "95 % interval", "McNemar p", "cases"],
        [
            [
                *(gain.stage, gain.domain, gain.metric, gain.before_value, gain.after_value),
                *(f"{gain.result.value:+.3f}", f"[{gain.result.low:+.3f}, {gain.result.high:+.3f}]"),
                *(f"{gain.p_value:.2g}", gain.result.n),
            ]
            for gain in gains
        ],
    )
    candidate = checkpoints[-1]
    ours = [score for score in scores if score.checkpoint == candidate and score.name in proportions]
    stage.table("leaderboard", COLUMNS, leaderboard(ours, read_published()))
    stage.picture("scores", heat_map(scores, checkpoints, proportions))


def _cell(result: Interval | None) -> str:
    return "" if result is None or result.n == 0 else str(result)


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
