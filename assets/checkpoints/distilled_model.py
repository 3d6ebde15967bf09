"""Multi-teacher on-policy distillation: five domain specialists become one model (METHOD.md, "MOPD").

One step: the student answers samples of every domain; the frozen teacher of each sample's domain scores the student's
tokens; the student moves towards what the teacher would have said there. What each token counts depends on what the
student got wrong. Two estimators by name, and two starting points, since at small scale the published sampled-token
form has too much variance and the average of the teachers' weights is a strong start (FACTS.md).

Left out: scoring by an inference server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator, model_validator

from assets.agent import fan
from assets.agent.matching import Match
from assets.agent.model import load_model, save_model
from assets.agent.model_policy import sample_prompt
from assets.agent.parameters import AgentParameters
from assets.agent.processor import Processor
from assets.agent.prompts import Prompt
from assets.agent.samples import DOMAINS, Sample, Screen
from assets.checkpoints.chunked_logits import in_chunks
from assets.checkpoints.deck import Deck
from assets.checkpoints.ledger import Disagreement, Ledger, keep_entries, report_ledger
from assets.checkpoints.losses.distillation import (
    Estimator,
    StructuredWeights,
    TokenClass,
    error_class,
    importance_gate,
    jensen_shannon,
    structured_weights,
    token_classes,
    token_values,
    weighted_mean,
)
from assets.checkpoints.measurement import (
    Asking,
    BestWeights,
    DomainSamples,
    Measurement,
    accuracy,
    outcome_rows,
    outcome_schema,
    score_together,
    screens_a_step,
    share_screens,
)
from assets.checkpoints.ranks import Ranks, together
from assets.checkpoints.rollouts import Rollout, Sampler, ScoringBatch, scoring_batches
from assets.checkpoints.training import Optimisation, draw_curves, precision, prepare, train, weights_dtype
from assets.stage import Stage, StageParameters, write_parquet
from assets.statistics import paired_bootstrap, proportion, stratified_paired_bootstrap

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class Gate(StageParameters):
    """Bounds of the ratio between a token's probability now and when it was sampled; outside it counts for nothing."""

    low: float = Field(ge=0)
    high: float = Field(gt=0)

    @model_validator(mode="after")
    def _holds_something(self) -> Gate:
        if self.low >= self.high:
            raise ValueError("low must be below high: no token would count")
        return self


class Mix(StageParameters):
    """Share of the samples of a step by domain; a domain with 0 is left out."""

    grounding: float = Field(ge=0)
    captcha: float = Field(ge=0)
    mobile: float = Field(ge=0)
    web: float = Field(ge=0)
    computer: float = Field(ge=0)

    @model_validator(mode="after")
    def _asks_something(self) -> Mix:
        if not any(self.model_dump().values()):
            raise ValueError("a domain must have a share above 0")
        return self


class Parameters(StageParameters):
    """Distillation.

    Attributes:
        start: the average of the teachers' weights, or the mid-trained model they all come from.
        estimator: see `losses.distillation`.
        top_k: of the teacher's distribution, for the whole-vocabulary estimators; null takes all of it.
        advantage_bound: largest advantage of a token, for `sampled_token`.
        weights: by the student's error and the token's class; null weighs every token alike.
        hint: a line that only the teacher's prompt has; `{type}` stands for the right action's type. Null: no hint.
        questions: samples answered in a step, shared out over the domains by `mix`.
        rows: most answers in one pass through the model.
        logit_tokens: most answer tokens whose logits are held at once.
        disagreement_every: steps between those whose answers all teachers score, to find where two of them disagree
            most; 0: never.
        match_distance: see `matching.SCREEN_DISTANCE`.
    """

    optimisation: Optimisation
    start: Literal["average", "midtrained"]
    estimator: Estimator
    top_k: int | None = Field(ge=1)
    advantage_bound: float = Field(gt=0)
    gate: Gate
    weights: StructuredWeights | None
    hint: str | None
    mix: Mix
    questions: int = Field(ge=1)
    temperature: float = Field(gt=0)
    max_new_tokens: int = Field(ge=1)
    rows: int = Field(ge=1)
    logit_tokens: int = Field(ge=1)
    disagreement_every: int = Field(ge=0)
    match_distance: float = Field(gt=0)
    measurement: Measurement

    @field_validator("hint")
    @classmethod
    def _names_the_type(cls, hint: str | None) -> str | None:
        if hint is not None and "{type}" not in hint:
            raise ValueError("a hint must say {type} where the type of the right action goes; null is no hint")
        return hint


def run(stage: Stage[Parameters]) -> None:
    """The mid-trained model, five specialists and their domains' samples -> models/distilled."""
    settings = stage.parameters.optimisation
    with together(stage, settings.ranks, settings.zero) as ranks:
        _train(stage, ranks)


def _train(stage: Stage[Parameters], ranks: Ranks) -> None:
    settings, mix = stage.parameters, stage.parameters.mix.model_dump()
    agent = stage.section("agent", AgentParameters)
    prepare(settings.optimisation, stage.seed)
    domains = {domain: DomainSamples(stage, [domain], settings.measurement) for domain in DOMAINS if mix[domain]}
    student, processor = load_model(stage.input("models/midtrained"))
    teachers: dict[str, PreTrainedModel] = {}

    def opened() -> Iterator[PreTrainedModel]:
        """Each teacher while it is whole on this rank."""
        for domain in domains:
            folder = stage.input(f"models/rl/{domain}")
            teacher, _ = load_model(folder, dtype=weights_dtype(settings.optimisation))
            yield teacher
            teachers[domain] = ranks.frozen(teacher, settings.optimisation)

    if settings.start == "average":
        average_weights(student, opened())
    else:
        for _ in opened():
            pass

    asking = Asking(settings.max_new_tokens, agent.system_prompt, settings.match_distance)

    def measure(model: PreTrainedModel, samples: Sequence[Sample]) -> list[Match]:
        return score_together(ranks, model, processor, samples, asking)

    best = BestWeights(stage.work / "best.safetensors", student, ranks)

    def evaluate(step: int) -> dict[str, float]:
        curves = {
            f"heldout/{domain}": accuracy(measure(student, samples.curve))
            for domain, samples in domains.items()
            if samples.curve
        }
        return {**curves, **validate(step)}

    def validate(step: int) -> dict[str, float]:
        scores = [accuracy(measure(student, s.validation)) for s in domains.values() if s.validation]
        if not scores:
            return {}
        best.offer(step, sum(scores) / len(scores))
        return {"validation/accuracy": sum(scores) / len(scores)}

    start = {domain: measure(student, samples.heldout) for domain, samples in domains.items()}
    for domain, samples in domains.items():
        if samples.curve:
            stage.metric(f"heldout/{domain}", samples.curve_accuracy(start[domain]), 0)
    for name, value in validate(0).items():
        stage.metric(name, value, 0)
    screens = {name: samples.screens for name, samples in domains.items()}
    learner = Learner(stage, agent, student, teachers, processor, screens, ranks)
    train(stage, settings.optimisation, {"student": student}, learner.step, evaluate, ranks, learner.suspects)

    kept = any(samples.validation for samples in domains.values())
    stage.summary(kept_step=best.restore() if kept else settings.optimisation.steps)
    end = {domain: measure(student, samples.heldout) for domain, samples in domains.items()}
    taught = {domain: measure(teachers[domain], samples.heldout) for domain, samples in domains.items()}
    with ranks.whole(student):
        if ranks.leads:
            save_model(student, processor, stage.output)
    if not ranks.leads:
        return
    _report_heldout(stage, domains, start, end, taught)
    report_ledger(stage, learner.screens)
    draw_curves(stage)


class Learner:
    """What one step of distillation computes: answers, the teachers' view of them, gradients, the ledger."""

    def __init__(
        self,
        stage: Stage[Parameters],
        agent: AgentParameters,
        student: PreTrainedModel,
        teachers: dict[str, PreTrainedModel],
        processor: Processor,
        screens: dict[str, list[Screen]],
        ranks: Ranks,
    ) -> None:
        settings = stage.parameters
        self._ranks = ranks
        self._stage = stage
        self._settings = settings
        self._student = student
        self._teachers = teachers
        self._processor = processor
        self._decks = {domain: Deck(stage, domain, members) for domain, members in screens.items()}
        mix = settings.mix.model_dump()
        total = sum(mix[domain] for domain in screens)
        self._texts: dict[int, str] = {}
        self._asked: list[str] = []
        self._hinted: dict[str, Prompt] = {}
        self._system_prompt = agent.system_prompt
        self.screens = {
            domain: screens_a_step(members, settings.questions * mix[domain] / total)
            for domain, members in screens.items()
        }
        self._sampler = Sampler(
            processor,
            agent.system_prompt,
            settings.temperature,
            settings.max_new_tokens,
            settings.match_distance,
            settings.rows,
        )

    def step(self, number: int) -> dict[str, float]:
        """Forward and backward of step `number`; what to plot."""
        dealt = [
            screen
            for domain, deck in self._decks.items()
            for screen in deck.deal(number * self.screens[domain], self.screens[domain])
        ]
        samples = share_screens(self._ranks, dealt)
        self._asked = [sample.id for sample in samples]
        seed = self._stage.rng("answers", number, self._ranks.rank).getrandbits(62)
        with self._ranks.whole(self._student):
            rollouts = [answers[0] for answers in self._sampler.draw(self._student, samples, 1, seed)]
        errors = [error_class(rollout.match) for rollout in rollouts]
        classes = [token_classes(self._pieces(rollout)) for rollout in rollouts]
        weights = structured_weights(classes, errors, self._settings.weights)
        tokens = int(self._ranks.total({"tokens": sum(len(rollout.answer.ids) for rollout in rollouts)})["tokens"])
        ledger = Ledger(rollouts, errors, classes)
        total = 0.0

        def batches() -> Iterator[_Batch]:
            for scoring in scoring_batches(self._processor, rollouts, self._settings.rows, self._student.device):
                yield _Batch(rollouts, weights, scoring, ledger)

        for batch, counts in self._ranks.passes(batches(), partial(self._spare_batch, dealt[0].samples[0])):
            loss = counts * self._ranks.forward(partial(self._loss, batch, tokens, counts > 0))
            self._ranks.backward(loss)
            total += float(loss.detach())
        every = self._settings.disagreement_every
        figures, most = self._disagreement(rollouts, classes) if every and number % every == 0 else ({}, None)
        rows = ledger.rows(self._ranks)
        if self._ranks.leads:
            keep_entries(self._stage.work, number, rows, most)
        return {**self._ranks.total({"loss": total}), **ledger.figures(self._ranks, rows), **figures}

    def _loss(self, batch: _Batch, tokens: int, entered: bool) -> torch.Tensor:
        """What one pass adds to the loss of a step with so many answer tokens; its tokens are entered in the ledger."""
        scoring, rollouts = batch.scoring, batch.rollouts
        members = scoring.indices.tolist()
        # The teachers first: their passes then need no memory beside what the student's keeps for the backward one.
        heads, *taught = self._taught([rollouts[index] for index in members])
        hidden, targets = self._hidden(self._student, scoring), scoring.batch.targets()
        values, chosen, divergence = in_chunks(
            partial(self._compare, heads), (hidden, *taught, targets), self._settings.logit_tokens
        )
        sampled = chosen.new_tensor([value for index in members for value in rollouts[index].answer.log_probs])
        weight = chosen.new_tensor([value for index in members for value in batch.weights[index]])
        weight = weight * importance_gate(chosen, sampled, self._settings.gate.low, self._settings.gate.high)
        if entered:
            batch.ledger.enter(members, weight, divergence)
        return weighted_mean(values, weight, tokens)

    def _spare_batch(self, sample: Sample) -> _Batch:
        """What a rank runs that has no answer to learn from while others have."""
        rollouts = [self._sampler.unanswered(sample)]
        (scoring,) = scoring_batches(self._processor, rollouts, 1, self._student.device)
        return _Batch(rollouts, [[0.0]], scoring, Ledger([], [], []))

    def suspects(self) -> list[str]:
        """Samples that this rank answered in the last step."""
        return self._asked

    def _compare(
        self,
        heads: Mapping[int, torch.Tensor],
        hidden: torch.Tensor,
        taught: torch.Tensor,
        whose: torch.Tensor,
        targets: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`token_values`, from hidden states of the student `[answer tokens, hidden]` and from what `_taught` gives."""
        import torch

        settings = self._settings
        student = self._logits(self._student, hidden)
        with torch.no_grad():
            teacher = self._teacher_logits(heads, taught, whose)
        return token_values(settings.estimator, student, teacher, targets, settings.top_k, settings.advantage_bound)

    def _taught(self, rollouts: Sequence[Rollout]) -> tuple[dict[int, torch.Tensor], torch.Tensor, torch.Tensor]:
        """The output heads of the teachers that are asked, by their place among all; of each answer token the hidden
        state of its own teacher, `[answer tokens, hidden]`, and that teacher's place, `[answer tokens]`."""
        import torch

        heads: dict[int, torch.Tensor] = {}
        taught: dict[int, torch.Tensor] = {}
        names = list(self._teachers)
        with torch.no_grad():
            for domain, teacher in self._teachers.items():
                places = [place for place, rollout in enumerate(rollouts) if rollout.sample.domain == domain]
                if not self._ranks.anyone(bool(places)):
                    continue
                members = [self._as_the_teacher_sees_it(rollouts[place]) for place in places]
                with self._ranks.whole(teacher):
                    heads[names.index(domain)] = self._head(teacher)
                    for scoring in scoring_batches(self._processor, members, len(members), self._student.device):
                        hidden = self._hidden(teacher, scoring).split(scoring.lengths.tolist())
                        taught |= {
                            places[index]: part for index, part in zip(scoring.indices.tolist(), hidden, strict=True)
                        }
        whose = [names.index(rollout.sample.domain) for rollout in rollouts for _ in rollout.answer.ids]
        hidden_states = torch.cat([taught[place] for place in range(len(rollouts))])
        return heads, hidden_states, torch.tensor(whose, device=self._student.device)

    def _teacher_logits(
        self, heads: Mapping[int, torch.Tensor], taught: torch.Tensor, whose: torch.Tensor
    ) -> torch.Tensor:
        """From what `_taught` gives to `[answer tokens, vocabulary]`."""
        import torch

        words = self._student.lm_head.out_features
        logits = taught.new_empty(len(taught), words, dtype=torch.float32)
        for place in whose.unique().tolist():
            logits[whose == place] = self._logits_of(heads[place], taught[whose == place])
        return logits

    def _disagreement(
        self, rollouts: Sequence[Rollout], classes: Sequence[Sequence[TokenClass]]
    ) -> tuple[dict[str, float], Disagreement | None]:
        """The mean divergence of each two teachers on all answer tokens, every teacher asked as the sample's own is;
        and the token on which two of them differ most."""
        import torch

        names = list(self._teachers)
        pairs = list(combinations(names, 2))
        if not pairs:
            return {}, None
        seen = [self._as_the_teacher_sees_it(rollout) for rollout in rollouts]
        batches = list(scoring_batches(self._processor, seen, self._settings.rows, self._student.device))
        heads: list[torch.Tensor] = []
        views: list[list[torch.Tensor]] = []
        figures = dict.fromkeys(("tokens", *map(_pair_name, pairs)), 0.0)
        found: list[Disagreement] = []
        with torch.no_grad():
            for teacher in self._teachers.values():
                with self._ranks.whole(teacher):
                    heads.append(self._head(teacher))
                    views.append([self._hidden(teacher, scoring) for scoring in batches])
            between = partial(self._between, heads)
            size = max(1, self._settings.logit_tokens // len(names))
            for scoring, *hidden in zip(batches, *views, strict=True):
                divergence, likeliest = in_chunks(between, hidden, size)
                figures["tokens"] += len(divergence)
                for pair, total in zip(pairs, divergence.sum(0).tolist(), strict=True):
                    figures[_pair_name(pair)] += total
                token, place = divmod(int(divergence.argmax()), len(pairs))
                ends = scoring.lengths.cumsum(0)
                row = int((ends <= token).sum())
                index, position = int(scoring.indices[row]), token - int(ends[row] - scoring.lengths[row])
                said = dict(zip(names, likeliest[token].tolist(), strict=True))
                found.append(
                    Disagreement(
                        float(divergence[token, place]),
                        rollouts[index].sample.id,
                        rollouts[index].sample.domain,
                        position,
                        self._piece(rollouts[index].answer.ids[position]),
                        classes[index][position].name.lower(),
                        pairs[place],
                        (self._piece(said[pairs[place][0]]), self._piece(said[pairs[place][1]])),
                    )
                )
        total = self._ranks.total(figures)
        most = self._ranks.gather([astuple(max(found))] if found else [])
        means = {name: value / total["tokens"] for name, value in total.items() if name != "tokens"}
        return means, Disagreement(*max(most))

    def _between(self, heads: Sequence[torch.Tensor], *hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """From all teachers' heads and hidden states `[answer tokens, hidden]`: the divergence of each two of them
        `[answer tokens, pairs]`, and the token that each finds likeliest `[answer tokens, teachers]`."""
        import torch

        log_probs = [self._logits_of(head, states).log_softmax(-1) for head, states in zip(heads, hidden, strict=True)]
        divergence = [jensen_shannon(first, second) for first, second in combinations(log_probs, 2)]
        return torch.stack(divergence, 1), torch.stack([scores.argmax(-1) for scores in log_probs], 1)

    def _as_the_teacher_sees_it(self, rollout: Rollout) -> Rollout:
        """With the hint in its prompt, where there is one."""
        sample, hint = rollout.sample, self._settings.hint
        if hint is None:
            return rollout
        if sample.id not in self._hinted:
            told = hint.replace("{type}", ", ".join(action.name for action in sample.actions))
            self._hinted[sample.id] = sample_prompt(self._processor, sample, self._system_prompt, told)
        return replace(rollout, prompt=self._hinted[sample.id])

    def _hidden(self, model: PreTrainedModel, scoring: ScoringBatch) -> torch.Tensor:
        """From which the answer tokens are predicted: `[answer tokens, hidden]`."""
        with precision(self._settings.optimisation, model.device):
            return fan.forward(model, scoring.batch).answers

    def _logits(self, model: PreTrainedModel, hidden: torch.Tensor) -> torch.Tensor:
        """At the temperature of the sampling, `[answer tokens, vocabulary]`."""
        with precision(self._settings.optimisation, model.device):
            return model.lm_head(hidden).float() / self._settings.temperature

    def _head(self, teacher: PreTrainedModel) -> torch.Tensor:
        """A teacher's output head `[vocabulary, hidden]`, to outlive the moment in which the teacher is whole."""
        head: torch.Tensor = teacher.lm_head.weight.detach()
        return head if self._ranks.sharded is None else head.clone()

    def _logits_of(self, head: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """The same of a teacher, whose output head `[vocabulary, hidden]` alone may be at hand."""
        import torch.nn.functional as F

        with precision(self._settings.optimisation, hidden.device):
            return F.linear(hidden, head).float() / self._settings.temperature

    def _pieces(self, rollout: Rollout) -> list[str]:
        """The text of each token of an answer."""
        return [self._piece(token) for token in rollout.answer.ids]

    def _piece(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = str(self._processor.tokenizer.decode([token]))
        return self._texts[token]


@dataclass(frozen=True)
class _Batch:
    """Answers, the weights of their tokens, those of them that run in one pass, and where that is noted."""

    rollouts: Sequence[Rollout]
    weights: Sequence[Sequence[float]]
    scoring: ScoringBatch
    ledger: Ledger


def average_weights(model: PreTrainedModel, others: Iterable[PreTrainedModel]) -> None:
    """Give `model` the mean of the weights of models of its shape ("model soup", arXiv:2203.05482), one by one."""
    import torch

    with torch.no_grad():
        for number, other in enumerate(others):
            added = dict(other.named_parameters())
            for name, parameter in model.named_parameters():
                parameter.copy_(added[name] if number == 0 else parameter + added[name])
        for parameter in model.parameters():
            parameter.div_(number + 1)


def _report_heldout(
    stage: Stage[Parameters],
    domains: dict[str, DomainSamples],
    start: dict[str, list[Match]],
    end: dict[str, list[Match]],
    taught: dict[str, list[Match]],
) -> None:
    """The student against each teacher in the teacher's own domain, on the same held-out samples."""
    rows: list[list[object]] = []
    strata = []
    outcomes: list[dict[str, object]] = []
    for domain, samples in domains.items():
        if not samples.heldout:
            continue
        clusters = [sample.group for sample in samples.heldout]
        before, student, teacher = ([match.correct for match in matches[domain]] for matches in (start, end, taught))
        strata.append((teacher, student, clusters))
        outcomes += outcome_rows(samples.heldout, start=before, teacher=teacher, student=student)
        shown = [str(proportion(outcomes, clusters)) for outcomes in (before, teacher, student)]
        difference = paired_bootstrap(teacher, student, stage.seed, clusters)
        rows.append([domain, len(clusters), *shown, str(difference)])
        stage.summary(**{f"student_{domain}": _share(student), f"teacher_{domain}": _share(teacher)})
    if not rows:
        stage.log("no held-out sample of any domain: nothing measured")
        return
    write_parquet(stage.output / "outcomes.parquet", outcomes, outcome_schema("start", "teacher", "student"))
    mean = stratified_paired_bootstrap(strata, stage.seed)
    rows.append(["mean of the domains", sum(len(student) for _, student, _ in strata), "", "", "", str(mean)])
    stage.table("heldout", ["domain", "questions", "start", "teacher", "student", "student minus teacher"], rows)
    stage.summary(student_minus_teachers=mean.value, heldout_questions=mean.n)


def _share(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / len(outcomes)


def _pair_name(pair: tuple[str, str]) -> str:
    return f"disagreement/{pair[0]}-{pair[1]}"
