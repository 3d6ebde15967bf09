"""Gradient checkpointing for the fan: what a layer computes inside is computed again in the backward pass.

transformers drops the cache from a layer that it checkpoints, since running the layer again would extend the cache
again. In the fan the cache carries the gradient from the suffixes to their prefix. So here a layer runs on a copy of
what the cache holds for it, every time it runs, and what it makes of that is put into the fan's cache once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def recompute_activations(model: PreTrainedModel) -> None:
    """Keep, from now on, only what goes into each layer of the vision tower and of the decoder while they train."""
    decoder: Any = model.model.language_model
    for layer in decoder.layers:
        layer.gradient_checkpointing = True
        layer._can_checkpoint_with_cache = True  # transformers hands the cache on to `_run_layer`
        layer._gradient_checkpointing_func = _run_layer
    model.model.visual.gradient_checkpointing = True  # type: ignore[union-attr]


def recomputed(module: Any, compute: Callable[[torch.Tensor], torch.Tensor], hidden: torch.Tensor) -> torch.Tensor:
    """`compute(hidden)`, inside of which nothing is kept where the module trains with `recompute_activations`."""
    import torch

    if not (getattr(module, "gradient_checkpointing", False) and module.training and torch.is_grad_enabled()):
        return compute(hidden)
    result: torch.Tensor = _checkpoint(compute, hidden)
    return result


def _run_layer(run: partial[torch.Tensor], hidden: torch.Tensor) -> torch.Tensor:
    """A decoder layer's forward pass; `run` holds its function, the layer and all arguments but the hidden states."""
    keywords = dict(run.keywords)
    cache = keywords.pop("cache")
    (layer,) = run.args
    index = (layer.linear_attn if layer.block_type == "linear_attention" else layer.self_attn).layer_idx
    found = _copied(cache.layers[index])
    empty = copy.copy(cache)
    function = run.func

    def on_a_copy(hidden: torch.Tensor) -> tuple[torch.Tensor, Any]:
        own = copy.copy(empty)
        own.layers = [None] * index + [_copied(found)]
        return function(layer, hidden, cache=own, **keywords), own.layers[index]

    # Nothing that is computed again may hold the fan's cache: it will hold what follows, and neither would be freed.
    empty.layers = []
    output: torch.Tensor
    output, cache.layers[index] = _checkpoint(on_a_copy, hidden)
    return output


def _copied(cache_layer: Any) -> Any:
    twin = copy.copy(cache_layer)
    for name, value in vars(cache_layer).items():
        if isinstance(value, dict):
            setattr(twin, name, dict(value))
    return twin


def _checkpoint(compute: Callable[[torch.Tensor], Any], hidden: torch.Tensor) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(compute, hidden, use_reentrant=False, preserve_rng_state=False)
