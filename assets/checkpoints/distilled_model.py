"""Multi-teacher on-policy distillation: five domain specialists become one model (METHOD.md, "MOPD").

One step: the student answers samples of every domain; the frozen teacher of each sample's domain scores the student's
tokens; the student moves towards what the teacher would have said there. What each token counts depends on what the
student got wrong. Two estimators by name, and two starting points, since at small scale the published sampled-token
form has too much variance and the average of the teachers' weights is a strong start (FACTS.md).

Left out: scoring by an inference server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from assets.checkpoints.deck import Deck
from assets.checkpoints.losses.distillation import (
    ErrorClass,
    StructuredWeights,
    TokenClass,
    error_class,
    forward_kl,
    importance_gate,
    reverse_kl,
    sampled_token,
    structured_weights,
    token_classes,
    weighted_mean,
)
from assets.checkpoints.measurement import (
    Asking,
    BestWeights,
    DomainSamples,
    Measurement,
    accuracy,
    score_together,
    screens_a_step,
    share_screens,
)
from assets.checkpoints.ranks import Ranks, together
from assets.checkpoints.rollouts import Rollout, Sampler, ScoringBatch, scoring_batches
from assets.checkpoints.training import Optimisation, draw_curves, precision, prepare, train
from assets.stage import Stage, StageParameters, write_parquet
from assets.statistics import paired_bootstrap, proportion, stratified_paired_bootstrap

if TYPE_CHECKING:
    import pyarrow as pa
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
        match_distance: see `matching.SCREEN_DISTANCE`.
    """

    optimisation: Optimisation
    start: Literal["average", "midtrained"]
    estimator: Literal["forward_kl", "reverse_kl", "sampled_token"]
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
    domains = {domain: DomainSamples(stage, domain, settings.measurement) for domain in DOMAINS if mix[domain]}
    student, processor = load_model(stage.input("models/midtrained"))
    teachers: dict[str, PreTrainedModel] = {}

    def opened() -> Iterator[PreTrainedModel]:
        """Each teacher while it is whole on this rank."""
        for domain in domains:
            teacher, _ = load_model(stage.input(f"models/rl/{domain}"))
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
    _report_ledger(stage, learner.screens)
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
        return {**self._ranks.total({"loss": total}), **ledger.figures(self._ranks)}

    def _loss(self, batch: _Batch, tokens: int, entered: bool) -> torch.Tensor:
        """What one pass adds to the loss of a step with so many answer tokens; its tokens are entered in the ledger."""
        scoring, rollouts = batch.scoring, batch.rollouts
        members = scoring.indices.tolist()
        student = self._logits(self._student, scoring)
        teacher = self._taught([rollouts[index] for index in members])
        chosen = student.log_softmax(-1).gather(-1, scoring.batch.targets()[:, None])[:, 0]
        sampled = chosen.new_tensor([value for index in members for value in rollouts[index].answer.log_probs])
        weight = chosen.new_tensor([value for index in members for value in batch.weights[index]])
        weight = weight * importance_gate(chosen, sampled, self._settings.gate.low, self._settings.gate.high)
        if entered:
            batch.ledger.enter(members, weight, forward_kl(student.detach(), teacher))
        return weighted_mean(self._values(student, teacher, scoring), weight, tokens)

    def _spare_batch(self, sample: Sample) -> _Batch:
        """What a rank runs that has no answer to learn from while others have."""
        rollouts = [self._sampler.unanswered(sample)]
        (scoring,) = scoring_batches(self._processor, rollouts, 1, self._student.device)
        return _Batch(rollouts, [[0.0]], scoring, Ledger([], [], []))

    def suspects(self) -> list[str]:
        """Samples that this rank answered in the last step."""
        return self._asked

    def _values(self, student: torch.Tensor, teacher: torch.Tensor, scoring: ScoringBatch) -> torch.Tensor:
        """What the estimator gives each answer token, from logits `[answer tokens, vocabulary]`: `[answer tokens]`."""
        settings = self._settings
        if settings.estimator == "forward_kl":
            return forward_kl(student, teacher, settings.top_k)
        if settings.estimator == "reverse_kl":
            return reverse_kl(student, teacher, settings.top_k)
        targets = scoring.batch.targets()[:, None]
        of_student, of_teacher = (logits.log_softmax(-1).gather(-1, targets)[:, 0] for logits in (student, teacher))
        return sampled_token(of_student, of_teacher, settings.advantage_bound)

    def _taught(self, rollouts: Sequence[Rollout]) -> torch.Tensor:
        """The logits of each answer's own teacher, `[answer tokens, vocabulary]`."""
        import torch

        taught: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for domain, teacher in self._teachers.items():
                places = [place for place, rollout in enumerate(rollouts) if rollout.sample.domain == domain]
                if not self._ranks.anyone(bool(places)):
                    continue
                members = [self._as_the_teacher_sees_it(rollouts[place]) for place in places]
                with self._ranks.whole(teacher):
                    for scoring in scoring_batches(self._processor, members, len(members), self._student.device):
                        logits = self._logits(teacher, scoring).split(scoring.lengths.tolist())
                        taught |= {
                            places[index]: part for index, part in zip(scoring.indices.tolist(), logits, strict=True)
                        }
        return torch.cat([taught[place] for place in range(len(rollouts))])

    def _as_the_teacher_sees_it(self, rollout: Rollout) -> Rollout:
        """With the hint in its prompt, where there is one."""
        sample, hint = rollout.sample, self._settings.hint
        if hint is None:
            return rollout
        if sample.id not in self._hinted:
            told = hint.replace("{type}", ", ".join(action.name for action in sample.actions))
            self._hinted[sample.id] = sample_prompt(self._processor, sample, self._system_prompt, told)
        return replace(rollout, prompt=self._hinted[sample.id])

    def _logits(self, model: PreTrainedModel, scoring: ScoringBatch) -> torch.Tensor:
        """Of the answer tokens, at the temperature of the sampling: `[answer tokens, vocabulary]`."""
        with precision(self._settings.optimisation, model.device):
            answers = fan.forward(model, scoring.batch).answers
            return model.lm_head(answers).float() / self._settings.temperature

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


class Ledger:
    """What a step of training spent its weight on: by what the tokens belong to, by error and by domain."""

    def __init__(
        self, rollouts: Sequence[Rollout], errors: Sequence[ErrorClass], classes: Sequence[Sequence[TokenClass]]
    ) -> None:
        self._rollouts = rollouts
        self._errors = errors
        self._classes = classes
        self._sums: dict[str, tuple[float, float]] = {}

    def enter(self, members: Sequence[int], weights: torch.Tensor, divergence: torch.Tensor) -> None:
        """The weight and the KL divergence of each token of some of the answers, `[answer tokens]` both."""
        places = [(self._rollouts[index].sample.domain, kind) for index in members for kind in self._classes[index]]
        for (domain, kind), weight, value in zip(places, weights.tolist(), divergence.tolist(), strict=True):
            self._add(f"weight/{kind.name.lower()}", weight)
            self._add(f"kl/{kind.name.lower()}", value)
            self._add(f"kl/{domain}", value)

    def figures(self, ranks: Ranks) -> dict[str, float]:
        """Mean weight and divergence of the tokens of a class, shares of the errors, accuracy in each domain; of what
        all ranks entered."""
        for rollout, error in zip(self._rollouts, self._errors, strict=True):
            self._add(f"sampled/{rollout.sample.domain}", rollout.match.correct)
            for kind in ErrorClass:
                self._add(f"error/{kind.name.lower()}", error == kind)
        totals, counts = (ranks.total({name: pair[part] for name, pair in self._sums.items()}) for part in (0, 1))
        return {name: total / counts[name] for name, total in totals.items()}

    def _add(self, name: str, value: float) -> None:
        total, count = self._sums.get(name, (0.0, 0.0))
        self._sums[name] = (total + value, count + 1)


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
        outcomes += [
            {"domain": domain, "sample": sample.id, "group": sample.group, "start": s, "teacher": t, "student": u}
            for sample, s, t, u in zip(samples.heldout, before, teacher, student, strict=True)
        ]
        shown = [str(proportion(outcomes, clusters)) for outcomes in (before, teacher, student)]
        difference = paired_bootstrap(teacher, student, stage.seed, clusters)
        rows.append([domain, len(clusters), *shown, str(difference)])
        stage.summary(**{f"student_{domain}": _share(student), f"teacher_{domain}": _share(teacher)})
    if not rows:
        stage.log("no held-out sample of any domain: nothing measured")
        return
    write_parquet(stage.output / "outcomes.parquet", outcomes, outcome_schema())
    mean = stratified_paired_bootstrap(strata, stage.seed)
    rows.append(["mean of the domains", sum(len(student) for _, student, _ in strata), "", "", "", str(mean)])
    stage.table("heldout", ["domain", "questions", "start", "teacher", "student", "student minus teacher"], rows)
    stage.summary(student_minus_teachers=mean.value, heldout_questions=mean.n)


def outcome_schema() -> pa.Schema:
    """A row of `outcomes.parquet`: a held-out sample, and who repeated its verified action: the starting point, the
    teacher of its domain, the student. For comparisons case by case."""
    import pyarrow as pa

    names = [pa.field(name, pa.string()) for name in ("domain", "sample", "group")]
    return pa.schema([*names, *(pa.field(name, pa.bool_()) for name in ("start", "teacher", "student"))])


def _report_ledger(stage: Stage[Parameters], screens: dict[str, int]) -> None:
    """How weights, divergences and errors moved: the first and the last point of each curve."""
    points: dict[str, list[float]] = {}
    for _, name, value in stage.series:
        if name.split("/")[0] in ("weight", "kl", "error", "sampled"):
            points.setdefault(name, []).append(value)
    rows: list[list[object]] = [[name, values[0], values[-1]] for name, values in sorted(points.items())]
    rows += [[f"screens a step/{domain}", count, count] for domain, count in screens.items()]
    stage.table("ledger", ["figure", "first", "last"], rows)


def _share(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / len(outcomes)
