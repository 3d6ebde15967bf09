"""The action space: what is written, where points lie, and the rows of a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.agent.actions import (
    ACTIONS,
    REFUSAL,
    Action,
    ActionError,
    Coordinates,
    action_from_row,
    action_to_row,
    action_type,
    from_coordinates,
    from_pixel,
    render_action,
    render_response,
    to_coordinates,
    to_pixel,
)
from tests.agent.written import actions, points, sizes


@given(actions())
def test_rows_hold_the_whole_action(action: Action) -> None:
    import pyarrow as pa

    stored = pa.array([action_to_row(action)], action_type()).to_pylist()[0]
    assert action_from_row(stored) == action


@given(points, sizes)
def test_a_point_survives_the_way_to_pixels_and_back(point: tuple[int, int], size: tuple[int, int]) -> None:
    assert from_pixel(*to_pixel(point, *size), *size) == point


@given(points, st.sampled_from(["999", "1000", "unit", "pixel"]), sizes)
def test_a_point_survives_the_way_to_other_coordinates_and_back(
    point: tuple[int, int], coordinates: Coordinates, size: tuple[int, int]
) -> None:
    assert from_coordinates(*to_coordinates(point, coordinates, size), coordinates, size) == point


@given(st.data(), sizes)
def test_a_pixel_comes_back_within_half_a_thousandth_of_the_screen(data: st.DataObject, size: tuple[int, int]) -> None:
    x, y = (data.draw(st.integers(0, extent - 1)) for extent in size)
    back = to_coordinates(from_coordinates(x, y, "pixel", size), "pixel", size)
    for pixel, found, extent in zip((x, y), back, size, strict=True):
        assert abs(pixel - found) <= extent / 2000 + 1e-9


@pytest.mark.parametrize(
    ("x", "y", "coordinates", "size", "point"),
    [
        (0, 999, "999", None, (0, 999)),
        (411.6, 86.5, "999", None, (412, 87)),
        (0, 1000, "1000", None, (0, 999)),
        (500, 250.9, "1000", None, (500, 250)),
        (0.0, 1.0, "unit", None, (0, 999)),
        (0.4125, 0.25, "unit", None, (412, 250)),
        (96, 192, "pixel", (192, 192), (500, 999)),
        (0, 719, "pixel", (360, 720), (0, 998)),
    ],
)
def test_what_coordinates_mean(
    x: float, y: float, coordinates: Coordinates, size: tuple[int, int] | None, point: tuple[int, int]
) -> None:
    assert from_coordinates(x, y, coordinates, size) == point


@pytest.mark.parametrize(
    ("x", "y", "coordinates", "size", "message"),
    [
        (1000, 0, "999", None, "integers 0-999, not 1000"),
        (0, -2, "999", None, "integers 0-999, not -2"),
        (1001, 0, "1000", None, "from 0 to 1000 across, not 1001"),
        (0.5, 2, "unit", None, "from 0 to 1 down, not 2"),
        (10, 193, "pixel", (192, 192), "from 0 to 192 down, not 193"),
        (10, 20, "pixel", None, "need the size"),
    ],
)
def test_coordinates_off_the_screen(
    x: float, y: float, coordinates: Coordinates, size: tuple[int, int] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_coordinates(x, y, coordinates, size)


def test_padded_coordinates_and_the_refusal() -> None:
    assert render_action(Action("Click", point=(412, 87)), 3) == "Click(point=(412, 087))"
    assert render_action(Action("Click", point=REFUSAL), 3) == "Click(point=(-1, -1))"


@pytest.mark.parametrize(
    ("action", "message"),
    [(Action("Tap"), "no action 'Tap'"), (Action("Click"), "needs point"), (Action("Hotkey"), "needs keys")],
)
def test_what_can_not_be_written(action: Action, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        render_action(action)


def test_a_thought_holds_no_tag() -> None:
    with pytest.raises(ValueError, match="tag"):
        render_response("a <action> b", [Action("Wait")])


@given(st.text(max_size=80), st.integers(0, 90))
def test_an_error_shows_its_place(text: str, place: int) -> None:
    error = ActionError("wrong", min(place, len(text)), text)
    assert (error.line, error.column) == (
        text[: error.position].count("\n") + 1,
        len(text[: error.position].split("\n")[-1]) + 1,
    )
    shown, caret = error.caret(width=200).split("\n")
    assert shown == text.split("\n")[error.line - 1].replace("\t", " ").replace("\r", " ")
    assert len(caret) >= error.column


def test_every_action_has_a_platform() -> None:
    assert all(form.platforms for form in ACTIONS.values())


def test_a_caret_stands_below_wide_characters_and_long_lines() -> None:
    assert ActionError("wrong", 4, "设置 x").caret() == "设置 x\n      ^"
    shown, caret = ActionError("wrong", 500, "a" * 500 + "!" + "b" * 500).caret(40).split("\n")
    assert (len(shown), shown[caret.index("^")]) == (40, "!")
