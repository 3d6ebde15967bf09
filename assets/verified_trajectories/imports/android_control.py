"""AndroidControl: demonstrations on Android phones, coordinates in pixels of the screenshot.

Two spellings are read. The one of the evaluation files that go round as JSON Lines (UI-S1 of X-PLUG/MobileAgent): an
episode a line, `goal` and `steps`, each with `action_content: {action: click, coordinate: [x, y]}`. And that of the
original (google-research/android_control): `goal`, `actions: [{action_type: click, x: ..., y: ...}]`, `screenshots`
and `step_instructions`. Rows may be episodes or single steps; steps that carry an episode's id and number it without a
gap become that episode, others an episode each.

What an action means here:

    click, tap, long_press, double_tap      Click, LongPress, DoubleClick
    swipe with two coordinates              Swipe between them, as they are
    scroll with a direction                 Swipe over the middle half of the screen; the direction is the content's, so
                                            `down` moves the finger up, as the steps' own words in the data set do.
                                            A swipe with nothing but a direction is refused: it may be the finger's
    type, input_text                        Type
    open, open_app                          LaunchApp
    navigate_back, system_button Back       PressBack; Home, Enter and Menu (the app switcher) likewise
    wait                                    Wait; how long is not kept
    answer                                  Answer
    status, terminate                       Finished, or CallUser where the task is said to be impossible or failed
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assets.agent.actions import Action, Point, from_coordinates
from assets.agent.observation import Box
from assets.environments.trajectory import Screenshot
from assets.verified_trajectories.imports.episodes import (
    ImportedEpisode,
    ImportedStep,
    first,
    number,
    pair,
    text_of,
)
from assets.verified_trajectories.imports.pictures import load_picture
from assets.verified_trajectories.imports.rows import BatchFiles, Rejected, Rejection, Row

NAME = "androidcontrol"

Size = tuple[float, float]


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether a row looks like AndroidControl's."""
    steps = values.get("steps")
    if isinstance(steps, list):
        return any(isinstance(step, Mapping) and _action_of(step) is not None for step in steps)
    actions = values.get("actions")
    if isinstance(actions, list):
        return any(isinstance(action, Mapping) and isinstance(action.get("action_type"), str) for action in actions)
    named = first(values, "episode_id", "goal", "instruction") is not None or _picture_of(values) is not None
    return named and _action_of(values) is not None


def read(files: BatchFiles) -> Iterator[ImportedEpisode | Rejection]:
    """The episodes of a batch. Single steps come last, in the order in which their episodes first appear."""
    single: dict[str, list[Row]] = {}
    for name in files.tables:
        for row in files.rows(name):
            if isinstance(row, Rejection):
                yield row
            elif not recognises(row.values):
                yield row.rejection(f"no row of {NAME}")
            elif isinstance(row.values.get("steps"), list) or isinstance(row.values.get("actions"), list):
                yield _whole(files, row)
            else:
                single.setdefault(_identity(row), []).append(row)
    for identity, rows in single.items():
        yield from _grouped(files, identity, rows)


# --- rows -> episodes -------------------------------------------------------------------------------------------------


def _whole(files: BatchFiles, row: Row) -> ImportedEpisode | Rejection:
    """A row that is an episode."""
    values, identity = row.values, _identity(row)
    try:
        steps = values.get("steps")
        if not isinstance(steps, list):
            steps = _columns_to_steps(values)
        screenshots = values.get("screenshots")
        final = None
        if isinstance(screenshots, list) and len(screenshots) == len(steps) + 1:
            final = load_picture(files, screenshots[-1])
        return _episode(files, row, identity, steps, final)
    except Rejected as error:
        return row.rejection(error, identity)


def _columns_to_steps(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The original's parallel lists as steps."""
    actions, pictures = values["actions"], values.get("screenshots")
    if not isinstance(pictures, list):
        raise Rejected("missing picture: the row has no list of screenshots")
    told = first(values, "step_instructions") or []
    if len(pictures) not in (len(actions), len(actions) + 1):
        raise Rejected(f"{len(pictures)} screenshots for {len(actions)} actions")
    if told and len(told) != len(actions):
        raise Rejected(f"{len(told)} step instructions for {len(actions)} actions")
    widths, heights = (first(values, f"screenshot_{name}") or [] for name in ("widths", "heights"))
    steps = []
    for index, action in enumerate(actions):
        step = {"action": action, "screenshot": pictures[index], "step_instruction": told[index] if told else None}
        if index < min(len(widths), len(heights)):
            step |= {"width": widths[index], "height": heights[index]}
        steps.append(step)
    return steps


def _grouped(files: BatchFiles, identity: str, rows: Sequence[Row]) -> Iterator[ImportedEpisode | Rejection]:
    """Rows that are steps: their episode where they number it without a gap, else an episode each."""
    numbers = [_step_number(row.values) for row in rows]
    known = [index for index in numbers if index is not None]
    if len(set(known)) < len(known):
        for row, index in zip(rows, numbers, strict=True):
            yield row.rejection(f"duplicate id: the episode has step {index} more than once", identity, index)
        return
    ordered = [row for _, row in sorted(zip(known, rows, strict=False), key=lambda item: item[0])]
    whole = len(known) == len(rows) > 1 and sorted(known) in ([*range(len(rows))], [*range(1, len(rows) + 1)])
    if whole and len({_goal(row.values) for row in rows}) == 1:
        try:
            yield _episode(files, ordered[0], identity, [row.values for row in ordered], None)
        except Rejected as error:
            yield ordered[error.step or 0].rejection(error, identity)
            for row in ordered:
                if row is not ordered[error.step or 0]:
                    yield row.rejection(f"its episode is not taken, see step {error.step}", identity)
        return
    for row, index in zip(rows, numbers, strict=True):
        own = identity if index is None else f"{identity}/{index}"
        try:
            yield _episode(files, row, own, [row.values], None)
        except Rejected as error:
            yield row.rejection(error, own, index)


def _episode(
    files: BatchFiles, row: Row, identity: str, steps: Iterable[Any], final: Screenshot | None
) -> ImportedEpisode:
    made: list[ImportedStep] = []
    for index, values in enumerate(steps):
        try:
            if not isinstance(values, Mapping):
                raise Rejected(f"a step is an object, not {type(values).__name__}")
            made.append(_step(files, values, row.values))
        except Rejected as error:
            raise error.at(index) from None
    opened = [action.content for step in made for action in step.actions if action.name == "LaunchApp"]
    app = text_of(first(row.values, "app", "app_name", "package_name"), "the app")
    ended = made[-1].actions[-1].name if made else ""
    return ImportedEpisode(
        place=replace(row.place, episode=identity),
        source=identity,
        platform="mobile",
        apps=tuple(name for name in ([app] if app else opened) if name),
        instruction=_goal(row.values),
        steps=tuple(made),
        claimed=ended == "Finished" or (ended != "CallUser" and row.values.get("is_successful") is True),
        raw=row.raw,
        final=final,
    )


def _step(files: BatchFiles, values: Mapping[str, Any], row: Mapping[str, Any]) -> ImportedStep:
    screenshot = load_picture(files, _picture_of(values))
    size = _size(values, row, screenshot)
    content = _action_of(values)
    if content is None:
        raise Rejected("unknown action: the step has none")
    action = to_action(content, size)
    history = first(values, "history")
    if history is not None and not (isinstance(history, list) and all(isinstance(item, str) for item in history)):
        history = None
    return ImportedStep(
        screenshot=screenshot,
        think=text_of(first(values, "step_instruction", "low_level_instruction", "thought"), "the step's instruction"),
        actions=(action,),
        boxes=_boxes(files, values, content, action, size, screenshot),
        history=None if history is None else tuple(history),
    )


def _identity(row: Row) -> str:
    """What the source calls the episode; the place of the row where it doesn't say."""
    written = first(row.values, "episode_id", "id", "ep_id", "task_id")
    if isinstance(written, str | int) and not isinstance(written, bool) and str(written).strip():
        return str(written).strip()
    return str(row.place).replace(", ", ":").replace(" ", "")


def _step_number(values: Mapping[str, Any]) -> int | None:
    written = first(values, "step", "step_id", "step_index", "step_num", "index")
    return written if isinstance(written, int) and not isinstance(written, bool) else None


def _goal(values: Mapping[str, Any]) -> str:
    return text_of(first(values, "goal", "instruction", "task", "query"), "the goal")


def _picture_of(values: Mapping[str, Any]) -> Any:
    return first(values, "screenshot", "image", "image_path", "screenshot_path", "img")


def _size(values: Mapping[str, Any], row: Mapping[str, Any], screenshot: Screenshot) -> Size:
    """The screen that the coordinates are pixels of: the one that is stated, else the screenshot.

    A stated screen may have been scaled to make the screenshot, but not cut.
    """
    for names in (("width", "height"), ("screen_width", "screen_height"), ("image_width", "image_height")):
        stated = [first(values, name) or first(row, name) for name in names]
        if all(value is not None for value in stated):
            width, height = (number(value, f"the screen's {name}") for name, value in zip(names, stated, strict=True))
            if width < 1 or height < 1:
                raise Rejected(f"a screen of {width:g}x{height:g}")
            if abs(width * screenshot.height / (height * screenshot.width) - 1) > SAME_SHAPE:
                raise Rejected(
                    f"the screen is said to be {width:g}x{height:g}, its picture is "
                    f"{screenshot.width}x{screenshot.height}: what the coordinates count is in doubt"
                )
            return width, height
    return screenshot.width, screenshot.height


SAME_SHAPE = 0.01
"""Share by which the sides' ratio of a scaled picture may differ from the screen's."""


def _boxes(
    files: BatchFiles,
    values: Mapping[str, Any],
    content: Mapping[str, Any],
    action: Action,
    size: Size,
    screenshot: Screenshot,
) -> tuple[Box, ...]:
    """The smallest candidate box that holds the point, in pixels of the screenshot; none if it is a container."""
    if action.name not in ("Click", "LongPress", "DoubleClick"):
        return ()
    options = first(values, "check_options") or {}
    written = first(options, "candidate_bbox") if isinstance(options, Mapping) else None
    x, y = _point(content)
    fitting = []
    for box in written if isinstance(written, list) else ():
        if not (isinstance(box, list) and len(box) == 4):
            continue
        left, top, right, bottom = (number(value, "a box") for value in box)
        left, top, right, bottom = max(left, 0.0), max(top, 0.0), min(right, size[0]), min(bottom, size[1])
        if left <= x <= right and top <= y <= bottom and left < right and top < bottom:
            fitting.append((left, top, right, bottom))
    if not fitting:
        return ()
    left, top, right, bottom = min(fitting, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]))
    if (right - left) * (bottom - top) > files.parameters.largest_box * size[0] * size[1]:
        return ()
    across, down = screenshot.width / size[0], screenshot.height / size[1]
    return ((left * across, top * down, right * across, bottom * down),)


# --- actions ----------------------------------------------------------------------------------------------------------

POINTING = {
    **dict.fromkeys(("click", "tap"), "Click"),
    **dict.fromkeys(("long_press", "longpress"), "LongPress"),
    **dict.fromkeys(("double_tap", "double_click"), "DoubleClick"),
}
KEYS = {
    **dict.fromkeys(("back", "navigate_back", "press_back"), "PressBack"),
    **dict.fromkeys(("home", "navigate_home", "press_home"), "PressHome"),
    **dict.fromkeys(("enter", "keyboard_enter", "press_enter"), "PressEnter"),
    **dict.fromkeys(("menu", "recent", "recents"), "PressRecent"),
}
SCROLLS: dict[str, tuple[Size, Size]] = {
    "down": ((0.5, 0.75), (0.5, 0.25)),
    "up": ((0.5, 0.25), (0.5, 0.75)),
    "right": ((0.75, 0.5), (0.25, 0.5)),
    "left": ((0.25, 0.5), (0.75, 0.5)),
}
"""Where the finger goes, as shares of the screen, to show what lies in a direction."""
DONE = ("success", "successful", "complete", "completed")
GIVEN_UP = ("failure", "fail", "failed", "infeasible", "impossible")


def to_action(content: Mapping[str, Any], size: Size) -> Action:
    """The action of a step in our space.

    Args:
        content: as the source writes it.
        size: width and height of the screen that the coordinates are pixels of.

    Raises:
        Rejected: no such action, or its coordinates are outside the screen.
    """
    name = text_of(first(content, "action", "action_type", "type"), "the action").strip().lower()
    if name in POINTING:
        return Action(POINTING[name], point=_mapped(_point(content), size))
    if name in ("swipe", "scroll"):
        if first(content, "coordinate2", "end_coordinate", "end") is not None:
            end = pair(first(content, "coordinate2", "end_coordinate", "end"), "the end")
            return Action("Swipe", point=_mapped(_point(content), size), end=_mapped(end, size))
        direction = text_of(first(content, "direction"), "the direction").strip().lower()
        if name == "swipe" or direction not in SCROLLS:
            raise Rejected(f"unknown action: a {name} that doesn't say where it goes, direction {direction!r}")
        start, end = (from_coordinates(*place, "unit") for place in SCROLLS[direction])
        return Action("Swipe", point=start, end=end)
    if name in ("type", "input_text"):
        return Action("Type", content=_required(content, "text", "value"))
    if name in ("open", "open_app", "launch"):
        return Action("LaunchApp", content=_required(content, "text", "app_name", "app"))
    if name == "answer":
        return Action("Answer", content=_required(content, "text", "answer"))
    if name in ("system_button", "key"):
        button = text_of(first(content, "button", "text", "key"), "the button").strip().lower()
        if button not in KEYS:
            raise Rejected(f"unknown action: no button {button!r}")
        return Action(KEYS[button])
    if name in KEYS:
        return Action(KEYS[name])
    if name == "wait":
        return Action("Wait")
    if name in ("status", "terminate"):
        status = text_of(first(content, "status", "goal_status"), "the status").strip().lower()
        if status in DONE:
            return Action("Finished", content="")
        if status in GIVEN_UP:
            return Action("CallUser", content="")
        raise Rejected(f"unknown action: {name} with the status {status!r}")
    raise Rejected(f"unknown action: {name!r}")


def _action_of(step: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The step's action: an object, or one written as JSON text, or spread over the step itself."""
    content = first(step, "action_content", "action", "gt_action", "ground_truth")
    if isinstance(content, str) and content.lstrip().startswith("{"):
        try:
            content = json.loads(content)
        except ValueError:
            return None
    if isinstance(content, Mapping):
        return content
    return step if isinstance(step.get("action_type"), str) else None


def _required(content: Mapping[str, Any], *names: str) -> str:
    value = first(content, *names)
    if not isinstance(value, str):
        raise Rejected(f"the action has no {names[0]}")
    return value


def _point(content: Mapping[str, Any]) -> tuple[float, float]:
    if first(content, "x") is not None:
        return pair([first(content, "x"), first(content, "y")], "the coordinate")
    return pair(first(content, "coordinate", "coordinates", "point", "start"), "the coordinate")


def _mapped(place: tuple[float, float], size: Size) -> Point:
    try:
        return from_coordinates(*place, "pixel", size)  # type: ignore[arg-type]
    except ValueError as error:
        raise Rejected(f"coordinates outside the screen: {error}") from None
