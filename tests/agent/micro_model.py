"""A model folder with random weights, made in a moment: for tests that ask what happens around a model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def make_micro_model(folder: Path, words: Iterable[str]) -> Path:
    """Write a model of a few thousand weights, in whose vocabulary each of `words` is one token."""
    import torch

    from assets.agent.model import save_model
    from assets.agent.processor import Processor, make_image_processor
    from assets.agent.tokenizer import make_tokenizer
    from assets.checkpoints.tiny_model import Architecture, make_model

    torch.set_num_threads(1)
    torch.manual_seed(0)
    processor = Processor(make_tokenizer(words), make_image_processor())
    architecture = Architecture(
        hidden=32, decoder_layers=1, vision_layers=1, heads=2, attention="full", init_std=0.2, position_std=0.3
    )
    save_model(make_model(architecture, processor.tokenizer), processor, folder)
    return folder
