"""The action space: what an agent can do, how it is written, and where on the screen it points.

What an agent wrote becomes actions again in `grammar.py`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import pyarrow as pa

Platform = Literal["mobile", "web", "desktop"]
Point = tuple[int, int]

DOMAIN_OF_PLATFORM: dict[str, str] = {"mobile": "mobile", "web": "web", "desktop": "computer"}
REFUSAL: Point = (-1, -1)
"""The grounding answer "not on this screen"."""


@dataclass(frozen=True)
class Action:
    """One action. Coordinates are integers 0-999 over the screenshot's width and height, or REFUSAL.

    `point` is where the action happens (the start of a Drag or Swipe), `end` where a Drag or Swipe ends. `content`
    also holds the app of a LaunchApp and the URL of a Launch.
    """

    name: str
    point: Point | None = None
    end: Point | None = None
    content: str | None = None
    keys: tuple[str, ...] = ()
    direction: str | None = None
    index: int | None = None

    def points(self) -> list[Point]:
        """The coordinates of the action in order: none, one, or start and end."""
        return [point for point in (self.point, self.end) if point is not None]


@dataclass(frozen=True)
class Response:
    """What an agent said in one turn. `think` is empty where it wrote none."""

    think: str
    actions: tuple[Action, ...]


class ActionError(ValueError):
    """Text that is no action, or not one of this platform, or an action that can't be carried out.

    Attributes:
        message: what is wrong and what was expected instead.
        position: offset of the trouble in the text.
        line, column: the same place, counted from 1 (1 and 1 where no text is known).
    """

    def __init__(self, message: str, position: int = 0, text: str | None = None) -> None:
        self.message = message
        self.position = position
        self._text = text
        before = "" if text is None else text[:position]
        self.line = before.count("\n") + 1
        self.column = position - (before.rfind("\n") + 1) + 1 if text is not None else 1
        super().__init__(message if text is None else f"{message} (line {self.line}, column {self.column})")

    def caret(self, width: int = 100) -> str:
        """The line of the trouble, cut to `width` characters around it, and below it a caret at the place."""
        line = (
            ("" if self._text is None else self._text).split("\n")[self.line - 1].replace("\t", " ").replace("\r", " ")
        )
        start = max(0, min(self.column - 1 - width // 2, len(line) - width))
        shown, before = line[start : start + width], line[start : self.column - 1]
        # A Chinese character takes two columns of a terminal.
        columns = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in before)
        return f"{shown}\n{' ' * columns}^"


# --- the action space ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """A parameter of an action: the name it is written with, the `Action` field it fills, other names understood."""

    written: str
    field: str
    also: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True)
class ActionForm:
    """How an action is written and where it exists."""

    platforms: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()


_EVERYWHERE = get_args(Platform)
_POINT = Parameter("point", "point", ("box", "coordinate", "coordinates", "position"))
_START_END = (
    Parameter("start", "point", ("start_point", "start_box")),
    Parameter("end", "end", ("end_point", "end_box")),
)
_CONTENT = Parameter("content", "content", ("text",))
_REMARK = Parameter("content", "content", ("text",), default="")

ACTIONS: dict[str, ActionForm] = {
    "Click": ActionForm(_EVERYWHERE, (_POINT,)),
    "Drag": ActionForm(_EVERYWHERE, _START_END),
    "Swipe": ActionForm(_EVERYWHERE, _START_END),
    "DoubleClick": ActionForm(_EVERYWHERE, (_POINT,)),
    "LongPress": ActionForm(_EVERYWHERE, (_POINT,)),
    "Type": ActionForm(_EVERYWHERE, (_CONTENT,)),
    "Wait": ActionForm(_EVERYWHERE),
    "CallUser": ActionForm(_EVERYWHERE, (_REMARK,)),
    "Finished": ActionForm(_EVERYWHERE, (_REMARK,)),
    "PressBack": ActionForm(("mobile", "web")),
    "PressHome": ActionForm(("mobile",)),
    "PressEnter": ActionForm(("mobile",)),
    "PressRecent": ActionForm(("mobile",)),
    "LaunchApp": ActionForm(("mobile",), (Parameter("app", "content", ("app_name",)),)),
    "GetScreenshot": ActionForm(("mobile",)),
    "Answer": ActionForm(("mobile",), (_CONTENT,)),
    "RightClick": ActionForm(("desktop",), (Parameter("box", "point", ("point", *_POINT.also)),)),
    "Hotkey": ActionForm(("desktop", "web"), (Parameter("keys", "keys", ("key",)),)),
    "Scroll": ActionForm(("web",), (_POINT, Parameter("direction", "direction"))),
    "Launch": ActionForm(("web",), (Parameter("url", "content"),)),
    "GetUrl": ActionForm(("web",)),
    "TakeNote": ActionForm(("web",), (_CONTENT,)),
    "Hover": ActionForm(("web",), (_POINT,)),
    "SelectOption": ActionForm(("web",), (Parameter("index", "index"),)),
}
"""Every action by name (UI-Venus-2 report, Table 7), with the platforms that have it."""

DIRECTIONS = ("up", "down", "left", "right")
WEB_HOTKEY_KEYS = 3
"""Most keys of a Hotkey on the web."""


# --- actions -> text -------------------------------------------------------------------------------------------------


def render_action(action: Action, digits: int = 0) -> str:
    """The action as the agent writes it. Coordinates are zero-padded to `digits`; 0 writes them as they are.

    Raises:
        ValueError: no such action, or a parameter it needs is missing.
    """
    if action.name not in ACTIONS:
        raise ValueError(f"no action '{action.name}'; known: {', '.join(ACTIONS)}")
    written = []
    for parameter in ACTIONS[action.name].parameters:
        value = getattr(action, parameter.field)
        if value is None or value == ():
            raise ValueError(f"{action.name} needs {parameter.written}")
        written.append(f"{parameter.written}={_written(value, digits)}")
    return f"{action.name}({', '.join(written)})"


def render_response(think: str | None, actions: Sequence[Action], digits: int = 0) -> str:
    """One turn as text: the thought (left out when there is none), then the actions, one a line.

    Raises:
        ValueError: the thought holds a tag, or an action can't be written.
    """
    if think and re.search(r"</?(think|action)>", think):
        raise ValueError(f"a thought can't hold a tag: {think!r}")
    block = "<action>" + "\n".join(render_action(action, digits) for action in actions) + "</action>"
    return f"<think>{think}</think>\n{block}" if think else block


def _written(value: Any, digits: int) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(value)
    if all(isinstance(item, int) for item in value):
        return "(" + ", ".join(str(item) if item < 0 else f"{item:0{digits}d}" for item in value) + ")"
    return "[" + ", ".join(_quoted(item) for item in value) + "]"


def _quoted(text: str) -> str:
    named = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "'" + "".join(named.get(c, f"\\u{ord(c):04x}" if ord(c) < 32 else c) for c in text) + "'"


# --- actions <-> rows, geometry --------------------------------------------------------------------------------------


def action_type() -> pa.DataType:
    """The Arrow type of an action, one nullable field an attribute."""
    import pyarrow as pa

    return pa.struct(
        [
            ("name", pa.string()),
            ("point", pa.list_(pa.int16())),
            ("end", pa.list_(pa.int16())),
            ("content", pa.string()),
            ("keys", pa.list_(pa.string())),
            ("direction", pa.string()),
            ("index", pa.int32()),
        ]
    )


def action_to_row(action: Action) -> dict[str, Any]:
    """The action as a value of `action_type()`."""
    return {
        "name": action.name,
        "point": None if action.point is None else list(action.point),
        "end": None if action.end is None else list(action.end),
        "content": action.content,
        "keys": list(action.keys),
        "direction": action.direction,
        "index": action.index,
    }


def action_from_row(row: Mapping[str, Any]) -> Action:
    """The inverse of `action_to_row`."""
    return Action(
        name=row["name"],
        point=None if row["point"] is None else (int(row["point"][0]), int(row["point"][1])),
        end=None if row["end"] is None else (int(row["end"][0]), int(row["end"][1])),
        content=row["content"],
        keys=tuple(row["keys"] or ()),
        direction=row["direction"],
        index=row["index"],
    )


Coordinates = Literal["999", "1000", "unit", "pixel"]
"""What numbers for a place mean. They can't be told apart by looking at them, so a reader has to be told:

    999     integers 0-999, each a thousandth of the screen (how agents of this project write)
    1000    0-1000 over the width and height; 1000 is the right or lower edge
    unit    0-1 over the width and height; 1 is the right or lower edge
    pixel   pixels of the screenshot; its width or height is the right or lower edge
"""


def from_coordinates(x: float, y: float, coordinates: Coordinates, size: tuple[int, int] | None = None) -> Point:
    """The 0-999 point that a pair of numbers means. `size` is the screenshot's width and height, needed for pixels.

    Raises:
        ValueError: a number is not on the screen, or the size is needed and missing.
    """
    if coordinates == "999":
        point = (math.floor(x + 0.5), math.floor(y + 0.5))
        for number, value in zip(point, (x, y), strict=True):
            if not 0 <= number <= 999:
                raise ValueError(f"coordinates are integers 0-999, not {value:g}")
        return point
    if coordinates == "pixel" and size is None:
        raise ValueError("pixel coordinates need the size of the screenshot")
    width, height = {"1000": (1000, 1000), "unit": (1, 1), "pixel": size or (1, 1)}[coordinates]
    for value, extent, along in ((x, width, "across"), (y, height, "down")):
        if not 0 <= value <= extent:
            raise ValueError(f"{coordinates} coordinates go from 0 to {extent} {along}, not {value:g}")
    return from_pixel(x, y, width, height)


def to_coordinates(point: Point, coordinates: Coordinates, size: tuple[int, int] | None = None) -> tuple[float, float]:
    """The inverse of `from_coordinates`: the point itself, or the middle of its thousandth of the screen.

    Raises:
        ValueError: the size is needed and missing.
    """
    if coordinates == "999":
        return point
    if coordinates == "pixel" and size is None:
        raise ValueError("pixel coordinates need the size of the screenshot")
    return to_pixel(point, *{"1000": (1000, 1000), "unit": (1, 1), "pixel": size or (1, 1)}[coordinates])


def to_pixel(point: Point, width: int, height: int) -> tuple[float, float]:
    """The pixel position of a 0-999 point: the middle of its thousandth of the screen."""
    return ((point[0] + 0.5) * width / 1000, (point[1] + 0.5) * height / 1000)


def from_pixel(x: float, y: float, width: int, height: int) -> Point:
    """The 0-999 point whose cell holds a pixel position, clipped to the screen."""
    return (min(max(int(x * 1000 // width), 0), 999), min(max(int(y * 1000 // height), 0), 999))
