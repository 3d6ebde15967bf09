"""DAPO (arXiv:2503.14476): every token of the update weighs the same; the upper clip may be the wider one.

Its dynamic sampling, dropping groups without variance, is done for every algorithm here. Its penalty for overlong
answers is left out: answers to single steps have a fixed small budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.checkpoints.losses.policy_gradient import Clip, Extent, standardised, surrogate

if TYPE_CHECKING:
    from torch import Tensor

advantages = standardised


def loss(
    log_probs: Tensor, mask: Tensor, advantages: Tensor, extent: Extent, old_log_probs: Tensor | None, clip: Clip
) -> Tensor:
    """See `Algorithm`."""
    terms = surrogate(log_probs, advantages[:, None], old_log_probs, clip) * mask
    return terms.sum() / extent.tokens
