"""What verification says of an episode besides its label: each keypoint with its evidence, and what is to become of it.

The labels stratify: a completed episode is for training; of a partial one the beginning can be used again, which makes
it a case for repair; an infeasible one teaches what can't be asked; a failed one is put down to the task, the
environment or the agent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from assets.verified_trajectories.evidence import Course, Demand, SeenEpisode, StepVerdict, same_word
from assets.verified_trajectories.judges import Thresholds, Vote
from assets.verified_trajectories.retrieval import Expected, effect_between, promised_effects, retrieve
from assets.verified_trajectories.voting import Panel

if TYPE_CHECKING:
    import pyarrow as pa

Status = Literal["met", "missing", "contradicted", "unclear"]
Attribution = Literal["task", "environment", "agent"]

NO_EFFECT = "nothing changed, though it should have"


@dataclass(frozen=True)
class Keypoint:
    """One keypoint and what was seen of it.

    Attributes:
        step: after which of the cleaned steps the evidence is on the screen; -1 if there is none.
        judge: who saw it, joined by `+`.
        evidence: what was seen, in words.
    """

    keypoint: str
    status: Status
    step: int
    judge: str
    evidence: str


def keypoints_seen(
    episode: SeenEpisode,
    wanted: Sequence[Demand],
    courses: Mapping[str, Course],
    names: Mapping[str, Expected],
    thresholds: Thresholds,
) -> tuple[Keypoint, ...]:
    """Each demand with its evidence.

    It is met when two judges that follow what was done saw it at one step, and the screen showed an effect of it;
    contradicted when it was done again later, or when it had no effect where the catalogue promises one; unclear when
    only one judge saw it.

    Args:
        courses: judge -> the events as that judge perceived them, held against the demands.
        names: what the catalogue says of the things in the app.
    """
    found = []
    for number, (demand, promised) in enumerate(zip(wanted, promised_effects(names, wanted), strict=True)):
        name = f"{demand.act} {demand.word or 'a field'}" if demand.act == "click" else f"{demand.act} {demand.word}"
        steps = {judge: course.met[number] for judge, course in courses.items() if number < len(course.met)}
        if not steps:
            found.append(Keypoint(name, "missing", -1, "", "nobody saw it"))
            continue
        step, seen_by = Counter(steps.values()).most_common(1)[0]
        judges = sorted(judge for judge, at in steps.items() if at == step)
        again = [judge for judge in judges if any(same_word(word, demand.word) for word in courses[judge].astray)]
        after = episode.after(step)
        effect = "none" if after is None else effect_between(episode.steps[step].picture, after, thresholds)
        status: Status = "met"
        words = {"none": "nothing changed", "stays": "the screen changed", "moves": "another screen came"}[effect]
        if again:
            status, words = "contradicted", "it was done once more"
        elif effect == "none" and promised in ("stays", "moves"):
            status, words = "contradicted", NO_EFFECT
        elif seen_by < min(2, len(courses)):
            status = "unclear"
        found.append(Keypoint(name, status, step, "+".join(judges), f"step {step}: {words}"))
    return tuple(found)


def reusable_prefix(verdicts: Sequence[StepVerdict]) -> int:
    """How many steps from the start lead the right way: those before the first wrong one."""
    return next((index for index, verdict in enumerate(verdicts) if verdict == "incorrect"), len(verdicts))


def attribute(wanted: Sequence[Demand], keypoints: Sequence[Keypoint], names: Mapping[str, Expected]) -> Attribution:
    """What a failure is put down to.

    The task, if it names nothing to look for or something that the app does not have; the environment, if the right
    thing was done and had no effect; else the agent.

    Args:
        names: what the catalogue says of the things in the app; empty if it knows none.
    """
    if not wanted or (names and any(d.act == "click" and d.word and retrieve(names, d.word) is None for d in wanted)):
        return "task"
    if any(keypoint.evidence.endswith(NO_EFFECT) for keypoint in keypoints):
        return "environment"
    return "agent"


def disagreement(votes: Sequence[Vote], panel: Panel) -> float:
    """How divided the judges are, 0 to 1: twice the share of the weight that is on the losing side.

    The weight of a vote is the logarithm of the likelihood ratio that the panel gives it, as in `Panel.probability`.
    """
    said = {vote.judge: vote.vote for vote in votes}
    for_it = against = 0.0
    for name, judge in panel.judges.items():
        if said.get(name, False):
            for_it += abs(math.log(judge.sensitivity / (1 - judge.specificity)))
        else:
            against += abs(math.log((1 - judge.sensitivity) / judge.specificity))
    total = for_it + against
    return 2 * min(for_it, against) / total if total else 0.0


def reports_schema() -> pa.Schema:
    """Arrow schema of the reports table: one row an episode."""
    import pyarrow as pa

    keypoint = pa.struct(
        [
            ("keypoint", pa.string()),
            ("status", pa.string()),
            ("step", pa.int32()),
            ("judge", pa.string()),
            ("evidence", pa.string()),
        ]
    )
    return pa.schema(
        [
            *((name, pa.string()) for name in ("episode_id", "seen", "verdict")),
            ("probability", pa.float32()),
            ("disagreement", pa.float32()),
            ("for_review", pa.bool_()),
            ("decided_by", pa.string()),
            ("attribution", pa.string()),
            ("keypoints", pa.list_(keypoint)),
        ]
    )


def repair_schema() -> pa.Schema:
    """Arrow schema of the repair queue: partial episodes, and how far they can be used."""
    import pyarrow as pa

    texts = ("episode_id", "task_id", "platform", "app", "instruction")
    return pa.schema(
        [*((name, pa.string()) for name in texts), ("prefix", pa.int32()), ("missing", pa.list_(pa.string()))]
    )
