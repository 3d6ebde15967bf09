"""What an agent writes: round trips, the variants that real models write, and what is refused."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.agent.actions import (
    ACTIONS,
    REFUSAL,
    Action,
    ActionError,
    Platform,
    action_from_row,
    action_to_row,
    action_type,
    from_pixel,
    parse_actions,
    parse_response,
    render_action,
    render_response,
    to_pixel,
)

CLICK = Action("Click", point=(412, 87))

points = st.tuples(st.integers(0, 999), st.integers(0, 999))
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
FIELDS = {
    "point": points,
    "end": points,
    "content": text,
    "keys": st.lists(st.sampled_from(["ctrl", "shift", "c", "+", ",", "'", "\\", "f1"]), min_size=1, max_size=3).map(
        tuple
    ),
    "direction": st.sampled_from(["up", "down", "left", "right"]),
    "index": st.integers(0, 10_000),
}


@st.composite
def actions(draw: st.DrawFn, platform: str | None = None) -> Action:
    """Any well-formed action, of a platform where one is named."""
    names = [name for name, form in ACTIONS.items() if platform is None or platform in form.platforms]
    name = draw(st.sampled_from(sorted(names)))
    return Action(name, **{p.field: draw(FIELDS[p.field]) for p in ACTIONS[name].parameters})


# --- round trips -----------------------------------------------------------------------------------------------------


@given(actions(), st.sampled_from([0, 3]))
def test_what_is_written_is_understood(action: Action, digits: int) -> None:
    assert parse_actions(render_action(action, digits)) == [action]


thoughts = st.text("abc 设置.,()'\"<>=", max_size=30).map(str.strip)


@given(thoughts, st.lists(actions(), min_size=1, max_size=4), st.sampled_from([0, 3]))
def test_a_whole_turn_is_understood(think: str, several: list[Action], digits: int) -> None:
    response = parse_response(render_response(think, several, digits))
    assert response.think == think
    assert list(response.actions) == several


@given(actions())
def test_rows_hold_the_whole_action(action: Action) -> None:
    import pyarrow as pa

    stored = pa.array([action_to_row(action)], action_type()).to_pylist()[0]
    assert action_from_row(stored) == action


@given(points, st.integers(1, 4000), st.integers(1, 4000))
def test_a_point_survives_the_way_to_pixels_and_back(point: tuple[int, int], width: int, height: int) -> None:
    assert from_pixel(*to_pixel(point, width, height), width, height) == point


def test_padded_coordinates_and_the_refusal() -> None:
    assert render_action(CLICK, 3) == "Click(point=(412, 087))"
    assert render_action(Action("Click", point=REFUSAL), 3) == "Click(point=(-1, -1))"
    assert parse_actions("Click(point=(-1,-1))") == [Action("Click", point=REFUSAL)]


# --- what real models write ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "Click(point=(412, 87))",
        "Click(box=(412, 87))",
        "Click(point=[412, 87])",
        "Click(point=((412, 87)))",
        "Click((412, 87))",
        "click( point = ( 412 , 087 , ) )",
        "Click(point=(412.0, 87.2))",
        "Click(point=(411.6, 86.5))",
        "Click（point＝（412，87））",
        "Click（point：（４１２，８７））",
        "  Click(point=(412, 87)).",
        "Click(point=(412, 87)) I press the button to go on.",
        "Click(point=(412, 87))\n\nThat opens the settings (all of them).",
        "Click(point=(412,\n 87))\n",
    ],
)
def test_spellings_of_a_click(written: str) -> None:
    assert parse_actions(written) == [CLICK]
    assert parse_response(f"<think>Settings</think>\n<action>{written}</action>").actions == (CLICK,)


@pytest.mark.parametrize(
    ("written", "content"),
    [
        ("Type(content='hello')", "hello"),
        ('Type(content="hello")', "hello"),
        ("Type(content=`hello`)", "hello"),
        ("Type(content=“hello”)", "hello"),
        ("Type(content=‘hello’)", "hello"),
        ("Type(content=「你好」)", "你好"),
        ("Type(content=\\'hello\\')", "hello"),
        ('Type(content=\\"say \\"hi\\" now\\")', 'say "hi" now'),
        ("Type(content='it's done')", "it's done"),
        (r"Type(content='it\'s')", "it's"),
        (r"Type(content='a\nb\tc')", "a\nb\tc"),
        ("Type(content='a\nb')", "a\nb"),
        (r"Type(content='\u4f60\ud83d\ude00')", "你😀"),
        (r"Type(content='C:\docs')", r"C:\docs"),
        ("Type(content='</action>')", "</action>"),
        ("Type(content='Click(point=(1, 2))')", "Click(point=(1, 2))"),
        ("Type('hello')", "hello"),
        ("Type(content='（全角），。')", "（全角），。"),
        ("Type(content='')", ""),
    ],
)
def test_spellings_of_text(written: str, content: str) -> None:
    assert parse_response(f"<action>{written}</action>", "mobile").actions == (Action("Type", content=content),)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("RightClick(point=(1, 2))", Action("RightClick", point=(1, 2))),
        ("RightClick(box=(1, 2))", Action("RightClick", point=(1, 2))),
        ("Hotkey(keys=('ctrl', 'c'))", Action("Hotkey", keys=("ctrl", "c"))),
        ("Hotkey(keys=['Ctrl','C'])", Action("Hotkey", keys=("ctrl", "c"))),
        ("Hotkey(keys='ctrl+shift+t')", Action("Hotkey", keys=("ctrl", "shift", "t"))),
        ("Hotkey(keys='ctrl++')", Action("Hotkey", keys=("ctrl", "+"))),
        ("Hotkey(keys='enter')", Action("Hotkey", keys=("enter",))),
        ("Scroll(point=(5, 6), direction=down)", Action("Scroll", point=(5, 6), direction="down")),
        ("Scroll(direction='DOWN', point=(5, 6))", Action("Scroll", point=(5, 6), direction="down")),
        ("SelectOption(index=3)", Action("SelectOption", index=3)),
        ("press_back()", Action("PressBack")),
        ("Finished()", Action("Finished", content="")),
        ("Drag(start=(1,2), end=(3,4))", Action("Drag", point=(1, 2), end=(3, 4))),
        ("LaunchApp(app='设置')", Action("LaunchApp", content="设置")),
    ],
)
def test_spellings_of_other_actions(written: str, expected: Action) -> None:
    assert parse_actions(written) == [expected]


@pytest.mark.parametrize(
    ("written", "think"),
    [
        ("<think>a</think><action>Click(point=(412, 87))</action>", "a"),
        ("a</think>\n<action>Click(point=(412, 87))</action>", "a"),
        ("<think>a <action>Click(point=(412, 87))</action>", "a"),
        ("<action>Click(point=(412, 87))</action>", ""),
        ("<action>Click(point=(412, 87))", ""),
        ("<think>a</think>Click(point=(412, 87))", "a"),
        ("Click(point=(412, 87))", ""),
        ("Click(point=(412, 87))</action>", ""),
        ("<think>a</think><action>Click(point=(412, 87))</action> I hope this helps (it should).", "a"),
    ],
)
def test_tags_may_be_missing(written: str, think: str) -> None:
    response = parse_response(written)
    assert (response.think, response.actions) == (think, (CLICK,))


@pytest.mark.parametrize(
    "written",
    [
        "<action>Click(point=(1, 2))\nClick(point=(3, 4))</action>",
        "<action>Click(point=(1, 2)); Click(point=(3, 4))</action>",
        "<action>Click(point=(1, 2)),Click(point=(3, 4))</action>",
        "<action>Click(point=(1, 2))</action><action>Click(point=(3, 4))</action>",
    ],
)
def test_several_actions_in_one_turn(written: str) -> None:
    assert parse_response(written).actions == (Action("Click", point=(1, 2)), Action("Click", point=(3, 4)))


# --- what is refused, and where --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "message", "position"),
    [
        ("", "no action", 0),
        ("I can't do that.", "expected an action", 0),
        ("<think>hm", "never closed", 0),
        ("Tap(point=(1, 2))", "no action 'Tap'", 0),
        ("Click()", "needs point", 0),
        ("Click(point=(1, 2)", "expected ','", 18),
        ("Click(point=(1 2))", "expected ','", 15),
        ("Click(point=(0.41, 0.87))", "fractions", 6),
        ("Click(point=(412, 1087))", "0-999", 6),
        ("Click(point=(-1, 87))", "0-999", 6),
        ("Drag(start=(-1, -1), end=(1, 2))", "0-999", 5),
        ("Click(point=(1, 2, 3, 4))", "here are 4", 6),
        ("Click(point='a')", "two numbers", 6),
        ("Click(point=(1, 2), point=(3, 4))", "twice", 20),
        ("Click(where=(1, 2))", "no parameter 'where'", 6),
        ("Click(point=(1, 2), 5)", "one more", 20),
        ("Type(content=hello)", "quoted text", 5),
        ("Type(content='hello)", "never closed", 13),
        ("Type(content='say 'hi')')", "right after", 23),
        ("Scroll(point=(1, 2), direction='sideways')", "direction", 21),
        ("SelectOption(index=-1)", "whole number", 13),
        ("Hotkey(keys=[])", "keys", 7),
        ("Click(point=(((((1, 2))))))", "too deep", 16),
        ("Click(point=(99999999999999999999999, 2))", "digits", 13),
        ("Click(point=(1, 2)) or rather Click(point=(3, 4))", "which one", 30),
        ("Click(point=__import__('os'))", "expected ','", 22),
    ],
)
def test_errors_name_what_and_where(written: str, message: str, position: int) -> None:
    with pytest.raises(ActionError) as caught:
        parse_response(written)
    assert message in caught.value.message
    assert caught.value.position == position


@pytest.mark.parametrize("platform", get_args(Platform))
def test_an_action_of_another_platform_is_refused(platform: Platform) -> None:
    for name, form in ACTIONS.items():
        action = Action(name, **{p.field: _example(p.field) for p in form.parameters})
        if platform in form.platforms:
            assert parse_actions(render_action(action), platform) == [action]
        else:
            with pytest.raises(ActionError, match=f"{name} does not exist on {platform}"):
                parse_actions(render_action(action), platform)


def test_three_keys_at_most_on_the_web() -> None:
    written = "Hotkey(keys=['ctrl', 'alt', 'shift', 'c'])"
    assert parse_actions(written, "desktop")[0].keys == ("ctrl", "alt", "shift", "c")
    with pytest.raises(ActionError, match="at most 3 keys"):
        parse_actions(written, "web")


def _example(field: str) -> object:
    return {
        "point": (1, 2), "end": (3, 4), "content": "a", "keys": ("a",), "direction": "up", "index": 0,
    }[field]  # fmt: skip


# --- nothing crashes -------------------------------------------------------------------------------------------------

PIECES = (
    *ACTIONS,
    *(
        "<think>",
        "</think>",
        "<action>",
        "</action>",
        "(",
        ")",
        "[",
        "]",
        "=",
        ",",
        "'",
        '"',
        "\\",
        "\\u",
        "“",
        "\\ud83d",
    ),
    *("point", "start", "content", "keys", "1", "087", "-1", "0.5", "９", "（", "，", " ", "\n", "up", "设置", "e9"),
)
pieces = st.sampled_from(PIECES)


def understand(written: str) -> list[Action]:
    """The actions of a text, or none where it is refused at a place inside it; anything else fails the test."""
    try:
        return list(parse_response(written).actions)
    except ActionError as error:
        return [] if 0 <= error.position <= len(written) else pytest.fail(f"{error} lies outside of {written!r}")


@given(st.one_of(st.text(max_size=60), st.lists(pieces, max_size=30).map("".join)))
def test_any_text_is_an_answer_or_a_named_error(written: str) -> None:
    found = understand(written)
    if found:
        assert list(parse_response(render_response("", found)).actions) == found


@given(actions(), st.integers(0, 200), pieces)
def test_a_damaged_action_is_an_answer_or_a_named_error(action: Action, place: int, piece: str) -> None:
    written = render_action(action)
    found = understand(written[:place] + piece + written[place + 1 :])
    if found:
        assert list(parse_response(render_response("", found)).actions) == found
