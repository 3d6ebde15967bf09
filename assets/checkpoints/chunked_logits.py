"""What is computed from logits, a few answer tokens at a time.

An answer token has a logit for every word of the vocabulary. At full scale those of one pass, with their gradient,
would need more memory than the model, while what a loss takes from them is a number or two a token. So nothing of that
width outlives its chunk of tokens: it is computed again in the backward pass (Chen et al. 2016, arXiv:1604.06174). The
result is that of the plain computation, and up to the size of one chunk it is the plain computation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from assets.agent import fan

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def in_chunks(
    compute: Callable[..., tuple[torch.Tensor, ...]], tensors: Sequence[torch.Tensor], size: int
) -> tuple[torch.Tensor, ...]:
    """`compute(*tensors)`, from at most `size` tokens at once.

    All tensors, given and computed, are `[tokens, ...]`, and what `compute` makes of a token depends on that token
    alone. Gradients flow through; what `compute` does is done a second time in the backward pass, up to the last
    tensor that a gradient needs.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    if tensors[0].shape[0] <= size:
        return compute(*tensors)
    chunks = zip(*(tensor.split(size) for tensor in tensors), strict=True)
    # Not reentrant: in one backward pass the head's gradient is complete once, which hooks on it rely on.
    parts = [checkpoint(compute, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
    return tuple(torch.cat(columns) for columns in zip(*parts, strict=True))


def token_log_probs(
    model: PreTrainedModel, hidden: torch.Tensor, targets: torch.Tensor, size: int, temperature: float = 1.0
) -> torch.Tensor:
    """The log-probability of each of `targets` `[tokens]` after the hidden states `[tokens, hidden]`: `[tokens]`.

    Args:
        size: most tokens whose logits are held at once.
        temperature: of the distribution.
    """

    def chosen(hidden: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor]:
        return (fan.log_probabilities(model, hidden, temperature).gather(-1, targets[:, None])[:, 0],)

    (log_probs,) = in_chunks(chosen, (hidden, targets), size)
    return log_probs
