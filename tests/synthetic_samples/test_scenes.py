"""Grounding targets proven by acting: real clicks in Chromium, and a search of the page's text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from assets.synthetic_samples.scenes import GRID, SCENE_CSS, TEMPLATES, Scene, draw_scene, scene_html, scene_style
from assets.synthetic_samples.sheets import Drawn, SheetPage, sheet_page
from assets.synthetic_samples.themes import SPLITS, Split

SCREEN = (192, 192)
TILES = (6, 4)
LISTEN = """() => {
  window.fired = [];
  document.addEventListener("click", (event) => {
    event.preventDefault();
    const target = event.target.closest("[data-kind]");
    const screens = [...document.querySelectorAll(".screen")];
    const name = target && (target.getAttribute("aria-label") ?? target.textContent.trim());
    window.fired.push([screens.indexOf(event.target.closest(".screen")), name]);
  });
}"""
TEXTS = """() => [...document.querySelectorAll(".screen")].map((screen) => {
  const walker = document.createTreeWalker(screen, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode.textContent.trim());
  return [...texts, ...[...screen.querySelectorAll("input")].map((input) => input.placeholder)];
})"""


def scenes(split: Split, count: int, seed: int, screen: tuple[int, int] = SCREEN) -> list[Scene]:
    rng = random.Random(seed)
    return [
        draw_scene(rng, split, screen, (4, 7), 0.4, 0.2, {"en": 1.0, "zh": 1.0, "mixed": 1.0}) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def page() -> Iterator[SheetPage]:
    with sheet_page(SCREEN, TILES, SCENE_CSS, 13) as page:
        page.page.evaluate(LISTEN)
        yield page


def draw(page: SheetPage, drawings: list[Scene]) -> list[Drawn]:
    return page.draw([(scene_style(scene), scene_html(scene)) for scene in drawings])


def fired(page: SheetPage, x: float, y: float) -> Any:
    page.page.evaluate("window.fired = []")
    page.page.mouse.click(x, y)
    (event,) = page.page.evaluate("window.fired")
    return event


@pytest.mark.parametrize("split", SPLITS)
def test_a_real_click_reaches_the_target_and_a_miss_does_not(page: SheetPage, split: Split) -> None:
    clicked = 0
    for index, drawn in enumerate(draw(page, scenes(split, 24, seed=1))):
        left, top = index % TILES[0] * SCREEN[0], index // TILES[0] * SCREEN[1]
        for element in drawn.elements:
            if not element.target:
                continue
            x0, y0, x1, y1 = element.box
            width, height = x1 - x0, y1 - y0
            corner_x, corner_y = random.Random(clicked).choice([(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)])
            for fx, fy in ((0.5, 0.5), (corner_x, corner_y)):
                assert fired(page, left + x0 + fx * width, top + y0 + fy * height) == [index, element.label]
            # Text that merely lies on a larger surface (a title on its bar) is no control: only controls must miss.
            if element.kind not in ("title", "link") and x1 + 2 < SCREEN[0]:
                assert fired(page, left + x1 + 1, top + y0 + height / 2) != [index, element.label]
            clicked += 1
    assert clicked > 100


@pytest.mark.parametrize("split", SPLITS)
def test_a_label_is_shown_once_and_an_absent_word_never(page: SheetPage, split: Split) -> None:
    drawings = scenes(split, 24, seed=2)
    drawn = draw(page, drawings)
    for scene, screen, texts in zip(drawings, drawn, page.page.evaluate(TEXTS), strict=True):
        for element in screen.elements:
            assert texts.count(element.label) == 1
        assert not set(scene.absent) & set(texts)


def test_all_targets_of_open_layouts_are_proven(page: SheetPage) -> None:
    for split in SPLITS:
        for scene, drawn in zip(*(lambda s: (s, draw(page, s)))(scenes(split, 24, seed=3)), strict=True):
            if scene.template not in ("dialog", "sheet"):
                assert all(element.target for element in drawn.elements), scene


def test_what_a_dialog_covers_is_no_target(page: SheetPage) -> None:
    dialogs = [scene for scene in scenes("train", 200, seed=4) if scene.template == "dialog"][:6]
    assert len(dialogs) == 6
    for scene, drawn in zip(dialogs, draw(page, dialogs), strict=True):
        shade = [control.kind for control in scene.controls].index("shade")
        below = {control.label for control in scene.controls[:shade]}
        assert below
        assert not {element.label for element in drawn.elements if element.target} & below


def test_templates_belong_to_one_split() -> None:
    train, heldout = ({TEMPLATES[split][0], *TEMPLATES[split][1]} for split in SPLITS)
    assert not train & heldout


@pytest.mark.parametrize("screen", [SCREEN, (360, 640), (1280, 720)])
def test_controls_start_on_the_grid_inside_the_screen(screen: tuple[int, int]) -> None:
    for split in SPLITS:
        for scene in scenes(split, 200, seed=5, screen=screen):
            labels = [control.label for control in scene.controls if control.label]
            assert len(labels) >= 4
            assert len(set(labels)) == len(labels)
            for control in scene.controls:
                assert control.x % (GRID // 2) == control.y % (GRID // 2) == 0, scene.template
                assert control.x >= 0
                assert control.y >= 0
                assert control.x + control.width <= screen[0]
                assert control.y + control.height <= screen[1]
