"""midtrained_checkpoint: supervised training on grounding, CAPTCHA and the verified steps of the three platforms.

All that is asked about a screenshot runs in one fan: the screenshot is encoded once. The loss is that of the answer
tokens alone, from the logits, divided by the number of answer tokens of the whole step. Where the DOM of a screen is
known, the what-and-where objective goes on beside it, and one part more: a question points. Each of its words that
names one thing of the screen, and its last token, tell where the centre of what is named or asked for lies, through
the heads that read it off the visual tokens. Pointing takes two steps of attention, from the question's word to the
screen and from the answer's digits to the word; this teaches the first alone, and with it the second follows
(docs/tiny_profile.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from assets.agent import fan
from assets.agent.model import load_model, save_model
from assets.agent.model_policy import sample_prompt
from assets.agent.parameters import AgentParameters
from assets.agent.processor import Processor
from assets.agent.prompts import Prompt, encode_response
from assets.agent.samples import DOMAINS, TABLE_OF_DOMAIN, Box, Sample, Screen, load_samples, load_screens
from assets.checkpoints.chunked_logits import token_log_probs
from assets.checkpoints.deck import Deck, share_out
from assets.checkpoints.measurement import Asking, put_aside, score_together
from assets.checkpoints.perception import Perception, PerceptionWeights, label_token
from assets.checkpoints.ranks import Ranks, together
from assets.checkpoints.training import Optimisation, draw_curves, precision, prepare, train, weights_dtype
from assets.errors import ParameterError
from assets.stage import Stage, StageParameters, Weights

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class Parameters(StageParameters):
    """Mid-training.

    Attributes:
        mix: share of each domain's screens in a step.
        screens: screenshots a step.
        questions: most questions asked about a screenshot in one step.
        logit_tokens: most answer tokens whose logits are held at once.
        perception: weights of the what-and-where objective on screens whose DOM is known; null leaves it out.
        pointer: weight of telling, at the words of a question, where what they name lies.
        validation_share: of the training groups (screens or episodes) that are not trained on: the stages that come
            after choose their weights by them. At least as large as their `measurement.validation_share`.
        heldout: held-out samples of each domain that are answered on the way and at the end.
        max_new_tokens: where an answer that doesn't end is cut.
    """

    mix: Weights[str]
    screens: int = Field(ge=1)
    questions: int = Field(ge=1)
    logit_tokens: int = Field(ge=1)
    perception: PerceptionWeights | None
    pointer: float = Field(ge=0)
    validation_share: float = Field(ge=0, lt=1)
    heldout: int = Field(ge=1)
    max_new_tokens: int = Field(ge=1)
    optimisation: Optimisation

    @field_validator("mix")
    @classmethod
    def _known_domains(cls, mix: dict[str, float]) -> dict[str, float]:
        unknown = sorted(set(mix) - set(DOMAINS))
        if unknown:
            raise ValueError(f"no domain '{unknown[0]}'; known: {', '.join(DOMAINS)}")
        return mix


def run(stage: Stage[Parameters]) -> None:
    """Train the base model and write the checkpoint's folder."""
    settings = stage.parameters.optimisation
    with together(stage, settings.ranks, settings.zero) as ranks:
        _train(stage, ranks)


def _train(stage: Stage[Parameters], ranks: Ranks) -> None:
    parameters = stage.parameters
    settings = parameters.optimisation
    agent = stage.section("agent", AgentParameters)
    prepare(settings, stage.rng("torch").getrandbits(32))
    model, processor = load_model(stage.input("models/base"), dtype=weights_dtype(settings))
    lesson = _Lesson(stage, model, processor, agent, ranks)
    heldout = _heldout(stage)

    asking = Asking(parameters.max_new_tokens, agent.system_prompt)

    @cache
    def measure(step: int) -> dict[str, float]:
        return {
            f"heldout_{domain}": sum(match.correct for match in matches) / len(matches)
            for domain, samples in heldout.items()
            if (matches := score_together(ranks, model, processor, samples, asking))
        }

    train(stage, settings, lesson.modules, lesson.step, measure, ranks, lesson.suspects)
    with ranks.whole(model):
        if ranks.leads:
            save_model(model, processor, stage.output)
    if not ranks.leads:
        return
    final = measure(settings.steps)  # known already where the last step was measured on the way
    stage.summary(**final)
    stage.table(
        "heldout",
        ["domain", "held-out samples", "right, greedy"],
        [[domain, len(samples), final[f"heldout_{domain}"]] for domain, samples in heldout.items()],
    )
    draw_curves(stage)


class _Lesson:
    """What one step computes."""

    def __init__(
        self,
        stage: Stage[Parameters],
        model: PreTrainedModel,
        processor: Processor,
        agent: AgentParameters,
        ranks: Ranks,
    ) -> None:
        self._ranks = ranks
        self._stage, self._model, self._processor, self._agent = stage, model, processor, agent
        self._settings = stage.parameters.optimisation
        self._weights: list[float] = []
        self._decks: list[Deck[Screen]] = []
        like: Screen | None = None
        for domain, weight in _mix(stage.parameters).items():
            screens = load_screens(stage.input(TABLE_OF_DOMAIN[domain]), domain, "train", perception=True)
            screens, _ = put_aside(screens, stage.parameters.validation_share, stage.seed)
            if not screens:
                stage.log(f"no training screens of domain {domain}: its share goes to the others")
                continue
            like = like or next((screen for screen in screens if screen.elements), None)
            self._decks.append(Deck(stage, domain, screens))
            self._weights.append(weight)
        if not self._decks:
            raise ParameterError("midtrained_checkpoint.mix: none of the domains has training screens")
        self._eyes: Perception | None = None
        self.modules: dict[str, torch.nn.Module] = {"model": model}
        if stage.parameters.perception is not None and like is not None:
            self._eyes = Perception(model, processor, stage.parameters.perception, like)
            self.modules["heads"] = self._eyes.heads
        self._encoded: dict[str, tuple[Prompt, tuple[int, ...]]] = {}
        self._asked: list[str] = []
        self._broken: list[str] = []

    def step(self, number: int) -> Mapping[str, float]:
        """Forward and backward; gradients add up over fans whose prefixes are alike."""
        asked = self._draw(number)
        mine = self._ranks.share(asked, self._cost, self._form)
        whole = self._ranks.total(self._counts(mine))
        figures: dict[str, float] = {"loss": 0.0}
        self._asked, self._broken = _ids(mine), []
        for alike, counts in self._ranks.passes(self._alike(mine), lambda: asked[:1]):
            parts: dict[str, float] = {}
            loss = counts * self._ranks.forward(partial(self._loss, alike, whole, parts))
            for name, part in parts.items():
                figures[name] = figures.get(name, 0.0) + counts * part
            if not loss.isfinite():
                self._broken += _ids(alike)
            self._ranks.backward(loss)
        return self._ranks.total(figures)

    def _loss(
        self, alike: Sequence[tuple[Screen, list[Sample]]], whole: Mapping[str, float], figures: dict[str, float]
    ) -> torch.Tensor:
        """What one fan adds to the loss of a step whose counts are `whole`; its parts are noted in `figures`."""
        import torch

        with precision(self._settings, self._model.device):
            batch, screens = self._collate(alike)
            output = fan.forward(self._model, batch)
            # The question's tokens count as answered in the fan, so that what the model makes of them is seen.
            asking = self._asking(alike, output.answers.device)
            hidden, targets = output.answers[~asking], batch.targets()[~asking]
            log_probs = token_log_probs(self._model, hidden, targets, self._stage.parameters.logit_tokens)
            loss = -log_probs.sum() / whole["tokens"]
            figures["loss"] = loss.item()
            if self._eyes is not None:
                parts: dict[str, torch.Tensor] = {}
                places = [place for place, screen in enumerate(screens) if self._sees(screen)]
                if places:
                    known = [screens[place] for place in places]
                    parts = self._eyes.losses(output.visual[places], known, whole["seen"], whole["covered"])
                    loss = loss + self._eyes.weighted(parts)
                centres = torch.tensor(self._centres(alike))
                parts["pointer"] = self._eyes.pointer(output.answers[asking], centres, whole["pointing"])
                loss = loss + self._stage.parameters.pointer * parts["pointer"]
                for name, part in parts.items():
                    figures[name] = part.item()
        return loss

    def _counts(self, asked: Sequence[tuple[Screen, list[Sample]]]) -> dict[str, float]:
        """What losses are divided by: answer tokens, screens that are seen, their covered tokens, centres to tell."""
        seen = [screen for screen, _ in asked if self._sees(screen)]
        return {
            "tokens": sum(len(self._encode(sample)[1]) for _, samples in asked for sample in samples),
            "seen": len(seen),
            "covered": 0 if self._eyes is None else self._eyes.covered(seen),
            "pointing": 0 if self._eyes is None else sum(centre != _NOWHERE for centre in self._centres(asked)),
        }

    def suspects(self) -> list[str]:
        """Samples of the last step in fans whose loss is not a number; all of this rank where there is none."""
        return self._broken or self._asked

    def _cost(self, asked: tuple[Screen, list[Sample]]) -> float:
        """About how many tokens a screen and what is asked about it are."""
        pairs = [self._encode(sample) for sample in asked[1]]
        return len(pairs[0][0].prefix) + sum(len(prompt.suffix) + len(answer) for prompt, answer in pairs)

    def _form(self, asked: tuple[Screen, list[Sample]]) -> tuple[int, tuple[int, int], int]:
        """What screens have in common that can share a fan, and how long it is."""
        screen, samples = asked
        prompt, _ = self._encode(samples[0])
        return len(prompt.prefix), self._processor.patches(screen.image).grid, self._longest(samples)

    def _draw(self, number: int) -> list[tuple[Screen, list[Sample]]]:
        """The screens of a step, and of each at most so many of its questions."""
        parameters = self._stage.parameters
        drawn = []
        shares = share_out(number, parameters.screens, self._weights)
        for deck, (start, count) in zip(self._decks, shares, strict=True):
            for place, screen in enumerate(deck.deal(start, count), start):
                samples = list(screen.samples)
                if len(samples) > parameters.questions:
                    rng = self._stage.rng("questions", screen.domain, place)
                    samples = rng.sample(samples, parameters.questions)
                drawn.append((screen, samples))
        return drawn

    def _alike(self, asked: Sequence[tuple[Screen, list[Sample]]]) -> list[list[tuple[Screen, list[Sample]]]]:
        """Screens that can share a fan: prefixes of one length and grid, questions and answers of like length."""
        groups: dict[tuple[int, tuple[int, int]], list[tuple[Screen, list[Sample]]]] = {}
        for screen, samples in asked:
            groups.setdefault(self._form((screen, samples))[:2], []).append((screen, samples))
        return [
            [group[place] for place in places]
            for group in groups.values()
            for places in fan.like_lengths([self._longest(samples) for _, samples in group])
        ]

    def _longest(self, samples: Sequence[Sample]) -> int:
        """Tokens of the longest question with its answer."""
        return max(len(prompt.suffix) + len(answer) for prompt, answer in map(self._encode, samples))

    def _collate(self, alike: Sequence[tuple[Screen, list[Sample]]]) -> tuple[fan.Batch, list[Screen]]:
        prefixes, suffixes = [], []
        for owner, (screen, samples) in enumerate(alike):
            prompts = [self._encode(sample) for sample in samples]
            prefixes.append((prompts[0][0].prefix, [self._processor.patches(screen.image)]))
            suffixes += [(owner, prompt.suffix[:1], (*prompt.suffix[1:], *answer)) for prompt, answer in prompts]
        batch = fan.collate(self._processor, prefixes, suffixes, self._model.device)
        return batch, [screen for screen, _ in alike]

    def _asking(self, alike: Sequence[tuple[Screen, list[Sample]]], device: torch.device) -> torch.Tensor:
        """Bool `[tokens of the suffixes but each one's first]`: which belong to the question."""
        import torch

        runs = []
        for _, samples in alike:
            for sample in samples:
                prompt, answer = self._encode(sample)
                runs += [torch.ones(len(prompt.suffix) - 1), torch.zeros(len(answer))]
        return torch.cat(runs).bool().to(device)

    def _centres(self, asked: Sequence[tuple[Screen, list[Sample]]]) -> list[tuple[float, float]]:
        """For each token of the questions: where, as shares of width and height, the centre of the thing lies that it
        names on a screen whose DOM is known; at each question's last token, where the answer's last point lies."""
        centres: list[tuple[float, float]] = []
        for screen, samples in asked:
            named = self._named(screen)
            for sample in samples:
                told = [named.get(token, _NOWHERE) for token in self._encode(sample)[0].suffix[:-1]]
                if sample.boxes:
                    told[-1] = _centre(sample.boxes[-1], screen)
                centres += told
        return centres

    def _named(self, screen: Screen) -> dict[int, tuple[float, float]]:
        """The centre of the one element of a screen whose label begins with a word, by the word's token."""
        places: dict[int, list[Box]] = {}
        for element in screen.elements:
            token = label_token(element, self._processor.tokenizer)
            if token is not None:
                places.setdefault(token, []).append(element.box)
        return {token: _centre(boxes[0], screen) for token, boxes in places.items() if len(boxes) == 1}

    def _encode(self, sample: Sample) -> tuple[Prompt, tuple[int, ...]]:
        known = self._encoded.get(sample.id)
        if known is None:
            prompt = sample_prompt(self._processor, sample, self._agent.system_prompt)
            known = self._encoded[sample.id] = (prompt, encode_response(self._processor.tokenizer, sample.response))
        return known

    def _sees(self, screen: Screen) -> bool:
        return self._eyes is not None and bool(screen.elements)


_NOWHERE = (-1.0, -1.0)
"""What a token that names nothing tells of."""


def _ids(asked: Sequence[tuple[Screen, list[Sample]]]) -> list[str]:
    return [sample.id for _, samples in asked for sample in samples]


def _centre(box: Box, screen: Screen) -> tuple[float, float]:
    left, top, right, bottom = box
    return ((left + right) / 2 / screen.width, (top + bottom) / 2 / screen.height)


def _mix(parameters: Parameters) -> dict[str, float]:
    return {domain: parameters.mix[domain] for domain in DOMAINS if parameters.mix.get(domain, 0) > 0}


def _heldout(stage: Stage[Parameters]) -> dict[str, list[Sample]]:
    """Held-out samples of each domain of the mix, neighbours on a screen kept together."""
    chosen: dict[str, list[Sample]] = {}
    for domain in _mix(stage.parameters):
        samples = load_samples(stage.input(TABLE_OF_DOMAIN[domain]), domain, "heldout")
        count = min(stage.parameters.heldout, len(samples))
        if count:
            places = sorted(stage.rng("heldout", domain).sample(range(len(samples)), count))
            chosen[domain] = [samples[place] for place in places]
    return chosen
