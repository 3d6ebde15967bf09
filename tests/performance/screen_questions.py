"""Screens, questions about them and a small model that answers in the right form: what the training benchmarks share.

Eight screenshots of 512x320 pixels with six questions each. Prompts have a prefix of 242 tokens (160 of them the
screenshot) and, with the answer, suffixes of 24; the model is the `tiny` profile's. Before anything is measured it
learns for a moment how an answer is written, with places by chance, so that sampled answers have the length of real
ones and about half of them are right.
"""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assets.agent.actions import Action, from_pixel, render_response
from assets.agent.matching import Match
from assets.agent.model_policy import match_sample
from assets.agent.processor import Processor, make_image_processor
from assets.agent.prompts import Prompt, encode_chat, encode_response, messages
from assets.agent.samples import Sample
from assets.agent.tokenizer import make_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

WIDTH, HEIGHT = 512, 320
SCREENS, QUESTIONS = 8, 6
PREFIX, SUFFIX = 242, 24
THREADS = 2
MAX_NEW_TOKENS = 16
SYSTEM = (
    "You see a screenshot of a small program with buttons and menus Find the button that the question asks for and "
    "answer with one click inside the action tags Points are whole numbers from left to right and top down."
)
LABELS = ("Save", "Open", "Send", "Close", "Mute", "Print")
PLACES = (125, 375, 625, 875)
"""Coordinates that the model learns to write: half of them lie in either half of the screen."""


@dataclass(frozen=True)
class Question:
    """One question about one screen.

    Attributes:
        prompt: its token ids as this project's trainers take them.
        answer: token ids of the verified answer.
    """

    sample: Sample
    prompt: Prompt
    answer: tuple[int, ...]

    def chat(self) -> list[dict[str, Any]]:
        """The same prompt as messages, the screenshot left out."""
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": self.sample.instruction}]

    def match(self, response: str) -> Match:
        """A response against the verified action."""
        return match_sample(response, self.sample)


@dataclass(frozen=True)
class Exam:
    """A model and what it is asked.

    Attributes:
        questions: by screen, QUESTIONS of each.
    """

    model: PreTrainedModel
    processor: Processor
    questions: list[list[Question]]

    def copy_of_model(self) -> PreTrainedModel:
        """The same weights in a model of its own."""
        return copy.deepcopy(self.model)


def make_exam() -> Exam:
    """The same on every call. Sets torch's threads."""
    import torch
    import yaml

    from assets.checkpoints.tiny_model import Architecture, make_model

    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    words = {*SYSTEM.replace(".", "").split(), *LABELS, "on", "the", "right", "left", "half", "below"}
    processor = Processor(make_tokenizer(sorted(words)), make_image_processor())
    with open("params.yaml", encoding="utf-8") as file:
        architecture = Architecture(**yaml.safe_load(file)["base_model"]["scratch"]["architecture"])
    model = make_model(architecture, processor.tokenizer)
    questions = [[_question(processor, screen, number) for number in range(QUESTIONS)] for screen in range(SCREENS)]
    sizes = {(len(q.prompt.prefix), len(q.prompt.suffix) + len(q.answer)) for asked in questions for q in asked}
    assert sizes == {(PREFIX, SUFFIX)}, f"prefix and suffix have {sizes} tokens"
    _teach_form(model, processor, questions[0])
    return Exam(model.train(), processor, questions)


def make_optimizer(model: PreTrainedModel) -> torch.optim.Optimizer:
    """AdamW as the stages have it; at a learning rate of 0, so that every repetition does the same work."""
    import torch

    return torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0, fused=True)


def update(model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> None:
    """Clip and apply the gradients that are there; they stay until the next step."""
    import torch

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def gradients(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """A copy of every gradient."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def difference(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> float:
    """Largest difference of two gradients in any weight, over the largest gradient of any weight.

    Different work is not compared: it must be below 1e-4.
    """
    assert ours.keys() == theirs.keys(), f"gradients of different weights: {sorted(ours.keys() ^ theirs.keys())}"
    apart = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
    apart /= max(float(theirs[name].abs().max()) for name in theirs)
    assert apart < 1e-4, f"gradients differ by {apart:.1e} of the largest gradient"
    return apart


def _question(processor: Processor, screen: int, number: int) -> Question:
    side = ("left", "right")[(screen + number) % 2]
    box = (0.0, 0.0, WIDTH / 2, HEIGHT) if side == "left" else (WIDTH / 2, 0.0, WIDTH, HEIGHT)
    middle = from_pixel((box[0] + box[2]) / 2, HEIGHT / 2, WIDTH, HEIGHT)
    action = Action("Click", point=middle)
    sample = Sample(
        id=f"{screen}/{number}",
        domain="grounding",
        split="train",
        group=str(screen),
        picture=_picture(screen),
        width=WIDTH,
        height=HEIGHT,
        platform=None,
        instruction=f"{LABELS[number]} on the {side} half below.",
        history=(),
        response=render_response(None, [action], 3),
        actions=(action,),
        boxes=(box,),
        kind="click",
    )
    chat = [{"role": "system", "content": SYSTEM}, *messages(None, sample.instruction)[1:]]
    visual = processor.image_tokens(processor.patches(sample.image).grid)
    prompt = encode_chat(processor.tokenizer, [visual], chat)
    return Question(sample, prompt, encode_response(processor.tokenizer, sample.response))


def _picture(seed: int) -> bytes:
    """Labelled buttons on a plain ground, as PNG."""
    from PIL import Image, ImageDraw

    rng = random.Random(seed)
    picture = Image.new("RGB", (WIDTH, HEIGHT), (240, 240, 240))
    draw = ImageDraw.Draw(picture)
    for number, label in enumerate(LABELS):
        left, top = 20 + 170 * (number % 3) + rng.randrange(20), 30 + 150 * (number // 3) + rng.randrange(60)
        draw.rectangle((left, top, left + 110, top + 50), fill=tuple(rng.randrange(120, 256) for _ in range(3)))
        draw.text((left + 30, top + 18), label, fill=(0, 0, 0))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _teach_form(model: PreTrainedModel, processor: Processor, questions: list[Question]) -> None:
    """Imitate answers whose places are chance."""
    import torch

    from assets.agent import fan

    rng = random.Random(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    prefix = (questions[0].prompt.prefix, [processor.patches(questions[0].sample.image)])
    for _ in range(60):
        suffixes = []
        for question in 2 * questions:
            action = Action("Click", point=(rng.choice(PLACES), rng.choice(PLACES)))
            answer = encode_response(processor.tokenizer, render_response(None, [action], 3))
            suffixes.append((0, question.prompt.suffix, answer))
        batch = fan.collate(processor, [prefix], suffixes)
        scores = fan.log_probabilities(model, fan.forward(model, batch).answers)
        loss = -scores.gather(-1, batch.targets()[:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.zero_grad(set_to_none=True)
