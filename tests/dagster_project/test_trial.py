"""`hesper probe`: one app probed and tasks on it proven, in lines for a person."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assets.errors import ParameterError
from dagster_project.trial import report

PROJECT = Path(__file__).parents[2]


def test_an_app_is_probed_and_tasks_on_it_are_proven() -> None:
    lines, works = report(PROJECT, "bank-zh", 4, seed=1)
    assert works
    assert re.fullmatch(r"bank-zh works at 192x192: \d+ things to act on at the start", lines[0])
    assert re.fullmatch(r"  reached by \d+ real actions: .*\bpay\b.*", lines[1])
    proven = next(line for line in lines if "proven" in line)
    count = int(proven.partition(" ")[0])
    assert 0 < count <= 4
    assert proven == f"{count} of 4 tasks that were proposed are proven:"
    assert len(lines) == 4 + 4
    assert sum("refused: " in line for line in lines) == 4 - count


def test_an_app_without_tasks_says_so_and_one_that_is_not_there_is_named() -> None:
    assert report(PROJECT, "miniwob/click-test", 4, seed=1)[0][-1] == "no tasks were proposed for it"
    with pytest.raises(ParameterError, match="no app 'bank'; did you mean"):
        report(PROJECT, "bank", 4, seed=1)
