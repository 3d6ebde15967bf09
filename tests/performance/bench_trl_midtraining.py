"""Mid-training with six questions a screenshot against TRL's SFTTrainer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tests.performance.__main__ import Comparison
from tests.performance.screen_questions import (
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

RUNS = 3


def midtraining() -> Iterator[Comparison]:
    """Eight screens with six questions each, the loss on the answers, two threads."""
    from tests.performance import trl_trainers

    exam = make_exam()
    lesson = Lesson(exam)
    samples = trl_trainers.sft(exam, [question for asked in exam.questions for question in asked])
    lesson.step()
    first = samples.step()
    apart = difference(gradients(lesson.model), samples.gradients())
    asked = SCREENS * QUESTIONS
    size = f"{SCREENS} screens with {QUESTIONS} questions each, prefix {PREFIX}, suffix {SUFFIX}"
    yield Comparison(
        name="midtraining_step",
        work=f"a mid-training step, data and update, {size}",
        peer="TRL SFTTrainer, a question a sample",
        ours=lesson.step,
        theirs=lambda: samples.step()["step"],
        units=(asked, asked),
        runs=RUNS,
        unit="seconds_a_question",
        note=f"bar 3; largest difference of a gradient {apart:.1e} of the largest gradient; "
        f"of TRL's first step {first['data'] / first['step']:.0%} went into reading and processing its samples",
    )
    conversations = trl_trainers.sft_conversations(exam, exam.questions)
    yield Comparison(
        name="midtraining_step_conversations",
        work=f"a mid-training step, data and update, {size}",
        peer="TRL SFTTrainer, a conversation a screen with a turn for each question",
        ours=lesson.step,
        theirs=lambda: conversations.step()["step"],
        units=(asked, asked),
        runs=RUNS,
        unit="seconds_a_question",
        note="not the same objective: there a question sees the answers to those before it",
    )


class Lesson:
    """A step of `midtrained_checkpoint` without its objectives for models from scratch: the loss on the answers."""

    def __init__(self, exam: Exam) -> None:
        self.model = exam.copy_of_model()
        self._exam = exam
        self._optimizer = make_optimizer(self.model)

    def step(self) -> float:
        """Seconds of a step."""
        from assets.agent import fan

        start = time.perf_counter()
        prefixes, suffixes = [], []
        for owner, asked in enumerate(self._exam.questions):
            prefixes.append((asked[0].prompt.prefix, [self._exam.processor.patches(asked[0].sample.image)]))
            suffixes += [(owner, question.prompt.suffix, question.answer) for question in asked]
        batch = fan.collate(self._exam.processor, prefixes, suffixes)
        scores = fan.log_probabilities(self.model, fan.forward(self.model, batch).answers)
        self._optimizer.zero_grad(set_to_none=True)
        (-scores.gather(-1, batch.targets()[:, None]).mean()).backward()
        update(self.model, self._optimizer)
        return time.perf_counter() - start


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"trl_midtraining": midtraining}
