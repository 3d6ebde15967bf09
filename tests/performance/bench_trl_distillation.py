"""The update of distillation against TRL's DistillationTrainer, which takes images (its older GKDTrainer does not)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tests.performance.__main__ import Comparison
from tests.performance.screen_questions import (
    MAX_NEW_TOKENS,
    PREFIX,
    QUESTIONS,
    SCREENS,
    SUFFIX,
    Exam,
    difference,
    gradients,
    make_exam,
    make_optimizer,
    update,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from assets.checkpoints.rollouts import Rollout, ScoringBatch

RUNS = 3
ROWS = 512


def distillation() -> Iterator[Comparison]:
    """Eight screens with six questions each, an answer to each, one teacher, forward KL over the whole vocabulary."""
    from tests.performance import trl_trainers

    exam = make_exam()
    rollouts = sample_answers(exam)
    tokens = sum(len(rollout.answer.ids) for rollout in rollouts)
    student = Student(exam, trl_trainers.make_teacher(exam))
    questions = [question for asked in exam.questions for question in asked]
    peer = trl_trainers.distillation(exam, questions, [rollout.answer.ids for rollout in rollouts])
    student.update(rollouts)
    peer.step()
    apart = difference(gradients(student.model), peer.gradients())
    yield Comparison(
        name="distillation_update",
        work=f"update of a distillation step on the same answers, {SCREENS} screens with {QUESTIONS} questions each, "
        f"prefix {PREFIX}, suffix {SUFFIX}, the teacher's pass included",
        peer="TRL DistillationTrainer",
        ours=lambda: student.update(rollouts),
        theirs=lambda: peer.step()["update"],
        units=(tokens, tokens),
        runs=RUNS,
        unit="seconds_an_action_token",
        note=f"bar 3; {tokens} action tokens; largest difference of a gradient {apart:.1e} of the largest gradient",
    )


def sample_answers(exam: Exam) -> list[Rollout]:
    """One sampled answer to every question."""
    import torch

    from assets.agent import generation
    from assets.checkpoints.rollouts import Rollout

    questions = [question for asked in exam.questions for question in asked]
    drawn = generation.sample(
        exam.model,
        exam.processor,
        [(question.sample.image, question.prompt) for question in questions],
        temperature=1.0,
        max_new_tokens=MAX_NEW_TOKENS,
        generator=torch.Generator().manual_seed(3),
    )
    return [
        Rollout(
            question.sample,
            question.prompt,
            answers[0],
            question.match(generation.decode(exam.processor, answers[0])),
        )
        for question, answers in zip(questions, drawn, strict=True)
    ]


class Student:
    """The update of `distilled_model` for one teacher: the stage's own scoring batches, gate and divergence."""

    def __init__(self, exam: Exam, teacher: PreTrainedModel) -> None:
        self.model = exam.copy_of_model()
        self._teacher = teacher
        self._processor = exam.processor
        self._optimizer = make_optimizer(self.model)

    def update(self, rollouts: Sequence[Rollout]) -> float:
        """Seconds of both models' passes, loss, gradients, clipping and the optimizer's step."""
        import torch

        from assets.checkpoints.losses.distillation import forward_kl, importance_gate, weighted_mean
        from assets.checkpoints.rollouts import scoring_batches

        start = time.perf_counter()
        self._optimizer.zero_grad(set_to_none=True)
        tokens = sum(len(rollout.answer.ids) for rollout in rollouts)
        for scoring in scoring_batches(self._processor, rollouts, ROWS, self.model.device):
            student = self._logits(self.model, scoring)
            with torch.no_grad():
                teacher = self._logits(self._teacher, scoring)
            chosen = student.log_softmax(-1).gather(-1, scoring.batch.targets()[:, None])[:, 0]
            sampled = chosen.new_tensor(
                [value for index in scoring.indices.tolist() for value in rollouts[index].answer.log_probs]
            )
            weight = importance_gate(chosen, sampled, 0.5, 2.0)
            weighted_mean(forward_kl(student, teacher), weight, tokens).backward()
        update(self.model, self._optimizer)
        return time.perf_counter() - start

    def _logits(self, model: PreTrainedModel, scoring: ScoringBatch) -> torch.Tensor:
        from assets.agent import fan

        return model.lm_head(fan.forward(model, scoring.batch).answers).float()


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"trl_distillation": distillation}
