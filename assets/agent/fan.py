"""The fan: one screenshot, many continuations.

The expensive part of every sample is its prefix: system line and screenshot. The fan encodes each prefix once,
expands its cache to the suffixes that continue it, and runs those as one batch. Gradients flow through both parts,
and the result is exact: tests hold loss and every gradient to the plain computation, in which the prefix is repeated
for each suffix.

Left out on purpose: padding of prefixes. The prefixes of one call have one length, and suffixes are padded on the
right, where neither attention nor the recurrent layers can see the padding; so no mask is needed anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from assets.agent.processor import Patches, Processor
from assets.agent.recomputation import recomputed

if TYPE_CHECKING:
    import torch
    from transformers import Cache, PreTrainedModel

SPREAD = 1.5
"""How many times as long as the shortest the longest suffix of a fan may be, where suffixes can be sorted."""


@dataclass(frozen=True)
class Images:
    """The screenshots of a batch of prefixes, in the order in which the prefixes show them.

    Attributes:
        pixels: float, one `[patches, channels * patch * patch]` tensor for all images of a grid, stacked:
            `[images, patches, values]`.
        grid: rows and columns of patches.
    """

    pixels: torch.Tensor
    grid: tuple[int, int]


@dataclass(frozen=True)
class Batch:
    """Prefixes and the suffixes that continue them.

    Attributes:
        prefixes: token ids `[prefixes, length]`, all of one length.
        images: screenshots by grid; each prefix shows the same number of them. None: none shows any.
        suffixes: token ids `[suffixes, length]`, padded on the right.
        owner: `[suffixes]`, the prefix that each suffix continues.
        answers: bool `[suffixes, length]`: the tokens the model is to answer, never the first of a suffix.
    """

    prefixes: torch.Tensor
    images: Images | None
    suffixes: torch.Tensor
    owner: torch.Tensor
    answers: torch.Tensor

    def targets(self) -> torch.Tensor:
        """The answer tokens, suffix after suffix: `[answer tokens]`."""
        return self.suffixes[self.answers]


@dataclass(frozen=True)
class Fan:
    """What the model computed.

    Attributes:
        answers: hidden states `[answer tokens, hidden]` from which each answer token is predicted, in the order of
            `Batch.targets()`.
        visual: the merged visual tokens `[images, tokens, hidden]`.
    """

    answers: torch.Tensor
    visual: torch.Tensor


def collate(
    processor: Processor,
    prefixes: Sequence[tuple[Sequence[int], Sequence[Patches]]],
    suffixes: Sequence[tuple[int, Sequence[int], Sequence[int]]],
    device: torch.device | str = "cpu",
) -> Batch:
    """Put prefixes `(token ids, screenshots)` and suffixes `(owner, prompt ids, answer ids)` into tensors.

    Raises:
        ValueError: prefixes of several lengths or grids, or a suffix whose prompt is empty.
    """
    import torch

    lengths = {len(ids) for ids, _ in prefixes}
    shown = [patches for _, images in prefixes for patches in images]
    if len(lengths) != 1:
        raise ValueError(f"the prefixes of one fan share their length; these have {sorted(lengths)}")
    if any(not prompt for _, prompt, _ in suffixes):
        raise ValueError("the prompt of a suffix must not be empty: its last token predicts the first of the answer")
    length = max(2, max(len(prompt) + len(answer) for _, prompt, answer in suffixes))
    tokens = torch.full((len(suffixes), length), processor.tokenizer.pad_token_id, dtype=torch.long)
    answers = torch.zeros(len(suffixes), length, dtype=torch.bool)
    for row, (_, prompt, answer) in enumerate(suffixes):
        end = len(prompt) + len(answer)
        tokens[row, :end] = torch.tensor([*prompt, *answer])
        answers[row, len(prompt) : end] = True
    return Batch(
        prefixes=torch.tensor([list(ids) for ids, _ in prefixes], device=device),
        images=stack_images(processor, shown, device) if shown else None,
        suffixes=tokens.to(device),
        owner=torch.tensor([owner for owner, _, _ in suffixes], device=device),
        answers=answers.to(device),
    )


def like_lengths(lengths: Sequence[int], most: int | None = None) -> list[list[int]]:
    """Places of `lengths` in groups, shortest first, whose longest is at most SPREAD times their shortest.

    A group of more than `most` is cut into several.

    A fan pads its suffixes to the longest, and sampling waits for the longest question: one long history among short
    questions would make all of them cost as much.
    """
    groups: list[list[int]] = []
    shortest = 0
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if not groups or lengths[place] > SPREAD * shortest:
            groups.append([])
            shortest = lengths[place]
        groups[-1].append(place)
    return [
        sorted(group)[start : start + (most or len(group))]
        for group in groups
        for start in range(0, len(group), most or len(group))
    ]


def stack_images(processor: Processor, shown: Sequence[Patches], device: torch.device | str = "cpu") -> Images:
    """Put screenshots of one grid together.

    Raises:
        ValueError: they have several grids.
    """
    import torch

    grids = {patches.grid for patches in shown}
    if len(grids) != 1:
        raise ValueError(f"the screenshots of one fan share their grid; these have {sorted(grids)}")
    pixels = torch.stack([patches.pixels for patches in shown]).to(device)
    return Images(processor.normalize(pixels), grids.pop())


def forward(model: PreTrainedModel, batch: Batch) -> Fan:
    """Encode the prefixes once, continue them with the suffixes; differentiable through both.

    Every weight takes part whatever the prefixes show: ranks that share out the weights wait for each other at each.
    """
    images = batch.images or _blank(model)
    visual = encode_images(model, images)
    cache, length, offset = encode_prefixes(model, batch.prefixes, visual, images.grid)
    expand(cache, batch.owner)
    hidden = continue_suffixes(model, cache, batch.suffixes, length, offset)
    return Fan(hidden[:, :-1][batch.answers[:, 1:]], visual if batch.images else visual[:0])


def log_probabilities(model: PreTrainedModel, answers: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """From hidden states `[answer tokens, hidden]` to `[answer tokens, vocabulary]`, at a temperature."""
    logits = model.lm_head(answers).float()
    return (logits if temperature == 1 else logits / temperature).log_softmax(-1)


def encode_images(model: PreTrainedModel, images: Images) -> torch.Tensor:
    """The merged visual tokens of still pictures that share a grid: `[images, tokens, hidden]`.

    The model's own vision tower, with two savings that leave the values alone: the patch embedding runs as a linear
    layer over one frame (a still picture is the same frame twice, so the kernel's frames are summed first), and the
    attention of all images is one call.
    """
    import torch.nn.functional as F

    visual = model.model.visual
    embed = visual.patch_embed.proj
    indices, weights, cos, sin = _grid_geometry(visual, images.grid, str(images.pixels.device))
    hidden = F.linear(images.pixels.to(embed.weight.dtype), embed.weight.sum(2).flatten(1), embed.bias)
    hidden = hidden + (visual.pos_embed(indices) * weights[:, :, None]).sum(1).to(hidden.dtype)
    for block in visual.blocks:
        hidden = recomputed(visual, partial(_vision_block, block, cos, sin), hidden)
    merged = visual.merger(hidden.flatten(0, 1))
    return merged.view(hidden.shape[0], -1, merged.shape[-1])


def encode_prefixes(
    model: PreTrainedModel, prefixes: torch.Tensor, visual: torch.Tensor, grid: tuple[int, int]
) -> tuple[Cache, int, int]:
    """Run prefixes `[prefixes, length]` with their visual tokens.

    Returns their cache, their length and by how much the position of a text token after them differs from its index
    (a screenshot takes fewer positions than tokens).
    """
    embeddings = model.get_input_embeddings()(prefixes)
    shown = prefixes == model.config.image_token_id
    if shown.any():
        embeddings = embeddings.masked_scatter(shown[..., None], visual.to(embeddings.dtype))
    else:
        embeddings = embeddings + 0.0 * visual.sum()
    positions, offset = _prefix_positions(model, prefixes, shown, grid)
    cache = fan_cache(model)
    model.model.language_model(inputs_embeds=embeddings, position_ids=positions, cache=cache, use_cache=True)
    return cache, prefixes.shape[1], offset


def _blank(model: PreTrainedModel) -> Images:
    """The smallest picture, which nobody sees."""
    import torch

    vision = model.config.vision_config
    side = vision.spatial_merge_size
    values = vision.in_channels * vision.patch_size**2
    return Images(torch.zeros(1, side * side, values, device=model.device), (side, side))


def expand(cache: Cache, rows: torch.Tensor) -> None:
    """Make row i of the cache what row `rows[i]` was; gradients of equal rows add up."""
    cache.reorder_cache(rows)  # type: ignore[arg-type]


def continue_suffixes(
    model: PreTrainedModel, cache: Cache, tokens: torch.Tensor, start: int, offset: int
) -> torch.Tensor:
    """Hidden states `[rows, length, hidden]` of `tokens` `[rows, length]`, which follow `start` cached tokens."""
    import torch

    index = torch.arange(start, start + tokens.shape[1], device=tokens.device)
    positions = torch.stack([index, *[index + offset] * 3])[:, None].expand(4, tokens.shape[0], -1)
    embeddings = model.get_input_embeddings()(tokens)
    output = model.model.language_model(inputs_embeds=embeddings, position_ids=positions, cache=cache, use_cache=True)
    return output.last_hidden_state


def _prefix_positions(
    model: PreTrainedModel, prefixes: torch.Tensor, shown: torch.Tensor, grid: tuple[int, int]
) -> tuple[torch.Tensor, int]:
    """Text, temporal, row and column positions `[4, prefixes, length]`, and the offset of what follows.

    Prefixes of one fan show their screenshots at the same places (one template, one length, one grid), so the first
    row's positions serve all.
    """
    import torch

    if not bool((shown == shown[:1]).all()):
        raise ValueError("the prefixes of one fan must show their screenshots at the same places")
    merged = grid[0] * grid[1] // model.config.vision_config.spatial_merge_size**2
    images = int(shown[0].sum()) // merged
    grids = torch.tensor([[1, *grid]] * images)
    three, delta = model.model.get_rope_index(
        prefixes[:1].cpu(), mm_token_type_ids=shown[:1].int().cpu(), image_grid_thw=grids
    )
    text = torch.arange(prefixes.shape[1])[None, None]
    positions = torch.cat([text, three]).expand(4, prefixes.shape[0], -1)
    return positions.to(prefixes.device), int(delta)


def _vision_block(block: Any, cos: torch.Tensor, sin: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    hidden = hidden + _vision_attention(block.attn, block.norm1(hidden), cos, sin)
    hidden = hidden + block.mlp(block.norm2(hidden))
    return hidden


def _vision_attention(layer: Any, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Full attention within each image: `[images, patches, hidden]` to the same."""
    import torch.nn.functional as F
    from transformers.models.qwen3_5.modeling_qwen3_5 import rotate_half

    images, patches, _ = hidden.shape
    split = layer.qkv(hidden).view(images, patches, 3, layer.num_heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = split.unbind(0)
    query, key = ((x * cos + rotate_half(x) * sin).to(value.dtype) for x in (query, key))
    output = F.scaled_dot_product_attention(query, key, value, scale=layer.scaling)
    return layer.proj(output.transpose(1, 2).reshape(images, patches, -1))


@lru_cache(maxsize=64)
def _grid_geometry_of(
    grid: tuple[int, int], merge: int, side: int, mode: str, align: bool, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Where each patch of a grid lies: position-table indices and weights `[patches, taps]`, row and column."""
    import torch
    from transformers import vision_utils

    thw = torch.tensor([[1, *grid]])
    indices, weights = vision_utils.get_vision_interpolation_indices_and_weights(
        thw, num_grid_per_side=side, mode=mode, align_corners=align, spatial_merge_size=merge
    )
    places = vision_utils.get_vision_position_ids(thw, merge)
    return indices.to(device), weights.to(device), places.to(device)


def _grid_geometry(
    visual: Any, grid: tuple[int, int], device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    indices, weights, places = _grid_geometry_of(
        grid,
        visual.spatial_merge_size,
        visual.num_grid_per_side,
        visual.interpolation_mode,
        visual.interpolation_align_corners,
        device,
    )
    cos, sin = visual.rotary_pos_emb(weights, places)
    return indices, weights, cos, sin


def fan_cache(model: PreTrainedModel) -> Cache:
    """A cache that a gradient can pass through and that can be expanded to many rows."""
    from transformers import DynamicCache
    from transformers.cache_utils import LinearAttentionLayer

    cache = DynamicCache(config=model.config)
    cache.layers = [_assigning_layer() if type(layer) is LinearAttentionLayer else layer for layer in cache.layers]
    return cache


def _assigning_layer() -> Any:
    return _assigning_layer_class()()


@lru_cache(maxsize=1)
def _assigning_layer_class() -> type:
    import torch
    import torch.nn.functional as F
    from transformers.cache_utils import LinearAttentionLayer

    class AssigningLinearAttentionLayer(LinearAttentionLayer):
        """The state of a recurrent layer, assigned where the stock layer copies in place, which breaks backward."""

        def update_conv_state(
            self, conv_states: torch.Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **kwargs: Any
        ) -> torch.Tensor:
            kernel = conv_kernel_size or self.conv_kernel_size[state_idx] or conv_states.shape[-1]
            self.conv_kernel_size[state_idx] = kernel
            self.device, self.dtype = conv_states.device, conv_states.dtype  # type: ignore[assignment]
            previous = self.conv_states[state_idx]
            if previous is not None and self.has_previous_state[state_idx]:
                full = torch.cat([previous, conv_states], -1)
            else:
                full = F.pad(conv_states, (max(0, kernel - conv_states.shape[-1]), 0))
            self.conv_states[state_idx] = full[..., -kernel:]
            self.has_previous_state[state_idx] = self.is_conv_states_initialized[state_idx] = True
            return full

        def update_recurrent_state(
            self, recurrent_states: torch.Tensor, state_idx: int = 0, **kwargs: Any
        ) -> torch.Tensor:
            self.recurrent_states[state_idx] = recurrent_states
            self.is_recurrent_states_initialized[state_idx] = True
            return recurrent_states

    return AssigningLinearAttentionLayer
