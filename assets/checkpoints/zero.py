"""ZeRO: what is trained lies in shards on the ranks, by DeepSpeed (Rajbhandari et al. 2020, arXiv:1910.02054).

Stage 1 shares out the optimiser's state, stage 2 the gradients too, stage 3 the weights too. The arithmetic is that of
`training.train` without sharding: the same AdamW, the same clipping, gradients added up over the ranks. A checkpoint
holds whole tensors in float32, put together rank by rank, so another number of ranks goes on from it.

Under stage 3 a module's weights are gathered when it runs and given back after. A pass must therefore run the same
modules in the same order on every rank. What is trained beside the model (heads that not every pass needs) and the two
ends of the model, which are used outside of their own modules, stay gathered for the whole pass instead; all else runs
in every pass, and a pass without a screenshot shows the vision tower a blank one (`fan.forward`).

Models that are only asked, teachers and the reference of the KL divergence, are shared out as well under stage 3, and
gathered whole for each pass that asks them.

Left out: offloading to the host's memory, ranks on several machines, models that are too large to be opened whole on
every rank.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assets.errors import ParameterError

if TYPE_CHECKING:
    import torch

    from assets.checkpoints.ranks import Ranks
    from assets.checkpoints.training import Optimisation
    from assets.stage import Stage

MOMENTS = ("exp_avg", "exp_avg_sq")
"""AdamW's state of a weight, beside the number of its updates."""
KEPT_WHOLE = 100_000
"""Under stage 3, weights with at most so many elements are kept whole on every rank: DeepSpeed's default for
`stage3_param_persistence_threshold`."""
BUCKET = 500_000_000
"""Most elements of gradients, or of weights, in one message: DeepSpeed's default."""


def require_deepspeed(stage: Stage[Any]) -> None:
    """Say what is missing where DeepSpeed is not installed.

    Raises:
        ParameterError: it is not.
    """
    if importlib.util.find_spec("deepspeed") is None:
        raise ParameterError(
            f"{stage.entry.address}: optimisation.zero shards with DeepSpeed, which is not installed: "
            "pip install 'hesper[gpu]', or set optimisation.zero to 0"
        )


def share_out(model: torch.nn.Module, settings: Optimisation) -> None:
    """Leave of a model that is only asked a share on every rank; `gathered` brings the rest."""
    dtype = next(model.parameters()).dtype
    _deepspeed().zero.Init(module=model, config_dict_or_path=_configuration(settings, 1), dtype=dtype)


@contextmanager
def gathered(weights: Iterable[torch.nn.Parameter], write: bool = False) -> Iterator[None]:
    """Weights that were shared out are whole on every rank; with `write` they may change, on all ranks alike."""
    with _deepspeed().zero.GatheredParameters(list(weights), modifier_rank=0 if write else None):
        yield


class Sharded:
    """Modules that are trained together, in shards on the ranks.

    Args:
        modules: by name; the first is the model, others are trained beside it. Their weights are on this rank, the same
            on every rank; what this rank does not keep of them is given up.
        parameters: those of them that are trained, by the name they have in a checkpoint.
        settings: of the optimisation; `precision: bfloat16` holds weights and gradients in 16 bit.
    """

    def __init__(
        self,
        modules: Mapping[str, torch.nn.Module],
        parameters: Mapping[str, torch.nn.Parameter],
        optimizer: torch.optim.Optimizer,
        settings: Optimisation,
        ranks: Ranks,
    ) -> None:
        self._ranks = ranks
        self._stage = settings.zero
        self._model, *self._beside = modules.values()
        self._parameters = parameters
        self._optimizer = optimizer
        self._gathered = False
        self._passes = 0
        self._loose = [module for part in self._beside for module in part.modules()]
        self._loose += [self._model.lm_head, self._model.get_input_embeddings()]  # type: ignore[operator,list-item]
        self._pass, self._engine = _start(modules, optimizer, settings)
        self._free_ends()

    def holds(self, model: torch.nn.Module) -> bool:
        """Whether this is the model in shards."""
        return model is self._model

    def forward(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The loss of one pass, from which `backward` goes back."""

        def touch_all() -> torch.Tensor:
            weights = [
                getattr(module, name)
                for module in self._loose
                for name, it in module._parameters.items()
                if it is not None
            ]
            # A weight that has a gradient on one rank has one on all, or they would add up different things.
            beside = {id(weight) for part in self._beside for weight in part.parameters()}
            nothing = sum(0.0 * weight.sum() for weight in weights if id(weight) in beside)
            return compute() + nothing

        self._pass.compute = touch_all
        loss: torch.Tensor = self._engine()
        return loss

    def backward(self, loss: torch.Tensor) -> None:
        """Add this rank's gradients to those of the step."""
        self._passes += 1
        self._engine.backward(loss * self._ranks.count)  # DeepSpeed takes the ranks' mean, and this is a share of a sum

    def update(self, rate: float, judge: Callable[[float], None]) -> None:
        """Make the update of a step with a learning rate, where there was a pass. `judge` raises what is wrong with the
        gradient's norm, which is infinite where it is no number, and after the update: DeepSpeed makes both in one."""
        if not self._passes:
            return
        self._passes = 0
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._engine.step()
        judge(float(self._engine.get_global_grad_norm()))

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What a checkpoint holds of the training, one whole tensor after the other; all ranks take them together."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        steps = [state["step"] for state in self._optimizer.state.values()]
        for name, parameter in self._parameters.items():
            yield f"weight/{name}", safe_get_full_fp32_param(parameter)
            if steps:
                yield f"step/{name}", steps[0].clone()
                for key in MOMENTS:
                    yield f"{key}/{name}", safe_get_full_optimizer_state(parameter, key)

    def restore(self, read: Callable[[str], torch.Tensor | None]) -> None:
        """Take up what `tensors` gave, by name. The weights are there already, but perhaps rounded to 16 bit."""
        import torch

        for name, parameter in self._parameters.items():
            self._set(parameter, None, read(f"weight/{name}"))
        step = read(f"step/{next(iter(self._parameters))}")
        if step is None:
            return
        optimizer = self._engine.optimizer
        for shard in (
            optimizer.fp32_partitioned_groups_flat if self._stage == 3 else optimizer.single_partition_of_fp32_groups
        ):
            state = {key: torch.zeros_like(shard) for key in MOMENTS}
            self._optimizer.state[shard] = {"step": step.to(shard.device), **state}
        if self._stage < 3:
            optimizer._lazy_init_hp_params_optimizer_state()
        for name, parameter in self._parameters.items():
            for key in MOMENTS:
                self._set(parameter, key, read(f"{key}/{name}"))

    @contextmanager
    def whole(self, write: bool = False) -> Iterator[None]:
        """All weights are on this rank, and running a module gathers nothing; see `Ranks.whole`."""
        if self._stage < 3 or self._gathered:
            yield
            return
        offload = self._engine.optimizer.parameter_offload
        weights = list(self._pass.parameters())
        for hook in (*offload.forward_hooks, *offload.backward_hooks):
            hook.remove()
        offload.forward_hooks, offload.backward_hooks = [], []
        self._gathered = True
        try:
            with gathered(weights, write):
                yield
        finally:
            self._gathered = False
        for weight in weights:
            weight.ds_active_sub_modules.clear()
        offload._register_deepspeed_module(offload.module)
        self._free_ends()

    def close(self) -> None:
        """Let go of what DeepSpeed holds of this process."""
        self._engine.destroy()

    def _set(self, parameter: torch.nn.Parameter, key: str | None, value: torch.Tensor | None) -> None:
        """Give this rank its share of a whole tensor: of the weights in float32, or of a moment."""
        import torch.nn.functional as F
        from deepspeed import utils

        assert value is not None
        value = value.to(parameter.device)
        if self._stage == 3:
            shard = parameter.ds_tensor.numel()  # type: ignore[attr-defined]
            flat = F.pad(value.flatten(), (0, shard * self._ranks.count - value.numel()))
            value = flat[shard * self._ranks.rank : shard * (self._ranks.rank + 1)]
            if key is None:
                utils.safe_set_local_fp32_param(parameter, value)
            else:
                utils.safe_set_local_optimizer_state(parameter, value, key)
        elif key is None:
            utils.safe_set_full_fp32_param(parameter, value)
        else:
            utils.safe_set_full_optimizer_state(parameter, value, key)

    def _free_ends(self) -> None:
        """Leave modules alone whose weights stay gathered for the whole pass: ranks run them as often as they like."""
        if self._stage == 3:
            for module in self._loose:
                module._forward_hooks.clear()
                module._forward_pre_hooks.clear()


def _start(
    modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer, settings: Optimisation
) -> tuple[Any, Any]:
    """The module in which every pass runs, and DeepSpeed's engine for it."""
    import torch

    class Pass(torch.nn.Module):
        """Weights that are used outside of their own module are gathered for as long as this one runs."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleDict(dict(modules))
            self.compute: Callable[[], torch.Tensor] | None = None

        def forward(self) -> torch.Tensor:
            assert self.compute is not None
            return self.compute()

    whole = Pass()
    config = _configuration(settings, sum(weight.numel() for weight in whole.parameters()))
    engine, *_ = _deepspeed().initialize(model=whole, optimizer=optimizer, config=config)
    return whole, engine


def _configuration(settings: Optimisation, weights: int) -> dict[str, Any]:
    """DeepSpeed's, for a model with so many weights."""
    bucket = min(BUCKET, weights)
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,  # a step has as many passes as it happens to have
        "gradient_clipping": settings.clip,
        "bf16": {"enabled": settings.precision == "bfloat16"},
        "zero_optimization": {
            "stage": settings.zero,
            "overlap_comm": False,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
            "memory_efficient_linear": False,  # it would take the place of torch's own for all modules
            "stage3_prefetch_bucket_size": min(50_000_000, bucket),
            "stage3_param_persistence_threshold": KEPT_WHOLE,
        },
    }


def _deepspeed() -> Any:
    import torch

    os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")
    os.environ.setdefault("LOCAL_RANK", "0")  # each rank sees its own GPU first
    import deepspeed

    deepspeed.ops.__compatible_ops__ = {}  # its own kernels would be compiled when they are first asked for
    warnings.filterwarnings("ignore", "`torch.distributed.*is deprecated", FutureWarning)
    return deepspeed
