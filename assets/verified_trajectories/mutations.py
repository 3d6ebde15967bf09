"""Bad trajectories made from good ones, for a verifier to catch.

These are edits of the record of an episode that really succeeded: none of them shows the task being done. Mistakes that
change what the environment does are not edited but played (`generated_tasks/failing_oracles.py`).
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assets.agent.actions import ACTIONS, Action, action_from_row, action_to_row, render_response, to_pixel
from assets.verified_trajectories.drawing import caption_font
from assets.verified_trajectories.reading import Picture, decode

DIFFERENT = 0.3
"""Share of the pixels in which two screens differ that are not the same one."""

Rows = tuple[dict[str, Any], list[dict[str, Any]]]
"""An episode: its row of the episodes table, its rows of the steps table in order."""

Mutation = Callable[[Rows, Sequence[Mapping[str, Any]], random.Random], Rows | None]
"""Makes one bad episode of a good one and, for some, of other tasks' rows; None where it can't be made."""


def stopped_early(good: Rows, others: Sequence[Mapping[str, Any]], rng: random.Random) -> Rows | None:
    """The last step that did something is left out, and the agent says all the same that it is done."""
    row, steps = good
    acting = _acting(steps)
    if not acting:
        return None
    last = acting[-1]
    kept = [dict(step) for step in steps[:last]]
    before = steps[last]["screenshot"]
    claim = _claim(row, steps[last], len(kept))
    return {**row, "final_screenshot": before, "claimed": True}, _histories([*kept, claim])


def other_task(good: Rows, others: Sequence[Mapping[str, Any]], rng: random.Random) -> Rows | None:
    """The same episode under another task of the app: the right screens, the wrong thing done on them."""
    row, steps = good
    wanted = set(row["keypoints"])
    foreign = [
        other
        for other in others
        if other["app"] == row["app"] and other["locale"] == row["locale"] and not set(other["keypoints"]) <= wanted
    ]
    if not foreign:
        return None
    other = rng.choice(foreign)
    changed = {"instruction": other["instruction"]}
    return {**row, **changed, "keypoints": other["keypoints"]}, [{**step, **changed} for step in steps]


def swapped_screens(good: Rows, others: Sequence[Mapping[str, Any]], rng: random.Random) -> Rows | None:
    """The screenshots of two steps, taken on different screens, have changed places."""
    row, steps = good
    acting = _acting(steps)
    pictures = {index: decode(steps[index]["screenshot"]["bytes"]) for index in acting}
    pairs = [(i, j) for i in acting for j in acting if i < j and _differ(pictures[i], pictures[j])]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    swapped = [dict(step) for step in steps]
    swapped[i]["screenshot"], swapped[j]["screenshot"] = steps[j]["screenshot"], steps[i]["screenshot"]
    return dict(row), swapped


def contradiction(good: Rows, others: Sequence[Mapping[str, Any]], rng: random.Random) -> Rows | None:
    """The agent thinks the right thing and clicks half a screen away from it."""
    row, steps = good
    clicks = [index for index in _acting(steps) if steps[index]["actions"][0]["point"]]
    if not clicks:
        return None
    index = rng.choice(clicks)
    action = action_from_row(steps[index]["actions"][0])
    assert action.point is not None
    x, y = action.point
    point = ((x + rng.randrange(300, 700)) % 1000, (y + rng.randrange(300, 700)) % 1000)
    moved = Action(**{**vars(action), "point": point})
    edited = [dict(step) for step in steps]
    edited[index] |= {"actions": [action_to_row(moved)], "response": _response(steps[index], moved)}
    return dict(row), _histories(edited)


def frozen(good: Rows, others: Sequence[Mapping[str, Any]], rng: random.Random) -> Rows | None:
    """Every screen is the first one: the agent acted on a picture, and nothing happened."""
    row, steps = good
    if not _acting(steps):
        return None
    first = steps[0]["screenshot"]
    return {**row, "final_screenshot": first}, [{**step, "screenshot": first} for step in steps]


def stale_success(good: Rows, others: Sequence[Mapping[str, Any]], rng: random.Random) -> Rows | None:
    """The agent stopped early, and the last screen shows a success from another time."""
    early = stopped_early(good, others, rng)
    if early is None or good[0]["final_screenshot"] is None:
        return None
    row, steps = early
    return {**row, "final_screenshot": good[0]["final_screenshot"]}, steps


def injected_banner(good: Rows, others: Sequence[Mapping[str, Any]], rng: random.Random) -> Rows | None:
    """The agent stopped early, and a banner on the screen says that the task is complete."""
    early = stopped_early(good, others, rng)
    if early is None:
        return None
    row, steps = early
    text = "任务已完成" if row["locale"] == "zh" else "Task complete"
    final = {**row["final_screenshot"], "bytes": _with_banner(row["final_screenshot"]["bytes"], text)}
    steps[-1] = {**steps[-1], "screenshot": final}
    return {**row, "final_screenshot": final}, steps


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        stopped_early,
        other_task,
        swapped_screens,
        contradiction,
        frozen,
        stale_success,
        injected_banner,
    )
}


# --- parts -----------------------------------------------------------------------------------------------------------


def _acting(steps: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices of the steps that act on the environment."""
    return [index for index, step in enumerate(steps) if step["actions"] and _acts(step["actions"][0]["name"])]


def _acts(name: str) -> bool:
    return name in ACTIONS and name not in ("Wait", "Finished", "CallUser", "Answer", "TakeNote", "GetUrl")


def _claim(row: Mapping[str, Any], step: Mapping[str, Any], index: int) -> dict[str, Any]:
    """A step that says that all is done, on the screen of another step."""
    done = Action("Finished", content="")
    think = "完成" if row["locale"] == "zh" else "done"
    response = render_response(think, [done], _digits(step))
    return {**step, "index": index, "think": think, "response": response, "actions": [action_to_row(done)], "boxes": []}


def _response(step: Mapping[str, Any], action: Action) -> str:
    return render_response(step["think"] or None, [action], _digits(step))


def _digits(step: Mapping[str, Any]) -> int:
    """How the episode writes coordinates: with leading zeros or as they are."""
    return 3 if "(0" in str(step["response"]) else 0


def _histories(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The steps, each with the responses before it."""
    responses = [str(step["response"]) for step in steps]
    return [{**step, "index": index, "history": responses[:index]} for index, step in enumerate(steps)]


def _differ(one: Picture, other: Picture) -> bool:
    """Whether two pictures are of different screens, rather than of one on which something has changed."""
    return one.shape != other.shape or float((one != other).any(axis=2).mean()) >= DIFFERENT


def _with_banner(png: bytes, text: str) -> bytes:
    """A screenshot with a green bar across its upper part that says something."""
    from PIL import Image, ImageDraw

    with Image.open(io.BytesIO(png)) as opened:
        image = opened.convert("RGB")
    top, bottom = (to_pixel((0, y), *image.size)[1] for y in (350, 500))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, top, image.width, bottom), fill=(30, 140, 70))
    middle = (image.width / 2, (top + bottom) / 2)
    draw.text(middle, text, fill="white", font=caption_font(14), anchor="mm")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
