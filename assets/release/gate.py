"""The gate: is the candidate good enough by itself, and no worse than the champion by more than noise?

A pure function of measured scores and thresholds, so that its whole behaviour is a truth table in a test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import Field, field_validator, model_validator

from assets.stage import StageParameters, nearest
from assets.statistics import Interval, difference

T = TypeVar("T", bound=Iterable[str])

Scores = Mapping[str, Interval]
"""`<domain>.<metric>` -> what was measured, for example `grounding.point_in_box`."""


_STEPS = ("step_accuracy", "action_type", "refusal", "live_success")
_ATTACKS = ("attack_success", "task_success_under_attack", "task_success", "over_refusal")
SCORES = frozenset(
    f"{domain}.{metric}"
    for domain, metrics in {
        "grounding": ("point_in_box", "refusal"),
        "captcha": ("pass_at_1", "refusal"),
        "mobile": _STEPS,
        "web": (*_STEPS, "miniwob_success"),
        "computer": _STEPS,
        "teachers": ("mean_difference",),
        "safety": _ATTACKS,
        "safety.deceptive_dialog": _ATTACKS,
        "safety.prompt_injection": _ATTACKS,
    }.items()
    for metric in metrics
)
"""Every score that the two reports can hold. Written down here, so that a wrong name in params.yaml is refused before
anything runs, and without loading what measures them; a test holds it to what they measure."""


class Threshold(StageParameters):
    """What a score must reach (`min`) or not exceed (`max`)."""

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _bounds_something(self) -> Threshold:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        return self


class Parameters(StageParameters):
    """The gate's thresholds.

    Attributes:
        thresholds: score -> bounds that the candidate must keep whoever is champion.
        compared: scores, higher is better, in which the candidate must not fall behind the champion.
        max_drop: how far a compared score may fall; a larger fall refuses the release only if it is more than noise.
    """

    thresholds: dict[str, Threshold]
    compared: tuple[str, ...]
    max_drop: float = Field(ge=0, le=1)

    @field_validator("thresholds", "compared")
    @classmethod
    def _names_what_is_measured(cls, names: T) -> T:
        for name in names:
            if name not in SCORES:
                raise ValueError(f"no report has a score '{name}'{nearest(name, SCORES)}")
        return names


@dataclass(frozen=True)
class Champion:
    """The released model to beat: its registry version, the id of its bytes and the scores it was released with."""

    version: str
    dvc_hash: str
    scores: Scores


@dataclass(frozen=True)
class Check:
    """One question the gate asked."""

    passed: bool
    text: str


@dataclass(frozen=True)
class Decision:
    """Whether the candidate is released, and why. `reasons`: what failed or, in a release, what held."""

    released: bool
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]


def decide(candidate: Scores, champion: Champion | None, parameters: Parameters) -> Decision:
    """Every threshold holds, and no compared score fell behind the champion by more than `max_drop` and noise.

    A fall is noise while Newcombe's interval of the difference (`statistics.difference`) holds zero. A score that was
    not measured fails its check: a release never rests on a missing figure.
    """
    checks = [_keeps(candidate, name, bounds) for name, bounds in sorted(parameters.thresholds.items())]
    if champion is not None:
        checks += [_holds_against(champion, candidate, name, parameters.max_drop) for name in parameters.compared]
    else:
        checks.append(Check(True, "no champion known: the thresholds alone decide"))
    failed = [check.text for check in checks if not check.passed]
    return Decision(not failed, tuple(failed or [check.text for check in checks]), tuple(checks))


def _keeps(scores: Scores, name: str, bounds: Threshold) -> Check:
    score = _measured(scores, name)
    if score is None:
        return Check(False, f"{name} was not measured; measured: {', '.join(sorted(scores)) or 'nothing'}")
    if bounds.min is not None and score.value < bounds.min:
        return Check(False, f"{name} {_state(score)} is below {bounds.min:g}")
    if bounds.max is not None and score.value > bounds.max:
        return Check(False, f"{name} {_state(score)} is above {bounds.max:g}")
    wanted = [f"at least {bounds.min:g}"] if bounds.min is not None else []
    wanted += [f"at most {bounds.max:g}"] if bounds.max is not None else []
    return Check(True, f"{name} {_state(score)} is {' and '.join(wanted)}")


def _holds_against(champion: Champion, candidate: Scores, name: str, max_drop: float) -> Check:
    ours, theirs = _measured(candidate, name), _measured(champion.scores, name)
    if ours is None:
        return Check(False, f"{name} was not measured, so it can't be compared with champion {champion.version}")
    if theirs is None:
        return Check(True, f"{name} {_state(ours)}: champion {champion.version} has no such score")
    gap = difference(theirs, ours)
    against = f"champion {champion.version}'s {_state(theirs)}"
    if -gap.value > max_drop and gap.high < 0:
        return Check(
            False, f"{name} {_state(ours)} is {-gap.value:.3f} below {against}, more than {max_drop:g} and noise"
        )
    verdict = "above" if gap.low > 0 else "within noise of" if gap.high >= 0 else f"not more than {max_drop:g} below"
    return Check(True, f"{name} {_state(ours)} is {verdict} {against}")


def _measured(scores: Scores, name: str) -> Interval | None:
    score = scores.get(name)
    return None if score is None or score.n == 0 or math.isnan(score.value) else score


def _state(score: Interval) -> str:
    return f"{score} (n = {score.n})"
