"""The fan against the plain computation: forward and backward of many suffixes on one screenshot."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.performance.__main__ import Comparison

PREFIX_TEXT, SUFFIX = 80, 24
SCREEN = (512, 320)


def fan() -> Iterator[Comparison]:
    """G suffixes of 24 tokens on one prefix of a 512x320 screenshot and 80 tokens, full attention, one thread."""
    import torch

    from assets.agent import fan as core
    from assets.agent.processor import Processor, make_image_processor
    from assets.agent.tokenizer import IMAGE_PAD, VISION_END, VISION_START, make_tokenizer
    from tests.agent.test_fan import FULL, picture, small_model

    torch.set_num_threads(1)
    processor = Processor(make_tokenizer(["Save", "Open", "Click", "screen"]), make_image_processor())
    model = small_model(processor, FULL).train()
    image = processor.patches(picture(0, SCREEN))
    visual_tokens = image.grid[0] * image.grid[1] // 4
    encode = processor.tokenizer.encode
    words = encode("Save Open " * (PREFIX_TEXT // 2), add_special_tokens=False)[:PREFIX_TEXT]
    shown = encode(VISION_START + IMAGE_PAD * visual_tokens + VISION_END, add_special_tokens=False)
    prefix = [*words, *shown]
    stock = processor.images([_image(picture(0, SCREEN))], return_tensors="pt")

    said = [token for token in range(20, len(processor.tokenizer)) if token not in set(shown)]

    for branches in (2, 4, 8, 16, 32):
        rng = random.Random(branches)
        suffixes = [rng.choices(said, k=SUFFIX) for _ in range(branches)]
        batch = core.collate(processor, [(prefix, [image])], [(0, s[:1], s[1:]) for s in suffixes])
        rows = torch.tensor([[*prefix, *suffix] for suffix in suffixes])

        def ours(batch: core.Batch = batch) -> float:
            log_probs = core.log_probabilities(model, core.forward(model, batch).answers)
            loss = -log_probs.gather(-1, batch.targets()[:, None]).mean()
            return _backward(model, loss)

        def theirs(rows: Any = rows, branches: int = branches) -> float:
            logits = model(
                input_ids=rows,
                mm_token_type_ids=(rows == model.config.image_token_id).int(),
                pixel_values=stock["pixel_values"].repeat(branches, 1),
                image_grid_thw=stock["image_grid_thw"].repeat(branches, 1),
                use_cache=False,
                logits_to_keep=SUFFIX,
            ).logits[:, :-1]
            targets = rows[:, -SUFFIX + 1 :]
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
            return _backward(model, loss)

        length = len(prefix)
        limit = branches * (length + SUFFIX) / (length + branches * SUFFIX)
        yield Comparison(
            name=f"fan_g{branches}",
            work=f"update, prefix {length}, suffix {SUFFIX}, G = {branches}",
            peer="transformers Qwen3_5ForConditionalGeneration, prefix repeated",
            ours=ours,
            theirs=theirs,
            note=f"token-count limit {limit:.2f}; losses differ by {abs(ours() - theirs()):.1e}",
        )


def _backward(model: Any, loss: Any) -> float:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return float(loss.detach())


def _image(png: bytes) -> Any:
    import io

    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("RGB")


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"fan": fan}
