"""What an agent writes, what is understood and what happens on a page agree, for any action, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assets.agent.actions import Action, Coordinates, render_action, to_coordinates, to_pixel
from assets.agent.grammar import parse_response
from assets.environments.chromium import Chromium
from assets.environments.page import PageSession
from assets.environments.task import TaskContract
from tests.agent.written import points

SIZE = (360, 240)
PAGE = """<!doctype html><meta charset="utf-8"><style>html,body{margin:0;height:100%;overflow:hidden}
textarea{position:fixed;left:0;top:0;width:60px;height:20px;border:0;padding:0}
select{position:fixed;left:100px;top:0;width:60px;height:20px}</style>
<textarea></textarea><select><option>a<option>b<option>c</select><script>
let seen = [];
const note = (event) => seen.push([event.type, event.clientX ?? 0, event.clientY ?? 0, event.key ?? "",
  event.deltaX ?? 0, event.deltaY ?? 0, Math.round(event.timeStamp)]);
for (const name of ["mousedown", "mouseup", "click", "dblclick", "mousemove", "wheel", "keydown", "change"])
  addEventListener(name, note, {capture: true, passive: true});
</script>"""


class Witness(PageSession):
    """A session on a page that writes down the events it gets."""

    def _begin(self, task: TaskContract) -> None:
        if self.page.url == "about:blank":
            self.page.goto("data:text/html," + quote(PAGE))
        self.page.evaluate(
            "() => { document.querySelector('textarea').value = ''; document.activeElement.blur(); seen = []; }"
        )

    def _state(self) -> dict[str, Any]:
        return {"text": self.page.evaluate("document.querySelector('textarea').value"), "seen": self.events()}

    def events(self, *names: str) -> list[list[Any]]:
        """The events of these names so far, in order."""
        seen: list[list[Any]] = self.page.evaluate("seen")
        return [event for event in seen if not names or event[0] in names]


@pytest.fixture(scope="module")
def witness(chromium: Chromium) -> Iterator[Witness]:
    with Witness(SIZE, chromium, hold_seconds=0.6) as session:
        yield session


TASK = TaskContract("t", "web", "page", "en", "")
quickly = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def carried_out(witness: Witness, written: str, coordinates: Coordinates = "999") -> Action:
    """Parse the text, carry the action out on a fresh page, and return it."""
    (action,) = parse_response(written, "web", coordinates, SIZE).actions
    witness.reset(TASK)
    witness.page.evaluate("seen = []")
    witness.act(action)
    return action


def at(event: list[Any], point: tuple[int, int]) -> bool:
    """Whether an event happened on the pixel of a point."""
    x, y = to_pixel(point, *SIZE)
    return abs(event[1] - x) <= 1 and abs(event[2] - y) <= 1


spelling = st.sampled_from([
    ("<think>a</think>\n<action>{name}(point=({x}, {y}))</action>", "999"),
    ("{name}(box=[{x}, {y}]) and so on", "999"),
    ("<action>{name}（point＝（{x}，{y}））</action>", "pixel"),
    ("Action: {name}({x}, {y})", "unit"),
    ("<action>{name}(point='({x}, {y})')", "1000"),
])  # fmt: skip


def written_as(form: tuple[str, Coordinates], name: str, point: tuple[int, int]) -> str:
    x, y = to_coordinates(point, form[1], SIZE)
    return form[0].format(name=name, x=x, y=y)


@quickly
@given(points, spelling, st.sampled_from(["Click", "DoubleClick", "Hover"]))
def test_pointing_happens_where_it_was_written(
    witness: Witness, point: tuple[int, int], form: tuple[str, Coordinates], name: str
) -> None:
    x, y = to_coordinates(point, form[1], SIZE)
    if form[1] != "unit" and max(x, y) <= 1:
        return  # refused: could be fractions
    on_select = 95 <= to_pixel(point, *SIZE)[0] <= 165 and to_pixel(point, *SIZE)[1] <= 25
    action = carried_out(witness, written_as(form, name, point), form[1])
    assert action == Action(name, point=point)
    clicks = witness.events("click", "dblclick")
    if name == "Hover":
        assert at(witness.events("mousemove")[-1], point)
        assert clicks == []
    elif name == "Click":
        assert [event[0] for event in clicks] == ([] if on_select else ["click"])
        assert all(at(event, point) for event in clicks)
    elif not on_select:
        assert [event[0] for event in clicks] == ["click", "click", "dblclick"]
        assert all(at(event, point) for event in clicks)


@settings(quickly, max_examples=5)
@given(points.filter(lambda point: point[1] > 150))
def test_a_long_press_holds(witness: Witness, point: tuple[int, int]) -> None:
    carried_out(witness, f"LongPress(point={point})")
    down, up = witness.events("mousedown", "mouseup")
    assert at(down, point)
    assert at(up, point)
    assert up[-1] - down[-1] >= 550


@quickly
@given(points.filter(lambda point: point[1] > 150), points)
def test_a_drag_goes_from_start_to_end(witness: Witness, start: tuple[int, int], end: tuple[int, int]) -> None:
    action = carried_out(witness, f"Drag(start=[{start[0]}, {start[1]}], end=[{end[0]}, {end[1]}])")
    assert action.points() == [start, end]
    (down,), (up,) = witness.events("mousedown"), witness.events("mouseup")
    assert at(down, start)
    assert at(up, end)


@quickly
@given(points, st.sampled_from(["up", "down", "left", "right"]))
def test_scrolling_turns_the_wheel_there(witness: Witness, point: tuple[int, int], direction: str) -> None:
    carried_out(witness, f"Scroll(point={point}, direction={direction})")
    witness.page.wait_for_function("seen.some((event) => event[0] === 'wheel')")
    wheel = witness.events("wheel")[0]
    assert at(wheel, point)
    assert (wheel[4] > 0, wheel[4] < 0, wheel[5] > 0, wheel[5] < 0) == tuple(
        direction == name for name in ("right", "left", "down", "up")
    )


texts = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=30)


@quickly
@given(texts, st.booleans())
def test_what_is_typed_arrives(witness: Witness, text: str, as_json: bool) -> None:
    plain = f"type({json.dumps(text)})" if as_json else render_action(Action("Type", content=text))
    (action,) = parse_response(plain, "web").actions
    witness.reset(TASK)
    witness.act(Action("Click", point=(50, 30)))
    witness.act(action)
    assert witness.state()["text"] == text


@quickly
@given(st.lists(st.sampled_from(["ctrl", "alt", "shift"]), max_size=2, unique=True), st.sampled_from("abc14"))
def test_keys_are_pressed_together(witness: Witness, held: list[str], key: str) -> None:
    action = carried_out(witness, f"Hotkey(keys='{'+'.join([*held, key])}')")
    assert action.keys == (*held, key)
    names = {"ctrl": "Control", "alt": "Alt", "shift": "Shift"}
    pressed = [event[3] for event in witness.events("keydown")]
    assert pressed[:-1] == [names[name] for name in held]
    assert pressed[-1].lower() in (key, "!", "$")


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_option_is_chosen_by_its_index(witness: Witness, index: int) -> None:
    witness.reset(TASK)
    x, y = (130 * 1000 // SIZE[0], 10 * 1000 // SIZE[1])
    witness.act(parse_response(f"Click({x}, {y})", "web").actions[0])
    assert witness.note() == "0: a\n1: b\n2: c"
    witness.act(parse_response(f"SelectOption('{index}')", "web").actions[0])
    assert witness.page.evaluate("document.querySelector('select').selectedIndex") == index


@pytest.mark.parametrize("written", ["Wait()", "Finished('done')", "CallUser()", "Click(point=(-1, -1))"])
def test_what_touches_nothing_leaves_no_event(witness: Witness, written: str) -> None:
    carried_out(witness, written)
    assert witness.events("mousedown", "keydown", "wheel", "change") == []
