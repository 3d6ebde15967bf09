"""The programmatic check and the loop that plays episodes, on a session made of a dictionary."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.agent.actions import Action
from assets.agent.observation import Box, Observation, RandomPolicy
from assets.environments.session import (
    Element,
    check,
    digest,
    flatten,
    free_point,
    open_session,
    rollout,
    rollout_batch,
)
from assets.environments.task import TaskContract, from_row, task_schema, to_row
from assets.environments.trajectory import Screenshot, episode_row, episodes_schema, step_rows, steps_schema
from assets.errors import InfrastructureError, ParameterError

TASK = TaskContract(
    "t", "mobile", "toy", "en", "Type Save", expected_state={"text": "Save"}, allowed_side_effects=("view",),
    step_budget=4,
)  # fmt: skip


class Notepad:
    """A session whose state is a text; typing appends, `Wait` breaks the infrastructure where it is told to."""

    platform = "mobile"

    def __init__(self, breaks: bool = False) -> None:
        self.breaks = breaks
        self.over = False
        self.content: dict[str, Any] = {}

    def reset(self, task: TaskContract) -> None:
        self.content = {"text": "", "view": {"page": 0}, "other": 0}

    def observe(self) -> Screenshot:
        return Screenshot(self.content["text"].encode(), 10, 10)

    def act(self, action: Action) -> None:
        if action.name == "Wait" and self.breaks:
            raise InfrastructureError("broken")
        if action.name == "Type":
            self.content["text"] += action.content or ""
        if action.name == "PressBack":
            self.content["view"]["page"] -= 1
        if action.name == "PressHome":
            self.content["other"] += 1

    def state(self) -> dict[str, Any]:
        return copy.deepcopy(self.content)

    def digest(self) -> str:
        return digest(self.content)

    def note(self) -> str | None:
        return f"seen {self.content['text']}"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the loop has no business with {name}")


class Script:
    """Answers with fixed texts by turn, and knows its targets."""

    name = "script"

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.seen: list[list[Observation]] = []

    def respond(self, observations: Sequence[Observation]) -> list[str]:
        self.seen.append(list(observations))
        return [self.texts[min(len(o.history), len(self.texts) - 1)] for o in observations]

    def targets(self) -> list[list[Box]]:
        return [[(0, 0, 1, 1)] for _ in self.seen[-1]]


def say(action: str) -> str:
    return f"<think>Save</think>\n<action>{action}</action>"


def test_an_episode_succeeds_and_is_recorded_whole() -> None:
    policy = Script(say("Type(content='Sa')"), say("Type(content='ve')\nPressBack()"), say("Finished()"))
    episode = rollout(Notepad(), TASK, policy)
    assert (episode.outcome, episode.claimed, len(episode.steps)) == ("success", True, 3)
    assert [step.screenshot.png for step in episode.steps] == [b"", b"Sa", b"Save"]
    assert [step.history for step in episode.steps] == [(), policy.texts[:1], policy.texts[:2]]
    assert episode.steps[0].state_after == episode.steps[1].state_before != episode.steps[0].state_before
    assert episode.steps[1].actions == (Action("Type", content="ve"), Action("PressBack"))
    assert policy.seen[1][0].note == "seen Sa"
    assert episode.final_screenshot == Screenshot(b"Save", 10, 10)


def test_rows_fit_their_schemas() -> None:
    import pyarrow as pa

    episode = rollout(Notepad(), TASK, Script(say("Click(point=(1, 2))"), say("Finished()")))
    steps = pa.Table.from_pylist(step_rows(episode), steps_schema()).to_pylist()
    assert steps[0]["boxes"] == [[0, 0, 1, 1]]
    assert steps[0]["actions"][0]["point"] == [1, 2]
    (row,) = pa.Table.from_pylist([episode_row(episode)], episodes_schema()).to_pylist()
    assert (row["steps"], row["outcome"], row["claimed"]) == (2, "failure", True)
    (stored,) = pa.Table.from_pylist([to_row(TASK)], task_schema()).to_pylist()
    assert from_row(stored) == TASK


def test_an_answer_that_can_not_be_understood_costs_a_step() -> None:
    episode = rollout(Notepad(), TASK, Script("hm", say("Hover(point=(1, 2))"), say("Type(content='Save')"), "hm"))
    assert [bool(step.actions) for step in episode.steps] == [False, False, True, False]
    assert "Hover does not exist on mobile" in episode.steps[1].error
    assert (episode.outcome, episode.claimed) == ("success", False)


def test_the_budget_ends_an_episode_and_side_effects_spoil_it() -> None:
    episode = rollout(Notepad(), TASK, Script(say("Type(content='Save')"), say("PressHome()")), max_steps=2)
    assert (episode.outcome, len(episode.steps), episode.side_effects) == ("failure", 2, ("other",))


def test_a_broken_environment_is_not_the_agents_failure() -> None:
    episode = rollout(Notepad(breaks=True), TASK, Script(say("Wait()")))
    assert (episode.outcome, episode.steps, episode.final_screenshot) == ("infrastructure", [], None)


def test_batches_move_in_lock_step_and_keep_the_order_of_tasks() -> None:
    tasks = [TaskContract(f"t{n}", "mobile", "toy", "en", f"{n}", step_budget=1 + n % 3) for n in range(5)]
    policy = Script(say("Type(content='x')"))
    episodes = rollout_batch([Notepad(), Notepad()], tasks, policy)
    assert [episode.task.id for episode in episodes] == ["t0", "t1", "t2", "t3", "t4"]
    assert [len(episode.steps) for episode in episodes] == [1, 2, 3, 1, 2]
    assert [len(batch) for batch in policy.seen] == [2, 2, 2, 2, 1]
    alone = [rollout(Notepad(), task, Script(say("Type(content='x')"))) for task in tasks]
    assert [episode.final_state for episode in alone] == [episode.final_state for episode in episodes]


def test_chance_acts_within_the_platform() -> None:
    observation = Observation(b"", 10, 10, "mobile", "")
    first, again = (RandomPolicy(3, 3).respond([observation] * 5) for _ in range(2))
    assert first == again
    episode = rollout(Notepad(), TASK, RandomPolicy(3, 3))
    assert all(step.actions for step in episode.steps)


@pytest.mark.parametrize(
    ("expected", "allowed", "final", "success", "side_effects"),
    [
        ({"a.b": 1}, (), {"a": {"b": 1, "c": []}, "l": ["x"]}, True, ()),
        ({"a.b": 1}, (), {"a": {"b": 2, "c": []}, "l": ["x"]}, False, ()),
        ({"a.b": 1}, (), {"a": {"b": 1, "c": [5]}, "l": ["x"]}, False, ("a.c", "a.c.0")),
        ({"a.b": 1}, ("a.c",), {"a": {"b": 1, "c": [5]}, "l": ["x"]}, True, ()),
        ({"l": ["x", "y"]}, (), {"a": {"b": 0, "c": []}, "l": ["x", "y"]}, True, ()),
        ({"l.1": "y"}, (), {"a": {"b": 0, "c": []}, "l": ["x", "y"]}, True, ()),
        ({"nothing.here": None}, (), {"a": {"b": 0, "c": []}, "l": ["x"]}, False, ()),
        ({}, ("a",), {"a": {"b": 1, "c": []}, "l": []}, False, ("l", "l.0")),
        ({}, ("a",), {"a": {"b": 1, "c": []}, "l": ["x"], "ab": 1}, False, ("ab",)),
    ],
)
def test_the_check(
    expected: dict[str, Any], allowed: tuple[str, ...], final: dict[str, Any], success: bool, side_effects: tuple
) -> None:
    task = TaskContract("t", "mobile", "toy", "en", "", expected_state=expected, allowed_side_effects=allowed)
    outcome = check(task, {"a": {"b": 0, "c": []}, "l": ["x"]}, final)
    assert (outcome.success, outcome.side_effects) == (success, side_effects)


def test_flatten_keeps_empty_parts() -> None:
    assert flatten({"a": {"b": [], "c": [1, {"d": {}}]}}) == {"a.b": [], "a.c.0": 1, "a.c.1.d": {}}


def test_a_card_is_tapped_beside_the_switch_across_its_middle() -> None:
    card = Element("05:20", "row", (88, 89, 344, 206), "alarms/1")
    switch = Element("", "switch", (101, 147, 331, 193), "alarms/1/on")
    x, y = free_point(card, [card, switch])
    assert 88 < x < 344
    assert 89 < y < 147
    assert free_point(switch, [card, switch]) == switch.center


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80), st.integers(1, 19), st.integers(1, 19)), max_size=4))
def test_a_free_point_lies_within_and_upon_nothing_small(parts: list[tuple[int, int, int, int]]) -> None:
    whole = Element("", "row", (0, 0, 100, 100), "whole")
    upon = [Element("", "switch", (x, y, x + w, y + h), str(place)) for place, (x, y, w, h) in enumerate(parts)]
    x, y = free_point(whole, [whole, *upon])
    assert 0 < x < 100
    assert 0 < y < 100
    # Four parts a fifth of the width cover at most four of the nine points that are tried.
    assert not any(a <= x <= c and b <= y <= d for a, b, c, d in (other.box for other in upon))


def test_an_unknown_platform_names_the_known() -> None:
    with pytest.raises(ParameterError, match="no platform 'watch'; known: mobile, web, desktop"):
        open_session("watch", (10, 10))
