"""How many bytes a computation keeps alive, found by doing it on torch's meta device.

What a layer keeps for its backward pass could be added up by hand, operation by operation (Korthikanti et al. 2022,
"Reducing activation recomputation in large transformer models", arXiv:2205.05198, section 4: 34 bytes a token and
hidden unit for a GPT layer without its attention matrix). The layers here are others (gated delta rule, output gates,
grouped keys), so the real ones are run forward and backward without bytes, and every tensor's life is followed. The
paper's result for full recomputation holds as it is: of each layer only its input is kept (2 bytes a token and hidden
unit in 16 bit), and one layer at a time is computed again.

Attention runs as a kernel that never holds the scores (FlashAttention, arXiv:2205.14135): it keeps queries, keys,
values, output and one float32 a row. The gated delta rule runs as transformers' own code, which is what runs where
flash-linear-attention is not installed, and needs more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assets.agent import fan
from assets.capacity.architecture import build

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

FULL = "full_attention"

CHUNK = 64
"""Tokens that the gated delta rule computes at once; it pads to a multiple of them (transformers, modeling_qwen3_5)."""

SAMPLES = 64
"""Samples at once in a measurement: they cost nothing, since no tensor has bytes."""


# --- what is alive ---------------------------------------------------------------------------------------------------


@dataclass
class Life:
    """Bytes of the tensors made since the watch began that are alive, and the most that were.

    Works on any device: on the processor it is torch's own account of what a step needs.
    """

    now: int = 0
    most: int = 0
    _known: set[int] = field(default_factory=set)

    def watch(self) -> Any:
        """A context in which every tensor that an operation makes is counted until nothing refers to it."""
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        life = self

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                import torch

                before = [leaf for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, torch.Tensor)]
                old = {leaf.untyped_storage()._cdata for leaf in before}
                result = func(*args, **(kwargs or {}))
                for leaf in tree_leaves(result):
                    if isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in old:
                        life._enter(leaf.untyped_storage())
                return result

        return Watch()

    def _enter(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._leave, key, size)

    def _leave(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def flash_attention() -> Any:
    """A context in which attention keeps what a kernel without a matrix of scores keeps, and computes nothing."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            output = query.new_empty(*query.shape[:-1], value.shape[-1])
            row_sums = query.new_empty(query.shape[:-1], dtype=torch.float32)
            ctx.save_for_backward(query, key, value, output, row_sums)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors[:3])

    class Attention(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.nn.functional.scaled_dot_product_attention:
                return Kernel.apply(*args[:3])
            return func(*args, **(kwargs or {}))

    return Attention()


# --- layers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerBytes:
    """Bytes of one layer, for each token or patch it computes.

    Attributes:
        saved: kept from its forward for its backward pass.
        backward: most alive while it alone is run forward and backward, its weights' gradients left out.
        forward: the same for a forward pass that keeps nothing.
    """

    saved: float
    backward: float
    forward: float

    def __mul__(self, count: float) -> LayerBytes:
        return LayerBytes(self.saved * count, self.backward * count, self.forward * count)

    def __add__(self, other: LayerBytes) -> LayerBytes:
        return LayerBytes(self.saved + other.saved, self.backward + other.backward, self.forward + other.forward)


@dataclass(frozen=True)
class FanBytes:
    """What the fan keeps, by what it is in proportion to.

    Attributes:
        block: of the vision tower, a patch.
        patch_rest: bytes kept of a patch outside the blocks (patch embedding, merger).
        prefix: of a decoder layer of each kind, a token of a prefix.
        suffix: the same, a token of a suffix.
        context: of a decoder layer of each kind, a token that a suffix attends to, itself included.
        token_rest: bytes kept of a token outside the layers (embedding, last norm).
        cached_token: bytes of the cache of a full-attention layer, a token.
        state: bytes of the state of a gated-delta layer, whatever its length.
    """

    block: LayerBytes
    patch_rest: float
    prefix: Mapping[str, LayerBytes]
    suffix: Mapping[str, LayerBytes]
    context: Mapping[str, LayerBytes]
    token_rest: float
    cached_token: float
    state: float


def trace_fan(config: Mapping[str, Any], kinds: Collection[str], dtype: torch.dtype) -> FanBytes:
    """Run a model of one full-attention layer, and models with one layer of each kind more, at several lengths.

    The differences are a layer's share. (transformers masks nothing without a full-attention layer.) Every kernel used
    is linear in the tokens it computes and in those it attends to, so two lengths tell all others.
    """
    words = {"vocab_size": 8, "pad_token_id": None}  # no layer depends on them
    config = {**config, "text_config": {**config["text_config"], **words}}
    base = build(config, dtype, layers=(FULL,))
    deeper = {kind: build(config, dtype, layers=(FULL, kind)) for kind in kinds}
    short, long = 4 * CHUNK, 8 * CHUNK
    prefix, token_rest = _layers(lambda model, n: _prefix(model, n, short), base, deeper)
    near, _ = _layers(lambda model, n: _suffix(model, n, short, short), base, deeper)
    far, _ = _layers(lambda model, n: _suffix(model, n, long, short), base, deeper)
    context = {kind: (far[kind] + near[kind] * -1) * (1 / (long - short)) for kind in kinds}
    suffix = {kind: (near[kind] + context[kind] * -(short + short)) * (1 / short) for kind in kinds}
    caches = {}
    for kind, model in deeper.items():
        cache = fan.fan_cache(model)
        fan.continue_suffixes(model, cache, _tokens(1, short), 0, 0)
        caches[kind] = _cache_bytes(cache.layers[-1])
    low, high = (build(_with_depth(config, depth), dtype, layers=(FULL,)) for depth in (1, 2))
    grid = (16, 16)
    patches = grid[0] * grid[1]
    block, patch_rest = _layers(lambda model, n: _screenshots(model, n, grid), low, {FULL: high})
    return FanBytes(
        block[FULL] * (1 / patches),
        patch_rest / patches,
        {kind: layer * (1 / short) for kind, layer in prefix.items()},
        suffix,
        context,
        token_rest / short,
        caches[FULL] / short,
        caches.get("linear_attention", 0),
    )


def trace_loss(loss: Callable[[PreTrainedModel, torch.Tensor], None], model: PreTrainedModel, tokens: int) -> int:
    """Most bytes alive while `loss(model, hidden)` goes from hidden states `[tokens, hidden]` to their gradient, the
    gradient of the output head on its way into the sum of all passes included."""
    return _most_alive(lambda: loss(model, _hidden(model, tokens)), model)


Work = Callable[["PreTrainedModel", int], Callable[[], "torch.Tensor"]]
"""From a model and a number of samples to the forward pass to watch."""


def _layers(
    work: Work, base: PreTrainedModel, deeper: Mapping[str, PreTrainedModel]
) -> tuple[dict[str, LayerBytes], int]:
    """The share of the last layer of each deeper model, and what is kept outside the layers, for one sample.

    `base` has one layer like the first of the deeper models; the last is computed backward first, with all that the
    first keeps still alive.
    """
    saved_base = _share(lambda n: _saved(work(base, n)))
    layers, rest = {}, 0
    for kind, model in deeper.items():
        layers[kind] = _layer(work, model, saved_base)
        if kind == FULL:
            rest = int(saved_base - layers[kind].saved)
    return layers, rest


def _layer(work: Work, model: PreTrainedModel, saved_base: int) -> LayerBytes:
    saved = _share(lambda n: _saved(work(model, n))) - saved_base
    most = _share(lambda n: _backward(work(model, n), model)) - saved_base
    return LayerBytes(saved, most, _share(lambda n: _forward(work(model, n), model)))


def _share(measure: Callable[[int], int]) -> int:
    """Bytes a sample, of so many that what they share (masks, positions, one weight's gradient) counts for little."""
    return measure(SAMPLES) // SAMPLES


def _saved(forward: Callable[[], torch.Tensor]) -> int:
    life = Life()
    with flash_attention(), life.watch():
        kept = forward()
        alive = life.now
    del kept
    return alive


def _backward(forward: Callable[[], torch.Tensor], model: PreTrainedModel) -> int:
    return _most_alive(lambda: forward().sum().backward(), model)


def _forward(forward: Callable[[], torch.Tensor], model: PreTrainedModel) -> int:
    import torch

    def run() -> None:
        with torch.no_grad():
            forward()

    return _most_alive(run, model)


def _most_alive(run: Callable[[], None], model: PreTrainedModel) -> int:
    life = Life()
    hooks = [p.register_post_accumulate_grad_hook(_drop_gradient) for p in model.parameters() if p.requires_grad]
    with flash_attention(), life.watch():
        run()
    for hook in hooks:
        hook.remove()
    return life.most


def _drop_gradient(parameter: torch.Tensor) -> None:
    """The gradients of the weights are counted elsewhere."""
    parameter.grad = None


def _prefix(model: PreTrainedModel, count: int, tokens: int) -> Callable[[], torch.Tensor]:
    return lambda: fan.continue_suffixes(model, fan.fan_cache(model), _tokens(count, tokens), 0, 0)


def _suffix(model: PreTrainedModel, count: int, prefix: int, tokens: int) -> Callable[[], torch.Tensor]:
    import torch

    cache = fan.fan_cache(model)
    fan.continue_suffixes(model, cache, _tokens(1, prefix), 0, 0)
    fan.expand(cache, torch.zeros(count, dtype=torch.long, device="meta"))
    held = [cache]  # nobody else keeps it: what no layer saves of it ends with the forward pass, as in the fan
    del cache
    return lambda: fan.continue_suffixes(model, held.pop(), _tokens(count, tokens), prefix, 0)


def _screenshots(model: PreTrainedModel, count: int, grid: tuple[int, int]) -> Callable[[], torch.Tensor]:
    import torch

    vision = model.config.vision_config
    values = vision.in_channels * vision.patch_size**2
    return lambda: fan.encode_images(
        model, fan.Images(torch.empty(count, grid[0] * grid[1], values, device="meta"), grid)
    )


def _tokens(rows: int, length: int) -> torch.Tensor:
    import torch

    return torch.zeros(rows, length, dtype=torch.long, device="meta")


def _hidden(model: PreTrainedModel, tokens: int) -> torch.Tensor:
    import torch

    size = model.config.text_config.hidden_size
    return torch.empty(tokens, size, dtype=model.dtype, device="meta", requires_grad=True)


def _cache_bytes(layer: Any) -> int:
    """Of the cache of one layer: keys and values, or the states of a recurrent layer."""
    import torch
    from torch.utils._pytree import tree_leaves

    held = tree_leaves([getattr(layer, name, None) for name in ("keys", "values", "conv_states", "recurrent_states")])
    return sum(item.numel() * item.element_size() for item in held if isinstance(item, torch.Tensor))


def _with_depth(config: Mapping[str, Any], depth: int) -> dict[str, Any]:
    return {**config, "vision_config": {**config["vision_config"], "depth": depth}}
