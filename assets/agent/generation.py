"""Batched sampling on the fan: screenshots are encoded once, all answers to all questions about them run together.

Questions differ in length. Those of like length run together (`runs`), and instead of padding them all their rows
advance a token at a time from the end of the shortest: a row whose question is not finished yet is fed its next
question token, the others sample. So there is no padding, and the result is exact for attention and recurrent layers
alike. Rows that have ended leave the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assets.agent import fan
from assets.agent.processor import Patches, Processor
from assets.agent.prompts import IMAGE, Prompt
from assets.agent.tokenizer import token_id

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


STEP_ROWS = 64
"""How many rows' arithmetic costs as much as what a step of decoding costs whatever its rows."""
ANSWER_STEPS = 16
"""About how many tokens an answer has."""


@dataclass(frozen=True)
class Answer:
    """One sampled answer: its token ids, the end-of-turn token included where it was reached, and of each token the
    log-probability under the distribution it was drawn from. `ended` is False where the length ran out."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    ended: bool


def sample(
    model: PreTrainedModel,
    processor: Processor,
    questions: Sequence[tuple[bytes | tuple[bytes, ...], Prompt]],
    *,
    samples: int = 1,
    temperature: float = 0.0,
    max_new_tokens: int,
    rows: int = 512,
    generator: torch.Generator | None = None,
) -> list[list[Answer]]:
    """Answer questions `(screenshot, prompt)`: `samples` answers to each, in the order of the questions.

    A question may show several screenshots of one size, in the order in which its prompt has them. At temperature 0
    the likeliest token is taken, and log-probabilities are those of temperature 1. Questions about one screenshot
    share its encoding when they stand next to each other; at most `rows` answers run at once.
    """
    answers: list[list[Answer]] = [[] for _ in questions]
    shots = [(shown,) if isinstance(shown, bytes) else shown for shown, _ in questions]
    for members in _batches(processor, shots, [prompt for _, prompt in questions], max(1, rows // samples)):
        prefixes: dict[tuple[tuple[bytes, ...], tuple[int, ...]], int] = {}
        owner: list[int] = []
        prompts: list[tuple[int, ...]] = []
        for index in members:
            prompt = questions[index][1]
            prefix = prefixes.setdefault((shots[index], prompt.prefix), len(prefixes))
            owner += [prefix] * samples
            prompts += [prompt.suffix] * samples
        shown = [(ids, [processor.patches(image) for image in images]) for images, ids in prefixes]
        drawn = _decode(model, processor, shown, owner, prompts, temperature, max_new_tokens, generator)
        for place, index in enumerate(members):
            answers[index] = drawn[place * samples : (place + 1) * samples]
    return answers


def decode(processor: Processor, answer: Answer) -> str:
    """The text of an answer, without the end-of-turn token."""
    ids = list(answer.ids[:-1] if answer.ended else answer.ids)
    return str(processor.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _batches(
    processor: Processor, shots: Sequence[Sequence[bytes]], prompts: Sequence[Prompt], limit: int
) -> list[list[int]]:
    """Indices of questions that can run in one fan (prefixes of one form and grid, suffixes of like length), at most
    `limit` at once."""
    alike: dict[tuple[object, ...], list[int]] = {}
    image_token = token_id(processor.tokenizer, IMAGE)
    for index, (images, prompt) in enumerate(zip(shots, prompts, strict=True)):
        first = prompt.prefix.index(image_token)
        where = () if len(images) == 1 else tuple(token == image_token for token in prompt.prefix[first:])
        form = (len(prompt.prefix), first, where, *(processor.patches(image).grid for image in images))
        alike.setdefault(form, []).append(index)
    return [
        [members[place] for place in group]
        for members in alike.values()
        for group in runs([len(prompts[index].suffix) for index in members], limit)
    ]


def runs(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Places of `lengths` in groups of at most `limit` that run together, cut so that all of them take least time.

    A group takes a step for each token from its shortest question to its longest, and some for the answer; a step costs
    STEP_ROWS and its rows. The cuts follow by dynamic programming over the lengths that occur.
    """
    order = sorted(range(len(lengths)), key=lambda place: (lengths[place], place))
    ends = [
        end for end in range(1, len(order) + 1) if end == len(order) or lengths[order[end]] > lengths[order[end - 1]]
    ]
    starts = [0, *ends[:-1]]
    least, cut = [0.0], [0]
    for last, end in enumerate(ends):
        costs = []
        for first in range(last + 1):
            rows = end - starts[first]
            steps = lengths[order[end - 1]] - lengths[order[starts[first]]] + ANSWER_STEPS
            costs.append(least[first] + steps * (STEP_ROWS * -(-rows // limit) + rows))
        cut.append(costs.index(min(costs)))
        least.append(min(costs))
    groups: list[list[int]] = []
    last = len(ends)
    while last:
        group = order[starts[cut[last]] : ends[last - 1]]
        groups += [group[start : start + limit] for start in range(0, len(group), limit)]
        last = cut[last]
    return [sorted(group) for group in reversed(groups)]


def _decode(
    model: PreTrainedModel,
    processor: Processor,
    prefixes: Sequence[tuple[Sequence[int], Sequence[Patches]]],
    owner: Sequence[int],
    prompts: Sequence[Sequence[int]],
    temperature: float,
    max_new_tokens: int,
    generator: torch.Generator | None,
) -> list[Answer]:
    import torch

    device = model.device
    end = processor.tokenizer.eos_token_id
    was_training = model.training
    model.eval()
    with torch.no_grad():
        batch = fan.collate(processor, prefixes, [(0, prompts[0], ())], device)
        assert batch.images is not None
        visual = fan.encode_images(model, batch.images)
        cache, length, offset = fan.encode_prefixes(model, batch.prefixes, visual, batch.images.grid)
        fan.expand(cache, torch.tensor(owner, device=device))

        shortest = min(len(prompt) for prompt in prompts)
        start = torch.tensor([list(prompt[:shortest]) for prompt in prompts], device=device)
        hidden = fan.continue_suffixes(model, cache, start, length, offset)[:, -1]
        ids: list[list[int]] = [[] for _ in prompts]
        log_probs: list[list[float]] = [[] for _ in prompts]
        alive = list(range(len(prompts)))
        position = shortest
        while True:
            logits = model.lm_head(hidden).float()
            drawn, drawn_log_probs = _draw(logits, temperature, generator)
            following = []
            for place, row in enumerate(alive):
                if position < len(prompts[row]):
                    following.append(prompts[row][position])
                    continue
                ids[row].append(drawn[place])
                log_probs[row].append(drawn_log_probs[place])
                following.append(drawn[place])
            going = [
                place
                for place, row in enumerate(alive)
                if not ids[row] or (ids[row][-1] != end and len(ids[row]) < max_new_tokens)
            ]
            if not going:
                break
            if len(going) < len(alive):
                fan.expand(cache, torch.tensor(going, device=device))
                alive = [alive[place] for place in going]
                following = [following[place] for place in going]
            token = torch.tensor(following, device=device)[:, None]
            hidden = fan.continue_suffixes(model, cache, token, length + position, offset)[:, -1]
            position += 1
    model.train(was_training)
    return [Answer(tuple(i), tuple(p), bool(i) and i[-1] == end) for i, p in zip(ids, log_probs, strict=True)]


def _draw(logits: torch.Tensor, temperature: float, generator: torch.Generator | None) -> tuple[list[int], list[float]]:
    """One token a row of `logits` `[rows, vocabulary]`, and its log-probability."""
    import torch

    scaled = (logits / temperature if temperature > 0 else logits).log_softmax(-1)
    if temperature > 0:
        chosen = torch.multinomial(scaled.exp(), 1, generator=generator)
    else:
        chosen = scaled.argmax(-1, keepdim=True)
    return chosen[:, 0].tolist(), scaled.gather(-1, chosen)[:, 0].tolist()
