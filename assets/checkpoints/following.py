"""Following: what a model made from scratch must learn of tasks before it sees one on a screen.

A step of a task asks which of the things that the instruction names comes next; the history tells. To answer, a decoder
must find the word and copy it, and from the few steps of trajectories that mid-training shows it never learned to: the
thought named any word at all (docs/tiny_profile.md). Made-up tasks in text alone teach it in a few hundred steps.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assets.agent import prompts, vocabulary
from assets.agent.actions import DOMAIN_OF_PLATFORM, Action, render_response
from assets.generated_tasks.templates import Clause, instruction, thought_of_end, thought_of_typing

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MOST_CLAUSES = 3
"""As many as the small profiles' tasks have."""

TYPED = 0.15
"""Share of the clauses that type a word instead of pressing something."""


@dataclass(frozen=True)
class MadeUpTask:
    """A task and how far it has come: the responses so far, and the thought that comes next."""

    platform: str
    instruction: str
    history: tuple[str, ...]
    thought: str


def make_up(rng: random.Random, digits: int) -> MadeUpTask:
    """A random task of up to three clauses at a random step.

    Args:
        digits: see `AgentParameters.coordinate_digits`.
    """
    locale: vocabulary.Locale = rng.choice(("en", "zh"))
    words = rng.sample(vocabulary.WORDS[locale], rng.randint(1, MOST_CLAUSES))
    verbs = ["type" if rng.random() < TYPED else rng.choice(("open", "press")) for _ in words]
    thoughts = [
        thought_of_typing(word, locale) if verb == "type" else word for verb, word in zip(verbs, words, strict=True)
    ]
    now = rng.randint(0, len(words))  # the place of this step in the task; behind the last word it ends
    history = tuple(
        render_response(thoughts[place], [_action(verbs[place], words[place], rng)], digits) for place in range(now)
    )
    return MadeUpTask(
        platform=rng.choice(sorted(DOMAIN_OF_PLATFORM)),
        instruction=instruction([Clause(v, (w,)) for v, w in zip(verbs, words, strict=True)], locale),
        history=history,
        thought=[*thoughts, thought_of_end(locale)][now],
    )


def _action(verb: str, word: str, rng: random.Random) -> Action:
    if verb == "type":
        return Action("Type", content=word)
    return Action("Click", point=(rng.randrange(1000), rng.randrange(1000)))


class Following:
    """Telling the next thought of made-up tasks, without a screen."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, system_prompt: prompts.SystemPrompt
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._system_prompt = system_prompt

    def loss(self, tasks: Sequence[MadeUpTask]) -> torch.Tensor:
        """Mean cross-entropy of the thoughts' tokens."""
        import torch.nn.functional as F

        logits, targets, _ = self._told(tasks)
        return F.cross_entropy(logits, targets)

    def accuracy(self, tasks: Sequence[MadeUpTask]) -> float:
        """Share of the tasks all of whose thought's tokens are the likeliest where they stand."""
        import torch

        with torch.no_grad():
            logits, targets, owner = self._told(tasks)
        wrong = owner[logits.argmax(-1) != targets]
        return 1 - len(set(wrong.tolist())) / len(tasks)

    def _told(self, tasks: Sequence[MadeUpTask]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits `[thought tokens, vocabulary]`, the tokens, and the task that each belongs to."""
        import torch

        rows = [self._encode(task) for task in tasks]
        longest = max(len(prompt) + len(thought) for prompt, thought in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        known, told = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
        for row, (prompt, thought) in enumerate(rows):
            end = len(prompt) + len(thought)
            ids[row, :end] = torch.tensor([*prompt, *thought])
            known[row, :end] = 1
            told[row, len(prompt) : end] = True
        ids, known, told = (tensor.to(self._model.device) for tensor in (ids, known, told))
        hidden = self._model.model(input_ids=ids, attention_mask=known).last_hidden_state
        logits = self._model.lm_head(hidden[:, :-1][told[:, 1:]]).float()
        return logits, ids[told], told.nonzero()[:, 0]

    def _encode(self, task: MadeUpTask) -> tuple[list[int], list[int]]:
        chat = prompts.messages(task.platform, task.instruction, task.history, self._system_prompt, images=0)
        text = str(self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        thought = f"<think>{task.thought}</think>"
        return (
            self._tokenizer.encode(text, add_special_tokens=False),
            self._tokenizer.encode(thought, add_special_tokens=False),
        )
