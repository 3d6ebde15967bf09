"""Rule rewards for one step (METHOD.md, "Offline RL"): one pure function a part, and their weighted sum.

    reward = w1 * format + w2 * (type + coordinate + content)

A wrong type earns neither coordinate nor content (`matching` gates them action by action), a response the parser
refuses earns nothing, and a part that the verified action does not have earns nothing either: no free credit.
"""

from __future__ import annotations

from pydantic import model_validator

from assets.agent.matching import Match
from assets.stage import StageParameters, some_weight


class RewardWeights(StageParameters):
    """Weights of the sum.

    Attributes:
        format: w1, for a response that parses.
        action: w2, for what the action says.
        content_f1: token F1 from which the content counts as right; 0 rewards the F1 itself.
    """

    format: float
    action: float
    content_f1: float

    @model_validator(mode="after")
    def _rewards_something(self) -> RewardWeights:
        some_weight((self.format, self.action))
        return self


def format_reward(match: Match) -> float:
    """1 if the response parses."""
    return float(match.format)


def type_reward(match: Match) -> float:
    """1 if the action's name is right; of several actions, the share."""
    return match.type if match.format else 0.0


def coordinate_reward(match: Match) -> float:
    """Graded by the verified box, or by distance where there is none; 0 for a wrong type."""
    return match.coordinate if match.format and match.type > 0 else 0.0


def content_reward(match: Match, threshold: float) -> float:
    """1 if the token F1 reaches `threshold`, or the F1 itself at threshold 0; 0 for a wrong type."""
    if not match.format or match.type == 0:
        return 0.0
    if threshold == 0:
        return match.content
    return float(match.content >= threshold)


def step_reward(match: Match, weights: RewardWeights) -> float:
    """The reward of one sampled response."""
    action = type_reward(match) + coordinate_reward(match) + content_reward(match, weights.content_f1)
    return weights.format * format_reward(match) + weights.action * action
