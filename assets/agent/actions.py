"""The action space: what an agent can do, how it writes it, and what of that is understood.

Text becomes actions by a hand-written recursive parser; nothing is ever evaluated. It takes every spelling whose
meaning is unambiguous (lists for tuples, any quotes, full-width punctuation, leading zeros, prose after the action)
and rejects the rest with an `ActionError` that names the place.
"""

from __future__ import annotations

import math
import re
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
    """Text that is no action, or not one of this platform. `position` is the offset of the trouble in the text."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position})")
        self.message = message
        self.position = position


# --- the action space ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """A parameter of an action: the name it is written with, others understood, and the `Action` field it fills."""

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
_POINT = Parameter("point", "point", ("box",))
_START_END = (Parameter("start", "point"), Parameter("end", "end"))
_CONTENT = Parameter("content", "content")
_REMARK = Parameter("content", "content", default="")

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
    "LaunchApp": ActionForm(("mobile",), (Parameter("app", "content"),)),
    "GetScreenshot": ActionForm(("mobile",)),
    "Answer": ActionForm(("mobile",), (_CONTENT,)),
    "RightClick": ActionForm(("desktop",), (Parameter("box", "point", ("point",)),)),
    "Hotkey": ActionForm(("desktop", "web"), (Parameter("keys", "keys"),)),
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


# --- text -> actions -------------------------------------------------------------------------------------------------


def parse_response(text: str, platform: str | None = None) -> Response:
    """Understand one turn: an optional `<think>` block and one or more actions.

    The opening `<think>`, the closing `</action>` or both action tags may be missing, and prose may follow the last
    action. With `platform`, an action that the platform does not have is an error.

    Raises:
        ActionError: there is no action, or one is malformed, ambiguous or not available here.
    """
    think, start = _split_think(text)
    opening = text.find("<action>", start)
    if opening < 0:
        return Response(think, tuple(_Parser(text, platform).actions(start)))
    actions: list[Action] = []
    while opening >= 0:
        parser = _Parser(text, platform)
        actions += parser.actions(opening + len("<action>"))
        opening = text.find("<action>", parser.position)
    return Response(think, tuple(actions))


def parse_actions(text: str, platform: str | None = None) -> list[Action]:
    """Understand text that holds only actions, one after the other.

    Raises:
        ActionError: as `parse_response`.
    """
    return _Parser(text, platform).actions(0)


def _split_think(text: str) -> tuple[str, int]:
    """The thought and the offset where the rest begins."""
    opening, closing, action = text.find("<think>"), text.find("</think>"), text.find("<action>")
    if action >= 0 and (opening < 0 or action < opening) and (closing < 0 or action < closing):
        return "", action
    begin = opening + len("<think>") if opening >= 0 else 0
    if closing >= 0:
        return text[begin:closing].strip(), closing + len("</think>")
    if opening >= 0:
        if action < 0:
            raise ActionError("the thought is never closed and no action follows", opening)
        return text[begin:action].strip(), action
    return "", 0


_HALF_WIDTH = {ord(full): half for full, half in zip("（）＝，：［］；．－＋", "()=,:[];.-+", strict=True)}
_HALF_WIDTH.update({ord("０") + digit: str(digit) for digit in range(10)})
_QUOTES = {
    "'": "'",
    '"': '"',
    "`": "`",
    "“": "”“",
    "”": "”“",
    "‘": "’‘",
    "’": "’‘",
    "「": "」",
    "『": "』",
    "＂": "＂",
    "＇": "＇",
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "/": "/", "0": "\0"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_CALL = re.compile(r"([A-Za-z_]+)\s*\(")
_BY_FOLDED_NAME = {name.casefold(): name for name in ACTIONS}
_MAX_DEPTH = 3
_MAX_DIGITS = 9


def _canonical(name: str) -> str | None:
    return _BY_FOLDED_NAME.get(name.replace("_", "").casefold())


@dataclass(frozen=True)
class _Word:
    """A bare word, such as the `up` of `direction=up`."""

    text: str


_Value = str | int | float | _Word | list  # type: ignore[type-arg]


class _Parser:
    """Recursive descent over the text itself, so that every position is the writer's own."""

    def __init__(self, text: str, platform: str | None) -> None:
        if platform is not None and platform not in _EVERYWHERE:
            raise ValueError(f"no platform '{platform}'; known: {', '.join(_EVERYWHERE)}")
        self._text = text
        # One character for one: positions hold. Contents are read from the original.
        self._plain = text.translate(_HALF_WIDTH)
        self._platform = platform
        self.position = 0

    def actions(self, start: int) -> list[Action]:
        """All actions from `start` to `</action>`, trailing prose or the end of the text."""
        self.position = start
        found: list[Action] = []
        while True:
            end = self.position
            self._skip(" \t\r\n\u3000;,")
            if self.position == len(self._plain) or self._plain.startswith("</action>", self.position):
                break
            call = _CALL.match(self._plain, self.position)
            if call is None or (found and _canonical(call[1]) is None):
                if not found:
                    raise ActionError("expected an action such as Click(point=(412, 87))", self.position)
                self._prose(end)
                break
            found.append(self._action())
        if not found:
            raise ActionError("no action", start)
        return found

    def _prose(self, end_of_action: int) -> None:
        """Words after the last action mean nothing, unless they touch it or hold another action."""
        closing = self._plain.find("</action>", self.position)
        stop = closing if closing >= 0 else len(self._plain)
        if self.position == end_of_action and self._plain[self.position] not in ".。!！<":
            raise ActionError("unexpected text right after the action", self.position)
        for call in _CALL.finditer(self._plain, self.position, stop):
            if _canonical(call[1]) is not None:
                raise ActionError("another action after prose: which one is meant?", call.start())
        self.position = stop

    def _action(self) -> Action:
        start = self.position
        name_match = _NAME.match(self._plain, self.position)
        assert name_match is not None
        name = _canonical(name_match[0])
        if name is None:
            raise ActionError(f"no action '{name_match[0]}'; known: {', '.join(ACTIONS)}", start)
        form = ACTIONS[name]
        if self._platform is not None and self._platform not in form.platforms:
            raise ActionError(f"{name} does not exist on {self._platform}", start)
        self.position = name_match.end()
        self._skip_space()
        self._expect("(")
        values: dict[str, tuple[_Value, int]] = {}
        while True:
            self._skip_space()
            if self._plain.startswith(")", self.position):
                self.position += 1
                break
            place = self.position
            parameter = self._parameter_name(name, form, len(values))
            if parameter in values:
                raise ActionError(f"{name} has {parameter} twice", place)
            self._skip_space()
            values[parameter] = (self._value(0), place)
            self._skip_space()
            if not self._plain.startswith(")", self.position):
                self._expect(",")
        return self._build(name, form, values, start)

    def _parameter_name(self, action: str, form: ActionForm, index: int) -> str:
        """The written name of the next parameter; without `name=` the parameters count in order."""
        match = _NAME.match(self._plain, self.position)
        if match is not None:
            after = match.end() + len(self._plain[match.end() :]) - len(self._plain[match.end() :].lstrip())
            if self._plain[after : after + 1] in ("=", ":"):
                for parameter in form.parameters:
                    if match[0].casefold() in (parameter.written, *parameter.also):
                        self.position = after + 1
                        return parameter.written
                known = ", ".join(parameter.written for parameter in form.parameters) or "none"
                raise ActionError(f"{action} has no parameter '{match[0]}'; known: {known}", self.position)
        if index >= len(form.parameters):
            raise ActionError(f"{action} takes {len(form.parameters)} parameters, here is one more", self.position)
        return form.parameters[index].written

    def _value(self, depth: int) -> _Value:
        if depth > _MAX_DEPTH:
            raise ActionError("nested too deep", self.position)
        rest = self._plain[self.position : self.position + 2]
        if not rest:
            raise ActionError("the text ends where a value should be", self.position)
        if rest[0] in "([":
            return self._sequence(depth)
        if self._text[self.position] in _QUOTES or (rest[0] == "\\" and rest[1:] in ("'", '"')):
            return self._string()
        number = _NUMBER.match(self._plain, self.position)
        if number is not None:
            if len(number[0]) > _MAX_DIGITS + 12 or len(number[0].split(".")[0].lstrip("+-0")) > _MAX_DIGITS:
                raise ActionError("a number with too many digits", self.position)
            self.position = number.end()
            return float(number[0]) if "." in number[0] else int(number[0])
        word = _NAME.match(self._plain, self.position)
        if word is not None:
            self.position = word.end()
            return _Word(word[0])
        raise ActionError(f"unexpected {self._text[self.position]!r} where a value should be", self.position)

    def _sequence(self, depth: int) -> _Value:
        closing = {"(": ")", "[": "]"}[self._plain[self.position]]
        self.position += 1
        items: list[_Value] = []
        while True:
            self._skip_space()
            if self._plain.startswith(closing, self.position):
                self.position += 1
                break
            items.append(self._value(depth + 1))
            self._skip_space()
            if not self._plain.startswith(closing, self.position):
                self._expect(",")
        # ((412, 87)) is the pair in parentheses once more.
        return items[0] if len(items) == 1 and isinstance(items[0], list) else items

    def _string(self) -> str:
        start = self.position
        escaped = self._text[start] == "\\"
        quote = self._text[start + 1] if escaped else self._text[start]
        closers = quote if escaped else _QUOTES[quote]
        self.position += 2 if escaped else 1
        parts: list[str] = []
        while self.position < len(self._text):
            character = self._text[self.position]
            if escaped and self._text.startswith("\\" + quote, self.position) and self._closes(self.position + 2):
                self.position += 2
                return "".join(parts)
            if character == "\\":
                parts.append(self._escape())
            elif not escaped and character in closers and self._closes(self.position + 1):
                self.position += 1
                return "".join(parts)
            else:
                parts.append(character)
                self.position += 1
        raise ActionError("the quote is never closed", start)

    def _closes(self, after: int) -> bool:
        """Whether a quote that ends at `after` ends its string: an apostrophe inside a word does not."""
        while after < len(self._plain) and self._plain[after].isspace():
            after += 1
        return self._plain[after : after + 1] in ("", ",", ")", "]")

    def _escape(self) -> str:
        """The character that a backslash sequence stands for; an unknown sequence stands for itself."""
        sequence = self._text[self.position + 1 : self.position + 2]
        self.position += 2
        if sequence in _ESCAPES:
            return _ESCAPES[sequence]
        if sequence in ("u", "x"):
            digits = self._text[self.position : self.position + (4 if sequence == "u" else 2)]
            if re.fullmatch(r"[0-9a-fA-F]+", digits) and len(digits) == (4 if sequence == "u" else 2):
                self.position += len(digits)
                return self._surrogates(int(digits, 16))
        if sequence in _QUOTES or sequence in "”’」』":
            return sequence
        return "\\" + sequence

    def _surrogates(self, code: int) -> str:
        """A \\uXXXX character; two halves of a surrogate pair make one."""
        if 0xD800 <= code < 0xDC00:
            low = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self._text, self.position)
            if low is not None:
                self.position = low.end()
                return chr(0x10000 + ((code - 0xD800) << 10) + (int(low[1], 16) - 0xDC00))
        if 0xD800 <= code < 0xE000:
            raise ActionError("half a surrogate pair", self.position)
        return chr(code)

    def _build(self, name: str, form: ActionForm, values: Mapping[str, tuple[_Value, int]], start: int) -> Action:
        fields: dict[str, Any] = {}
        for parameter in form.parameters:
            if parameter.written not in values:
                if parameter.default is None:
                    raise ActionError(f"{name} needs {parameter.written}", start)
                fields[parameter.field] = parameter.default
                continue
            value, place = values[parameter.written]
            fields[parameter.field] = self._convert(name, parameter, value, place)
        return Action(name, **fields)

    def _convert(self, action: str, parameter: Parameter, value: _Value, place: int) -> Any:
        match parameter.field:
            case "point" | "end":
                return _point(action, value, place)
            case "content":
                if not isinstance(value, str):
                    raise ActionError(f"{parameter.written} must be quoted text", place)
                return value
            case "keys":
                return _keys(value, place, self._platform)
            case "direction":
                word = value.text if isinstance(value, _Word) else value
                if not isinstance(word, str) or word.casefold() not in DIRECTIONS:
                    raise ActionError(f"direction must be one of {', '.join(DIRECTIONS)}", place)
                return word.casefold()
            case "index":
                if not isinstance(value, int) or value < 0:
                    raise ActionError("index must be a whole number from 0", place)
                return value
        raise AssertionError(parameter.field)

    def _skip(self, characters: str) -> None:
        while self.position < len(self._plain) and self._plain[self.position] in characters:
            self.position += 1

    def _skip_space(self) -> None:
        while self.position < len(self._plain) and self._plain[self.position].isspace():
            self.position += 1

    def _expect(self, character: str) -> None:
        if not self._plain.startswith(character, self.position):
            found = repr(self._text[self.position]) if self.position < len(self._text) else "the end of the text"
            raise ActionError(f"expected '{character}', found {found}", self.position)
        self.position += 1


def _point(action: str, value: _Value, place: int) -> Point:
    """A pair of numbers 0-999. Fractions of one and pixels can't be told from it, so they are not guessed."""
    if not isinstance(value, list) or any(isinstance(item, str | _Word | list) for item in value):
        raise ActionError("a point is two numbers, (x, y)", place)
    if len(value) != 2:
        raise ActionError(f"a point is two numbers, (x, y); here are {len(value)}", place)
    if all(0 <= item <= 1 for item in value) and any(item != int(item) for item in value):
        raise ActionError("coordinates are integers 0-999; these look like fractions of the screen", place)
    x, y = (math.floor(item + 0.5) for item in value)
    if (x, y) == REFUSAL and action == "Click":
        return REFUSAL
    for number in (x, y):
        if not 0 <= number <= 999:
            raise ActionError(f"coordinates are integers 0-999, not {number}", place)
    return (x, y)


def _keys(value: _Value, place: int, platform: str | None) -> tuple[str, ...]:
    if isinstance(value, str):
        parts = value.removesuffix("+").split("+") + (["+"] if value.endswith("+") else [])
        value = [part.strip() for part in parts if part.strip()]
    if isinstance(value, _Word):
        value = [value.text]
    if not isinstance(value, list) or not value or not all(isinstance(key, str) and key.strip() for key in value):
        raise ActionError("keys are quoted names, such as ['ctrl', 'c']", place)
    keys = tuple(key.strip().casefold() for key in value)
    if platform == "web" and len(keys) > WEB_HOTKEY_KEYS:
        raise ActionError(f"at most {WEB_HOTKEY_KEYS} keys on the web, here are {len(keys)}", place)
    return keys


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


def to_pixel(point: Point, width: int, height: int) -> tuple[float, float]:
    """The pixel position of a 0-999 point: the middle of its thousandth of the screen."""
    return ((point[0] + 0.5) * width / 1000, (point[1] + 0.5) * height / 1000)


def from_pixel(x: float, y: float, width: int, height: int) -> Point:
    """The 0-999 point whose cell holds a pixel position, clipped to the screen."""
    return (min(max(int(x * 1000 // width), 0), 999), min(max(int(y * 1000 // height), 0), 999))
