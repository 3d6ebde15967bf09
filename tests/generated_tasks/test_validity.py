"""The gate and the attack twins, by acting in real sessions."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assets.environments.apps import load_specs
from assets.environments.desktop import load_apps
from assets.environments.miniwob import PREFIX
from assets.environments.session import check, rollout
from assets.environments.task import from_row
from assets.environments.workers import Sessions
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.attacks import attack_pairs
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.miniwob_candidates import miniwob_candidate
from assets.generated_tasks.oracle import OraclePolicy
from assets.generated_tasks.plan import Candidate, PlannedStep, follow
from assets.generated_tasks.validity import prove_family


def phone_family(app: str, count: int, seed: int = 1) -> list[Candidate]:
    spec = load_specs()[app]
    return app_candidates(spec, 1, spec.theme, 3, random.Random(seed))[:count]


def test_ways_through_phone_apps_and_sites_hold_in_the_real_runtime(sessions: Sessions) -> None:
    for app in ("mail-en", "shop-zh", "store-en", "trips-zh"):
        reasons = [verdict.reason for verdict in prove_family(sessions, phone_family(app, 8))]
        unproven = [r for r in reasons if r and "also passed" not in r and "doing nothing" not in r]
        assert unproven == [], app
        assert reasons.count("") >= 6, reasons


def test_the_gate_rejects_what_it_cannot_prove(sessions: Sessions) -> None:
    good = next(c for c in phone_family("wallet-en", 40) if "apps.wallet-en.lists.done" in c.task.expected_state)
    expected = good.task.expected_state
    elsewhere = {**expected, "view.screen": "nowhere"}
    incomplete = {key: value for key, value in expected.items() if "lists" not in key} | {"view.focus": "x"}
    cases = {
        "": good,
        "the plan does not reach the expected state": replace(good, task=replace(good.task, expected_state=elsewhere)),
        "the plan has side effects: apps.wallet-en.lists.done, apps.wallet-en.lists.done.0": replace(
            good, task=replace(good.task, expected_state=incomplete)
        ),
        "solved by doing nothing": replace(good, task=replace(good.task, expected_state={"view.dialog": None})),
        "'start/Missing' is not on the screen when it is needed": replace(
            good, plan=(PlannedStep("Click", "start/Missing"),)
        ),
    }
    for reason, candidate in cases.items():
        assert prove_family(sessions, [candidate])[0].reason == reason


def kinds_of(app: str, kind: str, seed: int = 1) -> list[Candidate]:
    specs = load_specs()
    neighbour = {"mail-en": specs["clock-en"], "bank-zh": specs["calendar-zh"]}.get(app)
    candidates = app_candidates(specs[app], 1, specs[app].theme, 3, random.Random(seed), neighbour)
    return [candidate for candidate in candidates if candidate.task.kind == kind]


@pytest.mark.parametrize("app", ["mail-en", "bank-zh", "store-en", "office-zh"])
@pytest.mark.parametrize("kind", ["query", "batch", "scenario"])
def test_longer_tasks_hold_in_the_real_runtime(app: str, kind: str, sessions: Sessions) -> None:
    family = kinds_of(app, kind)[:5]
    verdicts = prove_family(sessions, family)
    unproven = [
        v.reason for v in verdicts if v.reason and "ambiguous" not in v.reason and "also passed" not in v.reason
    ]
    assert unproven == []
    accepted = [verdict for verdict in verdicts if not verdict.reason]
    assert accepted or kind == "batch"  # an app may have but one thing to do in a batch
    assert all(verdict.wrong > 0 for verdict in accepted)


def test_what_is_asked_is_read_off_a_screen_that_has_to_be_opened(sessions: Sessions) -> None:
    first, last = (
        next(v.candidate for v in prove_family(sessions, kinds_of("bank-zh", "query")) if which in v.candidate.target)
        for which in ("第一", "最后")
    )
    rows = first.task.initial_state["apps.bank-zh.lists.bills"]
    answers = [candidate.task.expected_state["answer"] for candidate in (first, last)]
    assert set(answers) < set(rows)
    assert len(set(answers)) == 2
    for candidate, answer in zip((first, last), answers, strict=True):
        assert candidate.plan[-1].content == answer
        assert answer not in candidate.task.instruction


def test_an_answer_that_can_be_had_for_nothing_is_refused(sessions: Sessions) -> None:
    asked = kinds_of("bank-zh", "query")[0]
    rows = asked.task.initial_state["apps.bank-zh.lists.bills"]
    told = [
        replace(asked, task=replace(asked.task, instruction="，然后".join([asked.task.instruction, *rows]))),
        replace(asked, plan=asked.plan[1:], reading=replace(asked.reading, at=0), names=(), task=replace(  # type: ignore[type-var]
            asked.task, initial_state={**asked.task.initial_state, "view.screen": "bills"})),
    ]  # fmt: skip
    reasons = [verdict.reason for verdict in prove_family(sessions, told)]
    assert reasons == ["the answer stands in the instruction", "the answer stands on the first screen"]


def test_an_instruction_must_name_one_thing_on_the_screen(sessions: Sessions) -> None:
    pressed = next(c for c in phone_family("music-en", 400) if c.task.instruction == "Press Play")
    for name, found in (("Stop", 1), ("Missing", 0)):
        (verdict,) = prove_family(sessions, [replace(pressed, names=(name,))])
        assert verdict.reason == f"ambiguous: {found} things on the screen are called '{name}'"


def test_a_candidate_without_siblings_is_done_wrong_on_purpose(sessions: Sessions) -> None:
    alone = next(c for c in phone_family("wallet-en", 40) if "apps.wallet-en.lists.done" in c.task.expected_state)
    (verdict,) = prove_family(sessions, [alone])
    assert (verdict.reason, verdict.wrong) == ("", 1)
    anything = replace(alone.task, expected_state={"view.focus": None}, allowed_side_effects=("apps", "view"))
    anything = replace(anything, initial_state={**anything.initial_state, "view.focus": "Bank"})
    (verdict,) = prove_family(sessions, [replace(alone, task=anything)])
    assert verdict.reason == "also passed by doing it to something else"


@pytest.mark.parametrize("page", ["click-button", "focus-text-2", "click-tab"])
def test_a_click_elsewhere_does_not_solve_a_page(page: str, sessions: Sessions) -> None:
    (verdict,) = prove_family(sessions, [miniwob_candidate(f"{PREFIX}{page}", 3)])
    assert (verdict.reason, verdict.wrong) == ("", 1)


def test_an_oracle_in_fresh_sessions_solves_what_was_accepted(sessions: Sessions) -> None:
    apps = {app.id: app for app in load_apps()}
    families = [kinds_of(app, kind)[:3] for app in ("mail-en", "store-en") for kind in ("query", "scenario", "batch")]
    families += [desktop_candidates(apps[app], 4, 3, random.Random(4))[:4] for app in ("desk_zh", "mixer", "mousepad")]
    accepted = [v.candidate for family in families for v in prove_family(sessions, family) if not v.reason]
    assert len(accepted) > 20
    with Sessions((192, 192)) as fresh:
        for candidate in accepted:
            session = fresh.get(candidate.task.platform, candidate.task.app)
            episode = rollout(session, candidate.task, OraclePolicy(session, candidate.task, candidate.plan, 3))
            assert episode.outcome == "success", candidate.task.instruction


def test_what_a_sibling_asks_for_must_not_pass(sessions: Sessions) -> None:
    first = phone_family("music-en", 1)[0]
    same_end = replace(first, task=replace(first.task, instruction="the same by another name"))
    kept, twin = prove_family(sessions, [first, same_end])
    assert kept.reason == "also passed by what 'the same by another name' asks for"
    assert twin.reason == ""


def test_desktop_ways_hold_in_the_real_programs(sessions: Sessions) -> None:
    for app in (app for app in load_apps() if app.id in ("mixer", "library_zh", "desk")):
        family = desktop_candidates(app, 1, 2, random.Random(2))[:3]
        assert [verdict.reason for verdict in prove_family(sessions, family)] == ["", "", ""]


def test_a_page_brings_its_own_words(sessions: Sessions) -> None:
    (verdict,) = prove_family(sessions, [miniwob_candidate(f"{PREFIX}click-button", 5)])
    assert verdict.reason == ""
    assert verdict.candidate.task.instruction.startswith("Click on the")


def test_attack_twins_can_be_solved_and_their_button_is_the_harm(sessions: Sessions) -> None:
    spec = next(spec for spec in load_specs().values() if spec.split == "heldout" and spec.platform == "mobile")
    accepted = [v.candidate for v in prove_family(sessions, phone_family(spec.id, 6)) if not v.reason]
    accepted = [replace(c, task=replace(c.task, id=f"m-{number}")) for number, c in enumerate(accepted)]
    rows = attack_pairs(accepted, 4, (192, 192), random.Random(1))
    assert [row["attack"] for row in rows] == [False, True] * 2
    assert {row["attack_kind"] for row in rows} == {"deceptive_dialog", "prompt_injection"}
    for harmless, attacked in zip(rows[::2], rows[1::2], strict=True):
        assert harmless["pair_id"] == attacked["pair_id"] == harmless["id"]
        task = from_row(attacked)
        attack = task.initial_state["attack"]
        session = sessions.get(task.platform, task.app)
        session.reset(task)
        before = session.state()
        follow(session, (PlannedStep("Click", f"attack/{attack['button']}"),), (192, 192))
        after = session.state()
        assert after["attack_triggered"] is True
        assert not check(task, before, after).success
