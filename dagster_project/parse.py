"""`hesper parse`: what the grammar makes of a model's answers. It only reads them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, get_args

from assets.agent.actions import Action, ActionError, Coordinates, Platform, action_to_row, to_pixel
from assets.agent.grammar import parse_response
from assets.errors import ParameterError


def parse_answers(
    answers: Iterable[str], platform: str | None, size: tuple[int, int] | None, coordinates: Coordinates
) -> int:
    """Print each answer as a line of JSON, or (to standard error) what is wrong with it and where.

    Args:
        answers: one a line where they come from a file; a line that is a JSON string is read as one, so that answers
            with line breaks fit in a line.

    Returns:
        How many could not be understood.
    """
    failed = 0
    for number, answer in enumerate(answers, 1):
        text = _unpacked(answer)
        try:
            understood = json.dumps(_as_json(text, platform, size, coordinates), ensure_ascii=False)
            # Half a surrogate pair, which JSON can write and UTF-8 can't, stays written as JSON writes it.
            print(understood.encode("utf-8", "backslashreplace").decode(), flush=True)
        except ActionError as error:
            failed += 1
            print(f"answer {number}: {error}\n{error.caret()}", file=sys.stderr, flush=True)
    return failed


def read_size(written: str | None) -> tuple[int, int] | None:
    """`1280x720` as width and height.

    Raises:
        ParameterError: it is something else.
    """
    if written is None:
        return None
    width, _, height = written.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) > 0 and int(height) > 0):
        raise ParameterError(f"--size is WIDTHxHEIGHT in pixels, such as 1280x720, not '{written}'")
    return int(width), int(height)


def check_choices(platform: str | None, size: tuple[int, int] | None, coordinates: str) -> Coordinates:
    """The coordinates, typed.

    Raises:
        ParameterError: an option has no such value, or pixels come without a size.
    """
    if platform is not None and platform not in get_args(Platform):
        raise ParameterError(f"no platform '{platform}'; known: {', '.join(get_args(Platform))}")
    for known in get_args(Coordinates):
        if coordinates == known:
            if known == "pixel" and size is None:
                raise ParameterError("--coordinates pixel needs --size, the size of the screenshot")
            return known  # type: ignore[no-any-return]
    raise ParameterError(f"no coordinates '{coordinates}'; known: {', '.join(get_args(Coordinates))}")


def _unpacked(answer: str) -> str:
    if len(answer) > 1 and answer[0] == answer[-1] == '"':
        try:
            unpacked = json.loads(answer)
        except ValueError:
            return answer
        return unpacked if isinstance(unpacked, str) else answer
    return answer


def _as_json(text: str, platform: str | None, size: tuple[int, int] | None, coordinates: Coordinates) -> dict[str, Any]:
    response = parse_response(text, platform, coordinates, size)
    return {"think": response.think, "actions": [_action(action, size) for action in response.actions]}


def _action(action: Action, size: tuple[int, int] | None) -> dict[str, Any]:
    """The action's own parameters and, where the size is known, its places in pixels."""
    row = {name: value for name, value in action_to_row(action).items() if value is not None and value != []}
    if size is not None and action.points():
        row["pixels"] = [
            None if min(point) < 0 else [round(number, 1) for number in to_pixel(point, *size)]
            for point in action.points()
        ]
    return row
