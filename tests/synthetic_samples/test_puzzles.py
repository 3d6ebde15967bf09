"""Puzzles solved by real mouse input in Chromium: the page accepts solutions and rejects what misses them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from assets.environments.chromium import browser, screenshot
from assets.errors import ParameterError
from assets.synthetic_samples.puzzle_pages import PUZZLE_CSS, puzzle_html, puzzle_page
from assets.synthetic_samples.puzzles import ENGINES, Challenge, Item, Puzzle, draw_puzzle, is_sound, solutions
from assets.synthetic_samples.scenes import theme_style
from assets.synthetic_samples.sheets import decode_png, sheet_page
from assets.synthetic_samples.themes import SPLITS

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREEN = (192, 192)
Point = tuple[float, float]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as chromium:
        yield chromium.new_page(*SCREEN)


def puzzles(type: str, count: int, screen: tuple[int, int] = SCREEN) -> list[Puzzle]:
    return [draw_puzzle(random.Random(f"{type}/{index}"), type, SPLITS[index % 2], screen) for index in range(count)]


def verdict(page: Page, puzzle: Puzzle, challenge: Challenge, clicks: list[Point], drag: list[Point]) -> str | None:
    page.mouse.move(0, 0)
    page.set_content(puzzle_page(puzzle, challenge, SCREEN, 13))
    for x, y in clicks:
        page.mouse.click(x, y)
    if drag:
        page.mouse.move(*drag[0])
        page.mouse.down()
        page.mouse.move(*drag[1], steps=3)
        page.mouse.up()
    answer: str | None = page.evaluate("document.querySelector('.screen').dataset.verdict ?? null")
    return answer


@pytest.mark.parametrize("type", [name for name, engine in ENGINES.items() if engine.legal == ("Click",)])
def test_clicks(page: Page, type: str) -> None:
    for puzzle in puzzles(type, 3):
        for challenge in puzzle.challenges[:2]:
            boxes = [puzzle.items[index].box for index in challenge.clicks]
            middles = [puzzle.items[index].centre for index in challenge.clicks]
            assert verdict(page, puzzle, challenge, middles, []) == "accepted"
            corners: list[Point] = [(x0 + 1, y1 - 2) for x0, _, _, y1 in boxes]
            assert verdict(page, puzzle, challenge, corners, []) == "accepted"
            if len(middles) > 1:
                assert verdict(page, puzzle, challenge, middles[:-1], []) is None
                assert verdict(page, puzzle, challenge, middles[::-1], []) == "rejected"
            others = [
                item.centre for index, item in enumerate(puzzle.items) if item.label and index != challenge.clicks[0]
            ]
            assert verdict(page, puzzle, challenge, [others[0], *middles], []) == "rejected"
            x0, y0, x1, _ = boxes[0]
            beside = (x0 - 2, y0 + 8) if x0 > 2 else (x1 + 1, y0 + 8)
            assert verdict(page, puzzle, challenge, [beside, *middles], []) == "rejected"


@pytest.mark.parametrize("type", [name for name, engine in ENGINES.items() if engine.legal == ("Drag",)])
def test_drags(page: Page, type: str) -> None:
    for puzzle in puzzles(type, 5):
        challenge = puzzle.challenges[0]
        assert challenge.drag is not None
        handle = puzzle.items[challenge.drag.handle]
        x0, y0, x1, y1 = challenge.drag.end_box()
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        corner = (handle.x + 1, handle.box[3] - 2)
        for start, end in ((handle.centre, middle), (corner, (x0 + 1, y0 + 1)), (corner, (x1 - 2, y1 - 2))):
            assert verdict(page, puzzle, challenge, [], [start, end]) == "accepted", (puzzle, start, end)
        misses = [(x0 - 2, middle[1]), (x1 + 2, middle[1]), (middle[0], y0 - 2), (middle[0], y1 + 2)]
        on_screen = [(x, y) for x, y in misses if 0 <= x < SCREEN[0] and 0 <= y < SCREEN[1]]
        assert on_screen
        for end in on_screen:
            assert verdict(page, puzzle, challenge, [], [handle.centre, end]) == "rejected", (puzzle, end)
        beside = (handle.x - 2, handle.y - 2) if min(handle.x, handle.y) > 2 else (handle.box[2] + 2, handle.y)
        assert verdict(page, puzzle, challenge, [], [beside, middle]) == "rejected"
        assert verdict(page, puzzle, challenge, [handle.centre], []) == "rejected"


def test_the_page_of_a_puzzle_looks_like_its_picture(page: Page) -> None:
    drawings = [puzzle for type in ENGINES for puzzle in puzzles(type, 2)]
    with sheet_page(SCREEN, (6, 3), PUZZLE_CSS, 13) as sheet:
        pictures = sheet.draw([(theme_style(puzzle.theme), puzzle_html(puzzle)) for puzzle in drawings])
    for puzzle, picture in zip(drawings, pictures, strict=True):
        page.set_content(puzzle_page(puzzle, puzzle.challenges[0], SCREEN, 13))
        # Curves are smoothed a little differently at another place of a page; nothing else may differ.
        differing = (decode_png(screenshot(page)) != picture.pixels).any(axis=2).mean()
        assert differing < 0.005, puzzle.type
        labelled = [item for item in puzzle.items if item.label]
        assert [element.label for element in picture.elements] == [item.label for item in labelled]
        assert [element.box for element in picture.elements] == [item.box for item in labelled]


@pytest.mark.parametrize("type", ENGINES)
@pytest.mark.parametrize("screen", [SCREEN, (360, 640)])
def test_every_puzzle_is_sound(type: str, screen: tuple[int, int]) -> None:
    for puzzle in puzzles(type, 50, screen):
        assert is_sound(puzzle, screen)
        instructions = [challenge.instruction for challenge in puzzle.challenges]
        assert len(set(instructions)) == len(instructions) > 0


def test_an_ambiguous_puzzle_is_not_sound() -> None:
    for type in ("text_click_order", "icon_click_order", "colour_click", "size_click", "one_click"):
        (puzzle,) = puzzles(type, 1)
        twin = puzzle.items[puzzle.challenges[0].clicks[0]]
        doubled = replace(puzzle, items=(*puzzle.items, replace(twin, x=192 - twin.width, y=192 - twin.height)))
        assert not is_sound(doubled, SCREEN), type


def test_a_solved_or_impossible_drag_is_not_sound() -> None:
    (puzzle,) = puzzles("slider_puzzle", 1)
    (challenge,) = puzzle.challenges
    assert challenge.drag is not None
    start = puzzle.items[challenge.drag.handle].centre
    for target in (start, (400.0, start[1])):
        wrong = replace(challenge, drag=replace(challenge.drag, target=target))
        assert not is_sound(replace(puzzle, challenges=(wrong,)), SCREEN)


def test_solutions_are_worked_out_from_the_items() -> None:
    def shape(name: str, size: int, fill: int) -> Item:
        return Item("shape", name, 0, 0, size, size, name, fill)

    items = [shape("star", 24, 0), shape("star", 48, 1), shape("circle", 48, 1), shape("star", 32, 0)]
    assert solutions(items, "largest", ("star",)) == [(1,)]
    assert solutions(items, "smallest", ("star",)) == [(0,)]
    assert solutions(items, "colour", ("0", "star")) == [(0,), (3,)]
    assert solutions(items, "click_order", ("circle", "star")) == [(2, 0), (2, 1), (2, 3)]
    assert solutions(items, "different", ()) == [(1,), (2,)]


def test_a_screen_too_small_is_an_error() -> None:
    with pytest.raises(ParameterError, match="slider_puzzle"):
        draw_puzzle(random.Random(0), "slider_puzzle", "train", (96, 96))
