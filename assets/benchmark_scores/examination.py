"""One agent answers everything it is asked: the work of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assets.agent.model_policy import ModelPolicy, match_sample, score_samples
from assets.agent.observation import Observation, RandomPolicy
from assets.agent.parameters import AgentParameters
from assets.agent.samples import Sample
from assets.benchmark_scores.cases import Case, episode_cases, sample_cases
from assets.benchmark_scores.live import play
from assets.environments.task import TaskContract

if TYPE_CHECKING:
    from assets.environments.workers import Sessions


@dataclass(frozen=True)
class Examination:
    """What an agent is asked, and how it answers.

    Attributes:
        name: of the agent, as in the tables.
        model: its Hugging Face folder; None for chance, which draws its actions with `seed`.
        samples: domain -> held-out samples.
        tasks: live episodes.
        sessions: episodes side by side.
        threads: of torch.
    """

    name: str
    model: Path | None
    seed: int
    samples: Mapping[str, Sequence[Sample]]
    tasks: Sequence[TaskContract]
    sessions: int
    max_steps: int
    max_new_tokens: int
    threads: int
    agent: AgentParameters


def open_policy(examination: Examination) -> ModelPolicy | RandomPolicy:
    """The agent, answering greedily; or chance."""
    import torch

    torch.set_num_threads(examination.threads)
    agent = examination.agent
    if examination.model is None:
        return RandomPolicy(examination.seed, agent.coordinate_digits)
    return ModelPolicy(examination.model, examination.max_new_tokens, agent.system_prompt, name=examination.name)


def examine(sessions: Sessions, examination: Examination) -> list[Case]:
    """The cases of every sample and every live episode. For `assets.environments.workers.spread`."""
    policy = open_policy(examination)
    cases = []
    for samples in examination.samples.values():
        cases += _answer(policy, samples, examination)
    episodes = play(sessions, examination.tasks, policy, examination.sessions, examination.max_steps)
    return cases + episode_cases(episodes)


def _answer(policy: ModelPolicy | RandomPolicy, samples: Sequence[Sample], examination: Examination) -> list[Case]:
    if isinstance(policy, ModelPolicy):
        settings = (examination.max_new_tokens, examination.agent.system_prompt)
        return sample_cases(samples, score_samples(policy.model, policy.processor, samples, *settings))
    # Grounding and CAPTCHA have no platform; a random pointing action of a phone is legal there too.
    seen = [Observation(s.image, s.width, s.height, s.platform or "mobile", s.instruction, s.history) for s in samples]
    answers = policy.respond(seen)
    return sample_cases(samples, [match_sample(text, sample) for text, sample in zip(answers, samples, strict=True)])
