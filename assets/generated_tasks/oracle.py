"""Policies that know the answer, and policies that go wrong in known ways.

They see what an agent sees only to answer in its form; where to click they ask the session. Each plays one session.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from assets.agent.actions import Action, render_response
from assets.agent.observation import Box, Observation
from assets.environments.apps import load_specs
from assets.environments.session import Session
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import PlannedStep, find, to_action
from assets.generated_tasks.templates import BACK, thought_of_end, thought_of_typing


class OraclePolicy:
    """Follows the plan of a task: clicks each element, in its middle if that is free, and thinks its label.

    An element that is not on the screen ends the episode with a call for the user.

    Args:
        session: where it plays; asked for the elements on the screen.
        plan: the way, without the final Finished.
        digits: zero-padding of coordinates.
    """

    name = "oracle"

    def __init__(self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], digits: int = 0) -> None:
        self._session = session
        self._task = task
        self._plan = list(plan)
        self._digits = digits
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
            return self._say(thought_of_end(self._task.locale), Action("Finished", content=""), [])
        return self._carry_out(self._plan.pop(0), observation)

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        elements = self._session.elements() if step.target else []
        element = find(elements, step.target)
        if step.target and element is None:
            return self._say(thought_of_end(self._task.locale), Action("CallUser", content=""), [])
        action = to_action(step, element, elements, (observation.width, observation.height))
        thought = step.thought or (element.label if element is not None else self._thought(step))
        return self._say(thought, action, [element.box] if element is not None else [])

    def _thought(self, step: PlannedStep) -> str:
        if step.do == "Type":
            return thought_of_typing(step.content, self._task.locale)
        return thought_of_end(self._task.locale)

    def _say(self, thought: str, action: Action, boxes: list[Box]) -> str:
        self._targets.append(boxes)
        return render_response(thought, [action], self._digits)


class MistakenOracle(OraclePolicy):
    """Makes one recoverable mistake, undoes it and goes on: what is worth keeping in training data.

    It turns a wrong switch on and off again, selects a wrong row before the right one, or opens a wrong screen and
    goes back. Where nothing of that is at hand it makes no mistake.
    """

    name = "mistaken"

    def __init__(
        self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], digits: int, rng: random.Random
    ) -> None:
        super().__init__(session, task, plan, digits)
        self._rng = rng
        self._at = rng.randrange(len(plan)) if plan else 0
        self._targets_of_plan = {step.target for step in plan}
        self._openers = openers_without_effect(task)

    def _next(self, observation: Observation) -> str:
        if self._at == 0:
            self._plan = [*self._detour(), *self._plan]
        self._at -= 1
        return super()._next(observation)

    def _detour(self) -> list[PlannedStep]:
        """Steps that lead astray and back, for the screen as it is now."""
        detours: list[list[PlannedStep]] = []
        if self._plan and self._plan[0].do == "Type":
            return []  # a click elsewhere would take the focus away
        for element in self._session.elements():
            if not element.visible or element.id in self._targets_of_plan:
                continue
            wrong = PlannedStep("Click", element.id)
            if element.kind in ("switch", "checkbox", "toggle"):
                detours.append([wrong, wrong])
            elif element.kind == "row" and self._task.platform == "desktop" and self._plan and self._plan[0].target:
                detours.append([wrong])
            elif element.id in self._openers:
                detours.append([wrong, PlannedStep("PressBack", thought=BACK[self._task.locale])])
        return self._rng.choice(detours) if detours else []


def openers_without_effect(task: TaskContract) -> frozenset[str]:
    """Ids of the controls of a phone app or site that only open a screen, so that going back undoes them."""
    if task.platform == "desktop" or task.app not in load_specs():
        return frozenset()
    spec = load_specs()[task.app]
    lists = {**spec.initial_state()["lists"]}
    found: set[str] = set()
    for place, control in spec.all_controls():
        effects = (
            control.needs,
            control.put,
            control.add,
            control.remove,
            control.clear,
            control.close,
            control.dialog,
        )
        if control.open and control.open != place and not any(effects) and control.kind != "tab":
            labels = lists[control.label] if control.kind == "list" else [control.label]
            found.update(f"{place}/{label}" for label in labels)
    return frozenset(found)


class WrongEntityOracle(OraclePolicy):
    """Solves another task from the same start and claims this one: the right kind of thing, the wrong one."""

    name = "wrong_entity"


class EarlyClaimOracle(OraclePolicy):
    """Stops before the last step and says that it is done."""

    name = "early_claim"

    def __init__(self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], digits: int = 0) -> None:
        super().__init__(session, task, plan[: len(plan) - 1], digits)


class MisclickingOracle(OraclePolicy):
    """Thinks the right thing but clicks something else once, then goes on as if nothing had happened."""

    name = "misclick"

    def __init__(
        self, session: Session, task: TaskContract, plan: Sequence[PlannedStep], digits: int, rng: random.Random
    ) -> None:
        super().__init__(session, task, plan, digits)
        self._rng = rng
        self._step = rng.choice([step for step in plan if step.target] or [None])

    def _carry_out(self, step: PlannedStep, observation: Observation) -> str:
        elements = self._session.elements()
        element = find(elements, step.target) if step is self._step else None
        others = [other for other in elements if other.visible and other.id != step.target]
        if element is None or not others:
            return super()._carry_out(step, observation)
        wrong = self._rng.choice(others)
        action = to_action(step, wrong, elements, (observation.width, observation.height))
        return self._say(step.thought or element.label, action, [wrong.box])
