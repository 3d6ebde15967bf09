"""The way to solve a task, and a candidate for a task: a contract with its plan, before it is proven."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from assets.agent.actions import Action, from_pixel
from assets.environments.session import Element, Session, free_point
from assets.environments.task import TaskContract

if TYPE_CHECKING:
    import pyarrow as pa

READ = "$read"
"""Stands for what is read off the screen until the gate has read it."""


@dataclass(frozen=True)
class PlannedStep:
    """One step: a pointing action on an element, or an action that points at nothing.

    Attributes:
        do: the action's name.
        target: id of the element it points at, as `Session.elements` names it; empty if it points at nothing.
        content: text of a Type, Answer or Finished; of a Scroll or Swipe `down`, where it leads to.
        keys: keys of a Hotkey.
        thought: what the oracle thinks; empty means the label of the element.
    """

    do: str
    target: str = ""
    content: str = ""
    keys: tuple[str, ...] = ()
    thought: str = ""


@dataclass(frozen=True)
class Reading:
    """What a plan reads off the screen: one row of a list.

    Attributes:
        at: the step before which it is read.
        rows: ids of the list's rows.
        last: whether the last row is read, or the first.
    """

    at: int
    rows: tuple[str, ...]
    last: bool


@dataclass(frozen=True)
class Candidate:
    """A contract that is still to be proven, with its plan.

    Attributes:
        task: the contract.
        plan: solves the task.
        family: candidates of one family start from the same state; what one of them reaches must fail the others.
        target: what tells the candidate from its siblings, and from other candidates of the app.
        reading: what is read on the way; `READ` stands for it in the plan and in the expected state.
        names: what the instruction calls each thing that the plan points at, in order; empty where a page has its own
            words.
        decoy: does it to something else, where no press of the plan could be aimed at something else.
    """

    task: TaskContract
    plan: tuple[PlannedStep, ...]
    family: str
    target: str
    reading: Reading | None = None
    names: tuple[str, ...] = ()
    decoy: tuple[PlannedStep, ...] = ()


def find(elements: list[Element], identity: str) -> Element | None:
    """The visible element with an id."""
    return next((element for element in elements if element.id == identity and element.visible), None)


def to_action(step: PlannedStep, element: Element | None, elements: Iterable[Element], size: tuple[int, int]) -> Action:
    """The step as an action; a pointing one aims at the middle of its element, or beside what lies upon that.

    Args:
        elements: what is on the screen.
        size: width and height of the screen, in pixels.
    """
    if step.do == "Scroll":
        return Action("Scroll", point=(500, 500), direction=step.content)
    if step.do == "Swipe":
        return Action("Swipe", point=(500, 700), end=(500, 400))
    point = None if element is None else from_pixel(*free_point(element, elements), *size)
    content = step.content if step.do in _WITH_CONTENT else None
    return Action(step.do, point=point, content=content, keys=step.keys)


SYSTEM_KEYS = ("PressBack", "PressHome")
"""Steps that no instruction names: they lead to where the next named thing is."""

_WITH_CONTENT = ("Type", "Answer", "Finished", "CallUser", "LaunchApp", "Launch", "TakeNote")


class Unreachable(Exception):
    """The plan names an element that is not on the screen."""


def follow(
    session: Session,
    plan: Sequence[PlannedStep],
    size: tuple[int, int],
    watch: Callable[[PlannedStep, list[Element]], None] | None = None,
    taken: list[PlannedStep] | None = None,
) -> None:
    """Carry a plan out, without looking at screenshots.

    Args:
        watch: is shown each pointing step and system key, and the elements on the screen before it.
        taken: gets the steps. What is further down is then scrolled to, and what is not there yet is waited for;
            without it the plan is carried out as it is.

    Raises:
        Unreachable: an element of the plan is not on the screen.
    """
    for step in plan:
        element, elements = None, list[Element]()
        if step.target or (watch is not None and step.do in SYSTEM_KEYS):
            elements = session.elements()
            element = find(elements, step.target) if step.target else None
            if step.target and element is None and taken is not None:
                element, elements = _sought(session, step.target, elements, size, taken)
            if step.target and element is None:
                raise Unreachable(step.target)
            if watch is not None:
                watch(step, elements)
        session.act(to_action(step, element, elements, size))
        if taken is not None:
            taken.append(step)


PATIENCE = 4
"""How often a thing that can't be seen is scrolled to or waited for."""


def _sought(
    session: Session, target: str, elements: list[Element], size: tuple[int, int], taken: list[PlannedStep]
) -> tuple[Element | None, list[Element]]:
    """An element that is not seen yet, after the steps towards it, and what is on the screen then."""
    for _ in range(PATIENCE):
        on_the_way = _towards(target, elements, session.platform, size)
        session.act(to_action(on_the_way, None, elements, size))
        taken.append(on_the_way)
        elements = session.elements()
        if (element := find(elements, target)) is not None:
            return element, elements
    return None, elements


def _towards(target: str, elements: Sequence[Element], platform: str, size: tuple[int, int]) -> PlannedStep:
    """A step towards an element that can't be seen: down to it, or a wait."""
    if not any(element.id == target and element.box[3] > size[1] for element in elements):
        return PlannedStep("Wait")
    return PlannedStep("Scroll" if platform == "web" else "Swipe", content="down")


def read_off(reading: Reading, elements: Sequence[Element]) -> str:
    """The label of the row that a reading means.

    Raises:
        Unreachable: there is none, or the last may be further down.
    """
    rows = [element for element in elements if element.visible and element.id in reading.rows]
    if not rows or (reading.last and len(rows) < len(reading.rows)):
        raise Unreachable(", ".join(reading.rows))
    rows.sort(key=lambda element: (element.box[1], element.box[0]))
    return rows[-1 if reading.last else 0].label


def filled_in(candidate: Candidate, answer: str) -> Candidate:
    """The candidate with what was read in the place of `READ`."""

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        return answer if value == READ else value

    expected = {path: put(value) for path, value in candidate.task.expected_state.items()}
    plan = tuple(replace(step, content=put(step.content), thought=put(step.thought)) for step in candidate.plan)
    return replace(candidate, task=replace(candidate.task, expected_state=expected), plan=plan)


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
