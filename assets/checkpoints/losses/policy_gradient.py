"""What the policy losses share: group-relative advantages, the clipped surrogate, the KL penalty, the extent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Extent:
    """The size of a whole update, whatever piece of it a loss is given.

    Attributes:
        rows: answers in the update.
        tokens: answer tokens in the update.
        longest: most tokens an answer may have.
    """

    rows: int
    tokens: int
    longest: int


@dataclass(frozen=True)
class Clip:
    """Bounds of the probability ratio, `1 - low` to `1 + high`."""

    low: float
    high: float


class Algorithm(NamedTuple):
    """A policy loss and the advantage that belongs to it.

    `advantages(rewards)`: [groups, samples] -> [groups, samples].
    `loss(log_probs, mask, advantages, extent, old_log_probs, clip)`: scalar; `log_probs` [rows, tokens] of the
    sampled tokens, `mask` [rows, tokens], `advantages` [rows]; `old_log_probs` [rows, tokens] is None when the answers
    are used once, since the ratio is then 1 and the loss is the plain policy gradient.
    """

    advantages: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor, Tensor, Tensor, Extent, Tensor | None, Clip], Tensor]


def informative(rewards: Tensor) -> Tensor:
    """[groups] bool: the groups whose answers differ in reward; the others have no gradient and are dropped."""
    return rewards.amax(-1) > rewards.amin(-1)


def centred(rewards: Tensor) -> Tensor:
    """Reward minus the mean of its group, [groups, samples]."""
    return rewards - rewards.mean(-1, keepdim=True)


def standardised(rewards: Tensor) -> Tensor:
    """`centred`, over the standard deviation of the group; 0 where all rewards of a group are equal."""
    deviation = rewards.std(-1, keepdim=True, correction=0)
    scale = deviation.masked_fill(~informative(rewards)[..., None], 1.0)
    return centred(rewards).masked_fill(~informative(rewards)[..., None], 0.0) / scale


def surrogate(log_probs: Tensor, advantages: Tensor, old_log_probs: Tensor | None, clip: Clip) -> Tensor:
    """PPO's clipped objective, negated, element by element (arXiv:1707.06347, eq. 7).

    Without old log-probabilities the ratio is 1 and its gradient that of `log_probs`: the plain policy gradient.
    """
    if old_log_probs is None:
        return -advantages * log_probs
    ratio = (log_probs - old_log_probs).exp()
    clipped = ratio.clamp(1 - clip.low, 1 + clip.high)
    return -(advantages * ratio).minimum(advantages * clipped)


def kl_penalty(log_probs: Tensor, reference: Tensor, mask: Tensor, extent: Extent) -> Tensor:
    """KL(policy || reference) on the sampled tokens, the mean a token of the update.

    The estimator is unbiased, never negative and has low variance: r - 1 - log r with r = reference / policy
    (Schulman, "Approximating KL divergence", k3). All arguments but `extent` are [rows, tokens].
    """
    gap = reference - log_probs
    return ((gap.exp() - 1 - gap) * mask).sum() / extent.tokens
