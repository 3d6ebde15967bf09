"""An episode from outside, and what must hold of it before it becomes rows of our two tables."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from assets.agent.actions import (
    ACTIONS,
    DIRECTIONS,
    REFUSAL,
    Action,
    ActionError,
    Platform,
    action_to_row,
    render_action,
    render_response,
)
from assets.agent.grammar import parse_actions, parse_response
from assets.agent.observation import Box
from assets.environments.session import ENDING
from assets.environments.trajectory import Screenshot
from assets.verified_trajectories.imports.parameters import ImportParameters
from assets.verified_trajectories.imports.rows import Place, Rejected


@dataclass(frozen=True)
class ImportedStep:
    """One turn. `response` and `history` are None where the source has none of its own: they follow from the actions.

    `boxes` holds one box for each coordinate of the actions in order, or nothing.
    """

    screenshot: Screenshot
    think: str
    actions: tuple[Action, ...]
    boxes: tuple[Box, ...] = ()
    response: str | None = None
    history: tuple[str, ...] | None = None
    state_before: str = ""
    state_after: str = ""


@dataclass(frozen=True)
class ImportedEpisode:
    """One attempt at a task by somebody else.

    Attributes:
        source: what the source calls it; becomes the task's id.
        apps: what was used, in the source's words; empty where it doesn't say.
        claimed: whether the source says that it succeeded.
        outcome: empty, since nobody has checked the state; `infrastructure` where the source says so.
        raw: the row it came from, for the quarantine.
    """

    place: Place
    source: str
    platform: str
    apps: tuple[str, ...]
    instruction: str
    steps: tuple[ImportedStep, ...]
    claimed: bool
    raw: bytes
    final: Screenshot | None = None
    keypoints: tuple[str, ...] = ()
    locale: str | None = None
    outcome: str = ""


Rows = tuple[dict[str, Any], list[dict[str, Any]]]
"""An episode in our two tables: its row of the episodes table, its rows of the steps table."""


def to_rows(episode: ImportedEpisode, kind: str, digits: int, parameters: ImportParameters) -> Rows:
    """Check an episode and write it as rows. Its id is made of its content, so the same content has the same id.

    Args:
        kind: the format's name.
        digits: see `AgentParameters.coordinate_digits`.

    Raises:
        Rejected: something of it can't be trusted, or can't be said in the action space.
    """
    if episode.platform not in get_args(Platform):
        raise Rejected(f"no platform {episode.platform!r}; known: {', '.join(get_args(Platform))}")
    _check_text("the instruction", episode.instruction)
    if not episode.instruction.strip():
        raise Rejected("the episode has no instruction")
    for name in (episode.source, *episode.apps, *episode.keypoints):
        _check_text("a name", name)
    if not episode.steps:
        raise Rejected("the episode has no step")
    if len(episode.steps) > parameters.episode_steps:
        raise Rejected(f"{len(episode.steps)} steps, more than {parameters.episode_steps}")
    responses: list[str] = []
    for index, step in enumerate(episode.steps):
        try:
            check_step(step, episode.platform, last=index + 1 == len(episode.steps))
            responses.append(
                render_response(step.think, step.actions, digits) if step.response is None else step.response
            )
            _check_text("the response", responses[-1])
        except Rejected as error:
            raise error.at(index) from None
        except ValueError as error:
            raise Rejected(str(error), index) from None
    identity = f"{kind}-{content_digest(episode)[:24]}"
    steps = [
        {
            "episode_id": identity,
            "index": index,
            "platform": episode.platform,
            "instruction": episode.instruction,
            "history": responses[:index] if step.history is None else list(step.history),
            "screenshot": _image(step.screenshot, f"{identity}/{index:03d}.png"),
            "width": step.screenshot.width,
            "height": step.screenshot.height,
            "think": step.think,
            "response": responses[index],
            "actions": [action_to_row(action) for action in step.actions],
            "boxes": [[float(value) for value in box] for box in step.boxes],
            "state_before": step.state_before,
            "state_after": step.state_after,
        }
        for index, step in enumerate(episode.steps)
    ]
    row = {
        "id": identity,
        "task_id": f"{kind}/{episode.source}",
        "policy": f"imported/{kind}",
        "platform": episode.platform,
        "app": "+".join(sorted({_folded(app) for app in episode.apps})) or UNKNOWN_APP,
        "locale": episode.locale or locale_of(episode.instruction),
        "split": split_of(episode.apps, parameters.heldout_share),
        "instruction": episode.instruction,
        "keypoints": list(episode.keypoints),
        "steps": len(steps),
        "outcome": episode.outcome,
        "claimed": episode.claimed,
        "final_screenshot": None if episode.final is None else _image(episode.final, f"{identity}/final.png"),
    }
    return row, steps


def content_digest(episode: ImportedEpisode) -> str:
    """sha256 of what was asked, seen and done: the same whatever the batch, the file and the source's own ids are."""
    parts: list[Any] = [episode.platform, episode.instruction]
    for step in episode.steps:
        parts.append(hashlib.sha256(step.screenshot.png).hexdigest())
        parts.append([action_to_row(action) for action in step.actions])
    if episode.final is not None:
        parts.append(hashlib.sha256(episode.final.png).hexdigest())
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _image(screenshot: Screenshot, path: str) -> dict[str, Any]:
    return {"bytes": screenshot.png, "path": path}


# --- steps -----------------------------------------------------------------------------------------------------------


def check_step(step: ImportedStep, platform: str, last: bool) -> None:
    """Whether the actions are of the platform's space and can be written and read again, and point into the screen.

    Raises:
        Rejected: they are not, or don't.
    """
    _check_text("the thought", step.think)
    for text in (*(step.history or ()), step.state_before, step.state_after):
        _check_text("a text", text)
    for action in step.actions:
        check_action(action, platform)
    if not last and any(action.name in ENDING for action in step.actions):
        raise Rejected("the episode goes on after its end")
    points = [point for action in step.actions for point in action.points()]
    if step.boxes and len(step.boxes) != len(points):
        raise Rejected(f"{len(step.boxes)} boxes for {len(points)} coordinates")
    for left, top, right, bottom in step.boxes:
        if not (0 <= left < right <= step.screenshot.width and 0 <= top < bottom <= step.screenshot.height):
            raise Rejected(f"the box {(left, top, right, bottom)} is not on the screen")
    if step.response is not None:
        try:
            said = parse_response(step.response, platform).actions
        except ActionError:
            said = ()
        if said != step.actions:
            raise Rejected("the response says something else than the actions")
    elif not step.actions:
        raise Rejected("unknown action: the step does nothing")


def check_action(action: Action, platform: str) -> None:
    """Whether an action is of the platform's space and means the same when it is written and read again.

    Raises:
        Rejected: it is not, or doesn't.
    """
    if action.name not in ACTIONS:
        raise Rejected(f"unknown action: {action.name!r}")
    if platform not in ACTIONS[action.name].platforms:
        raise Rejected(f"unknown action: {platform} has no {action.name}")
    for point in action.points():
        if point != REFUSAL and not (0 <= point[0] <= 999 and 0 <= point[1] <= 999):
            raise Rejected(f"the coordinates {point} are outside the screen")
    if action.direction is not None and action.direction not in DIRECTIONS:
        raise Rejected(f"no direction {action.direction!r}")
    for text in (action.content or "", *action.keys):
        _check_text("what is written", text)
    try:
        again = parse_actions(render_action(action), platform)
    except ValueError as error:
        raise Rejected(f"the action can't be written: {error}") from None
    if again != [action]:
        raise Rejected(f"{action} can't be written without a change")


def _check_text(what: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Rejected(f"{what} holds half a character (a lone surrogate at {error.start})") from None


def number(value: Any, what: str) -> float:
    """A finite number.

    Raises:
        Rejected: it is none.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        value = "one of hundreds of digits"
    raise Rejected(f"{what} is a number, not {value!r}")


def pair(value: Any, what: str) -> tuple[float, float]:
    """Two finite numbers: `[x, y]` or `{"x": x, "y": y}`.

    Raises:
        Rejected: it is something else.
    """
    if isinstance(value, Mapping) and set(value) == {"x", "y"}:
        value = [value["x"], value["y"]]
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise Rejected(f"{what} is two numbers, not {value!r}")
    return number(value[0], what), number(value[1], what)


def first(values: Mapping[str, Any], *names: str) -> Any:
    """The value under the first of several names that is there; Parquet has every key, some of them null."""
    return next((values[name] for name in names if values.get(name) is not None), None)


def text_of(value: Any, what: str) -> str:
    """Text, or nothing.

    Raises:
        Rejected: it is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Rejected(f"{what} is text, not {type(value).__name__}")
    return value


# --- apps and languages -----------------------------------------------------------------------------------------------

UNKNOWN_APP = "unknown"


def locale_of(text: str) -> str:
    """`zh` for a text with a Chinese character, else `en`."""
    return (
        "zh" if any("\u3400" <= c <= "\u9fff" or "\uf900" <= c <= "\ufaff" or c >= "\U00020000" for c in text) else "en"
    )


def split_of(apps: Sequence[str], heldout_share: float) -> str:
    """The split of an episode by the apps it uses, never by the episode.

    An app of our catalogue keeps its split; of others a hash of the name decides. With several apps, one that is held
    out decides. Where no app is named the episode is for training: it can't be shown that its app was never seen.
    """
    return "heldout" if any(_held_out(_folded(app), heldout_share) for app in apps) else "train"


def _held_out(app: str, share: float) -> bool:
    known = _catalogue().get(app)
    if known is not None:
        return known == "heldout"
    return int.from_bytes(hashlib.sha256(app.encode()).digest()[:8], "big") < share * 2**64


def _folded(app: str) -> str:
    return " ".join(app.casefold().split())


@cache
def _catalogue() -> dict[str, str]:
    """App -> split of every app of our own."""
    from assets.environments.apps import load_heads
    from assets.environments.desktop import load_apps, load_programs
    from assets.environments.miniwob import PREFIX, pages, split_of

    found = {head.id: head.split for head in load_heads().values()}
    found |= {PREFIX + page: split_of(page) for page in pages()}
    found |= {app.id: app.split for app in load_apps()}
    found |= {program.id: program.split for program in load_programs()}
    return {name.casefold(): split for name, split in found.items()}
