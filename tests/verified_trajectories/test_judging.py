"""Events against demands, cleaning, and the vote."""

from __future__ import annotations

import random

import numpy as np
import pytest

from assets.agent.actions import Action, from_pixel
from assets.verified_trajectories.evidence import (
    Demand,
    Event,
    SeenEpisode,
    SeenStep,
    demands,
    follow_events,
    with_returns,
)
from assets.verified_trajectories.judges import ChangeJudge, ReadingJudge, ThoughtJudge, Thresholds, Vote, judge_all
from assets.verified_trajectories.reading import Remembering, VocabularyReader
from assets.verified_trajectories.voting import Panel, Reliability, estimate, measure

BLANK = np.zeros((8, 8, 3), np.uint8)
THRESHOLDS = Thresholds(sure=0.7, changed=0.01, moved=0.5, seconds=1.0)


def clicks(*words: str) -> list[Event]:
    return [Event("back", "") if word == "<" else Event("click", word) for word in words]


WANTED = [Demand("click", "Settings"), Demand("click", "Mute")]
END = Event("end", "")


@pytest.mark.parametrize(
    ("events", "complete", "verdicts"),
    [
        ([*clicks("Settings", "Mute"), END], True, "correct correct correct"),
        ([*clicks("Settings"), END], False, "correct incorrect"),
        ([*clicks("Settings", "Alarm"), END], False, "correct incorrect incorrect"),
        ([*clicks("Profile", "<", "Settings", "Mute"), END], True, "incorrect correct correct correct correct"),
        ([*clicks("Settings", "Alarm", "alarm", "Mute"), END], True, "correct incorrect correct correct correct"),
        ([*clicks("Settings", "Mute", "Alarm"), END], False, "correct correct incorrect incorrect"),
        ([*clicks("Settings", ""), END], False, "correct ineffective incorrect"),
        ([Event("look", ""), *clicks("Settings", "Mute"), END], True, "exploratory correct correct correct"),
        ([Event("wait", ""), *clicks("Mute", "Settings"), END], False, "ineffective incorrect correct incorrect"),
    ],
)
def test_course_of_events(events: list[Event], complete: bool, verdicts: str) -> None:
    course = follow_events(WANTED, events)
    assert course.complete is complete
    assert " ".join(course.verdicts) == verdicts


def test_going_back_undoes_what_opened_a_screen_and_not_what_was_done_on_it() -> None:
    def course(*after: int) -> bool:
        """Settings, then a wrong click, then back, then Mute; the shade of the screen after each."""
        names = ("Settings", "Alarm", "<", "Mute")
        shades = (1, *after)
        frames = [
            SeenStep(
                BLANK + np.uint8(shade), "", (Action("PressBack") if name == "<" else Action("Click", point=(1, 1)),)
            )
            for name, shade in zip(names, shades, strict=False)
        ]
        episode = SeenEpisode("mobile", "", (), tuple(frames), BLANK + np.uint8(shades[-1]))
        return follow_events(WANTED, with_returns(episode, clicks(*names))).complete

    assert course(2, 3, 2, 4)
    assert not course(2, 3, 1, 4)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Open Settings then Mute", [("click", "Settings"), ("click", "Mute")]),
        ("Type Ticket in Search then Send", [("click", "Search"), ("type", "Ticket"), ("click", "Send")]),
        ("打开设置，然后静音", [("click", "设置"), ("click", "静音")]),
        ("在搜索输入车票，然后发送", [("click", "搜索"), ("type", "车票"), ("click", "发送")]),
        ("Read Note", [("answer", "Note")]),
        ('Click on the "ok" button.', [("click", "ok")]),
        ("Select nothing and click Submit.", []),
        ("Click button ONE, then click button TWO.", [("click", "ONE"), ("click", "TWO")]),
        ("Select Ab, cD3 and click Submit.", [("click", "Ab"), ("click", "cD3"), ("click", "Submit")]),
        ("Click on Tab #2.", [("click", "Tab #2")]),
        ('Enter "Kim" into the text field and press Submit.', [("click", ""), ("type", "Kim"), ("click", "Submit")]),
        ('Type "REX" in all lower case letters in the text input and press Submit.', []),
        ("Expand the section below and click submit.", []),
        ("Solve the math problem and type your answer into the textbox. Press submit when done.", []),
        ('Find the 9th word in the paragraph, type that into the textbox and press "Submit".', []),
        ('In Lantern Lane, open "Me", then switch "Sounds" on.', [("click", "Me"), ("click", "Sounds")]),
        ('在"搜索"里输入"车票"。', [("click", "搜索"), ("click", ""), ("type", "车票")]),
    ],
)  # fmt: skip
def test_demands_come_from_the_words(instruction: str, expected: list[tuple[str, str]]) -> None:
    episode = SeenEpisode("web", instruction, (), (), None)
    assert [(demand.act, demand.word) for demand in demands(episode)] == expected


FORM = [Demand("click", ""), Demand("type", "Kim"), Demand("click", "Submit")]


@pytest.mark.parametrize(
    ("events", "complete"),
    [
        ([Event("click", ""), Event("type", "Kim"), *clicks("Submit"), END], True),
        ([Event("type", "Kim"), *clicks("Submit"), END], True),
        ([*clicks("elsewhere"), Event("type", "Kim"), *clicks("Submit"), END], False),
        ([Event("click", ""), Event("type", "Tim"), *clicks("Submit"), END], False),
        ([Event("click", ""), *clicks("Submit"), END], False),
    ],
)
def test_a_field_is_clicked_before_it_is_typed_into_or_has_the_focus(events: list[Event], complete: bool) -> None:
    assert follow_events(FORM, events).complete is complete


@pytest.mark.parametrize(
    ("clicked", "written", "there"), [(30, 30, True), (30, 34, True), (30, 80, False), (30, 0, False)]
)
def test_a_click_into_a_field_is_one_where_the_text_then_stands(clicked: int, written: int, there: bool) -> None:
    white = np.full((100, 100, 3), 255, np.uint8)
    typed = white.copy()
    if written:
        typed[written, 10:40] = 0
    steps = [
        SeenStep(white, "", (Action("Click", point=from_pixel(20, clicked, 100, 100)),)),
        SeenStep(white, "", (Action("Type", content="Kim"),)),
    ]
    episode = SeenEpisode("web", 'Enter "Kim" into the field.', (), tuple(steps), typed)
    judge = ReadingJudge(Remembering(VocabularyReader()), Thresholds(0.7, 0.0005, 0.1, 60))
    assert (judge.events(episode)[0].word == "") is there


def seen(*steps: tuple[str, Action, int], end: int) -> SeenEpisode:
    """An episode of (thought, action, shade of the screen before it) and the shade of the last screen."""
    frames = tuple(SeenStep(BLANK + np.uint8(shade), think, (action,)) for think, action, shade in steps)
    return SeenEpisode("web", "Press Save", ("Save",), frames, BLANK + np.uint8(end))


def test_the_change_judge_sees_what_the_thought_judge_believes() -> None:
    click, end = Action("Click", point=(500, 500)), Action("Finished", content="")
    done = seen(("Save", click, 1), ("done", end, 2), end=2)
    idle = seen(("Save", click, 1), ("done", end, 1), end=1)
    assert ThoughtJudge()(done).vote
    assert ThoughtJudge()(idle).vote
    assert ChangeJudge(THRESHOLDS)(done).vote
    assert not ChangeJudge(THRESHOLDS)(idle).vote


def test_a_judge_that_fails_or_dawdles_has_voted_against() -> None:
    import time

    class Broken:
        name = "broken"

        def __call__(self, _: SeenEpisode) -> Vote:
            raise ValueError("nonsense")

    class Slow:
        name = "slow"

        def __call__(self, _: SeenEpisode) -> Vote:
            time.sleep(0.05)
            return Vote("slow", True, 1.0, "")

    votes = judge_all([Broken(), Slow()], seen(end=0), seconds=0.01)
    assert [(vote.judge, vote.vote) for vote in votes] == [("broken", False), ("slow", False)]


def test_the_estimate_finds_the_reliabilities_and_beats_the_majority() -> None:
    rng = random.Random(3)
    true = {"a": (0.97, 0.96), "b": (0.9, 0.9), "c": (0.95, 0.4), "d": (0.9, 0.35)}
    episodes, truths = [], []
    for _ in range(2000):
        truth = rng.random() < 0.7
        votes = []
        for name, (sensitivity, specificity) in true.items():
            right = rng.random() < (sensitivity if truth else specificity)
            votes.append(Vote(name, truth if right else not truth, 1.0, ""))
        episodes.append(votes)
        truths.append(truth)
    panel = estimate(episodes)
    for name, (sensitivity, specificity) in true.items():
        assert panel.judges[name].sensitivity == pytest.approx(sensitivity, abs=0.04)
        assert panel.judges[name].specificity == pytest.approx(specificity, abs=0.07)
    voted = sum((panel.probability(v) >= 0.5) == t for v, t in zip(episodes, truths, strict=True))
    majority = sum((sum(x.vote for x in v) >= 3) == t for v, t in zip(episodes, truths, strict=True))
    assert voted > majority


def test_measured_rates_are_the_counts_with_one_imagined_case_on_either_side() -> None:
    votes = [[Vote("a", vote, 1.0, "")] for vote in (True, True, True, False, True)]
    panel = measure(votes, [True, True, True, True, False])
    assert panel.judges["a"] == Reliability(4 / 6, 1 / 3)
    assert panel.prior == 5 / 7


def test_a_missing_vote_counts_against() -> None:
    panel = Panel({"a": Reliability(0.9, 0.9), "b": Reliability(0.9, 0.9)}, 0.5)
    both = panel.probability([Vote("a", True, 1.0, ""), Vote("b", True, 1.0, "")])
    one = panel.probability([Vote("a", True, 1.0, "")])
    assert both > 0.98
    assert one == pytest.approx(0.5)
