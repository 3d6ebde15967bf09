"""Reinforcement learning against TRL's GRPOTrainer: the update, the whole step and its parts, and memory."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.performance.__main__ import Comparison
from tests.performance.screen_questions import (
    MAX_NEW_TOKENS,
    PREFIX,
    SUFFIX,
    Exam,
    Question,
    difference,
    gradients,
    make_exam,
    make_optimizer,
    update,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from assets.checkpoints.rollouts import Rollout

SAMPLES = 8
ROWS = 512
RUNS = 3
PEER = "TRL GRPOTrainer"


def rl() -> Iterator[Comparison]:
    """Eight prompts with a screenshot each, G = 8, Dr. GRPO, two threads."""
    from tests.performance import trl_trainers

    exam = make_exam()
    questions = [asked[0] for asked in exam.questions]
    learner = Learner(exam, questions)
    groups = learner.sample()
    rollouts = [rollout for group in learner.rollouts(groups) for rollout in group]
    completions = [rollout.answer.ids for rollout in rollouts]
    # Rewards by place, so that no group is without variance and both update on all answers.
    given = learner.advantages([[float(place % 2) for place in range(SAMPLES)]] * len(questions))
    places = iter(range(10**9))
    peer = trl_trainers.grpo(exam, questions, SAMPLES, lambda *_: float(next(places) % SAMPLES % 2), completions)
    size = f"{len(questions)} prompts, G = {SAMPLES}, prefix {PREFIX}, suffix {SUFFIX}"

    def ours() -> float:
        return _timed(lambda: learner.update(rollouts, given))

    ours()
    theirs = peer.step()["update"]
    apart = difference(gradients(learner.model), peer.gradients())
    yield Comparison(
        name="rl_update",
        work=f"update of an RL step on the same answers, {size}",
        peer=PEER,
        ours=ours,
        theirs=lambda: peer.step()["update"],
        runs=RUNS,
        unit="seconds_a_step",
        note=f"bar 4; largest difference of a gradient {apart:.1e} of the largest gradient; TRL's first {theirs:.2f} s",
    )
    fewer = trl_trainers.grpo(
        exam, questions, SAMPLES, lambda *_: float(next(places) % SAMPLES % 2), completions, SAMPLES
    )
    yield Comparison(
        name="rl_update_accumulated",
        work=f"update of an RL step on the same answers, {size}",
        peer=f"{PEER}, {SAMPLES} answers in a pass",
        ours=ours,
        theirs=lambda: fewer.step()["update"],
        runs=RUNS,
        unit="seconds_a_step",
        note="smaller passes need less memory and may fit a processor's cache",
    )

    whole = trl_trainers.grpo(exam, questions, SAMPLES, _reward)
    steps: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    for _ in range(RUNS + 1):
        steps["ours"].append(learner.step())
        steps["theirs"].append(whole.step())
    rate = len(questions) * SAMPLES / statistics.median(step["step"] for step in steps["ours"][1:])
    kept = statistics.fmean(step["kept"] for step in steps["ours"][1:])
    notes = {
        "step": f"bar 3; {rate:.0f} completions a second",
        "sample": "",
        "score": "",
        "update": f"ours on the {kept:.0%} of the answers whose groups differ in reward, TRL's on all",
    }
    for part, note in notes.items():
        yield Comparison(
            name=f"rl_step_{part}" if part != "step" else "rl_step",
            work=f"a whole RL step, {size}" if part == "step" else f"the part '{part}' of a whole RL step",
            peer=PEER,
            ours=iter([step[part] for step in steps["ours"]]).__next__,
            theirs=iter([step[part] for step in steps["theirs"]]).__next__,
            runs=RUNS,
            unit="seconds_a_step",
            note=note,
        )


class Learner:
    """A step of `rl_checkpoint` with its parts apart: the stage's own sampling, rewards, loss and scoring batches."""

    def __init__(self, exam: Exam, questions: Sequence[Question]) -> None:
        import torch

        self.model = exam.copy_of_model()
        self._processor = exam.processor
        self._questions = questions
        self._optimizer = make_optimizer(self.model)
        self._generator = torch.Generator().manual_seed(3)

    def step(self) -> dict[str, float]:
        """Seconds of a whole step and its parts, and the share of the answers that were learned from."""
        begin = time.perf_counter()
        groups = self.sample()
        sampled = time.perf_counter()
        rollouts, advantages = self.score(groups)
        scored = time.perf_counter()
        self.update(rollouts, advantages)
        end = time.perf_counter()
        return {
            "sample": sampled - begin,
            "score": scored - sampled,
            "update": end - scored,
            "step": end - begin,
            "kept": len(rollouts) / (len(self._questions) * SAMPLES),
        }

    def sample(self) -> Any:
        """SAMPLES answers to each question."""
        from assets.agent import generation

        return generation.sample(
            self.model,
            self._processor,
            [(question.sample.image, question.prompt) for question in self._questions],
            samples=SAMPLES,
            temperature=1.0,
            max_new_tokens=MAX_NEW_TOKENS,
            generator=self._generator,
        )

    def rollouts(self, groups: Any) -> list[list[Rollout]]:
        """Answers with how much of the verified action each repeats."""
        from assets.agent import generation
        from assets.checkpoints.rollouts import Rollout

        return [
            [
                Rollout(
                    question.sample,
                    question.prompt,
                    answer,
                    question.match(generation.decode(self._processor, answer)),
                )
                for answer in group
            ]
            for question, group in zip(self._questions, groups, strict=True)
        ]

    def score(self, groups: Any) -> tuple[list[Rollout], torch.Tensor]:
        """What is learned from: the answers of groups whose rewards differ, and their advantages."""
        import torch

        from assets.checkpoints.losses.policy_gradient import informative
        from assets.checkpoints.rewards import step_reward

        rolled = self.rollouts(groups)
        rewards = [[step_reward(rollout.match, _weights()) for rollout in group] for group in rolled]
        kept = informative(torch.tensor(rewards)).tolist()
        chosen = [group for group, keep in zip(rolled, kept, strict=True) if keep]
        advantages = self.advantages([group for group, keep in zip(rewards, kept, strict=True) if keep])
        return [rollout for group in chosen for rollout in group], advantages

    def advantages(self, rewards: list[list[float]]) -> torch.Tensor:
        """Group-relative, one an answer."""
        import torch

        from assets.checkpoints.losses import ALGORITHMS

        return ALGORITHMS["dr_grpo"].advantages(torch.tensor(rewards)).flatten()

    def update(self, rollouts: Sequence[Rollout], advantages: torch.Tensor) -> None:
        """Loss, gradients, clipping and the optimizer's step."""
        from assets.agent import fan
        from assets.checkpoints.losses import ALGORITHMS
        from assets.checkpoints.losses.policy_gradient import Clip, Extent
        from assets.checkpoints.rollouts import scoring_batches

        self._optimizer.zero_grad(set_to_none=True)
        extent = Extent(len(rollouts), sum(len(rollout.answer.ids) for rollout in rollouts), MAX_NEW_TOKENS)
        for scoring in scoring_batches(self._processor, rollouts, ROWS, self.model.device):
            scores = fan.log_probabilities(self.model, fan.forward(self.model, scoring.batch).answers)
            log_probs = scoring.rows(scores.gather(-1, scoring.batch.targets()[:, None])[:, 0])
            loss = ALGORITHMS["dr_grpo"].loss(
                log_probs, scoring.mask(), advantages[scoring.indices], extent, None, Clip(0.2, 0.2)
            )
            loss.backward()
        update(self.model, self._optimizer)


def rl_memory() -> Iterator[Comparison]:
    """Peak memory of the update against the prefix repeated for each answer, TRL's beside it."""
    from tests.performance import trl_trainers

    exam = make_exam()
    questions = [asked[0] for asked in exam.questions]
    learner = Learner(exam, questions)
    rollouts = [rollout for group in learner.rollouts(learner.sample()) for rollout in group]
    advantages = learner.advantages([[float(place % 2) for place in range(SAMPLES)]] * len(questions))
    plain = exam.copy_of_model()
    optimizer = make_optimizer(plain)

    def repeated() -> None:
        optimizer.zero_grad(set_to_none=True)
        plain_loss(exam, plain, rollouts, advantages).backward()
        update(plain, optimizer)

    learner.update(rollouts, advantages)
    repeated()
    apart = difference(gradients(learner.model), gradients(plain))
    places = iter(range(10**9))
    peer = trl_trainers.grpo(
        exam,
        questions,
        SAMPLES,
        lambda *_: float(next(places) % SAMPLES % 2),
        [rollout.answer.ids for rollout in rollouts],
    )
    peer.step()
    of_trl = peak_megabytes(peer.step)
    yield Comparison(
        name="rl_update_memory",
        work=f"peak memory of an RL update beside what was held before, {len(questions)} prompts, G = {SAMPLES}",
        peer="the plain computation, prefix repeated",
        ours=lambda: peak_megabytes(lambda: learner.update(rollouts, advantages)),
        theirs=lambda: peak_megabytes(repeated),
        runs=RUNS,
        unit="megabytes",
        note=f"bar 2; TRL's step {of_trl:.0f} MB; largest difference of a gradient {apart:.1e} of the largest gradient",
    )


def plain_loss(
    exam: Exam, model: PreTrainedModel, rollouts: Sequence[Rollout], advantages: torch.Tensor
) -> torch.Tensor:
    """The same loss by the stock forward pass: every answer with its own prefix and screenshot, padded on the right."""
    import io

    import torch
    from PIL import Image

    rows = [[*r.prompt.prefix, *r.prompt.suffix, *r.answer.ids] for r in rollouts]
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), exam.processor.tokenizer.pad_token_id)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    answered = torch.zeros(len(rows), longest - 1)
    for place, (row, rollout) in enumerate(zip(rows, rollouts, strict=True)):
        ids[place, : len(row)] = torch.tensor(row)
        mask[place, : len(row)] = 1
        answered[place, len(row) - len(rollout.answer.ids) - 1 : len(row) - 1] = 1
    shown = [Image.open(io.BytesIO(rollout.sample.image)).convert("RGB") for rollout in rollouts]
    keep = MAX_NEW_TOKENS + 1
    logits = model(
        input_ids=ids,
        attention_mask=mask,
        mm_token_type_ids=(ids == model.config.image_token_id).int(),
        use_cache=False,
        logits_to_keep=keep,
        **exam.processor.images(shown, return_tensors="pt"),
    ).logits[:, :-1]
    chosen = logits.float().log_softmax(-1).gather(-1, ids[:, -keep + 1 :, None])[..., 0]
    weighted = -advantages[:, None] * chosen * answered[:, -keep + 1 :]
    return weighted.sum() / (len(rollouts) * MAX_NEW_TOKENS)


def peak_megabytes(work: Callable[[], object]) -> float:
    """By how much the resident memory of this process rose at most while the work ran (Linux)."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def _reward(question: Question, response: str) -> float:
    from assets.checkpoints.rewards import step_reward

    return step_reward(question.match(response), _weights())


def _weights() -> Any:
    from assets.checkpoints.rewards import RewardWeights

    return RewardWeights(format=0.1, action=1.0, content_f1=0.5)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"trl_rl": rl, "trl_rl_memory": rl_memory}
