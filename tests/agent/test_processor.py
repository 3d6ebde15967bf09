"""The fast path of the processor gives what the stock image processor gives, and the folder opens with Auto classes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from assets.agent import processor as module
from assets.agent.processor import Processor, make_image_processor
from assets.agent.tokenizer import make_tokenizer
from assets.errors import InputError


def png(size: tuple[int, int], seed: int = 0, mode: str = "RGB") -> bytes:
    import random

    from PIL import Image

    noise = Image.frombytes("RGB", size, random.Random(seed).randbytes(size[0] * size[1] * 3)).convert(mode)
    buffer = io.BytesIO()
    noise.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def processor() -> Processor:
    return Processor(make_tokenizer(["Save"]), make_image_processor())


@pytest.mark.parametrize("size", [(192, 192), (64, 96), (101, 67), (33, 240)])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_patches_equal_the_stock_image_processor(processor: Processor, size: tuple[int, int], mode: str):
    import torch
    from PIL import Image

    image = png(size, mode=mode)
    ours = processor.patches(image)
    stock = processor.images([Image.open(io.BytesIO(image)).convert("RGB")], return_tensors="pt")
    assert [1, *ours.grid] == stock["image_grid_thw"][0].tolist()
    frames = stock["pixel_values"].view(len(ours.pixels), 3, 2, -1)
    values = processor.normalize(ours.pixels).view(len(ours.pixels), 3, -1)
    for frame in (0, 1):
        torch.testing.assert_close(values, frames[:, :, frame], rtol=1e-5, atol=1e-5)
    assert processor.image_tokens(ours.grid) == ours.grid[0] * ours.grid[1] // 4


def test_a_screenshot_is_decoded_once_and_the_oldest_go_first(processor: Processor, monkeypatch: pytest.MonkeyPatch):
    first, second = png((64, 64), 1), png((64, 64), 2)
    kept = processor.patches(first)
    assert processor.patches(first) is kept
    monkeypatch.setattr(module, "CACHE_BYTES", 1)
    processor.patches(second)
    assert processor.patches(first) is not kept


def test_bytes_that_are_no_picture_are_named(processor: Processor):
    with pytest.raises(InputError, match="no picture"):
        processor.patches(b"not a png")


def test_folder_opens_with_auto_classes(processor: Processor, tmp_path: Path):
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    from assets.agent.model import load_model, save_model
    from assets.checkpoints.tiny_model import Architecture, make_model

    torch.manual_seed(0)
    architecture = Architecture(
        hidden=32, decoder_layers=1, vision_layers=1, heads=2, attention="full", init_std=0.06, position_std=0.3
    )
    model = make_model(architecture, processor.tokenizer)
    save_model(model, processor, tmp_path)

    opened = AutoModelForImageTextToText.from_pretrained(tmp_path)
    assert type(opened).__name__ == "Qwen3_5ForConditionalGeneration"
    for name, weight in model.state_dict().items():
        assert torch.equal(opened.state_dict()[name], weight), name
    assert opened.generation_config.eos_token_id == processor.tokenizer.eos_token_id
    assert len(AutoTokenizer.from_pretrained(tmp_path)) == len(processor.tokenizer)
    image = png((100, 60))
    again = AutoImageProcessor.from_pretrained(tmp_path)([Image.open(io.BytesIO(image))], return_tensors="pt")
    stock = processor.images([Image.open(io.BytesIO(image))], return_tensors="pt")
    torch.testing.assert_close(again["pixel_values"], stock["pixel_values"])
    loaded, thin = load_model(tmp_path)
    assert loaded.num_parameters() == model.num_parameters()
    assert torch.equal(thin.patches(image).pixels, processor.patches(image).pixels)


def test_a_folder_that_is_no_model_is_named(tmp_path: Path):
    from assets.agent.model import load_model

    with pytest.raises(InputError, match="no model"):
        load_model(tmp_path)
