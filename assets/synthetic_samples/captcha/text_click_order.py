"""Text click order: words, letters and numbers that lie about, to be clicked in an order that a rule gives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha import paint
from assets.synthetic_samples.captcha.clicks import click_items
from assets.synthetic_samples.captcha.latent import Answer, Canvas, Draft, Facts, Family, NoRoom, PuzzleType
from assets.synthetic_samples.captcha.words import PHRASES, TOPIC_NAMES, WORDS
from assets.synthetic_samples.templates import COLOURS

FAMILY: Family = "text click order"
Items = list[dict[str, Any]]


def _lie_about(draft: Draft, texts: Sequence[str], heights: Sequence[float] = (), **own: Sequence[Any]) -> Items:
    """Items that show texts at random places, each a little tilted; `own` gives each item its other facts."""
    tall = heights or [draft.rng.randint(26, 32) for _ in texts]
    boxes = draft.scatter([paint.text_size(text, height) for text, height in zip(texts, tall, strict=True)])
    tilt = draft.grade(4, 28)
    items = []
    for index, (text, box) in enumerate(zip(texts, boxes, strict=True)):
        # A long text that is tilted much would leave its box.
        most = tilt * min(1.0, 2 * (box[3] - box[1]) / (box[2] - box[0]))
        more = {name: values[index] for name, values in own.items()}
        items.append({"text": text, "box": box, "angle": round(draft.rng.uniform(-most, most), 1), **more})
    draft.rng.shuffle(items)
    return items


def _paint_texts(canvas: Canvas, facts: Facts) -> str:
    parts = [paint.ground(canvas, canvas.difficulty / 5)]
    for item in facts["items"]:
        colour = canvas.fill(item["colour"]) if "colour" in item else canvas.theme.ink
        parts.append(paint.text(item["text"], item["box"], colour, item["angle"]))
    return "".join(parts) + paint.specks(canvas, 30 * canvas.difficulty)


def _count(facts: Facts) -> float:
    return float(len(facts["items"]))


def _spelling(facts: Facts, wanted: Sequence[str]) -> list[Answer]:
    """Every sequence of items that shows these texts."""
    texts = [item["text"] for item in facts["items"]]
    orders = permutations(range(len(texts)), len(wanted))
    return [list(order) for order in orders if [texts[index] for index in order] == list(wanted)]


def _rising(values: Sequence[Any]) -> list[Answer]:
    """Every order of all items in which their values rise."""
    return [
        list(order)
        for order in permutations(range(len(values)))
        if all(values[one] <= values[other] for one, other in pairwise(order))
    ]


def _sorted(items: Items, key: str) -> Answer:
    return sorted(range(len(items)), key=lambda index: items[index][key])


# --- the order shown -------------------------------------------------------------------------------------------------


def _draw_shown(draft: Draft) -> tuple[Facts, Answer]:
    texts = draft.words(draft.number(4, 8))
    wanted = texts[: draft.number(2, 4)]
    items = _lie_about(draft, texts)
    places = {item["text"]: index for index, item in enumerate(items)}
    terms = {"words": " > ".join(wanted)}
    return {"items": items, "wanted": wanted, "terms": terms}, [places[text] for text in wanted]


WORDS_AS_SHOWN = PuzzleType(
    "words_as_shown",
    FAMILY,
    {
        "en": ("Click the words in this order: {words}", "Tap these words one after another: {words}"),
        "zh": ("请依次点击：{words}", "按顺序点选下列词语：{words}"),
    },
    _draw_shown,
    lambda facts: _spelling(facts, facts["wanted"]),
    _paint_texts,
    click_items,
    _count,
)

# --- backwards -------------------------------------------------------------------------------------------------------

_CHARACTERS = {"train": "ACEHKMNPRT3479", "heldout": "BDFGJLQUVWXY568"}


def _draw_backwards(draft: Draft) -> tuple[Facts, Answer]:
    texts = draft.rng.sample(_CHARACTERS[draft.split], draft.number(4, 9))
    code = texts[: draft.number(3, 5)]
    items = _lie_about(draft, texts, [float(draft.rng.randint(32, 40)) for _ in texts])
    places = {item["text"]: index for index, item in enumerate(items)}
    answer = [places[character] for character in reversed(code)]
    return {"items": items, "code": code, "terms": {"code": " ".join(code)}}, answer


CODE_BACKWARDS = PuzzleType(
    "code_backwards",
    FAMILY,
    {
        "en": ("Click this code backwards, its last character first: {code}", "From the end to the start, tap: {code}"),
        "zh": ("从最后一个字符开始，倒序点击：{code}", "把这串字符倒过来点选：{code}"),
    },
    _draw_backwards,
    lambda facts: _spelling(facts, facts["code"][::-1]),
    _paint_texts,
    click_items,
    _count,
)

# --- the alphabet ----------------------------------------------------------------------------------------------------

_LETTERS = {"train": "ABDEGHKMNQRTY", "heldout": "CFJLPSUVWXZ"}


def _draw_letters(draft: Draft) -> tuple[Facts, Answer]:
    letters = draft.rng.sample(_LETTERS[draft.split], draft.number(3, 7))
    items = _lie_about(draft, letters, [float(draft.rng.randint(30, 42)) for _ in letters])
    return {"items": items}, _sorted(items, "text")


LETTERS_IN_ALPHABET = PuzzleType(
    "letters_in_alphabet",
    FAMILY,
    {
        "en": ("Click all letters in alphabetical order", "Tap every letter, from the first of the alphabet on"),
        "zh": ("按字母表顺序点击所有字母", "从字母表靠前的字母开始，逐个点选"),
    },
    _draw_letters,
    lambda facts: _rising([item["text"] for item in facts["items"]]),
    _paint_texts,
    click_items,
    _count,
)

# --- numbers in words ------------------------------------------------------------------------------------------------

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
_ONES += "sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_DIGITS = "零一二三四五六七八九"


def number_in_words(number: int, locale: Locale) -> str:
    """A number of 0 to 99 in words."""
    tens, ones = divmod(number, 10)
    if locale == "zh":
        if tens == 0:
            return _DIGITS[ones]
        return ("" if tens == 1 else _DIGITS[tens]) + "十" + ("" if ones == 0 else _DIGITS[ones])
    if number < 20:
        return _ONES[number]
    return _TENS[tens - 2] + ("" if ones == 0 else f"-{_ONES[ones]}")


def _draw_numbers(draft: Draft) -> tuple[Facts, Answer]:
    # Held-out puzzles use odd numbers, training even ones.
    spread = draft.number(40, 8)
    start = draft.rng.randint(3, 49 - spread)
    half = draft.rng.sample(range(start, start + spread), draft.number(3, 5))
    numbers = [2 * number + (draft.split == "heldout") for number in half]
    texts = [number_in_words(number, draft.locale) for number in numbers]
    items = _lie_about(draft, texts, [float(draft.rng.randint(22, 26)) for _ in texts])
    by_text = dict(zip(texts, numbers, strict=True))
    return {"items": items}, sorted(range(len(items)), key=lambda index: by_text[items[index]["text"]])


def _solve_numbers(facts: Facts) -> list[Answer]:
    locales: tuple[Locale, ...] = ("en", "zh")
    reading = {number_in_words(number, locale): number for locale in locales for number in range(100)}
    return _rising([reading[item["text"]] for item in facts["items"]])


NUMBERS_IN_WORDS = PuzzleType(
    "numbers_in_words",
    FAMILY,
    {
        "en": ("Click the numbers from the smallest to the largest", "Tap the numbers, the lowest first"),
        "zh": ("从小到大点击所有数字", "由小及大，逐个点选数字"),
    },
    _draw_numbers,
    _solve_numbers,
    _paint_texts,
    click_items,
    _count,
)

# --- the size of the print -------------------------------------------------------------------------------------------


def _draw_sizes(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(3, 5)
    step = draft.grade(1.45, 1.2)
    heights = [round(17 * step**index, 1) for index in range(count)]
    words = sorted(draft.words(20), key=len)[:count]
    draft.rng.shuffle(words)
    items = _lie_about(draft, words, heights)
    order = sorted(range(count), key=lambda index: -(items[index]["box"][3] - items[index]["box"][1]))
    return {"items": items}, order


WORDS_BY_SIZE = PuzzleType(
    "words_by_size",
    FAMILY,
    {
        "en": ("Click the words from the largest print to the smallest", "Big letters first: tap the words by size"),
        "zh": ("按字号从大到小点击词语", "先点大字，再点小字，逐个点选"),
    },
    _draw_sizes,
    lambda facts: _rising([item["box"][1] - item["box"][3] for item in facts["items"]]),
    _paint_texts,
    click_items,
    _count,
)

# --- a saying --------------------------------------------------------------------------------------------------------


def _draw_saying(draft: Draft) -> tuple[Facts, Answer]:
    saying = draft.rng.choice(PHRASES[draft.split][draft.locale])
    wanted = _parts(saying, draft.locale)
    others = draft.number(0, 3)
    if draft.locale == "zh":
        pool = sorted({word[0] for word in draft.words(12)} - set(wanted))
        added = draft.rng.sample(pool, others)
    else:
        added = draft.words(others)
    height = 40.0 if draft.locale == "zh" else 22.0
    items = _lie_about(draft, [*wanted, *added], [height] * (len(wanted) + len(added)))
    places = {item["text"]: index for index, item in enumerate(items)}
    return {"items": items, "locale": draft.locale}, [places[part] for part in wanted]


def _parts(saying: str, locale: Locale) -> list[str]:
    return list(saying) if locale == "zh" else saying.split()


def _solve_saying(facts: Facts) -> list[Answer]:
    # Every saying that can be laid with the words on the picture, in every way.
    shown = [item["text"] for item in facts["items"]]
    sayings = [
        _parts(saying, facts["locale"]) for by_locale in PHRASES.values() for saying in by_locale[facts["locale"]]
    ]
    return [
        list(order)
        for saying in sayings
        for order in _laid([[i for i, text in enumerate(shown) if text == part] for part in saying])
    ]


def _laid(choices: list[list[int]]) -> list[tuple[int, ...]]:
    laid: list[tuple[int, ...]] = [()]
    for having in choices:
        laid = [(*before, index) for before in laid for index in having if index not in before]
    return laid


SAYING = PuzzleType(
    "saying",
    FAMILY,
    {
        "en": ("Click the words so that they form a well-known saying", "A proverb lies in pieces: tap it in order"),
        "zh": ("按顺序点击，组成一个成语", "这里藏着一个成语，请逐字点选"),
    },
    _draw_saying,
    _solve_saying,
    _paint_texts,
    click_items,
    _count,
)

# --- the colour of the print -----------------------------------------------------------------------------------------


def _draw_colours(draft: Draft) -> tuple[Facts, Answer]:
    count = draft.number(3, 6)
    prints = draft.rng.sample(range(len(COLOURS)), count)
    # Each word names another colour than its own, the more often the harder.
    names = prints[1:] + prints[:1] if draft.rng.random() < draft.grade(0.5, 1) else prints[::-1]
    items = _lie_about(draft, [COLOURS[number][draft.locale] for number in names], [30.0] * count, colour=prints)
    wanted = draft.rng.sample(prints, draft.number(2, 4))
    places = {item["colour"]: index for index, item in enumerate(items)}
    terms = {"colours": " > ".join(COLOURS[number][draft.locale] for number in wanted)}
    return {"items": items, "wanted": wanted, "terms": terms}, [places[number] for number in wanted]


def _solve_colours(facts: Facts) -> list[Answer]:
    prints = [item["colour"] for item in facts["items"]]
    orders = permutations(range(len(prints)), len(facts["wanted"]))
    return [list(order) for order in orders if [prints[index] for index in order] == facts["wanted"]]


PRINT_COLOURS = PuzzleType(
    "print_colours",
    FAMILY,
    {
        "en": (
            "Whatever the words say, click them by the colour they are printed in: {colours}",
            "Look at the ink, not at the meaning, and tap the colours: {colours}",
        ),
        "zh": ("不看字义，按字的颜色依次点击：{colours}", "只看墨色，依次点选：{colours}"),
    },
    _draw_colours,
    _solve_colours,
    _paint_texts,
    click_items,
    _count,
)

# --- one topic, from left to right -----------------------------------------------------------------------------------

APART = 14
"""Pixels by which one item must lie further right than another to count as right of it."""


def _draw_topic(draft: Draft) -> tuple[Facts, Answer]:
    topics = draft.rng.sample(sorted(WORDS[draft.split][draft.locale]), 3)
    wanted = draft.words(draft.number(2, 4), topics[0])
    others = [word for topic in topics[1:] for word in draft.words(draft.number(1, 2), topic)]
    items = _lie_about(draft, [*wanted, *others], [26.0] * (len(wanted) + len(others)))
    chosen = [index for index, item in enumerate(items) if item["text"] in wanted]
    chosen.sort(key=lambda index: paint.centre(items[index]["box"])[0])
    if any(_across(items[right]) - _across(items[left]) < APART for left, right in pairwise(chosen)):
        raise NoRoom
    return {"items": items, "topic": topics[0], "terms": {"topic": TOPIC_NAMES[topics[0]][draft.locale]}}, chosen


def _across(item: dict[str, Any]) -> float:
    return paint.centre(item["box"])[0]


def _solve_topic(facts: Facts) -> list[Answer]:
    meant = {word for split in WORDS.values() for topics in split.values() for word in topics.get(facts["topic"], [])}
    having = [index for index, item in enumerate(facts["items"]) if item["text"] in meant]
    across = [_across(item) for item in facts["items"]]
    return [
        list(order)
        for order in permutations(having)
        if all(across[right] - across[left] > -APART for left, right in pairwise(order))
    ]


TOPIC_LEFT_TO_RIGHT = PuzzleType(
    "topic_left_to_right",
    FAMILY,
    {
        "en": ("Click only the {topic}, from left to right", "Starting at the left edge, tap the {topic}"),
        "zh": ("从左到右点击属于“{topic}”的词", "自左向右，只点选{topic}类词语"),
    },
    _draw_topic,
    _solve_topic,
    _paint_texts,
    click_items,
    _count,
)

TYPES = (
    WORDS_AS_SHOWN,
    CODE_BACKWARDS,
    LETTERS_IN_ALPHABET,
    NUMBERS_IN_WORDS,
    WORDS_BY_SIZE,
    SAYING,
    PRINT_COLOURS,
    TOPIC_LEFT_TO_RIGHT,
)
