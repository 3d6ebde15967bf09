"""The processor: screenshots to patches, prompts to token ids.

A thin pair of tokenizer and image processor. It saves into and loads from a Hugging Face model folder, and needs no
torchvision. `patches` is the fast path of training: each screenshot is decoded once, cut into patches and kept as
bytes; `Qwen2VLImageProcessorPil` gives the same values (a test holds the two equal).
"""

from __future__ import annotations

import io
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assets.errors import InputError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

CACHE_BYTES = 1 << 30
"""How many bytes of patches a processor keeps; the least recently used go first."""


@dataclass(frozen=True)
class Patches:
    """One screenshot as the vision tower takes it.

    Attributes:
        pixels: uint8 `[patches, channels * patch * patch]`, in merge order, one frame (the tower's second frame of a
            still picture is the same again).
        grid: rows and columns of patches.
    """

    pixels: torch.Tensor
    grid: tuple[int, int]


class Processor:
    """Tokenizer and image processor of one model."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, images: Qwen2VLImageProcessorPil) -> None:
        self.tokenizer = tokenizer
        self.images = images
        self._cache: OrderedDict[bytes, Patches] = OrderedDict()
        self._cached = 0

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Processor:
        """Open the tokenizer and the image processor of a model folder (or of a name on the Hugging Face hub)."""
        from transformers import AutoTokenizer
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        return cls(AutoTokenizer.from_pretrained(folder), Qwen2VLImageProcessorPil.from_pretrained(folder))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write tokenizer, chat template and image settings into a model folder."""
        self.tokenizer.save_pretrained(folder)
        self.images.save_pretrained(folder)

    def image_tokens(self, grid: tuple[int, int]) -> int:
        """How many visual tokens the language model sees of a screenshot."""
        return grid[0] * grid[1] // self.images.merge_size**2

    def patches(self, image: bytes) -> Patches:
        """Decode a screenshot and cut it into patches; cached.

        Raises:
            InputError: the bytes are no picture.
        """
        known = self._cache.get(image)
        if known is not None:
            self._cache.move_to_end(image)
            return known
        made = self._cut(image)
        self._cache[image] = made
        self._cached += made.pixels.numel() + len(image)
        while self._cached > CACHE_BYTES and len(self._cache) > 1:
            old, gone = self._cache.popitem(last=False)
            self._cached -= gone.pixels.numel() + len(old)
        return made

    def normalize(self, pixels: torch.Tensor) -> torch.Tensor:
        """uint8 patches `[..., channels * patch * patch]` as the float32 values the vision tower was trained on."""
        import torch

        mean, std = (torch.tensor(values) for values in (self.images.image_mean, self.images.image_std))
        area = self.images.patch_size**2
        scale = (1 / (255 * std)).repeat_interleave(area).to(pixels.device)
        shift = (mean / std).repeat_interleave(area).to(pixels.device)
        return pixels.float() * scale - shift

    def _cut(self, image: bytes) -> Patches:
        import numpy as np
        import torch
        from PIL import Image, UnidentifiedImageError
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        patch, merge = self.images.patch_size, self.images.merge_size
        try:
            picture = Image.open(io.BytesIO(image)).convert("RGB")
        except (UnidentifiedImageError, OSError) as error:
            raise InputError(f"a screenshot of {len(image)} bytes is no picture: {error}") from None
        height, width = smart_resize(
            picture.height,
            picture.width,
            patch * merge,
            self.images.size["shortest_edge"],
            self.images.size["longest_edge"],
        )
        if (width, height) != picture.size:
            picture = picture.resize((width, height), Image.Resampling(self.images.resample))
        rows, columns = height // patch, width // patch
        blocks = np.asarray(picture).reshape(rows // merge, merge, patch, columns // merge, merge, patch, 3)
        pixels = blocks.transpose(0, 3, 1, 4, 6, 2, 5).reshape(rows * columns, 3 * patch * patch)
        return Patches(torch.from_numpy(np.ascontiguousarray(pixels)), (rows, columns))


def make_image_processor(patch_size: int = 16, merge_size: int = 2) -> Qwen2VLImageProcessorPil:
    """The image settings of a model made from scratch: those of Qwen3.5, with screenshots left at their size."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil(
        patch_size=patch_size,
        merge_size=merge_size,
        temporal_patch_size=2,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
        size={"shortest_edge": (patch_size * merge_size) ** 2, "longest_edge": 16_777_216},
    )
