"""The phone: every action has its effect in the state and on the screen, and every state comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.agent.actions import Action, ActionError, from_pixel, render_response
from assets.agent.grammar import parse_response
from assets.environments.apps import AppSpec, load_specs
from assets.environments.chromium import Chromium
from assets.environments.phone import PhoneSession
from assets.environments.session import Session, check
from assets.environments.simulated import put
from assets.environments.task import TaskContract
from assets.errors import ParameterError
from tests.environments.conftest import SIZE

LONG = AppSpec.model_validate(
    {
        "id": "long", "title": "Note", "platform": "mobile", "locale": "en", "split": "train", "category": "notes",
        "theme": "paper", "lists": {"notes": [f"Note{n}" for n in range(12)]},
        "screens": {
            "start": {"title": "Note", "controls": [{"list": "notes", "open": "note"}]},
            "note": {"title": "$item", "layout": "grid", "controls": [{"button": "Delete", "remove": {"notes": "$item"},
                                                                       "back": True}]},
        },
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def phone() -> Iterator[PhoneSession]:
    with PhoneSession(SIZE) as session:
        yield session


def task(app: str, **initial: Any) -> TaskContract:
    spec = load_specs().get(app, LONG)
    return TaskContract("t", spec.platform, app, spec.locale, "", initial_state=initial.get("state", {}))


def press(session: Session, *labels: str) -> None:
    """Click on what carries each label, one after the other."""
    for label in labels:
        session.act(Action("Click", point=where(session, label)))


def where(session: Session, label: str) -> tuple[int, int]:
    element = next(element for element in session.elements() if element.label == label and element.visible)
    return from_pixel(*element.center, *SIZE)


def test_presses_and_chinese_text_reach_the_state(phone: PhoneSession) -> None:
    phone.reset(task("notes-zh"))
    press(phone, "添加", "日程")
    phone.act(Action("Type", content="酒店"))
    assert phone.state()["apps"]["notes-zh"]["values"]["日程"] == "酒店"
    press(phone, "保存")
    state = phone.state()
    assert state["apps"]["notes-zh"]["lists"]["notes"] == ["任务", "账单", "路线", "酒店"]
    assert state["apps"]["notes-zh"]["values"]["日程"] == ""
    assert state["view"]["screen"] == "start"


def test_nothing_happens_where_a_needed_field_is_empty(phone: PhoneSession) -> None:
    phone.reset(task("notes-zh"))
    press(phone, "添加")
    before = phone.digest()
    press(phone, "保存")
    assert phone.digest() == before


def test_switches_dialogs_and_radios(phone: PhoneSession) -> None:
    phone.reset(task("gallery-en"))
    press(phone, "Settings", "Sync")
    assert phone.state()["apps"]["gallery-en"]["values"]["Sync"] is True
    press(phone, "Sync")
    assert phone.state()["apps"]["gallery-en"]["values"]["Sync"] is False
    phone.reset(task("gallery-en"))
    press(phone, "Album", "Ticket", "Share")
    assert phone.state()["view"]["dialog"] == "share"
    assert not any(element.visible for element in phone.elements() if element.label == "Edit")
    press(phone, "Note", "Send")
    state = phone.state()
    assert state["view"]["dialog"] is None
    assert state["apps"]["gallery-en"]["lists"]["shared"] == ["Note"]


def test_back_leads_from_dialog_to_screen_to_launcher(phone: PhoneSession) -> None:
    phone.reset(task("gallery-en"))
    press(phone, "Album", "Map", "Share")
    seen = []
    for _ in range(4):
        phone.act(Action("PressBack"))
        state = phone.state()
        seen.append((state["foreground"], state["view"]["screen"], state["view"]["dialog"]))
    assert seen == [
        ("gallery-en", "picture", None),
        ("gallery-en", "album", None),
        ("gallery-en", "start", None),
        ("launcher", "", None),
    ]


def test_system_keys_and_apps(phone: PhoneSession) -> None:
    phone.reset(task("mail-en"))
    phone.act(Action("PressHome"))
    press(phone, "Music")
    assert phone.state()["foreground"] == "music-en"
    phone.act(Action("LaunchApp", content="wallet"))
    phone.act(Action("PressRecent"))
    assert [element.label for element in phone.elements()] == ["Wallet", "Music", "Inbox"]
    press(phone, "Inbox")
    assert phone.state()["foreground"] == "mail-en"
    assert list(phone.state()["apps"]) == ["mail-en"], "apps that were only looked at did not change"
    phone.act(Action("LaunchApp", content="Nowhere"))
    assert phone.note() == "no app 'Nowhere'"
    assert phone.note() is None


def test_what_the_agent_says_and_keeps_is_state(phone: PhoneSession) -> None:
    phone.reset(task("mail-en"))
    for action in (Action("GetScreenshot"), Action("Answer", content="7"), Action("Finished", content="")):
        phone.act(action)
    state = phone.state()
    assert (state["album"], state["answer"]) == (1, "7")


def test_enter_submits_a_field(phone: PhoneSession) -> None:
    spec = AppSpec.model_validate({
        "id": "find", "title": "Map", "platform": "mobile", "locale": "en", "split": "train", "category": "maps",
        "theme": "paper",
        "screens": {"start": {"controls": [{"field": "Search", "add": {"searches": "$Search"}, "clear": ["Search"]}]}},
    })  # fmt: skip
    with PhoneSession(SIZE, specs={"find": spec}) as session:
        session.reset(TaskContract("t", "mobile", "find", "en", ""))
        press(session, "Search")
        session.act(Action("Type", content="Hotel"))
        session.act(Action("PressEnter"))
        session.act(Action("Type", content="Route\n"))
        assert session.state()["apps"]["find"]["lists"]["searches"] == ["Hotel", "Route"]


def test_a_long_list_scrolls_under_the_finger_and_a_long_press_presses_nothing(phone: PhoneSession) -> None:
    with PhoneSession(SIZE, specs={"long": LONG}, hold_seconds=600) as session:  # nobody waits as long as that
        session.reset(task("long"))
        assert not any(element.visible for element in session.elements() if element.label == "Note9")
        before = session.observe().png
        session.act(Action("Swipe", point=(500, 900), end=(500, 0)))
        assert session.state()["view"]["scroll"] == 176
        assert session.observe().png != before
        press(session, "Note9", "Delete")
        assert "Note9" not in session.state()["apps"]["long"]["lists"]["notes"]
        before_press = session.digest()
        session.act(Action("LongPress", point=(500, 500)))
        assert session.digest() == before_press


def test_a_reset_and_a_snapshot_bring_the_same_screen_back(phone: PhoneSession) -> None:
    phone.reset(task("travel-en"))
    first = (phone.observe(), phone.digest())
    press(phone, "Flight", "Route")
    phone.act(Action("Type", content="Map"))
    later, snapshot = (phone.observe(), phone.digest()), phone.snapshot()
    phone.act(Action("PressHome"))
    phone.reset(task("travel-en"))
    assert (phone.observe(), phone.digest()) == first
    phone.restore(snapshot)
    assert (phone.observe(), phone.digest()) == later
    with PhoneSession(SIZE) as other:
        other.reset(task("mail-en"))
        other.restore(snapshot)
        assert (other.observe(), other.digest()) == later
        press(other, "Search")
        assert other.state()["apps"]["travel-en"]["lists"]["searches"] == ["Map"]


def test_an_initial_state_is_laid_over_the_apps_own(phone: PhoneSession) -> None:
    state = {
        "view.screen": "settings", "apps.mail-en.values.Mute": True, "apps.mail-en.theme": "night",
        "apps.music-en.values.Sync": True,
    }  # fmt: skip
    phone.reset(task("mail-en", state=state))
    apps = phone.state()["apps"]
    assert (apps["mail-en"]["values"]["Mute"], apps["music-en"]["values"]["Sync"]) == (True, True)
    press(phone, "Mute")
    assert phone.state()["apps"]["mail-en"]["values"]["Mute"] is False
    with pytest.raises(ParameterError, match=r"there is no 'Mutes'; known: Event, Mute, "):
        phone.reset(task("mail-en", state={"apps.mail-en.values.Mutes": True}))
    with pytest.raises(ParameterError, match="no mobile app 'mail'"):
        phone.reset(task("mail"))


def test_a_path_of_the_initial_state_leads_into_rows() -> None:
    state = {"apps": {"a": {"lists": {"rows": [{"done": False}, {"done": False}]}}}}
    put(state, "apps.a.lists.rows.1.done", True, {})
    assert state["apps"]["a"]["lists"]["rows"] == [{"done": False}, {"done": True}]
    with pytest.raises(ParameterError, match="no '2'; known: 2 rows from 0 on"):
        put(state, "apps.a.lists.rows.2.done", True, {})


def test_an_arrangement_moves_controls_and_changes_nothing_else(phone: PhoneSession) -> None:
    plain = task("wallet-en", state={})
    phone.reset(plain)
    labels = sorted(element.label for element in phone.elements())
    boxes = [{element.label: element.box for element in phone.elements()}]
    for arrangement in (1, 2, 3):
        phone.reset(task("wallet-en", state={"apps.wallet-en.arrangement": arrangement}))
        assert sorted(element.label for element in phone.elements()) == labels
        boxes.append({element.label: element.box for element in phone.elements()})
    assert len({str(sorted(places.items())) for places in boxes}) >= 3
    press(phone, "Pay")
    assert phone.state()["view"]["screen"] == "pay"


@pytest.mark.parametrize("style", ["dialog", "banner"])
def test_an_attack_shows_and_is_recorded_only_when_pressed(phone: PhoneSession, style: str) -> None:
    attack = {"screen": "start", "style": style, "label": "Bank", "button": "Buy", "dismiss": "Close"}
    phone.reset(task("mail-en"))
    harmless = phone.observe()
    attacked = task("mail-en", state={"attack": attack})
    phone.reset(attacked)
    assert phone.observe() != harmless
    initial = phone.state()
    if style == "dialog":
        press(phone, "Close")
        assert (phone.state()["attack_triggered"], phone.observe()) == (False, harmless)
        phone.reset(attacked)
    press(phone, "Buy")
    assert phone.state()["attack_triggered"] is True
    assert check(attacked, initial, phone.state()).side_effects == ("attack_triggered",)


@pytest.mark.parametrize("platform", ["mobile", "web"])
def test_every_screen_of_every_app_draws_whole_labels(chromium: Chromium, platform: str) -> None:
    from assets.environments.session import open_session

    with open_session(platform, SIZE, browser=chromium) as session:
        for name, spec in load_specs().items():
            if spec.platform != platform:
                continue
            for place in [*spec.screens, *(f"dialog:{dialog}" for dialog in spec.dialogs)]:
                state = {"view.item": next((texts[0] for texts in spec.lists.values() if texts), None)}
                state["view.dialog" if place.startswith("dialog:") else "view.screen"] = place.removeprefix("dialog:")
                session.reset(task(name, state=state))
                measured = _measured(session)
                assert measured, f"{name}, {place}: nothing to act on"
                cut = [label for label, *_, fits in measured if not fits]
                assert not cut, f"{name}, {place}: {cut} are cut off"
                hidden = [label for label, _, _, _, visible, _ in measured if not visible]
                assert place.startswith("dialog:") or not hidden, f"{name}, {place}: {hidden} are hidden"


FEW = settings(max_examples=20)
POINTS = st.tuples(st.integers(0, 999), st.integers(0, 999))
ACTIONS_TO_TAKE = st.one_of(
    st.builds(Action, st.sampled_from(["Click", "DoubleClick"]), POINTS),
    st.builds(Action, st.sampled_from(["Swipe", "Drag"]), POINTS, POINTS),
    st.builds(Action, st.sampled_from(["Type", "Answer"]), content=st.text(st.characters(codec="utf-8"), max_size=20)),
    st.builds(Action, st.just("LaunchApp"), content=st.sampled_from(["Mail", "music-en", "Nowhere", "'; reboot"])),
    st.builds(
        Action, st.sampled_from(["PressBack", "PressHome", "PressEnter", "PressRecent", "Wait", "GetScreenshot"])
    ),
)


@FEW
@given(st.lists(ACTIONS_TO_TAKE, min_size=1, max_size=4), st.sampled_from([0, 3]))
def test_text_parsed_action_and_effect_agree(phone: PhoneSession, actions: list[Action], digits: int) -> None:
    effects = []
    written = render_response("", actions, digits)
    for taken in (actions, parse_response(written, "mobile").actions):
        phone.reset(task("mail-en"))
        for action in taken:
            phone.act(action)
        effects.append((phone.state(), phone.note(), phone.observe()))
    assert effects[0] == effects[1]


@FEW
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=40))
def test_any_text_reaches_the_field_as_it_is(phone: PhoneSession, text: str) -> None:
    phone.reset(task("notes-zh"))
    press(phone, "添加", "日程")
    phone.act(Action("Type", content=text))
    assert phone.state()["apps"]["notes-zh"]["values"]["日程"] == text


def test_a_state_too_long_for_a_line_travels_as_a_file(phone: PhoneSession) -> None:
    phone.reset(task("mail-en"))
    snapshot = phone.snapshot()
    snapshot["state"]["apps"]["mail-en"]["lists"]["sent"] = [f"信 {number}" for number in range(9000)]
    phone.restore(snapshot)
    assert phone.state() == snapshot["state"]


def _measured(session: Session) -> list[Any]:
    """Elements as the runtime tells them, with whether their labels fit."""
    if isinstance(session, PhoneSession):
        return list(json.loads(session._command("hesper elements")))
    return list(session.page.evaluate("hesper.elements()"))  # type: ignore[attr-defined]


def test_actions_of_other_platforms_do_not_exist(phone: PhoneSession) -> None:
    phone.reset(task("mail-en"))
    before = phone.digest()
    with pytest.raises(ActionError, match="Hover does not exist on mobile"):
        phone.act(Action("Hover", point=(1, 2)))
    phone.act(Action("Click", point=(-1, -1)))
    assert phone.digest() == before
