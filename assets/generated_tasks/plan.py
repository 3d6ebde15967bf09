"""The way to solve a task, and a candidate for a task: a contract with its plan, before it is proven."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from assets.agent.actions import Action, from_pixel
from assets.environments.session import Element, Session
from assets.environments.task import TaskContract

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PlannedStep:
    """One step: a pointing action on an element, or an action that points at nothing.

    Attributes:
        do: the action's name.
        target: id of the element it points at, as `Session.elements` names it; empty if it points at nothing.
        content: text of a Type, Answer or Finished.
        keys: keys of a Hotkey.
        thought: what the oracle thinks; empty means the label of the element.
    """

    do: str
    target: str = ""
    content: str = ""
    keys: tuple[str, ...] = ()
    thought: str = ""


@dataclass(frozen=True)
class Candidate:
    """A contract that is still to be proven, with its plan.

    Attributes:
        task: the contract.
        plan: solves the task.
        family: candidates of one family start from the same state; what one of them reaches must fail the others.
        target: what tells the candidate from its siblings.
    """

    task: TaskContract
    plan: tuple[PlannedStep, ...]
    family: str
    target: str


def find(elements: list[Element], identity: str) -> Element | None:
    """The visible element with an id."""
    return next((element for element in elements if element.id == identity and element.visible), None)


def to_action(step: PlannedStep, element: Element | None, width: int, height: int) -> Action:
    """The step as an action; a pointing one aims at the middle of its element."""
    point = None if element is None else from_pixel(*element.center, width, height)
    content = step.content if step.do in _WITH_CONTENT else None
    return Action(step.do, point=point, content=content, keys=step.keys)


_WITH_CONTENT = ("Type", "Answer", "Finished", "CallUser", "LaunchApp", "Launch", "TakeNote")


class Unreachable(Exception):
    """The plan names an element that is not on the screen."""


def follow(session: Session, plan: tuple[PlannedStep, ...], size: tuple[int, int]) -> None:
    """Carry a plan out, without looking at screenshots.

    Raises:
        Unreachable: an element of the plan is not on the screen.
    """
    for step in plan:
        element = None
        if step.target:
            element = find(session.elements(), step.target)
            if element is None:
                raise Unreachable(step.target)
        session.act(to_action(step, element, *size))


# --- storage ---------------------------------------------------------------------------------------------------------


def solutions_schema() -> pa.Schema:
    """Arrow schema of the solutions table: kept apart from the tasks, which hold no answer."""
    import pyarrow as pa

    return pa.schema([("task_id", pa.string()), ("family", pa.string()), ("plan", pa.string())])


def plan_to_json(plan: tuple[PlannedStep, ...]) -> str:
    """The plan as JSON, defaults left out."""
    rows = [{key: value for key, value in asdict(step).items() if value} for step in plan]
    return json.dumps(rows, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def plan_from_json(text: str) -> tuple[PlannedStep, ...]:
    """The inverse of `plan_to_json`."""
    return tuple(PlannedStep(**{**row, "keys": tuple(row.get("keys", ()))}) for row in json.loads(text))
