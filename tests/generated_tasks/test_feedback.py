"""Feedback of earlier rounds: what is read, and how it moves the weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.errors import InputError
from assets.generated_tasks.capability_catalog import covered
from assets.generated_tasks.feedback import Feedback, read_feedback, weight
from assets.generated_tasks.research import Capability

COUNTS = st.integers(0, 200)
BOOSTS = st.integers(0, 1000).map(lambda hundredths: hundredths / 100)
MUTE = Capability(
    "mixer/main.mute", "mixer", "desktop", "en", "train", "main", "set(Mute: bool)", (), ("Mute",), (), ("mixer.json",)
)


@given(COUNTS, COUNTS, COUNTS, BOOSTS)
def test_more_failures_never_lower_a_weight(completed: int, failed: int, more: int, boost: float) -> None:
    if completed + failed:  # what was never tried weighs most
        assert weight(completed + failed + more, completed, boost) >= weight(completed + failed, completed, boost)


@given(COUNTS, COUNTS, COUNTS, COUNTS, BOOSTS)
def test_the_better_covered_never_weighs_more(
    completed: int, failed: int, more_completed: int, fewer_failed: int, boost: float
) -> None:
    well, badly = completed + more_completed, max(0, failed - fewer_failed)
    strong = weight(well + badly, well, boost)
    assert 1.0 <= strong <= weight(0, 0, boost) == 1.0 + boost
    if well + badly:
        assert strong <= weight(completed + failed, completed, boost)


@given(st.integers(1, 100), COUNTS)
def test_what_the_environment_broke_was_no_attempt(attempts: int, broken: int) -> None:
    broken = min(broken, attempts)
    whole = Feedback({"a/Mute": attempts - broken}, {"a/Mute": 0})
    with_faults = Feedback({"a/Mute": attempts}, {"a/Mute": 0}, {"a/Mute": broken})
    assert with_faults.coverage(["a/Mute"]) == whole.coverage(["a/Mute"])


def test_rounds_add_up(tmp_path: Path) -> None:
    for number, completed in ((1, 2), (2, 3)):
        found = {"capabilities": {"mixer/Mute": {"attempts": 4, "completed": completed}}, "later": "unknown"}
        (tmp_path / f"{number}.json").write_text(json.dumps(found))
    more = {
        "capabilities": {},
        "failures": {"mixer/Mute": {"environment": 2, "agent": 1}},
        "unreached": ["mixer/main"],
        "invalid_entities": ["mixer/Zoom"],
    }
    (tmp_path / "3.json").write_text(json.dumps(more))
    feedback = read_feedback(tmp_path)
    assert feedback.coverage(["mixer/Mute"]) == (6, 5)
    assert feedback.unreached == {"mixer/main"}
    assert feedback.invalid_entities == {"mixer/Zoom"}


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "{}",
        '{"capabilities": 3}',
        '{"capabilities": {"a/b": {"attempts": -1, "completed": 0}}}',
        '{"capabilities": {"a/b": {"attempts": 1, "completed": 2}}}',
        '{"capabilities": {}, "failures": {"a/b": {"weather": 1}}}',
    ],
)
def test_a_broken_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(InputError, match=r"broken\.json is not feedback"):
        read_feedback(tmp_path)


def test_feedback_moves_the_weights_of_capabilities() -> None:
    zoom = replace(MUTE, id="mixer/main.zoom", entities=("Zoom",))
    feedback = Feedback({"mixer/Mute": 10, "mixer/main.zoom": 10}, {"mixer/Mute": 2, "mixer/main.zoom": 9})
    weak, strong = covered([MUTE, zoom], feedback, 2.0)
    assert (weak.attempts, weak.completed, strong.attempts) == (10, 2, 10)
    assert weak.weight > strong.weight
    (unreached,) = covered([zoom], replace(feedback, unreached=frozenset({"mixer/main"})), 2.0)
    assert unreached.weight == 3.0


def test_what_is_not_there_is_not_proposed_again() -> None:
    rows = replace(MUTE, id="mixer/main.rows", entities=("Mute", "Zoom"))
    gone = Feedback(invalid_entities=frozenset({"mixer/Mute", "kiosk/Zoom"}))
    (kept,) = covered([MUTE, rows], gone, 2.0)
    assert kept.id == "mixer/main.rows"
    assert kept.entities == ("Zoom",)
