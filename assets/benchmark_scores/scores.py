"""From cases to scores with intervals, and from two checkpoints' cases to what the training between them gained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assets.benchmark_scores.cases import MAIN_METRIC, Case
from assets.stage import write_parquet
from assets.statistics import Interval, mcnemar, paired_bootstrap, proportion, stratified_paired_bootstrap

CHANCE = "chance"
"""The checkpoint that knows nothing: a uniform random point, or a random legal action."""


@dataclass(frozen=True)
class Checkpoint:
    """A model to measure: its path in the lineage and the name its figures go by."""

    path: str

    @property
    def name(self) -> str:
        """`models/rl/web` is `rl_web`."""
        return self.path.removeprefix("models/").replace("/", "_")

    @property
    def domain(self) -> str | None:
        """The domain that the model was trained for alone, if it was: `web` of `models/rl/web`."""
        folder, _, name = self.path.rpartition("/")
        return name if folder == "models/rl" else None


@dataclass(frozen=True)
class Score:
    """One figure of one checkpoint. `excluded` counts cases lost to infrastructure; they are not in `result.n`."""

    checkpoint: str
    model_path: str
    suite: str
    domain: str
    metric: str
    result: Interval
    excluded: int = 0

    @property
    def name(self) -> str:
        """`grounding.point_in_box`."""
        return f"{self.domain}.{self.metric}"


@dataclass(frozen=True)
class Gain:
    """What one step of the training changed in one metric, on the cases both checkpoints answered.

    `p_value` is McNemar's, of the cases as if independent; `result` is clustered by what they share.
    """

    stage: str
    domain: str
    metric: str
    before: str
    after: str
    before_value: float
    after_value: float
    result: Interval
    p_value: float


def score_cases(checkpoint: str, model_path: str, cases: Iterable[Case]) -> list[Score]:
    """One score a suite, domain and metric: a proportion with Wilson's interval, clustered by the cases' groups."""
    scores = []
    for (suite, domain, metric), members in sorted(_by_measure(cases).items()):
        counted = [case for case in members if case.correct is not None]
        result = proportion([bool(case.correct) for case in counted], [case.group for case in counted])
        excluded = len(members) - len(counted)
        scores.append(Score(checkpoint, model_path, suite, domain, metric, result, excluded))
    return scores


def compare(
    stage: str,
    before: str,
    after: str,
    cases: Mapping[str, Sequence[Case]],
    seed: int,
    resamples: int,
    domain: str | None = None,
) -> list[Gain]:
    """Every metric that both checkpoints have (of one domain, if named), paired case by case."""
    gains = []
    old, new = _by_measure(cases[before]), _by_measure(cases[after])
    for measure in sorted(old.keys() & new.keys(), key=lambda measure: reading_order(*measure[1:])):
        if domain is not None and measure[1] != domain:
            continue
        pairs = _pair(old[measure], new[measure])
        if not pairs:
            continue
        first, second = [bool(a.correct) for a, _ in pairs], [bool(b.correct) for _, b in pairs]
        result = paired_bootstrap(first, second, seed, [a.group for a, _ in pairs], resamples=resamples)
        means = (sum(first) / len(pairs), sum(second) / len(pairs))
        gains.append(Gain(stage, measure[1], measure[2], before, after, *means, result, mcnemar(first, second)))
    return gains


def training_gains(cases: Mapping[str, Sequence[Case]], seed: int, resamples: int) -> list[Gain]:
    """Stage by stage: base to mid-trained, mid-trained to each RL checkpoint in its own domain, mid-trained to
    distilled, and each teacher to the distilled model in the teacher's domain. Steps whose checkpoints are not among
    the cases are left out."""
    steps: list[tuple[str, str, str, str | None]] = [("mid-training", "base", "midtrained", None)]
    steps += [(f"RL on {domain}", "midtrained", f"rl_{domain}", domain) for domain in MAIN_METRIC]
    steps += [("distillation", "midtrained", "distilled", None)]
    steps += [("distilled against its teacher", f"rl_{domain}", "distilled", domain) for domain in MAIN_METRIC]
    return [
        gain
        for stage, before, after, domain in steps
        if before in cases and after in cases
        for gain in compare(stage, before, after, cases, seed, resamples, domain)
    ]


def teacher_difference(cases: Mapping[str, Sequence[Case]], student: str, seed: int, resamples: int) -> Interval:
    """The student's score minus that of its teacher in the teacher's domain, averaged over the domains.

    Each domain weighs the same. Resampled within each domain, paired case by case; n is the number of cases.
    """
    strata = []
    for domain, metric in MAIN_METRIC.items():
        teacher = f"rl_{domain}"
        if teacher not in cases or student not in cases:
            continue
        old = [case for case in cases[teacher] if (case.domain, case.metric) == (domain, metric)]
        new = [case for case in cases[student] if (case.domain, case.metric) == (domain, metric)]
        pairs = _pair(old, new)
        strata.append(
            (
                [float(bool(a.correct)) for a, _ in pairs],
                [float(bool(b.correct)) for _, b in pairs],
                [a.group for a, _ in pairs],
            )
        )
    return stratified_paired_bootstrap(strata, seed, resamples=resamples)


def reading_order(domain: str, metric: str) -> tuple[int, bool, str]:
    """Sorts metrics as people read them: domain by domain in the lineage's order, what it is trained for first."""
    order = {name: place for place, name in enumerate(MAIN_METRIC)}
    return (order.get(domain, len(order)), metric != MAIN_METRIC.get(domain), metric)


def flat_metrics(scores: Iterable[Score]) -> dict[str, float]:
    """`<checkpoint>.<domain>.<metric>` -> value, of what was measured."""
    return {
        f"{score.checkpoint}.{score.name}": score.result.value
        for score in scores
        if score.result.n and not math.isnan(score.result.value)
    }


def write_scores(path: Path, scores: Iterable[Score]) -> int:
    """Write scores.parquet: checkpoint, model_path, suite, domain, metric, value, low, high, n, excluded."""
    import pyarrow as pa

    names, figures = ("checkpoint", "model_path", "suite", "domain", "metric"), ("value", "low", "high")
    schema = pa.schema(
        [
            *((name, pa.string()) for name in names),
            *((name, pa.float64()) for name in figures),
            ("n", pa.int32()),
            ("excluded", pa.int32()),
        ]
    )
    rows = (
        {
            **{name: getattr(score, name) for name in names},
            **{name: getattr(score.result, name) for name in (*figures, "n")},
            "excluded": score.excluded,
        }
        for score in scores
    )
    return write_parquet(path, rows, schema)


def write_gains(path: Path, gains: Iterable[Gain]) -> int:
    """Write gains.parquet: the fields of `Gain`, its result as gain, low, high and n."""
    import pyarrow as pa

    names, figures = ("stage", "domain", "metric", "before", "after"), ("before_value", "after_value", "p_value")
    schema = pa.schema(
        [
            *((name, pa.string()) for name in names),
            *((name, pa.float64()) for name in (*figures, "gain", "low", "high")),
            ("n", pa.int32()),
        ]
    )
    rows = (
        {
            **{name: getattr(gain, name) for name in (*names, *figures)},
            "gain": gain.result.value,
            **{name: getattr(gain.result, name) for name in ("low", "high", "n")},
        }
        for gain in gains
    )
    return write_parquet(path, rows, schema)


def _by_measure(cases: Iterable[Case]) -> dict[tuple[str, str, str], list[Case]]:
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.measure, []).append(case)
    return groups


def _pair(old: Iterable[Case], new: Iterable[Case]) -> list[tuple[Case, Case]]:
    """Cases that both have answered, in order of their ids; where either environment broke, there is no pair."""
    answers = {case.case: case for case in new if case.correct is not None}
    pairs = [(case, answers[case.case]) for case in old if case.correct is not None and case.case in answers]
    return sorted(pairs, key=lambda pair: pair[0].case)
