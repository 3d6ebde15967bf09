"""Oracles that go wrong in known ways, for real: what a verifier has to catch.

Each acts in the environment, so that its screens are true and the programmatic check says what came of it. Where its
mistake can't be made it plays on like the oracle, and where the mistake does no harm the episode counts as solved.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from assets.agent.observation import Observation
from assets.agent.vocabulary import WORDS, Locale
from assets.environments.session import Element, Session
from assets.environments.task import TaskContract
from assets.generated_tasks.oracle import OraclePolicy
from assets.generated_tasks.plan import PlannedStep, find, to_action
from assets.generated_tasks.templates import BACK, thought_of_typing

TWO_WAY = ("switch", "checkbox", "toggle")
"""Kinds of elements that a second click brings back."""


class FailingOracle(OraclePolicy):
    """An oracle with a random choice of where to go wrong."""

    def __init__(
        self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], digits: int, rng: random.Random
    ) -> None:
        super().__init__(session, task, plan, digits)
        self._rng = rng
        self._length = len(plan)

    def _others(self, *identities: str) -> list[Element]:
        """What is on the screen besides some elements."""
        return [other for other in self._session.elements() if other.visible and other.id not in identities]


class UndoingOracle(FailingOracle):
    """Does the task, then undoes its last step: the switch is turned back, the screen left again."""

    name = "undone"
    _last: PlannedStep | None = None
    _undid = False

    def _next(self, observation: Observation) -> str:
        if self._plan or self._undid or self._last is None:
            return super()._next(observation)
        self._undid = True
        element = find(self._session.elements(), self._last.target)
        if element is not None and element.kind in TWO_WAY:
            return super()._carry_out(self._last, observation)
        if self._task.platform == "desktop":
            return super()._next(observation)
        return super()._carry_out(PlannedStep("PressBack", thought=BACK[self._task.locale]), observation)

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        self._last = step
        return super()._carry_out(step, observation)


class NeighbourOracle(FailingOracle):
    """Thinks the right thing and clicks its nearest neighbour of the same kind, once."""

    name = "neighbour"

    def __init__(
        self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], digits: int, rng: random.Random
    ) -> None:
        super().__init__(session, task, plan, digits, rng)
        self._step = rng.choice([step for step in plan if step.target] or [None])

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        elements = self._session.elements() if step is self._step else []
        element = find(elements, step.target)
        if element is None:
            return super()._carry_out(step, observation)
        alike = [
            other for other in elements if other.visible and other.id != step.target and other.kind == element.kind
        ]
        if not alike:
            return super()._carry_out(step, observation)
        nearest = min(alike, key=lambda other: (_distance(other, element), other.id))
        action = to_action(step, nearest, elements, (observation.width, observation.height))
        return self._say(step.thought or element.label, action, [nearest.box])


class WrongValueOracle(FailingOracle):
    """Types another word than the one asked for, and thinks that it is the right one."""

    name = "wrong_value"

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        if step.do != "Type":
            return super()._carry_out(step, observation)
        locale: Locale = "zh" if self._task.locale == "zh" else "en"
        other = self._rng.choice([word for word in WORDS[locale] if word != step.content])
        thought = step.thought or thought_of_typing(step.content, self._task.locale)
        return super()._carry_out(PlannedStep("Type", content=other, thought=thought), observation)


class WrongFieldOracle(FailingOracle):
    """Types the right word where it does not belong: into another field, or without having clicked the right one."""

    name = "wrong_field"

    def _next(self, observation: Observation) -> str:
        if len(self._plan) > 1 and self._plan[0].target and self._plan[1].do == "Type":
            field = self._plan[0]
            fields = [other for other in self._others(field.target) if other.kind in ("field", "entry", "textbox")]
            if not fields:
                self._plan.pop(0)
            else:
                self._plan[0] = PlannedStep(field.do, self._rng.choice(fields).id)
        return super()._next(observation)


class SideEffectOracle(FailingOracle):
    """Does the task and, on the way, one thing more that nobody asked for."""

    name = "side_effect"
    _done = False

    def _next(self, observation: Observation) -> str:
        if not self._done and self._length - len(self._plan) >= min(1, self._length - 1):
            planned = {step.target for step in self._plan}
            extra = [other for other in self._others(*planned) if other.kind in TWO_WAY]
            if extra and not (self._plan and self._plan[0].do == "Type"):
                self._done = True
                chosen = self._rng.choice(extra)
                return super()._carry_out(PlannedStep("Click", chosen.id), observation)
        return super()._next(observation)


class RepeatingOracle(FailingOracle):
    """Carries one clicking step out twice, as an agent does that believes it had no effect."""

    name = "repeated"

    def __init__(
        self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], digits: int, rng: random.Random
    ) -> None:
        at = rng.choice([index for index, step in enumerate(plan) if step.target] or [0])
        super().__init__(session, task, [*plan[: at + 1], *plan[at:]], digits, rng)
        self._twice = plan[at] if plan else None

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        gone = step is self._twice and find(self._session.elements(), step.target) is None
        if gone:  # its first click has led elsewhere
            return self._next(observation)
        return super()._carry_out(step, observation)


FAILING = {
    policy.name: policy
    for policy in (
        UndoingOracle,
        NeighbourOracle,
        WrongValueOracle,
        WrongFieldOracle,
        SideEffectOracle,
        RepeatingOracle,
    )
}
"""The policies of this file by name."""


def can_fail(policy: str, plan: Sequence[PlannedStep]) -> bool:
    """Whether a plan has what a policy needs to go wrong."""
    if policy in ("wrong_value", "wrong_field"):
        return any(step.do == "Type" for step in plan)
    return policy not in FAILING or any(step.target for step in plan)


def _distance(one: Element, other: Element) -> float:
    return abs(one.center[0] - other.center[0]) + abs(one.center[1] - other.center[1])
