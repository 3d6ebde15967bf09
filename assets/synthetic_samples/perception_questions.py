"""Questions about what a screen shows, from the same browser pass: their answers are words, not places.

Texts at a place, the state of a control, the kind of an icon, what a region is for, and counting. Places are written as
the agent writes them, 0-999 over width and height. Only what is wholly seen is asked for, and counted only where all of
it is seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from typing import Any, Literal

from assets.agent.actions import Action, from_pixel, render_response
from assets.agent.vocabulary import Locale
from assets.synthetic_samples.capture import Capture, Node, plain
from assets.synthetic_samples.instructions import ROLES
from assets.synthetic_samples.queries import (
    COUNTED_ROLES,
    LONGEST,
    Query,
    matches,
    means_only,
)
from assets.synthetic_samples.sheets import Box

Kind = Literal["text", "state", "icon", "region", "count"]

ASKED: Mapping[Kind, Mapping[Locale, tuple[str, ...]]] = {
    "text": {
        "en": ("What is written at {place}?", "Read the text at {place}."),
        "zh": ("{place} 处写着什么？", "读出 {place} 处的文字。"),
    },
    "state": {
        "en": ('What is the state of the {role} "{name}"?', 'Is the {role} "{name}" {choice}?'),
        "zh": ("“{name}”{role}现在是什么状态？", "“{name}”{role}是{choice}？"),
    },
    "icon": {
        "en": ("What does the icon at {place} show?", "Which icon is at {place}?"),
        "zh": ("{place} 处的图标画的是什么？", "{place} 处是什么图标？"),
    },
    "region": {
        "en": ("What is the region from {start} to {end} for?", "Name the region from {start} to {end}."),
        "zh": ("从 {start} 到 {end} 的区域是做什么的？", "说出从 {start} 到 {end} 的区域的名称。"),
    },
    "count": {
        "en": ('How many {role} controls are under "{group}"?', 'Count the controls of kind "{role}" under "{group}".'),
        "zh": ("“{group}”下有几个{role}？", "数一数“{group}”下的{role}。"),
    },
}

STATE_ANSWERS: Mapping[tuple[str, str], Mapping[str, Mapping[Locale, str]]] = {
    ("checkbox", "checked"): {"true": {"en": "ticked", "zh": "已勾选"}, "false": {"en": "not ticked", "zh": "未勾选"}},
    ("switch", "checked"): {"true": {"en": "on", "zh": "开"}, "false": {"en": "off", "zh": "关"}},
    ("radio", "checked"): {"true": {"en": "selected", "zh": "已选中"}, "false": {"en": "not selected", "zh": "未选中"}},
    ("tab", "selected"): {"true": {"en": "selected", "zh": "已选中"}, "false": {"en": "not selected", "zh": "未选中"}},
    ("treeitem", "expanded"): {
        "true": {"en": "expanded", "zh": "已展开"},
        "false": {"en": "collapsed", "zh": "已折叠"},
    },
}

CHOICES: Mapping[tuple[str, str], Mapping[Locale, str]] = {
    ("checkbox", "checked"): {"en": "ticked or not ticked", "zh": "已勾选还是未勾选"},
    ("switch", "checked"): {"en": "on or off", "zh": "开还是关"},
    ("radio", "checked"): {"en": "selected or not selected", "zh": "已选中还是未选中"},
    ("tab", "selected"): {"en": "selected or not selected", "zh": "已选中还是未选中"},
    ("treeitem", "expanded"): {"en": "expanded or collapsed", "zh": "已展开还是已折叠"},
}

IconWords = Mapping[str, Mapping[Locale, str]]


def perception_questions(
    page: Capture, locale: Locale, icon_words: IconWords, most: int, rng: random.Random
) -> list[dict[str, Any]]:
    """At most `most` questions, the kinds in turn: rows of `instruction`, `response`, `kind` and `answer`."""
    kinds: list[list[dict[str, Any]]] = [
        list(_texts(page, locale, rng)),
        list(_states(page, locale, rng)),
        list(_icons(page, locale, icon_words, rng)),
        list(_regions(page, locale, rng)),
        list(_counts(page, locale, rng)),
    ]
    for questions in kinds:
        rng.shuffle(questions)
    return [question for question in chain.from_iterable(zip_longest(*kinds)) if question is not None][:most]


def _row(kind: Kind, locale: Locale, answer: str, rng: random.Random, **words: str) -> dict[str, Any]:
    return {
        "instruction": rng.choice(ASKED[kind][locale]).format(**words),
        "response": render_response(None, [Action("Answer", content=answer)]),
        "kind": kind,
        "answer": answer,
    }


def _texts(page: Capture, locale: Locale, rng: random.Random) -> Iterator[dict[str, Any]]:
    for node in page.nodes:
        if node.seen and node.kind != "icon" and len(node.texts) == 1 and len(node.text) <= LONGEST:
            yield _row("text", locale, node.text, rng, place=_place(node.box, page))


def _states(page: Capture, locale: Locale, rng: random.Random) -> Iterator[dict[str, Any]]:
    for node in page.nodes:
        written = page.index.get(("text", plain(node.name)), ())
        name = node.name if any(other.seen for other in written) else ""
        for state, value in node.state.items():
            answers = STATE_ANSWERS.get((node.role, state), {})
            if node.seen and name and len(name) <= LONGEST and value in answers and _only(node, name, page):
                yield _row(
                    "state", locale, answers[value][locale], rng, role=ROLES[node.role][locale], name=name,
                    choice=CHOICES[node.role, state][locale],
                )  # fmt: skip


def _only(node: Node, name: str, page: Capture) -> bool:
    return means_only(Query("relation", role=node.role, name=name), node, page)


def _icons(page: Capture, locale: Locale, icon_words: IconWords, rng: random.Random) -> Iterator[dict[str, Any]]:
    for node in page.nodes:
        if node.seen and len(node.icons) == 1 and not node.texts and node.icons[0] in icon_words:
            yield _row("icon", locale, icon_words[node.icons[0]][locale], rng, place=_place(node.box, page))


def _regions(page: Capture, locale: Locale, rng: random.Random) -> Iterator[dict[str, Any]]:
    for group in page.groups:
        answer = group.function or group.name
        if group.visible and answer and len(answer) <= LONGEST and _uncovered(group.box, page):
            x0, y0, x1, y1 = group.box
            start, end = _point(x0, y0, page), _point(x1 - 1, y1 - 1, page)
            yield _row("region", locale, answer, rng, start=start, end=end)


def _uncovered(box: Box, page: Capture) -> bool:
    """Whether nothing lies over a region that hides what is in it."""
    x0, y0, x1, y1 = box
    inside = [node for node in page.nodes if _within(node.box, (x0, y0, x1, y1))]
    return bool(inside) and all(node.seen for node in inside)


def _within(inner: Box, outer: Box) -> bool:
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def _counts(page: Capture, locale: Locale, rng: random.Random) -> Iterator[dict[str, Any]]:
    for number in sorted(page.named_groups):
        group = page.groups[number]
        if not group.visible or len(group.name) > LONGEST:
            continue
        for role in COUNTED_ROLES:
            members = matches(Query("relation", role=role, group=group.name), page)
            if len(members) > 1 and all(node.seen for node in members):
                yield _row(
                    "count", locale, str(len(members)), rng, role=ROLES[role][locale], group=group.name
                )  # fmt: skip


def _place(box: Box, page: Capture) -> str:
    x0, y0, x1, y1 = box
    return _point((x0 + x1) / 2, (y0 + y1) / 2, page)


def _point(x: float, y: float, page: Capture) -> str:
    across, down = from_pixel(x, y, *page.size)
    return f"({across}, {down})"
