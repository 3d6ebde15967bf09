"""Keypoints with their evidence, what a failure is put down to, what people have decided."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assets.agent.actions import Action
from assets.errors import InputError
from assets.verified_trajectories.evidence import Demand, Event, SeenEpisode, SeenStep, follow_events
from assets.verified_trajectories.judges import Thresholds, Vote
from assets.verified_trajectories.reports import attribute, disagreement, keypoints_seen, reusable_prefix
from assets.verified_trajectories.retrieval import Expected
from assets.verified_trajectories.reviews import Review, read_reviews, seen_of, write_review
from assets.verified_trajectories.voting import Panel, Reliability
from tests.verified_trajectories.test_verified_trajectories import episode as drawn_episode

THRESHOLDS = Thresholds(sure=0.7, changed=0.01, moved=0.5, seconds=1.0)
WANTED = [Demand("click", "Settings"), Demand("click", "Mute")]
NAMES: dict[str, Expected] = {"settings": "moves", "mute": "stays"}


def seen(*shades: int) -> SeenEpisode:
    """One click a screen, the last screen final."""
    click = Action("Click", point=(500, 500))
    steps = tuple(SeenStep(np.full((8, 8, 3), shade, np.uint8), "", (click,)) for shade in shades[:-1])
    return SeenEpisode("web", "Open Settings then Mute", (), steps, np.full((8, 8, 3), shades[-1], np.uint8), "app")


def statuses(episode: SeenEpisode, **words: list[str]) -> list[tuple[str, int, str]]:
    courses = {
        judge: follow_events(WANTED, [Event("click", word) for word in clicked]) for judge, clicked in words.items()
    }
    return [(k.status, k.step, k.judge) for k in keypoints_seen(episode, WANTED, courses, NAMES, THRESHOLDS)]


def test_a_keypoint_is_met_where_two_saw_it_at_one_step() -> None:
    both = ["Settings", "Mute"]
    assert statuses(seen(1, 2, 3), ocr=both, thought=both) == [("met", 0, "ocr+thought"), ("met", 1, "ocr+thought")]
    assert statuses(seen(1, 2, 3), ocr=both, thought=["Settings", ""]) == [
        ("met", 0, "ocr+thought"),
        ("unclear", 1, "ocr"),
    ]
    assert statuses(seen(1, 2), ocr=["Settings"], thought=["Settings"])[1] == ("missing", -1, "")
    again = ["Settings", "Mute", "Mute"]
    assert statuses(seen(1, 2, 3, 4), ocr=again, thought=again)[1][0] == "contradicted"


def test_failures_are_put_down_to_what_caused_them() -> None:
    def caused(episode: SeenEpisode, wanted: list[Demand], words: list[str]) -> str:
        courses = {"ocr": follow_events(wanted, [Event("click", word) for word in words])}
        return attribute(wanted, keypoints_seen(episode, wanted, courses, NAMES, THRESHOLDS), NAMES)

    assert caused(seen(1, 2), [], ["Settings"]) == "task"
    assert caused(seen(1, 2), [Demand("click", "Pay")], ["Settings"]) == "task"
    assert caused(seen(1, 1), WANTED, ["Settings"]) == "environment"
    assert caused(seen(1, 2), WANTED, ["Mute"]) == "agent"


def test_the_beginning_before_the_first_error_can_be_used_again() -> None:
    assert reusable_prefix(["correct", "exploratory", "incorrect", "correct"]) == 2
    assert reusable_prefix(["correct", "correct"]) == 2
    assert reusable_prefix(["incorrect"]) == 0


def test_disagreement_is_none_among_judges_of_one_mind_and_whole_where_the_weights_are_even() -> None:
    panel = Panel({"a": Reliability(0.9, 0.9), "b": Reliability(0.9, 0.9), "c": Reliability(0.6, 0.6)}, 0.5)

    def of(a: bool, b: bool, c: bool) -> float:
        return disagreement([Vote("a", a, 1, ""), Vote("b", b, 1, ""), Vote("c", c, 1, "")], panel)

    assert of(True, True, True) == of(False, False, False) == 0
    assert 0 < of(True, True, False) < of(True, False, True) <= 1


def test_a_decision_is_kept_and_holds_for_what_was_seen_alone(tmp_path: Path) -> None:
    good, bad = (drawn_episode(1, ["Save", "Mute"], clicked, "train") for clicked in (["Save", "Mute"], ["Save"]))
    assert seen_of(*good) != seen_of(*bad)
    review = Review(episode="a/b oracle", seen=seen_of(*good), verdict="partial", reviewer="Ada", note="第二步 unclear")
    file = write_review(tmp_path, review)
    assert file.parent == tmp_path
    assert read_reviews(tmp_path) == {review.seen: review}
    changed = review.model_copy(update={"verdict": "completed"})
    assert write_review(tmp_path, changed) == file
    assert read_reviews(tmp_path) == {review.seen: changed}


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("{", "the file"),
        ('{"episode": "e", "seen": "1", "verdict": "completed", "reviewer": "a"}', "seen"),
        ('{"episode": "e", "seen": "' + "0" * 64 + '", "verdict": "fine", "reviewer": "a"}', "verdict"),
    ],
)
def test_a_broken_decision_names_file_and_place(tmp_path: Path, text: str, trouble: str) -> None:
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(InputError, match=rf"one\.json is no review: {trouble}"):
        read_reviews(tmp_path)
