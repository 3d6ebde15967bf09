"""Dr. GRPO (arXiv:2503.20783): GRPO without its two biases, the division by the deviation and by the length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.checkpoints.losses.policy_gradient import Clip, Extent, centred, surrogate

if TYPE_CHECKING:
    from torch import Tensor

advantages = centred


def loss(
    log_probs: Tensor, mask: Tensor, advantages: Tensor, extent: Extent, old_log_probs: Tensor | None, clip: Clip
) -> Tensor:
    """See `Algorithm`. Divides by the longest allowed answer instead of the answer's own length."""
    terms = surrogate(log_probs, advantages[:, None], old_log_probs, clip) * mask
    return terms.sum() / (extent.rows * extent.longest)
