"""Ranks: the processes that train one model together, each on its share of every step.

The stage itself is rank 0 and starts the others, which run the same code on the same inputs and write nothing. A step
is drawn whole on every rank; each rank computes its share, the gradients are added up, and all ranks make the same
update. Losses are divided by counts of the whole step, so the sum of the shares is the loss of one process.

On processors a rank is a process with few threads: several small ranks use the cores better than one process with many
threads, whose operations are too small to be split.

Every rank holds the whole model, unless the stage shards it (`assets.checkpoints.zero`). Then the ranks exchange
weights and gradients while they compute, so they must compute alike: the same number of passes (`passes`), each inside
`forward`. Outside of a pass a model that may be sharded is used inside `whole`. Without sharding these do nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from assets.checkpoints.zero import gathered, require_deepspeed, share_out
from assets.errors import HesperError, InfrastructureError, with_exit_code
from assets.stage import Stage, open_follower, tied_environment

if TYPE_CHECKING:
    import torch

    from assets.checkpoints.training import Optimisation
    from assets.checkpoints.zero import Sharded

T = TypeVar("T")
M = TypeVar("M", bound="torch.nn.Module")

BUCKET = 2**23
"""Most values of gradients that are added up in one message."""
END_SECONDS = 60.0
"""How long ranks may take to end once the stage is done."""


class Ranks:
    """This process among those that train together. With one rank everything here is the identity.

    Attributes:
        rank: from 0; rank 0 reports and writes.
        count: of all ranks.
        sharded: what is trained, where it lies in shards on the ranks; None where each rank holds all of it.
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        self.count = count
        self.sharded: Sharded | None = None
        self._shared_out: list[torch.nn.Module] = []

    @property
    def leads(self) -> bool:
        """Whether this is the rank that reports and writes."""
        return self.rank == 0

    def share(
        self, items: Sequence[T], cost: Callable[[T], float] = lambda item: 1.0, alike: Callable[[T], Any] = lambda _: 0
    ) -> list[T]:
        """This rank's part of what all ranks have alike, in order: about as costly as every other part.

        Items are dealt in the order of `alike`, so that those which can run together stay together.
        """
        if self.count == 1:
            return list(items)
        costs = [cost(item) for item in items]
        total = sum(costs)
        passed, mine = 0.0, []
        for place in sorted(range(len(items)), key=lambda place: (alike(items[place]), place)):
            middle = passed + costs[place] / 2
            passed += costs[place]
            if min(self.count - 1, int(middle / total * self.count) if total else 0) == self.rank:
                mine.append(place)
        return [items[place] for place in sorted(mine)]

    def gather(self, rows: Sequence[Any]) -> list[Any]:
        """The rows of all ranks, those of rank 0 first. A row is what JSON can hold; tuples become lists."""
        if self.count == 1:
            return list(rows)
        import torch
        from torch import distributed

        text = json.dumps(list(rows)).encode()
        lengths = [torch.zeros(1, dtype=torch.long) for _ in range(self.count)]
        distributed.all_gather(lengths, torch.tensor([len(text)]))
        longest = max(int(length) for length in lengths)
        padded = torch.frombuffer(bytearray(text.ljust(longest)), dtype=torch.uint8)
        texts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.count)]
        distributed.all_gather(texts, padded)
        return [row for part in texts for row in json.loads(bytes(part.tolist()))]

    def total(self, figures: Mapping[str, float]) -> dict[str, float]:
        """The sum of each figure over the ranks; a rank may lack some."""
        totals: dict[str, float] = {}
        for part in self.gather([dict(figures)]):
            for name, value in part.items():
                totals[name] = totals.get(name, 0.0) + value
        return totals

    def add_up(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Give every rank the sum of all ranks' gradients; a parameter that no rank has a gradient for keeps none."""
        if self.count == 1:
            return
        import torch
        from torch import distributed

        have = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        distributed.all_reduce(have)
        bucket: list[torch.Tensor] = []
        with torch.no_grad():
            for parameter, anyone in zip(parameters, have.tolist(), strict=True):
                if not anyone:
                    continue
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                if bucket and sum(gradient.numel() for gradient in bucket) + parameter.numel() > BUCKET:
                    _add_up(bucket)
                    bucket = []
                bucket.append(parameter.grad)
            if bucket:
                _add_up(bucket)

    def passes(self, mine: Iterable[T], spare: Callable[[], T]) -> Iterator[tuple[T, float]]:
        """This rank's passes of a step, and what each counts: 1.

        Where the model is sharded all ranks pass as often as the busiest. One that has run out repeats its last pass,
        one that has none makes `spare()`, and those count 0: their figures and losses are to be multiplied by it.
        """
        last: T | None = None
        for item in mine:
            self.anyone(True)
            yield item, 1.0
            last = item
        while self.sharded is not None and self.anyone(False):
            last = spare() if last is None else last
            yield last, 0.0

    def forward(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The loss of one pass."""
        return compute() if self.sharded is None else self.sharded.forward(compute)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a pass to those of the step."""
        if self.sharded is None:
            loss.backward()
        else:
            self.sharded.backward(loss)

    @contextmanager
    def whole(self, model: torch.nn.Module, write: bool = False) -> Iterator[None]:
        """All of a model's weights are on this rank, to be read or run. All ranks come here together.

        Args:
            write: all ranks change the weights, alike.
        """
        if self.sharded is not None and self.sharded.holds(model):
            with self.sharded.whole(write):
                yield
        elif any(model is other for other in self._shared_out):
            with gathered(model.parameters(), write):
                yield
        else:
            yield

    def frozen(self, model: M, settings: Optimisation) -> M:
        """A model that is only asked from now on, inside `whole`: held as one that is trained with these settings."""
        model.requires_grad_(False)
        if settings.zero == 3:
            share_out(model, settings)
            self._shared_out.append(model)
        return model

    def anyone(self, here: bool) -> bool:
        """Whether a rank says yes, where ranks must do alike; all of them have to be asked. Else what this one says."""
        if self.sharded is None or self.count == 1:
            return here
        import torch
        from torch import distributed

        said = torch.tensor([float(here)])
        distributed.all_reduce(said)
        return bool(said)

    def wait(self) -> None:
        """Return when every rank has come here."""
        if self.count > 1:
            from torch import distributed

            distributed.barrier()


def _add_up(gradients: Sequence[torch.Tensor]) -> None:
    import torch
    from torch import distributed

    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


@contextmanager
def together(stage: Stage[Any], count: int, zero: int = 0) -> Iterator[Ranks]:
    """Start the other ranks of a stage, or, in one of them, join rank 0.

    Args:
        count: of the ranks; 0 stands for the GPUs that are given, or 1 where there are none.
        zero: the ZeRO stage in which they will train, see `assets.checkpoints.zero`.

    Raises:
        HesperError: what another rank raised, as it raised it.
        InfrastructureError: another rank ended otherwise.
        ParameterError: DeepSpeed is needed and missing.
    """
    if zero:
        require_deepspeed(stage)
    if stage.follows is not None:
        rank, meeting = stage.follows
        count = int((meeting / "count").read_text(encoding="utf-8"))
        with _group(meeting, rank, count), _closing(Ranks(rank, count)) as ranks:
            yield ranks
        return
    count = count or _gpus()
    if count == 1 and not zero:
        yield Ranks()
        return
    with tempfile.TemporaryDirectory(prefix="ranks-", dir=stage.work) as folder:
        (Path(folder) / "count").write_text(str(count), encoding="utf-8")
        processes = {rank: _start(stage, rank, Path(folder)) for rank in range(1, count)}
        try:
            with _group(Path(folder), 0, count, processes), _closing(Ranks(0, count)) as ranks:
                yield ranks
            _end(stage, processes, Path(folder), END_SECONDS)
        except RuntimeError as error:  # which torch raises when the connection to a rank is lost
            stage.log(str(error))
            try:
                _end(stage, processes, Path(folder), 5.0)
            except HesperError as reason:
                raise reason from error
            raise
        finally:
            for process in processes.values():
                process.kill()
                process.wait()


@contextmanager
def _closing(ranks: Ranks) -> Iterator[Ranks]:
    try:
        yield ranks
    finally:
        if ranks.sharded is not None:
            ranks.sharded.close()


def _start(stage: Stage[Any], rank: int, folder: Path) -> subprocess.Popen[bytes]:
    entry = stage.entry
    command = [sys.executable, "-m", "assets.checkpoints.ranks", entry.name, "--rank", str(rank)]
    command += ["--meeting", str(folder), "--work", str(stage.work), "--inputs", json.dumps(stage.inputs)]
    command += ["--partition", entry.partition] if entry.partition is not None else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DAGSTER_PIPES")}
    environment |= {**tied_environment(), **_device(rank)}
    return subprocess.Popen(command, cwd=stage.root, env=environment, stdin=subprocess.DEVNULL)


def _gpus() -> int:
    import torch

    return max(1, torch.cuda.device_count())


def _device(rank: int) -> dict[str, str]:
    """The environment in which the first GPU is that of a rank, where there are GPUs."""
    import torch

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = given.split(",") if given else [str(index) for index in range(torch.cuda.device_count())]
    return {"CUDA_VISIBLE_DEVICES": devices[rank]} if rank < len(devices) else {}


def _end(stage: Stage[Any], processes: Mapping[int, subprocess.Popen[bytes]], folder: Path, seconds: float) -> None:
    """Wait for the other ranks, and raise what one of them failed with."""
    limit = time.monotonic() + seconds
    for rank, process in processes.items():
        try:
            code = process.wait(max(0.1, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            continue
        said = folder / f"{rank}.json"
        if said.is_file():
            record = json.loads(said.read_text(encoding="utf-8"))
            if (error := with_exit_code(record["exit_code"], record["message"])) is not None:
                raise error
        if code:
            how = (
                f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}; its own output says why"
            )
            raise InfrastructureError(f"{stage.entry.address}: rank {rank} {how}")


@contextmanager
def _group(
    folder: Path, rank: int, count: int, processes: Mapping[int, subprocess.Popen[bytes]] | None = None
) -> Iterator[None]:
    """Meet the other ranks at a file of this machine, over loopback.

    Raises:
        RuntimeError: one of `processes` ended before it came, or the connection to it was lost.
    """
    import torch
    from torch import distributed

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if processes is None:
        (folder / str(rank)).touch()
    for other, process in (processes or {}).items():
        while not (folder / str(other)).exists():
            if (code := process.poll()) is not None:
                raise RuntimeError(f"rank {other} ended with exit code {code} before it began")
            time.sleep(0.02)
    store = distributed.FileStore(str(folder / "store"), count)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=count)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def main(arguments: Sequence[str] | None = None) -> int:
    """One of the other ranks: run the stage's code and write nothing."""
    import argparse
    import importlib

    parser = argparse.ArgumentParser(prog="python -m assets.checkpoints.ranks", description=__doc__)
    parser.add_argument("stage")
    parser.add_argument("--partition")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--meeting", type=Path, required=True, help="the folder where the ranks meet")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--inputs", type=json.loads, required=True, help="path -> id, as rank 0 found them")
    given = parser.parse_args(arguments)
    stage = open_follower(given.stage, given.partition, given.work, given.inputs, (given.rank, given.meeting))
    try:
        importlib.import_module(stage.entry.module).run(stage)
    except HesperError as error:
        record = {"exit_code": error.exit_code, "message": str(error)}
        (given.meeting / f"{given.rank}.json").write_text(json.dumps(record), encoding="utf-8")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
