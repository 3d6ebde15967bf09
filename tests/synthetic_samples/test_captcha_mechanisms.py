"""Moving parts and text fields of puzzles: the search for answers, geometry, and what the page does on real input."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.environments.chromium import browser, screenshot
from assets.synthetic_samples.captcha import drag_to_end, rotation, slider_puzzle, text_entry
from assets.synthetic_samples.captcha.entry import plain
from assets.synthetic_samples.captcha.latent import Facts, Puzzle, PuzzleType, draw_puzzle
from assets.synthetic_samples.captcha.mechanisms import (
    BEND,
    Control,
    Freedom,
    Mechanism,
    Motion,
    apart,
    bearing,
    crosses,
    off_leg,
    path_length,
    point_along,
    search,
    stations_along,
    turned,
)
from assets.synthetic_samples.captcha.page import FONT_SIZE, PAGE_CSS, puzzle_page, puzzle_screen, puzzle_style
from assets.synthetic_samples.captcha.settings import PuzzlePlatform, draw_setting
from assets.synthetic_samples.sheets import page_html, screen_html
from assets.synthetic_samples.themes import SPLITS

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENS: dict[PuzzlePlatform, tuple[int, int]] = {"web": (1280, 720), "mobile": (360, 800)}
FAMILIES = (text_entry, rotation, drag_to_end, slider_puzzle)
TYPES = {type.name: type for family in FAMILIES for type in family.TYPES}
MECHANISMS = {type.name: type for family in FAMILIES[1:] for type in family.TYPES}


def puzzle(type: PuzzleType, seed: int, difficulty: int = 3, platform: PuzzlePlatform = "web") -> Puzzle:
    split = SPLITS[seed % 2]
    return draw_puzzle(type, seed, draw_setting(random.Random(seed), split, platform, SCREENS[platform], difficulty))


# --- the search ------------------------------------------------------------------------------------------------------


def one_rail(period: float = 0) -> Mechanism:
    control = Control("rail", "slider", (0,), ((0, 0), (360, 0)))
    return Mechanism((400, 40), (Freedom(0, 0, 360, period),), (control,), ())


@given(st.sets(st.integers(0, 35), min_size=1, max_size=5), st.integers(0, 3))
def test_a_search_finds_the_best_of_every_run(tens: set[int], near: int) -> None:
    targets = [10 * ten for ten in tens]
    found = search(one_rail(), lambda values: min(abs(values[0] - target) for target in targets), near)
    assert found == sorted(targets)


@given(st.integers(0, 359), st.integers(0, 20))
def test_a_run_across_the_end_of_a_period_is_one(target: int, near: int) -> None:
    assert search(one_rail(360), lambda values: apart(values[0], target), near) == [target]


def test_of_equally_good_values_the_middle_is_taken() -> None:
    assert search(one_rail(), lambda values: 0 if 20 <= values[0] < 31 else 1, 0) == [25]
    assert search(one_rail(), lambda values: 1, 0) == []


# --- geometry --------------------------------------------------------------------------------------------------------

COORDINATES = st.floats(-500, 500, allow_subnormal=False)
POINTS = st.tuples(COORDINATES, COORDINATES)


@given(
    st.floats(1, 300, allow_subnormal=False),
    st.floats(0, 359, allow_subnormal=False),
    st.floats(-720, 720, allow_subnormal=False),
)
def test_a_turn_changes_the_bearing_by_its_degrees(radius: float, start: float, by: float) -> None:
    point = turned((0, -radius), (0, 0), start)
    assert apart(bearing((0, 0), point), start) < 1e-6
    assert apart(bearing((0, 0), turned(point, (0, 0), by)), start + by) < 1e-6


@given(POINTS, POINTS)
def test_a_leg_crosses_what_it_goes_through_and_not_what_lies_beyond(start: Any, end: Any) -> None:
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    assert crosses((start, end), (middle[0] - 1, middle[1] - 1, middle[0] + 1, middle[1] + 1))
    beyond = max(start[0], end[0]) + 1
    assert not crosses((start, end), (beyond, -1000, beyond + 10, 1000))


@given(
    st.lists(POINTS, min_size=2, max_size=5, unique=True),
    st.floats(0, 1, allow_subnormal=False),
    st.floats(0, 1, allow_subnormal=False),
)
def test_drags_from_station_to_station_follow_the_path(path: Any, one: float, other: float) -> None:
    length = path_length(path)
    ways = (one * length, other * length)
    places = stations_along(path, *ways)
    assert places[0] == pytest.approx(point_along(path, ways[0]), abs=1e-6)
    assert places[-1] == pytest.approx(point_along(path, ways[1]), abs=1e-6)
    for step in range(21):
        point = point_along(path, ways[0] + (ways[1] - ways[0]) * step / 20)
        assert min(off_leg(point, leg) for leg in pairwise(places)) <= BEND + 1e-6


def test_a_part_moves_as_its_motions_say() -> None:
    motions = (
        Motion("along", "part", 0, factor=2, path=((10, 10), (110, 10))),
        Motion("turn", "part", 1, vector=(0, 0)),
    )
    mechanism = Mechanism((200, 200), (Freedom(0, 0, 50), Freedom(0, 0, 360, 360)), (), motions)
    assert mechanism.place("part", [20, 90], (5, 0)) == pytest.approx((50, 15))
    assert mechanism.angle("part", [20, 450]) == 90
    assert Motion("move", "part", 0, factor=3, power=2, length=10, offset=1).amount(5) == pytest.approx(4.5)
    assert Motion("turn", "part", 0, factor=-4, limit=12).amount(100) == -12


def test_typed_text_is_compared_without_case_spaces_and_width() -> None:
    assert plain(" ａb 7：05") == plain("AB7:05")
    assert plain("天 地") == "天地" != plain("地天")


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_every_puzzle_of_either_split_and_platform_is_sound(name: str) -> None:
    for seed in range(6):
        drawn = puzzle(TYPES[name], seed, 1 + seed % 5, ("web", "mobile")[seed // 2 % 2])
        assert TYPES[name].solutions(drawn.facts) == [drawn.answer]
        assert drawn.actions()
        assert drawn.misses(random.Random(seed))


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_start_is_not_an_answer(name: str) -> None:
    for seed in range(6):
        mechanism = puzzle(MECHANISMS[name], seed, 1 + seed % 5).interaction
        assert isinstance(mechanism, Mechanism)
        off = [
            mechanism.freedoms[term.freedom].distance(mechanism.start[term.freedom], term.target) - term.tolerance
            for term in mechanism.terms
        ]
        assert max(off) > 8


def doubled(facts: Facts, name: str, **change: Any) -> Facts:
    """The facts with the first of their things a second time, changed."""
    more: Facts = copy.deepcopy(facts)
    more[name].append({**copy.deepcopy(more[name][0]), **change})
    return more


def test_a_second_way_to_be_right_is_found() -> None:
    """What makes a picture ambiguous is noticed by every kind of solver."""
    gaps = puzzle(MECHANISMS["one_gap"], 1).facts
    x = 70 if gaps["gaps"][0]["x"] > 150 else 270
    assert len(TYPES["one_gap"].solutions(doubled(gaps, "gaps", x=x))) == 2
    outline = puzzle(MECHANISMS["matching_outline"], 1).facts
    assert len(TYPES["matching_outline"].solutions(doubled(outline, "slots", spot=[1, 1]))) == 2
    bins = puzzle(MECHANISMS["colour_bins"], 1).facts
    slots = [{**slot, "fill": 0} for slot in bins["slots"]]
    items = [{**item, "fill": 0} for item in bins["items"]]
    assert len(TYPES["colour_bins"].solutions({**bins, "slots": slots, "items": items})) == len(slots) ** len(items)
    ranks = puzzle(TYPES["numbered_text"], 1).facts
    assert len(TYPES["numbered_text"].solutions(doubled(ranks, "glyphs"))) == 0
    sequence = {"glyphs": [{"text": text, "x": x} for x, text in enumerate(("2", "2", "2", "2", "?"))]}
    assert TYPES["next_number"].solutions(sequence) == ["2"]
    sequence = {"glyphs": [{"text": text, "x": x} for x, text in enumerate(("1", "2", "4", "8", "?"))]}
    assert TYPES["next_number"].solutions(sequence) == ["16"]
    lacking = {"glyphs": [{"text": text, "x": x} for x, text in enumerate("_")]}
    assert TYPES["missing_character"].solutions(lacking) == []


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("one hundred and one", "101"),
        ("nine thousand nine hundred and ninety nine", "9999"),
        ("four thousand and twelve", "4012"),
        ("三百零五", "305"),
        ("八千零四十", "8040"),
        ("一千二百", "1200"),
    ],
)
def test_spelled_numbers_are_read(words: str, value: str) -> None:
    spelled = words.split() if words.isascii() else list(words)
    assert TYPES["spelled_number"].solutions({"words": spelled}) == [value]


# --- on the page -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as chromium:
        yield chromium.new_page(*SCREENS["web"])


def put(page: Page, drawn: Puzzle) -> tuple[float, float]:
    """Put a puzzle; returns where its frame is."""
    page.mouse.move(0, 0)
    page.set_content(puzzle_page([drawn]))
    return drawn.origin


def drag(page: Page, *points: tuple[float, float], release: bool = True) -> None:
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=4)
    if release:
        page.mouse.up()


def verdict(page: Page) -> str:
    answer: str = page.evaluate("captcha.state.rejections ? 'rejected' : captcha.state.verdict")
    return answer


def test_a_handle_can_be_held_and_moved_back_and_forth_before_it_is_released(page: Page) -> None:
    drawn = puzzle(TYPES["one_gap"], 4)
    x, y = put(page, drawn)
    (gesture,) = drawn.interaction.solution()
    (start, end) = [((box[0] + box[2]) / 2 + x, (box[1] + box[3]) / 2 + y) for box in gesture.boxes]
    drag(page, start, (end[0] + 40, end[1] + 30), (start[0] + 5, end[1] - 60), end, release=False)
    assert verdict(page) == "open"
    page.mouse.up()
    assert verdict(page) == "accepted"


@pytest.mark.parametrize("name", ["rail_with_corners", "curved_rail"])
@pytest.mark.parametrize("difficulty", range(1, 6))
def test_no_corner_or_bend_can_be_cut(page: Page, name: str, difficulty: int) -> None:
    drawn = puzzle(TYPES[name], 2, difficulty)
    x, y = put(page, drawn)
    stations = [(a + x, b + y) for a, b in drawn.facts["path"]]
    for way, expected in ((stations, "accepted"), ((stations[0], stations[-1]), "rejected")):
        put(page, drawn)
        drag(page, *way)
        page.click(".confirm")
        assert verdict(page) == expected


def test_what_touches_a_wall_goes_back_to_its_start(page: Page) -> None:
    drawn = puzzle(TYPES["around_the_wall"], 2)
    x, y = put(page, drawn)
    (start,), end, gap = drawn.facts["starts"], drawn.facts["end"], drawn.facts["gap"]
    stations = [(a + x, b + y) for a, b in (start, gap, end)]
    before = page.get_attribute('[data-part="piece0"]', "transform")
    drag(page, stations[0], stations[-1])
    assert page.get_attribute('[data-part="piece0"]', "transform") == before
    assert verdict(page) == "open"
    drag(page, *stations)
    page.click(".confirm")
    assert verdict(page) == "accepted"


def test_a_press_beside_the_parts_moves_nothing(page: Page) -> None:
    drawn = puzzle(TYPES["colour_bins"], 2)
    x, y = put(page, drawn)
    before = page.inner_html(".frame")
    drag(page, (x + 3, y + 3), (x + 200, y + 40))
    assert page.inner_html(".frame") == before
    assert verdict(page) == "open"


def test_a_confirmed_puzzle_can_be_put_right_before_it_is_confirmed(page: Page) -> None:
    drawn = puzzle(TYPES["focus"], 2)
    x, y = put(page, drawn)
    (gesture,) = drawn.interaction.solution()
    (start, end) = [((box[0] + box[2]) / 2 + x, (box[1] + box[3]) / 2 + y) for box in gesture.boxes]
    drag(page, start, (start[0] + 12, start[1]))
    drag(page, (start[0] + 12, start[1]), end)
    page.click(".confirm")
    assert verdict(page) == "accepted"


def test_text_is_entered_in_any_case_and_width(page: Page) -> None:
    drawn = puzzle(TYPES["arithmetic"], 2)
    for text, expected in ((f" {drawn.answer}", "accepted"), (f"{drawn.answer}0", "rejected"), ("", "rejected")):
        put(page, drawn)
        page.fill(".frame input", "".join(chr(ord(one) + 0xFEE0) if one.isdecimal() else one for one in text))
        page.press(".frame input", "Enter")
        assert verdict(page) == expected


def test_a_slider_turns_what_the_mechanism_says(page: Page) -> None:
    """The page and `Mechanism.place` agree where a part is."""
    drawn = puzzle(TYPES["slanted_way"], 2)
    mechanism = drawn.interaction
    assert isinstance(mechanism, Mechanism)
    x, y = put(page, drawn)
    (grip,) = mechanism.places()
    start = ((grip[0] + grip[2]) / 2 + x, (grip[1] + grip[3]) / 2 + y)
    drag(page, start, (start[0] + 100, start[1]), release=False)
    written = page.get_attribute('[data-part="piece0"]', "transform") or ""
    place = [float(number) for number in written.removeprefix("translate(").removesuffix(")").split()]
    assert place == pytest.approx(mechanism.place("piece0", [100]), abs=0.5)
    page.mouse.up()


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_picture_shows_the_start_before_the_script_runs(page: Page, name: str) -> None:
    drawn = puzzle(MECHANISMS[name], 3)
    put(page, drawn)
    shown = screenshot(page)
    still = screen_html((0, 0), puzzle_style(drawn), puzzle_screen(drawn))
    page.set_content(page_html(SCREENS["web"], PAGE_CSS, FONT_SIZE, still))
    assert screenshot(page) == shown


def test_a_mechanism_is_aimed_by_its_answer_alone() -> None:
    drawn = puzzle(TYPES["one_gap"], 2)
    aimed = TYPES["one_gap"].interaction(drawn.facts, [7])
    assert isinstance(aimed, Mechanism)
    assert [term.target for term in aimed.terms] == [7]
    assert replace(aimed, terms=()).rule()["terms"] == []
