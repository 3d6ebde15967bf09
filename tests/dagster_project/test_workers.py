"""Where stages run: a missing extra or address is one message, whichever worker is asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from assets.errors import ParameterError
from dagster_project.workers import Worker, run_stage


def worker(kind: str, **values: Any) -> Worker:
    return Worker.model_validate({"kind": kind, **values})


def run(chosen: Worker, root: Path) -> None:
    context: Any = SimpleNamespace(run=SimpleNamespace(run_id="r"))
    run_stage(context, chosen, root, "first", {})


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [("ray", "dagster_ray", "hesper[ray]"), ("kubernetes", "dagster_k8s", "hesper[kubernetes]")],
)
def test_a_missing_extra_is_named(
    kind: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ParameterError, match=rf"pip install '{extra[:6]}\[{kind}\]'"):
        run(worker(kind), tmp_path)


def stage_as_op(root: Path, code: str) -> dg.ExecuteInProcessResult:
    """Run `python -m assets x` in a folder whose package `assets` is `code`."""
    (root / "assets").mkdir()
    (root / "assets" / "__init__.py").touch()
    (root / "assets" / "__main__.py").write_text(code)
    points: list[Any] = []

    @dg.asset
    def stage(context) -> dg.MaterializeResult:  # type: ignore[no-untyped-def]  # Dagster reads annotations
        report = run_stage(context, worker("local", threads=3), root, "x@web", {}, points.extend)
        return dg.MaterializeResult(metadata={**report.metrics, **report.seconds, "points": len(points)})

    return dg.materialize([stage], raise_on_error=False)


PREAMBLE = """
import os, sys
from dagster_pipes import open_dagster_pipes
pipes = open_dagster_pipes()
assert sys.argv[1:] == ["x", "--partition", "web"]
"""


def test_points_metrics_and_seconds_come_over_pipes(tmp_path: Path) -> None:
    code = PREAMBLE + (
        "assert os.environ['HESPER_LAUNCHED'] == '1' and os.environ['DAGSTER_RUN_ID']\n"
        "assert os.environ['HESPER_LAUNCHER'] == str(os.getppid()) and os.environ['OMP_NUM_THREADS'] == '3'\n"
        "pipes.report_custom_message({'points': [['loss', 1.0, 0, 5], ['loss', 0.5, 1, 6]]})\n"
        "seconds = {'work_seconds': 2.0}\n"
        "pipes.report_custom_message({'finished': 'i', 'metrics': {'accuracy': 0.5}, 'seconds': seconds})\n"
        "pipes.close()\n"
    )
    result = stage_as_op(tmp_path, code)
    assert result.success
    (event,) = result.get_asset_materialization_events()
    metadata = {name: value.value for name, value in event.materialization.metadata.items()}
    assert metadata == {"accuracy": 0.5, "work_seconds": 2.0, "points": 2}


@pytest.mark.parametrize(
    ("code", "description", "exit_code"),
    [
        (
            PREAMBLE + "pipes.report_custom_message({'error': 'no such app', 'exit_code': 6})\nsys.exit(6)",
            "no such app",
            6,
        ),
        ("import sys; sys.exit(9)", "x@web ended with exit code 9; its own output says why", 9),
        ("import os; os.kill(os.getpid(), 15)", "x@web was ended by signal SIGTERM", 143),
    ],
)
def test_a_failed_process_is_one_message(tmp_path: Path, code: str, description: str, exit_code: int) -> None:
    result = stage_as_op(tmp_path, code)
    (failure,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    data = failure.step_failure_data.user_failure_data
    assert data is not None
    assert data.description == description
    assert data.metadata["exit_code"].value == exit_code
