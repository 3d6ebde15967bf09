"""Cleaning: steps that led nowhere go, mended errors stay, and what is kept still leads where the episode ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.agent.actions import Action, action_from_row, action_to_row, render_response
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.verified_trajectories.cleaning import clean

AT = (500, 500)
OPEN, BACK, TOGGLE = Action("Click", point=(100, 100)), Action("PressBack"), Action("Click", point=(300, 300))
HIDDEN, NOTHING = Action("Click", point=(500, 500)), Action("Click", point=(900, 900))
WAIT, DONE = Action("Wait"), Action("Finished", content="")
DOWN, UP = (Action("Scroll", point=AT, direction=direction) for direction in ("down", "up"))
FLICK, FLICK_BACK = Action("Swipe", point=AT, end=(500, 100)), Action("Swipe", point=(500, 100), end=AT)
ALL = (OPEN, BACK, TOGGLE, HIDDEN, NOTHING, WAIT, DOWN, UP, FLICK, FLICK_BACK)

State = tuple[str, bool, int, int]
"""An app of two screens: where one is, a switch, how far the list is scrolled, and a count that no screen shows."""
START: State = ("list", False, 0, 0)


def after(state: State, action: Action) -> State:
    where, on, scrolled, hidden = state
    if action == OPEN:
        return "detail", on, scrolled, hidden
    if action == BACK:
        return "list", on, scrolled, hidden
    if action == TOGGLE:
        return where, not on, scrolled, hidden
    if action == HIDDEN:
        return where, on, scrolled, (hidden + 1) % 3
    if action in (DOWN, FLICK):
        return where, on, min(scrolled + 1, 2), hidden
    if action in (UP, FLICK_BACK):
        return where, on, max(scrolled - 1, 0), hidden
    return state


def screen(state: State) -> dict[str, Any]:
    return {"bytes": repr(state[:3]).encode(), "path": None}


def played(actions: Sequence[Action], recorded: bool = True) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An episode of the app and its steps, as rows; without `recorded` no state is known, as of foreign data."""
    state, steps = START, list[dict[str, Any]]()
    for number, action in enumerate(actions):
        following = after(state, action)
        steps.append(
            {
                "episode_id": "e",
                "index": number,
                "history": [step["response"] for step in steps],
                "screenshot": screen(state),
                "response": render_response(str(number), [action]),
                "actions": [action_to_row(action)],
                "state_before": repr(state) if recorded else "",
                "state_after": repr(following) if recorded else "",
            }
        )
        state = following
    return {"id": "e", "final_screenshot": screen(state)}, steps


def kept(actions: Sequence[Action], recorded: bool = True) -> list[Action]:
    return [done for step in clean(*played(actions, recorded)) for done in map(action_from_row, step["actions"])]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        pytest.param([OPEN, WAIT, TOGGLE, WAIT], [OPEN, TOGGLE], id="waits"),
        pytest.param([DOWN, UP, OPEN], [OPEN], id="scroll and back"),
        pytest.param([DOWN, DOWN, UP, UP, OPEN], [OPEN], id="scroll and back, one inside the other"),
        pytest.param([FLICK, FLICK_BACK, OPEN], [OPEN], id="swipe and back"),
        pytest.param([DOWN, OPEN], [DOWN, OPEN], id="a scroll that was needed"),
        pytest.param([UP, DOWN, OPEN], [UP, DOWN, OPEN], id="a scroll back that is none: the list was at its end"),
        pytest.param([NOTHING, NOTHING, NOTHING, OPEN], [NOTHING, OPEN], id="the same without effect"),
        pytest.param([TOGGLE, TOGGLE, OPEN], [TOGGLE, TOGGLE, OPEN], id="a switch that was mended"),
        pytest.param([OPEN, BACK, TOGGLE, DONE], [OPEN, BACK, TOGGLE, DONE], id="a wrong screen that was left"),
        pytest.param([OPEN, BACK, OPEN, BACK, TOGGLE], [OPEN, BACK, TOGGLE], id="a loop"),
        pytest.param([OPEN, BACK] * 6 + [OPEN, TOGGLE], [OPEN, BACK, OPEN, TOGGLE], id="a loop that ends elsewhere"),
        pytest.param(
            [OPEN, BACK, TOGGLE, TOGGLE, OPEN, BACK, DONE], [OPEN, BACK, TOGGLE, TOGGLE, DONE], id="a loop later on"
        ),
        pytest.param(
            [OPEN, BACK, TOGGLE, OPEN, BACK], [OPEN, BACK, TOGGLE, OPEN, BACK], id="the same way in another state"
        ),
        pytest.param([OPEN, HIDDEN, BACK] * 2, [OPEN, HIDDEN, BACK] * 2, id="an effect that no screen shows"),
        pytest.param([OPEN, WAIT, BACK, OPEN, DOWN, UP, BACK], [OPEN, BACK], id="a loop with waits and scrolls"),
    ],
)
def test_what_leads_nowhere_goes(actions: list[Action], expected: list[Action]) -> None:
    assert kept(actions) == expected


def test_without_recorded_states_the_screens_decide() -> None:
    assert kept([OPEN, BACK, OPEN, BACK, TOGGLE], recorded=False) == [OPEN, BACK, TOGGLE]
    assert kept([OPEN, BACK, TOGGLE, WAIT], recorded=False) == [OPEN, BACK, TOGGLE]


def test_a_wait_in_which_the_state_moved_was_needed() -> None:
    episode, steps = played([WAIT, OPEN])
    steps[0]["state_after"] = steps[1]["state_before"] = "loaded"
    assert len(clean(episode, steps)) == 2


def test_a_state_that_moved_between_two_steps_is_no_place_to_come_back_to() -> None:
    episode, steps = played([WAIT, OPEN])
    steps[1]["state_before"] = "something arrived"
    assert len(clean(episode, steps)) == 2


def test_answers_that_nobody_understood_are_kept() -> None:
    episode, steps = played([NOTHING, NOTHING])
    for step in steps:
        step["actions"] = []
    assert len(clean(episode, steps)) == 2


WAYS = st.lists(st.sampled_from(ALL), max_size=30)


@settings(deadline=None, max_examples=300)
@given(WAYS, st.booleans())
def test_cleaning_keeps_the_end_and_has_nothing_left_to_do(actions: list[Action], recorded: bool) -> None:
    episode, steps = played(actions, recorded)
    cleaned = clean(episode, steps)
    assert clean(episode, cleaned) == cleaned
    responses = [step["response"] for step in cleaned]
    assert [step["index"] for step in cleaned] == list(range(len(cleaned)))
    assert [step["history"] for step in cleaned] == [responses[:number] for number in range(len(cleaned))]
    original = iter(steps)  # a subsequence, nothing else of a step changed
    assert all(any(step["response"] == other["response"] for other in original) for step in cleaned)
    if recorded:
        state = START
        for step in cleaned:
            assert step["state_before"] == repr(state)
            (row,) = step["actions"]
            state = after(state, action_from_row(row))
        assert (state, screen(state)) == (_end(actions), episode["final_screenshot"])


def _end(actions: Sequence[Action]) -> State:
    state = START
    for action in actions:
        state = after(state, action)
    return state


@settings(deadline=None, max_examples=200)
@given(WAYS, st.integers(0, 30), st.sampled_from([(OPEN, BACK), (TOGGLE, TOGGLE)]))
def test_one_mended_error_is_never_lost(actions: list[Action], place: int, error: tuple[Action, ...]) -> None:
    """Where a way has no such error yet, one that is put into it and mended is still there afterwards."""
    straight = [action for action in actions if action not in (OPEN, BACK, TOGGLE)]
    place = min(place, len(straight))
    found = kept([*straight[:place], *error, *straight[place:]])
    assert tuple(action for action in found if action in error) == error


def test_rows_are_those_of_the_tables() -> None:
    """The app's rows name only columns that the tables have."""
    episode, steps = played([OPEN])
    assert set(episode) <= set(episodes_schema().names)
    assert set(steps[0]) <= set(steps_schema().names)
