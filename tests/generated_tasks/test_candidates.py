"""Instructions, and candidates on specs."""

from __future__ import annotations

import random

import pytest

from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.environments.apps import load_specs
from assets.environments.desktop import load_apps
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.plan import READ, Candidate, PlannedStep, filled_in, plan_from_json, plan_to_json
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
        ([Clause("open", ("Bill",)), Clause("read", ("last",))], "en", "Open Bill then Read last"),
        ([Clause("read", ("第一",)), Clause("type", ("它", "银行"))], "zh", "读出第一，然后在银行输入它"),
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


def candidates_of(name: str, seed: int = 1) -> list[Candidate]:
    specs = load_specs()
    spec = specs[name]
    alike = [s for s in specs.values() if (s.platform, s.split, s.locale) == ("mobile", spec.split, spec.locale)]
    neighbour = next((s for s in alike if s.id != name), None) if spec.platform == "mobile" else None
    return app_candidates(spec, 1, spec.theme, 3, random.Random(seed), neighbour)


@pytest.mark.parametrize("name", [*load_specs(), *(app.id for app in load_apps())])
def test_an_instruction_says_what_is_clicked_in_which_order(name: str) -> None:
    desktop = {app.id: app for app in load_apps()}
    candidates = desktop_candidates(desktop[name], 1, 3, random.Random(1)) if name in desktop else candidates_of(name)
    for candidate in candidates:
        clauses = parse(candidate.task.instruction)
        assert instruction(clauses, candidate.task.locale) == candidate.task.instruction
        assert tuple(word for clause in clauses for word in clause.words) == candidate.task.keypoints
        named = [c.words[-1] for c in clauses if c.verb in ("open", "press") or (c.verb == "type" and len(c.words) > 1)]
        shortcut = ["Save", "保存"] if any(step.do == "Hotkey" for step in candidate.plan) else []
        assert [name for name in named if name not in shortcut] == list(candidate.names)
        assert len(candidate.names) == sum(bool(step.target) for step in candidate.plan)


@pytest.mark.parametrize("name", ["mail-en", "calendar-zh", "store-en", "library-zh"])
def test_an_app_with_a_list_has_tasks_of_every_kind(name: str) -> None:
    candidates = [candidate for seed in range(3) for candidate in candidates_of(name, seed)]
    assert {c.task.kind for c in candidates} == {"single", "composite", "query", "batch", "scenario"}
    assert any(c.task.kind == "scenario" and c.reading for c in candidates)  # read here, typed there


def test_a_batch_does_the_same_to_several() -> None:
    batches = [c.task.instruction for c in candidates_of("mail-en") if c.task.kind == "batch"]
    switches = {"Mute", "Sync", "Print"}
    for text in batches:
        words = [word for clause in parse(text)[1:] for word in clause.words]
        operations = words[1::2]
        assert set(words) <= switches or len(set(operations)) == 1, text


def test_a_scenario_changes_two_apps_or_two_screens_or_types_what_it_read() -> None:
    scenarios = [c for c in candidates_of("mail-en") if c.task.kind == "scenario"]
    for candidate in scenarios:
        expected = candidate.task.expected_state
        apps = {path.split(".")[1] for path in expected if path.startswith("apps.")}
        kept = [value for path, value in expected.items() if path.startswith("apps.")]
        changes = sum(len(value) if isinstance(value, list) else 1 for value in kept)
        read = any(step.content == READ for step in candidate.plan)
        assert len(apps) == 2 or changes >= 2 or read, candidate.task.instruction
    assert any("foreground" in candidate.task.expected_state for candidate in scenarios)


@pytest.mark.parametrize("name", ["wallet-en", "office-zh", "desk"])
def test_what_is_read_is_never_what_the_app_shows_by_default(name: str) -> None:
    for seed in range(5):
        if name == "desk":
            app = next(app for app in load_apps() if app.id == name)
            usual = app.initial_state()["windows"]["album"]["order"]
            for candidate in desktop_candidates(app, seed, 3, random.Random(seed)):
                if candidate.reading:
                    at = -1 if candidate.reading.last else 0
                    assert candidate.task.initial_state["windows.album.order"][at] != usual[at]
            continue
        for candidate in candidates_of(name, seed):
            if candidate.reading:
                rows = {row.rpartition("/")[2] for row in candidate.reading.rows}
                assert not rows & {row for rows in load_specs()[name].lists.values() for row in rows}
                assert not rows & set(candidate.task.keypoints)


def test_what_was_read_takes_its_place_everywhere() -> None:
    candidate = next(c for c in candidates_of("mail-en") if c.reading and c.task.kind == "scenario")
    filled = filled_in(candidate, "Hotel")
    assert READ not in plan_to_json(filled.plan) + str(filled.task.expected_state)
    assert "Hotel" in plan_to_json(filled.plan)
    assert "Hotel" in str(filled.task.expected_state)


def test_app_candidates_are_distinct_ways_that_change_something() -> None:
    spec = load_specs()["mail-en"]
    candidates = app_candidates(spec, 2, spec.theme, 3, random.Random(4))
    assert len(candidates) > 30
    assert len({candidate.target for candidate in candidates}) == len(candidates)
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
    assert duplicates.of("chat", "按静音，然后放大") == ""
    assert duplicates.of("chat", "按放大，然后静音") == "按静音，然后放大"
    assert duplicates.of("chat", "打开草稿，然后读出第一 | 酒店 车票") == ""
    assert duplicates.of("chat", "打开草稿，然后读出第一 | 车票 酒店") == ""
    assert duplicates.of("chat", "打开草稿，然后读出第一 | 酒店 车票") == "打开草稿，然后读出第一 | 酒店 车票"
