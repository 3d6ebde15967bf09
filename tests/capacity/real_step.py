"""A real training step of a small model on the processor, and what its plan predicts.

`python -m tests.capacity.real_step full|hybrid` prints both in bytes, the step's as the kernel counts resident memory.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assets.agent import fan
from assets.agent.processor import make_image_processor
from assets.agent.tokenizer import make_tokenizer
from assets.capacity.architecture import Architecture
from assets.capacity.plan import ModelSize, measure, plan_stage
from assets.capacity.workload import Pass, StepTokens, Workload
from assets.checkpoints.tiny_model import Architecture as TinyArchitecture
from assets.checkpoints.tiny_model import make_model

GRID = (12, 12)
SYSTEM = 4
VISUAL = GRID[0] * GRID[1] // 4
LOGIT_TOKENS = 1 << 20


def tiny_model(attention: str, seed: int = 0) -> Any:
    """A model as `params.yaml` makes it, with random weights."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    architecture = TinyArchitecture(
        hidden=64, decoder_layers=4, vision_layers=2, heads=2, attention=attention, init_std=0.06, position_std=0.3
    )
    return make_model(architecture, make_tokenizer([f"word{number}" for number in range(400)]))


def architecture_of(model: Any) -> Architecture:
    """The shape of a model in memory."""
    images = json.loads(make_image_processor().to_json_string())
    return Architecture("tiny", json.loads(model.config.to_json_string(use_diff=False)), images, ())


def make_batch(model: Any, prefixes: int, rows: int, suffix: int, answer: int) -> fan.Batch:
    """`rows` suffixes a prefix."""
    import torch

    ids = torch.ones(prefixes, SYSTEM + VISUAL, dtype=torch.long)
    ids[:, SYSTEM:] = model.config.image_token_id
    pixels = torch.randn(prefixes, GRID[0] * GRID[1], 3 * 16 * 16)
    answers = torch.zeros(prefixes * rows, suffix, dtype=torch.bool)
    answers[:, -answer:] = True
    return fan.Batch(
        ids,
        fan.Images(pixels, GRID),
        torch.randint(0, 100, (prefixes * rows, suffix)),
        torch.arange(prefixes).repeat_interleave(rows),
        answers,
    )


def step(model: Any, batch: fan.Batch) -> None:
    """Forward and backward of mid-training's likelihood; the gradients stay."""
    scores = fan.log_probabilities(model, fan.forward(model, batch).answers)
    (-scores.gather(-1, batch.targets()[:, None]).sum()).backward()


def predicted(size: ModelSize, prefixes: int, rows: int, suffix: int, answer: int) -> int:
    """Bytes that a step needs beside the weights, by the plan: gradients, activations, logits."""
    shape = Pass((192, 192), GRID[0] * GRID[1], prefixes, SYSTEM + VISUAL, prefixes * rows, suffix, answer)
    load = Workload("step", (shape,), (), StepTokens(0, 0, 0, 0, 0), 0, "likelihood", None, LOGIT_TOKENS, "float32")
    phases = plan_stage(load, size, 0, 1, checkpointing=False).phases
    without = ("weights", "optimiser state", "buckets between GPUs")
    return max(phase.total - sum(phase.parts[part] for part in without) for phase in phases)


def resident_growth(run: Callable[[], None]) -> int:
    """By how many bytes this process's resident memory grew at most while `run` ran (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


if __name__ == "__main__":
    size = (24, 4, 48, 16)
    tiny = tiny_model(sys.argv[1])
    step(tiny, make_batch(tiny, 1, 1, 4, 2))  # libraries load their kernels at first use
    tiny.zero_grad(set_to_none=True)
    real = make_batch(tiny, *size)
    grown = resident_growth(lambda: step(tiny, real))
    print(json.dumps({"predicted": predicted(measure(architecture_of(tiny), "float32"), *size), "resident": grown}))
