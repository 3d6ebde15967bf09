"""MiniWoB++: the page's own reward, the same episode for the same seed, oracles that always earn it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assets.agent.actions import Action
from assets.environments.chromium import Chromium
from assets.environments.miniwob import HELDOUT, PREFIX, TRAIN, MiniwobSession, pages
from assets.environments.miniwob_oracles import ORACLES, MiniwobOracle
from assets.environments.session import open_session, rollout
from assets.errors import ParameterError
from tests.environments.conftest import SIZE


@pytest.fixture(scope="module")
def miniwob(chromium: Chromium) -> Iterator[MiniwobSession]:
    with open_session("web", SIZE, app=PREFIX, browser=chromium) as session:
        assert isinstance(session, MiniwobSession)
        yield session


def test_the_splits_are_apart_and_have_oracles() -> None:
    assert not set(TRAIN) & set(HELDOUT)
    assert set(ORACLES) == {*TRAIN, *HELDOUT} <= set(pages())
    assert len(pages()) == 130


@pytest.mark.parametrize("page", sorted(ORACLES))
def test_an_oracle_earns_the_reward_and_the_next_episode_is_as_fresh(miniwob: MiniwobSession, page: str) -> None:
    task = miniwob.task(page, 11)
    fresh = (miniwob.digest(), miniwob.observe())
    seed = 12 + sorted(ORACLES).index(page)
    episode = rollout(miniwob, miniwob.task(page, seed), MiniwobOracle(miniwob))
    assert episode.outcome == "success", [step.response for step in episode.steps]
    for step in episode.steps:
        coordinates = [point for action in step.actions for point in action.points()]
        assert len(step.boxes) == len(coordinates)
    miniwob.reset(task)
    assert (miniwob.digest(), miniwob.observe()) == fresh


def test_the_wrong_button_earns_nothing(miniwob: MiniwobSession) -> None:
    miniwob.reset(miniwob.task("click-test-2", 1))
    two = next(element for element in miniwob.elements() if element.label == "TWO")
    x, y = two.center
    miniwob.act(Action("Click", point=(int(x * 1000 / SIZE[0]), int(y * 1000 / SIZE[1]))))
    state = miniwob.state()
    assert (state["done"], state["success"], miniwob.over) == (True, False, True)
    assert state["reward"] <= 0


def test_a_seed_is_an_episode(miniwob: MiniwobSession, chromium: Chromium) -> None:
    task = miniwob.task("click-checkboxes", 5)
    assert task.instruction.startswith("Select ")
    assert miniwob.task("click-checkboxes", 6).instruction != task.instruction
    miniwob.reset(task)
    with MiniwobSession(SIZE, chromium) as other:
        assert other.task("click-checkboxes", 5) == task
        assert (other.digest(), other.observe()) == (miniwob.digest(), miniwob.observe())


def test_a_snapshot_comes_back_by_playing_it_again(miniwob: MiniwobSession) -> None:
    miniwob.reset(miniwob.task("enter-text", 3))
    field = next(element for element in miniwob.elements() if element.kind == "input:text")
    miniwob.act(Action("Click", point=(int(field.center[0] * 1000 / SIZE[0]), int(field.center[1] * 1000 / SIZE[1]))))
    miniwob.act(Action("Type", content="Ada"))
    typed, snapshot = (miniwob.digest(), miniwob.observe()), miniwob.snapshot()
    miniwob.reset(miniwob.task("enter-text", 3))
    assert miniwob.digest() != typed[0]
    miniwob.restore(snapshot)
    assert (miniwob.digest(), miniwob.observe()) == typed


def test_an_unknown_page_names_the_known(miniwob: MiniwobSession) -> None:
    with pytest.raises(ParameterError, match="no MiniWoB\\+\\+ page 'click-tests'; known: ascending-numbers, "):
        miniwob.task("click-tests", 1)
