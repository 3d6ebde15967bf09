"""Where a stage runs: a subprocess, a Ray job or a Kubernetes pod; the same command, always over Dagster Pipes.

Ray and Kubernetes workers see the project folder at the same path, through storage that the machines share: a stage
reads its inputs there and writes its output there, and the launcher commits it.
"""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from assets.errors import INTERRUPTED, HesperError, InfrastructureError, ParameterError
from assets.stage import StageParameters, tied_environment


class Worker(StageParameters):
    """Section `worker` of params.yaml: where stages run."""

    kind: Literal["local", "ray", "kubernetes"] = "local"
    address: str = Field("", description="Ray: the job server, for example http://127.0.0.1:8265")
    namespace: str = Field("default", description="Kubernetes: where the job is made")
    image: str = Field("", description="Kubernetes: an image with this project's Python packages")
    volume_claim: str = Field("", description="Kubernetes: the persistent volume claim that holds the project folder")
    threads: int = Field(0, ge=0, description="local: OMP_NUM_THREADS of a stage; 0 leaves it as it is")


@dataclass
class Report:
    """What a stage said about itself over Pipes when it was done."""

    metrics: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def run_stage(
    context: dg.AssetExecutionContext,
    worker: Worker,
    root: Path,
    address: str,
    meta: Mapping[str, Any],
    on_points: Callable[[Sequence[Any]], None] = lambda points: None,
) -> Report:
    """Run `python -m assets STAGE` where `worker` says, and wait for it.

    Args:
        on_points: called, in a thread of its own, with points of curves as they come.

    Raises:
        dagster.Failure: the stage failed; one message for a person and, in the metadata, the exit code of the stage.
        ParameterError: the extra that this worker needs is not installed.
    """
    name, _, partition = address.partition("@")
    command = ["-m", "assets", name, *(["--partition", partition] if partition else [])]
    environment = {"DAGSTER_RUN_ID": context.run.run_id, "PYTHONUNBUFFERED": "1"}
    if worker.kind == "local":
        return _local(context, worker, root, address, [sys.executable, *command], environment, on_points)
    if worker.kind == "ray":
        return _ray(context, worker, root, address, [sys.executable, *command], environment, meta, on_points)
    return _kubernetes(context, worker, root, address, ["python", *command], environment, meta, on_points)


def _local(
    context: dg.AssetExecutionContext,
    worker: Worker,
    root: Path,
    address: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    on_points: Callable[[Sequence[Any]], None],
) -> Report:
    reader = dg.PipesTempFileMessageReader()
    ear = Ear(reader, on_points)
    client = dg.PipesSubprocessClient(cwd=str(root), message_reader=reader)
    threads = {"OMP_NUM_THREADS": str(worker.threads)} if worker.threads else {}
    # A stage that has no launcher any more must not go on: it watches for this process.
    environment = {**environment, **threads, **tied_environment()}
    with _one_message(address, ear):
        client.run(context=context, command=list(command), env=environment)
    return ear.report()


def _ray(
    context: dg.AssetExecutionContext,
    worker: Worker,
    root: Path,
    address: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    meta: Mapping[str, Any],
    on_points: Callable[[Sequence[Any]], None],
) -> Report:
    try:
        from dagster_ray import PipesRayJobClient, PipesRayJobMessageReader
    except ImportError:
        raise ParameterError("params.yaml: worker.kind is 'ray', which needs: pip install 'hesper[ray]'") from None
    if not worker.address:
        raise ParameterError("params.yaml: worker.kind is 'ray', so worker.address must name the Ray job server")
    reader = PipesRayJobMessageReader()
    ear = Ear(reader, on_points)
    client = PipesRayJobClient(address=worker.address, message_reader=reader)
    with _one_message(address, ear):
        try:
            client.run(
                context=context,
                submit_job_params={
                    "entrypoint": f"cd {shlex.quote(str(root))} && {shlex.join(command)}",
                    "runtime_env": {"env_vars": dict(environment)},
                    "entrypoint_num_gpus": float(meta.get("gpus", 0)),
                },
            )
        except ConnectionError as error:
            raise InfrastructureError(f"no Ray job server at {worker.address}: {error}") from error
    return ear.report()


def _kubernetes(
    context: dg.AssetExecutionContext,
    worker: Worker,
    root: Path,
    address: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    meta: Mapping[str, Any],
    on_points: Callable[[Sequence[Any]], None],
) -> Report:
    try:
        from dagster_k8s import PipesK8sClient
        from dagster_k8s.pipes import PipesK8sPodLogsMessageReader
    except ImportError:
        raise ParameterError(
            "params.yaml: worker.kind is 'kubernetes', which needs: pip install 'hesper[kubernetes]'"
        ) from None
    for name in ("image", "volume_claim"):
        if not getattr(worker, name):
            raise ParameterError(f"params.yaml: worker.kind is 'kubernetes', so worker.{name} must be set")
    reader = PipesK8sPodLogsMessageReader()
    ear = Ear(reader, on_points)
    container: dict[str, Any] = {
        "workingDir": str(root),
        "volumeMounts": [{"name": "project", "mountPath": str(root)}],
    }
    if meta.get("gpus"):
        container["resources"] = {"limits": {"nvidia.com/gpu": str(meta["gpus"])}}
    with _one_message(address, ear):
        PipesK8sClient(message_reader=reader).run(
            context=context,
            image=worker.image,
            command=list(command),
            namespace=worker.namespace,
            env=dict(environment),
            base_pod_spec={
                "containers": [container],
                "volumes": [{"name": "project", "persistentVolumeClaim": {"claimName": worker.volume_claim}}],
            },
        )
    return ear.report()


class Ear:
    """Listens to what a Pipes reader hands to Dagster.

    Points of curves are taken out on the way: Dagster would keep them all until the end. And of a process that failed
    Dagster keeps no messages.
    """

    def __init__(self, reader: dg.PipesMessageReader, on_points: Callable[[Sequence[Any]], None]) -> None:
        self.failure: tuple[str, int] | None = None
        self._report = Report()
        self._on_points = on_points
        read = reader.read_messages

        @contextmanager
        def read_messages(handler: Any) -> Iterator[Any]:
            handle = handler.handle_message

            def listen(message: Any) -> None:
                if message["method"] == "report_custom_message":
                    self._hear(message["params"]["payload"])
                else:
                    handle(message)

            handler.handle_message = listen
            with read(handler) as params:
                yield params

        reader.read_messages = read_messages  # type: ignore[method-assign]  # clients check the reader's class

    def report(self) -> Report:
        """What was heard."""
        return self._report

    def _hear(self, payload: Mapping[str, Any]) -> None:
        if "points" in payload:
            self._on_points(payload["points"])
        if "finished" in payload:
            self._report = Report(payload["metrics"], payload["seconds"])
        if "error" in payload:
            self.failure = str(payload["error"]), int(payload["exit_code"])


@contextmanager
def _one_message(address: str, ear: Ear) -> Iterator[None]:
    """Turn a failed process into the one message it gave, or the little that is known."""
    from dagster._core.errors import DagsterPipesExecutionError  # not exported

    try:
        with _interruptible():
            yield
    except (dg.Failure, HesperError):
        raise
    except dg.DagsterExecutionInterruptedError:  # which Dagster would answer by running the stage again
        raise dg.Failure(
            description="interrupted; what is finished is kept, and the next run goes on from there",
            metadata={"exit_code": INTERRUPTED, "stage": address},
            allow_retries=False,
        ) from None
    except Exception as error:
        if ear.failure is not None:
            message, code = ear.failure
            raise dg.Failure(
                description=message,
                metadata={"exit_code": code, "stage": address},
                allow_retries=code == InfrastructureError.exit_code,
            ) from None
        if not isinstance(error, DagsterPipesExecutionError):
            raise
        code = _exit_code(str(error))
        text = f"{address} ended with exit code {code}; its own output says why"
        if code < 0:
            text = f"{address} was ended by signal {signal.Signals(-code).name}"
            text += "; the system may be out of memory" if code == -signal.SIGKILL else ""
        raise dg.Failure(
            description=text,
            metadata={"exit_code": code if code > 0 else 128 - code, "stage": address},
            allow_retries=False,
        ) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the wait for a stage: Dagster holds them back until the step is over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise dg.DagsterExecutionInterruptedError

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(message: str) -> int:
    """Dagster gives the code in words only: `External execution process failed with code -9`."""
    last = message.split()[-1]
    return int(last) if last.lstrip("-").isdigit() else 1
