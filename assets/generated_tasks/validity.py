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
from assets.generated_tasks.miniwob_candidates import play
from assets.generated_tasks.plan import Candidate, Unreachable, follow

ATTEMPTS = 2
"""How often an environment that breaks is tried; a second break rejects the candidate."""


@dataclass(frozen=True)
class Verdict:
    """What the gate says of one candidate: an empty reason accepts it."""

    candidate: Candidate
    reason: str


def prove_family(sessions: Sessions, family: Sequence[Candidate]) -> list[Verdict]:
    """Solve every candidate of a family for real and hold each against what its siblings reached."""
    reached: list[tuple[dict[str, Any], dict[str, Any]] | None] = []
    reasons: list[str] = []
    for candidate in family:
        states, reason = _solve(sessions, candidate)
        reached.append(states)
        reasons.append(reason)
    for index, candidate in enumerate(family):
        states = reached[index]
        if reasons[index] or states is None:
            continue
        for other, others in enumerate(reached):
            if other == index or others is None or (reasons[other] and other < index):
                continue
            if check(candidate.task, states[0], others[1]).success:
                reasons[index] = f"also passed by what '{family[other].task.instruction}' asks for"
                break
    return [Verdict(candidate, reason) for candidate, reason in zip(family, reasons, strict=True)]


def _solve(sessions: Sessions, candidate: Candidate) -> tuple[tuple[dict[str, Any], dict[str, Any]] | None, str]:
    """((initial state, state the plan reaches), reason to reject)."""
    task = candidate.task
    for attempt in range(ATTEMPTS):
        session = sessions.get(task.platform, task.app)
        try:
            session.reset(task)
            initial = copy.deepcopy(session.state())
            if check(task, initial, initial).success:
                return None, "solved by doing nothing"
            if isinstance(session, MiniwobSession):
                play(session)
            else:
                follow(session, candidate.plan, sessions.size)
            final = copy.deepcopy(session.state())
        except Unreachable as missing:
            return None, f"'{missing}' is not on the screen when it is needed"
        except ActionError as error:
            return None, f"the plan can't be carried out: {error.message}"
        except InfrastructureError as error:
            if attempt + 1 == ATTEMPTS:
                return None, f"the environment broke: {error}"
            continue
        outcome = check(task, initial, final)
        if not outcome.success:
            paths = ", ".join(outcome.side_effects)
            return (
                None,
                f"the plan has side effects: {paths}" if paths else "the plan does not reach the expected state",
            )
        return (initial, final), ""
    raise AssertionError("unreachable")


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
