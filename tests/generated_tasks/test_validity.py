"""The gate and the attack twins, by acting in real sessions."""

from __future__ import annotations

import random
from dataclasses import replace

from assets.environments.apps import load_specs
from assets.environments.desktop import load_apps
from assets.environments.miniwob import PREFIX
from assets.environments.session import check
from assets.environments.task import from_row
from assets.environments.workers import Sessions
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.attacks import attack_pairs
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.miniwob_candidates import miniwob_candidate
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
