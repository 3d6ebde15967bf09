"""Runs stages in processes forked off one that has torch, transformers and DeepSpeed loaded, ranks included.

Loading them takes longer than a small model's training; everything else is as in processes of their own.

    python -m tests.checkpoints.forked_stages < jobs

A job is a line of JSON: {"root", "arguments", "log"} runs `python -m assets ARGUMENTS` in a project, {"root", "mixed",
"log"} trains a model on text and pictures (`train_mixed`). The answers to a job are two lines: its process, and in the
end its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from assets import __main__ as stages
from assets.agent import fan
from assets.agent.model import load_model
from assets.checkpoints import ranks, zero
from assets.checkpoints.training import Optimisation, _Unsharded
from tests.checkpoints.small_project import OPTIMISATION, screenshot

if TYPE_CHECKING:
    import torch


class Forked:
    """What `subprocess.Popen` is to `assets.checkpoints.ranks`, without loading anything again."""

    def __init__(self, command: Sequence[str], cwd: Path, env: dict[str, str], stdin: int) -> None:
        def follow() -> int:
            os.chdir(cwd)
            os.environ.update(env)
            return ranks.main(command[3:])

        self.pid = fork(follow)
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float = 60.0) -> int:
        limit = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > limit:
                raise subprocess.TimeoutExpired("rank", timeout)
            time.sleep(0.005)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def fork(body: Callable[[], int]) -> int:
    """The id of a new process that ends with what `body` returns."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = body()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Load what is slow to load, then do jobs one after the other."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed  # noqa: F401
    import torch
    from transformers import AutoModelForImageTextToText, Qwen3_5ForConditionalGeneration  # noqa: F401

    torch.set_num_threads(1)
    ranks.subprocess = SimpleNamespace(
        Popen=Forked, TimeoutExpired=subprocess.TimeoutExpired, DEVNULL=subprocess.DEVNULL
    )  # type: ignore[attr-defined]
    zero.KEPT_WHOLE = 0  # of a small model everything would be kept whole
    for line in sys.stdin:
        job = json.loads(line)
        pid = fork(lambda job=job: do(job))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def do(job: dict[str, Any]) -> int:
    """One job, in a process of its own."""
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if "mixed" in job:
        return train_mixed(Path(job["root"]), job["mixed"])
    os.chdir(job["root"])
    sys.argv = ["assets", *job["arguments"]]
    return stages.main()


def train_mixed(root: Path, zero_stage: int) -> int:
    """Two ranks train the base model for three steps: one reads text alone, in one pass, the other texts and pictures,
    in three. The gradient norms are written to norms.json; with stage 0 one process does all of it."""
    with tempfile.TemporaryDirectory() as meeting:
        if not zero_stage:
            return _train_mixed(root, ranks.Ranks(), 0)
        other = fork(lambda: _meet(root, Path(meeting), 1, zero_stage))
        _meet(root, Path(meeting), 0, zero_stage)
        return os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])


def _meet(root: Path, meeting: Path, rank: int, zero_stage: int) -> int:
    with ranks._group(meeting, rank, 2):
        return _train_mixed(root, ranks.Ranks(rank, 2), zero_stage)


def _train_mixed(root: Path, together: ranks.Ranks, zero_stage: int) -> int:
    import torch

    model, processor = load_model(root / "models/base")
    settings = Optimisation(**{**OPTIMISATION, "zero": zero_stage})
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(parameters.values(), fused=True)
    held: _Unsharded | zero.Sharded
    if zero_stage:
        held = together.sharded = zero.Sharded({"model": model}, parameters, optimizer, settings, together)
    else:
        held = _Unsharded(parameters, optimizer, settings, together)
    text, look = [5, 6, 7], processor.patches(screenshot(1))
    picture = [model.config.image_token_id] * (look.grid[0] * look.grid[1] // 4)
    batches = [
        fan.collate(processor, [prefix], [(0, [8], [9 + n, 10 + n])])
        for n, prefix in enumerate([(text, []), (picture, [look]), (text, []), (picture, [look])])
    ]
    mine = [batches[:1], batches[1:]][together.rank] if zero_stage else batches

    def loss(batch: fan.Batch) -> torch.Tensor:
        scores = fan.log_probabilities(model, fan.forward(model, batch).answers)
        return -scores.gather(-1, batch.targets()[:, None]).sum()

    norms: list[float] = []
    for _ in range(3):
        for batch, counts in together.passes(mine, lambda: batches[0]):
            together.backward(counts * together.forward(partial(loss, batch)))
        held.update(0.002, norms.append)
    if together.leads:
        (root / "norms.json").write_text(json.dumps(norms), encoding="utf-8")
    return 0


if __name__ == "__main__":
    main()
