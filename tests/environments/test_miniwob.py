"""MiniWoB++: the page's own reward, the same episode for the same seed, oracles that always earn it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from assets.agent.actions import Action, from_pixel
from assets.environments.catalogue import catalogue
from assets.environments.chromium import Chromium
from assets.environments.environments import Job, ink, probe_app
from assets.environments.miniwob import (
    FULL_HELDOUT,
    HELDOUT,
    PATIENT,
    PREFIX,
    RELOADED,
    REWARDLESS,
    TRAIN,
    MiniwobSession,
    pages,
    scale_of,
    split_of,
)
from assets.environments.miniwob_oracles import ORACLES, MiniwobOracle
from assets.environments.session import open_session, rollout
from assets.errors import ParameterError
from tests.environments.conftest import SIZE
from tests.environments.test_environments import PARAMETERS, OneSession

if TYPE_CHECKING:
    from playwright.sync_api import Route


@pytest.fixture(scope="module")
def miniwob(chromium: Chromium) -> Iterator[MiniwobSession]:
    with open_session("web", SIZE, app=PREFIX, browser=chromium) as session:
        assert isinstance(session, MiniwobSession)
        session.reset(session.task("click-test", 1))
        yield session


def test_every_page_has_one_split_and_the_small_ones_have_oracles() -> None:
    assert len(pages()) == 130
    assert set(ORACLES) >= {*TRAIN, *HELDOUT}
    sides = [set(TRAIN), {*HELDOUT, *FULL_HELDOUT}]
    assert not sides[0] & sides[1]
    assert {page for page in pages() if split_of(page) == "heldout"} == sides[1]
    assert {*sides[0], *sides[1], *RELOADED, *PATIENT, *REWARDLESS} <= set(pages())
    assert sum(scale_of(page) == "small" for page in pages()) == 33


@pytest.mark.parametrize("page", [page for page in pages() if scale_of(page) == "full"])
def test_a_page_is_the_same_whenever_and_however_often_it_starts(miniwob: MiniwobSession, page: str) -> None:
    """Loaded afresh and begun again after other episodes; at the start, after a while, and after a click."""
    seen = []
    for seed, twice in ((3, False), (4, True), (3, True)):
        if not twice:
            miniwob.page.goto("about:blank")
        task = miniwob.task(page, seed)
        assert len(task.instruction) > 8
        start = (task.instruction, miniwob.digest(), miniwob.observe().png)
        assert ink(start[2]) > 0.002
        for action in (
            Action("Click", point=(300, 500)),
            Action("Wait"),
            Action("Drag", point=(300, 300), end=(600, 600)),
        ):
            miniwob.act(action)
        seen.append((*start, miniwob.digest(), miniwob.observe().png))
    assert seen[0] == seen[2]
    assert seen[0] != seen[1]


def test_time_passes_by_actions_alone(miniwob: MiniwobSession) -> None:
    miniwob.reset(miniwob.task("stock-market", 5))
    first = miniwob.observe().png
    miniwob.page.wait_for_timeout(300)
    assert miniwob.observe().png == first
    miniwob.act(Action("Wait"))
    assert miniwob.observe().png != first


SMALL_ORACLES = sorted(page for page in ORACLES if scale_of(page) == "small")


@pytest.fixture(scope="module")
def whole(chromium: Chromium) -> Iterator[MiniwobSession]:
    """A session that shows a page's whole window."""
    with MiniwobSession((332, 214), chromium) as session:
        yield session


@pytest.mark.parametrize("page", sorted(set(ORACLES) - set(SMALL_ORACLES)))
def test_pages_in_full_size_can_be_solved_even_where_things_move(whole: MiniwobSession, page: str) -> None:
    for seed in (21, 22):
        episode = rollout(whole, whole.task(page, seed), MiniwobOracle(whole))
        assert episode.outcome == "success", (episode.final_state, [step.response for step in episode.steps])


@pytest.mark.parametrize("page", SMALL_ORACLES)
def test_an_oracle_earns_the_reward_and_the_next_episode_is_as_fresh(miniwob: MiniwobSession, page: str) -> None:
    task = miniwob.task(page, 11)
    fresh = (miniwob.digest(), miniwob.observe())
    seed = 12 + SMALL_ORACLES.index(page)
    episode = rollout(miniwob, miniwob.task(page, seed), MiniwobOracle(miniwob))
    assert episode.outcome == "success", [step.response for step in episode.steps]
    for step in episode.steps:
        coordinates = [point for action in step.actions for point in action.points()]
        assert len(step.boxes) == len(coordinates)
    miniwob.reset(task)
    assert (miniwob.digest(), miniwob.observe()) == fresh


@pytest.mark.parametrize("page", ["click-dialog-2", "email-inbox"])
def test_a_picture_that_is_read_slowly_is_waited_for(miniwob: MiniwobSession, page: str) -> None:
    task = miniwob.task(page, 1)
    read = []

    def slowly(route: Route) -> None:
        fresh.page.wait_for_timeout(500)  # the session goes on meanwhile
        read.append(route.request.url)
        route.continue_()

    with open_session("web", SIZE, app=PREFIX) as fresh:  # in a browser that has not read any picture yet
        assert isinstance(fresh, MiniwobSession)
        fresh.reset(fresh.task("click-test", 1))
        fresh.page.route("**/*.png", slowly)
        fresh.reset(task)
        seen = fresh.observe().png
    miniwob.reset(task)
    assert read
    assert seen == miniwob.observe().png


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


def test_a_state_does_not_tell_when_it_was_read_before(miniwob: MiniwobSession) -> None:
    """What a script writes into a style stands among the attributes from when somebody first reads them."""
    task = miniwob.task("click-shades", 1)
    pressed = [element for element in miniwob.elements() if element.visible][:3]
    clicks = [Action("Click", point=from_pixel(*element.center, *SIZE)) for element in pressed]
    digests = set()
    for reading in (True, False):
        miniwob.reset(task)
        for click in clicks:
            if reading:
                miniwob.state()
            miniwob.act(click)
        digests.add(miniwob.digest())
    assert len(digests) == 1


@pytest.mark.parametrize("page", ["click-shades", "moving-items"])
def test_pages_that_change_as_they_are_touched_or_begin_empty_pass_the_probe(
    miniwob: MiniwobSession, page: str
) -> None:
    app = next(app for app in catalogue() if app.id == PREFIX + page)
    probe = probe_app(OneSession(miniwob), Job(app, SIZE, PARAMETERS))  # type: ignore[arg-type]
    assert (probe.trouble, probe.fault) == ("", "")
    assert probe.elements > 0


def test_an_unknown_page_names_the_known(miniwob: MiniwobSession) -> None:
    with pytest.raises(ParameterError, match="no MiniWoB\\+\\+ page 'click-tests'; known: ascending-numbers, "):
        miniwob.task("click-tests", 1)
