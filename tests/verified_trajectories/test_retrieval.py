"""The judge that knows what an app can do sees by the screens alone whether that was done."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from assets.agent.actions import Action
from assets.verified_trajectories.evidence import SeenEpisode, SeenStep
from assets.verified_trajectories.judges import Thresholds
from assets.verified_trajectories.retrieval import CatalogueJudge, Expected, effects, retrieve, without_loops

THRESHOLDS = Thresholds(sure=0.7, changed=0.001, moved=0.5, seconds=1.0)
NAMES: dict[str, Expected] = {"settings": "moves", "mute": "stays", "send": "any", "search": "stays"}
JUDGE = CatalogueJudge({"app": NAMES}, THRESHOLDS)
CLICK, END = Action("Click", point=(500, 500)), Action("Finished", content="")
HOME, PAGE = "home", "page"


def screen(code: str) -> np.ndarray:
    """`home` and `page` are different all over; each `+` behind them changes one corner more."""
    picture = np.full((20, 20, 3), 40 if code.startswith(HOME) else 200, np.uint8)
    for number in range(code.count("+")):
        picture[number, :3] = 255
    return picture


def episode(
    instruction: str, *screens: str, app: str = "app", last: Action = END, acts: Mapping[int, str] | None = None
) -> SeenEpisode:
    """Clicks between the screens, some of them other actions (index -> name), then the end."""
    others = {index: Action(name) for index, name in (acts or {}).items()}
    steps = [SeenStep(screen(code), "", (others.get(n, CLICK),)) for n, code in enumerate(screens[:-1])]
    steps.append(SeenStep(screen(screens[-1]), "", (last,)))
    return SeenEpisode("mobile", instruction, (), tuple(steps), screen(screens[-1]), app)


@pytest.mark.parametrize(
    ("screens", "done"),
    [
        ((HOME, PAGE, PAGE + "+"), True),
        ((HOME, PAGE), False),  # stopped early
        ((HOME, HOME, HOME), False),  # nothing ever changed
        ((HOME, PAGE, PAGE + "+", PAGE), False),  # done, then undone
        ((HOME, PAGE, PAGE + "+", PAGE + "++"), False),  # one thing more
        ((HOME, HOME + "+", PAGE), False),  # the wrong way round
        ((HOME, HOME + "+", HOME, PAGE, PAGE + "+"), True),  # a mistake that was mended
        ((HOME, PAGE, HOME, PAGE, PAGE + "+"), True),  # there, back, and there again
    ],
)
def test_effects_must_be_those_that_were_promised(screens: tuple[str, ...], done: bool) -> None:
    assert JUDGE(episode("Open Settings then Mute", *screens)).vote is done


def test_what_an_app_does_not_have_cannot_have_been_done() -> None:
    vote = JUDGE(episode("Press Pay", HOME, PAGE))
    assert not vote.vote
    assert vote.reason == "the app has no Pay"
    assert JUDGE(episode("Press Pay", HOME, PAGE, app="unknown")).vote


def test_an_app_s_own_name_of_a_thing_is_found_and_another_is_not() -> None:
    assert retrieve(NAMES, "Settings") == "settings"
    assert retrieve(NAMES, "SETTlNGS!") == "settings"
    assert retrieve(NAMES, "Archive") is None


def test_effects_that_led_back_are_no_effects() -> None:
    seen = episode("Press Send", HOME, HOME + "+", HOME + "++", HOME, PAGE)
    assert [effect.kind for effect in effects(seen, THRESHOLDS)] == ["stays", "stays", "stays", "moves"]
    assert [effect.kind for effect in without_loops(effects(seen, THRESHOLDS))] == ["moves"]


def test_the_system_s_back_key_leads_to_the_next_thing_but_undoes_the_last() -> None:
    task = "Open Settings then Mute then Open Settings"
    assert JUDGE(episode(task, HOME, PAGE, PAGE + "+", HOME + "+", PAGE + "++", acts={2: "PressBack"})).vote
    assert not JUDGE(episode("Open Settings then Mute", HOME, PAGE, PAGE + "+", HOME + "+", acts={2: "PressBack"})).vote
