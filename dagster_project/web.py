"""The Dagster and MLflow web pages, on this machine only."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from assets.errors import InfrastructureError
from assets.reporting import tracking_uri
from dagster_project import launch, tracking

HOST = "127.0.0.1"
START_SECONDS = 600.0
"""How long a web page may take to answer: on a busy machine MLflow has needed minutes."""


def serve(root: Path, dagster_port: int, mlflow_port: int) -> None:
    """Start both, print their addresses, and wait until one ends or this process is asked to.

    Raises:
        InfrastructureError: one of them did not start.
    """
    launch.open_instance(root)
    tracking.prepare(root)
    logs = root / ".hesper" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    # MLflow's job runner is seven more processes, for features that nothing here uses.
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {**os.environ, "HESPER_ROOT": str(root), **quiet}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    places: dict[str, str] = {}

    def start(name: str, port: int, command: list[str]) -> None:
        places[name] = f"http://{HOST}:{port}"
        with (logs / f"{name}.log").open("wb") as log:
            processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command, "--host", HOST, "--port", str(port)],
                cwd=root,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_as_child,
            )

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    # A shell lets what it starts in the background ignore SIGINT: then nobody could end the pages with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    note = root / ".hesper" / "ui.json"
    try:
        uri = tracking_uri(root)
        if uri.startswith("http"):
            places["mlflow"] = uri
        else:
            start("mlflow", _port(mlflow_port), ["mlflow", "server", "--backend-store-uri", uri, "--workers", "1"])
        start("dagster", _port(dagster_port), ["dagster", "dev", "-m", "dagster_project.definitions"])
        note.write_text(json.dumps(places), encoding="utf-8")
        for name, process in processes.items():
            _wait(name, process, places[name], logs / f"{name}.log")
        print(f"Dagster {places['dagster']}\nMLflow  {places['mlflow']}\nCtrl-C ends both", flush=True)
        while all(process.poll() is None for process in processes.values()):
            time.sleep(0.5)
        ended = next(name for name, process in processes.items() if process.poll() is not None)
        raise InfrastructureError(f"{ended} ended; {logs / ended}.log says why")
    except KeyboardInterrupt:
        pass
    finally:
        note.unlink(missing_ok=True)
        _end(processes)


def _port(wanted: int) -> int:
    """The wanted port if it is free, else a free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError:
            probe.close()
            with socket.socket() as other:
                other.bind((HOST, 0))
                return int(other.getsockname()[1])
        return int(probe.getsockname()[1])


def _wait(name: str, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
    raise InfrastructureError(f"{name} did not start:\n" + "\n".join(lines))


def _end(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Ask every process to end, then end what is left of its group."""
    for process in processes.values():
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    for process in processes.values():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _as_child() -> None:
    """In the child: heed SIGINT, and be told to end when the parent is gone, even by kill -9 (PR_SET_PDEATHSIG)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
