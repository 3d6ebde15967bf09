"""OCR text entry: what is read in a picture, or worked out from what is read, is typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.entry import type_answer
from assets.synthetic_samples.captcha.figures import letters, threads
from assets.synthetic_samples.captcha.latent import Answer, Canvas, Draft, Facts, Family, NoRoom, PuzzleType
from assets.synthetic_samples.captcha.mechanisms import bearing, turned
from assets.synthetic_samples.templates import COLOURS
from assets.synthetic_samples.themes import Split

FAMILY: Family = "OCR text entry"

CHARACTERS = "ACDEFHJKMNPRTUVWXY"
DIGITS = "234679"
"""Characters none of which looks like another."""

HAN: dict[Split, str] = {
    "train": "天地日月山水火木金石田禾大小上下左右东西南北",
    "heldout": "春夏秋冬风云雨雪花草鱼鸟马牛羊虎龙门窗车船灯",
}

BAND = 0.36
"""Height over width of a picture that is a line or two of characters."""

Glyph = dict[str, Any]
"""A character or word of a picture: text, x, y, size, turn and skew in degrees, fill (number of the colour)."""


def _alphabet(draft: Draft, digits: bool = True) -> str:
    return HAN[draft.split] if draft.locale == "zh" else CHARACTERS + (DIGITS if digits else "")


def _row(draft: Draft, texts: Sequence[str], y: float | None = None, size: float = 36) -> list[Glyph]:
    """Texts side by side across the picture, each tilted and in a colour of its own."""
    rng, lean, pitch = draft.rng, draft.grade(5, 26), (draft.width - 24) / len(texts)
    return [
        {
            "text": text,
            "x": round(12 + pitch * (index + 0.5 + rng.uniform(-0.1, 0.1)), 1),
            "y": round((draft.height / 2 if y is None else y) + rng.uniform(-6, 6), 1),
            "size": round(min(size, pitch * 1.1) * rng.uniform(0.9, 1.0), 1),
            "turn": round(rng.uniform(-lean, lean), 1),
            "skew": round(rng.uniform(-lean, lean) / 2, 1),
            "fill": rng.randrange(len(COLOURS)),
        }
        for index, text in enumerate(texts)
    ]


def _across(facts: Facts) -> list[Glyph]:
    """The glyphs from left to right."""
    return sorted(facts["glyphs"], key=lambda glyph: float(glyph["x"]))


def _paint_glyphs(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas, canvas.difficulty / 6)
    for glyph in facts["glyphs"]:
        turn, skew = glyph["turn"], glyph["skew"]
        drawn += letters(glyph["text"], glyph["x"], glyph["y"], glyph["size"], canvas.fill(glyph["fill"]), turn, skew)
    return drawn + threads(canvas, canvas.difficulty) + paint.specks(canvas, 14 * canvas.difficulty)


def _glyph_load(facts: Facts) -> float:
    glyphs = facts["glyphs"]
    return len(glyphs) + sum(abs(glyph["turn"]) for glyph in glyphs) / len(glyphs) / 4


def _entry(
    name: str,
    draw: Callable[[Draft], tuple[Facts, Answer]],
    solve: Callable[[Facts], list[Answer]],
    en: tuple[str, str],
    zh: tuple[str, str],
    picture: Callable[[Canvas, Facts], str] = _paint_glyphs,
    load: Callable[[Facts], float] = _glyph_load,
    aspect: float = BAND,
) -> PuzzleType:
    return PuzzleType(name, FAMILY, {"en": en, "zh": zh}, draw, solve, picture, type_answer, load, aspect)


# --- read ------------------------------------------------------------------------------------------------------------


def _draw_distorted(draft: Draft) -> tuple[Facts, Answer]:
    if draft.locale == "zh":
        text = "".join(draft.words(draft.number(1, 3)))
    else:
        text = "".join(draft.rng.choice(CHARACTERS + DIGITS) for _ in range(draft.number(4, 7)))
    return {"glyphs": _row(draft, text)}, text


def _draw_reversed(draft: Draft) -> tuple[Facts, Answer]:
    text = draft.rng.sample(_alphabet(draft), draft.number(4, 7))
    return {"glyphs": _row(draft, text)}, "".join(reversed(text))


def _draw_digits(draft: Draft) -> tuple[Facts, Answer]:
    digits = draft.rng.choices("0123456789" if draft.locale == "zh" else DIGITS, k=draft.number(3, 5))
    text = digits + draft.rng.sample(_alphabet(draft, digits=False), draft.number(2, 4))
    draft.rng.shuffle(text)
    return {"glyphs": _row(draft, text)}, "".join(one for one in text if one.isdecimal())


def _draw_coloured(draft: Draft) -> tuple[Facts, Answer]:
    text = draft.rng.sample(_alphabet(draft), draft.number(5, 9))
    wanted, *others = draft.rng.sample(range(len(COLOURS)), draft.number(2, 4))
    chosen = sorted(draft.rng.sample(range(len(text)), draft.rng.randint(2, len(text) - 2)))
    glyphs = _row(draft, text)
    for index, glyph in enumerate(glyphs):
        glyph["fill"] = wanted if index in chosen else draft.rng.choice(others)
    terms = {"colour": COLOURS[wanted][draft.locale]}
    return {"glyphs": glyphs, "wanted": wanted, "terms": terms}, "".join(text[index] for index in chosen)


def _draw_numbered(draft: Draft) -> tuple[Facts, Answer]:
    text = draft.rng.sample(_alphabet(draft, digits=False), draft.number(4, 7))
    ranks = draft.rng.sample(range(1, len(text) + 1), len(text))
    glyphs = _row(draft, text, draft.height * 0.36, 32)
    for glyph, rank in zip(glyphs, ranks, strict=True):
        glyph["rank"] = rank
    return {"glyphs": glyphs}, "".join(one for _, one in sorted(zip(ranks, text, strict=True)))


def _paint_numbered(canvas: Canvas, facts: Facts) -> str:
    drawn, y = _paint_glyphs(canvas, facts), canvas.height * 0.8
    for glyph in facts["glyphs"]:
        drawn += paint.disc((glyph["x"], y), 11, canvas.theme.ink)
        drawn += letters(str(glyph["rank"]), glyph["x"], y, 14, canvas.theme.page)
    return drawn


def _solve_numbered(facts: Facts) -> list[Answer]:
    """Follow the numbers from 1; a number that stands twice would branch."""
    answers = [""]
    for rank in range(1, len(facts["glyphs"]) + 1):
        found = [glyph["text"] for glyph in facts["glyphs"] if glyph["rank"] == rank]
        answers = [answer + text for answer in answers for text in found]
    return list(answers)


def _draw_circular(draft: Draft) -> tuple[Facts, Answer]:
    text = draft.rng.sample(_alphabet(draft), draft.number(4, 8))
    centre, radius = (draft.width / 2, draft.height / 2), draft.height * 0.36
    first, step, lean = draft.rng.uniform(0, 360), 360 / (len(text) + 1), draft.grade(0, 24)
    spots = [turned((centre[0], centre[1] - radius), centre, first + step * index) for index in range(len(text) + 1)]
    glyphs = [
        {"text": one, "x": round(x, 1), "y": round(y, 1), "size": 27, "turn": round(draft.rng.uniform(-lean, lean), 1),
         "skew": 0, "fill": draft.rng.randrange(len(COLOURS))}
        for one, (x, y) in zip(text, spots[1:], strict=True)
    ]  # fmt: skip
    draft.rng.shuffle(glyphs)
    return {"glyphs": glyphs, "dot": spots[0], "centre": centre, "radius": radius}, "".join(text)


def _paint_circular(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas) + paint.disc(
        facts["centre"], facts["radius"], "none", canvas.theme.surface, facts["radius"] * 0.6
    )
    glyphs = "".join(
        letters(one["text"], one["x"], one["y"], one["size"], canvas.fill(one["fill"]), one["turn"])
        for one in facts["glyphs"]
    )
    return drawn + paint.disc(facts["dot"], 9, canvas.theme.ink) + glyphs + paint.specks(canvas, 12 * canvas.difficulty)


def _solve_circular(facts: Facts) -> list[Answer]:
    first = bearing(facts["centre"], facts["dot"])
    ways = {round((bearing(facts["centre"], (one["x"], one["y"])) - first) % 360, 1): one for one in facts["glyphs"]}
    if len(ways) < len(facts["glyphs"]):
        return []
    return ["".join(ways[way]["text"] for way in sorted(ways))]


def _draw_table(draft: Draft) -> tuple[Facts, Answer]:
    columns, rows = draft.number(3, 5), draft.number(3, 4)
    text = draft.rng.sample(_alphabet(draft), columns * rows)
    left, top = draft.width * 0.2, 26
    side = min((draft.height - top - 8) / rows, (draft.width - left - 8) / columns)
    lean = draft.grade(0, 20)
    glyphs = [
        {
            "text": one,
            "x": round(left + (index % columns + 0.5) * side, 1),
            "y": round(top + (index // columns + 0.5) * side, 1),
            "size": round(side * 0.55, 1),
            "turn": round(draft.rng.uniform(-lean, lean), 1),
            "skew": 0,
            "fill": draft.rng.randrange(len(COLOURS)),
        }
        for index, one in enumerate(text)
    ]
    asked = draft.rng.sample(range(len(text)), draft.number(2, 4))
    names = ["ABCDE"[index % columns] + str(index // columns + 1) for index in asked]
    facts = {"glyphs": glyphs, "left": left, "top": top, "side": side, "asked": names, "columns": columns, "rows": rows}
    return {**facts, "terms": {"cells": " ".join(names)}}, "".join(text[index] for index in asked)


def _paint_table(canvas: Canvas, facts: Facts) -> str:
    left, top, side = facts["left"], facts["top"], facts["side"]
    drawn = paint.ground(canvas)
    for column in range(facts["columns"]):
        drawn += letters("ABCDE"[column], left + (column + 0.5) * side, top / 2, 15, canvas.theme.ink)
    for row in range(facts["rows"]):
        drawn += letters(str(row + 1), left - 16, top + (row + 0.5) * side, 15, canvas.theme.ink)
        for column in range(facts["columns"]):
            x, y = left + column * side, top + row * side
            drawn += paint.rect((x, y, x + side, y + side), canvas.theme.surface, canvas.theme.line)
    for one in facts["glyphs"]:
        drawn += letters(one["text"], one["x"], one["y"], one["size"], canvas.fill(one["fill"]), one["turn"])
    return drawn


def _solve_table(facts: Facts) -> list[Answer]:
    """Look where the column of the letter and the row of the number meet."""
    answers = [""]
    for name in facts["asked"]:
        x = facts["left"] + "ABCDE".index(name[0]) * facts["side"]
        y = facts["top"] + (int(name[1]) - 1) * facts["side"]
        found = [
            one["text"]
            for one in facts["glyphs"]
            if 0 < one["x"] - x < facts["side"] and 0 < one["y"] - y < facts["side"]
        ]
        answers = [answer + text for answer in answers for text in found]
    return list(answers)


# --- worked out ------------------------------------------------------------------------------------------------------


def _draw_arithmetic(draft: Draft) -> tuple[Facts, Answer]:
    numbers = [draft.rng.randint(2, draft.number(9, 15)) for _ in range(2 if draft.difficulty < 3 else 3)]
    signs = [draft.rng.choice("+−×" if draft.difficulty > 1 else "+−") for _ in numbers[1:]]
    if signs.count("×") > 1:
        raise NoRoom
    # Products first, then from left to right.
    summands, joints = [numbers[0]], []
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign == "×":
            summands[-1] *= number
        else:
            summands.append(number)
            joints.append(1 if sign == "+" else -1)
    value = summands[0] + sum(joint * summand for joint, summand in zip(joints, summands[1:], strict=True))
    if value < 0:
        raise NoRoom
    tokens = [str(numbers[0])]
    for sign, number in zip(signs, numbers[1:], strict=True):
        tokens += [sign, str(number)]
    return {"glyphs": _row(draft, [*tokens, "=", "?"], size=32)}, str(value)


def _solve_arithmetic(facts: Facts) -> list[Answer]:
    """Read the tokens as a sum of signed products."""
    total, product, sign = 0, 1, 1
    for token in [glyph["text"] for glyph in _across(facts)]:
        if token.isdecimal():
            product *= int(token)
        elif token in ("+", "−", "="):
            total, product, sign = total + sign * product, 1, (-1 if token == "−" else 1)
    return [str(total)]


LEXICON: dict[Split, dict[Locale, tuple[str, ...]]] = {
    "train": {
        "en": tuple(
            "ELEPHANT UMBRELLA KEYBOARD HOSPITAL CALENDAR CHOCOLATE SANDWICH TELEPHONE BUTTERFLY LIBRARY PENGUIN "
            "RAINBOW VOLCANO TRIANGLE".split()
        ),
        "zh": tuple(
            "画蛇添足 守株待兔 亡羊补牢 井底之蛙 水滴石穿 刻舟求剑 对牛弹琴 一鸣惊人 雪中送炭 "
            "马到成功 半途而废 名列前茅".split()
        ),
    },
    "heldout": {
        "en": tuple("BICYCLE CROCODILE PINEAPPLE ASTRONAUT ORCHESTRA SQUIRREL DIAMOND KITCHEN DOLPHIN".split()),
        "zh": tuple("掩耳盗铃 愚公移山 杯弓蛇影 狐假虎威 胸有成竹 叶公好龙 塞翁失马 破釜沉舟 闻鸡起舞".split()),
    },
}
"""Words and sayings that can be completed when one character is missing."""


def _draw_missing(draft: Draft) -> tuple[Facts, Answer]:
    word = draft.rng.choice(LEXICON[draft.split][draft.locale])
    # The first letter tells most about a word.
    gap = draft.rng.randrange(0 if draft.locale == "zh" else 1, len(word))
    shown = [one if index != gap else "_" for index, one in enumerate(word)]
    return {"glyphs": _row(draft, shown)}, word[gap]


def _solve_missing(facts: Facts) -> list[Answer]:
    """Every character that makes a word of the lexicon, either split's."""
    shown = "".join(glyph["text"] for glyph in _across(facts))
    gap = shown.index("_")
    words = [word for by_locale in LEXICON.values() for words in by_locale.values() for word in words]
    return [word[gap] for word in words if word[:gap] + "_" + word[gap + 1 :] == shown]


def _draw_counted(draft: Draft) -> tuple[Facts, Answer]:
    names = draft.icons(draft.number(2, 4))
    side = draft.grade(34, 24)
    boxes = draft.scatter([(side, side)] * draft.number(8, 18), gap=4)
    icons = [names[0], *(draft.rng.choice(names) for _ in boxes[1:])]
    items = [
        {
            "icon": name,
            "box": box,
            "angle": round(draft.rng.uniform(-30, 30)),
            "fill": draft.rng.randrange(len(COLOURS)),
        }
        for name, box in zip(icons, boxes, strict=True)
    ]
    draft.rng.shuffle(items)
    facts = {"items": items, "wanted": names[0], "terms": {"icon": draft.icon_name(names[0])}}
    return facts, str(icons.count(names[0]))


def _paint_counted(canvas: Canvas, facts: Facts) -> str:
    drawn = paint.ground(canvas, canvas.difficulty / 6)
    for item in facts["items"]:
        drawn += paint.icon(canvas, item["icon"], item["box"], canvas.fill(item["fill"]), item["angle"])
    return drawn + paint.specks(canvas, 10 * canvas.difficulty)


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen".split()
)
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
_HAN_DIGITS = "零一二三四五六七八九"
_UNITS = {"thousand": 1000, "hundred": 100, "千": 1000, "百": 100, "十": 10}


def _draw_spelled(draft: Draft) -> tuple[Facts, Answer]:
    value = draft.rng.randint(101, 999) if draft.difficulty < 3 else draft.rng.randint(1001, 9999)
    words = _in_han(value) if draft.locale == "zh" else _in_english(value)
    half = (len(words) + 1) // 2
    lines = [words[:half], words[half:]]
    lean = draft.grade(1, 6)
    glyphs = [
        {
            "text": ("" if draft.locale == "zh" else " ").join(line),
            "x": draft.width / 2,
            "y": round(draft.height * (0.3 + 0.42 * index), 1),
            "size": 28 if draft.locale == "zh" else min(26, round(1.35 * draft.width / max(1, len(" ".join(line))))),
            "turn": round(draft.rng.uniform(-lean, lean), 1),
            "skew": 0,
            "fill": draft.rng.randrange(len(COLOURS)),
        }
        for index, line in enumerate(lines)
    ]
    return {"glyphs": glyphs, "words": words}, str(value)


def _in_english(value: int) -> list[str]:
    words: list[str] = []
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if value >= unit:
            words += [_ONES[value // unit], name]
            value %= unit
    if value:
        words.append("and")
    if value >= 20:
        words.append(_TENS[value // 10])
        value %= 10
    return [*words, _ONES[value]] if value else words


def _in_han(value: int) -> list[str]:
    digits = zip(f"{value:04d}", ("千", "百", "十", ""), strict=True)
    text = "".join(_HAN_DIGITS[int(digit)] + (unit if digit != "0" else "") for digit, unit in digits)
    return list(text.replace("零零零", "零").replace("零零", "零").strip("零"))


def _solve_spelled(facts: Facts) -> list[Answer]:
    """Read word by word: a unit takes what came before it."""
    total = pending = 0
    for word in facts["words"]:
        if word in _UNITS:
            total, pending = total + pending * _UNITS[word], 0
        elif word in _TENS[2:]:
            pending += 10 * _TENS.index(word)
        elif word in _ONES:
            pending += _ONES.index(word)
        elif word in _HAN_DIGITS:
            pending = _HAN_DIGITS.index(word)
    return [str(total + pending)]


def _draw_clock(draft: Draft) -> tuple[Facts, Answer]:
    hour, minute = draft.rng.randint(1, 12), draft.rng.randrange(0, 60, 15 if draft.difficulty == 1 else 5)
    facts = {
        "hands": {"hour": (30 * hour + minute / 2) % 360, "minute": 6 * minute},
        "numbered": draft.difficulty < 4,
        "also": [f"{hour:02d}:{minute:02d}", f"{hour % 12 + 12}:{minute:02d}", f"{hour % 12:02d}:{minute:02d}"],
        "turn": round(draft.rng.uniform(-1, 1) * draft.grade(0, 14), 1),
    }
    return facts, f"{hour}:{minute:02d}"


def paint_face(canvas: Canvas, centre: tuple[float, float], radius: float, numbered: bool) -> str:
    """A clock's face."""
    drawn = paint.disc(centre, radius, canvas.theme.surface, canvas.theme.ink, 3)
    for hour in range(1, 13):
        ends = [turned((centre[0], centre[1] - radius + inner), centre, 30 * hour) for inner in (4, 10)]
        drawn += paint.line(ends[0], ends[1], canvas.theme.ink, 4 if hour % 3 == 0 else 2)
        if numbered:
            spot = turned((centre[0], centre[1] - radius + 20), centre, 30 * hour)
            drawn += letters(str(hour), *spot, 13, canvas.theme.ink)
    return drawn


def _paint_clock(canvas: Canvas, facts: Facts) -> str:
    centre, radius = (canvas.width / 2, canvas.height / 2), canvas.height * 0.44
    drawn = paint_face(canvas, centre, radius, facts["numbered"])
    for name, share, width in (("hour", 0.5, 7), ("minute", 0.78, 4)):
        tip = turned((centre[0], centre[1] - radius * share), centre, facts["hands"][name])
        drawn += paint.line(centre, tip, canvas.theme.ink, width)
    tilted = f'<g transform="rotate({facts["turn"]} {centre[0]:g} {centre[1]:g})">{drawn}</g>'
    return paint.ground(canvas, canvas.difficulty / 6) + tilted + paint.specks(canvas, 10 * canvas.difficulty)


def _solve_clock(facts: Facts) -> list[Answer]:
    """Every minute of half a day at which both hands stand as they do."""
    hands = facts["hands"]
    return [
        f"{hour}:{minute:02d}"
        for hour in range(1, 13)
        for minute in range(60)
        if abs(6 * minute - hands["minute"]) < 1 and abs((30 * hour + minute / 2) % 360 - hands["hour"]) < 1
    ]


_PIPS = {
    1: [(0, 0)],
    2: [(-1, -1), (1, 1)],
    3: [(-1, -1), (0, 0), (1, 1)],
    4: [(-1, -1), (-1, 1), (1, -1), (1, 1)],
    5: [(-1, -1), (-1, 1), (0, 0), (1, -1), (1, 1)],
    6: [(-1, -1), (-1, 0), (-1, 1), (1, -1), (1, 0), (1, 1)],
}


def _draw_dice(draft: Draft) -> tuple[Facts, Answer]:
    values = [draft.rng.randint(1, 6) for _ in range(draft.number(2, 5))]
    pitch, lean = draft.width / len(values), draft.grade(4, 40)
    half = min(26.0, pitch * 0.32)
    dice = [
        {
            "x": round(pitch * (index + 0.5), 1),
            "y": round(draft.height / 2 + draft.rng.uniform(-8, 8), 1),
            "turn": round(draft.rng.uniform(-lean, lean), 1),
            "fill": draft.rng.randrange(len(COLOURS)),
            "pips": _PIPS[value],
        }
        for index, value in enumerate(values)
    ]
    return {"dice": dice, "half": half}, str(sum(values))


def _paint_dice(canvas: Canvas, facts: Facts) -> str:
    half = facts["half"]
    drawn = paint.ground(canvas, canvas.difficulty / 6)
    for die in facts["dice"]:
        face = paint.rect((-half, -half, half, half), canvas.fill(die["fill"]), "none", 8)
        for x, y in die["pips"]:
            face += paint.disc((0.56 * half * x, 0.56 * half * y), half * 0.18, canvas.theme.on_fill)
        drawn += f'<g transform="translate({die["x"]} {die["y"]}) rotate({die["turn"]})">{face}</g>'
    return drawn


def _draw_sequence(draft: Draft) -> tuple[Facts, Answer]:
    rng, kinds = draft.rng, ("step", "back", "factor", "growing")[: draft.number(1, 4)]
    kind, step = rng.choice(kinds), rng.randint(2, 9)
    terms = [rng.randint(1, 9) + (5 * step if kind == "back" else 0)]
    for index in range(4):
        change = {"step": step, "back": -step, "growing": step + index * (1 + step % 3)}
        terms.append(terms[-1] * (2 + step % 2) if kind == "factor" else terms[-1] + change[kind])
    return {"glyphs": _row(draft, [*map(str, terms[:4]), "?"], size=30)}, str(terms[4])


def _solve_sequence(facts: Facts) -> list[Answer]:
    """Every next term by a rule that all terms follow: steps that are alike or grow alike, or one factor."""
    terms = [int(glyph["text"]) for glyph in _across(facts)[:-1]]
    steps = [after - before for before, after in pairwise(terms)]
    grown = [after - before for before, after in pairwise(steps)]
    found = set()
    if len(set(grown)) == 1:
        found.add(terms[-1] + steps[-1] + grown[0])
    if all(after * terms[0] == before * terms[1] for before, after in pairwise(terms)):
        found.add(terms[-1] * terms[1] // terms[0])
    return [str(number) for number in sorted(found)]


TYPES = (
    _entry(
        "distorted_text",
        _draw_distorted,
        lambda facts: ["".join(glyph["text"] for glyph in _across(facts))],
        ("Type the characters in the picture", "Enter all the characters that you see"),
        ("输入图中的字符", "请填写看到的全部字符"),
    ),
    _entry(
        "reversed_text",
        _draw_reversed,
        lambda facts: ["".join(glyph["text"] for glyph in reversed(_across(facts)))],
        ("Type the characters from right to left", "Enter the characters backwards, the last one first"),
        ("从右到左输入图中的字符", "请倒着填写字符，最后一个在前"),
    ),
    _entry(
        "digits_only",
        _draw_digits,
        lambda facts: ["".join(glyph["text"] for glyph in _across(facts) if glyph["text"].isdecimal())],
        ("Type only the digits, from left to right", "Enter the digits and leave out everything else"),
        ("从左到右只输入数字", "请只填写其中的数字"),
    ),
    _entry(
        "coloured_text",
        _draw_coloured,
        lambda facts: ["".join(glyph["text"] for glyph in _across(facts) if glyph["fill"] == facts["wanted"])],
        ("Type only the {colour} characters", "Enter the characters in {colour}, from left to right"),
        ("只输入{colour}的字符", "请从左到右填写{colour}字符"),
    ),
    _entry(
        "numbered_text",
        _draw_numbered,
        _solve_numbered,
        ("Type the characters in the order of their numbers", "Enter the characters as their numbers count up"),
        ("按编号顺序输入字符", "请按照编号从小到大填写字符"),
        _paint_numbered,
    ),
    _entry(
        "circular_text",
        _draw_circular,
        _solve_circular,
        ("Type the characters clockwise from the dot", "Start at the dot and enter the characters clockwise"),
        ("从圆点开始顺时针输入字符", "以圆点为起点，按顺时针方向填写字符"),
        _paint_circular,
        aspect=0.56,
    ),
    _entry(
        "table_lookup",
        _draw_table,
        _solve_table,
        ("Type what stands at {cells}", "Enter the characters in the cells {cells}"),
        ("依次输入 {cells} 处的字符", "请填写单元格 {cells} 中的字符"),
        _paint_table,
        aspect=0.52,
    ),
    _entry(
        "arithmetic",
        _draw_arithmetic,
        _solve_arithmetic,
        ("Type the result", "Work it out and enter the number"),
        ("输入计算结果", "请算出得数并填写"),
    ),
    _entry(
        "missing_character",
        _draw_missing,
        _solve_missing,
        ("Type the letter that the word lacks", "Which letter is missing from the word?"),
        ("输入成语中缺少的字", "成语里少了哪个字？"),
        load=lambda facts: sum(abs(glyph["turn"]) for glyph in facts["glyphs"]) / len(facts["glyphs"]),
    ),
    _entry(
        "icon_count",
        _draw_counted,
        lambda facts: [str(sum(item["icon"] == facts["wanted"] for item in facts["items"]))],
        ("How many times is this there: {icon}? Type the number", "Count this and enter the number: {icon}"),
        ("图中有几个{icon}？输入数字", "请数一数{icon}的个数并填写"),
        _paint_counted,
        lambda facts: float(len(facts["items"])),
        0.52,
    ),
    _entry(
        "spelled_number",
        _draw_spelled,
        _solve_spelled,
        ("Type the number in digits", "Enter this number with digits"),
        ("用数字输入这个数", "请用阿拉伯数字填写"),
        load=lambda facts: len(facts["words"]) + sum(abs(glyph["turn"]) for glyph in facts["glyphs"]) / 4,
    ),
    _entry(
        "clock_reading",
        _draw_clock,
        _solve_clock,
        ("Type the time on the clock, as 7:05", "What time is it? Enter it like 7:05"),
        ("输入钟面上的时间，例如 7:05", "现在几点？请按 7:05 的格式填写"),
        _paint_clock,
        lambda facts: abs(facts["turn"]) / 4 + (0 if facts["numbered"] else 4),
        0.6,
    ),
    _entry(
        "dice_total",
        _draw_dice,
        lambda facts: [str(sum(len(die["pips"]) for die in facts["dice"]))],
        ("Type the sum of the dice", "Add up all the dots and enter the number"),
        ("输入骰子的点数之和", "请把所有点数相加并填写"),
        _paint_dice,
        lambda facts: float(len(facts["dice"])),
    ),
    _entry(
        "next_number",
        _draw_sequence,
        _solve_sequence,
        ("Type the next number", "Which number comes next? Enter it"),
        ("输入下一个数", "下一个数是多少？请填写"),
    ),
)
