"""Instructions name exactly one element: every query is searched for on the living page, independent of `matches`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from assets.synthetic_samples.capture import Capture, InterfacePage, interface_page
from assets.synthetic_samples.instructions import instruction
from assets.synthetic_samples.perception_questions import perception_questions
from assets.synthetic_samples.queries import Query, absent_queries, matches, queries_for
from tests.synthetic_samples.interface_pages import SETTINGS, page, switch
from tests.synthetic_samples.searching import search

SIZE = (800, 600)
ICONS: dict[str, Any] = {
    name: {"en": name, "zh": words} for name, words in (("bell", "铃铛"), ("bin", "垃圾桶"), ("star", "星星"))
}


@pytest.fixture(scope="module")
def browser() -> Iterator[InterfacePage]:
    with interface_page() as opened:
        yield opened


@pytest.fixture
def settings(browser: InterfacePage) -> Capture:
    return browser.capture(SETTINGS, SIZE)


def asked(captured: Capture, name: str, row: str = "") -> set[str]:
    """Every English instruction that names a target, in its first wording."""
    target = next(
        node for node in captured.targets if node.name == name and captured.row_titles.get(node.row, "") == row
    )
    first = random.Random()
    first.choice = lambda options: options[0]  # type: ignore[method-assign, assignment]
    return {instruction(query, "en", ICONS, first) for query in queries_for(target, captured)}


def test_what_names_a_switch(settings: Capture) -> None:
    assert asked(settings, "Camera") == {
        'Click the switch for "Camera"',
        'Click the second switch under "Privacy"',
    }
    assert asked(settings, "Location") == {
        'Click the switch for "Location"',
        'Click the first switch under "Privacy"',
        'Click the switched-on switch under "Privacy"',
    }


def test_what_names_a_ticked_box(settings: Capture) -> None:
    assert asked(settings, "Ask first") >= {"Click the ticked checkbox", 'Click the checkbox for "Ask first"'}


def test_a_function_and_an_icon(settings: Capture) -> None:
    assert asked(settings, "Alerts") >= {
        "Show the alerts",
        "Click the bell icon",
        "Click the first button in the toolbar",
    }
    assert "Click the bin icon" not in asked(settings, "Remove"), "its drawing is on the page a second time"


def test_a_text_that_stands_twice_names_nothing(settings: Capture) -> None:
    assert 'Click "Privacy"' not in asked(settings, "Privacy")
    assert 'Click "About"' in asked(settings, "About")


def test_twins_are_told_apart_by_their_rows(settings: Capture) -> None:
    assert asked(settings, "Forget", "Laptop") == {
        'Click the button in the row "Laptop"',
        "Click the last button in the table",
        "Click the second button in the table",
    }


def test_every_query_means_one_element_of_the_living_page(browser: InterfacePage, settings: Capture) -> None:
    pairs = [(target, query) for target in settings.targets for query in queries_for(target, settings)]
    assert len(pairs) > 30
    for (target, query), found in zip(pairs, search(browser, [query for _, query in pairs]), strict=True):
        assert found == [target.index], query


def test_absent_queries_mean_nothing_on_the_living_page(browser: InterfacePage, settings: Capture) -> None:
    plausible = [Query("text", text="Bluetooth"), Query("text", text="sound"), Query("icon", icon="star"),
                 Query("icon", icon="bell"), Query("function", function="reset the profile"),
                 Query("function", function="Remove the profile")]  # fmt: skip
    found = absent_queries(settings, plausible, random.Random(1))
    assert {query for query in found if query.by in ("text", "icon", "function")} == {
        Query("text", text="Bluetooth"), Query("icon", icon="star"), Query("function", function="reset the profile")
    }  # fmt: skip
    assert Query("relation", role="switch", group="Privacy", ordinal=4) in found
    assert Query("relation", role="checkbox", group="Sound") in found
    assert not [query for query in found if query.state == ("checked", "true")], "some are on"
    assert search(browser, found) == [[] for _ in found]


def test_nothing_is_counted_out_of_reading_order(browser: InterfacePage) -> None:
    rows = switch("One", True) + switch("Two", False) + switch("Three", False)
    turned = f'<div style="display:flex;flex-direction:column-reverse">{rows}</div>'
    captured = browser.capture(page(f'<section aria-label="Net"><h2>Net</h2>{turned}</section>'), SIZE)
    for target in captured.targets:
        assert all(query.ordinal == 0 for query in queries_for(target, captured))


def test_a_group_that_goes_on_below_the_screen_has_no_last(browser: InterfacePage) -> None:
    rows = "".join(switch(f"Number {number}", False) for number in range(40))
    captured = browser.capture(page(f'<section aria-label="Net"><h2>Net</h2>{rows}</section>'), SIZE)
    ordinals = {query.ordinal for target in captured.targets for query in queries_for(target, captured)}
    assert ordinals == {0, 1, 2, 3, 4, 5, 6}
    assert not [query for query in absent_queries(captured, [], random.Random(1)) if query.ordinal]


@pytest.mark.parametrize("shows", [0.3, 20])
def test_a_row_of_which_a_fraction_of_a_pixel_shows_is_on_the_screen(browser: InterfacePage, shows: float) -> None:
    above = f'<div style="height:{SIZE[1] - 40 - shows}px"></div>'
    rows = "".join(f'<div style="height:40px">{switch(name, False)}</div>' for name in ("One", "Two"))
    captured = browser.capture(page(above + rows), SIZE)
    assert [node.name for node in captured.nodes if node.role == "switch"] == ["One", "Two"]


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_every_query_can_be_said_in_both_languages(settings: Capture, locale: Any) -> None:
    rng = random.Random(2)
    queries = [query for target in settings.targets for query in queries_for(target, settings)]
    queries += absent_queries(settings, [], rng)
    texts = [instruction(query, locale, ICONS, rng) for query in queries for _ in range(4)]
    assert all(text and "{" not in text for text in texts)
    if locale == "zh":
        # A function is said in the language of its page.
        own = [text for query, text in zip(queries, texts[::4], strict=True) if query.by != "function"]
        assert all(any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in own)


def test_what_is_said_in_chinese(settings: Capture) -> None:
    first = random.Random()
    first.choice = lambda options: options[0]  # type: ignore[method-assign, assignment]
    said = [
        (Query("text", text="关于"), "点击“关于”"),
        (Query("icon", icon="bell"), "点击铃铛图标"),
        (Query("relation", role="switch", name="相机"), "点击“相机”的开关"),
        (Query("relation", role="button", row="手机"), "点击“手机”这一行的按钮"),
        (Query("relation", role="switch", group="隐私", ordinal=2), "点击“隐私”下第二个开关"),
        (Query("relation", role="button", group_role="toolbar", ordinal=-1), "点击工具栏里最后一个按钮"),
        (Query("state", role="checkbox", group="隐私", state=("checked", "true")), "点击“隐私”下已勾选的复选框"),
        (Query("state", role="checkbox", state=("checked", "true")), "点击已勾选的复选框"),
    ]
    for query, words in said:
        assert instruction(query, "zh", ICONS, first) == words


def test_perception_questions_have_the_answers_of_the_page(settings: Capture) -> None:
    questions = perception_questions(settings, "en", ICONS, 500, random.Random(3))
    by_kind: dict[str, set[str]] = {}
    for question in questions:
        by_kind.setdefault(question["kind"], set()).add(question["answer"])
        assert question["response"].startswith("<action>Answer(content='")
    assert by_kind["icon"] == {"bell", "bin"}
    assert {"Privacy", "Location", "Ada", "Search settings"} <= by_kind["text"]
    assert by_kind["state"] == {"on", "off", "ticked", "not ticked"}
    assert by_kind["count"] == {"2", "3"}
    assert {"Privacy", "Sound", "Sections", "Tools"} <= by_kind["region"]
    assert len({(question["instruction"], question["answer"]) for question in questions}) == len(questions)


def test_search_and_matches_agree_where_a_query_means_many(browser: InterfacePage, settings: Capture) -> None:
    for query in (
        Query("text", text="Privacy"),
        Query("text", text="Forget"),
        Query("icon", icon="bin"),
        Query("relation", role="switch"),
        Query("state", role="switch", state=("checked", "true")),
    ):
        found = [node.index for node in matches(query, settings)]
        assert len(found) > 1
        assert search(browser, [query]) == [found]
