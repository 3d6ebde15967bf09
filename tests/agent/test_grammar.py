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
    Coordinates,
    Platform,
    render_action,
    render_response,
    to_coordinates,
)
from assets.agent.grammar import parse_actions, parse_response
from tests.agent.written import actions, sizes

CLICK = Action("Click", point=(412, 87))


# --- round trips -----------------------------------------------------------------------------------------------------


@given(actions(), st.sampled_from([0, 3]))
def test_what_is_written_is_understood(action: Action, digits: int) -> None:
    assert parse_actions(render_action(action, digits)) == [action]


@pytest.mark.parametrize("platform", get_args(Platform))
@given(st.data())
def test_every_platform_understands_its_own(platform: Platform, data: st.DataObject) -> None:
    action = data.draw(actions(platform))
    assert parse_response(render_response("", [action], 3), platform).actions == (action,)


thoughts = st.text("abc 设置.,()'\"<>=", max_size=30).map(str.strip)


@given(thoughts, st.lists(actions(), min_size=1, max_size=4), st.sampled_from([0, 3]))
def test_a_whole_turn_is_understood(think: str, several: list[Action], digits: int) -> None:
    response = parse_response(render_response(think, several, digits))
    assert response.think == think
    assert list(response.actions) == several


@given(actions(), st.sampled_from(["1000", "unit", "pixel"]), sizes)
def test_actions_are_understood_in_the_coordinates_that_were_named(
    action: Action, coordinates: Coordinates, size: tuple[int, int]
) -> None:
    written = render_action(Action(**{**vars(action), "point": None, "end": None})) if not action.points() else None
    if written is None:
        names = [p.written for p in ACTIONS[action.name].parameters if p.field in ("point", "end")]
        places = [to_coordinates(point, coordinates, size) for point in action.points()]
        rest = f", direction={action.direction}" if action.direction else ""
        arguments = [f"{name}=({x!r}, {y!r})" for name, (x, y) in zip(names, places, strict=True)]
        if coordinates != "unit" and any(max(place) <= 1 for place in places):
            with pytest.raises(ActionError, match="look like fractions"):
                parse_actions(f"{action.name}({', '.join(arguments)}{rest})", None, coordinates, size)
            return
        written = f"{action.name}({', '.join(arguments)}{rest})"
    assert parse_actions(written, None, coordinates, size) == [action]


def test_padded_coordinates_and_the_refusal() -> None:
    assert parse_actions("Click(point=(-1,-1))") == [Action("Click", point=REFUSAL)]
    assert parse_actions("Click(point=(-1,-1))", None, "pixel", (10, 10)) == [Action("Click", point=REFUSAL)]


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
        "Click(412, 87)",
        "Click(x=412, y=87)",
        "Click(point=412, 87)",
        "Click(coordinate=[412, 87])",
        "Click(point={'x': 412, 'y': 87})",
        'Click(point={\\"x\\": 412, \\"y\\": 87})',
        "Click(point='(412, 87)')",
        'Click("point": [412, 87])',
        'Click(point=("412", "87"))',
        "Click(point='<point>412 87</point>')",
        "Click(point=<point>412 87</point>)",
        "Click(point='<|box_start|>(412,87)<|box_end|>')",
        "Click(point=[[412, 87]])",
        "Click(point=(4.12e2, +87))",
        "Ｃｌｉｃｋ（ｐｏｉｎｔ＝［４１２、８７］）",
        "`Click(point=(412, 87))`",
        "```python\nClick(point=(412, 87))\n```",
        "**Action:** Click(point=(412, 87))",
        "CLICK(POINT=(412, 87))",
        "\ufeffClick(point=(412,\u200b 87))",
        "Click(point=(412, 87))<|im_end|>",
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
        ("Type(text='hello')", "hello"),
        ('Type(content="""a \'b\' "c" d""")', "a 'b' \"c\" d"),
        ('Type(content=“hello")', "hello"),
        ('Type(content="hello”)', "hello"),
        ("Type(content=‘it’s “so”’)", "it’s “so”"),
        ("Type(content=('hello'))", "hello"),
        ("Type(content='a\u200bb')", "a\u200bb"),
        ("Type(content='１２，３')", "１２，３"),
        ("Type(content='<think>a</think><action>')", "<think>a</think><action>"),
        ("Type(content='100% (really) [sic] {x}')", "100% (really) [sic] {x}"),
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
        ("Press Back()", Action("PressBack")),
        ("long-press(box=[1, 2])", Action("LongPress", point=(1, 2))),
        ("DOUBLE CLICK(1, 2)", Action("DoubleClick", point=(1, 2))),
        ("Drag(1, 2, 3, 4)", Action("Drag", point=(1, 2), end=(3, 4))),
        ("Drag(x1=1, y1=2, x2=3, y2=4)", Action("Drag", point=(1, 2), end=(3, 4))),
        ("Swipe(end=[3, 4], start=[1, 2])", Action("Swipe", point=(1, 2), end=(3, 4))),
        ("Swipe(start_box='(1,2)', end_box='(3,4)')", Action("Swipe", point=(1, 2), end=(3, 4))),
        ("Scroll(1, 2, 'Left ')", Action("Scroll", point=(1, 2), direction="left")),
        ("SelectOption('3')", Action("SelectOption", index=3)),
        ("SelectOption(index=3.0)", Action("SelectOption", index=3)),
        ("Hotkey(key='Ctrl C')", Action("Hotkey", keys=("ctrl", "c"))),
        ("Hotkey(keys='ctrl-shift-t')", Action("Hotkey", keys=("ctrl", "shift", "t"))),
        ("Hotkey(keys=['ctrl+c'])", Action("Hotkey", keys=("ctrl", "c"))),
        ("Hotkey(keys=[ctrl, c])", Action("Hotkey", keys=("ctrl", "c"))),
        ("Hotkey(keys=ctrl+c)", Action("Hotkey", keys=("ctrl", "c"))),
        ("Hotkey(keys='Page Down')", Action("Hotkey", keys=("pagedown",))),
        ("Hotkey(keys=['-'])", Action("Hotkey", keys=("-",))),
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
        ("<THINK>a</THINK>\n<Action >Click(point=(412, 87))< / Action>", "a"),
        ("＜think＞a＜/think＞＜action＞Click(point=(412, 87))＜/action＞", "a"),
        ("I open it. <action>Click(point=(412, 87))</action>", "I open it."),
        ("Thought: I open it.\nAction: Click(point=(412, 87))", "I open it."),
        ("<think>Use <action> (a tag)</think><action>Click(point=(412, 87))</action>", "Use <action> (a tag)"),
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
        ("Click(point=(0.41, 0.87))", "fractions", 12),
        ("Click(point=(412, 1087))", "0-999, not 1087", 12),
        ("Click(point=(-1, 87))", "0-999, not -1", 12),
        ("Drag(start=(-1, -1), end=(1, 2))", "0-999", 11),
        ("Click(point=(1, 2, 3, 4))", "here are 4", 12),
        ("Click(point='a')", "two numbers", 12),
        ("Click(point=(1, 2), point=(3, 4))", "twice", 20),
        ("Click(where=(1, 2))", "no parameter 'where'", 6),
        ("Click(point=(1, 2), 5)", "one more", 20),
        ("Type(content=hello)", "quoted text", 13),
        ("Type(content='hello)", "never closed", 13),
        ("Type(content='say 'hi')')", "right after", 23),
        ("Scroll(point=(1, 2), direction='sideways')", "direction", 31),
        ("SelectOption(index=-1)", "whole number", 19),
        ("Hotkey(keys=[])", "keys", 12),
        ("Click(point=(((((1, 2))))))", "too deep", 16),
        ("Click(point=(99999999999999999999999, 2))", "digits", 13),
        ("Click(point=(1, 2)) or rather Click(point=(3, 4))", "which one", 30),
        ("Click(point=__import__('os'))", "expected ','", 22),
        ("Clik(point=(1, 2))", "did you mean Click?", 0),
        ("Click(x=1)", "both x and y", 0),
        ("Click(point=(1, 2), x=1, y=2)", "both x and y", 0),
        ("Click(412)", "expected ','", 9),
        ("Click(412, direction)", "second number", 11),
        ("Click(point={'x': 1})", "x and y, each once", 12),
        ("Click(point={'z': 1})", "x and y, each once", 13),
        ("Click(point=(1, 2))5", "right after", 19),
        ("Click(point=(1, 2)) or Long Press(point=(3, 4))", "which one", 23),
        ("Type(content='say 'a', ok')", "one more", 23),
        ("Type(content='a)\nType(content='b')", "where does this text end", 14),
        ("Type(content='\\ud83d')", "surrogate", 14),
        ("SelectOption(index=1.5)", "whole number", 19),
        ("Click(point=(9e999, 1))", "digits", 13),
    ],
)
def test_errors_name_what_and_where(written: str, message: str, position: int) -> None:
    with pytest.raises(ActionError) as caught:
        parse_response(written)
    assert message in caught.value.message
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("written", "coordinates", "size", "message"),
    [
        ("Click(point=(412, 87))", "unit", None, "unit coordinates go from 0 to 1 across, not 412"),
        ("Click(point=(412, 87))", "pixel", (360, 720), "pixel coordinates go from 0 to 360 across, not 412"),
        ("Click(point=(412, 1087))", "1000", None, "1000 coordinates go from 0 to 1000 down, not 1087"),
        ("Click(point=(0.4, 0.9))", "1000", None, "look like fractions"),
        ("Click(point=(0.4, 0.9))", "pixel", (360, 720), "look like fractions"),
    ],
)
def test_coordinates_of_another_kind_are_not_guessed(
    written: str, coordinates: Coordinates, size: tuple[int, int] | None, message: str
) -> None:
    with pytest.raises(ActionError, match=message):
        parse_actions(written, None, coordinates, size)


def test_a_reader_that_says_too_little_or_something_unknown() -> None:
    with pytest.raises(ValueError, match="need the size"):
        parse_actions("Wait()", None, "pixel")
    with pytest.raises(ValueError, match="no platform 'watch'"):
        parse_actions("Wait()", "watch")
    with pytest.raises(ValueError, match="no coordinates '100'"):
        parse_actions("Wait()", None, "100")  # type: ignore[arg-type]


def test_the_place_is_told_by_line_and_column() -> None:
    with pytest.raises(ActionError, match=r"\(line 3, column 12\)") as caught:
        parse_response("<think>设置</think>\n<action>\nType(text =='a')</action>")
    assert caught.value.caret() == "Type(text =='a')</action>\n           ^"


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


def understand(written: str, platform: str | None = None, coordinates: Coordinates = "999") -> list[Action]:
    """The actions of a text, or none where it is refused at a place inside it; anything else fails the test."""
    try:
        return list(parse_response(written, platform, coordinates, (360, 720)).actions)
    except ActionError as error:
        inside = 0 <= error.position <= len(written) and error.line <= written.count("\n") + 1 and "^" in error.caret()
        return [] if inside else pytest.fail(f"{error} lies outside of {written!r}")


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


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A model's answer, cut, doubled, mixed with another one and with pieces of the grammar, in several places."""
    written = draw(st.sampled_from(OUTPUTS)) if draw(st.booleans()) else render_response("a", [draw(actions())], 3)
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(written)))
        end = begin + draw(st.integers(0, 12))
        kind = draw(st.sampled_from(["drop", "double", "piece", "swap", "tail"]))
        if kind == "drop":
            written = written[:begin] + written[end:]
        elif kind == "double":
            written = written[:end] + written[begin:]
        elif kind == "piece":
            written = written[:begin] + draw(pieces) + written[begin:]
        elif kind == "swap":
            written = written[end:] + written[:begin]
        else:
            written = written[:begin] + draw(st.sampled_from(OUTPUTS))[begin:]
    return written


OUTPUTS = (
    "<think>I open the settings.</think>\n<action>Click(point=(412, 087))</action>",
    "<think>搜索</think><action>Type(content='it\\'s “so”')</action> done (I hope).",
    "Thought: drag it.\nAction: Drag(start=[1, 2], end={'x': 3, 'y': 4})",
    '```python\nHotkey(keys=["ctrl", "shift", "t"])\n```',
    "<action>Scroll（point＝（５００，５００），direction＝「down」）</action>",
    "<action>Click(point=(1, 2));Click(point=(3, 4)),Finished()</action>",
    "Click(point='<point>412 87</point>')<|im_end|>",
)


@given(damaged(), st.sampled_from([None, *get_args(Platform)]), st.sampled_from(get_args(Coordinates)))
def test_damaged_answers_are_answers_or_named_errors(
    written: str, platform: str | None, coordinates: Coordinates
) -> None:
    found = understand(written, platform, coordinates)
    if found:
        assert list(parse_response(render_response("", found), platform).actions) == found


def test_a_long_answer_takes_no_long_time() -> None:
    import time

    for written in (
        "(" * 100_000,
        "Type(content='" + "'" * 50_000,
        "Click(point=" + "[" * 50_000,
        "a " * 50_000 + "Click",
    ):
        begun = time.process_time()
        assert understand(written) == []
        assert time.process_time() - begun < 2
