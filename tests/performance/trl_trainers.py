"""TRL's trainers on the questions of `screen_questions`: same prompts, weights, batch, dtype, threads and clipping.

Beside what the comparison needs to be equal, everything is left at TRL's defaults but for gradient checkpointing and
bfloat16, which are off here as there. Each trainer runs one step a call, timed from the first look at the data to the
end of the optimizer's step, and the parts of a step are timed where it has parts. The learning rate is 0.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from assets.agent.tokenizer import CHAT_TEMPLATE as PLAIN_TEMPLATE
from tests.performance.screen_questions import MAX_NEW_TOKENS, Exam, Question

if TYPE_CHECKING:
    import torch
    from transformers import ProcessorMixin, Trainer
    from trl import GRPOTrainer

CHAT_TEMPLATE = PLAIN_TEMPLATE.replace(
    "{{ '<|answer|>' + message.content + '<|im_end|>' }}",
    "{{- '<|answer|>' -}}"
    "{%- generation -%}"
    "{%- if message.content is string -%}{{ message.content }}"
    "{%- else -%}{%- for part in message.content -%}{{ part.text }}{%- endfor -%}{%- endif -%}"
    "{{- '<|im_end|>' -}}"
    "{%- endgeneration -%}",
)
"""The project's template, for answers in TRL's form: a list of parts, and marked as what is learned."""


class Clock:
    """When each part of a step began: seconds of `time.perf_counter`, by name."""

    def __init__(self) -> None:
        self.marks: dict[str, float] = {}
        self.gradients: dict[str, torch.Tensor] = {}

    def mark(self, name: str) -> None:
        """Note that this part begins now, and that the one before has ended. Of several beginnings the first counts."""
        self.marks.setdefault(name, time.perf_counter())

    def seconds(self) -> dict[str, float]:
        """The parts of the last step in their order, and `step` for all of them."""
        names, times = list(self.marks), list(self.marks.values())
        parts = {name: end - begin for name, begin, end in zip(names, times, times[1:], strict=False)}
        return {**parts, "step": times[-1] - times[0]}


class Stepper:
    """Runs a trainer one step at a time."""

    def __init__(self, trainer: Trainer, clock: Clock) -> None:
        from transformers import PrinterCallback

        trainer.remove_callback(PrinterCallback)
        self._trainer = trainer
        self._clock = clock

    def step(self) -> dict[str, float]:
        """Seconds of one step and of its parts."""
        self._clock.marks.clear()
        self._trainer.train()
        return self._clock.seconds()

    def gradients(self) -> dict[str, torch.Tensor]:
        """The last step's, after clipping."""
        return self._clock.gradients


def grpo(
    exam: Exam,
    questions: Sequence[Question],
    samples: int,
    reward: Callable[[Question, str], float],
    completions: Sequence[Sequence[int]] | None = None,
    at_once: int | None = None,
) -> Stepper:
    """`GRPOTrainer` with Dr. GRPO's loss: one batch of `samples` answers to each question, used once.

    Parts of a step: `data`, `sample`, `score`, `update`. With `completions`, those take the place of what would be
    sampled. With `at_once`, so many answers are in one pass of the update and gradients add up.
    """
    from trl import GRPOConfig, GRPOTrainer

    clock = Clock()
    asked = {question.sample.id: question for question in questions}

    def rewards(completions: list[list[dict[str, str]]], id: list[str], **_: object) -> list[float]:
        return [reward(asked[name], completion[0]["content"]) for name, completion in zip(id, completions, strict=True)]

    def given(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, object]:
        prompt_ids = [[*q.prompt.prefix, *q.prompt.suffix] for q in questions for _ in range(samples)]
        return {"prompt_ids": prompt_ids, "completion_ids": [list(c) for c in completions or ()], "logprobs": None}

    class Timed(GRPOTrainer):
        def _generate(self, *args: Any, **options: Any) -> Any:
            clock.mark("sample")
            return super()._generate(*args, **options)

        def _calculate_rewards(self, *args: Any, **options: Any) -> Any:
            clock.mark("score")
            return super()._calculate_rewards(*args, **options)

        def compute_loss(self, *args: Any, **options: Any) -> Any:
            clock.mark("update")
            return super().compute_loss(*args, **options)

    answers = len(questions) * samples
    settings = GRPOConfig(
        **_common(at_once or answers),
        gradient_accumulation_steps=answers // (at_once or answers),
        num_generations=samples,
        max_completion_length=MAX_NEW_TOKENS,
        beta=0.0,
        loss_type="dr_grpo",
        scale_rewards="none",
        shuffle_dataset=False,
    )
    trainer = Timed(
        model=exam.copy_of_model(),
        reward_funcs=rewards,
        args=settings,
        train_dataset=_dataset([{"prompt": q.chat(), "id": q.sample.id, **_shown(q)} for q in questions]),
        processing_class=still_processor(exam),
        rollout_func=given if completions is not None else None,
        callbacks=[_ticker(clock)],
    )
    return Stepper(trainer, clock)


def sft(exam: Exam, questions: Sequence[Question]) -> Stepper:
    """`SFTTrainer` with one question a sample, the loss on the answers. Parts of a step: `data`, `update`."""
    rows = [
        {"prompt": q.chat(), "completion": [{"role": "assistant", "content": q.sample.response}], **_shown(q)}
        for q in questions
    ]
    return _sft(exam, rows, assistant_only_loss=False)


def sft_conversations(exam: Exam, screens: Sequence[Sequence[Question]]) -> Stepper:
    """`SFTTrainer` with one conversation a screen: each question is a turn that sees the turns before it."""
    rows = []
    for questions in screens:
        chat = questions[0].chat()[:1]
        for question in questions:
            chat += [question.chat()[1], {"role": "assistant", "content": question.sample.response}]
        rows.append({"messages": chat, **_shown(questions[0])})
    return _sft(exam, rows, assistant_only_loss=True)


def distillation(exam: Exam, questions: Sequence[Question], completions: Sequence[Sequence[int]]) -> Stepper:
    """`DistillationTrainer` with the forward KL divergence and one teacher; `completions` are the student's answers.

    Parts of a step: `data`, `sample` (nothing but the prompts' tokens), `update`.
    """
    from trl import DistillationConfig, DistillationTrainer

    clock = Clock()

    class Timed(DistillationTrainer):
        def _generate_single_turn(self, *args: Any, **options: Any) -> Any:
            clock.mark("sample")
            return [list(completion) for completion in completions]

        def compute_loss(self, *args: Any, **options: Any) -> Any:
            clock.mark("update")
            return super().compute_loss(*args, **options)

    settings = DistillationConfig(
        **_common(len(questions)), max_completion_length=MAX_NEW_TOKENS, beta=0.0, shuffle_dataset=False
    )
    trainer = Timed(
        model=exam.copy_of_model(),
        teacher_model=make_teacher(exam),
        args=settings,
        train_dataset=_dataset([{"prompt": q.chat(), **_shown(q)} for q in questions]),
        processing_class=still_processor(exam),
        callbacks=[_ticker(clock)],
    )
    return Stepper(trainer, clock)


def make_teacher(exam: Exam) -> Any:
    """The model, moved a little by chance, the same on every call; frozen."""
    import torch

    teacher = exam.copy_of_model().requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(2)
    for parameter in teacher.parameters():
        parameter.add_(0.01 * torch.randn(parameter.shape, generator=generator))
    return teacher


def still_processor(exam: Exam) -> ProcessorMixin:
    """`Qwen3VLProcessor` without the video processor, which alone needs torchvision."""
    from transformers import ProcessorMixin, Qwen3VLProcessor

    class StillProcessor(Qwen3VLProcessor):
        def __init__(self, image_processor: Any, tokenizer: Any, chat_template: str | None = None) -> None:
            self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
            self.image_token_id, self.video_token_id = tokenizer.convert_tokens_to_ids(
                [self.image_token, self.video_token]
            )
            ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    return StillProcessor(exam.processor.images, exam.processor.tokenizer, chat_template=CHAT_TEMPLATE)


def _sft(exam: Exam, rows: list[dict[str, Any]], assistant_only_loss: bool) -> Stepper:
    from trl import SFTConfig, SFTTrainer

    clock = Clock()

    class Timed(SFTTrainer):
        def compute_loss(self, *args: Any, **options: Any) -> Any:
            clock.mark("update")
            return super().compute_loss(*args, **options)

    trainer = Timed(
        model=exam.copy_of_model(),
        args=SFTConfig(**_common(len(rows)), max_length=None, assistant_only_loss=assistant_only_loss),
        train_dataset=_dataset(rows),
        processing_class=still_processor(exam),
        callbacks=[_ticker(clock)],
    )
    return Stepper(trainer, clock)


def _ticker(clock: Clock) -> Any:
    from transformers import TrainerCallback

    class Ticker(TrainerCallback):
        def on_epoch_begin(self, *args: Any, **options: Any) -> None:
            clock.mark("data")

        def on_pre_optimizer_step(self, *args: Any, model: Any, **options: Any) -> None:
            clock.gradients = {name: parameter.grad for name, parameter in model.named_parameters()}

        def on_step_end(self, *args: Any, **options: Any) -> None:
            clock.mark("end")

    return Ticker()


def _common(batch: int) -> dict[str, Any]:
    """What all of TRL's settings share. Its trainers report their use to the hub unless told not to."""
    import huggingface_hub.constants

    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    return {
        "output_dir": tempfile.mkdtemp(prefix="hesper-trl-"),
        "per_device_train_batch_size": batch,
        "max_steps": 1,
        "learning_rate": 0.0,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "gradient_checkpointing": False,
        "bf16": False,
        "use_cpu": True,
        "optim": "adamw_torch_fused",
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def _shown(question: Question) -> dict[str, Any]:
    from PIL import Image

    return {"images": [Image.open(io.BytesIO(question.sample.image)).convert("RGB")]}


def _dataset(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset

    return Dataset.from_list(rows)
