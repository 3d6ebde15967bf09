"""Full-scale puzzles: latent states with one answer, and pages that accept it, and nothing else, from real input."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assets.agent.actions import render_response
from assets.environments.chromium import Chromium, browser
from assets.environments.session import rollout
from assets.environments.task import TaskContract
from assets.environments.web import WebSession
from assets.errors import ParameterError
from assets.synthetic_samples.captcha.clicks import Clicks
from assets.synthetic_samples.captcha.latent import Puzzle, draw_puzzle, is_reachable, is_unique
from assets.synthetic_samples.captcha.page import FONT_SIZE, PAGE_CSS, puzzle_page, puzzle_screen, puzzle_style
from assets.synthetic_samples.captcha.session import CaptchaSession, captcha_task, task_puzzles
from assets.synthetic_samples.captcha.settings import SITES, PuzzlePlatform, draw_setting
from assets.synthetic_samples.captcha.types import TYPES
from assets.synthetic_samples.captcha.words import ICON_NAMES, PHRASES, WORDS
from assets.synthetic_samples.sheets import sheet_page
from assets.synthetic_samples.themes import SPLITS

SCREENS: dict[PuzzlePlatform, tuple[int, int]] = {"mobile": (360, 720), "web": (1280, 720)}
every_type = pytest.mark.parametrize("type", TYPES)


def puzzle(type: str, seed: int, platform: PuzzlePlatform = "mobile", difficulty: int = 3) -> Puzzle:
    split = SPLITS[seed % 2]
    rng = random.Random(seed)
    return draw_puzzle(TYPES[type], seed, draw_setting(rng, split, platform, SCREENS[platform], difficulty))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def sessions(chromium: Chromium) -> Iterator[dict[PuzzlePlatform, CaptchaSession]]:
    opened = {platform: CaptchaSession(size, chromium, platform) for platform, size in SCREENS.items()}
    yield opened
    for session in opened.values():
        session.close()


# --- latent states ---------------------------------------------------------------------------------------------------


@every_type
def test_a_state_has_one_answer_that_can_be_reached(type: str) -> None:
    for seed in range(5):
        for platform in SCREENS:
            drawn = puzzle(type, seed, platform, difficulty=seed + 1)
            assert is_unique(drawn.type, drawn.facts, drawn.answer)
            assert is_reachable(drawn)
            assert drawn.actions()
            assert {action.name for action in drawn.actions()} == set(drawn.latent()["legal"])


@every_type
def test_the_same_seed_gives_the_same_puzzle_and_the_next_another(type: str) -> None:
    assert puzzle_page([puzzle(type, 4)]) == puzzle_page([puzzle(type, 4)])
    assert puzzle(type, 4).picture != puzzle(type, 6).picture


@every_type
def test_another_answer_is_not_taken(type: str) -> None:
    first, second = puzzle(type, 2), puzzle(type, 4)
    assert not is_unique(first.type, first.facts, None)
    others = [puzzle(type, seed).answer for seed in range(4, 12, 2)]
    other = next((answer for answer in others if answer != first.answer), None)
    assert other is None or not is_unique(second.type, first.facts, other)


@every_type
def test_difficulty_makes_it_harder(type: str) -> None:
    loads = {
        difficulty: sum(TYPES[type].load(puzzle(type, seed, difficulty=difficulty).facts) for seed in range(5)) / 5
        for difficulty in (1, 5)
    }
    assert loads[1] < loads[5]


def test_an_ambiguous_state_is_refused() -> None:
    for type in ("words_as_shown", "coloured_icons", "same_colour", "without_twin", "open_ring", "dice_sum"):
        drawn = puzzle(type, 2)
        twin = drawn.facts["items"][drawn.answer[0]]
        doubled = {**drawn.facts, "items": [*drawn.facts["items"], twin]}
        assert not is_unique(drawn.type, doubled, drawn.answer), type


def test_places_that_overlap_or_leave_the_picture_are_refused() -> None:
    drawn = puzzle("words_as_shown", 2)
    assert isinstance(drawn.interaction, Clicks)
    zones = drawn.interaction.zones
    x0, y0, x1, y1 = zones[0]
    for wrong in ((x0 + 1, y0 + 1, x1 + 1, y1 + 1), (-4.0, 4.0, 20.0, 20.0), (x0, y0 + 500, x1, y1 + 500)):
        moved = replace(drawn.interaction, zones=(zones[0], wrong, *zones[2:]))
        assert not is_reachable(replace(drawn, interaction=moved))


def test_a_screen_too_small_is_an_error() -> None:
    setting = draw_setting(random.Random(0), "train", "mobile", (360, 300), 3)
    with pytest.raises(ParameterError, match="tick_person"):
        draw_puzzle(TYPES["tick_person"], 0, setting)


def test_the_splits_share_no_page_words_sayings_or_icons() -> None:
    def words(split: Any) -> set[str]:
        return {word for topics in WORDS[split].values() for topic in topics.values() for word in topic}

    def said(split: Any) -> set[str]:
        return {text for site in SITES if site.split == split for text in
                (*(t for s in site.texts.values() for t in (s.name, s.heading, s.button, s.link)),)}  # fmt: skip

    train, heldout = SPLITS
    assert not words(train) & words(heldout)
    assert not said(train) & said(heldout)
    assert not ICON_NAMES[train].keys() & ICON_NAMES[heldout].keys()
    for locale in ("en", "zh"):
        assert not set(PHRASES[train][locale]) & set(PHRASES[heldout][locale])
        for type in TYPES.values():
            assert type.ask[locale][0] != type.ask[locale][1], type.name


# --- pages -----------------------------------------------------------------------------------------------------------


ON_PAGES = [
    pytest.param(type, platform, marks=() if (number + turn) % 2 == 0 else pytest.mark.slow)
    for number, type in enumerate(TYPES)
    for turn, platform in enumerate(SCREENS)
]
"""Every type on one platform; on the other in `make test-all`."""


@pytest.mark.parametrize(("type", "platform"), ON_PAGES)
def test_the_page_rejects_what_misses_the_solution_and_accepts_the_next_one(
    sessions: dict[PuzzlePlatform, CaptchaSession], type: str, platform: PuzzlePlatform
) -> None:
    session, seed = sessions[platform], list(TYPES).index(type)
    session.reset(
        captcha_task(type, seed, platform, SCREENS[platform], 1 + seed % 5, SPLITS[seed // 2 % 2], attempts=2)
    )
    misses = session.puzzle.misses(random.Random(seed))
    for action in misses[seed % len(misses)]:
        session.act(action)
    assert session.state() == {"verdict": "open", "puzzle": 1, "rejections": 1, "renewals": 0}
    for action in session.puzzle.actions():
        assert session.state()["verdict"] == "open"
        session.act(action)
    assert session.state() == {"verdict": "accepted", "puzzle": 1, "rejections": 1, "renewals": 0}


def test_a_page_renews_and_is_locked_at_last(sessions: dict[PuzzlePlatform, CaptchaSession]) -> None:
    session = sessions["web"]
    session.reset(captcha_task("words_as_shown", 3, "web", SCREENS["web"], 2, attempts=3))
    session.page.click(".renew")
    assert session.state() == {"verdict": "open", "puzzle": 1, "rejections": 0, "renewals": 1}
    before = session.snapshot()
    for number in (1, 2):
        assert session.puzzle is session.puzzles[number]
        for action in session.puzzle.misses(random.Random(1))[0]:
            session.act(action)
    locked = session.state()
    assert locked == {"verdict": "locked", "puzzle": 2, "rejections": 2, "renewals": 1}
    for action in session.puzzle.actions():
        session.act(action)
    assert session.state() == locked
    assert before["actions"] == []


def test_a_snapshot_brings_a_page_back(sessions: dict[PuzzlePlatform, CaptchaSession]) -> None:
    session = sessions["mobile"]
    session.reset(captcha_task("words_as_shown", 5, "mobile", SCREENS["mobile"], 2))
    first, *rest = session.puzzle.actions()
    session.act(first)
    half = session.snapshot()
    for action in rest:
        session.act(action)
    assert session.state()["verdict"] == "accepted"
    session.restore(half)
    assert session.state()["verdict"] == "open"
    for action in rest:
        session.act(action)
    assert session.state()["verdict"] == "accepted"


def test_a_set_takes_marks_back(sessions: dict[PuzzlePlatform, CaptchaSession]) -> None:
    session = sessions["web"]
    session.reset(captcha_task("tiles", 3, "web", SCREENS["web"], 2))
    *marks, confirm = session.puzzle.actions()
    for action in (marks[0], marks[0], *marks, confirm):
        session.act(action)
    assert session.state()["verdict"] == "accepted"


class Solver:
    """Answers with the whole solution in one turn."""

    name = "solver"

    def __init__(self, session: CaptchaSession) -> None:
        self.session = session

    def respond(self, observations: Any) -> list[str]:
        return [render_response(None, self.session.puzzle.actions()) for _ in observations]


def test_an_episode_is_won_by_several_actions_in_one_turn(sessions: dict[PuzzlePlatform, CaptchaSession]) -> None:
    session = sessions["mobile"]
    episode = rollout(session, captcha_task("icons_as_shown", 1, "mobile", SCREENS["mobile"], 3), Solver(session), 1)
    assert episode.outcome == "success"
    assert len(episode.steps[0].actions) > 1


def test_a_browser_window_plays_it_as_any_site(tmp_path: Path) -> None:
    task = captcha_task("coloured_icons", 7, "web", SCREENS["web"], 3)
    puzzles = task_puzzles(task, SCREENS["web"])
    page = tmp_path / "puzzle.html"
    page.write_text(puzzle_page(puzzles), encoding="utf-8")
    with browser(files=[tmp_path]) as chromium, WebSession(SCREENS["web"], chromium) as session:
        session.reset(TaskContract("site", "web", page.as_uri(), "en", puzzles[0].instruction))
        assert session.state()["fields"]["verified"] is False
        for action in puzzles[0].actions():
            session.act(action)
        assert session.state()["fields"]["verified"] is True


def test_an_unknown_type_is_named() -> None:
    task = replace(captcha_task("saying", 1, "web", SCREENS["web"], 1), app="captcha/sayng")
    with pytest.raises(ParameterError, match="sayng"):
        task_puzzles(task, SCREENS["web"])


@pytest.mark.parametrize("platform", ["mobile", pytest.param("web", marks=pytest.mark.slow)])
def test_every_screen_shows_its_whole_answer_and_instruction(platform: PuzzlePlatform) -> None:
    drawn = [puzzle(type, seed, platform) for seed, type in enumerate(TYPES)]
    with sheet_page(SCREENS[platform], (2, 2), PAGE_CSS, FONT_SIZE) as sheet:
        for start in range(0, len(drawn), 4):
            part = drawn[start : start + 4]
            screens = sheet.draw([(puzzle_style(it), puzzle_screen(it, proof=True)) for it in part])
            for it, screen in zip(part, screens, strict=True):
                targets = [element for element in screen.elements if element.kind in ("target", "place")]
                assert len(targets) == sum(len(gesture.boxes) for gesture in it.gestures())
                for element in targets:
                    assert element.target if element.kind == "target" else element.hits == 9, (it.type.name, element)
            cut = "[...document.querySelectorAll('.ask')].filter((ask) => ask.scrollHeight > ask.clientHeight).length"
            assert sheet.page.evaluate(cut) == 0, [it.instruction for it in part]
