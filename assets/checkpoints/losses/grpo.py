"""GRPO (arXiv:2402.03300): standardised group advantage, mean over the tokens of an answer, then over answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.checkpoints.losses.policy_gradient import Clip, Extent, standardised, surrogate

if TYPE_CHECKING:
    from torch import Tensor

advantages = standardised


def loss(
    log_probs: Tensor, mask: Tensor, advantages: Tensor, extent: Extent, old_log_probs: Tensor | None, clip: Clip
) -> Tensor:
    """See `Algorithm`. Every answer weighs the same, so a token of a long answer weighs less."""
    terms = surrogate(log_probs, advantages[:, None], old_log_probs, clip) * mask
    return (terms.sum(-1) / mask.sum(-1).clamp(min=1)).sum() / extent.rows
