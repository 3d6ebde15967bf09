"""A qwen3_5-class model made from scratch: architecture, code and formats of the full scale, a few million weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from assets.agent.tokenizer import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START, token_id
from assets.stage import StageParameters

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class Architecture(StageParameters):
    """The size of a model made from scratch.

    Attributes:
        attention: `full` in every layer, or `hybrid`: three gated-delta layers to one of full attention, as the
            full-scale models have it (several times slower without a GPU).
        init_std: standard deviation of the weights at the start.
        position_std: the same for the vision tower's position table; large, so that places differ from the start.
    """

    hidden: int = Field(ge=8)
    decoder_layers: int = Field(ge=1)
    vision_layers: int = Field(ge=1)
    heads: int = Field(ge=1)
    attention: Literal["full", "hybrid"]
    init_std: float = Field(gt=0)
    position_std: float = Field(gt=0)

    @model_validator(mode="after")
    def _heads_share_hidden(self) -> Architecture:
        if self.hidden % self.heads:
            raise ValueError(f"hidden must be a multiple of heads, and {self.hidden} is none of {self.heads}")
        return self


def make_model(architecture: Architecture, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Random weights from torch's global generator; the vocabulary is the tokenizer's."""
    import torch
    from transformers import GenerationConfig, Qwen3_5Config, Qwen3_5ForConditionalGeneration

    hidden, heads = architecture.hidden, architecture.heads
    head = hidden // heads
    layers = architecture.decoder_layers
    third = head // 4 // 3  # of the head's rotated pairs, a third each for rows and columns, the rest for time
    config = Qwen3_5Config(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": head,
            "linear_num_key_heads": max(1, heads // 2),
            "linear_num_value_heads": heads,
            "linear_key_head_dim": head,
            "linear_value_head_dim": head,
            "initializer_range": architecture.init_std,
            "layer_types": [_layer_type(architecture, index) for index in range(layers)],
            "tie_word_embeddings": True,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1000.0,
                "partial_rotary_factor": 0.5,
                "mrope_section": [head // 4 - 2 * third, third, third],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": architecture.vision_layers,
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_heads": heads,
            "out_hidden_size": hidden,
            "num_position_embeddings": 1024,
            "initializer_range": architecture.init_std,
        },
        image_token_id=token_id(tokenizer, IMAGE_PAD),
        video_token_id=token_id(tokenizer, VIDEO_PAD),
        vision_start_token_id=token_id(tokenizer, VISION_START),
        vision_end_token_id=token_id(tokenizer, VISION_END),
        tie_word_embeddings=True,
    )
    model = Qwen3_5ForConditionalGeneration(config)
    with torch.no_grad():
        model.model.visual.pos_embed.weight.normal_(0, architecture.position_std)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=False
    )
    return model


def whiten_patches(model: PreTrainedModel, pixels: torch.Tensor) -> None:
    """Start the patch embedding as the whitening of screens' patches, its principal directions scaled to variance 1.

    Patches of an interface are nearly flat: the first direction, brightness, has ten thousand times the variance of
    the hundredth, where letters differ. Random weights pass on brightness alone, and a model takes twice as many steps
    to begin to read.

    Args:
        pixels: normalised patches `[screens, patches, values]` of the screens to learn from.
    """
    import torch

    embed = model.model.visual.patch_embed.proj  # type: ignore[union-attr]
    values = pixels.flatten(0, 1).double()
    mean = values.mean(0)
    centred = values - mean
    variance, directions = torch.linalg.eigh(centred.T @ centred / len(values))
    kept = min(embed.weight.shape[0], len(variance))
    scale = variance[-kept:].clamp_min(float(variance[-1]) * 1e-6).rsqrt()
    whitening = (directions[:, -kept:] * scale).T.flip(0)
    frames = embed.weight.shape[2]  # a still picture is the same frame several times; their weights add up
    with torch.no_grad():
        per_frame = (whitening / frames).view(kept, embed.weight.shape[1], 1, *embed.weight.shape[3:])
        embed.weight[:kept] = per_frame.expand(-1, -1, frames, -1, -1).to(embed.weight)
        embed.bias[:kept] = -(whitening @ mean).to(embed.bias)


def _layer_type(architecture: Architecture, index: int) -> str:
    if architecture.attention == "hybrid" and (index + 1) % 4:
        return "linear_attention"
    return "full_attention"
