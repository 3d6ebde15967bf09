"""The validity gate: a candidate becomes a task only when acting in the real environment has proven it.

Proven means: the plan solves it and the check says so; each thing that the instruction names is, where it is pressed,
the only one on the screen that is called so; doing nothing does not solve the task; doing it to something else does
not, be it what a sibling asks for or the same plan gone wrong; what it asks to read stands neither in the instruction
nor on the first screen; and no accepted task of the app asks the same.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from assets.agent.actions import ActionError
from assets.environments.apps import find_spec
from assets.environments.desktop import ProgramSpec, find_app, leaks
from assets.environments.miniwob import PREFIX, MiniwobSession
from assets.environments.session import Element, Session, check
from assets.environments.task import TaskContract
from assets.environments.workers import Sessions
from assets.errors import InfrastructureError
from assets.generated_tasks.miniwob_candidates import click_elsewhere, play, worded
from assets.generated_tasks.plan import (
    SYSTEM_KEYS,
    Candidate,
    PlannedStep,
    Unreachable,
    filled_in,
    find,
    follow,
    read_off,
)
from assets.generated_tasks.templates import parse

ATTEMPTS = 3
"""How often an environment that breaks is tried; the last break rejects the candidate."""


@dataclass(frozen=True)
class Verdict:
    """What the gate says of one candidate.

    Attributes:
        candidate: with what was read off the screen filled in.
        reason: to reject it; empty accepts it.
        wrong: how many ways of doing it to something else were tried and failed the check.
    """

    candidate: Candidate
    reason: str
    wrong: int = 0


def prove_family(sessions: Sessions, family: Sequence[Candidate]) -> list[Verdict]:
    """Solve every candidate of a family for real and hold each against what its siblings reached.

    A candidate that no sibling tests is also done wrong on purpose.
    """
    attempts = [_safely(sessions, candidate) for candidate in family]
    reasons = [attempt.reason for attempt in attempts]
    wrong = [0] * len(attempts)
    for index, attempt in enumerate(attempts):
        for other, sibling in enumerate(attempts):
            if reasons[index] or other == index or sibling.final is None or (reasons[other] and other < index):
                continue
            if check(attempt.candidate.task, attempt.initial, sibling.final).success:
                reasons[index] = f"also passed by what '{sibling.candidate.task.instruction}' asks for"
            else:
                wrong[index] += 1
        if not reasons[index] and wrong[index] == 0:
            reasons[index], wrong[index] = _gone_wrong(sessions, attempt)
    found = zip(attempts, reasons, wrong, strict=True)
    return [Verdict(attempt.candidate, reason, count) for attempt, reason, count in found]


# --- doing it right ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Attempt:
    """What came of following a plan.

    Attributes:
        initial, final: the state before, and the one that was reached.
        reason: to reject the candidate.
        mistakes: plans that do it to something else of the same kind, the latest mistake first.
    """

    candidate: Candidate
    initial: dict[str, Any]
    final: dict[str, Any] | None
    reason: str
    mistakes: tuple[tuple[PlannedStep, ...], ...] = ()


class _Refused(Exception):
    """Something on the screen speaks against the candidate."""


def _safely(sessions: Sessions, candidate: Candidate) -> _Attempt:
    """An attempt; what the environment breaks is tried again."""
    for remaining in reversed(range(ATTEMPTS)):
        try:
            return _attempt(sessions, candidate)
        except Unreachable as missing:
            return _Attempt(candidate, {}, None, f"'{missing}' is not on the screen when it is needed")
        except _Refused as refusal:
            return _Attempt(candidate, {}, None, str(refusal))
        except ActionError as error:
            return _Attempt(candidate, {}, None, f"the plan can't be carried out: {error.message}")
        except InfrastructureError as error:
            if not remaining:
                return _Attempt(candidate, {}, None, f"the environment broke: {error}")
    raise AssertionError("unreachable")


def _attempt(sessions: Sessions, candidate: Candidate) -> _Attempt:
    session = sessions.get(candidate.task.platform, candidate.task.app)
    if candidate.task.resources:
        _look_through(candidate)
    session.reset(candidate.task)
    if isinstance(session, MiniwobSession):
        candidate = worded(candidate, session)
    initial = copy.deepcopy(session.state())
    if check(candidate.task, initial, initial).success:
        return _Attempt(candidate, initial, None, "solved by doing nothing")
    watch = _Watch(candidate)
    # A full app may be longer than its screen; what a small one shows fits on it.
    taken: list[PlannedStep] | None = [] if _is_full(candidate.task) else None
    if isinstance(session, MiniwobSession):
        acted = play(session)
        if acted > candidate.task.step_budget:
            raise _Refused(f"the way takes {acted} steps, more than the budget")
    elif candidate.reading is not None:
        at = candidate.reading.at
        first = session.elements()
        follow(session, candidate.plan[:at], sessions.size, watch, taken)
        answer = read_off(candidate.reading, session.elements())
        if any(element.visible and element.label == answer for element in first):
            raise _Refused("the answer stands on the first screen")
        candidate = _kept_secret(filled_in(candidate, answer), answer)
        follow(session, candidate.plan[at:], sessions.size, watch, taken)
    else:
        said = [step.content for step in candidate.plan if step.do in ("Answer", "Finished")]
        follow(session, _kept_secret(candidate, *said).plan, sessions.size, watch, taken)
    if taken:
        budget = candidate.task.step_budget + len(taken) - len(candidate.plan)
        candidate = replace(candidate, plan=tuple(taken), task=replace(candidate.task, step_budget=budget))
    final = copy.deepcopy(session.state())
    outcome = check(candidate.task, initial, final)
    if outcome.success:
        return _Attempt(candidate, initial, final, "", watch.mistakes(candidate.plan))
    paths = ", ".join(outcome.side_effects)
    reason = f"the plan has side effects: {paths}" if paths else "the plan does not reach the expected state"
    return _Attempt(candidate, initial, None, reason)


def _is_full(task: TaskContract) -> bool:
    """Whether a task is for a full phone app or site."""
    return task.platform != "desktop" and not task.app.startswith(PREFIX) and find_spec(task.app).scale == "full"


def _kept_secret(candidate: Candidate, *answers: str) -> Candidate:
    """The candidate.

    Raises:
        _Refused: its instruction tells what it asks to find out.
    """
    text = candidate.task.instruction
    words = {word for clause in parse(text) for word in clause.words}
    if words.intersection(answers) or (not words and any(answer and answer in text for answer in answers)):
        raise _Refused("the answer stands in the instruction")
    return candidate


def _look_through(candidate: Candidate) -> None:
    """Look through the files that a task brings for what must not, and for what must stand there.

    Raises:
        _Refused: they or the instruction give the answer away, or what the instruction names is not there just once.
    """
    task, program = candidate.task, find_app(candidate.task.app)
    assert isinstance(program, ProgramSpec)
    spec = program.task_spec(task)
    answer = {path: value for path, value in task.expected_state.items() if path == "answer"}
    told = leaks(replace(task, expected_state=answer), spec)
    if told or any(str(value) in task.instruction for value in answer.values()):
        raise _Refused(f"the answer stands in {', '.join(told) or 'the instruction'}")
    files = {path: fixture for path, fixture in spec.files.items() if fixture is not None and not path.startswith(".")}
    places = {PurePosixPath(path) for path in files}
    places |= {above for place in places for above in place.parents}
    text = "\n".join([*sorted(place.name for place in places), *(file.words() for file in files.values())])
    for name in candidate.names:
        found = len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text))
        if found != 1:
            raise _Refused(f"ambiguous: {found} things in its files are called '{name}'")


class _Watch:
    """Looks at the screen before each press: is what the instruction names there once, and what else could be meant?"""

    def __init__(self, candidate: Candidate) -> None:
        self._names = list(candidate.names)
        self._targets = {step.target for step in candidate.plan}
        self._others: dict[PlannedStep, str] = {}

    def __call__(self, step: PlannedStep, elements: list[Element]) -> None:
        if step.do in SYSTEM_KEYS:
            if self._names and any(element.visible and element.label == self._names[0] for element in elements):
                raise _Refused(f"ambiguous: '{self._names[0]}' is on this screen too")
            return
        meant = find(elements, step.target)
        assert meant is not None
        name = self._names.pop(0) if self._names else meant.label
        called = [element for element in elements if element.visible and element.label == name]
        if len(called) != 1 or called[0] is not meant:
            raise _Refused(f"ambiguous: {len(called)} things on the screen are called '{name}'")
        for element in elements:
            if element.visible and element.kind == meant.kind and element.id not in self._targets:
                self._others.setdefault(step, element.id)

    def mistakes(self, plan: Sequence[PlannedStep]) -> tuple[tuple[PlannedStep, ...], ...]:
        """The plan with one step aimed at something else of the same kind, the latest such step first."""
        return tuple(
            (*plan[:at], replace(step, target=self._others[step]), *plan[at + 1 :])
            for at, step in reversed([*enumerate(plan)])
            if step in self._others
        )


# --- doing it wrong ---------------------------------------------------------------------------------------------------


def _gone_wrong(sessions: Sessions, attempt: _Attempt) -> tuple[str, int]:
    """(a reason to reject the candidate, how many ways of doing it wrong failed the check, at most one)."""
    task = attempt.candidate.task
    for _ in range(ATTEMPTS):
        session = sessions.get(task.platform, task.app)
        try:
            session.reset(task)
            initial = copy.deepcopy(session.state())
            if isinstance(session, MiniwobSession):
                if not click_elsewhere(session):
                    return "", 0
            elif attempt.mistakes or attempt.candidate.decoy:
                _blindly(session, [*attempt.mistakes, attempt.candidate.decoy][0], sessions.size)
            else:
                return "", 0  # nothing on its way could be taken for something else
            passed = check(task, initial, session.state()).success
        except InfrastructureError:
            continue
        return ("also passed by doing it to something else", 0) if passed else ("", 1)
    return "the environment broke while it was done wrong", 0


def _blindly(session: Session, plan: Sequence[PlannedStep], size: tuple[int, int]) -> None:
    """Carry out as much of a plan as leads anywhere."""
    for step in plan:
        try:
            follow(session, [step], size)
        except (Unreachable, ActionError):
            continue


class Duplicates:
    """What was asked so far, app by app. The same words in another order ask for nearly the same."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, tuple[str, ...]], str] = {}

    def of(self, app: str, target: str) -> str:
        """An earlier target of the app that this one nearly repeats, or an empty text. Remembers this one.

        Args:
            target: an instruction; what it is about beside its words follows after a bar.
        """
        text, _, more = target.partition(" | ")
        named = [word for clause in parse(text) for word in clause.words] or _WORD.findall(text.casefold())
        words = (*sorted(named), more)
        earlier = self._seen.get((app, words), "")
        self._seen.setdefault((app, words), target)
        return earlier


_WORD = re.compile(r"[^\W_]+")
