"""Small desktop applications are real programs: every test here starts Xvfb, a window manager and GTK programs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from assets.agent.actions import Action, ActionError, from_pixel
from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.environments.desktop import DesktopSession, load_apps, overlay
from assets.environments.desktop.dialogs import SmallApplication
from assets.environments.session import check
from assets.environments.task import TaskContract
from assets.errors import InfrastructureError, MissingProgramError, ParameterError

SIZE = (192, 192)


def task(app: str, **changes: object) -> TaskContract:
    return TaskContract("t", "desktop", app, "en", "Press", **changes)  # type: ignore[arg-type]


def click(session: DesktopSession, identity: str) -> None:
    element = next(element for element in session.elements() if element.id == identity)
    session.act(Action("Click", point=from_pixel(*element.center, *SIZE)))


@pytest.fixture(scope="module")
def desktop() -> Iterator[DesktopSession]:
    with DesktopSession(SIZE) as session:
        yield session


def test_apps_cover_both_languages_and_splits() -> None:
    apps = load_apps()
    assert {(app.locale, app.split) for app in apps} == {(a, b) for a in ("en", "zh") for b in ("train", "heldout")}
    assert {app.program for app in apps} == {"yad", "mousepad"}
    words = {*ENGLISH, *CHINESE}
    for app in apps:
        for window in app.windows.values():
            assert {control.label for control in (*window.controls, *window.closers)} <= words


@pytest.mark.parametrize("app", [app.id for app in load_apps()])
def test_every_control_answers_at_its_box(desktop: DesktopSession, app: str) -> None:
    """What `elements` says is on the screen is what a click there hits, control by control of the first window."""
    spec = next(known for known in load_apps() if known.id == app)
    desktop.reset(task(app))
    first = desktop.observe()
    elements = desktop.elements()
    assert all(0 <= e.box[0] < e.box[2] <= 192 and 0 <= e.box[1] < e.box[3] <= 192 for e in elements)
    if not spec.windows:
        assert [element.kind for element in elements] == ["entry"]
        return
    name, window = next(iter(spec.windows.items()))
    shown = spec.initial_state()["windows"][name]["order"]
    assert {e.id for e in elements} == {f"{name}.{i}" for i in [*shown, *(closer.id for closer in window.closers)]}
    for opener in [control for control in window.controls if control.kind == "opener"]:
        click(desktop, f"{name}.{opener.id}")
        assert desktop.state()["open"] == opener.opens
        back = next(closer for closer in spec.windows[opener.opens or ""].closers if closer.code != 0)
        click(desktop, f"{opener.opens}.{back.id}")
        assert desktop.state()["open"] == name
    toggles = [control for control in window.controls if control.kind == "toggle"]
    for control in toggles:
        click(desktop, f"{name}.{control.id}")
    rows = [control for control in window.controls if control.id in shown and control.kind == "row"]
    if rows:
        click(desktop, f"{name}.{rows[-1].id}")
    assert desktop.observe().png != first.png or not (toggles or rows)
    click(desktop, f"{name}.{window.closers[0].id}")
    state = desktop.state()
    assert state["open"] == ""
    assert state["closed"][name]["exit"] == window.closers[0].code
    if window.closers[0].code == 0:
        assert {c.id: state["closed"][name][c.id] for c in toggles} == {c.id: not c.on for c in toggles}
        assert state["closed"][name].get("row") == (rows[-1].id if rows else None)


def test_screenshots_repeat_to_the_byte(desktop: DesktopSession) -> None:
    pictures = set()
    for _ in range(3):
        desktop.reset(task("mixer"))
        click(desktop, "main.mute")
        pictures.add(desktop.observe().png)
    assert len(pictures) == 1


def test_initial_state_arranges_and_presets(desktop: DesktopSession) -> None:
    order = ["alarm", "mute", "zoom", "video", "music", "sync"]
    desktop.reset(task("mixer", initial_state={"windows.main.order": order, "windows.main.on": ["zoom"]}))
    assert [e.label for e in desktop.elements()][:2] == ["Alarm", "Video"]
    click(desktop, "main.apply")
    kept = desktop.state()["closed"]["main"]
    assert {name for name, value in kept.items() if value is True} == {"zoom"}
    with pytest.raises(ParameterError, match=r"windows\.main\.colour"):
        desktop.reset(task("mixer", initial_state={"windows.main.colour": "red"}))


def test_check_sees_success_and_side_effects(desktop: DesktopSession) -> None:
    expected = {"open": "", "closed.main.exit": 0, "closed.main.print": True, "closed.main.archive": False}
    wanted = task("letter", expected_state={**expected, "closed.main.text": "Ticket"})
    desktop.reset(wanted)
    before = desktop.state()
    assert not check(wanted, before, before).success
    desktop.act(Action("Type", content="Ticket"))
    click(desktop, "main.print")
    click(desktop, "main.send")
    assert check(wanted, before, desktop.state()).success
    desktop.reset(wanted)
    desktop.act(Action("Type", content="Ticket"))
    click(desktop, "main.print")
    click(desktop, "main.archive")
    click(desktop, "main.send")
    assert not check(wanted, before, desktop.state()).success


def test_text_of_any_script_is_typed_and_saved(desktop: DesktopSession) -> None:
    desktop.reset(task("mousepad", initial_state={"text": " old"}))
    text = "下一步 Save 收件箱\n(1) ÄÖß€ 😀 购物车"
    desktop.act(Action("Type", content=text))
    desktop.act(Action("Hotkey", keys=("ctrl", "s")))
    assert desktop.state()["text"] == text + " old"


def test_snapshot_leads_back(desktop: DesktopSession) -> None:
    desktop.reset(task("desk"))
    click(desktop, "main.settings")
    snapshot, picture, digest = desktop.snapshot(), desktop.observe().png, desktop.digest()
    click(desktop, "settings.back")
    assert desktop.digest() != digest
    desktop.restore(snapshot)
    assert (desktop.observe().png, desktop.digest()) == (picture, digest)


def test_actions_of_other_platforms_and_unknown_keys_are_refused(desktop: DesktopSession) -> None:
    desktop.reset(task("mixer"))
    with pytest.raises(ActionError, match="PressBack does not exist on desktop"):
        desktop.act(Action("PressBack"))
    with pytest.raises(ActionError, match="no key 'hyper'"):
        desktop.act(Action("Hotkey", keys=("hyper",)))
    desktop.act(Action("Finished", content="Ticket"))
    assert desktop.state()["answer"] == "Ticket"


def test_a_killed_program_is_an_infrastructure_failure_and_the_next_reset_mends_it() -> None:
    with DesktopSession(SIZE) as session:
        session.reset(task("mixer"))
        application = session._application
        assert isinstance(application, SmallApplication)
        os.killpg(application._process.pid, signal.SIGKILL)
        time.sleep(0.2)
        with pytest.raises(InfrastructureError):
            session.observe()
        session.reset(task("mixer"))
        assert session.state()["open"] == "main"
        session._displays["small"].server.kill()
        with pytest.raises(InfrastructureError, match="X server died"):
            click(session, "main.mute")
        session.reset(task("mixer"))
        assert len(session.elements()) == 8


def test_a_missing_program_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingProgramError, match="apt-get install xvfb"):
        DesktopSession(SIZE)


def test_overlay_leaves_the_original_alone() -> None:
    state = {"a": {"b": [1]}, "c": ""}
    assert overlay(state, {"a.b": [2], "c": "x"}) == {"a": {"b": [2]}, "c": "x"}
    assert state == {"a": {"b": [1]}, "c": ""}
