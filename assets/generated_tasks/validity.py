"""The validity gate: a candidate becomes a task only when acting in the real environment has proven it.

Proven means: the plan solves it and the check says so; doing nothing does not solve it; doing what a sibling task asks
for, the same kind of thing to another entity, does not solve it; and no accepted task of the app asks the same.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assets.agent.actions import ActionError
from assets.environments.miniwob import MiniwobSession
from assets.environments.session import check
from assets.environments.workers import Sessions
from assets.errors import InfrastructureError
from assets.generated_tasks.miniwob_candidates import play, worded
from assets.generated_tasks.plan import Candidate, Unreachable, follow

ATTEMPTS = 3
"""How often an environment that breaks is tried; the last break rejects the candidate."""


@dataclass(frozen=True)
class Verdict:
    """What the gate says of one candidate: an empty reason accepts it."""

    candidate: Candidate
    reason: str


def prove_family(sessions: Sessions, family: Sequence[Candidate]) -> list[Verdict]:
    """Solve every candidate of a family for real and hold each against what its siblings reached."""
    attempts = [_solve(sessions, candidate) for candidate in family]
    reasons = [attempt.reason for attempt in attempts]
    for index, attempt in enumerate(attempts):
        for other, sibling in enumerate(attempts):
            if reasons[index] or other == index or sibling.final is None or (reasons[other] and other < index):
                continue
            if check(attempt.candidate.task, attempt.initial, sibling.final).success:
                reasons[index] = f"also passed by what '{sibling.candidate.task.instruction}' asks for"
    return [Verdict(attempt.candidate, reason) for attempt, reason in zip(attempts, reasons, strict=True)]


@dataclass(frozen=True)
class _Attempt:
    """What came of following a plan: the state before, the state it reached, or a reason to reject the candidate."""

    candidate: Candidate
    initial: dict[str, Any]
    final: dict[str, Any] | None
    reason: str


def _solve(sessions: Sessions, candidate: Candidate) -> _Attempt:
    for remaining in reversed(range(ATTEMPTS)):
        try:
            return _attempt(sessions, candidate)
        except Unreachable as missing:
            return _Attempt(candidate, {}, None, f"'{missing}' is not on the screen when it is needed")
        except ActionError as error:
            return _Attempt(candidate, {}, None, f"the plan can't be carried out: {error.message}")
        except InfrastructureError as error:
            if not remaining:
                return _Attempt(candidate, {}, None, f"the environment broke: {error}")
    raise AssertionError("unreachable")


def _attempt(sessions: Sessions, candidate: Candidate) -> _Attempt:
    session = sessions.get(candidate.task.platform, candidate.task.app)
    session.reset(candidate.task)
    if isinstance(session, MiniwobSession):
        candidate = worded(candidate, session)
    initial = copy.deepcopy(session.state())
    if check(candidate.task, initial, initial).success:
        return _Attempt(candidate, initial, None, "solved by doing nothing")
    if isinstance(session, MiniwobSession):
        play(session)
    else:
        follow(session, candidate.plan, sessions.size)
    final = copy.deepcopy(session.state())
    outcome = check(candidate.task, initial, final)
    if outcome.success:
        return _Attempt(candidate, initial, final, "")
    paths = ", ".join(outcome.side_effects)
    reason = f"the plan has side effects: {paths}" if paths else "the plan does not reach the expected state"
    return _Attempt(candidate, initial, None, reason)


class Duplicates:
    """Instructions seen so far, app by app. The same words in another order ask for nearly the same."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, frozenset[str]], str] = {}

    def of(self, app: str, instruction: str) -> str:
        """An earlier instruction of the app that this one nearly repeats, or an empty text. Remembers this one."""
        words = frozenset(_WORD.findall(instruction.casefold()))
        earlier = self._seen.get((app, words), "")
        self._seen.setdefault((app, words), instruction)
        return earlier


_WORD = re.compile(r"[^\W_]+")
