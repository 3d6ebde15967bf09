"""Policies that know the answer, and policies that go wrong in known ways.

They see what an agent sees only to answer in its form; where to click they ask the session. Each plays one session.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from assets.agent.actions import Action, from_pixel, render_response
from assets.agent.observation import Box, Observation
from assets.environments.session import Session
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import PlannedStep, find, to_action
from assets.generated_tasks.templates import thought_of_end, thought_of_typing


class OraclePolicy:
    """Follows the plan of a task: clicks the middle of each element and thinks its label.

    An element that is not on the screen ends the episode with a call for the user.

    Args:
        session: where it plays; asked for the elements on the screen.
        plan: the way, without the final Finished.
        digits: zero-padding of coordinates.
        jitter: how far from the middle of an element a click may land, as a share of its half width and height.
    """

    name = "oracle"

    def __init__(
        self,
        session: Session,
        task: TaskContract,
        plan: Sequence[PlannedStep],
        digits: int = 0,
        rng: random.Random | None = None,
        jitter: float = 0.0,
    ) -> None:
        self._session = session
        self._locale = task.locale
        self._plan = list(plan)
        self._digits = digits
        self._rng = rng or random.Random(0)
        self._jitter = jitter
        self._targets: list[list[Box]] = []

    def respond(self, observations: Sequence[Observation]) -> list[str]:
        """The next step of the plan."""
        self._targets = []
        return [self._next(observation) for observation in observations]

    def targets(self) -> list[list[Box]]:
        """The box the last response pointed at."""
        return self._targets

    def _next(self, observation: Observation) -> str:
        if not self._plan:
            return self._say(thought_of_end(self._locale), Action("Finished", content=""), [])
        return self._carry_out(self._plan.pop(0), observation)

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        element = find(self._session.elements(), step.target) if step.target else None
        if step.target and element is None:
            return self._say(thought_of_end(self._locale), Action("CallUser", content=""), [])
        action = to_action(step, element, observation.width, observation.height)
        if element is not None:
            x, y = element.center
            across, down = (element.box[2] - element.box[0]) / 2, (element.box[3] - element.box[1]) / 2
            x += across * self._jitter * self._rng.uniform(-1, 1)
            y += down * self._jitter * self._rng.uniform(-1, 1)
            action = Action(step.do, point=from_pixel(x, y, observation.width, observation.height))
        thought = step.thought or (element.label if element is not None else self._thought(step))
        return self._say(thought, action, [element.box] if element is not None else [])

    def _thought(self, step: PlannedStep) -> str:
        if step.do == "Type":
            return thought_of_typing(step.content, self._locale)
        return thought_of_end(self._locale)

    def _say(self, thought: str, action: Action, boxes: list[Box]) -> str:
        self._targets.append(boxes)
        return render_response(thought, [action], self._digits)


class MistakenOracle(OraclePolicy):
    """Makes one recoverable mistake, undoes it and goes on: what is worth keeping in training data."""

    name = "mistaken"

    def __init__(
        self,
        session: Session,
        task: TaskContract,
        plan: Sequence[PlannedStep],
        detour: Sequence[PlannedStep],
        at: int,
        **options: object,
    ) -> None:
        super().__init__(session, task, [*plan[:at], *detour, *plan[at:]], **options)  # type: ignore[arg-type]


class WrongEntityOracle(OraclePolicy):
    """Solves another task from the same start and claims this one: the right kind of thing, the wrong one.

    It thinks what its own task would have it think.
    """

    name = "wrong_entity"


class EarlyClaimOracle(OraclePolicy):
    """Stops before the last step and says that it is done."""

    name = "early_claim"

    def __init__(self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], **options: object) -> None:
        super().__init__(session, task, plan[: len(plan) - 1], **options)  # type: ignore[arg-type]


class MisclickingOracle(OraclePolicy):
    """Thinks the right thing but clicks beside it in one step, then goes on as if nothing had happened."""

    name = "misclick"

    def __init__(
        self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], at: int, **options: object
    ) -> None:
        super().__init__(session, task, plan, **options)  # type: ignore[arg-type]
        self._at = at
        self._count = -1

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        self._count += 1
        if self._count != self._at or not step.target:
            return super()._carry_out(step, observation)
        elements = self._session.elements()
        element = find(elements, step.target)
        others = [other for other in elements if other.visible and other.id != step.target]
        if element is None or not others:
            return super()._carry_out(step, observation)
        wrong = self._rng.choice(others)
        point = from_pixel(*wrong.center, observation.width, observation.height)
        return self._say(step.thought or element.label, Action(step.do, point=point), [wrong.box])
