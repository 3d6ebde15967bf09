"""Following: a made-up task's thought is what the instruction names next, and a small decoder learns to tell it."""

from __future__ import annotations

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from assets.agent import prompts, vocabulary
from assets.agent.grammar import parse_response
from assets.agent.tokenizer import make_tokenizer
from assets.checkpoints.following import Following, make_up
from assets.checkpoints.tiny_model import Architecture, make_model
from assets.generated_tasks.templates import TEMPLATE_WORDS, parse, thought_of_typing

ARCHITECTURE = Architecture(
    hidden=32, decoder_layers=2, vision_layers=1, heads=2, attention="full", init_std=0.06, position_std=0.3
)


@given(st.integers(0, 2**32))
def test_the_thought_is_what_comes_next(seed: int) -> None:
    task = make_up(random.Random(seed), digits=3)
    clauses = parse(task.instruction)
    locale = "en" if task.instruction[0].isascii() else "zh"
    thoughts = [
        thought_of_typing(clause.words[0], locale) if clause.verb == "type" else clause.words[0] for clause in clauses
    ]
    said = [parse_response(response, task.platform).think for response in task.history]
    assert said == thoughts[: len(said)]
    assert task.thought == [*thoughts, "done" if locale == "en" else "完成"][len(said)]


def test_following_is_learned_from_text_alone() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words = [word for table in (vocabulary.WORDS, TEMPLATE_WORDS) for part in table.values() for word in part]
    tokenizer = make_tokenizer([*words, *prompts.SYSTEM_LINES])
    model = make_model(ARCHITECTURE, tokenizer)
    following = Following(model, tokenizer, "brief")
    rng = random.Random(1)
    tasks = [make_up(rng, 3) for _ in range(8)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    before = following.loss(tasks).item()
    for _ in range(60):
        optimizer.zero_grad()
        following.loss(tasks).backward()
        optimizer.step()
    assert following.loss(tasks).item() < 0.2 * before
    assert following.accuracy(tasks) == 1.0


def test_neighbours_in_a_batch_change_nothing() -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer([*vocabulary.WORDS["en"], *prompts.SYSTEM_LINES])
    model = make_model(ARCHITECTURE, tokenizer).eval()
    following = Following(model, tokenizer, "brief")
    rng = random.Random(2)
    tasks = [make_up(rng, 3) for _ in range(6)]
    logits, _, owner = following._told(tasks)
    for place, task in enumerate(tasks):
        alone, _, _ = following._told([task])
        assert torch.allclose(logits[owner == place], alone, atol=1e-5)
