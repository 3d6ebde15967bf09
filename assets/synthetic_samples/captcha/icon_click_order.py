"""Icon click order: pictures that lie about, to be clicked in an order that a rule gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.clicks import click_items
from assets.synthetic_samples.captcha.latent import (
    Answer,
    Box,
    Canvas,
    Draft,
    Facts,
    Family,
    NoRoom,
    PuzzleType,
    overlap,
)
from assets.synthetic_samples.templates import COLOURS

FAMILY: Family = "icon click order"
Items = list[dict[str, Any]]

STRIP = 44
"""Height of the strip at the top that shows what to click."""


def _count(facts: Facts) -> float:
    return float(len(facts["items"]))


def _matching(values: Sequence[Any], wanted: Sequence[Any]) -> list[Answer]:
    """Every sequence of items that has these values."""
    orders = permutations(range(len(values)), len(wanted))
    return [list(order) for order in orders if [values[index] for index in order] == list(wanted)]


def _rising(values: Sequence[float], least: float = 0.0) -> list[Answer]:
    """Every order of all items in which no value falls, where values less than `least` apart could go either way."""
    return [
        list(order)
        for order in permutations(range(len(values)))
        if all(values[other] - values[one] > -least for one, other in pairwise(order))
    ]


def _placed(draft: Draft, count: int, side: float, top: float = 0.0) -> list[dict[str, Any]]:
    return [{"box": box} for box in draft.scatter([(side, side)] * count, gap=7, top=top)]


# --- the order shown -------------------------------------------------------------------------------------------------


def _draw_shown(draft: Draft) -> tuple[Facts, Answer]:
    icons = draft.icons(draft.number(4, 8))
    wanted = icons[: draft.number(2, 4)]
    tilt = draft.grade(10, 60)
    items: Items = [
        {"icon": icon, "angle": round(draft.rng.uniform(-tilt, tilt), 1), "colour": draft.rng.randrange(6), **place}
        for icon, place in zip(icons, _placed(draft, len(icons), draft.number(46, 36), STRIP), strict=True)
    ]
    draft.rng.shuffle(items)
    places = {item["icon"]: index for index, item in enumerate(items)}
    return {"items": items, "wanted": wanted}, [places[icon] for icon in wanted]


def _paint_shown(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    parts.append(paint.rect((0, 0, canvas.width, STRIP), canvas.theme.surface, canvas.theme.line))
    for number, icon in enumerate(facts["wanted"]):
        x = 12 + 48 * number
        parts.append(paint.icon(canvas, icon, (x, 8, x + 28, 36), canvas.theme.ink))
    for item in facts["items"]:
        box = paint.inset(item["box"], 5)
        parts.append(paint.icon(canvas, item["icon"], box, canvas.fill(item["colour"]), item["angle"]))
    return "".join(parts) + paint.specks(canvas, 20 * canvas.difficulty)


ICONS_AS_SHOWN = PuzzleType(
    "icons_as_shown",
    FAMILY,
    {
        "en": (
            "Click the icons in the order of the strip at the top",
            "Tap below what the top row shows, in its order",
        ),
        "zh": ("按上方所示顺序点击图标", "照上排的次序，在下方点选图标"),
    },
    _draw_shown,
    lambda facts: _matching([item["icon"] for item in facts["items"]], facts["wanted"]),
    _paint_shown,
    click_items,
    _count,
    aspect=0.76,
)

# --- how many --------------------------------------------------------------------------------------------------------


def _draw_counts(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(3, 6)
    least = draft.number(1, 3)
    spread = draft.number(2, 1)
    numbers = [least + spread * step for step in range(count)]
    draft.rng.shuffle(numbers)
    cells = draft.rng.sample(draft.cells(3, 2), count)
    icon = draft.icons(1)[0]
    items = []
    for number, cell in zip(numbers, cells, strict=True):
        spots = _spots(draft, number, cell)
        items.append({"box": cell, "spots": spots, "icon": icon, "colour": draft.rng.randrange(6)})
    return {"items": items}, sorted(range(count), key=lambda index: numbers[index])


def _spots(draft: Draft, number: int, cell: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    """So many corners of small squares in a cell, none over another."""
    found: list[tuple[float, float]] = []
    for _ in range(400):
        x, y = draft.rng.uniform(cell[0] + 4, cell[2] - 20), draft.rng.uniform(cell[1] + 4, cell[3] - 20)
        if all(max(abs(x - a), abs(y - b)) >= 17 for a, b in found):
            found.append((round(x, 1), round(y, 1)))
        if len(found) == number:
            return found
    raise NoRoom


def _paint_counts(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    for item in facts["items"]:
        parts.append(paint.card(canvas, item["box"]))
        for x, y in item["spots"]:
            parts.append(paint.icon(canvas, item["icon"], (x, y, x + 16, y + 16), canvas.fill(item["colour"])))
    return "".join(parts)


CARDS_BY_COUNT = PuzzleType(
    "cards_by_count",
    FAMILY,
    {
        "en": (
            "Click the cards from the fewest icons to the most",
            "Fewest first: tap the cards by how many they hold",
        ),
        "zh": ("按图标数量从少到多点击卡片", "先少后多，逐张点选卡片"),
    },
    _draw_counts,
    lambda facts: _rising([len(item["spots"]) for item in facts["items"]]),
    _paint_counts,
    click_items,
    _count,
    aspect=0.7,
)

# --- colour and kind -------------------------------------------------------------------------------------------------


def _draw_coloured(draft: Draft) -> tuple[Facts, Answer]:
    kinds, colours = draft.icons(3), draft.rng.sample(range(len(COLOURS)), 3)
    looks = [(icon, colour) for icon in kinds for colour in colours]
    shown = draft.rng.sample(looks, draft.number(4, 9))
    wanted = shown[: draft.number(2, 4)]
    items = [
        {"icon": icon, "colour": colour, **place}
        for (icon, colour), place in zip(shown, _placed(draft, len(shown), 42), strict=True)
    ]
    draft.rng.shuffle(items)
    places = {(item["icon"], item["colour"]): index for index, item in enumerate(items)}
    between = " " if draft.locale == "en" else "的"
    things = " > ".join(f"{COLOURS[colour][draft.locale]}{between}{draft.icon_name(icon)}" for icon, colour in wanted)
    return {"items": items, "wanted": wanted, "terms": {"things": things}}, [places[look] for look in wanted]


def _paint_icons(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    for item in facts["items"]:
        parts.append(paint.icon(canvas, item["icon"], paint.inset(item["box"], 4), canvas.fill(item["colour"])))
    return "".join(parts)


COLOURED_ICONS = PuzzleType(
    "coloured_icons",
    FAMILY,
    {
        "en": ("Click one after the other: {things}", "Mind colour and shape, and tap: {things}"),
        "zh": ("请依次点击：{things}", "注意颜色和形状，依次点选：{things}"),
    },
    _draw_coloured,
    lambda facts: _matching([[item["icon"], item["colour"]] for item in facts["items"]], facts["wanted"]),
    _paint_icons,
    click_items,
    _count,
    aspect=0.7,
)

# --- how full --------------------------------------------------------------------------------------------------------

LEAST_LEVEL = 0.06
"""Difference of fill levels, of the whole, that a person can see."""


def _draw_levels(draft: Draft) -> tuple[Facts, Answer]:
    count, step = draft.number(3, 6), draft.grade(0.22, 0.1)
    start = draft.rng.uniform(0.08, 0.92 - step * (count - 1))
    levels = [round(start + step * index, 3) for index in range(count)]
    draft.rng.shuffle(levels)
    cells = draft.rng.sample(draft.cells(6, 1, gap=10), count)
    items = [
        {"box": [x0, y0 + drop, x1, y1 - 60 + drop], "level": level, "colour": draft.rng.randrange(6)}
        for (x0, y0, x1, y1), level, drop in zip(
            cells, levels, draft.rng.choices(range(0, 50, 5), k=count), strict=True
        )
    ]
    return {"items": items}, sorted(range(count), key=lambda index: levels[index])


def _paint_levels(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 6)]
    for item in facts["items"]:
        x0, y0, x1, y1 = paint.inset(item["box"], 3)
        parts.append(paint.rect((x0, y0, x1, y1), canvas.theme.surface, canvas.theme.ink, 4))
        surface = y1 - item["level"] * (y1 - y0)
        parts.append(paint.rect((x0 + 2, surface, x1 - 2, y1 - 2), canvas.fill(item["colour"]), radius=2))
    return "".join(parts)


JARS_BY_LEVEL = PuzzleType(
    "jars_by_level",
    FAMILY,
    {
        "en": ("Click the jars from the emptiest to the fullest", "Least filled first: tap the jars in turn"),
        "zh": ("按装得从少到多点击瓶子", "由空到满，逐个点选瓶子"),
    },
    _draw_levels,
    lambda facts: _rising([item["level"] for item in facts["items"]], LEAST_LEVEL),
    _paint_levels,
    click_items,
    lambda facts: len(facts["items"]) - min(b - a for a, b in pairwise(sorted(i["level"] for i in facts["items"]))),
)

# --- directions ------------------------------------------------------------------------------------------------------

DIRECTIONS = {0: ("up", "上"), 90: ("right", "右"), 180: ("down", "下"), 270: ("left", "左")}


def _draw_arrows(draft: Draft) -> tuple[Facts, Answer]:
    turns = draft.rng.sample(sorted(DIRECTIONS), 4)
    wanted = turns[: draft.number(2, 4)]
    # Slanting arrows are in the way.
    slanting = [draft.rng.choice((45, 135, 225, 315)) for _ in range(draft.number(0, 4))]
    items = [
        {"turn": turn, "colour": draft.rng.randrange(6), "shape": draft.rng.randrange(2), **place}
        for turn, place in zip([*turns, *slanting], _placed(draft, 4 + len(slanting), 42), strict=True)
    ]
    draft.rng.shuffle(items)
    places = {item["turn"]: index for index, item in enumerate(items)}
    language = 0 if draft.locale == "en" else 1
    terms = {"directions": " > ".join(DIRECTIONS[turn][language] for turn in wanted)}
    return {"items": items, "wanted": wanted, "terms": terms}, [places[turn] for turn in wanted]


def _paint_arrows(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    for item in facts["items"]:
        x, y = paint.centre(item["box"])
        outline = _ARROWS[item["shape"]]
        points = [_turned((x, y), dx * 17, dy * 17, item["turn"]) for dx, dy in outline]
        parts.append(paint.polygon(points, canvas.fill(item["colour"])))
    return "".join(parts)


_ARROWS = (
    ((0, -1), (0.75, -0.1), (0.28, -0.1), (0.28, 1), (-0.28, 1), (-0.28, -0.1), (-0.75, -0.1)),
    ((0, -1), (0.7, 0.9), (0, 0.5), (-0.7, 0.9)),
)


def _turned(spot: tuple[float, float], dx: float, dy: float, degrees: float) -> tuple[float, float]:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return (spot[0] + dx * cos - dy * sin, spot[1] + dx * sin + dy * cos)


ARROWS_BY_DIRECTION = PuzzleType(
    "arrows_by_direction",
    FAMILY,
    {
        "en": ("Click the arrows that point: {directions}", "Follow the compass and tap the arrows: {directions}"),
        "zh": ("依次点击指向这些方向的箭头：{directions}", "按方向点选箭头：{directions}"),
    },
    _draw_arrows,
    lambda facts: _matching([item["turn"] for item in facts["items"]], facts["wanted"]),
    _paint_arrows,
    click_items,
    _count,
)

# --- corners ---------------------------------------------------------------------------------------------------------


def _draw_polygons(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(3, 5)
    sides = draft.rng.sample((3, 4, 6) if draft.difficulty == 1 else range(3, 8), count)
    items = [
        {"sides": number, "angle": draft.rng.randrange(0, 360, 10), "colour": draft.rng.randrange(6), **place}
        for number, place in zip(sides, _placed(draft, count, 50), strict=True)
    ]
    return {"items": items}, sorted(range(count), key=lambda index: sides[index])


def _paint_polygons(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    for item in facts["items"]:
        corners = paint.regular(paint.centre(item["box"]), 23, item["sides"], item["angle"])
        parts.append(paint.polygon(corners, canvas.fill(item["colour"]), canvas.theme.ink))
    return "".join(parts)


POLYGONS_BY_CORNERS = PuzzleType(
    "polygons_by_corners",
    FAMILY,
    {
        "en": ("Click the shapes from the fewest corners to the most", "Count corners: tap the shapes, fewest first"),
        "zh": ("按角的数量从少到多点击图形", "数一数角，由少到多点选图形"),
    },
    _draw_polygons,
    lambda facts: _rising([item["sides"] for item in facts["items"]]),
    _paint_polygons,
    click_items,
    _count,
)

# --- along a thread --------------------------------------------------------------------------------------------------


def _draw_thread(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(3, 7)
    first, *boxes = draft.scatter([(20, 20), *[(36, 36)] * count], gap=16)
    for _ in range(40):
        draft.rng.shuffle(boxes)
        if _is_clear([first, *boxes]):
            break
    else:
        raise NoRoom
    knots = [paint.centre(box) for box in (first, *boxes)]
    icons = draft.icons(count)
    items = [{"icon": icon, "box": box} for icon, box in zip(icons, boxes, strict=True)]
    order = list(range(count))
    draft.rng.shuffle(order)
    shuffled = [items[index] for index in order]
    return {"items": shuffled, "thread": knots}, [order.index(number) for number in range(count)]


def _is_clear(boxes: Sequence[Box]) -> bool:
    """Whether a thread through the middles of boxes, in their order, comes through no box between two others."""
    knots = [paint.centre(box) for box in boxes]
    return not any(
        _crosses(knots[here], knots[there], box)
        for here, there in pairwise(range(len(boxes)))
        for other, box in enumerate(boxes)
        if other not in (here, there)
    )


def _crosses(start: tuple[float, float], end: tuple[float, float], box: tuple[float, float, float, float]) -> bool:
    spots = [(start[0] + (end[0] - start[0]) * t / 60, start[1] + (end[1] - start[1]) * t / 60) for t in range(61)]
    return any(overlap((x, y, x, y), box, 5) for x, y in spots)


def _paint_thread(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    for here, there in pairwise(facts["thread"]):
        parts.append(paint.line(here, there, canvas.fill(3), 3))
    parts.append(paint.disc(facts["thread"][0], 9, canvas.fill(0)))
    for item in facts["items"]:
        spot = paint.centre(item["box"])
        parts.append(paint.disc(spot, 18, canvas.theme.surface, canvas.theme.line))
        parts.append(paint.icon(canvas, item["icon"], paint.inset(item["box"], 7), canvas.theme.ink))
    return "".join(parts)


def _solve_thread(facts: Facts) -> list[Answer]:
    # Which icon sits at each knot after the first.
    found: list[list[int]] = [[]]
    for x, y in facts["thread"][1:]:
        here = [i for i, item in enumerate(facts["items"]) if overlap((x, y, x, y), item["box"])]
        found = [[*before, index] for before in found for index in here if index not in before]
    return [order for order in found if len(order) == len(facts["items"])]


ICONS_ALONG_THREAD = PuzzleType(
    "icons_along_thread",
    FAMILY,
    {
        "en": (
            "Follow the thread from the dot and click each icon on it",
            "Start at the dot: tap the icons along the line",
        ),
        "zh": ("从圆点出发，沿着线依次点击图标", "由圆点开始，顺着线点选每个图标"),
    },
    _draw_thread,
    _solve_thread,
    _paint_thread,
    click_items,
    _count,
    aspect=0.76,
)

TYPES = (
    ICONS_AS_SHOWN,
    CARDS_BY_COUNT,
    COLOURED_ICONS,
    JARS_BY_LEVEL,
    ARROWS_BY_DIRECTION,
    POLYGONS_BY_CORNERS,
    ICONS_ALONG_THREAD,
)
