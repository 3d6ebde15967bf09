"""AgentNet: demonstrations on desktops (OpenCUA, xlangai/AgentNet), coordinates from 0 to 1 over the screen.

A trajectory a line: `task_id`, `instruction` and `traj`, a list of `{index, image, value: {thought, code, ...}}`. The
code is Python text that calls `pyautogui` and `computer`. It is parsed, never run: statements are calls of known names
with literal arguments, and everything else is refused. The files of AgentNetBench (`steps`, with `action` for the code)
are read too. `meta_data_merged.jsonl` beside the trajectories tells which applications were used.

What a call means here; `(x, y)` may be positional or named:

    click, doubleClick, rightClick          Click, DoubleClick, RightClick (also by `button=` and `clicks=2`)
    moveTo, then dragTo                     Drag between them (with the left button)
    moveTo, then click or scroll            the place of what follows; a moveTo alone is refused, desktops have no Hover
    scroll(n), hscroll(n)                   Swipe from where the pointer is, up for a negative n: on our desktops that
                                            turns the wheel so. How far is not kept, the units differ by system
    write, typewrite                        Type
    press, hotkey                           Hotkey, one for each press
    computer.wait, time.sleep               Wait; how long is not kept
    computer.terminate                      Finished, or CallUser for a failure

Triple and middle clicks, keys held down and whatever else there is are not in the action space: unknown actions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from assets.agent.actions import Action, Point, from_coordinates
from assets.verified_trajectories.imports.episodes import (
    ImportedEpisode,
    ImportedStep,
    first,
    number,
    text_of,
)
from assets.verified_trajectories.imports.pictures import load_picture
from assets.verified_trajectories.imports.rows import BatchFiles, Rejected, Rejection, Row

NAME = "agentnet"


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether a row looks like AgentNet's."""
    steps = _steps_of(values)
    if not isinstance(steps, list):
        return False
    return any(isinstance(step, Mapping) and _code_of(step) is not None for step in steps)


def read(files: BatchFiles) -> Iterator[ImportedEpisode | Rejection]:
    """The trajectories of a batch, in order."""
    apps = _read_apps(files)
    for name in files.tables:
        for row in files.rows(name):
            if isinstance(row, Rejection):
                yield row
            elif recognises(row.values):
                yield _episode(files, row, apps)
            elif not _is_about_apps(row.values):
                yield row.rejection(f"no row of {NAME}")


def _read_apps(files: BatchFiles) -> dict[str, tuple[str, ...]]:
    """Task id -> the applications and web sites that its row of the metadata names."""
    found = {}
    for name in files.tables:
        head = [row for row in files.first_rows if row.place.file == name]
        if head and not any(_is_about_apps(row.values) for row in head):
            continue
        for row in files.rows(name):
            if isinstance(row, Row) and _is_about_apps(row.values):
                found[str(row.values["task_id"])] = _named_apps(row.values)
    return found


def _is_about_apps(values: Mapping[str, Any]) -> bool:
    return _steps_of(values) is None and values.get("task_id") is not None and "system" in values


def _named_apps(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Names under `applications` and `websites`, written as lists or as text with commas."""
    names: list[str] = []
    for key in ("applications", "apps", "app", "websites"):
        written = values.get(key)
        items = written.split(",") if isinstance(written, str) else written
        if isinstance(items, list):
            names += [item.strip() for item in items if isinstance(item, str) and item.strip()]
    return tuple(dict.fromkeys(names))


# --- rows -> episodes -------------------------------------------------------------------------------------------------


def _episode(files: BatchFiles, row: Row, apps: Mapping[str, tuple[str, ...]]) -> ImportedEpisode | Rejection:
    values = row.values
    written = first(values, "task_id", "id", "trajectory_id")
    named = isinstance(written, str | int) and not isinstance(written, bool) and bool(str(written).strip())
    identity = str(written).strip() if named else str(row.place).replace(", ", ":").replace(" ", "")
    try:
        pointer: Point | None = None
        made: list[ImportedStep] = []
        _check_order(_steps_of(values))
        for index, step in enumerate(_steps_of(values)):
            try:
                imported, pointer = _step(files, step, pointer)
            except Rejected as error:
                raise error.at(index) from None
            made.append(imported)
        ended = made[-1].actions[-1].name if made else ""
        return ImportedEpisode(
            place=replace(row.place, episode=identity),
            source=identity,
            platform="desktop",
            apps=_named_apps(values) or apps.get(identity, ()),
            instruction=text_of(
                first(values, "instruction", "natural_language_task", "high_level_task_description", "actual_task"),
                "the instruction",
            ),
            steps=tuple(made),
            claimed=ended == "Finished" and values.get("task_completed") is not False,
            raw=row.raw,
        )
    except Rejected as error:
        return row.rejection(error, identity)


def _check_order(steps: Sequence[Any]) -> None:
    """Steps stand in the order that they are numbered in."""
    numbers = [first(step, "index", "step_num") for step in steps if isinstance(step, Mapping)]
    numbers = [index for index in numbers if index is not None]
    for index, (one, other) in enumerate(pairwise(numbers), 1):
        if not (isinstance(one, int) and isinstance(other, int)) or other == one:
            raise Rejected(f"duplicate id: step number {other!r} after {one!r}", index)
        if other < one:
            raise Rejected(f"step number {other} stands after {one}", index)


def _step(files: BatchFiles, values: Any, pointer: Point | None) -> tuple[ImportedStep, Point | None]:
    """A step, and where the pointer is after it."""
    if not isinstance(values, Mapping):
        raise Rejected(f"a step is an object, not {type(values).__name__}")
    inner: Mapping[str, Any] = next(
        (values[key] for key in ("value", "inner_monologue") if isinstance(values.get(key), Mapping)), {}
    )
    screenshot = load_picture(files, first(values, "image", "screenshot"))
    code = _code_of(values)
    if code is None:
        raise Rejected("unknown action: the step has no code")
    actions, pointer = to_actions(code, pointer)
    think = text_of(first(inner, "thought", "action", "low_level_instruction"), "the thought")
    return ImportedStep(screenshot, think, actions), pointer


def _steps_of(values: Mapping[str, Any]) -> Any:
    return first(values, "traj", "trajectory", "steps")


def _code_of(step: Mapping[str, Any]) -> str | None:
    value = step.get("value")
    code = value.get("code") if isinstance(value, Mapping) else first(step, "code", "action")
    return code if isinstance(code, str) else None


# --- code -> actions --------------------------------------------------------------------------------------------------

LONGEST_CODE = 50_000
"""Characters; longer code is not parsed."""
MOST_CALLS = 50
"""Calls of one step; more is a script, not an action."""
SCROLLED = 250
"""Thousandths of the screen between the start and the end of a Swipe that stands for a turn of the wheel."""

_CLICKS = {("left", 1): "Click", ("left", 2): "DoubleClick", ("right", 1): "RightClick"}
_DEFAULTS: dict[str, tuple[str, int]] = {
    "pyautogui.click": ("left", 1),
    "pyautogui.leftClick": ("left", 1),
    "pyautogui.doubleClick": ("left", 2),
    "pyautogui.rightClick": ("right", 1),
    "pyautogui.middleClick": ("middle", 1),
    "pyautogui.tripleClick": ("left", 3),
    "computer.tripleClick": ("left", 3),
    "computer.triple_click": ("left", 3),
}
_KEYS = {
    **dict.fromkeys(("ctrl", "ctrlleft", "ctrlright", "control"), "ctrl"),
    **dict.fromkeys(("alt", "altleft", "altright"), "alt"),
    **dict.fromkeys(("shift", "shiftleft", "shiftright"), "shift"),
    **dict.fromkeys(("cmd", "command"), "cmd"),
    **dict.fromkeys(("win", "winleft", "winright", "super", "meta"), "win"),
    **dict.fromkeys(("option", "optionleft", "optionright"), "option"),
    **dict.fromkeys(("enter", "return", "\n", "\r"), "enter"),
    **dict.fromkeys(("esc", "escape"), "esc"),
    **dict.fromkeys(("tab", "\t"), "tab"),
    **dict.fromkeys(("space", " "), "space"),
    **dict.fromkeys(("backspace", "\b"), "backspace"),
    **dict.fromkeys(("delete", "del"), "delete"),
    **dict.fromkeys(("pageup", "pgup", "page_up"), "pageup"),
    **dict.fromkeys(("pagedown", "pgdn", "page_down"), "pagedown"),
    **{name: name for name in ("insert", "home", "end", "up", "down", "left", "right", "capslock", "menu", "fn")},
    **{f"f{index}": f"f{index}" for index in range(1, 25)},
}
"""Names of keys as pyautogui has them -> as ours are called. A single character is its own name."""


@dataclass(frozen=True)
class _Call:
    """A call with literal arguments."""

    name: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    def arguments(self, *names: str) -> dict[str, Any]:
        """The arguments by name, those that were given.

        Raises:
            Rejected: there are others.
        """
        if len(self.positional) > len(names):
            raise Rejected(f"unknown action: {self.name} with {len(self.positional)} arguments")
        found = dict(zip(names, self.positional, strict=False))
        for name, value in self.named.items():
            if name not in (*names, "duration", "interval", "tween", "pause", "logScreenshot", "_pause"):
                raise Rejected(f"unknown action: {self.name} with the argument {name!r}")
            if name in found:
                raise Rejected(f"{self.name} has {name!r} twice")
            if name in names:
                found[name] = value
        return {name: value for name, value in found.items() if value is not None}


def to_actions(code: str, pointer: Point | None = None) -> tuple[tuple[Action, ...], Point | None]:
    """The actions of a step's code in our space, and where the pointer is after them.

    Args:
        pointer: where it is before; None where that isn't known.

    Raises:
        Rejected: the code does something else than known calls, or its coordinates are outside the screen.
    """
    actions: list[Action] = []
    moved = False  # a moveTo waits for what happens there
    for call in _calls(code):
        name = call.name
        if moved and name in ("computer.terminate", "computer.wait", "time.sleep"):
            raise Rejected("unknown action: a moveTo with nothing that happens there")
        if name == "pyautogui.moveTo":
            if moved:
                raise Rejected("unknown action: a moveTo with nothing that happens there")
            pointer, moved = _place(call.arguments("x", "y"), None, name), True
            continue
        if name in _DEFAULTS:
            pointer = _click(call, pointer, actions)
        elif name == "pyautogui.dragTo":
            given = call.arguments("x", "y", "button")
            if given.get("button", "left") not in ("left", "primary"):
                raise Rejected(f"unknown action: a drag with the button {given['button']!r}")
            if pointer is None or not moved:
                raise Rejected("unknown action: a dragTo that doesn't say where it starts")
            end = _place(given, None, name)
            actions.append(Action("Drag", point=pointer, end=end))
            pointer = end
        elif name in ("pyautogui.scroll", "pyautogui.vscroll", "pyautogui.hscroll"):
            pointer = _scroll(call, pointer, actions)
        elif name in ("pyautogui.write", "pyautogui.typewrite"):
            actions.append(Action("Type", content=_text(call)))
        elif name == "pyautogui.press":
            actions += _presses(call)
        elif name == "pyautogui.hotkey":
            actions.append(Action("Hotkey", keys=_hotkey(call)))
        elif name in ("computer.wait", "time.sleep", "pyautogui.sleep"):
            actions.append(Action("Wait"))
        elif name == "computer.terminate":
            actions.append(_ending(call))
        else:
            raise Rejected(f"unknown action: {name}")
        moved = False
    if moved:
        raise Rejected("unknown action: a moveTo with nothing that happens there")
    if not actions:
        raise Rejected("unknown action: the code does nothing")
    return tuple(actions), pointer


def _calls(code: str) -> Iterator[_Call]:
    if len(code) > LONGEST_CODE:
        raise Rejected(f"code of {len(code)} characters, more than {LONGEST_CODE}")
    try:
        statements = ast.parse(code.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Rejected(f"unknown action: the code is no Python: {error}") from None
    if len(statements) > MOST_CALLS:
        raise Rejected(f"unknown action: {len(statements)} calls in one step")
    for statement in statements:
        if isinstance(statement, ast.Import) and all(item.name in ("pyautogui", "time") for item in statement.names):
            continue
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            raise Rejected(f"unknown action: line {statement.lineno} of the code is no call")
        if not isinstance(call.func.value, ast.Name):
            raise Rejected(f"unknown action: line {statement.lineno} of the code calls no known name")
        yield _Call(
            f"{call.func.value.id}.{call.func.attr}",
            tuple(_literal(argument) for argument in call.args),
            {_keyword(argument): _literal(argument.value) for argument in call.keywords},
        )


def _keyword(argument: ast.keyword) -> str:
    if argument.arg is None:
        raise Rejected("unknown action: ** in a call")
    return argument.arg


def _literal(node: ast.expr) -> Any:
    """A constant, a negative number, or a list of constants; nothing is evaluated."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -number(node.operand.value, "what has a sign")
    if isinstance(node, ast.List | ast.Tuple):
        return [item.value if isinstance(item, ast.Constant) else _refuse(item) for item in node.elts]
    return _refuse(node)


def _refuse(node: ast.expr) -> Any:
    raise Rejected(f"unknown action: an argument in line {node.lineno} of the code is no literal")


def _place(given: Mapping[str, Any], pointer: Point | None, name: str) -> Point:
    """The place of a call, or the pointer's where it has none."""
    if "x" not in given and "y" not in given:
        if pointer is None:
            raise Rejected(f"{name} doesn't say where")
        return pointer
    if "x" not in given or "y" not in given:
        raise Rejected(f"{name} has half a place")
    try:
        return from_coordinates(number(given["x"], "x"), number(given["y"], "y"), "unit")
    except ValueError as error:
        raise Rejected(f"coordinates outside the screen: {error}") from None


def _click(call: _Call, pointer: Point | None, actions: list[Action]) -> Point:
    button, clicks = _DEFAULTS[call.name]
    if call.name == "pyautogui.click":
        given = call.arguments("x", "y", "clicks", "interval", "button")
        button, clicks = given.get("button", button), given.get("clicks", clicks)
        button = {"primary": "left", "secondary": "right"}.get(button, button)
    else:
        given = call.arguments("x", "y")
    if not isinstance(button, str) or not isinstance(clicks, int) or (button, clicks) not in _CLICKS:
        raise Rejected(f"unknown action: {clicks!r} clicks of the {button!r} button")
    place = _place(given, pointer, call.name)
    actions.append(Action(_CLICKS[button, clicks], point=place))
    return place


def _scroll(call: _Call, pointer: Point | None, actions: list[Action]) -> Point:
    given = call.arguments("clicks", "x", "y")
    turns = number(given.get("clicks"), f"how far {call.name} goes")
    if not turns:
        raise Rejected("unknown action: a scroll by nothing")
    start = _place(given, pointer, call.name)
    sideways = call.name == "pyautogui.hscroll"
    # pyautogui: positive turns show what lies above or to the right; a finger goes the other way to show the same.
    shift = SCROLLED if (turns > 0) != sideways else -SCROLLED
    along = start[0] if sideways else start[1]
    # At an edge the way is shorter, or the start moves inward by one so that it has a direction.
    stop = min(max(along + shift, 0), 999)
    if stop == along:
        along -= 1 if shift > 0 else -1
    start, end = ((along, start[1]), (stop, start[1])) if sideways else ((start[0], along), (start[0], stop))
    actions.append(Action("Swipe", point=start, end=end))
    return start


def _text(call: _Call) -> str:
    written = call.arguments("message", "interval").get("message")
    if not isinstance(written, str):
        raise Rejected(f"unknown action: {call.name} without text")
    return written


def _presses(call: _Call) -> list[Action]:
    given = call.arguments("keys", "presses", "interval")
    keys, presses = given.get("keys"), given.get("presses", 1)
    names = [keys] if isinstance(keys, str) else keys
    if not isinstance(names, list) or not names:
        raise Rejected("unknown action: a press without a key")
    if not isinstance(presses, int) or isinstance(presses, bool) or not 1 <= presses * len(names) <= MOST_CALLS:
        raise Rejected(f"unknown action: {presses!r} presses of {len(names)} keys")
    return [Action("Hotkey", keys=(_key(name),)) for _ in range(presses) for name in names]


def _hotkey(call: _Call) -> tuple[str, ...]:
    if set(call.named) - {"interval"}:
        raise Rejected(f"unknown action: hotkey with {sorted(call.named)}")
    listed = len(call.positional) == 1 and isinstance(call.positional[0], list)
    names = call.positional[0] if listed else list(call.positional)
    if not names:
        raise Rejected("unknown action: a hotkey without a key")
    return tuple(_key(name) for name in names)


def _key(name: Any) -> str:
    if not isinstance(name, str):
        raise Rejected(f"unknown action: the key {name!r}")
    known = _KEYS.get(name.lower() if len(name) > 1 else name)
    if known is None and len(name) == 1 and name.isprintable():
        known = name
    if known is None:
        raise Rejected(f"unknown action: no key {name!r}")
    return known


def _ending(call: _Call) -> Action:
    status = call.arguments("status").get("status")
    if status in ("success", "successful"):
        return Action("Finished", content="")
    if status in ("failure", "fail", "failed"):
        return Action("CallUser", content="")
    raise Rejected(f"unknown action: {call.name} with the status {status!r}")
