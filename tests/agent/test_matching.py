"""What counts as repeating a verified step, action by action."""

import pytest

from assets.agent.actions import REFUSAL, Action, Platform, from_pixel
from assets.agent.matching import UNREADABLE, Match, match_actions, match_step, same_text, swipe_direction, token_f1

BOX = [64.0, 32.0, 128.0, 64.0]
WIDTH, HEIGHT = 192, 192


def click(x: float, y: float, name: str = "Click") -> Action:
    return Action(name, point=from_pixel(x, y, WIDTH, HEIGHT))


def match(
    given: list[Action], gold: list[Action], boxes: list[list[float]], platform: Platform | None = "mobile"
) -> Match:
    return match_actions(given, gold, boxes, WIDTH, HEIGHT, platform)


def test_point_in_box_is_half_open_in_pixels() -> None:
    gold = [click(96, 48)]
    assert match([click(64.2, 32.2)], gold, [BOX]) == Match(True, 1.0, 1.0, 0.0, True)
    assert match([click(127.5, 63.5)], gold, [BOX]).correct
    assert match([Action("Click", point=(333, 200))], gold, [BOX]).correct  # 333.5 thousandths are 64.03 pixels
    assert not match([Action("Click", point=(332, 200))], gold, [BOX]).correct
    assert match([click(129, 48)], gold, [BOX]) == Match(True, 1.0, 0.0, 0.0, False)
    assert match([click(96, 64.5)], gold, [BOX]).coordinate == 0.0


def test_wrong_type_earns_nothing_else() -> None:
    assert match([click(96, 48, "LongPress")], [click(96, 48)], [BOX]) == Match(True, 0.0, 0.0, 0.0, False)
    assert match([], [click(96, 48)], [BOX]) == Match(True, 0.0, 0.0, 0.0, False)


def test_refusal_is_exact() -> None:
    refusal = Action("Click", point=REFUSAL)
    assert match([refusal], [refusal], []) == Match(True, 1.0, 1.0, 0.0, True)
    assert match([click(1, 1)], [refusal], []) == Match(True, 1.0, 0.0, 0.0, False)
    assert match([refusal], [click(96, 48)], [BOX]) == Match(True, 1.0, 0.0, 0.0, False)
    assert match([refusal], [click(1, 1)], []).coordinate == 0.0  # near in numbers, but not on the screen


def test_without_a_box_the_distance_grades() -> None:
    gold = [Action("Click", point=(500, 500))]
    near, far, away = (match([Action("Click", point=(500 + d, 500))], gold, []) for d in (35, 105, 200))
    assert near.coordinate == pytest.approx(0.75)
    assert far.coordinate == pytest.approx(0.25)
    assert away.coordinate == 0.0
    assert (near.correct, far.correct, away.correct) == (True, True, False)
    assert match(gold, gold, [[]]).coordinate == 1.0  # an empty box is no box


def test_swipe_by_start_end_and_direction() -> None:
    gold = [Action("Swipe", point=(500, 800), end=(500, 200))]
    assert match(gold, gold, []) == Match(True, 1.0, 1.0, 0.0, True)
    backwards = match([Action("Swipe", point=(500, 200), end=(500, 800))], gold, [])
    assert (backwards.coordinate, backwards.correct) == (0.0, False)
    short = match([Action("Swipe", point=(500, 800), end=(500, 600))], gold, [])
    assert short.coordinate == pytest.approx(2 / 3)  # start and direction, not the end
    assert not short.correct


def test_on_the_web_the_direction_is_enough() -> None:
    gold = [Action("Scroll", point=(500, 500), direction="down")]
    anywhere = match([Action("Scroll", point=(10, 900), direction="down")], gold, [], "web")
    assert anywhere == Match(True, 1.0, 1.0, 0.0, True)
    assert match([Action("Scroll", point=(500, 500), direction="up")], gold, [], "web").coordinate == 0.0
    swipe = [Action("Swipe", point=(500, 800), end=(500, 200))]
    assert match([Action("Swipe", point=(100, 400), end=(100, 300))], swipe, [], "web").correct
    assert not match([Action("Swipe", point=(100, 400), end=(100, 300))], swipe, [], "mobile").correct


def test_drag_needs_both_ends() -> None:
    end_box = [0.0, 160.0, 32.0, 192.0]
    gold = [Action("Drag", point=from_pixel(96, 48, 192, 192), end=from_pixel(16, 176, 192, 192))]
    assert match(gold, gold, [BOX, end_box]).correct
    half = [Action("Drag", point=gold[0].point, end=(900, 900))]
    assert match(half, gold, [BOX, end_box]) == Match(True, 1.0, 0.5, 0.0, False)


def test_direction_of_a_swipe_follows_the_pixels() -> None:
    assert swipe_direction((500, 500), (600, 350), 1000, 1000) == "up"
    assert swipe_direction((500, 500), (600, 350), 2000, 1000) == "right"  # a wide screen: 200 pixels against 150
    assert swipe_direction((5, 5), (5, 5), 100, 100) is None


def test_content_is_graded_by_f1_and_exact_for_correct() -> None:
    gold = [Action("Type", content="Send Ticket")]
    assert match([Action("Type", content=" send  ticket ")], gold, []) == Match(True, 1.0, 0.0, 1.0, True)
    partly = match([Action("Type", content="Send")], gold, [])
    assert partly.content == pytest.approx(2 / 3)
    assert not partly.correct
    assert match([Action("Type", content="Mute")], gold, []) == Match(True, 1.0, 0.0, 0.0, False)


def test_an_empty_verified_text_leaves_the_text_free() -> None:
    gold = [Action("Finished", content="")]
    assert match([Action("Finished", content="42")], gold, []) == Match(True, 1.0, 0.0, 0.0, True)


def test_keys_and_index() -> None:
    gold = [Action("Hotkey", keys=("ctrl", "c"))]
    assert match([Action("Hotkey", keys=("C", "ctrl"))], gold, [], "desktop").correct
    assert match([Action("Hotkey", keys=("ctrl", "v"))], gold, [], "desktop") == Match(True, 1.0, 0.0, 0.0, False)
    option = [Action("SelectOption", index=3)]
    assert match(option, option, [], "web") == Match(True, 1.0, 0.0, 1.0, True)
    assert not match([Action("SelectOption", index=2)], option, [], "web").correct


def test_several_actions_count_in_order() -> None:
    other = [0.0, 160.0, 32.0, 192.0]
    first, second = click(96, 48), click(16, 176)
    assert match([first, second], [first, second], [BOX, other]) == Match(True, 1.0, 1.0, 0.0, True)
    assert match([second, first], [first, second], [BOX, other]) == Match(True, 1.0, 0.0, 0.0, False)
    assert match([first], [first, second], [BOX, other]) == Match(True, 0.5, 0.5, 0.0, False)
    surplus = match([first, second, second], [first, second], [BOX, other])
    assert surplus.type == pytest.approx(2 / 3)
    assert not surplus.correct


def test_boxes_must_fit_the_coordinates() -> None:
    with pytest.raises(ValueError, match="2 boxes for 1 coordinates"):
        match([click(1, 1)], [click(1, 1)], [BOX, BOX])


def test_token_f1() -> None:
    assert token_f1("打开设置", "打开") == pytest.approx(2 / 3)
    assert token_f1("a a b", "a b b") == pytest.approx(2 / 3)  # a multiset
    assert token_f1("", "") == 1.0
    assert token_f1("", "a") == 0.0
    assert same_text("ＡＢＣ\n1", "abc 1")
    assert not same_text("abc", "ab c")


@pytest.mark.parametrize(
    "text", ["", "<action>Jump(point=(1, 2))</action>", "<action>Click(point=(1, 2)</action>", "Save"]
)
def test_what_the_parser_refuses_matches_nothing(text: str) -> None:
    assert match_step(text, [Action("Click", point=(1, 2))], [], WIDTH, HEIGHT) == UNREADABLE


def test_match_step_reads_the_response() -> None:
    gold = [click(96, 48)]
    assert match_step("<action>Click(point=(500, 250))</action>", gold, [BOX], WIDTH, HEIGHT, "web").correct
    assert not match_step(
        "<think>Save</think>\n<action>Click(point=(050, 025))</action>", gold, [BOX], 192, 192
    ).correct
    foreign = match_step(
        "<action>LaunchApp(app='Mail')</action>", [Action("LaunchApp", content="Mail")], [], 9, 9, "web"
    )
    assert foreign == UNREADABLE  # an action of phones, on the web


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("<think>Save</think>\n<action>Click(point=(500, 250))</action>", True),
        ("<think></think><action>\nClick(point=[500, 250])\n</action>\n", True),
        ("Click(point=(500, 250))", False),
        ("<action>Click(point=(500, 250))", False),
        ("Save</think><action>Click(point=(500, 250))</action>", False),
        ("<action>Click(point=(500, 250))</action> That is it.", False),
        ("<think><action>Click(point=(500, 250))</action>", False),
    ],
)
def test_format_is_stricter_than_understanding(text: str, format_: bool) -> None:
    answer = match_step(text, [click(96, 48)], [BOX], WIDTH, HEIGHT, "web")
    assert (answer.format, answer.correct) == (format_, True)
