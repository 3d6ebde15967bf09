"""GSPO (arXiv:2507.18071): one ratio an answer, the geometric mean of its tokens' ratios, clipped as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.checkpoints.losses.policy_gradient import Clip, Extent, standardised, surrogate

if TYPE_CHECKING:
    from torch import Tensor

advantages = standardised


def loss(
    log_probs: Tensor, mask: Tensor, advantages: Tensor, extent: Extent, old_log_probs: Tensor | None, clip: Clip
) -> Tensor:
    """See `Algorithm`. Used once, it equals GRPO; its clip bounds are far narrower than a token's."""
    lengths = mask.sum(-1).clamp(min=1)
    answer = (log_probs * mask).sum(-1) / lengths
    old = None if old_log_probs is None else (old_log_probs * mask).sum(-1) / lengths
    return surrogate(answer, advantages, old, clip).sum() / extent.rows
