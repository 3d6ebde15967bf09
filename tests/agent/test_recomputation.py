"""Gradient checkpointing keeps less and changes nothing, in the fan with its cache as well."""

from __future__ import annotations

import pytest

from assets.agent import fan
from assets.agent.processor import Processor, make_image_processor
from assets.agent.recomputation import recompute_activations
from assets.agent.tokenizer import make_tokenizer
from tests.agent.test_fan import FULL, HYBRID, picture, prefix_ids, ragged, small_model


@pytest.mark.parametrize("layers", [FULL, HYBRID], ids=["full", "hybrid"])
def test_gradients_are_the_same_and_less_is_kept_for_them(layers: list[str]):
    import torch

    processor = Processor(make_tokenizer(["Save", "Open", "Click", "screen"]), make_image_processor())
    model = small_model(processor, layers).train()
    prefixes = [(prefix_ids(processor, 1, 6), [processor.patches(picture(seed))]) for seed in range(2)]
    batch = fan.collate(processor, prefixes, ragged(processor, 2, 6, seed=3))
    found = []
    for _ in range(2):
        kept: dict[int, int] = {}

        def keep(tensor: torch.Tensor, kept: dict[int, int] = kept) -> torch.Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = fan.log_probabilities(model, fan.forward(model, batch).answers)[:, 0].sum()
        loss.backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        found.append((loss.item(), sum(kept.values()), gradients))
        model.zero_grad(set_to_none=True)
        recompute_activations(model)
    (plain, all_kept, expected), (loss, less_kept, gradients) = found
    assert loss == plain
    assert less_kept < 0.6 * all_kept
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-6)


def test_the_fan_is_freed_after_its_backward_pass():
    """Nothing that is computed again keeps the cache of the fan alive."""
    import gc
    import weakref

    import torch

    processor = Processor(make_tokenizer(["Save", "Open", "Click", "screen"]), make_image_processor())
    model = small_model(processor, HYBRID).train()
    recompute_activations(model)
    gc.disable()
    try:
        batch = fan.collate(
            processor, [(prefix_ids(processor, 1, 6), [processor.patches(picture(0))])], ragged(processor, 1, 3, seed=1)
        )
        visual = fan.encode_images(model, batch.images)
        cache, length, offset = fan.encode_prefixes(model, batch.prefixes, visual, batch.images.grid)
        fan.expand(cache, batch.owner)
        hidden = fan.continue_suffixes(model, cache, batch.suffixes, length, offset)
        held = [weakref.ref(tensor) for layer in cache.layers for tensor in _tensors(layer)]
        assert held
        hidden.sum().backward()
        del visual, cache, hidden
        torch.empty(0)
        assert not [reference for reference in held if reference() is not None]
    finally:
        gc.enable()


def _tensors(layer):
    if hasattr(layer, "keys"):
        return [layer.keys, layer.values]
    return [*layer.conv_states.values(), *layer.recurrent_states.values()]
