"""Instructions, candidates on specs, the catalogue's weights."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.environments.apps import load_specs
from assets.environments.desktop import load_apps
from assets.errors import InputError
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.capability_catalog import read_feedback, weight
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.plan import PlannedStep, plan_from_json, plan_to_json
from assets.generated_tasks.templates import TEMPLATE_WORDS, Clause, instruction, parse
from assets.generated_tasks.validity import Duplicates


@pytest.mark.parametrize(
    ("clauses", "locale", "text"),
    [
        ([Clause("open", ("Settings",)), Clause("press", ("Mute",))], "en", "Open Settings then Mute"),
        ([Clause("press", ("Sync",)), Clause("press", ("Help",))], "en", "Press Sync then Help"),
        ([Clause("type", ("Ticket", "Search")), Clause("press", ("Send",))], "en", "Type Ticket in Search then Send"),
        ([Clause("open", ("设置",)), Clause("press", ("静音",))], "zh", "打开设置，然后静音"),
        ([Clause("type", ("车票", "搜索")), Clause("press", ("发送",))], "zh", "在搜索输入车票，然后发送"),
        ([Clause("press", ("同步",)), Clause("open", ("打开",))], "zh", "按同步，然后打开打开"),
        ([Clause("read", ("Note",))], "en", "Read Note"),
    ],
)
def test_instructions_and_back(clauses: list[Clause], locale: str, text: str) -> None:
    assert instruction(clauses, locale) == text
    assert [clause.words for clause in parse(text)] == [clause.words for clause in clauses]


def test_instructions_use_only_listed_words() -> None:
    for spec in load_specs().values():
        words = {*ENGLISH, *TEMPLATE_WORDS["en"]}
        for candidate in app_candidates(spec, 1, spec.theme, 3, random.Random(1))[:200]:
            text = candidate.task.instruction
            if spec.locale == "en":
                assert set(text.split()) <= words, text
            else:
                for word in sorted({*CHINESE, *TEMPLATE_WORDS["zh"]}, key=len, reverse=True):
                    text = text.replace(word, "")
                assert text == "", candidate.task.instruction


def test_app_candidates_are_distinct_ways_that_change_something() -> None:
    spec = load_specs()["mail-en"]
    candidates = app_candidates(spec, 2, spec.theme, 3, random.Random(4))
    assert len(candidates) > 30
    assert len({candidate.task.instruction for candidate in candidates}) == len(candidates)
    for candidate in candidates:
        assert candidate.task.initial_state["apps.mail-en.arrangement"] == 2
        assert candidate.task.keypoints
        assert len(candidate.plan) >= len(candidate.task.keypoints)
        assert candidate.task.expected_state
    assert candidates == app_candidates(spec, 2, spec.theme, 3, random.Random(4))


@pytest.mark.parametrize("app", load_apps(), ids=lambda app: app.id)
def test_desktop_candidates_name_what_their_window_shows(app) -> None:  # type: ignore[no-untyped-def]
    for candidate in desktop_candidates(app, 3, 2, random.Random(5)):
        for step in candidate.plan:
            if step.target:
                window, _, control = step.target.partition(".")
                closers = [closer.id for closer in app.windows[window].closers]
                assert control in [*candidate.task.initial_state[f"windows.{window}.order"], *closers]


def test_plans_are_stored_without_loss() -> None:
    plan = (PlannedStep("Click", "main.mute"), PlannedStep("Hotkey", keys=("ctrl", "s"), thought="Save"))
    assert plan_from_json(plan_to_json(plan)) == plan
    assert plan_from_json("[]") == ()


def test_near_duplicates_are_the_same_words_in_any_order() -> None:
    duplicates = Duplicates()
    assert duplicates.of("mixer", "Press Mute then Zoom") == ""
    assert duplicates.of("mixer", "Press Zoom then Mute") == "Press Mute then Zoom"
    assert duplicates.of("kiosk", "Press Zoom then Mute") == ""
    assert duplicates.of("mixer", "Press Mute") == ""


def test_weak_coverage_weighs_more() -> None:
    assert weight(0, 0, 2.0) == 3.0
    assert weight(10, 0, 2.0) > weight(10, 5, 2.0) > weight(10, 10, 2.0) >= 1.0
    assert weight(10, 0, 0.0) == 1.0


def test_feedback_of_rounds_adds_up(tmp_path: Path) -> None:
    for number, completed in ((1, 2), (2, 3)):
        rounds = {"capabilities": {"mixer/Mute": {"attempts": 4, "completed": completed}}}
        (tmp_path / f"{number}.json").write_text(json.dumps(rounds))
    assert read_feedback(tmp_path) == {"mixer/Mute": (8, 5)}
    (tmp_path / "broken.json").write_text('{"capabilities": 3}')
    with pytest.raises(InputError, match=r"broken\.json"):
        read_feedback(tmp_path)
