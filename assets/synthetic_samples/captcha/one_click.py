"""One-click verification: one place of the picture is the right one."""

from __future__ import annotations

import math
import string
from collections import Counter
from itertools import combinations
from typing import Any

from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.clicks import click_items
from assets.synthetic_samples.captcha.latent import Answer, Canvas, Draft, Facts, Family, NoRoom, PuzzleType, overlap
from assets.synthetic_samples.captcha.paint import Spot
from assets.synthetic_samples.templates import COLOURS

FAMILY: Family = "one-click verification"


def _count(facts: Facts) -> float:
    return float(len(facts["items"]))


# --- the box to tick -------------------------------------------------------------------------------------------------

_LINES = {
    "train": {
        "en": (
            ("I am a person", "A person is at the keyboard"),
            ("Keep me signed in", "Send me the newsletter", "Show large print", "Share my results", "Dark pages"),
        ),
        "zh": (("我是真人", "操作者是真人"), ("保持登录", "订阅周报", "大字显示", "公开我的结果", "夜间模式")),
    },
    "heldout": {
        "en": (
            ("A human is reading this", "I am no machine"),
            ("Remember this device", "Text me offers", "Save my address", "Gift wrapping", "Paper receipt"),
        ),
        "zh": (("我不是机器人", "本人正在操作"), ("记住此设备", "接收优惠短信", "保存地址", "礼品包装", "纸质发票")),
    },
}


def _draw_tick(draft: Draft) -> tuple[Facts, Answer]:
    human, others = _LINES[draft.split][draft.locale]
    lines = [draft.rng.choice(human), *draft.rng.sample(others, draft.number(1, 4))]
    draft.rng.shuffle(lines)
    left, step = draft.rng.randint(14, 40), (draft.height - 24) / len(lines)
    items = []
    for number, line in enumerate(lines):
        y = round(12 + step * (number + 0.5) - 11)
        items.append({"line": line, "box": [left, y, left + 22, y + 22]})
    return {"items": items, "locale": draft.locale}, [
        next(index for index, line in enumerate(lines) if line in human),
    ]


def _solve_tick(facts: Facts) -> list[Answer]:
    human = {line for split in _LINES.values() for line in split[facts["locale"]][0]}
    return [[index] for index, item in enumerate(facts["items"]) if item["line"] in human]


def _paint_tick(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas)]
    for item in facts["items"]:
        x0, y0, x1, y1 = item["box"]
        parts.append(paint.rect(paint.inset((x0, y0, x1, y1), 1), canvas.theme.surface, canvas.theme.ink, 3))
        width, _ = paint.text_size(item["line"], 19)
        size = (min(width, canvas.width - x1 - 16), 19)
        parts.append(
            paint.text(item["line"], (x1 + 10, y0 + 2, x1 + 10 + size[0], y1 - 1), canvas.theme.ink, bold=False)
        )
    return "".join(parts)


TICK_PERSON = PuzzleType(
    "tick_person",
    FAMILY,
    {
        "en": ("Tick the box that says you are human", "One line says that a person is here: tick only that"),
        "zh": ("勾选表明您是真人的方框", "只勾选说明操作者是人的那一项"),
    },
    _draw_tick,
    _solve_tick,
    _paint_tick,
    click_items,
    _count,
    aspect=0.5,
)

# --- the one that is turned otherwise --------------------------------------------------------------------------------

_LOPSIDED = {
    "train": ("flag", "key", "cup", "plane", "scissors", "truck", "shoe", "leaf"),
    "heldout": ("phone", "brush", "bike", "bed", "door", "bus"),
}
"""Icons that look different when they are turned."""


def _draw_turned(draft: Draft) -> tuple[Facts, Answer]:
    columns, rows = draft.number(3, 5), draft.number(2, 4)
    usual = draft.rng.randrange(0, 360, 15)
    off = draft.number(90, 35) * draft.rng.choice((-1, 1))
    answer = draft.rng.randrange(columns * rows)
    icon = draft.rng.choice(_LOPSIDED[draft.split])
    items = [
        {"box": cell, "angle": usual + (off if index == answer else 0)}
        for index, cell in enumerate(draft.cells(columns, rows))
    ]
    return {"items": items, "icon": icon, "colour": draft.rng.randrange(6)}, [answer]


def _solve_alone(facts: Facts) -> list[Answer]:
    angles = Counter(item["angle"] % 360 for item in facts["items"])
    return [[index] for index, item in enumerate(facts["items"]) if angles[item["angle"] % 360] == 1]


def _paint_turned(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    for item in facts["items"]:
        x0, y0, x1, y1 = item["box"]
        place = paint.square((x0, y0, x1, y1), min(x1 - x0, y1 - y0) * 0.66)
        parts.append(paint.card(canvas, item["box"]))
        parts.append(paint.icon(canvas, facts["icon"], place, canvas.fill(facts["colour"]), item["angle"]))
    return "".join(parts)


ODD_TURN = PuzzleType(
    "odd_turn",
    FAMILY,
    {
        "en": (
            "Click the picture that is turned differently from all others",
            "All face one way but one: tap that one",
        ),
        "zh": ("点击朝向与其他不同的图案", "只有一个方向不一样，请点选它"),
    },
    _draw_turned,
    _solve_alone,
    _paint_turned,
    click_items,
    lambda facts: len(facts["items"]) - _turn_apart(facts) / 90,
)


def _turn_apart(facts: Facts) -> float:
    angles = {item["angle"] for item in facts["items"]}
    return max(angles) - min(angles)


# --- the ring that is open -------------------------------------------------------------------------------------------


def _draw_rings(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(4, 9)
    sides = [draft.rng.randint(38, 52) for _ in range(count)]
    boxes = draft.scatter([(side, side) for side in sides])
    answer, gap = draft.rng.randrange(count), draft.number(70, 26)
    items = []
    for index, box in enumerate(boxes):
        look = {"angle": draft.rng.randrange(360), "colour": draft.rng.randrange(6)}
        items.append({"box": box, "gap": gap if index == answer else 0, **look})
    return {"items": items}, [answer]


def _paint_rings(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    for item in facts["items"]:
        spot, radius = paint.centre(item["box"]), (item["box"][2] - item["box"][0]) / 2 - 4
        around = 2 * math.pi * radius
        shown = around * (360 - item["gap"]) / 360
        parts.append(
            f'<circle cx="{spot[0]:g}" cy="{spot[1]:g}" r="{radius:g}" fill="none" '
            f'stroke="{canvas.fill(item["colour"])}" stroke-width="4" '
            f'stroke-dasharray="{shown:.2f} {around - shown:.2f}" '
            f'transform="rotate({item["angle"]} {spot[0]:g} {spot[1]:g})"/>'
        )
    return "".join(parts)


OPEN_RING = PuzzleType(
    "open_ring",
    FAMILY,
    {
        "en": ("Click the circle that is not closed", "One ring has a gap: tap it"),
        "zh": ("点击没有闭合的圆环", "有一个圆环留有缺口，请点选它"),
    },
    _draw_rings,
    lambda facts: [[index] for index, item in enumerate(facts["items"]) if item["gap"] > 0],
    _paint_rings,
    click_items,
    lambda facts: len(facts["items"]) - max(item["gap"] for item in facts["items"]) / 90,
)

# --- the one that stands upright -------------------------------------------------------------------------------------

_UPRIGHT_LETTERS = {"train": "AEFGKLPRTY", "heldout": "BDJMQUVW"}
UPRIGHT = 8
"""Degrees within which a letter counts as upright."""


def _draw_upright(draft: Draft) -> tuple[Facts, Answer]:
    columns, rows = draft.number(3, 4), draft.number(2, 3)
    letters = draft.rng.choices(_UPRIGHT_LETTERS[draft.split], k=columns * rows)
    answer, least = draft.rng.randrange(columns * rows), draft.number(70, 22)
    items = [
        {
            "box": cell,
            "letter": letter,
            "angle": 0 if index == answer else draft.rng.randint(least, 150) * draft.rng.choice((-1, 1)),
        }
        for index, (cell, letter) in enumerate(zip(draft.cells(columns, rows), letters, strict=True))
    ]
    return {"items": items, "colour": draft.rng.randrange(6)}, [answer]


def _paint_upright(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    for item in facts["items"]:
        place = paint.square(item["box"], 38)
        narrow = (place[0] + 5, place[1], place[2] - 5, place[3])
        parts.append(paint.text(item["letter"], narrow, canvas.fill(facts["colour"]), item["angle"]))
    return "".join(parts)


UPRIGHT_LETTER = PuzzleType(
    "upright_letter",
    FAMILY,
    {
        "en": ("Click the only letter that stands upright", "Every letter has fallen over but one: tap that one"),
        "zh": ("点击唯一端正的字母", "只有一个字母没有歪倒，请点选它"),
    },
    _draw_upright,
    lambda facts: [[index] for index, item in enumerate(facts["items"]) if abs(item["angle"]) <= UPRIGHT],
    _paint_upright,
    click_items,
    lambda facts: len(facts["items"]) - sorted(abs(item["angle"]) for item in facts["items"])[1] / 90,
)

# --- where two lines cross -------------------------------------------------------------------------------------------

CROSSING = 22
"""Side of the square about a crossing that may be clicked."""


def _draw_lines(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(2, 4)
    colours = draft.rng.sample((0, 1, 2, 4, 5), count)
    lines: list[dict[str, Any]] = []
    for colour in colours:
        ends = _edge_spots(draft)
        if math.dist(*ends) < draft.width * 0.6:
            raise NoRoom
        lines.append({"colour": colour, "ends": ends})
    items = []
    for one, other in combinations(range(count), 2):
        spot = _crossing(lines[one]["ends"], lines[other]["ends"])
        if spot is None:
            continue
        box = (spot[0] - CROSSING / 2, spot[1] - CROSSING / 2, spot[0] + CROSSING / 2, spot[1] + CROSSING / 2)
        if min(box) < 0 or box[2] > draft.width or box[3] > draft.height:
            raise NoRoom
        items.append({"box": [round(value, 1) for value in box], "pair": [one, other]})
    answer = [index for index, item in enumerate(items) if item["pair"] == [0, 1]]
    if len(answer) != 1:
        raise NoRoom
    wanted = sorted(colours[:2])
    names = [COLOURS[colour][draft.locale] for colour in wanted]
    facts = {
        "lines": lines,
        "items": [{"box": item["box"]} for item in items],
        "wanted": wanted,
        "terms": {"one": names[0], "other": names[1]},
    }
    return facts, answer


def _edge_spots(draft: Draft) -> tuple[Spot, Spot]:
    """Two spots on opposite edges."""
    if draft.rng.random() < 0.5:
        return (4.0, draft.rng.uniform(8, draft.height - 8)), (
            draft.width - 4.0,
            draft.rng.uniform(8, draft.height - 8),
        )
    return (draft.rng.uniform(8, draft.width - 8), 4.0), (draft.rng.uniform(8, draft.width - 8), draft.height - 4.0)


def _crossing(one: tuple[Spot, Spot], other: tuple[Spot, Spot]) -> Spot | None:
    """Where two stretches cross, with the usual determinants; None where they don't, or hardly at an angle."""
    (ax, ay), (bx, by) = one
    (cx, cy), (dx, dy) = other
    slope = (bx - ax) * (dy - cy) - (by - ay) * (dx - cx)
    if abs(slope) < 0.35 * math.dist(*one) * math.dist(*other):
        return None
    t = ((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx)) / slope
    s = ((cx - ax) * (by - ay) - (cy - ay) * (bx - ax)) / slope
    return (ax + t * (bx - ax), ay + t * (by - ay)) if 0 < t < 1 and 0 < s < 1 else None


def _solve_lines(facts: Facts) -> list[Answer]:
    # Walk along the lines of the two colours: a place is theirs when both come through it.
    found = []
    for index, item in enumerate(facts["items"]):
        x0, y0, x1, y1 = item["box"]
        passing = [
            any(x0 <= x < x1 and y0 <= y < y1 for x, y in _walk(line["ends"]))
            for line in facts["lines"]
            if line["colour"] in facts["wanted"]
        ]
        if all(passing):
            found.append([index])
    return found


def _walk(ends: tuple[Spot, Spot]) -> list[Spot]:
    (ax, ay), (bx, by) = ends
    return [(ax + (bx - ax) * t / 800, ay + (by - ay) * t / 800) for t in range(801)]


def _paint_lines(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    parts += [
        paint.line(start, end, canvas.fill(line["colour"]), 3.5)
        for line in facts["lines"]
        for start, end in [line["ends"]]
    ]
    return "".join(parts)


LINE_CROSSING = PuzzleType(
    "line_crossing",
    FAMILY,
    {
        "en": ("Click where the {one} and the {other} line cross", "Two lines meet, {one} and {other}: tap that point"),
        "zh": ("点击{one}线与{other}线的交点", "找到{one}和{other}两条线相交处并点选"),
    },
    _draw_lines,
    _solve_lines,
    _paint_lines,
    click_items,
    lambda facts: float(len(facts["lines"])),
)

# --- the end of a tangled thread -------------------------------------------------------------------------------------


def _draw_threads(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(3, 6)
    step = draft.height / count
    starts = [(16.0, step * (number + 0.5)) for number in range(count)]
    ends = [(draft.width - 22.0, step * (number + 0.5)) for number in range(count)]
    draft.rng.shuffle(ends)
    threads = []
    for start, end in zip(starts, ends, strict=True):
        bends = draft.number(1, 3)
        across = [start[0] + (end[0] - start[0]) * (bend + 1) / (bends + 1) for bend in range(bends)]
        knots = [(x, draft.rng.uniform(14, draft.height - 14)) for x in across]
        threads.append([start, *knots, end])
    labels = draft.rng.sample(string.ascii_uppercase[:8], count)
    ordered = sorted(ends, key=lambda end: end[1])
    items = [
        {"box": [x - 14, y - 14, x + 14, y + 14], "label": label} for (x, y), label in zip(ordered, labels, strict=True)
    ]
    chosen = draft.rng.randrange(count)
    return {"items": items, "threads": threads, "start": starts[chosen]}, [ordered.index(ends[chosen])]


def _solve_threads(facts: Facts) -> list[Answer]:
    ends = [thread[-1] for thread in facts["threads"] if thread[0] == facts["start"]]
    return [[index] for x, y in ends for index, item in enumerate(facts["items"]) if overlap((x, y, x, y), item["box"])]


def _paint_threads(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas)]
    for number, thread in enumerate(facts["threads"]):
        same = canvas.difficulty >= 4
        parts.append(paint.curve(thread, canvas.fill(1 if same else number % 6), 2.5))
    for thread in facts["threads"]:
        chosen = thread[0] == facts["start"]
        parts.append(paint.disc(thread[0], 10 if chosen else 5, canvas.theme.ink if chosen else canvas.theme.line))
    for item in facts["items"]:
        spot = paint.centre(item["box"])
        parts.append(paint.disc(spot, 13, canvas.theme.surface, canvas.theme.ink, 1.5))
        parts.append(paint.text(item["label"], paint.inset(item["box"], 6), canvas.theme.ink))
    return "".join(parts)


THREAD_END = PuzzleType(
    "thread_end",
    FAMILY,
    {
        "en": (
            "Click the letter at the end of the thread that starts at the large dot",
            "Trace the line from the big dot to its letter and tap it",
        ),
        "zh": ("点击从大圆点出发的线所连的字母", "从大圆点顺线走到头，点选那里的字母"),
    },
    _draw_threads,
    _solve_threads,
    _paint_threads,
    click_items,
    lambda facts: sum(len(thread) for thread in facts["threads"]),
    aspect=0.7,
)

# --- the one without a twin ------------------------------------------------------------------------------------------


def _draw_twins(draft: Draft) -> tuple[Facts, Answer]:
    pairs = draft.number(2, 5)
    icons = draft.icons(pairs + 1)
    shown = [icons[0], *icons[1:], *icons[1:]]
    boxes = draft.scatter([(38, 38)] * len(shown))
    items = [
        {"icon": icon, "box": box, "colour": draft.rng.randrange(6), "angle": draft.rng.randint(-25, 25)}
        for icon, box in zip(shown, boxes, strict=True)
    ]
    draft.rng.shuffle(items)
    return {"items": items}, [next(index for index, item in enumerate(items) if item["icon"] == icons[0])]


def _solve_twins(facts: Facts) -> list[Answer]:
    icons = Counter(item["icon"] for item in facts["items"])
    return [[index] for index, item in enumerate(facts["items"]) if icons[item["icon"]] % 2 == 1]


def _paint_twins(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    for item in facts["items"]:
        place = paint.inset(item["box"], 5)
        parts.append(paint.icon(canvas, item["icon"], place, canvas.fill(item["colour"]), item["angle"]))
    return "".join(parts)


WITHOUT_TWIN = PuzzleType(
    "without_twin",
    FAMILY,
    {
        "en": ("Click the icon that has no twin", "Everything comes in pairs but one thing: tap it"),
        "zh": ("点击没有配对的图标", "其他图案都成双，请点选落单的那个"),
    },
    _draw_twins,
    _solve_twins,
    _paint_twins,
    click_items,
    _count,
    aspect=0.7,
)

# --- one code among similar ones -------------------------------------------------------------------------------------

_ALIKE = {
    "train": {"B": "8", "S": "5", "Z": "2", "M": "N", "E": "F", "P": "R", "V": "U", "C": "G"},
    "heldout": {"D": "O", "I": "1", "K": "X", "W": "V", "T": "Y", "H": "A", "Q": "O", "L": "J"},
}
"""A character, and one that looks like it."""


def _draw_codes(draft: Draft) -> tuple[Facts, Answer]:
    alike = _ALIKE[draft.split]
    code = "".join(draft.rng.sample(sorted(alike), 4)) + str(draft.rng.randrange(10, 100))
    others: set[str] = set()
    changes = 1 if draft.difficulty > 2 else 2
    while len(others) < draft.number(3, 7):
        spots = draft.rng.sample(range(4), changes)
        others.add("".join(alike[c] if index in spots else c for index, c in enumerate(code)))
        if changes == 1 and len(others) == 4:
            changes = 2
    labels = [code, *sorted(others)]
    draft.rng.shuffle(labels)
    cells = draft.cells(2, -(-len(labels) // 2), gap=10)
    items = [{"box": cell, "label": label} for cell, label in zip(cells, labels, strict=False)]
    return {"items": items, "code": code, "terms": {"code": code}}, [labels.index(code)]


def _paint_codes(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 8)]
    for item in facts["items"]:
        x, y = paint.centre(item["box"])
        width, height = paint.text_size(item["label"], 24)
        parts.append(paint.card(canvas, item["box"]))
        place = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        parts.append(paint.text(item["label"], place, canvas.theme.ink))
    return "".join(parts)


SAME_CODE = PuzzleType(
    "same_code",
    FAMILY,
    {
        "en": ("Click the card that reads exactly {code}", "Only one card matches {code}: tap it"),
        "zh": ("点击与 {code} 完全相同的卡片", "只有一张卡片写着 {code}，请点选它"),
    },
    _draw_codes,
    lambda facts: [[index] for index, item in enumerate(facts["items"]) if item["label"] == facts["code"]],
    _paint_codes,
    click_items,
    lambda facts: len(facts["items"]) - min(_differing(*pair) for pair in _pairs(facts)) / 10,
)


def _pairs(facts: Facts) -> list[tuple[str, str]]:
    return [(facts["code"], item["label"]) for item in facts["items"] if item["label"] != facts["code"]]


def _differing(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


TYPES = (
    TICK_PERSON,
    ODD_TURN,
    OPEN_RING,
    UPRIGHT_LETTER,
    LINE_CROSSING,
    THREAD_END,
    WITHOUT_TWIN,
    SAME_CODE,
)
