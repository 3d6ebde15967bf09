"""A trained model as a policy: batches of observations in, responses out; and its answers to samples, matched.

Greedy answers (temperature 0) depend on the model and the observation alone. Sampled ones depend on the seed and on
what was asked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assets.agent import generation, prompts
from assets.agent.matching import SCREEN_DISTANCE, Match, match_step
from assets.agent.model import load_model
from assets.agent.observation import Observation
from assets.agent.processor import Processor
from assets.agent.prompts import Prompt, SystemPrompt
from assets.agent.samples import Sample

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class ModelPolicy:
    """A model folder at work.

    Args:
        folder: a Hugging Face model folder.
        max_new_tokens: where an answer that doesn't end is cut.
        system_prompt: as in the `agent` section of params.yaml, and as in training.
        temperature: 0 takes the likeliest token.
        seed: of the sampling.
        name: how tables call it; the folder's name by default.
    """

    def __init__(
        self,
        folder: Path,
        max_new_tokens: int,
        system_prompt: SystemPrompt = "brief",
        temperature: float = 0.0,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        import torch

        self.name = name or folder.name
        self.model, self.processor = load_model(folder)
        self._max_new_tokens = max_new_tokens
        self._system_prompt: SystemPrompt = system_prompt
        self._temperature = temperature
        self._generator = torch.Generator(self.model.device).manual_seed(seed)

    def respond(self, observations: Sequence[Observation]) -> list[str]:
        """One response for each observation, all of them in one batch. A note is shown after the history."""
        questions = [
            (
                seen.screenshot,
                prompt_of(
                    self.processor,
                    seen.screenshot,
                    seen.platform,
                    seen.instruction,
                    seen.history if seen.note is None else (*seen.history, seen.note),
                    self._system_prompt,
                ),
            )
            for seen in observations
        ]
        drawn = generation.sample(
            self.model,
            self.processor,
            questions,
            temperature=self._temperature,
            max_new_tokens=self._max_new_tokens,
            generator=self._generator,
        )
        return [generation.decode(self.processor, answers[0]) for answers in drawn]


def score_samples(
    model: PreTrainedModel,
    processor: Processor,
    samples: Sequence[Sample],
    max_new_tokens: int,
    system_prompt: SystemPrompt = "brief",
    distance: float = SCREEN_DISTANCE,
) -> list[Match]:
    """Greedy answers to samples, compared with their verified actions; in the order of the samples.

    Samples that share a screenshot should stand next to each other, as `load_samples` gives them.
    """
    questions = [(sample.image, sample_prompt(processor, sample, system_prompt)) for sample in samples]
    drawn = generation.sample(model, processor, questions, max_new_tokens=max_new_tokens)
    return [
        match_sample(generation.decode(processor, answers[0]), sample, distance)
        for answers, sample in zip(drawn, samples, strict=True)
    ]


def match_sample(response: str, sample: Sample, distance: float = SCREEN_DISTANCE) -> Match:
    """A response against the verified actions of a sample."""
    return match_step(response, sample.actions, sample.boxes, sample.width, sample.height, sample.platform, distance)


def sample_prompt(
    processor: Processor, sample: Sample, system_prompt: SystemPrompt = "brief", hint: str | None = None
) -> Prompt:
    """The prompt of a sample. `hint` is for a teacher only."""
    return prompt_of(processor, sample.image, sample.platform, sample.instruction, sample.history, system_prompt, hint)


def prompt_of(
    processor: Processor,
    image: bytes,
    platform: str | None,
    instruction: str,
    history: Sequence[str] = (),
    system_prompt: SystemPrompt = "brief",
    hint: str | None = None,
) -> Prompt:
    """The prompt of one step with one screenshot."""
    visual = processor.image_tokens(processor.patches(image).grid)
    return prompts.encode(processor.tokenizer, [visual], platform, instruction, history, system_prompt, hint)
