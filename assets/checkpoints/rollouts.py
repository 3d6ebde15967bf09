"""Answers sampled from a model to samples of the training data, and the batches in which they are scored again.

Token ids and log-probabilities are kept from sampling and never made from text again: what is trained on is what was
sampled. Shared by reinforcement learning and distillation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assets.agent import fan, generation
from assets.agent.generation import Answer
from assets.agent.matching import Match
from assets.agent.model_policy import match_sample, sample_prompt
from assets.agent.processor import Processor
from assets.agent.prompts import Prompt, SystemPrompt
from assets.agent.samples import Sample

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Rollout:
    """One sampled answer to one sample, and how much of the verified action it repeats."""

    sample: Sample
    prompt: Prompt
    answer: Answer
    match: Match


class Sampler:
    """Samples answers with fixed settings. The prompts of a sample are encoded once.

    Args:
        temperature: of the sampling; log-probabilities are those of the distribution at this temperature.
        max_new_tokens: where an answer that doesn't end is cut.
        distance: see `matching.SCREEN_DISTANCE`.
        rows: most answers that run at once.
    """

    def __init__(
        self,
        processor: Processor,
        system_prompt: SystemPrompt,
        temperature: float,
        max_new_tokens: int,
        distance: float,
        rows: int,
    ) -> None:
        self._processor = processor
        self._system_prompt: SystemPrompt = system_prompt
        self._temperature = temperature
        self._max_new_tokens = max_new_tokens
        self._distance = distance
        self._rows = rows
        self._prompts: dict[str, Prompt] = {}

    def draw(self, model: PreTrainedModel, samples: Sequence[Sample], count: int, seed: int) -> list[list[Rollout]]:
        """`count` answers to each sample. Samples that share a screenshot should stand next to each other."""
        import torch

        drawn = generation.sample(
            model,
            self._processor,
            [(sample.image, self._prompt(sample)) for sample in samples],
            samples=count,
            temperature=self._temperature,
            max_new_tokens=self._max_new_tokens,
            rows=self._rows,
            generator=torch.Generator(model.device).manual_seed(seed),
        )
        return [
            [self._rollout(sample, answer) for answer in answers]
            for sample, answers in zip(samples, drawn, strict=True)
        ]

    def unanswered(self, sample: Sample) -> Rollout:
        """A rollout whose answer ends before it begins: one token to run a model on, from which nothing is learned."""
        return self._rollout(sample, Answer((self._processor.tokenizer.eos_token_id,), (0.0,), ended=True))

    def _rollout(self, sample: Sample, answer: Answer) -> Rollout:
        text = generation.decode(self._processor, answer)
        return Rollout(sample, self._prompt(sample), answer, match_sample(text, sample, self._distance))

    def _prompt(self, sample: Sample) -> Prompt:
        if sample.id not in self._prompts:
            self._prompts[sample.id] = sample_prompt(self._processor, sample, self._system_prompt)
        return self._prompts[sample.id]


@dataclass(frozen=True)
class ScoringBatch:
    """Answers that one fan scores.

    Attributes:
        indices: `[rows]`, where each answer stands among the rollouts that were cut into batches.
        lengths: `[rows]`, its tokens.
    """

    batch: fan.Batch
    indices: torch.Tensor
    lengths: torch.Tensor

    def rows(self, values: torch.Tensor) -> torch.Tensor:
        """Values of all answer tokens `[answer tokens]` as `[rows, longest]`, zeros behind the shorter answers."""
        mask = self.mask()
        return values.new_zeros(mask.shape).masked_scatter(mask.bool(), values)

    def mask(self) -> torch.Tensor:
        """1 where there is a token, `[rows, longest]`."""
        import torch

        return (torch.arange(int(self.lengths.max()), device=self.lengths.device) < self.lengths[:, None]).float()


def scoring_batches(
    processor: Processor, rollouts: Sequence[Rollout], rows: int, device: torch.device
) -> Iterator[ScoringBatch]:
    """Cut rollouts into fans of at most `rows` answers of like length; each screenshot is encoded once a fan."""
    import torch

    alike: dict[tuple[int, tuple[int, int]], list[int]] = {}
    for index, rollout in enumerate(rollouts):
        grid = processor.patches(rollout.sample.image).grid
        alike.setdefault((len(rollout.prompt.prefix), grid), []).append(index)
    for members in alike.values():
        lengths = [len(rollouts[index].prompt.suffix) + len(rollouts[index].answer.ids) for index in members]
        for group in fan.like_lengths(lengths, rows):
            part = [members[place] for place in group]
            prefixes: dict[tuple[bytes, tuple[int, ...]], int] = {}
            suffixes = []
            for index in part:
                rollout = rollouts[index]
                owner = prefixes.setdefault((rollout.sample.image, rollout.prompt.prefix), len(prefixes))
                suffixes.append((owner, rollout.prompt.suffix, rollout.answer.ids))
            shown = [(ids, [processor.patches(image)]) for image, ids in prefixes]
            yield ScoringBatch(
                fan.collate(processor, shown, suffixes, device),
                torch.tensor(part, device=device),
                torch.tensor([len(rollouts[index].answer.ids) for index in part], device=device),
            )


def sampled_log_probs(rollouts: Sequence[Rollout], scoring: ScoringBatch) -> torch.Tensor:
    """The log-probabilities kept from sampling, `[rows, longest]`."""
    import torch

    flat = [value for index in scoring.indices.tolist() for value in rollouts[index].answer.log_probs]
    return scoring.rows(torch.tensor(flat, device=scoring.lengths.device))
