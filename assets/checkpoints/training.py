"""The training loop that every checkpoint shares: mid-training, reinforcement learning, distillation.

A stage says what one step computes; the loop does the rest: learning rate, clipping, the update, curves, held-out
measurements, and a checkpoint every so many steps. A killed run continues from its last checkpoint and ends in the
same bytes as an undisturbed one: everything random in a step is derived from the step's number, and the state that
is not (weights, optimiser moments, open averages) is saved exactly, as safetensors.

Left out: weight averaging.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from assets.agent.recomputation import recompute_activations
from assets.checkpoints.ranks import Ranks
from assets.checkpoints.zero import MOMENTS, Sharded
from assets.errors import TrainingError
from assets.stage import Stage, StageParameters

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch

CHECKPOINT = "training.safetensors"
PART = 4 * 2**30
"""Most bytes of a checkpoint that are put together in memory; a larger one lies in several files."""


class Explosion(StageParameters):
    """When a step's loss, or the norm of its gradient, is too large to go on: above `factor` times its median over the
    `steps` steps before. The first steps of a stage, as many, are not judged.

    Attributes:
        least_loss: a smaller median counts as this much, or noise around 0 would count as an explosion. (Of the
            gradient's norm that is `clip`: what is not clipped does no harm.)
    """

    factor: float = Field(gt=1)
    steps: int = Field(ge=1)
    least_loss: float = Field(gt=0)


class Optimisation(StageParameters):
    """How a model is updated, how often it is measured and saved.

    Attributes:
        warmup: steps over which the learning rate rises from 0.
        decay: share of the steps, at the end, over which it falls to 0.
        clip: largest norm of the gradient.
        explosion: what stops the stage, as a loss does that is not a number; null: nothing else does.
        ranks: processes that share each step; 0 stands for one on each GPU that the stage is given, or one where there
            is none. Part of the parameters, as `threads` is, because the order of additions depends on it, and because
            each draws its answers by itself; a run that was killed may go on with another number.
        zero: what lies in shards on the ranks: nothing (0), the optimiser's state (1), the gradients too (2), the
            weights too (3). Above 0 DeepSpeed is needed.
        threads: of torch, in each rank.
        precision: `float32`, or `bfloat16` for the products of the forward pass; the weights that are updated stay
            float32, and where `zero` is above 0 those that are computed with, and written at the end, are bfloat16.
        gradient_checkpointing: keep only what goes into each layer for the backward pass, and compute the rest again.
        report_every: steps that one point of a curve averages.
        evaluate_every: steps between held-out measurements; 0 measures only at the end.
        checkpoint_every: steps between checkpoints.
    """

    steps: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    warmup: int = Field(ge=0)
    decay: float = Field(ge=0, le=1)
    betas: tuple[float, float]
    weight_decay: float = Field(ge=0)
    clip: float = Field(gt=0)
    explosion: Explosion | None
    ranks: int = Field(ge=0)
    zero: int = Field(ge=0, le=3)
    threads: int = Field(ge=1)
    precision: Literal["float32", "bfloat16"]
    gradient_checkpointing: bool
    report_every: int = Field(ge=1)
    evaluate_every: int = Field(ge=0)
    checkpoint_every: int = Field(ge=1)


def train(
    stage: Stage[Any],
    settings: Optimisation,
    modules: Mapping[str, torch.nn.Module],
    compute: Callable[[int], Mapping[str, float]],
    evaluate: Callable[[int], Mapping[str, float]] | None = None,
    ranks: Ranks | None = None,
    suspects: Callable[[], Sequence[str]] = lambda: (),
) -> None:
    """Update `modules` in place for `settings.steps` steps.

    `compute(step)` runs forward and backward for this rank's share of one step, from nothing but the weights and the
    step's number, and returns what to plot of the whole step; a step that leaves no gradient on any rank (every RL
    group without variance) makes no update. `evaluate(step)` returns held-out measurements. Both kinds of figures
    become curves of the stage.

    `suspects()` names the samples of this rank's share of the last step that made its loss no number, or all of them.

    Raises:
        TrainingError: a loss or gradient is not a number, or explodes; what that step made of the weights is not kept.
            The message names samples, `suspects.json` beside the last checkpoint all of them.
    """
    import torch

    parameters = {
        f"{name}.{key}": parameter
        for name, module in modules.items()
        for key, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    optimizer = torch.optim.AdamW(
        list(parameters.values()),
        lr=settings.learning_rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    ranks = ranks or Ranks()
    if settings.gradient_checkpointing:
        recompute_activations(next(iter(modules.values())))  # type: ignore[arg-type]
    state = _State(stage, ranks)
    begin = state.restore(parameters)
    held: _Unsharded | Sharded
    if settings.zero:
        held = ranks.sharded = Sharded(modules, parameters, optimizer, settings, ranks)
    else:
        held = _Unsharded(parameters, optimizer, settings, ranks)
    if begin:
        held.restore(state.read)
    if settings.explosion is None:
        stage.log("no limit to how much loss and gradient may grow (optimisation.explosion is null)")
    for module in modules.values():
        module.train()

    def judge(step: int, figures: dict[str, float], norm: float) -> None:
        figures["gradient_norm"] = norm
        _require_sound(stage, settings, state, step, figures, ranks, suspects)

    for step in stage.progress(range(begin, settings.steps), "training", settings.steps - begin):
        figures = dict(compute(step))
        _require_sound(stage, settings, state, step, figures, ranks, suspects)
        held.update(settings.learning_rate * schedule(step, settings), partial(judge, step, figures))
        for name, value in figures.items():
            state.window.setdefault(name, []).append(value)
        state.remember(figures, settings)
        done = step + 1
        if done % settings.report_every == 0 or done == settings.steps:
            for name, values in sorted(state.window.items()):
                stage.metric(name, math.fsum(values) / len(values), done)
            state.window.clear()
        last = done == settings.steps
        if evaluate is not None and (last or (settings.evaluate_every and done % settings.evaluate_every == 0)):
            for name, value in sorted(evaluate(done).items()):
                stage.metric(name, value, done)
        if done % settings.checkpoint_every == 0 or last:
            state.save(done, held.tensors())


def schedule(step: int, settings: Optimisation) -> float:
    """The learning rate of a step as a share of the full one: linear warm-up, constant, linear decay."""
    rise = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
    tail = settings.steps * settings.decay
    fall = min(1.0, (settings.steps - step) / tail) if tail else 1.0
    return rise * fall


def prepare(settings: Optimisation, seed: int) -> None:
    """Make torch's arithmetic the same on every run of this machine, and fast on few cores."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)
    if settings.threads > 1 or torch.cuda.is_available():  # one thread adds in one order; the call costs a stage 3 s
        torch.use_deterministic_algorithms(True, warn_only=True)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def precision(settings: Optimisation, device: torch.device) -> AbstractContextManager[Any]:
    """The context in which a forward pass runs."""
    import torch

    return torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bfloat16")


def weights_dtype(settings: Optimisation) -> torch.dtype:
    """Of the weights that are computed with."""
    import torch

    return torch.bfloat16 if settings.zero and settings.precision == "bfloat16" else torch.float32


def draw_curves(stage: Stage[Any], name: str = "curves") -> None:
    """All curves of the stage in one picture; those whose names share what stands before a `/` share a panel."""
    import io

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure
    from PIL import Image

    panels: dict[str, list[str]] = {}
    for key in sorted({key for _, key, _ in stage.series}):
        panels.setdefault(key.partition("/")[0], []).append(key)
    columns = min(3, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    figure = Figure(figsize=(4 * columns, 2.6 * rows), dpi=80)
    figure.subplots_adjust(0.12 / columns, 0.25 / rows, 1 - 0.03 / columns, 1 - 0.12 / rows, 0.2, 0.35)
    for place, (title, keys) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, place + 1)
        for key in keys:
            points = sorted({(step, value) for step, other, value in stage.series if other == key})
            label = key.partition("/")[2] or None
            axes.plot([step for step, _ in points], [value for _, value in points], ".-", linewidth=1, label=label)
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
        if "/" in keys[0]:
            axes.legend(fontsize=6, loc="best", framealpha=0.6)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    stage.picture(name, Image.open(buffer))


class _Unsharded:
    """What is trained, where every rank holds all of it."""

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        optimizer: torch.optim.Optimizer,
        settings: Optimisation,
        ranks: Ranks,
    ) -> None:
        self._parameters = parameters
        self._optimizer = optimizer
        self._clip = settings.clip
        self._ranks = ranks

    def update(self, rate: float, judge: Callable[[float], None]) -> None:
        """Make the update of a step with a learning rate, where a rank has a gradient. `judge` raises what is wrong
        with the gradient's norm."""
        import torch

        parameters = list(self._parameters.values())
        self._ranks.add_up(parameters)
        if all(parameter.grad is None for parameter in parameters):
            return
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        judge(float(torch.nn.utils.clip_grad_norm_(parameters, self._clip)))
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What a checkpoint holds of the training."""
        for name, parameter in self._parameters.items():
            yield f"weight/{name}", parameter.detach()
            for key, value in self._optimizer.state.get(parameter, {}).items():
                yield f"{key}/{name}", value

    def restore(self, read: Callable[[str], torch.Tensor | None]) -> None:
        """Take up the moments that `tensors` gave, by name."""
        for name, parameter in self._parameters.items():
            moments = {key: read(f"{key}/{name}") for key in ("step", *MOMENTS)}
            if moments["step"] is not None:
                self._optimizer.state[parameter] = {
                    key: value.to(parameter.device) for key, value in moments.items() if value is not None
                }


class _State:
    """What a killed run needs to continue: weights, moments, the open averages, what explosions are judged by, and the
    curves so far.

    All of it is in one file, or in that file and the parts that it names.
    """

    def __init__(self, stage: Stage[Any], ranks: Ranks) -> None:
        self._stage = stage
        self._ranks = ranks
        self._path: Path = stage.work / CHECKPOINT
        self._files: dict[str, Path] = {}
        self.window: dict[str, list[float]] = {}
        self.recent: dict[str, list[float]] = {}

    def remember(self, figures: Mapping[str, float], settings: Optimisation) -> None:
        """Keep the sizes of a step's loss and gradient, for as many steps as explosions are judged by."""
        if settings.explosion is not None:
            for name in (name for name in ("loss", "gradient_norm") if name in figures):
                self.recent[name] = [*self.recent.get(name, ()), abs(figures[name])][-settings.explosion.steps :]

    def save(self, step: int, tensors: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Write a checkpoint. All ranks come here together, since the tensors may lie on all of them; rank 0 writes."""
        from safetensors.torch import save_file

        kept: dict[str, torch.Tensor] = {}
        size = 0
        parts: list[str] = []
        for name, value in tensors:
            if not self._ranks.leads:
                continue
            kept[name] = value.contiguous().cpu()
            size += value.nbytes
            if size > PART:
                parts.append(f"{self._path.stem}-{step}-{len(parts)}{self._path.suffix}")
                save_file(kept, self._path.with_name(parts[-1]))
                kept, size = {}, 0
        if not self._ranks.leads:
            return
        record = {"step": step, "window": self.window, "recent": self.recent, "series": self._stage.series}
        record["parts"] = parts
        partial = self._path.with_suffix(".partial")
        save_file(kept, partial, {"state": json.dumps(record)})
        os.replace(partial, self._path)
        for old in self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"):
            if old.name not in parts:
                old.unlink()

    def restore(self, parameters: Mapping[str, torch.nn.Parameter]) -> int:
        """Take up the last checkpoint's weights and curves, where there is one, and return the step to begin with."""
        import torch
        from safetensors import safe_open

        if not self._path.is_file():
            return 0
        with safe_open(self._path, "pt") as file:
            record = json.loads(file.metadata()["state"])
        for path in (self._path, *(self._path.with_name(name) for name in record["parts"])):
            with safe_open(path, "pt") as file:
                self._files |= dict.fromkeys(file.keys(), path)
        with torch.no_grad():
            for name, parameter in parameters.items():
                weight = self.read(f"weight/{name}")
                assert weight is not None
                parameter.copy_(weight)
        self.window, self.recent = record["window"], record["recent"]
        for step, name, value in record["series"]:
            self._stage.metric(name, value, step)
        self._stage.log(f"continues from step {record['step']}")
        return int(record["step"])

    def read(self, name: str) -> torch.Tensor | None:
        """A tensor of the last checkpoint; None where it has none of that name."""
        from safetensors import safe_open

        if name not in self._files:
            return None
        with safe_open(self._files[name], "pt") as file:
            tensor: torch.Tensor = file.get_tensor(name)
            return tensor


def _require_sound(
    stage: Stage[Any],
    settings: Optimisation,
    state: _State,
    step: int,
    figures: Mapping[str, float],
    ranks: Ranks,
    suspects: Callable[[], Sequence[str]],
) -> None:
    wrong = {name: "is not a number" for name, value in figures.items() if not math.isfinite(value)}
    wrong = wrong or _exploded(settings, state.recent, figures)
    if not wrong:
        return
    samples = sorted(set(ranks.gather(suspects())))
    listed = stage.work / "suspects.json"
    if ranks.leads:
        record = {"step": step, "figures": list(wrong), "samples": samples}
        listed.write_text(json.dumps(record, indent=1), encoding="utf-8")
    some = f" ({', '.join(samples[:3])}{', …' if len(samples) > 3 else ''})" if samples else ""
    kept = "; the last checkpoint lies beside it" if (stage.work / CHECKPOINT).is_file() else ""
    said = "; ".join(
        f"{', '.join(name for name in wrong if wrong[name] == what)} {what}" for what in dict.fromkeys(wrong.values())
    )
    raise TrainingError(
        f"{stage.entry.address}: {said} at step {step}; lower the learning rate or look at the samples of this "
        f"step{some}, listed in {listed}{kept}"
    )


def _exploded(
    settings: Optimisation, recent: Mapping[str, Sequence[float]], figures: Mapping[str, float]
) -> dict[str, str]:
    """The figures of a step that are too large beside those of the steps before it, and how large they are."""
    limits = settings.explosion
    if limits is None:
        return {}
    found = {}
    for name, least in (("loss", limits.least_loss), ("gradient_norm", settings.clip)):
        before = recent.get(name, ())
        if name not in figures or len(before) < limits.steps:
            continue
        usual = max(least, statistics.median(before))
        if abs(figures[name]) > limits.factor * usual:
            found[name] = f"explodes ({figures[name]:.4g}, more than {limits.factor:g} times {usual:.4g})"
    return found
