"""The vote: judges weighted by how reliable they are, estimated without knowing the truth.

The estimator is Dawid and Skene's (1979, "Maximum likelihood estimation of observer error-rates using the EM
algorithm"): what the judges agree on tells how often each of them is right, and how often each is right tells what is
true. It needs no programmatic outcome, so the vote stays blind.
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


def estimate(episodes: Sequence[Sequence[Vote]], rounds: int = 50) -> Panel:
    """Dawid and Skene's EM on the votes of many episodes, started from the majority.

    Every rate has one imagined case on either side, so that none becomes certain.
    """
    names = sorted({vote.judge for votes in episodes for vote in votes})
    table = [{vote.judge: vote.vote for vote in votes} for votes in episodes]
    completed = [sum(row.values()) / max(len(row), 1) for row in table]
    panel = Panel({name: Reliability(0.8, 0.8) for name in names}, 0.5)
    for _ in range(rounds):
        total = sum(completed)
        judges = {}
        for name in names:
            hits = sum(p for p, row in zip(completed, table, strict=True) if row.get(name, False))
            rejections = sum(1 - p for p, row in zip(completed, table, strict=True) if not row.get(name, False))
            judges[name] = Reliability((hits + 1) / (total + 2), (rejections + 1) / (len(table) - total + 2))
        panel = Panel(judges, (total + 1) / (len(table) + 2))
        completed = [panel.probability(votes) for votes in episodes]
    return panel
