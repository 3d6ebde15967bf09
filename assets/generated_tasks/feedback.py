"""What earlier rounds found out: how often each capability was tried, what failed and whose fault that was.

A round's verification writes one JSON file; the catalogue reads all of them:

    {"capabilities": {NAME: {"attempts": 4, "completed": 2}},
     "failures": {NAME: {"task": 0, "environment": 1, "agent": 1}},
     "unreached": ["app/place"], "invalid_entities": ["app/word"]}

NAME is the id of a capability, or `app/word` for all capabilities of an app that are about a word. All but
`capabilities` may be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError, model_validator

from assets.errors import InputError

Fault = Literal["task", "environment", "agent"]


@dataclass(frozen=True)
class Feedback:
    """All rounds together.

    Attributes:
        attempts, completed: by name.
        broken: attempts by name that failed for the environment's sake.
        unreached: `app/place` of screens, dialogs and windows that no episode came to.
        invalid_entities: `app/word` of what turned out not to be there.
    """

    attempts: Mapping[str, int] = field(default_factory=dict)
    completed: Mapping[str, int] = field(default_factory=dict)
    broken: Mapping[str, int] = field(default_factory=dict)
    unreached: frozenset[str] = frozenset()
    invalid_entities: frozenset[str] = frozenset()

    def coverage(self, names: Iterable[str]) -> tuple[int, int]:
        """(attempts, completed) under any of the names. What the environment broke was no attempt."""
        attempts = completed = 0
        for name in dict.fromkeys(names):
            well = self.completed.get(name, 0)
            attempts += max(well, self.attempts.get(name, 0) - self.broken.get(name, 0))
            completed += well
        return attempts, completed


def read_feedback(folder: Path) -> Feedback:
    """The files of all rounds, added up.

    Raises:
        InputError: a file is not feedback.
    """
    attempts, completed, broken = Counter[str](), Counter[str](), Counter[str]()
    unreached, invalid = set[str](), set[str]()
    for path in sorted(folder.glob("*.json")):
        try:
            found = _Round.model_validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(f"{path} is not feedback of a verification: {where}: {first['msg']}") from None
        for name, counts in found.capabilities.items():
            attempts[name] += counts.attempts
            completed[name] += counts.completed
        for name, faults in found.failures.items():
            broken[name] += faults.get("environment", 0)
        unreached.update(found.unreached)
        invalid.update(found.invalid_entities)
    return Feedback(attempts, completed, broken, frozenset(unreached), frozenset(invalid))


class _Counts(BaseModel):
    attempts: NonNegativeInt
    completed: NonNegativeInt

    @model_validator(mode="after")
    def _possible(self) -> _Counts:
        if self.completed > self.attempts:
            raise ValueError("more completed than attempted")
        return self


class _Round(BaseModel):
    """One file. What later versions of it hold besides is left alone."""

    model_config = ConfigDict(extra="ignore")

    capabilities: dict[str, _Counts]
    failures: dict[str, dict[Fault, NonNegativeInt]] = {}
    unreached: tuple[str, ...] = ()
    invalid_entities: tuple[str, ...] = ()


def weight(attempts: int, completed: int, boost: float) -> float:
    """1 for a capability that always came out well, 1 + boost for one that never did or was never tried.

    The share that came out well is estimated with one success and one failure added (Laplace's rule), so that one
    lucky attempt is not certainty.
    """
    share = (completed + 1) / (attempts + 2) if attempts else 0.0
    return 1.0 + boost * (1.0 - share)
