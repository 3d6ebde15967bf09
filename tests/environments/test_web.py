"""The web: the browser's actions on simulated sites and on an allowed real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assets.agent.actions import Action, ActionError
from assets.environments.chromium import Chromium
from assets.environments.task import TaskContract
from assets.environments.web import WebSession
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
    assert web.state() == {"url": f"{site.origin}/staging", "title": "Pressed", "answer": None, "notes": [], "album": 0}
    web.act(Action("GetUrl"))
    assert web.note() == f"{site.origin}/staging"
    web.act(Action("PressBack"))
    assert (web.state()["view"]["screen"], web.observe()) == ("cart", left)
    web.act(Action("Launch", content=f"{site.origin}/staging"))
    web.reset(task("store-en"))
    assert web.state()["view"]["screen"] == "start"
