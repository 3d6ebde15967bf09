"""The action space: what an agent can do, how it writes it, and what of that is understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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

    `point` is where the action happens (the start of a Drag or Swipe), `end` where a Drag or Swipe ends.
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


def to_pixel(point: Point, width: int, height: int) -> tuple[float, float]:
    """The pixel position of a 0-999 point: the middle of its thousandth of the screen."""
    return ((point[0] + 0.5) * width / 1000, (point[1] + 0.5) * height / 1000)


def from_pixel(x: float, y: float, width: int, height: int) -> Point:
    """The 0-999 point whose cell holds a pixel position, clipped to the screen."""
    return (min(max(int(x * 1000 // width), 0), 999), min(max(int(y * 1000 // height), 0), 999))
