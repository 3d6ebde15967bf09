"""Text becomes actions, by a hand-written recursive parser; nothing is ever evaluated.

It takes every spelling whose meaning is unambiguous and that models really write: `box` for `point`, lists, objects or
plain numbers for tuples, floats, any quotes, escaped or not, full-width punctuation, tags, fences and parentheses too
few or too many around an action, prose before and after it. Everything else is an `ActionError` that names the place
and what was expected there. What coordinates mean is never guessed: the reader says it (`Coordinates`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args

from assets.agent.actions import (
    ACTIONS,
    DIRECTIONS,
    REFUSAL,
    WEB_HOTKEY_KEYS,
    Action,
    ActionError,
    ActionForm,
    Coordinates,
    Parameter,
    Platform,
    Point,
    Response,
    from_coordinates,
)


def parse_response(
    text: str,
    platform: str | None = None,
    coordinates: Coordinates = "999",
    size: tuple[int, int] | None = None,
) -> Response:
    """Understand one turn: an optional thought and one or more actions.

    The opening `<think>`, the closing `</action>` or all tags may be missing, and prose may follow the last action.

    Args:
        platform: where given, an action that it does not have is an error.
        coordinates: what numbers for a place mean.
        size: width and height of the screenshot; needed for pixels.

    Raises:
        ActionError: there is no action, or one is malformed, ambiguous or not available here.
        ValueError: no such platform, or a size is needed.
    """
    try:
        return _Parser(text, platform, coordinates, size).response()
    except ActionError as error:
        raise ActionError(error.message, error.position, text) from None


def parse_actions(
    text: str,
    platform: str | None = None,
    coordinates: Coordinates = "999",
    size: tuple[int, int] | None = None,
) -> list[Action]:
    """Understand text that holds only actions, one after the other. Arguments and errors as of `parse_response`."""
    try:
        return _Parser(text, platform, coordinates, size).actions(0)
    except ActionError as error:
        raise ActionError(error.message, error.position, text) from None


# --- what is read ----------------------------------------------------------------------------------------------------

# One character for one, so that positions hold: full-width forms, other dashes, spaces of no width.
_HALF_WIDTH = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if chr(code) not in "＂＇"}
_HALF_WIDTH |= {ord(character): "-" for character in "−–"}
_HALF_WIDTH |= {ord(character): " " for character in "\u200b\u200c\u200d\u2060\ufeff"}
_HALF_WIDTH |= {ord("、"): ","}

_QUOTES = {
    "'": "'",
    '"': '"',
    "`": "`",
    "“": "”“",
    "”": "”“",
    "„": "”“",
    "‘": "’‘",
    "’": "’‘",
    "「": "」",
    "『": "』",
    "＂": "＂",
    "＇": "＇",
}
"""Opening quote -> the characters that close it."""

_FALLBACK = {"'": "’", '"': "”", "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "＂": '"”', "＇": "'’"}
"""What closes it where none of the right ones does."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "/": "/", "0": "\0"}
_TAG = re.compile(r"<\s*(/?)\s*(think|action)\s*>", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_CALL = re.compile(r"([A-Za-z_]+(?:[ -][A-Za-z]+)?)[ \t]*\(")
_MARKER = re.compile(r"[*\s]*action[*]*\s*[:=][*]*\s*", re.IGNORECASE)
_MARKED_LINE = re.compile(r"^[ \t*]*action[*]*[ \t]*[:=]", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"^\s*[*]*(thought|think|思考)[*]*\s*[:：]\s*", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z]*|`")
_DIGITS = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_NUMBER = re.compile(_DIGITS)
_PAIR = re.compile(
    rf"\s*(?:<point>|<\|box_start\|>)?\s*[(\[]?\s*({_DIGITS})\s*[,\s]\s*({_DIGITS})\s*[)\]]?\s*(?:</point>|<\|box_end\|>)?\s*"
)
_MODIFIERS = frozenset({"ctrl", "control", "alt", "shift", "meta", "cmd", "command", "win", "super", "option"})
_AXES = {1: (("x", "y"),), 2: (("x1", "y1"), ("x2", "y2"))}
_BY_FOLDED_NAME = {name.casefold(): name for name in ACTIONS}
_MAX_DEPTH = 3
_MAX_DIGITS = 9


def _canonical(name: str) -> str | None:
    return _BY_FOLDED_NAME.get(re.sub("[_ -]", "", name).casefold())


def _called(written: str) -> str | None:
    """The action that the words before a parenthesis end in: `Long Press`, or `Click` of `then Click`."""
    return _canonical(written) or _canonical(re.split("[ -]", written)[-1])


@dataclass(frozen=True)
class _Value:
    """What stands for a parameter: quoted text, a number, a bare word or a list of values, and where it begins."""

    kind: Literal["text", "number", "word", "list"]
    content: Any
    position: int


# --- the parser ------------------------------------------------------------------------------------------------------


class _Parser:
    """Recursive descent over the text itself, so that every position is the writer's own."""

    def __init__(self, text: str, platform: str | None, coordinates: Coordinates, size: tuple[int, int] | None) -> None:
        if platform is not None and platform not in get_args(Platform):
            raise ValueError(f"no platform '{platform}'; known: {', '.join(get_args(Platform))}")
        if coordinates not in get_args(Coordinates):
            raise ValueError(f"no coordinates '{coordinates}'; known: {', '.join(get_args(Coordinates))}")
        if coordinates == "pixel" and size is None:
            raise ValueError("pixel coordinates need the size of the screenshot")
        self._text = text
        self._plain = text.translate(_HALF_WIDTH)
        self._platform = platform
        self._coordinates = coordinates
        self._size = size
        self.position = 0

    # --- a turn ------------------------------------------------------------------------------------------------------

    def response(self) -> Response:
        """The thought and the actions of the whole text."""
        think, start = self._think()
        opening = self._tag("action", start)
        if opening is None:
            return Response(think, tuple(self.actions(start)))
        actions: list[Action] = []
        while opening is not None:
            actions += self.actions(opening.end())
            opening = self._tag("action", self.position)
        return Response(think, tuple(actions))

    def _tag(self, name: str, start: int, closing: bool = False) -> re.Match[str] | None:
        """The first `<name>` or `</name>` from `start`."""
        for tag in _TAG.finditer(self._plain, start):
            if tag[2].casefold() == name and bool(tag[1]) == closing:
                return tag
        return None

    def _think(self) -> tuple[str, int]:
        """The thought and the offset where the rest begins."""
        self._skip_to_call()
        call = _CALL.match(self._plain, self.position)
        if call is not None and _called(call[1]) is not None:
            return "", self.position
        opened, closed, action = self._tag("think", 0), self._tag("think", 0, True), self._tag("action", 0)
        before = action is not None and all(tag is None or action.start() < tag.start() for tag in (opened, closed))
        if action is not None and before:
            return self._text[: action.start()].strip(), action.start()
        begin = opened.end() if opened is not None else 0
        if closed is not None:
            return self._text[begin : closed.start()].strip(), closed.end()
        if opened is not None:
            if action is None:
                raise ActionError("the thought is never closed and no action follows", opened.start())
            return self._text[begin : action.start()].strip(), action.start()
        marked = _MARKED_LINE.search(self._plain)
        if marked is not None:
            return _THOUGHT.sub("", self._text[: marked.start()]).strip(), marked.start()
        return "", 0

    def actions(self, start: int) -> list[Action]:
        """All actions from `start` to `</action>`, trailing prose or the end of the text."""
        self.position = start
        found: list[Action] = []
        while True:
            end = self.position
            self._skip_to_call()
            if self.position == len(self._plain) or self._at_closing():
                break
            call = _CALL.match(self._plain, self.position)
            if call is None or (found and _canonical(call[1]) is None):
                if not found:
                    raise ActionError("expected an action such as Click(point=(412, 87))", self.position)
                self._prose(end)
                break
            found.append(self._action(call))
        if not found:
            raise ActionError("no action; expected one such as Click(point=(412, 87))", start)
        return found

    def _skip_to_call(self) -> None:
        """Skip what may stand before an action: space, separators, code fences, `Action:`."""
        while True:
            begin = self.position
            self._skip(";,")
            for pattern in (_FENCE, _MARKER):
                found = pattern.match(self._plain, self.position)
                if found is not None:
                    self.position = found.end()
            if self.position == begin:
                return

    def _at_closing(self) -> bool:
        tag = _TAG.match(self._plain, self.position)
        return tag is not None and tag[0].replace(" ", "").casefold() == "</action>"

    def _prose(self, end_of_action: int) -> None:
        """Words after the last action mean nothing, unless they touch it or hold another action."""
        closing = self._tag("action", self.position, True)
        stop = closing.start() if closing is not None else len(self._plain)
        if self.position == end_of_action and self._text[self.position] not in ".。!！?？<*":
            raise ActionError(
                f"unexpected {self._text[self.position]!r} right after the action; expected another action, "
                "a line end or </action>",
                self.position,
            )
        for call in _CALL.finditer(self._plain, self.position, stop):
            if _called(call[1]) is not None:
                start = call.start() if _canonical(call[1]) else call.end(1) - len(re.split("[ -]", call[1])[-1])
                raise ActionError("another action after prose: which one is meant?", start)
        self.position = stop

    # --- one action --------------------------------------------------------------------------------------------------

    def _action(self, call: re.Match[str]) -> Action:
        name = _canonical(call[1])
        if name is None:
            near = get_close_matches(call[1], ACTIONS, 1)
            known = f"did you mean {near[0]}?" if near else f"known: {', '.join(ACTIONS)}"
            raise ActionError(f"no action '{call[1]}'; {known}", call.start())
        form = ACTIONS[name]
        if self._platform is not None and self._platform not in form.platforms:
            raise ActionError(f"{name} does not exist on {self._platform}", call.start())
        self.position = call.end()
        values: dict[str, _Value] = {}
        while True:
            self._skip()
            if self._plain.startswith(")", self.position):
                self.position += 1
                break
            place = self.position
            parameter = self._parameter_name(name, form, values)
            if parameter in values:
                raise ActionError(f"{name} has {parameter} twice", place)
            self._skip()
            values[parameter] = self._argument(form, parameter)
            self._skip()
            if not self._plain.startswith(")", self.position):
                self._expect(",", "or ')'")
        return self._build(name, form, values, call.start())

    def _parameter_name(self, action: str, form: ActionForm, values: Mapping[str, _Value]) -> str:
        """The written name of the next parameter; without `name=` the parameters count in order."""
        written = re.compile(r"""\\?['"]?([A-Za-z_][A-Za-z_0-9]*)\\?['"]?\s*[=:]""").match(self._plain, self.position)
        if written is not None:
            name = written[1].casefold()
            axes = _AXES.get(len(_places(form)), ())
            for parameter in form.parameters:
                if name in (parameter.written, *parameter.also):
                    self.position = written.end()
                    return parameter.written
            if any(name in pair for pair in axes):
                self.position = written.end()
                return name
            known = ", ".join(parameter.written for parameter in form.parameters) or "none"
            raise ActionError(f"{action} has no parameter '{written[1]}'; known: {known}", self.position)
        if len(values) >= len(form.parameters):
            raise ActionError(f"{action} takes {len(form.parameters)} parameters, here is one more", self.position)
        return form.parameters[len(values)].written

    def _argument(self, form: ActionForm, parameter: str) -> _Value:
        """The value of a parameter. A place may be two numbers without parentheses: `Click(412, 87)`."""
        first = self._value(0, ",)")
        if first.kind != "number" or parameter not in {place.written for place in _places(form)}:
            return first
        self._skip()
        self._expect(",", "and the second number of the point")
        self._skip()
        if _NUMBER.match(self._plain, self.position) is None:
            raise ActionError("expected the second number of the point", self.position)
        return _Value("list", [first, self._value(0, ",)")], first.position)

    def _build(self, name: str, form: ActionForm, values: dict[str, _Value], start: int) -> Action:
        for parameter, (x, y) in zip(_places(form), _AXES.get(len(_places(form)), ()), strict=False):
            if x in values or y in values:
                if x not in values or y not in values or parameter.written in values:
                    raise ActionError(f"{name} needs {parameter.written}, or both {x} and {y}", start)
                values[parameter.written] = _Value("list", [values[x], values[y]], values[x].position)
        fields: dict[str, Any] = {}
        for parameter in form.parameters:
            if parameter.written in values:
                fields[parameter.field] = self._converted(name, parameter, values[parameter.written])
            elif parameter.default is not None:
                fields[parameter.field] = parameter.default
            else:
                raise ActionError(f"{name} needs {parameter.written}", start)
        return Action(name, **fields)

    # --- values ------------------------------------------------------------------------------------------------------

    def _value(self, depth: int, enders: str) -> _Value:
        """One value; `enders` are the characters that may follow it."""
        start = self.position
        if depth > _MAX_DEPTH:
            raise ActionError("nested too deep", start)
        rest = self._plain[start : start + 2]
        if not rest:
            raise ActionError("the text ends where a value should be", start)
        if rest[0] in "([":
            return self._sequence(depth)
        if rest[0] == "{":
            return self._object(depth)
        if rest[0] == "<":
            pair = _PAIR.match(self._plain, start)
            if pair is not None and pair.start(1) > start:
                self.position = pair.end()
                return self._pair(pair[1], pair[2], start)
        if self._text[start] in _QUOTES or (rest[0] == "\\" and rest[1:] in ("'", '"')):
            return _Value("text", self._string(enders), start)
        number = _NUMBER.match(self._plain, start)
        if number is not None:
            self.position = number.end()
            return _Value("number", _number(number[0], start), start)
        word = _NAME.match(self._plain, start)
        if word is not None:
            self.position = word.end()
            while self._plain.startswith("+", self.position):  # ctrl+shift+t
                key = re.compile("[A-Za-z0-9_]+").match(self._plain, self.position + 1)
                if key is None:
                    break
                self.position = key.end()
            return _Value("word", self._plain[start : self.position], start)
        raise ActionError(f"unexpected {self._text[start]!r}; expected a value", start)

    def _sequence(self, depth: int) -> _Value:
        start = self.position
        closing = {"(": ")", "[": "]"}[self._plain[start]]
        self.position += 1
        items: list[_Value] = []
        while True:
            self._skip()
            if self._plain.startswith(closing, self.position):
                self.position += 1
                break
            items.append(self._value(depth + 1, "," + closing))
            self._skip()
            if not self._plain.startswith(closing, self.position):
                self._expect(",", f"or '{closing}'")
        # ((412, 87)) is the pair in parentheses once more, ('a') the text.
        if len(items) == 1 and (items[0].kind == "list" or (closing == ")" and items[0].kind == "text")):
            return items[0]
        return _Value("list", items, start)

    def _object(self, depth: int) -> _Value:
        """`{"x": 412, "y": 87}`, the only object that means something: a pair."""
        start = self.position
        self.position += 1
        items: dict[str, _Value] = {}
        while True:
            self._skip()
            if self._plain.startswith("}", self.position):
                self.position += 1
                break
            key = re.compile(r"""\\?['"]?([xy])\\?['"]?\s*[:=]""", re.IGNORECASE).match(self._plain, self.position)
            if key is None or key[1].casefold() in items:
                raise ActionError("expected x and y, each once, as in {x: 412, y: 87}", self.position)
            self.position = key.end()
            self._skip()
            items[key[1].casefold()] = self._value(depth + 1, ",}")
            self._skip()
            if not self._plain.startswith("}", self.position):
                self._expect(",", "or '}'")
        if set(items) != {"x", "y"}:
            raise ActionError("expected x and y, each once, as in {x: 412, y: 87}", start)
        return _Value("list", [items["x"], items["y"]], start)

    def _pair(self, x: str, y: str, start: int) -> _Value:
        return _Value("list", [_Value("number", _number(part, start), start) for part in (x, y)], start)

    # --- quoted text -------------------------------------------------------------------------------------------------

    def _string(self, enders: str) -> str:
        """The content of quoted text. A quote ends it only where one of `enders` follows: an apostrophe does not."""
        start = self.position
        escaped = self._text[start] == "\\"
        quote = self._text[start + 1] if escaped else self._text[start]
        attempts: list[tuple[str, ...]]
        for triple in ('"""', "'''"):
            if self._text.startswith(triple, start) and self._text.find(triple, start + 3) >= 0:
                opening, attempts = start + 3, [(triple,)]
                break
        else:
            opening = start + (2 if escaped else 1)
            attempts = [("\\" + quote,)] if escaped else [tuple(_QUOTES[quote]), tuple(_FALLBACK.get(quote, ""))]
        for closers in attempts:
            content = self._read(opening, closers, enders)
            if content is not None:
                return content
        raise ActionError(f"the quote is never closed; expected {attempts[0][0]} before '{enders[-1]}'", start)

    def _read(self, opening: int, closers: tuple[str, ...], enders: str) -> str | None:
        """The text up to the first of `closers` that ends it; None where none does."""
        self.position = opening
        parts: list[str] = []
        inner = False
        while self.position < len(self._text):
            closer = next((c for c in closers if self._text.startswith(c, self.position)), None)
            if closer is not None:
                if self._ends(self.position + len(closer), enders):
                    content = "".join(parts)
                    if inner and any(_called(call[1]) for call in _CALL.finditer(content)):
                        raise ActionError("quotes inside of quotes, and an action: where does this text end?", opening)
                    self.position += len(closer)
                    return content
                inner = True
            if self._text[self.position] == "\\":
                parts.append(self._escape())
            else:
                parts.append(self._text[self.position])
                self.position += 1
        return None

    def _ends(self, after: int, enders: str) -> bool:
        """Whether a quote that ends at `after` ends its text."""
        while after < len(self._plain) and self._plain[after].isspace():
            after += 1
        return after == len(self._plain) or self._plain[after] in enders

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
        if sequence and (sequence in _QUOTES or sequence in "”’」』"):
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
            raise ActionError("half a surrogate pair; expected \\uD8xx\\uDCxx", self.position - 6)
        return chr(code)

    # --- values -> fields --------------------------------------------------------------------------------------------

    def _converted(self, action: str, parameter: Parameter, value: _Value) -> Any:
        match parameter.field:
            case "point" | "end":
                return self._point(action, value)
            case "content":
                if value.kind != "text":
                    raise ActionError(f"{parameter.written} must be quoted text", value.position)
                return value.content
            case "keys":
                return self._keys(value)
            case "direction":
                if value.kind not in ("text", "word") or value.content.strip().casefold() not in DIRECTIONS:
                    raise ActionError(f"direction must be one of {', '.join(DIRECTIONS)}", value.position)
                return value.content.strip().casefold()
            case "index":
                number = _as_number(value)
                if number is None or number.content < 0 or number.content != int(number.content):
                    raise ActionError("index must be a whole number from 0", value.position)
                return int(number.content)
        raise AssertionError(parameter.field)

    def _point(self, action: str, value: _Value) -> Point:
        """A pair of numbers, in the coordinates that the reader named. Other coordinates can't be told from it."""
        if value.kind == "text":
            pair = _PAIR.fullmatch(value.content.translate(_HALF_WIDTH))
            if pair is not None:
                value = self._pair(pair[1], pair[2], value.position)
        numbers = [_as_number(item) for item in value.content] if value.kind == "list" else [None]
        found = [number.content for number in numbers if number is not None]
        if len(found) != len(numbers):
            raise ActionError("a point is two numbers, (x, y)", value.position)
        if len(found) != 2:
            raise ActionError(f"a point is two numbers, (x, y); here are {len(found)}", value.position)
        if found == [*REFUSAL] and action == "Click":
            return REFUSAL
        fractions = all(0 <= item <= 1 for item in found) and any(item != int(item) for item in found)
        if fractions and self._coordinates != "unit":
            expected = {"999": "integers 0-999", "1000": "0-1000", "pixel": "pixels"}[self._coordinates]
            raise ActionError(f"coordinates are {expected}; these look like fractions of the screen", value.position)
        try:
            return from_coordinates(found[0], found[1], self._coordinates, self._size)
        except ValueError as error:
            raise ActionError(str(error), value.position) from None

    def _keys(self, value: _Value) -> tuple[str, ...]:
        items = value.content if value.kind == "list" else [value]
        if not items or any(item.kind not in ("text", "word") or not item.content.strip() for item in items):
            raise ActionError("keys are quoted names, such as ['ctrl', 'c']", value.position)
        keys = tuple(key for item in items for key in _split_keys(item.content))
        if self._platform == "web" and len(keys) > WEB_HOTKEY_KEYS:
            raise ActionError(f"at most {WEB_HOTKEY_KEYS} keys on the web, here are {len(keys)}", value.position)
        return keys

    # --- characters --------------------------------------------------------------------------------------------------

    def _skip(self, also: str = "") -> None:
        while self.position < len(self._plain) and (
            self._plain[self.position].isspace() or self._plain[self.position] in also
        ):
            self.position += 1

    def _expect(self, character: str, alternative: str) -> None:
        if not self._plain.startswith(character, self.position):
            found = repr(self._text[self.position]) if self.position < len(self._text) else "the end of the text"
            raise ActionError(f"expected '{character}' {alternative}, found {found}", self.position)
        self.position += 1


def _places(form: ActionForm) -> list[Parameter]:
    return [parameter for parameter in form.parameters if parameter.field in ("point", "end")]


def _number(written: str, position: int) -> int | float:
    if len(written) > _MAX_DIGITS + 12 or len(written.split(".")[0].lstrip("+-0")) > _MAX_DIGITS:
        raise ActionError("a number with too many digits", position)
    number = int(written) if written.lstrip("+-").isdecimal() else float(written)
    if not math.isfinite(number):
        raise ActionError("a number with too many digits", position)
    return number


def _as_number(value: _Value) -> _Value | None:
    """The value as a number; quoted digits are one too."""
    if value.kind == "number":
        return value
    if value.kind == "text":
        written = value.content.translate(_HALF_WIDTH).strip()
        if _NUMBER.fullmatch(written):
            return _Value("number", _number(written, value.position), value.position)
    return None


def _split_keys(written: str) -> list[str]:
    """The keys of `ctrl`, `ctrl+c`, `Ctrl C` or `ctrl-shift-t`; `+` and `-` alone are keys."""
    written = written.strip().casefold()
    parts = written.removesuffix("+").split("+") + (["+"] if written.endswith("+") else [])
    parts = [part.strip() for part in parts if part.strip()]
    if len(parts) == 1 and re.split("[ -]", parts[0])[0] in _MODIFIERS:
        parts = [part for part in re.split("[ -]+", parts[0]) if part]
    return ["".join(part.split()) for part in parts]
