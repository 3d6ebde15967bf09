"""Visual reasoning: what is asked for has to be compared, counted, turned or followed before it is clicked."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from itertools import permutations, product
from typing import Any

from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.clicks import click_items, mark_items
from assets.synthetic_samples.captcha.latent import Answer, Box, Canvas, Draft, Facts, Family, NoRoom, PuzzleType
from assets.synthetic_samples.captcha.paint import Spot
from assets.synthetic_samples.templates import COLOURS

FAMILY: Family = "visual reasoning"
Items = list[dict[str, Any]]


def _count(facts: Facts) -> float:
    return float(len(facts["items"]))


def _row(draft: Draft, count: int, height: float) -> list[Box]:
    """Cells side by side along the lower edge."""
    top = draft.height - height
    return [(x0, top, x1, draft.height - 8) for x0, _, x1, _ in draft.cells(count, 1)]


def _having(facts: Facts, name: str, value: Any) -> list[int]:
    return [index for index, item in enumerate(facts["items"]) if item[name] == value]


def _paint_icons(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 6)]
    for item in facts["items"]:
        box = item["box"]
        parts.append(paint.icon(canvas, item["icon"], paint.inset(box, 3), canvas.fill(item["colour"])))
    return "".join(parts)


# --- the largest of a kind -------------------------------------------------------------------------------------------


def _draw_largest(draft: Draft) -> tuple[Facts, Answer]:
    kinds = draft.icons(draft.number(2, 3))
    step, of_kind = draft.grade(1.4, 1.18), draft.number(2, 3)
    largest = draft.rng.random() < 0.5
    looks = []
    for icon in kinds:
        first = draft.rng.uniform(26, 34)
        looks += [(icon, round(first * step**number)) for number in range(of_kind)]
    boxes = draft.scatter([(side, side) for _, side in looks], gap=5)
    items: Items = [
        {"icon": icon, "box": box, "colour": draft.rng.randrange(6)}
        for (icon, _), box in zip(looks, boxes, strict=True)
    ]
    draft.rng.shuffle(items)
    wanted = draft.rng.choice(kinds)
    sides = {index: item["box"][2] - item["box"][0] for index, item in enumerate(items) if item["icon"] == wanted}
    word = {"en": ("smallest", "largest"), "zh": ("最小", "最大")}[draft.locale][largest]
    terms = {"size": word, "thing": draft.icon_name(wanted)}
    facts = {"items": items, "wanted": wanted, "largest": largest, "terms": terms}
    return facts, [(max if largest else min)(sides, key=lambda index: sides[index])]


def _solve_largest(facts: Facts) -> list[Answer]:
    def side(index: int) -> float:
        x0, _, x1, _ = facts["items"][index]["box"]
        return float(x1 - x0)

    alike = _having(facts, "icon", facts["wanted"])
    return [
        [index]
        for index in alike
        if all(other == index or (side(index) > side(other)) == facts["largest"] for other in alike)
    ]


EXTREME_SIZE = PuzzleType(
    "extreme_size",
    FAMILY,
    {
        "en": ("Click the {size} {thing}", "Compare only this kind and tap the {size} one: {thing}"),
        "zh": ("点击{size}的{thing}", "只比较同类，点选{size}的那个：{thing}"),
    },
    _draw_largest,
    _solve_largest,
    _paint_icons,
    click_items,
    _count,
    aspect=0.72,
)

# --- the neighbour ---------------------------------------------------------------------------------------------------

_SIDES = {
    "left": ((-1, 0), "directly left of", "左边紧邻"),
    "right": ((1, 0), "directly right of", "右边紧邻"),
    "above": ((0, -1), "directly above", "正上方紧邻"),
    "below": ((0, 1), "directly below", "正下方紧邻"),
}


def _draw_neighbour(draft: Draft) -> tuple[Facts, Answer]:
    columns, rows = draft.number(3, 5), draft.number(2, 3)
    icons = draft.icons(columns * rows)
    items: Items = [
        {"icon": icon, "box": cell, "colour": draft.rng.randrange(6), "cell": [index % columns, index // columns]}
        for index, (icon, cell) in enumerate(zip(icons, draft.cells(columns, rows), strict=True))
    ]
    side, known = draft.rng.choice(sorted(_SIDES)), draft.rng.randrange(len(items))
    (dx, dy), english, chinese = _SIDES[side]
    column, row = items[known]["cell"][0] + dx, items[known]["cell"][1] + dy
    if not (0 <= column < columns and 0 <= row < rows):
        raise NoRoom
    terms = {"side": english if draft.locale == "en" else chinese, "thing": draft.icon_name(icons[known])}
    return {"items": items, "known": icons[known], "side": side, "terms": terms}, [row * columns + column]


def _solve_neighbour(facts: Facts) -> list[Answer]:
    # By the boxes: on that side of the known one, and nearer than any other there.
    (dx, dy), *_ = _SIDES[facts["side"]]
    found = []
    for known in _having(facts, "icon", facts["known"]):
        x, y = paint.centre(facts["items"][known]["box"])
        ahead = {}
        for index, item in enumerate(facts["items"]):
            a, b = paint.centre(item["box"])
            along, aside = (a - x) * dx + (b - y) * dy, abs((a - x) * dy) + abs((b - y) * dx)
            if along > 5 and aside < 5:
                ahead[index] = along
        found += [[index] for index, along in ahead.items() if along == min(ahead.values())]
    return found


def _paint_cards(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    for item in facts["items"]:
        x0, y0, x1, y1 = item["box"]
        place = paint.square((x0, y0, x1, y1), min(x1 - x0, y1 - y0) * 0.68)
        parts.append(paint.card(canvas, (x0, y0, x1, y1)))
        parts.append(paint.icon(canvas, item["icon"], place, canvas.fill(item["colour"])))
    return "".join(parts)


NEIGHBOUR = PuzzleType(
    "neighbour",
    FAMILY,
    {
        "en": ("Click the picture {side} the {thing}", "Find the {thing}; tap what lies {side} it"),
        "zh": ("点击{thing}{side}的图案", "先找到{thing}，再点选它{side}的图案"),
    },
    _draw_neighbour,
    _solve_neighbour,
    _paint_cards,
    click_items,
    _count,
)

# --- the same colour -------------------------------------------------------------------------------------------------


def _draw_same_colour(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(4, 10)
    icons = draft.icons(count)
    first, *others = draft.rng.sample(range(len(COLOURS)), 5)
    colours = [first, first, *(draft.rng.choice(others) for _ in range(count - 2))]
    boxes = draft.scatter([(40, 40)] * count)
    items: Items = [
        {"icon": icon, "box": box, "colour": colour} for icon, box, colour in zip(icons, boxes, colours, strict=True)
    ]
    draft.rng.shuffle(items)
    known, answer = draft.rng.sample([index for index, item in enumerate(items) if item["colour"] == first], 2)
    name = items[known]["icon"]
    return {"items": items, "known": name, "terms": {"thing": draft.icon_name(name)}}, [answer]


def _solve_same_colour(facts: Facts) -> list[Answer]:
    return [
        [index]
        for known in _having(facts, "icon", facts["known"])
        for index in _having(facts, "colour", facts["items"][known]["colour"])
        if index != known
    ]


SAME_COLOUR = PuzzleType(
    "same_colour",
    FAMILY,
    {
        "en": (
            "Click the other picture that has the colour of the {thing}",
            "What is coloured just like the {thing}? Tap it",
        ),
        "zh": ("点击与{thing}颜色相同的另一个图案", "哪个图案的颜色和{thing}一样？请点选"),
    },
    _draw_same_colour,
    _solve_same_colour,
    _paint_icons,
    click_items,
    _count,
    aspect=0.7,
)

# --- how many --------------------------------------------------------------------------------------------------------


def _draw_how_many(draft: Draft) -> tuple[Facts, Answer]:
    kinds = draft.icons(draft.number(2, 4))
    number = draft.rng.randint(2, draft.number(4, 8))
    shown = [kinds[0]] * number + [draft.rng.choice(kinds[1:]) for _ in range(draft.number(2, 8))]
    side = draft.number(36, 27)
    scene = Draft(draft.rng, draft.split, draft.locale, draft.difficulty, draft.width, draft.height - 56)
    boxes = scene.scatter([(side, side)] * len(shown), gap=4)
    things = [
        {"icon": icon, "box": box, "colour": draft.rng.randrange(6)} for icon, box in zip(shown, boxes, strict=True)
    ]
    options = sorted({number, *draft.rng.sample([n for n in range(1, 11) if n != number], 4)})
    items = [{"box": box, "number": option} for box, option in zip(_row(draft, 5, 50), options, strict=True)]
    terms = {"thing": draft.icon_name(kinds[0])}
    return {"items": items, "things": things, "wanted": kinds[0], "terms": terms}, [options.index(number)]


def _solve_how_many(facts: Facts) -> list[Answer]:
    number = sum(thing["icon"] == facts["wanted"] for thing in facts["things"])
    return [[index] for index in _having(facts, "number", number)]


def _paint_how_many(canvas: Canvas, facts: Facts) -> str:
    scene = _paint_icons(canvas, {"items": facts["things"]})
    return scene + "".join(
        paint.card(canvas, item["box"])
        + paint.text(str(item["number"]), paint.square(item["box"], 22), canvas.theme.ink)
        for item in facts["items"]
    )


HOW_MANY = PuzzleType(
    "how_many",
    FAMILY,
    {
        "en": (
            "How many of these are there? Click the number: {thing}",
            "Count this picture and tap how many you see: {thing}",
        ),
        "zh": ("图中有几个{thing}？点击对应的数字", "数一数{thing}，点选正确的个数"),
    },
    _draw_how_many,
    _solve_how_many,
    _paint_how_many,
    click_items,
    lambda facts: float(len(facts["things"])),
    aspect=0.78,
)

# --- the mirror image ------------------------------------------------------------------------------------------------

Cells = list[list[int]]


def _draw_mirror(draft: Draft) -> tuple[Facts, Answer]:
    cells = _polyomino(draft, draft.number(4, 7))
    if len({_key(_transformed(cells, turn, flip)) for turn in range(4) for flip in (False, True)}) < 8:
        raise NoRoom
    mirrored = _transformed(cells, 0, True)
    # What a mirror does not do: turning, and turning a mirrored one.
    wrong = [_transformed(cells, turn, False) for turn in range(4)] + [_transformed(cells, 2, True)]
    options = [mirrored, *draft.rng.sample(wrong, draft.number(2, 4))]
    draft.rng.shuffle(options)
    places = _row(draft, len(options), draft.height * 0.46)
    items = [{"box": box, "cells": option} for box, option in zip(places, options, strict=True)]
    return {"items": items, "sample": cells}, [options.index(mirrored)]


def _polyomino(draft: Draft, size: int) -> Cells:
    """So many joined cells, within three by four."""
    cells = [[1, 1]]
    while len(cells) < size:
        x, y = draft.rng.choice(cells)
        dx, dy = draft.rng.choice(((1, 0), (-1, 0), (0, 1), (0, -1)))
        if [x + dx, y + dy] not in cells and 0 <= x + dx < 3 and 0 <= y + dy < 4:
            cells.append([x + dx, y + dy])
    return _settled(cells)


def _transformed(cells: Cells, turn: int, flip: bool) -> Cells:
    """Flipped about the upright axis, then turned by so many right angles."""
    found = [[-x, y] if flip else [x, y] for x, y in cells]
    for _ in range(turn):
        found = [[-y, x] for x, y in found]
    return _settled(found)


def _settled(cells: Cells) -> Cells:
    left, top = min(x for x, _ in cells), min(y for _, y in cells)
    return sorted([x - left, y - top] for x, y in cells)


def _key(cells: Cells) -> str:
    return str(_settled(cells))


def _solve_mirror(facts: Facts) -> list[Answer]:
    width = max(x for x, _ in facts["sample"])
    image = {(width - x, y) for x, y in facts["sample"]}
    return [[index] for index, item in enumerate(facts["items"]) if {(x, y) for x, y in item["cells"]} == image]


def _paint_mirror(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 10)]
    top = min(item["box"][1] for item in facts["items"])
    axis = canvas.width / 2
    parts.append(_blocks(canvas, facts["sample"], (axis - top, 6, axis - 12, top - 6), 1))
    parts.append(paint.line((axis, 10), (axis, top - 8), canvas.theme.ink, 2))
    parts.append(paint.text("?", (axis + 30, top / 2 - 22, axis + 60, top / 2 + 22), canvas.theme.ink))
    for item in facts["items"]:
        parts.append(paint.card(canvas, item["box"]))
        parts.append(_blocks(canvas, item["cells"], paint.inset(item["box"], 8), 1))
    return "".join(parts)


def _blocks(canvas: Canvas, cells: Cells, box: Box, colour: int) -> str:
    side = min(box[2] - box[0], box[3] - box[1]) / 4
    x, y = paint.centre(box)
    left = x - side * (max(cell[0] for cell in cells) + 1) / 2
    top = y - side * (max(cell[1] for cell in cells) + 1) / 2
    return "".join(
        paint.rect(
            (left + a * side, top + b * side, left + (a + 1) * side - 1, top + (b + 1) * side - 1), canvas.fill(colour)
        )
        for a, b in cells
    )


MIRROR_IMAGE = PuzzleType(
    "mirror_image",
    FAMILY,
    {
        "en": (
            "Click what the figure looks like in the mirror",
            "The line is a mirror: tap the reflection of the figure",
        ),
        "zh": ("点击上方图形在镜中的样子", "竖线是一面镜子，请点选图形的镜像"),
    },
    _draw_mirror,
    _solve_mirror,
    _paint_mirror,
    click_items,
    lambda facts: len(facts["items"]) + len(facts["sample"]),
    aspect=0.76,
)

# --- the missing piece -----------------------------------------------------------------------------------------------

_ATTRIBUTES = {"sides": (3, 4, 6), "colour": (0, 1, 2), "count": (1, 2, 3)}


def _draw_missing(draft: Draft) -> tuple[Facts, Answer]:
    rows, columns, other = draft.rng.sample(sorted(_ATTRIBUTES), 3)
    values = {name: draft.rng.sample(_ATTRIBUTES[name], 3) for name in _ATTRIBUTES}
    cells = []
    for row, column in product(range(3), range(3)):
        # The third attribute is one and the same, or, harder, goes round.
        third = (row + column) % 3 if draft.difficulty > 2 else 0
        cells.append({rows: values[rows][row], columns: values[columns][column], other: values[other][third]})
    hidden = draft.rng.randrange(9)
    right = cells[hidden]
    every = [dict(zip(_ATTRIBUTES, look, strict=True)) for look in product(*_ATTRIBUTES.values())]
    near = [look for look in every if look != right and sum(look[n] != right[n] for n in look) == 1]
    far = [look for look in every if look != right and look not in near]
    wrong = draft.number(3, 5)
    close = min(draft.number(1, 5), wrong)
    options = [right, *draft.rng.sample(near, close), *draft.rng.sample(far, wrong - close)]
    draft.rng.shuffle(options)
    side = draft.height / len(options)
    left = draft.width - min(52.0, side)
    items = [
        {"box": [left, number * side + 2, draft.width - 4, (number + 1) * side - 2], "look": look}
        for number, look in enumerate(options)
    ]
    shown = [None if index == hidden else cell for index, cell in enumerate(cells)]
    return {"items": items, "cells": shown, "hidden": hidden}, [options.index(right)]


def _solve_missing(facts: Facts) -> list[Answer]:
    # A piece fits when every attribute is, over the whole square, constant in rows, in columns, or goes round.
    return [
        [index]
        for index, item in enumerate(facts["items"])
        if _is_pattern([item["look"] if cell is None else cell for cell in facts["cells"]])
    ]


def _is_pattern(cells: list[dict[str, int]]) -> bool:
    for name in _ATTRIBUTES:
        rows = [[cells[3 * row + column][name] for column in range(3)] for row in range(3)]
        columns = [list(column) for column in zip(*rows, strict=True)]
        by_row = all(len(set(row)) == 1 for row in rows)
        by_column = all(len(set(column)) == 1 for column in columns)
        round_about = all(len(set(line)) == 3 for line in [*rows, *columns])
        if not (by_row or by_column or round_about):
            return False
    return True


def _paint_missing(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas)]
    side = (min(canvas.height, canvas.width - 64) - 16) / 3
    for index, cell in enumerate(facts["cells"]):
        x, y = 8 + index % 3 * side, 8 + index // 3 * side
        box = (x, y, x + side - 6, y + side - 6)
        parts.append(paint.card(canvas, box))
        if cell is None:
            parts.append(paint.text("?", paint.square(box, side * 0.5), canvas.theme.ink))
        else:
            parts.append(_look(canvas, cell, box))
    for item in facts["items"]:
        parts.append(paint.card(canvas, item["box"]))
        parts.append(_look(canvas, item["look"], item["box"]))
    return "".join(parts)


def _look(canvas: Canvas, look: dict[str, int], box: Box) -> str:
    x, y = paint.centre(box)
    radius = min(box[2] - box[0], box[3] - box[1]) / 6.6
    spots = [(x + (number - (look["count"] - 1) / 2) * 2.1 * radius, y) for number in range(look["count"])]
    return "".join(
        paint.polygon(paint.regular(spot, radius, look["sides"]), canvas.fill(look["colour"])) for spot in spots
    )


MISSING_PIECE = PuzzleType(
    "missing_piece",
    FAMILY,
    {
        "en": (
            "Click the piece on the right that completes the pattern",
            "Which piece belongs to the question mark? Tap it",
        ),
        "zh": ("点击右侧能补全图案规律的一块", "问号处应放哪一块？请在右侧点选"),
    },
    _draw_missing,
    _solve_missing,
    _paint_missing,
    click_items,
    lambda facts: len(facts["items"]) + 0.1 * sum(_nearness(facts, item["look"]) for item in facts["items"]),
    aspect=0.78,
)


def _nearness(facts: Facts, look: dict[str, int]) -> float:
    """How many attributes an option shares with the others, on average."""
    return sum(look[name] == item["look"][name] for item in facts["items"] for name in look) / len(facts["items"])


# --- scales ----------------------------------------------------------------------------------------------------------


def _draw_scales(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(3, 5)
    icons = draft.icons(count)
    heavier_first = list(range(count))
    draft.rng.shuffle(heavier_first)
    # A chain of weighings orders as much as needed; the heavier one may be on either side.
    pairs = [[heavier_first[n], heavier_first[n + 1]] for n in range(count - 1)]
    draft.rng.shuffle(pairs)
    weighings = []
    for heavy, light in pairs:
        left = draft.rng.random() < 0.5
        weighings.append({"left": heavy if left else light, "right": light if left else heavy, "heavy": heavy})
    places = _row(draft, count, 56)
    items = [{"box": box, "icon": icon} for box, icon in zip(places, icons, strict=True)]
    return {"items": items, "weighings": weighings}, [heavier_first[0]]


def _solve_scales(facts: Facts) -> list[Answer]:
    # Every order of weights that agrees with all weighings; the heaviest must be the same in each.
    count = len(facts["items"])
    heaviest = set()
    for weights in permutations(range(count)):
        tips = [
            weights[weighing["left"]] > weights[weighing["right"]] if weighing["heavy"] == weighing["left"] else
            weights[weighing["right"]] > weights[weighing["left"]]
            for weighing in facts["weighings"]
        ]  # fmt: skip
        if all(tips):
            heaviest.add(weights.index(count - 1))
    return [[index] for index in sorted(heaviest)]


def _paint_scales(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas)]
    weighings, top = facts["weighings"], min(item["box"][1] for item in facts["items"])
    columns = 2
    rows = -(-len(weighings) // columns)
    for number, weighing in enumerate(weighings):
        x = canvas.width * (number % columns + 0.5) / columns
        height = top / rows
        y = height * (number // columns) + height * 0.52
        tip = 9 if weighing["heavy"] == weighing["right"] else -9
        left, right = (x - 50, y - tip), (x + 50, y + tip)
        parts.append(paint.line(left, right, canvas.theme.ink, 3))
        parts.append(paint.polygon([(x, y), (x - 9, y + height * 0.36), (x + 9, y + height * 0.36)], canvas.fill(3)))
        for side, (a, b) in (("left", left), ("right", right)):
            icon = facts["items"][weighing[side]]["icon"]
            parts.append(paint.icon(canvas, icon, (a - 13, b - 29, a + 13, b - 3), canvas.fill(1)))
    for item in facts["items"]:
        parts.append(paint.card(canvas, item["box"]))
        parts.append(paint.icon(canvas, item["icon"], paint.square(item["box"], 30), canvas.fill(1)))
    return "".join(parts)


HEAVIEST = PuzzleType(
    "heaviest",
    FAMILY,
    {
        "en": (
            "Compare the scales and click the heaviest thing in the bottom row",
            "What outweighs all others? Tap it in the lowest row",
        ),
        "zh": ("根据天平，在底部一行点击最重的物品", "哪样东西最重？请在最下排点选"),
    },
    _draw_scales,
    _solve_scales,
    _paint_scales,
    click_items,
    _count,
    aspect=0.78,
)

# --- the clock -------------------------------------------------------------------------------------------------------


def _draw_clocks(draft: Draft) -> tuple[Facts, Answer]:
    step = 30 if draft.difficulty == 1 else 15 if draft.difficulty < 4 else 5
    hour, minute = draft.rng.randrange(1, 13), draft.rng.randrange(0, 60, step)
    count = draft.number(3, 6)
    # An hour off, half the time off, and the hands exchanged.
    near = [((hour + 5) % 12 + 1, minute), (hour, (minute + 30) % 60), (max(minute // 5, 1), hour % 12 * 5)]
    others = [(draft.rng.randrange(1, 13), draft.rng.randrange(0, 60, step)) for _ in range(12)]
    times = [(hour, minute)]
    for time in [*near[: draft.number(0, 3)], *others]:
        if len(times) < count and all(_hands_apart(time, other) > 25 for other in times):
            times.append(time)
    if len(times) < count:
        raise NoRoom
    draft.rng.shuffle(times)
    cells = draft.cells(3, 1 if count == 3 else 2)
    items = [{"box": cell, "time": list(time)} for cell, time in zip(cells, times, strict=False)]
    return {"items": items, "wanted": f"{hour}:{minute:02d}", "terms": {"time": f"{hour}:{minute:02d}"}}, [
        times.index((hour, minute))
    ]


def _hands(time: tuple[int, int]) -> tuple[float, float]:
    """Angles of the hour and the minute hand, in degrees."""
    return (time[0] % 12 * 30 + time[1] / 2, time[1] * 6.0)


def _hands_apart(one: tuple[int, int], other: tuple[int, int]) -> float:
    return max(min(abs(a - b), 360 - abs(a - b)) for a, b in zip(_hands(one), _hands(other), strict=True))


def _solve_clocks(facts: Facts) -> list[Answer]:
    hour, minute = (int(part) for part in facts["wanted"].split(":"))
    wanted = _hands((hour, minute))
    return [[index] for index, item in enumerate(facts["items"]) if _hands(item["time"]) == wanted]


def _paint_clocks(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 10)]
    for item in facts["items"]:
        box = item["box"]
        spot, radius = paint.centre(box), min(box[2] - box[0], box[3] - box[1]) / 2 - 4
        parts.append(paint.disc(spot, radius, canvas.theme.surface, canvas.theme.ink))
        for tick in range(12):
            start, end = (_at(spot, radius * reach, tick * 30) for reach in (0.84, 0.94))
            parts.append(paint.line(start, end, canvas.theme.ink, 2.5 if tick % 3 == 0 else 1))
        for angle, reach, width in zip(_hands(item["time"]), (0.48, 0.76), (4, 2.2), strict=True):
            parts.append(paint.line(spot, _at(spot, radius * reach, angle), canvas.theme.ink, width))
    return "".join(parts)


def _at(spot: Spot, reach: float, degrees: float) -> Spot:
    """The spot at a distance, clockwise from straight up."""
    return (spot[0] + reach * math.sin(math.radians(degrees)), spot[1] - reach * math.cos(math.radians(degrees)))


CLOCK_TIME = PuzzleType(
    "clock_time",
    FAMILY,
    {
        "en": ("Click the clock that shows {time}", "It is {time}: tap the clock that says so"),
        "zh": ("点击显示 {time} 的时钟", "现在是 {time}，请点选走时正确的钟"),
    },
    _draw_clocks,
    _solve_clocks,
    _paint_clocks,
    click_items,
    _count,
    aspect=0.7,
)

# --- one shape in another --------------------------------------------------------------------------------------------

_NESTED = {"circle": ("circle", "圆形"), "square": ("square", "正方形"), "triangle": ("triangle", "三角形"),
           "pentagon": ("pentagon", "五边形")}  # fmt: skip


def _draw_nested(draft: Draft) -> tuple[Facts, Answer]:
    depth = 2 if draft.difficulty < 4 else 3
    orders = [list(order) for order in permutations(sorted(_NESTED), depth)]
    wanted = draft.rng.choice(orders)
    others = [order for order in orders if order != wanted]
    # The same shapes the other way round come first.
    others.sort(key=lambda order: (sorted(order) != sorted(wanted), draft.rng.random()))
    shown = [wanted, *others[: draft.number(3, 7)]]
    draft.rng.shuffle(shown)
    cells = draft.rng.sample(draft.cells(4, 2), len(shown))
    items = [
        {"box": cell, "shapes": shapes, "colour": draft.rng.randrange(6)}
        for cell, shapes in zip(cells, shown, strict=True)
    ]
    language = 0 if draft.locale == "en" else 1
    names = [_NESTED[shape][language] for shape in wanted]
    inward = " with a ".join(f"{name} inside" if index else name for index, name in enumerate(names))
    inward = inward.replace(" inside with a", " inside, and in that a")
    terms = {"shapes": inward if draft.locale == "en" else "里面有".join(names)}
    return {"items": items, "wanted": wanted, "terms": terms}, [shown.index(wanted)]


def _paint_nested(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    for item in facts["items"]:
        box = item["box"]
        spot, radius = paint.centre(box), min(box[2] - box[0], box[3] - box[1]) / 2 - 4
        colour = canvas.fill(item["colour"])
        for shape in item["shapes"]:
            if shape == "circle":
                parts.append(paint.disc(spot, radius * 0.92, "none", colour, 3))
                radius *= 0.56
            else:
                sides = {"square": 4, "triangle": 3, "pentagon": 5}[shape]
                corners = paint.regular(spot, radius, sides, 45 if sides == 4 else 0)
                parts.append(paint.polygon(corners, "none", colour, 3))
                radius *= 0.4 if sides == 3 else 0.52
    return "".join(parts)


NESTED_SHAPES = PuzzleType(
    "nested_shapes",
    FAMILY,
    {
        "en": ("Click the {shapes}", "From the outside inwards, find this and tap it: a {shapes}"),
        "zh": ("点击：{shapes}", "由外到内看，点选这样的图形：{shapes}"),
    },
    _draw_nested,
    lambda facts: [[index] for index in _having(facts, "shapes", facts["wanted"])],
    _paint_nested,
    click_items,
    lambda facts: len(facts["items"]) + len(facts["wanted"]),
    aspect=0.6,
)

# --- the way out of a maze -------------------------------------------------------------------------------------------


def _draw_maze(draft: Draft) -> tuple[Facts, Answer]:
    columns, rows = draft.number(6, 12), draft.number(4, 8)
    doors = _carved(draft, columns, rows)
    start = [0, draft.rng.randrange(rows)]
    exits = draft.rng.sample(range(rows), 3 if rows < 6 else 4)
    # Each exit but one is walled off somewhere behind it.
    right, *shut = exits
    for row in shut:
        way = _way(doors, (start[0], start[1]), (columns - 1, row))
        if not way:
            continue
        kept = set(_way(doors, (start[0], start[1]), (columns - 1, right)))
        loose = [index for index in range(1, len(way)) if way[index] not in kept]
        if not loose:
            raise NoRoom
        cut = draft.rng.choice(loose)
        doors.discard(_door(way[cut - 1], way[cut]))
    side = min((draft.width - 56) / columns, (draft.height - 16) / rows)
    top, left = (draft.height - side * rows) / 2, (draft.width - side * columns) / 2
    edge = left + side * columns
    items = [
        {"box": [edge + 2, top + side * row + 1, edge + 26, top + side * (row + 1) - 1], "row": row}
        for row in sorted(exits)
    ]
    facts = {
        "items": items,
        "columns": columns,
        "rows": rows,
        "doors": sorted([list(one), list(other)] for one, other in doors),
        "start": start,
        "place": [left, top, side],
    }
    return facts, [sorted(exits).index(right)]


Cell = tuple[int, int]


def _door(one: Cell, other: Cell) -> tuple[Cell, Cell]:
    return (min(one, other), max(one, other))


def _around(cell: Cell, columns: int, rows: int) -> list[Cell]:
    x, y = cell
    cells = [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
    return [(a, b) for a, b in cells if 0 <= a < columns and 0 <= b < rows]


def _carved(draft: Draft, columns: int, rows: int) -> set[tuple[Cell, Cell]]:
    """The doors of a maze in which one way leads from any cell to any other, by depth-first search."""
    stack, seen, doors = [(0, 0)], {(0, 0)}, set()
    while stack:
        fresh = [cell for cell in _around(stack[-1], columns, rows) if cell not in seen]
        if not fresh:
            stack.pop()
            continue
        cell = draft.rng.choice(fresh)
        doors.add(_door(stack[-1], cell))
        seen.add(cell)
        stack.append(cell)
    return doors


def _way(doors: set[tuple[Cell, Cell]], start: Cell, goal: Cell) -> list[Cell]:
    """The cells from start to goal, or none where there is no way."""
    beyond = _beyond(doors)
    came: dict[Cell, Cell | None] = {start: None}
    waiting = deque([start])
    while waiting:
        cell = waiting.popleft()
        for there in beyond.get(cell, []):
            if there not in came:
                came[there] = cell
                waiting.append(there)
    way: list[Cell] = []
    step: Cell | None = goal if goal in came else None
    while step is not None:
        way.append(step)
        step = came[step]
    return way[::-1]


def _beyond(doors: Iterable[tuple[Cell, Cell]]) -> dict[Cell, list[Cell]]:
    """The cells that each cell opens to."""
    beyond: dict[Cell, list[Cell]] = {}
    for one, other in sorted(doors):
        beyond.setdefault(one, []).append(other)
        beyond.setdefault(other, []).append(one)
    return beyond


def _solve_maze(facts: Facts) -> list[Answer]:
    # Flood the maze from its start, and see which exits get wet.
    beyond = _beyond(((a, b), (c, d)) for (a, b), (c, d) in facts["doors"])
    wet: set[Cell] = set()
    fresh: list[Cell] = [(facts["start"][0], facts["start"][1])]
    while fresh:
        cell = fresh.pop()
        if cell not in wet:
            wet.add(cell)
            fresh += beyond.get(cell, [])
    last = facts["columns"] - 1
    return [[index] for index, item in enumerate(facts["items"]) if (last, item["row"]) in wet]


def _paint_maze(canvas: Canvas, facts: Facts) -> str:
    left, top, side = facts["place"]
    columns, rows = facts["columns"], facts["rows"]
    doors = {(tuple(one), tuple(other)) for one, other in facts["doors"]}
    exits = {item["row"] for item in facts["items"]}
    parts, ink = [paint.ground(canvas)], canvas.theme.ink
    right, bottom = left + side * columns, top + side * rows
    parts += [paint.line((left, top), (right, top), ink), paint.line((left, bottom), (right, bottom), ink)]
    for y in range(rows):
        if y != facts["start"][1]:
            parts.append(paint.line((left, top + y * side), (left, top + (y + 1) * side), ink))
        if y not in exits:
            parts.append(paint.line((right, top + y * side), (right, top + (y + 1) * side), ink))
        for x in range(columns):
            a, b = left + (x + 1) * side, top + (y + 1) * side
            if x + 1 < columns and ((x, y), (x + 1, y)) not in doors:
                parts.append(paint.line((a, b - side), (a, b), ink))
            if y + 1 < rows and ((x, y), (x, y + 1)) not in doors:
                parts.append(paint.line((a - side, b), (a, b), ink))
    spot = (left - 12, top + (facts["start"][1] + 0.5) * side)
    parts.append(paint.disc(spot, min(7, side / 3), canvas.fill(0)))
    for number, item in enumerate(facts["items"]):
        box = item["box"]
        parts.append(paint.rect(box, canvas.theme.surface, canvas.fill(1), 4))
        parts.append(paint.text("ABCD"[number], paint.square(box, min(20, side * 0.7)), ink))
    return "".join(parts)


MAZE_EXIT = PuzzleType(
    "maze_exit",
    FAMILY,
    {
        "en": (
            "Click the exit that can be reached from the dot",
            "Only one way out of the maze is open: tap its letter",
        ),
        "zh": ("点击从圆点能走到的出口", "迷宫只有一个出口走得通，请点选它"),
    },
    _draw_maze,
    _solve_maze,
    _paint_maze,
    click_items,
    lambda facts: float(facts["columns"] * facts["rows"]),
    aspect=0.7,
)

# --- dice ------------------------------------------------------------------------------------------------------------


def _draw_dice(draft: Draft) -> tuple[Facts, Answer]:
    count, dice = draft.number(3, 6), 2 if draft.difficulty < 4 else 3
    throws: dict[int, list[int]] = {}
    for _ in range(200):
        throw = [draft.rng.randint(1, 6) for _ in range(dice)]
        throws.setdefault(sum(throw), throw)
    totals = draft.rng.sample(sorted(throws), count)
    columns = 3 if dice == 2 else 2
    cells = draft.cells(columns, -(-count // columns))
    items = [{"box": cell, "dice": throws[total]} for cell, total in zip(cells, totals, strict=False)]
    wanted = draft.rng.randrange(count)
    return {"items": items, "wanted": totals[wanted], "terms": {"sum": str(totals[wanted])}}, [wanted]


def _paint_dice(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    for item in facts["items"]:
        box, count = item["box"], len(item["dice"])
        x, y = paint.centre(box)
        side = min((box[2] - box[0]) / count - 6, box[3] - box[1] - 8, 40)
        parts.append(paint.card(canvas, box))
        for number, eyes in enumerate(item["dice"]):
            a = x + (number - (count - 1) / 2) * (side + 4)
            parts.append(paint.rect((a - side / 2, y - side / 2, a + side / 2, y + side / 2), "#ffffff", "#222222", 5))
            spots = [(a + dx * side * 0.27, y + dy * side * 0.27) for dx, dy in _EYES[eyes]]
            parts += [paint.disc(spot, side * 0.09, "#222222") for spot in spots]
    return "".join(parts)


_EYES = {
    1: ((0, 0),),
    2: ((-1, -1), (1, 1)),
    3: ((-1, -1), (0, 0), (1, 1)),
    4: ((-1, -1), (1, -1), (-1, 1), (1, 1)),
    5: ((-1, -1), (1, -1), (0, 0), (-1, 1), (1, 1)),
    6: ((-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1)),
}

DICE_SUM = PuzzleType(
    "dice_sum",
    FAMILY,
    {
        "en": ("Click the dice that add up to {sum}", "Which throw makes {sum}? Tap its card"),
        "zh": ("点击点数之和为 {sum} 的骰子", "哪一组骰子加起来是 {sum}？请点选"),
    },
    _draw_dice,
    lambda facts: [[index] for index, item in enumerate(facts["items"]) if sum(item["dice"]) == facts["wanted"]],
    _paint_dice,
    click_items,
    lambda facts: float(sum(len(item["dice"]) for item in facts["items"])),
    aspect=0.6,
)

# --- the shadow ------------------------------------------------------------------------------------------------------

LEAST_DENT = 0.2
"""Difference of a radius, of the whole, that a person can see in an outline."""


def _draw_shadow(draft: Draft) -> tuple[Facts, Answer]:
    corners, count = draft.number(6, 11), draft.number(3, 5)
    outline = [round(draft.rng.uniform(0.42, 1.0), 2) for _ in range(corners)]
    options = [outline]
    while len(options) < count:
        # The more changed, the easier to tell.
        changed = list(outline)
        for corner in draft.rng.sample(range(corners), draft.number(4, 1)):
            changed[corner] = round(changed[corner] + (0.3 if changed[corner] < 0.72 else -0.3), 2)
        if changed not in options:
            options.append(changed)
    draft.rng.shuffle(options)
    places = _row(draft, count, draft.height * 0.46)
    items = [{"box": box, "outline": option} for box, option in zip(places, options, strict=True)]
    return {"items": items, "outline": outline}, [options.index(outline)]


def _solve_shadow(facts: Facts) -> list[Answer]:
    return [
        [index]
        for index, item in enumerate(facts["items"])
        if all(abs(a - b) < LEAST_DENT for a, b in zip(item["outline"], facts["outline"], strict=True))
    ]


def _paint_shadow(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 12)]
    top = min(item["box"][1] for item in facts["items"])
    spot, radius = (canvas.width / 2, top / 2), top / 2 - 4
    parts.append(paint.polygon(_star(spot, radius, facts["outline"]), canvas.fill(4), canvas.theme.ink))
    parts.append(paint.disc((spot[0] - 8, spot[1] - 4), 4, canvas.theme.ink))
    parts.append(paint.disc((spot[0] + 8, spot[1] - 4), 4, canvas.theme.ink))
    for item in facts["items"]:
        box = item["box"]
        size = min(box[2] - box[0], box[3] - box[1]) / 2 - 4
        parts.append(paint.card(canvas, box))
        parts.append(paint.polygon(_star(paint.centre(box), size, item["outline"]), canvas.theme.ink))
    return "".join(parts)


def _star(spot: Spot, radius: float, outline: list[float]) -> list[Spot]:
    return [_at(spot, radius * reach, 360 * corner / len(outline)) for corner, reach in enumerate(outline)]


SHADOW = PuzzleType(
    "shadow",
    FAMILY,
    {
        "en": ("Click the shadow that belongs to the figure above", "Who casts which shadow? Tap the one that fits"),
        "zh": ("点击与上方图形相符的影子", "哪个影子属于上面的图形？请点选"),
    },
    _draw_shadow,
    _solve_shadow,
    _paint_shadow,
    click_items,
    lambda facts: len(facts["items"]) + len(facts["outline"]) / 2,
    aspect=0.76,
)

# --- all tiles with something ----------------------------------------------------------------------------------------


def _draw_tiles(draft: Draft) -> tuple[Facts, Answer]:
    columns, rows = (3, 3) if draft.difficulty < 4 else (4, 3)
    wanted, *others = draft.icons(draft.number(3, 6))
    right = draft.rng.sample(range(columns * rows), draft.number(2, 4))
    items = [
        {
            "box": cell,
            "icon": wanted if index in right else draft.rng.choice(others),
            "colour": draft.rng.randrange(6),
        }
        for index, cell in enumerate(draft.cells(columns, rows, gap=6))
    ]
    return {"items": items, "wanted": wanted, "terms": {"thing": draft.icon_name(wanted)}}, sorted(right)


def _solve_tiles(facts: Facts) -> list[Answer]:
    found = _having(facts, "icon", facts["wanted"])
    return [found] if found else []


TILES = PuzzleType(
    "tiles",
    FAMILY,
    {
        "en": (
            "Mark every tile with this picture and confirm: {thing}",
            "Choose all squares that show it, then confirm: {thing}",
        ),
        "zh": ("选出所有含有{thing}的格子，然后确定", "点选每一个{thing}格，选完后按确定"),
    },
    _draw_tiles,
    _solve_tiles,
    _paint_cards,
    mark_items,
    _count,
    aspect=0.74,
)

TYPES = (
    EXTREME_SIZE,
    NEIGHBOUR,
    SAME_COLOUR,
    HOW_MANY,
    MIRROR_IMAGE,
    MISSING_PIECE,
    HEAVIEST,
    CLOCK_TIME,
    NESTED_SHAPES,
    MAZE_EXIT,
    DICE_SUM,
    SHADOW,
    TILES,
)
