"""What a benchmark asks and what came of it, case by case: the ground under every score and every comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.agent.actions import DOMAIN_OF_PLATFORM, REFUSAL
from assets.agent.samples import Sample
from assets.stage import write_parquet

if TYPE_CHECKING:
    import random

    import pyarrow as pa

    from assets.agent.matching import Match
    from assets.environments.trajectory import Episode

MAIN_METRIC: dict[str, str] = {
    "grounding": "point_in_box",
    "captcha": "pass_at_1",
    "mobile": "step_accuracy",
    "web": "step_accuracy",
    "computer": "step_accuracy",
}
"""The metric each domain is trained for, on held-out samples; comparisons of training stages rest on it."""


@dataclass(frozen=True)
class Case:
    """One answer to one case.

    Attributes:
        group: what dependent cases share: the screen of a question, the episode of a step.
        correct: None where the environment broke; such a case is counted apart and never as the model's.
    """

    suite: str
    domain: str
    metric: str
    case: str
    group: str
    correct: bool | None

    @property
    def measure(self) -> tuple[str, str, str]:
        """What the case counts towards: suite, domain, metric."""
        return (self.suite, self.domain, self.metric)


def choose_samples(samples: Sequence[Sample], count: int, rng: random.Random) -> list[Sample]:
    """Whole screens or episodes, drawn at random, until `count` questions with an answer on the screen are together.

    Everything about one screen stays together (its encoding is shared), in the order of the table. All samples, if
    there are not enough.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    order = sorted(groups)
    rng.shuffle(order)
    chosen: set[str] = set()
    asked = 0
    for group in order:
        if asked >= count:
            break
        chosen.add(group)
        asked += sum(not is_refusal(sample) for sample in groups[group])
    return [sample for sample in samples if sample.group in chosen]


def is_refusal(sample: Sample) -> bool:
    """Whether the right answer is that the thing is not on this screen."""
    return any(action.point == REFUSAL for action in sample.actions)


def sample_cases(samples: Sequence[Sample], matches: Sequence[Match]) -> list[Case]:
    """What the matches say of the samples.

    Grounding: `point_in_box`, and `refusal` for what is not there. CAPTCHA: `pass_at_1`, every action of the answer
    right. Steps: `step_accuracy`, and `action_type` for the name of the action alone.
    """
    cases = []
    for sample, match in zip(samples, matches, strict=True):
        suite = {"grounding": "grounding_screens", "captcha": "captcha_puzzles"}.get(sample.domain, "verified_steps")
        metric = "refusal" if is_refusal(sample) else MAIN_METRIC[sample.domain]
        cases.append(Case(suite, sample.domain, metric, sample.id, sample.group, match.correct))
        if suite == "verified_steps":
            cases.append(Case(suite, sample.domain, "action_type", sample.id, sample.group, match.type == 1.0))
    return cases


def episode_cases(episodes: Sequence[Episode]) -> list[Case]:
    """Programmatic success of live episodes. MiniWoB++ pages are a suite of their own: success is a reward above 0.

    Episodes on one MiniWoB++ page are grouped. Those in one simulated app are not: their intervals speak of other tasks
    in these apps, since a handful of apps can't tell how much apps differ.
    """
    cases = []
    for episode in episodes:
        task, broke = episode.task, episode.outcome == "infrastructure"
        domain = DOMAIN_OF_PLATFORM[task.platform]
        correct = None if broke else episode.outcome == "success"
        if task.app.startswith("miniwob/"):
            cases.append(Case("miniwob", domain, "miniwob_success", task.id, task.app, correct))
        else:
            cases.append(Case("live_apps", domain, "live_success", task.id, task.id, correct))
    return cases


def cases_schema() -> pa.Schema:
    """Arrow schema of cases.parquet; `correct` is null where the environment broke."""
    import pyarrow as pa

    names = ("checkpoint", "suite", "domain", "metric", "case", "group")
    return pa.schema([*((name, pa.string()) for name in names), ("correct", pa.bool_())])


def write_cases(path: Path, cases: Mapping[str, Iterable[Case]]) -> int:
    """Write checkpoint -> cases, sorted. Returns the number of rows."""
    return write_parquet(path, _rows(cases), cases_schema(), row_group=4096)


def read_cases(path: Path) -> dict[str, list[Case]]:
    """The inverse of `write_cases`."""
    import pyarrow.parquet as pq

    cases: dict[str, list[Case]] = {}
    for row in pq.read_table(path).to_pylist():
        cases.setdefault(row.pop("checkpoint"), []).append(Case(**row))
    return cases


def _rows(cases: Mapping[str, Iterable[Case]]) -> Iterator[dict[str, Any]]:
    for checkpoint, answers in cases.items():
        for case in sorted(answers, key=lambda case: (*case.measure, case.case)):
            yield {"checkpoint": checkpoint, **asdict(case)}
