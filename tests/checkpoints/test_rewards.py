"""Rewards: gates, weights, and no credit for what was not earned."""

import pytest

from assets.agent.matching import UNREADABLE, Match
from assets.checkpoints.rewards import RewardWeights, content_reward, coordinate_reward, step_reward, type_reward

WEIGHTS = RewardWeights(format=0.1, action=1.0, content_f1=0.5)


def test_an_unreadable_response_earns_nothing() -> None:
    assert step_reward(UNREADABLE, WEIGHTS) == 0.0


def test_the_sum() -> None:
    assert step_reward(Match(True, 1.0, 1.0, 0.0, True), WEIGHTS) == pytest.approx(0.1 + 2.0)
    assert step_reward(Match(True, 1.0, 0.0, 0.6, False), WEIGHTS) == pytest.approx(0.1 + 2.0)
    assert step_reward(Match(True, 0.0, 0.0, 0.0, False), WEIGHTS) == pytest.approx(0.1)


def test_a_wrong_type_gates_the_rest() -> None:
    inconsistent = Match(True, 0.0, 1.0, 1.0, False)
    assert type_reward(inconsistent) == coordinate_reward(inconsistent) == content_reward(inconsistent, 0.5) == 0.0
    unparsed = Match(False, 1.0, 1.0, 1.0, False)
    assert step_reward(unparsed, WEIGHTS) == 0.0


def test_content_has_a_threshold_or_is_graded() -> None:
    half = Match(True, 1.0, 0.0, 0.5, False)
    less = Match(True, 1.0, 0.0, 0.49, False)
    assert (content_reward(half, 0.5), content_reward(less, 0.5)) == (1.0, 0.0)
    assert content_reward(less, 0.0) == 0.49
