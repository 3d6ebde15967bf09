"""Step-level reinforcement learning in one domain: the specialist that later teaches (METHOD.md, "Offline RL").

One step: draw verified steps of the domain, sample G answers to each, reward every answer by rule, and move the model
towards the answers that did better than their group. The screenshot is encoded once for all that is asked about it
and for all G answers, in sampling and in the update alike. Held-out samples are only ever measured; which checkpoint
is kept is decided, by sampled answers, on groups (screens or episodes) of the training split that are put aside and
never trained on.

Left out: trajectory success in the live environment as the criterion, and rollouts through an inference server.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from assets.agent import fan
from assets.agent.matching import Match
from assets.agent.model import load_model, save_model
from assets.agent.parameters import AgentParameters
from assets.agent.processor import Processor
from assets.agent.samples import DOMAINS, Sample, Screen
from assets.checkpoints.chunked_logits import token_log_probs
from assets.checkpoints.deck import Deck
from assets.checkpoints.losses import ALGORITHMS
from assets.checkpoints.losses.policy_gradient import Clip, Extent, informative, kl_penalty
from assets.checkpoints.measurement import (
    Asking,
    BestWeights,
    DomainSamples,
    Measurement,
    accuracy,
    in_shares,
    outcome_rows,
    outcome_schema,
    score_together,
    screens_a_step,
    share_screens,
)
from assets.checkpoints.ranks import Ranks, together
from assets.checkpoints.rewards import RewardWeights, step_reward
from assets.checkpoints.rollouts import Rollout, Sampler, ScoringBatch, sampled_log_probs, scoring_batches
from assets.checkpoints.training import Optimisation, draw_curves, precision, prepare, train, weights_dtype
from assets.stage import Stage, StageParameters, write_parquet
from assets.statistics import bootstrap_mean, paired_bootstrap, proportion

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


JOINT = "joint"
"""The partition that trains one model in all domains, which share its questions alike. `hesper ablate` compares it with
distillation; it is none of dvc.yaml's."""


class ClipBounds(StageParameters):
    """How far the probability ratio may go below and above 1, where answers are used more than once."""

    low: float = Field(gt=0)
    high: float = Field(gt=0)


class Parameters(StageParameters):
    """Reinforcement learning in one domain.

    Attributes:
        algorithm: see `losses.ALGORITHMS`.
        clip: bounds of the ratio; without effect where `uses` is 1, since the ratio then is 1.
        kl: weight of the KL divergence to the mid-trained model on the sampled tokens; 0 leaves it out.
        questions: verified steps asked in a step of training, on average: it takes all that is asked about a screen.
        samples: answers to each, G.
        uses: steps of training that use the same answers; checkpoints are taken between uses only.
        rows: most answers in one pass through the model.
        logit_tokens: most answer tokens whose logits are held at once.
        match_distance: see `matching.SCREEN_DISTANCE`.
    """

    optimisation: Optimisation
    algorithm: Literal["grpo", "dapo", "dr_grpo", "gspo"]
    clip: ClipBounds
    kl: float = Field(ge=0)
    questions: int = Field(ge=1)
    samples: int = Field(ge=2)
    uses: int = Field(ge=1)
    temperature: float = Field(gt=0)
    max_new_tokens: int = Field(ge=1)
    rows: int = Field(ge=1)
    logit_tokens: int = Field(ge=1)
    reward: RewardWeights
    match_distance: float = Field(gt=0)
    measurement: Measurement

    @model_validator(mode="after")
    def _checkpoints_between_uses(self) -> Parameters:
        if self.optimisation.checkpoint_every % self.uses:
            raise ValueError("optimisation.checkpoint_every must be a multiple of uses")
        return self


def run(stage: Stage[Parameters]) -> None:
    """models/midtrained and the domain's verified samples -> models/rl/<domain>."""
    settings = stage.parameters.optimisation
    with together(stage, settings.ranks, settings.zero) as ranks:
        _train(stage, ranks)


def _train(stage: Stage[Parameters], ranks: Ranks) -> None:
    settings = stage.parameters
    agent = stage.section("agent", AgentParameters)
    prepare(settings.optimisation, stage.seed)
    domains = DOMAINS if stage.partition == JOINT else (str(stage.partition),)
    samples = DomainSamples(stage, domains, settings.measurement)
    model, processor = load_model(stage.input("models/midtrained"), dtype=weights_dtype(settings.optimisation))

    asking = Asking(settings.max_new_tokens, agent.system_prompt, settings.match_distance)

    def measure(asked: Sequence[Sample]) -> list[Match]:
        return score_together(ranks, model, processor, asked, asking)

    best = BestWeights(stage.work / "best.safetensors", model, ranks)
    learner = Learner(stage, agent, model, processor, samples.screens, ranks)

    def evaluate(step: int) -> dict[str, float]:
        curve = {"heldout/accuracy": accuracy(measure(samples.curve))} if samples.curve else {}
        return {**curve, **validate(step)}

    def validate(step: int) -> dict[str, float]:
        if not samples.validation:
            return {}
        # Sampled: each question counts as often as it is answered right, which a few dozen tell better than greedily.
        score = mean(learner.chances(samples.validation, f"validation {step}"))
        best.offer(step, score)
        return {"validation/accuracy": score}

    before, chances_before = measure(samples.heldout), learner.chances(samples.curve, "heldout")
    at_first = {"heldout/accuracy": samples.curve_accuracy(before)} if samples.curve else {}
    for name, value in {**at_first, **validate(0)}.items():
        stage.metric(name, value, 0)
    train(stage, settings.optimisation, {"model": model}, learner.step, evaluate, ranks, learner.suspects)

    stage.summary(kept_step=best.restore() if samples.validation else settings.optimisation.steps)
    after, chances_after = measure(samples.heldout), learner.chances(samples.curve, "heldout")
    with ranks.whole(model):
        if ranks.leads:
            save_model(model, processor, stage.output)
    if not ranks.leads:
        return
    _report(stage, samples.heldout, before, after)
    _report_sampled(stage, samples.curve, chances_before, chances_after)
    draw_curves(stage)


class Learner:
    """What one step of training computes: answers, rewards, advantages, gradients."""

    def __init__(
        self,
        stage: Stage[Parameters],
        agent: AgentParameters,
        model: PreTrainedModel,
        processor: Processor,
        screens: Sequence[Screen],
        ranks: Ranks,
    ) -> None:
        settings = stage.parameters
        self._ranks = ranks
        self._stage = stage
        self._settings = settings
        self._model = model
        self._reference = ranks.frozen(copy.deepcopy(model), settings.optimisation) if settings.kl else None
        self._processor = processor
        self._decks: list[tuple[Deck[Screen], int]] = []
        domains = dict.fromkeys(screen.domain for screen in screens)
        for domain in domains:
            members = [screen for screen in screens if screen.domain == domain]
            count = screens_a_step(members, settings.questions / len(domains))
            self._decks.append((Deck(stage, "screens", members), count))
        self._sampler = Sampler(
            processor,
            agent.system_prompt,
            settings.temperature,
            settings.max_new_tokens,
            settings.match_distance,
            settings.rows,
        )
        self._rollouts: list[Rollout] = []
        self._advantages: torch.Tensor
        self._extent: Extent
        self._sampled: dict[str, float] = {}

    def step(self, number: int) -> dict[str, float]:
        """Forward and backward of step `number`; what to plot."""
        if number % self._settings.uses == 0:
            self._sample(number)
        return {**self._sampled, **self._update()}

    def suspects(self) -> list[str]:
        """Samples whose answers this rank learned from in the last step."""
        return [rollout.sample.id for rollout in self._rollouts]

    def chances(self, samples: Sequence[Sample], name: str) -> list[float]:
        """Of each question, the share of right answers among G drawn as in training; `name` seeds the draw."""
        seed = self._stage.rng("chances", name, self._ranks.rank).getrandbits(62)

        def ask(mine: list[Sample]) -> list[float]:
            with self._ranks.whole(self._model):
                groups = self._sampler.draw(self._model, mine, self._settings.samples, seed)
            return [sum(rollout.match.correct for rollout in group) / len(group) for group in groups]

        return in_shares(self._ranks, samples, [[place] for place in range(len(samples))], ask)

    def _sample(self, number: int) -> None:
        """Ask, answer and reward; keep the groups whose rewards differ."""
        import torch

        settings, ranks = self._settings, self._ranks
        turn = number // settings.uses
        dealt = [screen for deck, count in self._decks for screen in deck.deal(turn * count, count)]
        samples = share_screens(ranks, dealt)
        seed = self._stage.rng("answers", number, ranks.rank).getrandbits(62)
        with ranks.whole(self._model):
            groups = self._sampler.draw(self._model, samples, settings.samples, seed)
        rewards = torch.tensor(
            [step_reward(rollout.match, settings.reward) for group in groups for rollout in group],
            device=self._model.device,
        ).view(len(groups), settings.samples)
        kept = informative(rewards)
        self._rollouts = [
            rollout for group, keep in zip(groups, kept.tolist(), strict=True) if keep for rollout in group
        ]
        self._advantages = ALGORITHMS[settings.algorithm].advantages(rewards)[kept].flatten()
        everything = [rollout for group in groups for rollout in group]
        tokens = [value for rollout in everything for value in rollout.answer.log_probs]
        total = ranks.total(
            {
                "answers": len(everything),
                "tokens": len(tokens),
                "groups": len(groups),
                "reward": float(rewards.sum()),
                "correct": sum(rollout.match.correct for rollout in everything),
                "format": sum(rollout.match.format for rollout in everything),
                "surprise": -sum(tokens),
                "dropped": float((~kept).sum()),
                "kept_answers": len(self._rollouts),
                "kept_tokens": sum(len(rollout.answer.ids) for rollout in self._rollouts),
            }
        )
        self._extent = Extent(int(total["kept_answers"]), int(total["kept_tokens"]), settings.max_new_tokens)
        self._sampled = {
            "sampled/reward": total["reward"] / total["answers"],
            "sampled/accuracy": total["correct"] / total["answers"],
            "sampled/format": total["format"] / total["answers"],
            "entropy": total["surprise"] / total["tokens"],
            "answer_tokens": total["tokens"] / total["answers"],
            "dropped_groups": total["dropped"] / total["groups"],
        }

    def _update(self) -> dict[str, float]:
        total = {"loss": 0.0} if self._reference is None else {"loss": 0.0, "kl": 0.0}
        for batch, counts in self._ranks.passes(self._batches(), self._spare_batch):
            figures: dict[str, float] = {}
            self._ranks.backward(counts * self._ranks.forward(partial(self._loss, *batch, figures)))
            for name, value in figures.items():
                total[name] += counts * value
        return self._ranks.total(total)

    def _batches(self) -> Iterator[tuple[Sequence[Rollout], torch.Tensor, ScoringBatch]]:
        """Answers, their advantages, and those of them that run in one pass."""
        for scoring in scoring_batches(self._processor, self._rollouts, self._settings.rows, self._model.device):
            yield self._rollouts, self._advantages, scoring

    def _spare_batch(self) -> tuple[Sequence[Rollout], torch.Tensor, ScoringBatch]:
        """What a rank runs that has no answer to learn from while others have."""
        import torch

        (screen,) = self._decks[0][0].deal(0, 1)
        rollouts = [self._sampler.unanswered(screen.samples[0])]
        (scoring,) = scoring_batches(self._processor, rollouts, 1, self._model.device)
        return rollouts, torch.zeros(1, device=self._model.device), scoring

    def _loss(
        self, rollouts: Sequence[Rollout], advantages: torch.Tensor, scoring: ScoringBatch, figures: dict[str, float]
    ) -> torch.Tensor:
        """What one pass adds to the loss of the step; its parts are noted in `figures`."""
        settings, extent = self._settings, self._extent
        reference = None
        if self._reference is not None:
            # First: this pass then needs no memory beside what the model's keeps for the backward pass.
            with self._ranks.whole(self._reference):
                reference = self._log_probs(self._reference, scoring)
        log_probs, mask = self._log_probs(self._model, scoring), scoring.mask()
        old = sampled_log_probs(rollouts, scoring) if settings.uses > 1 else None
        clip = Clip(settings.clip.low, settings.clip.high)
        loss = ALGORITHMS[settings.algorithm].loss
        value = loss(log_probs, mask, advantages[scoring.indices], extent, old, clip)
        if reference is not None:
            divergence = kl_penalty(log_probs, reference, mask, extent)
            value = value + settings.kl * divergence
            figures["kl"] = float(divergence.detach())
        figures["loss"] = float(value.detach())
        return value

    def _log_probs(self, model: PreTrainedModel, scoring: ScoringBatch) -> torch.Tensor:
        """Of the sampled tokens, at the temperature of the sampling, `[rows, longest]`."""
        settings, batch = self._settings, scoring.batch
        with precision(settings.optimisation, model.device):
            hidden = fan.forward(model, batch).answers
            chosen = token_log_probs(model, hidden, batch.targets(), settings.logit_tokens, settings.temperature)
        return scoring.rows(chosen)


def _report(
    stage: Stage[Parameters], samples: Sequence[Sample], before: Sequence[Match], after: Sequence[Match]
) -> None:
    """Held-out step accuracy of the mid-trained model and of this one: overall and by kind."""
    if not samples:
        stage.log("no held-out sample of this domain: nothing measured")
        return
    kinds = sorted({sample.kind for sample in samples})
    rows: list[list[object]] = []
    for kind in [None, *kinds]:
        chosen = [index for index, sample in enumerate(samples) if kind in (None, sample.kind)]
        clusters = [samples[index].group for index in chosen]
        old, new = ([matches[index].correct for index in chosen] for matches in (before, after))
        gain = paired_bootstrap(old, new, stage.seed, clusters)
        rows.append(
            [kind or "all", len(chosen), str(proportion(old, clusters)), str(proportion(new, clusters)), str(gain)]
        )
    stage.table("heldout", ["kind", "questions", "mid-trained", "after RL", "gain"], rows)
    stage.summary(
        heldout_questions=len(samples), heldout_accuracy_before=accuracy(before), heldout_accuracy=accuracy(after)
    )
    old, new = ([match.correct for match in matches] for matches in (before, after))
    outcomes = outcome_rows(samples, midtrained=old, trained=new)
    write_parquet(stage.output / "outcomes.parquet", outcomes, outcome_schema("midtrained", "trained"))


def _report_sampled(
    stage: Stage[Parameters], samples: Sequence[Sample], before: Sequence[float], after: Sequence[float]
) -> None:
    """Held-out step accuracy of answers that are drawn, as the agent draws them where it thinks (METHOD.md: navigation
    runs at temperature 1) and as training rewards them."""
    if not samples:
        return
    settings, groups = stage.parameters, [sample.group for sample in samples]
    old, new = (bootstrap_mean(shares, stage.seed, groups) for shares in (before, after))
    gain = paired_bootstrap(before, after, stage.seed, groups)
    row: list[object] = [settings.temperature, settings.samples, len(samples), str(old), str(new), str(gain)]
    headings = ["temperature", "answers to each", "questions", "mid-trained", "after RL", "gain"]
    stage.table("heldout_sampled", headings, [row])
    stage.summary(heldout_sampled_before=old.value, heldout_sampled=new.value)
