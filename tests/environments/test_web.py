"""The web: the browser's actions on simulated sites and on an allowed real one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from assets.agent.actions import Action, ActionError, from_pixel
from assets.environments.apps import load_specs
from assets.environments.chromium import Chromium, browser
from assets.environments.task import TaskContract
from assets.environments.web import WebSession
from assets.errors import InfrastructureError
from tests.environments.conftest import SIZE, Site
from tests.environments.test_phone import LONG, press, task, where


@pytest.fixture(scope="module")
def web(chromium: Chromium) -> Iterator[WebSession]:
    with WebSession(SIZE, chromium) as session:
        yield session


def test_a_form_is_filled_with_keys_and_a_select_by_its_index(web: WebSession) -> None:
    web.reset(task("tasks-en"))
    press(web, "Add", "Sort")
    assert web.note() == "0: Clock\n1: Timer\n2: Alarm"
    web.act(Action("SelectOption", index=2))
    press(web, "Event")
    web.act(Action("Type", content="Hotels"))
    web.act(Action("Hotkey", keys=("backspace",)))
    assert web.state()["apps"]["tasks-en"]["values"] == {"Event": "Hotel", "Sort": "Alarm"}
    web.act(Action("Hotkey", keys=("ctrl", "a")))
    web.act(Action("Type", content="Map"))
    press(web, "Save")
    assert web.state()["apps"]["tasks-en"]["lists"]["tasks"] == ["Bill", "Route", "Call", "Map"]
    web.act(Action("SelectOption", index=9))
    assert "no option 9" in (web.note() or "")


def test_a_key_without_a_name_is_an_error(web: WebSession) -> None:
    web.reset(task("tasks-en"))
    with pytest.raises(ActionError, match="no key 'foo'"):
        web.act(Action("Hotkey", keys=("ctrl", "foo")))


def test_addresses_lead_to_sites_and_back(web: WebSession) -> None:
    web.reset(task("store-en"))
    press(web, "Cart")
    web.act(Action("GetUrl"))
    assert web.note() == "https://store-en.test/cart"
    web.act(Action("PressBack"))
    assert web.state()["view"]["screen"] == "start"
    web.act(Action("PressBack"))
    assert web.state()["foreground"] == "store-en", "a browser has no launcher"
    web.act(Action("Launch", content="docs-en.test/settings"))
    assert (web.state()["foreground"], web.state()["view"]["screen"]) == ("docs-en", "settings")
    web.act(Action("Launch", content="https://docs-en.test/nowhere"))
    assert web.note() == "https://docs-en.test/nowhere: not found"


@pytest.mark.parametrize("url", ["https://example.org/", "file:///etc/passwd", "chrome://version", "javascript:1", ""])
def test_what_is_not_on_the_allow_list_is_refused(web: WebSession, url: str) -> None:
    web.reset(task("store-en"))
    before = web.digest()
    web.act(Action("Launch", content=url))
    assert "refused" in (web.note() or "")
    assert web.digest() == before
    assert web.browser.refused[-1].rstrip("/").endswith(url.rstrip("/"))


def test_notes_scrolling_and_hovering(chromium: Chromium) -> None:
    site = LONG.model_copy(update={"platform": "web"})
    with WebSession(SIZE, chromium, specs={"long": site}) as session:
        session.reset(TaskContract("t", "web", "long", "en", ""))
        for direction, scroll in (("down", 96), ("down", 192), ("up", 96), ("up", 0), ("up", 0)):
            session.act(Action("Scroll", point=(500, 500), direction=direction))
            assert session.state()["view"]["scroll"] == scroll
        session.act(Action("Swipe", point=(500, 750), end=(500, 250)))
        assert session.state()["view"]["scroll"] == 96
        before = session.digest()
        session.act(Action("Hover", point=where(session, "Note5")))
        session.act(Action("Wait"))
        assert session.digest() == before
        session.act(Action("TakeNote", content="seven"))
        assert session.state()["notes"] == ["seven"]


def test_an_allowed_site_is_driven_like_any_page(web: WebSession, site: Site) -> None:
    web.reset(task("store-en"))
    press(web, "Cart")
    left = web.observe()
    web.act(Action("Launch", content=f"{site.origin}/staging"))
    assert web.state()["title"] == "Staging"
    (button,) = web.elements()
    assert (button.label, button.kind, button.visible) == ("Save", "button:submit", True)
    press(web, "Save")
    state = web.state()
    assert (state["url"], state["title"], state["tabs"]) == (f"{site.origin}/staging", "Pressed", 1)
    web.act(Action("GetUrl"))
    assert web.note() == f"{site.origin}/staging"
    web.act(Action("PressBack"))
    assert (web.state()["view"]["screen"], web.observe()) == ("cart", left)
    web.act(Action("Launch", content=f"{site.origin}/staging"))
    web.reset(task("store-en"))
    assert web.state()["view"]["screen"] == "start"


def real(site: Site, path: str, **resources: Any) -> TaskContract:
    """A task that starts on a page of the site."""
    return TaskContract("t", "web", site.origin + path, "en", "", resources=resources)


def middle(session: WebSession, kind: str) -> tuple[int, int]:
    """The middle of the first element of a kind."""
    found = next(element for element in session.elements() if element.kind == kind and element.visible)
    return from_pixel(*found.center, *SIZE)


def test_a_task_starts_on_a_real_page_without_the_cookies_of_the_last(web: WebSession, site: Site) -> None:
    for _ in range(2):
        web.reset(real(site, "/cookie"))
        assert web.state()["title"] == "none"
    web.act(Action("Launch", content=f"{site.origin}/cookie"))
    assert web.state()["title"] == "a=1"


def test_a_real_form_is_filled_in_and_sent(web: WebSession, site: Site) -> None:
    web.reset(real(site, "/form"))
    empty = web.digest()
    web.act(Action("Click", point=middle(web, "input:text")))
    web.act(Action("Type", content="Ada"))
    web.act(Action("Click", point=middle(web, "select:select-one")))
    assert web.note() == "0: Small\n1: None\n2: Large"
    web.act(Action("SelectOption", index=1))
    assert "no option 1" in (web.note() or ""), "it is disabled"
    web.act(Action("SelectOption", index=2))
    assert web.state()["fields"] == {"who": "Ada", "files": [], "size": "Large"}
    assert web.digest() != empty
    snapshot, seen = web.snapshot(), web.digest()
    web.act(Action("Click", point=middle(web, "button:submit")))
    assert web.state()["url"] == f"{site.origin}/sent?who=Ada&files=&size=Large"
    web.act(Action("PressBack"))
    assert web.state()["url"] == f"{site.origin}/form"
    web.act(Action("PressBack"))
    assert web.state()["url"] in ("about:blank", f"{site.origin}/form")
    web.restore(snapshot)
    assert web.digest() == seen


def test_uploads_come_from_the_sessions_folder_and_downloads_land_there(web: WebSession, site: Site) -> None:
    web.reset(real(site, "/form", files={"cv.txt": "Ada", "../letter.txt": "Dear"}))
    before = web.state()["files"]
    assert list(before) == ["cv.txt", "letter.txt"]
    web.act(Action("Click", point=middle(web, "input:file")))
    assert web.note() == "choose files with Type, one name a line:\ncv.txt\nletter.txt"
    web.act(Action("Type", content="/etc/passwd"))
    assert web.note() == "no file /etc/passwd; there are: cv.txt, letter.txt"
    web.act(Action("Type", content="cv.txt\nletter.txt"))
    assert web.state()["fields"]["files"] == ["cv.txt", "letter.txt"]
    web.act(Action("Launch", content=f"{site.origin}/tabs"))
    for link, name in (("Get", "report.csv"), ("Get", "report (1).csv"), ("Sheet", "sheet.csv")):
        web.act(Action("Click", point=where(web, link)))
        assert web.note() == f"downloaded {name}"
    assert set(web.state()["files"]) == {*before, "report.csv", "report (1).csv", "sheet.csv"}
    assert (web.files / "report.csv").read_bytes() == b"a,b\n1,2\n"
    web.reset(task("store-en"))
    assert "files" not in web.state()


def test_new_tabs_are_followed_and_closed_by_back(web: WebSession, site: Site) -> None:
    for opener, path in (("Open", "/page"), ("Window", "/form")):
        web.reset(real(site, "/tabs"))
        web.act(Action("Click", point=where(web, opener)))
        state = web.state()
        assert (state["url"], state["tabs"]) == (site.origin + path, 2)
        assert web.observe().width == SIZE[0]
        web.act(Action("PressBack"))
        assert web.note() == "the tab is closed"
        state = web.state()
        assert (state["url"], state["tabs"]) == (f"{site.origin}/tabs", 1)


def test_dialogs_are_told_and_answered(web: WebSession, site: Site) -> None:
    web.reset(real(site, "/dialogs"))
    press(web, "Alert")
    assert (web.note(), web.state()["title"]) == ("alert: Saved", "alerted")
    press(web, "Confirm")
    assert (web.note() or "").startswith("confirm: Delete it?\nanswered Cancel")
    assert web.state()["title"] == "kept"
    web.act(Action("Hotkey", keys=("enter",)))
    assert (web.note(), web.state()["title"]) == ("confirm: Delete it?\nanswered OK", "deleted")
    press(web, "Prompt")
    assert web.state()["title"] == "nobody"
    web.act(Action("Type", content="Grace"))
    assert web.state()["title"] == "Grace"
    press(web, "Prompt")
    web.act(Action("Hotkey", keys=("enter",)))
    assert web.state()["title"] == "Ada"
    press(web, "Prompt")
    web.act(Action("Wait"))
    web.act(Action("Hotkey", keys=("enter",)))
    assert web.state()["title"] == "nobody", "only the next action answers"
    press(web, "Arm")
    web.act(Action("Launch", content=f"{site.origin}/page"))
    assert web.state()["title"] == "Staging"


def test_a_real_page_scrolls_and_is_still_when_looked_at(web: WebSession, site: Site) -> None:
    web.reset(real(site, "/long"))
    web.act(Action("Scroll", point=(500, 500), direction="down"))
    assert web.state()["scroll"] == [0, 96]
    assert web.observe() == web.observe()
    web.act(Action("Hotkey", keys=("end",)))
    assert web.state()["scroll"][1] > 1000


def test_a_redirect_out_is_the_agents_to_know_about(web: WebSession, site: Site, outside: Site) -> None:
    web.reset(real(site, "/page"))
    web.act(Action("Launch", content=f"{site.origin}/away?{outside.origin}/x"))
    assert "refused, not on the allow list" in (web.note() or "")
    web.act(Action("Launch", content=f"{site.origin}/form"))
    assert web.state()["title"] == "Form"
    assert outside.asked == []


def test_a_page_that_hangs_or_dies_is_infrastructure_and_the_next_reset_works(site: Site) -> None:
    with browser(allow=[site.origin], timeout=4) as chromium, WebSession(SIZE, chromium) as session:
        session.reset(real(site, "/dialogs"))
        with pytest.raises(InfrastructureError):
            press(session, "Loop")
        session.reset(real(site, "/page"))
        session.page.evaluate("setTimeout(() => { for (;;); }, 50)")
        session.page.wait_for_timeout(200)
        with pytest.raises(InfrastructureError):
            session.observe()
        session.reset(real(site, "/page"))
        for pid in chromium.pids():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(InfrastructureError):
            session.observe()
        session.reset(real(site, "/page"))
        with pytest.raises(InfrastructureError), chromium.guard("crash"):
            session.page.goto("chrome://crash")
        session.reset(real(site, "/page"))
        assert session.state()["title"] == "Staging"


def test_more_than_three_keys_are_no_hotkey(web: WebSession) -> None:
    web.reset(task("tasks-en"))
    with pytest.raises(ActionError, match="at most 3 keys"):
        web.act(Action("Hotkey", keys=("ctrl", "alt", "shift", "a")))


def test_forty_sites_in_nineteen_categories_open_at_every_address_of_their_menu(chromium: Chromium) -> None:
    full = {name: spec for name, spec in load_specs("full").items() if spec.platform == "web"}
    small = {name: spec for name, spec in load_specs("small").items() if spec.platform == "web"}
    assert len(full) >= 30
    assert len(full) + len(small) >= 40
    assert len({spec.category for spec in (*full.values(), *small.values())}) >= 19
    assert {spec.locale for spec in full.values()} == {"en", "zh"}
    with WebSession((1280, 720), chromium, specs=full) as session:
        session.reset(TaskContract("t", "web", "calder-en", "en", ""))
        for name, spec in full.items():
            assert len(spec.navigation) >= 3
            for entry in spec.navigation:
                session.act(Action("Launch", content=f"https://{name}.test/{entry.open}"))
                assert session.note() is None
                assert sum(element.visible for element in session.elements()) >= len(spec.navigation)
