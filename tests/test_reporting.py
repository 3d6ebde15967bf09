"""Where a stage reports to. The MLflow run itself is tested in dagster_project/test_tracking.py."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assets import reporting
from assets.errors import TrackingError
from assets.reporting import Reporter, connect, flatten, process_mark, tracking_uri
from assets.stage import StageParameters


class FakePipes:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def report_custom_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


def test_points_go_over_pipes_in_batches_and_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes = FakePipes()
    monkeypatch.setattr(reporting, "open_pipes", lambda: pipes)
    entry = SimpleNamespace(name="a", partition=None)
    reporter = Reporter.open(tmp_path, entry, {}, StageParameters())
    for step in range(250):
        reporter.metric("loss", 1.0 / (step + 1), step)
    reporter.finish(tmp_path, "data/a", "i", {"accuracy": 0.5}, {"work_seconds": 1.0})
    points = [point for message in pipes.messages for point in message.get("points", [])]
    assert [(name, step) for name, _, step, _ in points] == [("loss", step) for step in range(250)]
    assert len(pipes.messages) <= 5
    assert pipes.messages[-1] == {"finished": "i", "metrics": {"accuracy": 0.5}, "seconds": {"work_seconds": 1.0}}
    assert not (tmp_path / ".hesper").exists()  # the launcher keeps the MLflow run


def test_tracking_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    monkeypatch.delenv("DAGSTER_PIPES_CONTEXT", raising=False)
    reporter = Reporter.open(tmp_path, SimpleNamespace(name="a", partition=None), {}, StageParameters())
    reporter.metric("loss", 1.0, 0)
    reporter.finish(tmp_path, "data/a", "i", {}, {})
    assert not (tmp_path / ".hesper").exists()


def test_a_locked_database_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    database = Path(tracking_uri(tmp_path).removeprefix("sqlite:///"))
    database.parent.mkdir(parents=True)
    monkeypatch.setattr(reporting, "LOCK_SECONDS", 0.1)
    lock = sqlite3.connect(database, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    connect.cache_clear()
    with pytest.raises(TrackingError, match="can't be written: database is locked"):
        connect(tmp_path)
    lock.close()


def test_nested_parameters_are_dotted() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": [1]}}, "e": None}) == {"a.b": 1, "a.c.d": [1], "e": None}


def test_a_process_has_a_name_of_its_own() -> None:
    assert process_mark(os.getpid()) == process_mark(os.getpid())
    assert process_mark(os.getpid()) != process_mark(os.getppid())
