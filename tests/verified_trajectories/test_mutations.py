"""Bad trajectories are really bad, well formed, and made of the good ones alone."""

from __future__ import annotations

import copy
import io
import random
from typing import Any

import pytest
from PIL import Image, ImageOps

from assets.agent.grammar import parse_response
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.stage import write_parquet
from assets.verified_trajectories.mutations import MUTATIONS, Rows
from tests.verified_trajectories.test_verified_trajectories import episode

OTHERS = [episode(9, ["Help", "Share"], ["Help", "Share"], "heldout")[0]]


@pytest.fixture
def good() -> Rows:
    """Two clicks, the second on a screen that is another all over."""
    row, steps = episode(1, ["Save", "Mute"], ["Save", "Mute"], "heldout")
    buffer = io.BytesIO()
    ImageOps.invert(Image.open(io.BytesIO(steps[1]["screenshot"]["bytes"]))).save(buffer, "PNG")
    steps[1]["screenshot"] = {"bytes": buffer.getvalue(), "path": "other.png"}
    return row, steps


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_a_trajectory_that_differs_and_leaves_the_good_one_alone(
    good: Rows, name: str, tmp_path: Any
) -> None:
    before = copy.deepcopy(good)
    bad = MUTATIONS[name](good, OTHERS, random.Random(3))
    assert good == before
    assert bad is not None
    assert bad != good
    again = MUTATIONS[name](good, OTHERS, random.Random(3))
    assert again == bad
    row, steps = bad
    write_parquet(tmp_path / "episodes.parquet", [row], episodes_schema())
    write_parquet(tmp_path / "steps.parquet", steps, steps_schema())
    for index, step in enumerate(steps):
        assert step["index"] == index
        assert step["history"] == [earlier["response"] for earlier in steps[:index]]
        written = parse_response(step["response"], step["platform"]).actions
        assert [action.name for action in written] == [action["name"] for action in step["actions"]]
        assert [action.point for action in written] == [
            tuple(action["point"]) if action["point"] else None for action in step["actions"]
        ]


def test_what_stops_early_lacks_the_last_deed_and_claims_all(good: Rows) -> None:
    bad = MUTATIONS["stopped_early"](good, (), random.Random(0))
    assert bad is not None
    row, steps = bad
    assert [step["actions"][0]["name"] for step in steps] == ["Click", "Finished"]
    assert row["final_screenshot"] == good[1][1]["screenshot"]


def test_nothing_is_made_of_an_episode_in_which_nothing_was_done(good: Rows) -> None:
    idle = (good[0], good[1][-1:])
    made = {name: mutation(idle, (), random.Random(0)) for name, mutation in MUTATIONS.items()}
    assert {name for name, bad in made.items() if bad is not None} == set()
