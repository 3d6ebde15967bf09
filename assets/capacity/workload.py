"""What a step of each training stage computes: how many tokens, and the largest fan that runs in one pass.

Everything follows from the parameters of a profile. A batch is shared out over the GPUs: each takes its part of a
step's screens or questions, so that a step means the same on any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from assets.agent import prompts
from assets.agent.parameters import AgentParameters
from assets.capacity.architecture import Architecture
from assets.checkpoints import distilled_model, midtrained_checkpoint, rl_checkpoint
from assets.checkpoints.base_model import Parameters as BaseParameters
from assets.environments.environments import Parameters as EnvironmentParameters
from assets.generated_tasks.capability_catalog import Parameters as CatalogParameters
from assets.stage import load_section
from assets.synthetic_samples.captcha_samples import Parameters as CaptchaParameters
from assets.synthetic_samples.grounding_samples import Parameters as GroundingParameters

SURE = 0.999
"""Share of the steps in which no more screens of a size are drawn than the plan counts with."""

PLATFORM_OF_DOMAIN = {"mobile": "mobile", "web": "web", "computer": "desktop"}

Screen = tuple[int, int]


@dataclass(frozen=True)
class Lengths:
    """Tokens that no parameter tells.

    Attributes:
        question: of an instruction with its history.
        answer: of an answer in the data. What a model samples is bounded by `max_new_tokens`.
        characters: of the system line's text that make one token.
    """

    question: int = 256
    answer: int = 128
    characters: float = 4.0


@dataclass(frozen=True)
class Pass:
    """One fan: `prefixes` of `prefix_tokens` tokens, of which one `screen` of `patches` patches; `rows` that continue
    them with `suffix_tokens` tokens, of which `answer_tokens` are answered."""

    screen: Screen
    patches: int
    prefixes: int
    prefix_tokens: int
    rows: int
    suffix_tokens: int
    answer_tokens: int


@dataclass(frozen=True)
class StepTokens:
    """Of one step on all GPUs together, on average; sampled answers as long as they may be.

    Attributes:
        screens: screenshots.
        patches: of them, for the vision tower.
        prefix: tokens of the prefixes, each encoded once.
        suffix: tokens of the questions and answers.
        answer: tokens of the answers, which have a loss.
    """

    screens: int
    patches: int
    prefix: int
    suffix: int
    answer: int


@dataclass(frozen=True)
class Workload:
    """A training stage.

    Attributes:
        passes: the fans of an update that may be the largest, on one GPU.
        sampled: the same for sampling; empty where nothing is sampled.
        frozen: models beside the one that is trained.
        loss: name of what is computed from the logits: `likelihood`, `policy`, or an estimator of distillation.
        top_k: of the teacher's distribution.
        logit_tokens: most answer tokens whose logits are held at once.
        precision: of the stage's optimisation.
    """

    stage: str
    passes: tuple[Pass, ...]
    sampled: tuple[Pass, ...]
    tokens: StepTokens
    frozen: int
    loss: str
    top_k: int | None
    logit_tokens: int
    precision: str


@dataclass(frozen=True)
class Profile:
    """The sections of a params file that decide what training needs."""

    source: str
    agent: AgentParameters
    midtraining: midtrained_checkpoint.Parameters
    rl: rl_checkpoint.Parameters
    distillation: distilled_model.Parameters
    screens: Mapping[str, Mapping[Screen, float]]
    questions: Mapping[str, float]


def read_profile(path: Path) -> Profile:
    """Read a params file.

    Raises:
        ParameterError: a section is missing or wrong.
    """
    agent = load_section(path, "agent", AgentParameters)
    grounding = load_section(path, "grounding_samples", GroundingParameters)
    captcha = load_section(path, "captcha_samples", CaptchaParameters)
    environments = load_section(path, "environments", EnvironmentParameters)
    scales = load_section(path, "capability_catalog", CatalogParameters).scales
    screens: dict[str, Mapping[Screen, float]] = {}
    asked = dict.fromkeys(("grounding", "captcha", *PLATFORM_OF_DOMAIN), 1.0)
    if grounding.interfaces is not None:
        scenes = grounding.interfaces.scenes
        total = sum(scenes.platforms.values())
        screens["grounding"] = _shares(
            (size, share / total / len(scenes.screens[platform]))
            for platform, share in scenes.platforms.items()
            for size in scenes.screens[platform]
        )
        asked["grounding"] = sum(grounding.interfaces.questions) / 2
    else:
        assert grounding.scenes is not None
        screens["grounding"] = {agent.screen: 1.0}
        asked["grounding"] = sum(grounding.scenes.elements) / 2
    pages = captcha.pages.screens.values() if captcha.pages is not None else (agent.screen,)
    screens["captcha"] = _shares((size, 1 / len(pages)) for size in pages)
    for domain, platform in PLATFORM_OF_DOMAIN.items():
        sizes = [agent.screen if scale == "small" else environments.screens[platform] for scale in scales]  # type: ignore[index]
        screens[domain] = _shares((size, 1 / len(sizes)) for size in sizes)
    return Profile(
        load_section(path, "base_model", BaseParameters).source,
        agent,
        load_section(path, "midtrained_checkpoint", midtrained_checkpoint.Parameters),
        load_section(path, "rl_checkpoint", rl_checkpoint.Parameters),
        load_section(path, "distilled_model", distilled_model.Parameters),
        screens,
        asked,
    )


def workloads(
    profile: Profile, architecture: Architecture, gpus: int, lengths: Lengths, rows: int | None = None
) -> list[Workload]:
    """The training stages of a profile on so many GPUs.

    Args:
        rows: instead of the profile's: most answers in one pass of reinforcement learning and distillation; most
            questions in one pass of mid-training.
    """
    fans = _Fans(profile, architecture, lengths)
    return [
        _midtraining(profile, fans, gpus, lengths, rows),
        _reinforcement(profile, fans, gpus, lengths, rows),
        _distillation(profile, fans, gpus, lengths, rows),
    ]


def _midtraining(profile: Profile, fans: _Fans, gpus: int, lengths: Lengths, rows: int | None) -> Workload:
    """All screens of one size, with all their questions, run in one fan."""
    settings = profile.midtraining
    mix = _normalised(settings.mix)
    here = math.ceil(settings.screens / gpus)
    asked = {domain: min(settings.questions, max(1, round(profile.questions[domain]))) for domain in mix}
    passes = []
    for (_, size), shares in fans.alike(mix).items():
        most = _most_alike(here, sum(shares.values()))
        questions = max(asked[domain] for domain in shares)
        if rows is not None:
            most = min(most, max(1, rows // questions))
        answer = lengths.answer
        passes.append(fans.one(next(iter(shares)), size, most, most * questions, lengths.question, answer))
    counted = {domain: settings.screens * share for domain, share in mix.items()}
    tokens = fans.tokens(counted, {d: counted[d] * asked[d] for d in mix}, lengths.question, lengths.answer)
    return Workload(
        "midtrained_checkpoint",
        tuple(passes),
        (),
        tokens,
        0,
        "likelihood",
        None,
        settings.logit_tokens,
        settings.optimisation.precision,
    )


def _reinforcement(profile: Profile, fans: _Fans, gpus: int, lengths: Lengths, rows: int | None) -> Workload:
    """One domain; the one that computes most. A pass of `rows` answers may show as many screens as are alike."""
    settings = profile.rl
    most_rows = rows or settings.rows
    here = math.ceil(settings.questions / gpus)
    passes, sampled, counts = [], [], []
    for domain in profile.screens:
        shown = max(1, math.ceil(here / profile.questions[domain]))
        for (_, size), shares in fans.alike({domain: 1.0}).items():
            alike = _most_alike(shown, sum(shares.values()))
            answers = min(most_rows, here * settings.samples)
            questions = max(1, min(here, most_rows // settings.samples))
            length = settings.max_new_tokens
            passes.append(fans.one(domain, size, min(alike, answers), answers, lengths.question, length))
            drawn = questions * settings.samples
            sampled.append(fans.one(domain, size, min(alike, questions), drawn, lengths.question, length))
        screens = settings.questions / profile.questions[domain]
        asked = {domain: float(settings.questions * settings.samples)}
        counts.append(fans.tokens({domain: screens}, asked, lengths.question, settings.max_new_tokens))
    return Workload(
        "rl_checkpoint",
        tuple(passes),
        tuple(sampled),
        max(counts, key=lambda tokens: tokens.prefix + tokens.suffix),
        1 if settings.kl else 0,
        "policy",
        None,
        settings.logit_tokens,
        settings.optimisation.precision,
    )


def _distillation(profile: Profile, fans: _Fans, gpus: int, lengths: Lengths, rows: int | None) -> Workload:
    """One answer to each question; answers of all domains whose prefixes are alike share a pass."""
    settings = profile.distillation
    mix = _normalised(settings.mix.model_dump())
    most_rows = rows or settings.rows
    here = math.ceil(settings.questions / gpus)
    screens = {domain: max(1, math.ceil(here * share / profile.questions[domain])) for domain, share in mix.items()}
    passes = []
    for (_, size), shares in fans.alike(mix).items():
        alike = sum(_most_alike(screens[domain], share / mix[domain]) for domain, share in shares.items())
        asked = sum(
            _most_alike(screens[domain], share / mix[domain]) * profile.questions[domain]
            for domain, share in shares.items()
        )
        answers = min(most_rows, math.ceil(asked))
        passes.append(
            fans.one(next(iter(shares)), size, min(alike, answers), answers, lengths.question, settings.max_new_tokens)
        )
    counted = {domain: settings.questions * share / profile.questions[domain] for domain, share in mix.items()}
    asked_all = {domain: settings.questions * share for domain, share in mix.items()}
    return Workload(
        "distilled_model",
        tuple(passes),
        tuple(passes),
        fans.tokens(counted, asked_all, lengths.question, settings.max_new_tokens),
        len(mix),
        settings.estimator,
        settings.top_k,
        settings.logit_tokens,
        settings.optimisation.precision,
    )


class _Fans:
    """Screens and prompts of a profile in tokens of an architecture."""

    def __init__(self, profile: Profile, architecture: Architecture, lengths: Lengths) -> None:
        self._profile = profile
        self._architecture = architecture
        self._characters = lengths.characters

    def alike(self, mix: Mapping[str, float]) -> dict[tuple[str | None, Screen], dict[str, float]]:
        """Of the screens of a mix, those that can share a fan (one system line, one size): share of each domain."""
        found: dict[tuple[str | None, Screen], dict[str, float]] = {}
        for domain, share in mix.items():
            for size, part in self._profile.screens[domain].items():
                found.setdefault((PLATFORM_OF_DOMAIN.get(domain), size), {})[domain] = share * part
        return found

    def one(self, domain: str, size: Screen, prefixes: int, rows: int, question: int, answer: int) -> Pass:
        """A fan over screens of one size."""
        grid, visual = self._architecture.image_tokens(size)
        shown = self._profile.agent.screenshots
        prefix = self._system(domain) + visual * shown
        return Pass(size, grid[0] * grid[1] * shown, prefixes, prefix, rows, question + answer, answer)

    def tokens(
        self, screens: Mapping[str, float], asked: Mapping[str, float], question: int, answer: int
    ) -> StepTokens:
        """Of so many screens of each domain, and so many answers to questions about them."""
        patches = prefix = 0.0
        for domain, count in screens.items():
            for size, share in self._profile.screens[domain].items():
                single = self.one(domain, size, 1, 1, question, answer)
                patches += count * share * single.patches
                prefix += count * share * single.prefix_tokens
        answers = sum(asked.values())
        return StepTokens(
            round(sum(screens.values())),
            round(patches),
            round(prefix),
            round(answers * (question + answer)),
            round(answers * answer),
        )

    def _system(self, domain: str) -> int:
        platform = PLATFORM_OF_DOMAIN.get(domain)
        line = prompts.messages(platform, "", system_prompt=self._profile.agent.system_prompt)[0]["content"]
        return math.ceil(len(line) / self._characters)


def _most_alike(count: int, share: float) -> int:
    """Of `count` screens, each of a size with probability `share`: how many are of it at most, but for one step in a
    thousand."""
    from scipy.stats import binom

    return max(1, int(binom.ppf(SURE, count, min(1.0, share))))


def _shares(pairs: Iterable[tuple[Screen, float]]) -> dict[Screen, float]:
    shares: dict[Screen, float] = {}
    for size, share in pairs:
        shares[size] = shares.get(size, 0.0) + share
    return shares


def _normalised(mix: Mapping[str, float]) -> dict[str, float]:
    total = sum(mix.values())
    return {domain: share / total for domain, share in mix.items() if share}
