"""The vote: judges weighted by how reliable each of them is, the optimal rule for judges that err independently
(Nitzan and Paroush 1982, "Optimal decision rules in uncertain dichotomous choice situations").

How reliable they are is measured on training apps, where the programmatic outcome is known; what is said of an episode
is never changed by its own. Where no outcome is known, as of other people's data alone, the estimator is Dawid and
Skene's (1979, "Maximum likelihood estimation of observer error-rates using the EM algorithm"): what the judges agree on
tells how often each of them is right, and how often each is right tells what is true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assets.verified_trajectories.judges import Vote


@dataclass(frozen=True)
class Reliability:
    """`sensitivity`: P(votes for | completed), `specificity`: P(votes against | not completed)."""

    sensitivity: float
    specificity: float


@dataclass(frozen=True)
class Panel:
    """Judges with their reliabilities, and how common completion is."""

    judges: Mapping[str, Reliability]
    prior: float

    def probability(self, votes: Sequence[Vote]) -> float:
        """P(completed | votes), taking the judges as independent given the truth. A judge who is missing says no."""
        said = {vote.judge: vote.vote for vote in votes}
        odds = math.log(self.prior / (1 - self.prior))
        for name, judge in self.judges.items():
            if said.get(name, False):
                odds += math.log(judge.sensitivity / (1 - judge.specificity))
            else:
                odds += math.log((1 - judge.sensitivity) / judge.specificity)
        return 1 / (1 + math.exp(-max(min(odds, 700.0), -700.0)))


def measure(episodes: Sequence[Sequence[Vote]], completed: Sequence[bool]) -> Panel:
    """The judges' rates on episodes of which it is known whether the task was completed.

    Every rate has one imagined case on either side, so that none becomes certain.
    """
    return _panel(_table(episodes), [float(done) for done in completed])


def estimate(episodes: Sequence[Sequence[Vote]], rounds: int = 50) -> Panel:
    """Dawid and Skene's EM on the votes of many episodes, started from the majority; rates as in `measure`."""
    table = _table(episodes)
    completed = [sum(row.values()) / max(len(row), 1) for row in table]
    panel = _panel(table, completed)
    for _ in range(rounds - 1):
        completed = [panel.probability(votes) for votes in episodes]
        panel = _panel(table, completed)
    return panel


def _table(episodes: Sequence[Sequence[Vote]]) -> list[dict[str, bool]]:
    return [{vote.judge: vote.vote for vote in votes} for votes in episodes]


def _panel(table: Sequence[Mapping[str, bool]], completed: Sequence[float]) -> Panel:
    """The rates that fit the votes, given how probably each episode was completed."""
    total = sum(completed)
    judges = {}
    for name in sorted({name for row in table for name in row}):
        hits = sum(p for p, row in zip(completed, table, strict=True) if row.get(name, False))
        rejections = sum(1 - p for p, row in zip(completed, table, strict=True) if not row.get(name, False))
        judges[name] = Reliability((hits + 1) / (total + 2), (rejections + 1) / (len(table) - total + 2))
    return Panel(judges, (total + 1) / (len(table) + 2))
