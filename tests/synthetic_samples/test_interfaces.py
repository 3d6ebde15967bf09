"""Interfaces: two splits that share nothing, documents that work, and pages that say what they are."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import combinations
from typing import Any

import pytest

from assets.environments.chromium import Chromium, browser
from assets.synthetic_samples.interfaces.lexicon import Text, actions, domains, icon_words, people, words
from assets.synthetic_samples.interfaces.looks import DENSITIES, ICON_SETS, THEMES, icon_set, interface_themes
from assets.synthetic_samples.interfaces.scene import (
    PLATFORMS,
    TEMPLATES,
    Interface,
    Platform,
    SceneDescription,
    SceneParameters,
    Template,
    describe,
    interface,
    interface_html,
)
from assets.synthetic_samples.themes import SPLITS, Split

SCREENS: dict[Platform, list[tuple[int, int]]] = {
    "phone": [(360, 780), (1080, 2400)],
    "web": [(1280, 720), (1920, 1080), (3840, 2160)],
    "desktop": [(1280, 720), (1920, 1080), (3840, 2160)],
}


def parameters(**changed: Any) -> SceneParameters:
    values: dict[str, Any] = {
        "platforms": dict.fromkeys(PLATFORMS, 1.0),
        "screens": SCREENS,
        "locales": {"en": 1.0, "zh": 1.0},
        "densities": dict.fromkeys(DENSITIES, 1.0),
        "font_sizes": (12, 15),
        "overlay_share": 0.2,
    }
    return SceneParameters.model_validate({**values, **changed})


def scene_of(template: Template, seed: int, **changed: Any) -> SceneDescription:
    """A scene that this template draws."""
    rng = random.Random(f"{template.name} {seed}")
    while True:
        scene = describe(rng, template.split, parameters(platforms={template.platform: 1.0}, **changed))
        if scene.template == template.name:
            return scene


@cache
def drawn(split: Split, count: int) -> list[Interface]:
    rngs = [random.Random(f"{split} {seed}") for seed in range(count)]
    return [interface(rng, describe(rng, split, parameters(screens={**SCREENS, **SMALL}))) for rng in rngs]


SMALL: dict[Platform, list[tuple[int, int]]] = {"web": [(1280, 720)], "desktop": [(1280, 720)]}


class Said(HTMLParser):
    """Every text and name in a document."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: set[str] = set()
        self._code = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code = tag in ("style", "script", "code")
        said = ("aria-label", "placeholder", "title", "value", "data-function")
        self.texts |= {value for name, value in attrs if value and name in said}

    def handle_endtag(self, tag: str) -> None:
        self._code = tag in ("span",) and self._code

    def handle_data(self, data: str) -> None:
        if not self._code and data.strip():
            self.texts.add(data.strip())


# --- from a seed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda it: it.name)
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(template: Template) -> None:
    scene = scene_of(template, 1)
    first, again, other = (interface(random.Random(seed), scene) for seed in (5, 5, 6))
    assert first == again
    assert first.html != other.html


def test_no_two_seeds_look_alike() -> None:
    said = [Said(it.html).texts for it in drawn("train", 30)]
    for one, other in combinations(said, 2):
        assert len(one & other) < 0.75 * min(len(one), len(other))


def test_a_scene_is_told_in_words() -> None:
    scene = scene_of(TEMPLATES[0], 1)
    assert scene.theme in scene.words()
    assert "3840x2160" in SceneDescription(**{**scene.__dict__, "screen": (3840, 2160)}).words()


def test_parameters_without_a_screen_for_a_platform_are_refused() -> None:
    with pytest.raises(ValueError, match="no screen for web"):
        parameters(screens={"phone": [(360, 780)], "desktop": [(1280, 720)]})


# --- splits ----------------------------------------------------------------------------------------------------------


def test_there_is_enough_of_everything() -> None:
    train, heldout = ([it for it in TEMPLATES if it.split == split] for split in SPLITS)
    assert len(train) >= 12
    assert len(heldout) >= 6
    for group in (train, heldout):
        assert sum(it.professional for it in group) * 2 >= len(group)
        assert {it.platform for it in group} == set(PLATFORMS)
    assert len(interface_themes("train")) >= 6
    assert len(interface_themes("heldout")) >= 3
    for split in SPLITS:
        assert {theme.dark for theme in interface_themes(split)} == {True, False}
    assert len(domains("train")) >= 10


def test_templates_themes_icon_sets_and_domains_belong_to_one_split() -> None:
    for names in (
        [template.name for template in TEMPLATES],
        [theme.name for theme in THEMES],
        [name for split in SPLITS for name in ICON_SETS[split]],
        [domain.key for split in SPLITS for domain in domains(split)],
    ):
        assert len(set(names)) == len(names)


def test_no_text_belongs_to_both_splits() -> None:
    train, heldout = (texts(split) for split in SPLITS)
    assert len(train) > 2000
    assert not train & heldout


def texts(split: Split) -> set[str]:
    """Every text that screens of the split can show, in both languages."""
    pairs: list[Text] = [*words(split).values(), *people(split)[0], *people(split)[1]]
    for action in actions(split).values():
        pairs += [action.label, action.function]
    for domain in domains(split):
        pairs += [*domain.labels(), *domain.notes, domain.name, domain.item, *domain.personas]
        pairs += [*domain.apps, *domain.heads, *domain.tails]
        pairs += [action.function for action in domain.actions]
    return {said.casefold() for pair in pairs for said in pair.values()}


NEUTRAL = re.compile(r"[\W\d_]*(?:[A-Za-zµ年月日]{1,4}(?:[\W\d_]+|$))*")
"""Numbers with units, dates, codes, single letters: words of four letters at most."""


def test_drawn_screens_of_the_splits_share_no_words() -> None:
    train, heldout = (
        {said for it in drawn(split, 30) for said in Said(it.html).texts if not NEUTRAL.fullmatch(said)}
        for split in SPLITS
    )
    assert len(train) > 1000
    assert len(heldout) > 1000
    assert not train & heldout


def test_every_icon_is_in_every_set_and_has_words() -> None:
    for names in ICON_SETS.values():
        for name in names:
            assert set(icon_set(name).drawings) == set(icon_words())
    for split in SPLITS:
        used = {action.icon for domain in domains(split) for action in domain.actions}
        used |= {action.icon for action in actions(split).values()}
        assert used <= set(icon_words())


# --- what is not shown -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_what_is_absent_is_nowhere_on_the_page(split: Split) -> None:
    for it in drawn(split, 30):
        everything = "\n".join(Said(it.html).texts).casefold()
        assert len(it.absent) > 50
        assert {absent.kind for absent in it.absent} == {"label", "function", "icon"}
        for absent in it.absent:
            if absent.kind != "icon":
                assert absent.name.casefold() not in everything


# --- in a browser ----------------------------------------------------------------------------------------------------

LOOK = r"""() => {
  const CONTROLS = `button,a,input,[role="option"],[role="treeitem"],[role="gridcell"]`;
  const clipped = (element) => {
    let {left, top, right, bottom} = element.getBoundingClientRect();
    for (let it = element.parentElement; it; it = it.parentElement)
      if (getComputedStyle(it).overflow !== "visible") {
        const box = it.getBoundingClientRect();
        left = Math.max(left, box.left); right = Math.min(right, box.right);
        top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
      }
    return {left, top, right: Math.min(right, innerWidth), bottom: Math.min(bottom, innerHeight)};
  };
  const nameOf = (element) => (element.getAttribute("aria-label") || element.closest("label")?.textContent ||
    element.textContent || "").trim();
  const shown = [...document.querySelectorAll(CONTROLS)]
    .filter((element) => element.checkVisibility({visibilityProperty: true}))
    .map((element) => ({element, name: nameOf(element), ...clipped(element)}))
    .filter((it) => it.right - it.left >= 3 && it.bottom - it.top >= 3);
  const overlaps = [];
  shown.forEach((a, index) => shown.slice(index + 1).forEach((b) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1.5 && high > 1.5 && !a.element.contains(b.element) && !b.element.contains(a.element))
      overlaps.push(`${a.name} / ${b.name}`);
  }));
  return {
    count: shown.length,
    unnamed: shown.filter((it) => !it.name).map((it) => it.element.outerHTML.slice(0, 120)),
    overlaps: overlaps.slice(0, 5),
    smallest: Math.min(...shown.map((it) => (it.right - it.left) * (it.bottom - it.top))),
    icons: [...document.querySelectorAll("[data-icon]")].filter((it) => !it.querySelector("svg")).length,
    spill: document.documentElement.scrollWidth > innerWidth || document.body.scrollHeight > innerHeight,
  };
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with browser() as chromium:
        yield chromium


def every_size() -> Iterator[Any]:
    """Each template at each size; in the quick run each at one, every size among them."""
    for index, template in enumerate(TEMPLATES):
        screens = SCREENS[template.platform]
        for place, screen in enumerate(screens):
            marks = () if place == index % len(screens) else (pytest.mark.slow,)
            yield pytest.param(template, screen, marks=marks, id=f"{template.name}-{screen[0]}x{screen[1]}")


@pytest.mark.parametrize(("template", "screen"), list(every_size()))
def test_every_template_works_at_every_size(chromium: Chromium, template: Template, screen: tuple[int, int]) -> None:
    scene = scene_of(template, 3, screens={template.platform: [screen]}, overlay_share=0)
    page = chromium.new_page(*screen)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(interface_html(random.Random(3), scene))
    look = page.evaluate(LOOK)
    page.context.close()
    assert not complaints
    assert look["count"] >= 10
    assert not look["unnamed"]
    assert not look["overlaps"]
    assert not look["icons"]
    assert not look["spill"]
    if screen[1] >= 1080 and template.platform != "phone":
        assert look["smallest"] <= 0.001 * screen[0] * screen[1]


STATES = "aria-checked aria-selected aria-expanded aria-pressed".split()


@pytest.mark.parametrize("name", ["settings", "record_form", "file_manager", "booking_form"])
def test_controls_react_to_real_clicks(chromium: Chromium, name: str) -> None:
    template = next(it for it in TEMPLATES if it.name == name)
    scene = scene_of(template, 4, screens={template.platform: [SCREENS[template.platform][0]]}, overlay_share=0)
    page = chromium.new_page(*scene.screen)
    page.set_content(interface_html(random.Random(4), scene))
    reacted = 0
    for role in ("switch", "checkbox", "radio", "tab", "combobox", "option"):
        others = '[aria-checked="true"],[aria-selected="true"]' if role in ("radio", "tab", "option") else "[none]"
        found = [it for it in page.query_selector_all(f'[role="{role}"]:not({others})') if it.is_visible()]
        if not found:
            continue
        box = found[0].bounding_box()
        assert box
        before = [found[0].get_attribute(state) for state in STATES]
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert [found[0].get_attribute(state) for state in STATES] != before
        reacted += 1
    field = page.query_selector("input[type=text]")
    if field:
        field.fill("abc")
        assert field.input_value() == "abc"
        reacted += 1
    page.context.close()
    assert reacted >= 2


def test_what_starts_something_says_so(chromium: Chromium) -> None:
    scene = scene_of(next(it for it in TEMPLATES if it.name == "dashboard"), 1, overlay_share=0)
    page = chromium.new_page(*scene.screen)
    page.set_content(interface_html(random.Random(1), scene))
    button = page.locator("button.button").first
    button.click()
    assert page.locator("output.said").inner_text() == button.inner_text()
    page.context.close()
