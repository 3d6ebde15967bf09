"""Opening and saving a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.agent.processor import Processor
from assets.errors import InputError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def load_model(
    folder: Path | str, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> tuple[PreTrainedModel, Processor]:
    """Open a Hugging Face model folder in `dtype` (default: float32), on `device` (default: CUDA where there is one).

    Raises:
        InputError: transformers can't open the folder, or weights are missing from it.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    try:
        opened: Any = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=dtype or torch.float32, output_loading_info=True
        )
        processor = Processor.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is no model that transformers can open: {error}") from None
    model, info = opened
    if info["missing_keys"]:
        raise InputError(f"{folder} lacks weights: {', '.join(sorted(info['missing_keys'])[:5])}")
    model.to(device or default_device())
    return model, processor


def save_model(model: PreTrainedModel, processor: Processor, folder: Path) -> None:
    """Write weights, configuration, tokenizer, chat template and image settings as one Hugging Face folder."""
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def default_device() -> torch.device:
    """The first CUDA device where there is one, else the processor."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
