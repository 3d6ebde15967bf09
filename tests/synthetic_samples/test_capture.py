"""What one browser pass says of a page made by hand, and that clicks prove it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from assets.errors import InfrastructureError
from assets.synthetic_samples.capture import Capture, InterfacePage, Node, interface_page
from tests.synthetic_samples.acting import act
from tests.synthetic_samples.interface_pages import SETTINGS, page

SIZE = (800, 600)
PLACE = "position:absolute;left:10px;top:10px;width:60px;height:30px;"
BUTTON = f'<button style="{PLACE}background:#fff;border:1px solid #888;padding:0">Save</button>'

LONG = BUTTON.replace("Save", "Save everything here")


@pytest.fixture(scope="module")
def browser() -> Iterator[InterfacePage]:
    with interface_page() as opened:
        yield opened


def control(browser: InterfacePage, body: str) -> Node:
    captured = browser.capture(page(body), SIZE)
    return next(node for node in captured.nodes if node.kind == "control")


def named(captured: Capture, name: str) -> Node:
    return next(node for node in captured.nodes if node.kind == "control" and node.name == name)


def test_a_plain_button_is_a_target(browser: InterfacePage) -> None:
    found = control(browser, BUTTON)
    assert found.target
    assert (found.role, found.name, found.text, found.box) == ("button", "Save", "Save", (10, 10, 70, 40))


@pytest.mark.parametrize(
    ("case", "body"),
    [
        ("covered at one corner", BUTTON + f'<i style="{PLACE}left:55px;top:30px"></i>'),
        ("transparent", BUTTON.replace("background", "opacity:0.0001;color:#fff;border:0;background")),
        ("partly off the screen", BUTTON.replace("left:10px", "left:-5px")),
        ("scrolled out of its container", f'<div style="height:30px;overflow:auto;position:relative">{BUTTON}</div>'),
        ("deaf to clicks", BUTTON.replace("background", "pointer-events:none;background")),
        ("not painted", BUTTON.replace("border:1px solid #888", "border:0;color:#fff")),
        ("its text cut off", LONG.replace("border", "white-space:nowrap;border")),
        ("its text with an ellipsis",
            LONG.replace("border", "white-space:nowrap;overflow:hidden;text-overflow:ellipsis;border")),
        ("disabled", BUTTON.replace("<button", "<button disabled")),
        ("sticks out of its box", BUTTON.replace("Save", f'Save<i style="{PLACE}left:62px;top:9px">.</i>')),
        ("too small", BUTTON.replace("width:60px", "width:3px")),
        ("nothing but its ground", '<img alt="" src="data:image/svg+xml,<svg xmlns=%22http://www.w3.org/2000/svg%22>'
            f'<circle r=%2240%22/></svg>" style="{PLACE}"><button style="{PLACE}background:none;border:0"></button>'),
    ],
)  # fmt: skip
def test_what_is_no_target(browser: InterfacePage, case: str, body: str) -> None:
    assert not control(browser, body).target, case


def test_the_box_of_a_link_is_its_text(browser: InterfacePage) -> None:
    found = control(browser, '<p style="margin:0;width:500px"><a href="#">Terms of use</a></p>')
    x0, _, x1, y1 = found.box
    assert found.target
    assert x0 == 0
    assert 60 < x1 < 120
    assert y1 <= 20


def test_a_box_is_the_inner_one_of_two_controls(browser: InterfacePage) -> None:
    captured = browser.capture(
        page(f'<div role="option" tabindex="0" style="{PLACE}width:300px">Mail <button>Reply</button></div>'), SIZE
    )
    outer, inner = (node for node in captured.nodes if node.kind == "control")
    assert (outer.texts, inner.texts) == (("Mail",), ("Reply",))
    assert inner.target


def test_names_states_and_groups_are_those_of_the_accessibility_tree(browser: InterfacePage) -> None:
    captured = browser.capture(SETTINGS, SIZE)
    location = named(captured, "Location")
    assert (location.role, location.state) == ("switch", {"checked": "true"})
    assert captured.groups[location.groups[0]].name == "Privacy"
    asking = named(captured, "Ask first")
    assert (asking.role, asking.state, asking.target) == ("checkbox", {"checked": "true"}, True)
    assert named(captured, "Alerts").icons == ("bell",)
    assert named(captured, "Remove").function == "remove the profile"
    assert "disabled" in named(captured, "Reset").state
    assert named(captured, "Name").texts == ("Ada",)
    assert named(captured, "Search settings").texts == ("Search settings",)
    assert {captured.groups[number].name for number in captured.named_groups} == {"Privacy", "Sound"}
    assert set(captured.row_titles.values()) == {"Phone", "Laptop"}


def test_an_icon_without_a_name_is_known_by_its_drawing(browser: InterfacePage) -> None:
    captured = browser.capture(SETTINGS, SIZE)
    assert [node.kind for node in captured.index["icon", "bin"]] == ["control", "icon"]


def test_clicks_in_the_box_reach_the_target_and_clicks_beside_it_do_not(browser: InterfacePage) -> None:
    captured = browser.capture(SETTINGS, SIZE)
    clicked = list(act(browser, captured.nodes, captured.targets))
    assert len(clicked) > 14
    assert [it.target.name for it in clicked if not it.true] == []


def test_a_page_does_not_hear_of_the_clicks(browser: InterfacePage) -> None:
    heard = "<script>window.heard = 0; document.addEventListener('click', () => { window.heard += 1; })</script>"
    captured = browser.capture(SETTINGS.replace("</body>", f"{heard}</body>"), SIZE)
    assert any(node.role == "checkbox" for node in captured.targets), "clicked by way of its label too"
    assert all(it.true for it in act(browser, captured.nodes, captured.targets))
    assert browser.page.evaluate("window.heard") == 0


def test_clicks_prove_nothing_of_what_is_no_target(browser: InterfacePage) -> None:
    captured = browser.capture(page(BUTTON + f'<i style="{PLACE}left:55px;top:30px"></i>'), SIZE)
    (clicked,) = act(browser, captured.nodes, tuple(node for node in captured.nodes if node.kind == "control"))
    assert not clicked.true


def test_pages_do_not_disturb_each_other(browser: InterfacePage) -> None:
    alone = browser.capture(SETTINGS, SIZE)
    browser.capture(page(f"{BUTTON}<script>const once = 1; document.title = 'x'</script>"), SIZE)
    browser.capture(page(f"{BUTTON}<script>const once = 2;</script>"), (1280, 720))
    again = browser.capture(SETTINGS, SIZE)
    assert np.array_equal(again.pixels, alone.pixels)
    assert again.nodes == alone.nodes


def test_a_browser_that_dies_is_a_failure_of_the_infrastructure_and_starts_again() -> None:
    with interface_page() as doomed:
        doomed.capture(SETTINGS, SIZE)
        doomed._chromium.kill()
        with pytest.raises(InfrastructureError):
            doomed.capture(SETTINGS, SIZE)
        assert doomed.capture(SETTINGS, SIZE).targets
