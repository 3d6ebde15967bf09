"""The memory plan: what each training stage needs on one GPU, part by part, and the ZeRO stage that makes it fit.

Weights, gradients and optimiser state follow ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1 and figure
1). Activations, caches and logits are traced on the meta device (tracing.py). Parts of one phase add up to its total;
phases follow one another, so a stage needs the largest.

Left out, because nothing here can measure it: fragmentation of the allocator and the CUDA context, for which RESERVE
keeps a share free; offloading to the processor's memory; tensor and pipeline parallelism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

from assets.capacity.architecture import Architecture, build, count_parameters, layer_types
from assets.capacity.tracing import CHUNK, FULL, FanBytes, LayerBytes, trace_fan, trace_loss
from assets.capacity.workload import Lengths, Pass, Profile, StepTokens, Workload, workloads
from assets.errors import ParameterError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

GIB = 1 << 30

GPU_MEMORY = (24, 40, 80, 139)
"""GiB of common GPUs; 139 is what a program sees of an H200, which is sold with 141 GB."""

RESERVE = 0.06
"""Share of a GPU's memory that the plan leaves free."""

ZERO_STAGES = (0, 1, 2, 3)

BUCKET = 500_000_000
"""Elements in a bucket of gradients or weights on their way between GPUs: DeepSpeed's default for
`reduce_bucket_size` and `allgather_bucket_size`."""

LIVE_PARAMETERS = 1_000_000_000
"""Weights that ZeRO-3 gathers ahead of their use: DeepSpeed's default for `stage3_max_live_parameters`."""


# --- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """A part of a training step, and the bytes it needs on one GPU, by what they hold; the parts add up."""

    name: str
    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes on one GPU."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class StagePlan:
    """A training stage under one ZeRO stage.

    Attributes:
        largest: the fan that needs most.
        tokens: of one step, on all GPUs together.
        flops: arithmetic of one step on all GPUs together, an estimate (see `step_flops`).
    """

    stage: str
    zero: int
    largest: Pass
    tokens: StepTokens
    flops: float
    phases: tuple[Phase, ...]

    @property
    def peak(self) -> Phase:
        """The phase that needs most."""
        return max(self.phases, key=lambda phase: phase.total)


@dataclass(frozen=True)
class Fit:
    """Whether a stage fits in GPUs of a size.

    Attributes:
        memory: GiB of one GPU.
        zero: the lowest ZeRO stage under which it fits, which communicates least; None: it fits under none.
        needed: GiB of its peak under that stage, or under the one that needs least.
        rows: where it does not fit, the most rows in one pass with which it would; 0: not even with one.
    """

    stage: str
    memory: float
    zero: int | None
    needed: float
    rows: int | None


@dataclass(frozen=True)
class Plan:
    """What training a profile's model needs.

    Attributes:
        parameters: weights by part.
        stages: of each training stage, its plan under each ZeRO stage.
        fits: of each size of GPU and each training stage.
        recommended: of each size of GPU, the lowest ZeRO stage under which every training stage fits, or None.
        assumptions: what the figures rest on beside the parameters.
    """

    architecture: Architecture
    gpus: int
    parameters: Mapping[str, int]
    stages: tuple[tuple[StagePlan, ...], ...]
    fits: tuple[Fit, ...]
    recommended: Mapping[float, int | None]
    assumptions: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs; bytes are bytes, memory of GPUs is GiB."""
        return {
            "model": self.architecture.name,
            "sources": list(self.architecture.sources),
            "published_parameters": self.architecture.published_parameters,
            "gpus": self.gpus,
            "parameters": {**self.parameters, "total": sum(self.parameters.values())},
            "stages": [
                {
                    "stage": plans[0].stage,
                    "tokens_a_step": asdict(plans[0].tokens),
                    "flops_a_step_estimate": plans[0].flops,
                    "zero": {
                        str(plan.zero): {
                            "largest_pass": asdict(plan.largest),
                            "peak_bytes": plan.peak.total,
                            "phases": {p.name: {**p.parts, "total": p.total} for p in plan.phases},
                        }
                        for plan in plans
                    },
                }
                for plans in self.stages
            ],
            "fits": [asdict(fit) for fit in self.fits],
            "recommended_zero_stage": {f"{memory:g}": zero for memory, zero in self.recommended.items()},
            "assumptions": list(self.assumptions),
        }


# --- the plan --------------------------------------------------------------------------------------------------------


def make_plan(
    profile: Profile,
    architecture: Architecture,
    gpus: int,
    memory: Sequence[float] = GPU_MEMORY,
    lengths: Lengths | None = None,
    checkpointing: bool = True,
    rows: int | None = None,
) -> Plan:
    """Plan the training stages of a profile on `gpus` GPUs of each of some sizes in GiB.

    Args:
        checkpointing: whether a layer's activations are computed again in the backward pass.
        rows: see `workload.workloads`.

    Raises:
        ParameterError: no GPU, or one without memory.
    """
    if gpus < 1 or any(size <= 0 for size in memory):
        raise ParameterError("a plan needs at least one GPU, with some memory")
    lengths = lengths or Lengths()
    loads = workloads(profile, architecture, gpus, lengths, rows)
    sizes = {name: measure(architecture, name) for name in dict.fromkeys(load.precision for load in loads)}
    stages = tuple(
        tuple(plan_stage(load, sizes[load.precision], zero, gpus, checkpointing) for zero in ZERO_STAGES)
        for load in loads
    )

    def most_rows(index: int, room: float) -> int:
        def fits(count: int) -> bool:
            load = workloads(profile, architecture, gpus, lengths, count)[index]
            stage = plan_stage(load, sizes[load.precision], max(ZERO_STAGES), gpus, checkpointing)
            return stage.peak.total <= room

        return _most(fits, max(shape.rows for shape in loads[index].passes))

    fits = []
    for size in memory:
        room = size * GIB * (1 - RESERVE)
        for index, plans in enumerate(stages):
            zero = next((plan.zero for plan in plans if plan.peak.total <= room), None)
            needed = min(plan.peak.total for plan in plans) if zero is None else plans[zero].peak.total
            rows_that_fit = most_rows(index, room) if zero is None else None
            fits.append(Fit(plans[0].stage, size, zero, needed / GIB, rows_that_fit))
    recommended: dict[float, int | None] = {}
    for size in memory:
        lowest = [fit.zero for fit in fits if fit.memory == size]
        recommended[size] = None if None in lowest else max(zero for zero in lowest if zero is not None)
    return Plan(
        architecture,
        gpus,
        sizes[loads[0].precision].parameters,
        stages,
        tuple(fits),
        recommended,
        _assumptions(lengths, checkpointing),
    )


def plan_stage(load: Workload, size: ModelSize, zero: int, gpus: int, checkpointing: bool) -> StagePlan:
    """A training stage on one of `gpus` GPUs under a ZeRO stage; of its fans the one that needs most."""
    held = model_state(size, zero, gpus, load.frozen)
    whole = dict(held)
    if zero >= 3:
        whole["gathered weights"] = (size.total - ceil(size.total / gpus)) * size.width
    updates = [
        (_update(load, shape, size, held, zero >= 3 and gpus > 1, checkpointing), shape) for shape in load.passes
    ]
    phases, largest = max(updates, key=lambda update: _largest(update[0]))
    if load.frozen:
        scoring = (_scoring(shape, size, whole) for shape in load.passes)
        phases.append(max(scoring, key=lambda phase: phase.total))
    if load.sampled:
        sampling = (_sampling(shape, size, whole) for shape in load.sampled)
        phases.append(max(sampling, key=lambda phase: phase.total))
    flops = step_flops(load, size, checkpointing)
    return StagePlan(load.stage, zero, largest, load.tokens, flops, tuple(phases))


def model_state(size: ModelSize, zero: int, gpus: int, frozen: int = 0) -> dict[str, int]:
    """Bytes that a GPU holds of the model whatever it computes.

    ZeRO (arXiv:1910.02054, section 3.1): of Ψ weights in 16 bit, 2Ψ bytes of weights, 2Ψ of gradients, and for Adam
    KΨ = 12Ψ: weights, momentum and variance in float32. In float32 there is no second copy of the weights: 4Ψ, 4Ψ
    and 8Ψ. Stage 1 shares out the optimiser's state, stage 2 the gradients too, stage 3 the weights too; frozen
    models are shared out as weights are. Stage 3 gathers weights before their use: `LIVE_PARAMETERS` of them, at
    least the largest tensor, at most what it does not hold itself. Two buckets are counted on a single GPU as well.
    """
    count = size.total
    width = size.width
    optimiser = 12 if width == 2 else 8

    def share(whole: int, from_stage: int) -> int:
        return ceil(whole / gpus) if zero >= from_stage else whole

    gathered = 0
    if zero >= 3:
        gathered = min(max(LIVE_PARAMETERS, size.largest), count - ceil(count / gpus)) * width
    return {
        "weights": share(count * width, 3),
        "gradients": share(count * width, 2),
        "optimiser state": share(count * optimiser, 1),
        "frozen models": share(frozen * count * width, 3),
        "gathered weights": gathered,
        "buckets between GPUs": 2 * min(BUCKET, count) * width,
    }


def step_flops(load: Workload, size: ModelSize, checkpointing: bool) -> float:
    """Floating-point operations of one step on all GPUs, an estimate: 2 for each weight that a token meets in a
    forward pass and 4 in a backward pass (Kaplan et al. 2020, arXiv:2001.08361, section 2.1), another 2 where
    activations are computed again. Sampling and each pass of a frozen model are forward passes. The products inside
    attention, quadratic in the length, are left out."""
    tokens, parts = load.tokens, size.parameters
    layers = parts["gated-delta layers"] + parts["full-attention layers"]
    head = size.vocabulary * size.hidden
    forward = 2.0 * (
        layers * (tokens.prefix + tokens.suffix) + head * tokens.answer + parts["vision tower"] * tokens.patches
    )
    passes = (4 if checkpointing else 3) + (1 if load.sampled else 0) + (1 if load.frozen else 0)
    return passes * forward


# --- the model's size ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelSize:
    """What a model's memory follows from.

    Attributes:
        width: bytes of a weight.
        parameters: weights by part.
        largest: weights of the largest tensor.
        kinds: of each decoder layer.
        blocks: of the vision tower.
        hidden: numbers of a token between decoder layers.
        vision_hidden: numbers of a patch between blocks.
        pixel_values: numbers of a patch of a screenshot.
        fan: what is alive while a fan is computed.
        model: on the meta device.
    """

    width: int
    parameters: Mapping[str, int]
    largest: int
    kinds: tuple[str, ...]
    blocks: int
    vocabulary: int
    hidden: int
    vision_hidden: int
    pixel_values: int
    fan: FanBytes
    model: PreTrainedModel

    @property
    def total(self) -> int:
        """All weights."""
        return sum(self.parameters.values())

    @lru_cache(maxsize=256)  # noqa: B019 - lives as long as the model it measures
    def loss(self, name: str, top_k: int | None, tokens: int, logit_tokens: int) -> int:
        """Bytes needed at most while the loss of so many answer tokens is computed."""
        return trace_loss(_losses(name, top_k, logit_tokens), self.model, tokens)

    def __hash__(self) -> int:
        return id(self)


def measure(architecture: Architecture, precision: str) -> ModelSize:
    """Count and trace a model on the meta device.

    Args:
        precision: `bfloat16` (weights and activations in 16 bit, as DeepSpeed trains) or `float32`.
    """
    import torch

    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    model = build(architecture.config, dtype)
    kinds = layer_types(architecture.config)
    vision = model.config.vision_config
    return ModelSize(
        dtype.itemsize,
        count_parameters(model),
        max(parameter.numel() for parameter in model.parameters()),
        kinds,
        vision.depth,
        model.config.text_config.vocab_size,
        model.config.text_config.hidden_size,
        vision.hidden_size,
        vision.in_channels * vision.patch_size**2,
        trace_fan(architecture.config, dict.fromkeys((FULL, *kinds)), dtype),
        model,
    )


def _losses(name: str, top_k: int | None, logit_tokens: int) -> Any:
    """From hidden states to the loss, as the stages compute it."""
    import torch

    from assets.checkpoints.chunked_logits import in_chunks, token_log_probs
    from assets.checkpoints.losses.distillation import token_values

    def log_probs(model: PreTrainedModel, hidden: torch.Tensor) -> None:
        token_log_probs(model, hidden, _targets(hidden), logit_tokens).sum().backward()

    def distillation(model: PreTrainedModel, hidden: torch.Tensor) -> None:
        def compare(hidden: torch.Tensor, taught: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, ...]:
            student = model.lm_head(hidden).float() / 1.0
            with torch.no_grad():
                teacher = torch.empty_like(student)
                teacher[:] = model.lm_head(taught).float() / 1.0
            return token_values(name, student, teacher, targets, top_k, 20.0)  # type: ignore[arg-type]

        taught = torch.empty_like(hidden)
        in_chunks(compare, (hidden, taught, _targets(hidden)), logit_tokens)[0].sum().backward()

    return log_probs if name in ("likelihood", "policy") else distillation


def _targets(hidden: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.zeros(hidden.shape[0], dtype=torch.long, device=hidden.device)


# --- phases ----------------------------------------------------------------------------------------------------------


def _update(
    load: Workload, shape: Pass, size: ModelSize, held: Mapping[str, int], sharded: bool, checkpointing: bool
) -> list[Phase]:
    """The end of the forward pass, where the logits are, and the backward pass, where a layer's work is.

    With checkpointing each layer keeps its input (Korthikanti et al. 2022, arXiv:2205.05198: 2 bytes a token and
    hidden unit in 16 bit), and suffixes keep the cache they continue, since their layers are computed again from it.
    """
    fan, width = size.fan, size.width
    prefix_tokens = shape.prefixes * shape.prefix_tokens
    suffix_tokens = shape.rows * shape.suffix_tokens
    patches = shape.prefixes * shape.patches
    outside = patches * (fan.patch_rest + 4 * size.pixel_values) + (prefix_tokens + suffix_tokens) * fan.token_rest
    layers = [layer for kind in size.kinds for layer in _decoder_layer(size, shape, kind)]
    block = fan.block * patches
    if checkpointing:
        inputs = (prefix_tokens + suffix_tokens) * size.hidden * len(size.kinds)
        kept = outside + width * (inputs + patches * size.vision_hidden * size.blocks)
        cache = cache_bytes(size, shape.rows, shape.prefix_tokens + shape.suffix_tokens)
        work = max(layer.backward for layer in (*layers, block))
    else:
        kept = outside + sum(layer.saved for layer in layers) + block.saved * size.blocks
        cache = cache_bytes(size, shape.rows, 0)  # keys and values count among what layers save
        work = max(layer.backward - layer.saved for layer in (*layers, block))
    fixed = {**held, "activations": round(kept), "cache of the fan": cache}
    logits = size.loss(load.loss, load.top_k, shape.rows * shape.answer_tokens, load.logit_tokens)
    if sharded and load.frozen and load.loss != "policy":  # what teachers say of a token is computed with its logits
        fixed["heads of the teachers"] = load.frozen * size.vocabulary * size.hidden * width
    return [
        Phase("loss", {**fixed, "logits and their gradient": logits}),
        Phase("backward", {**fixed, "one layer's backward pass": round(work)}),
    ]


def _sampling(shape: Pass, size: ModelSize, whole: Mapping[str, int]) -> Phase:
    """Answers at their longest. ZeRO-3 gathers all weights for it: each is needed for every token."""
    length = shape.prefix_tokens + shape.suffix_tokens
    logits = shape.rows * size.vocabulary * (size.width + 3 * 4)
    longest = cache_bytes(size, shape.rows, length)
    one_layer = longest // max(1, size.kinds.count(FULL))
    asked = replace(shape, suffix_tokens=shape.suffix_tokens - shape.answer_tokens)
    return Phase(
        "sampling",
        {
            **whole,
            "cache of the answers": longest,
            "logits": logits,
            "one layer's forward pass": max(one_layer, _forward_of_a_layer(size, asked)),
        },
    )


def _scoring(shape: Pass, size: ModelSize, whole: Mapping[str, int]) -> Phase:
    """A frozen model's pass over the answers, before that of the trained one: its cache, one layer at a time. ZeRO-3
    gathers all of its weights for it."""
    cache = cache_bytes(size, shape.rows, shape.prefix_tokens + shape.suffix_tokens)
    return Phase(
        "frozen model",
        {**whole, "cache of the fan": cache, "one layer's forward pass": _forward_of_a_layer(size, shape)},
    )


def _forward_of_a_layer(size: ModelSize, shape: Pass) -> int:
    layers = [layer for kind in dict.fromkeys(size.kinds) for layer in _decoder_layer(size, shape, kind)]
    block = size.fan.block * (shape.prefixes * shape.patches)
    return round(max(*(layer.forward for layer in layers), block.forward))


def _decoder_layer(size: ModelSize, shape: Pass, kind: str) -> tuple[LayerBytes, LayerBytes]:
    """A layer over all prefixes of a fan, and over all its suffixes."""
    chunk = 1 if kind == FULL else CHUNK
    prefix, suffix = (ceil(tokens / chunk) * chunk for tokens in (shape.prefix_tokens, shape.suffix_tokens))
    context = shape.prefix_tokens + shape.suffix_tokens
    fan = size.fan
    return (
        fan.prefix[kind] * (prefix * shape.prefixes),
        (fan.suffix[kind] * suffix + fan.context[kind] * context) * shape.rows,
    )


def cache_bytes(size: ModelSize, rows: int, tokens: int) -> int:
    """Of the cache of all decoder layers for `rows` sequences of `tokens` tokens.

    2 (keys and values) x key-value heads x head dimension x bytes a number, each token and full-attention layer; a
    gated-delta layer has one state whatever the length.
    """
    full = size.kinds.count(FULL)
    return round(rows * (full * tokens * size.fan.cached_token + (len(size.kinds) - full) * size.fan.state))


def _largest(phases: Sequence[Phase]) -> int:
    return max(phase.total for phase in phases)


def _most(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that fits; 0 where 1 does not."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _assumptions(lengths: Lengths, checkpointing: bool) -> tuple[str, ...]:
    return (
        f"an instruction with its history is {lengths.question} tokens, an answer in the data {lengths.answer}; "
        "sampled answers are as long as max_new_tokens allows",
        f"{lengths.characters:g} characters of the system line make a token",
        "bfloat16 as DeepSpeed trains: weights and gradients in 16 bit, the optimiser's state in float32",
        f"activations are {'computed again layer by layer' if checkpointing else 'kept'} in the backward pass",
        "attention runs without a matrix of scores; the gated delta rule as transformers has it, without "
        "flash-linear-attention",
        f"{RESERVE:.0%} of a GPU's memory stay free for the CUDA context and fragmentation",
        "frozen models (the reference of RL, the teachers of distillation) lie on the GPUs beside the trained one",
    )
