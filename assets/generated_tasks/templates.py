"""How the small profiles ask: a handful of words around words of the interface, in English and Chinese.

An instruction names the path. Its k-th named thing is what the k-th click acts on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TEMPLATE_WORDS: dict[str, tuple[str, ...]] = {
    "en": ("Open", "Press", "Type", "Read", "in", "then", "done", "first", "last", "it"),
    "zh": ("打开", "按", "输入", "读出", "在", "，", "然后", "完成", "第一", "最后", "它"),
}
"""Every word of an instruction or a thought that is not read off the screen."""

PLACES: dict[str, dict[str, str]] = {"en": {"first": "first", "last": "last"}, "zh": {"first": "第一", "last": "最后"}}
"""Which row of a list is read."""

IT = {"en": "it", "zh": "它"}
"""What was read, where it is typed again."""

BACK = {"en": "Back", "zh": "返回"}
HOME = {"en": "Home", "zh": "首页"}
"""The thoughts before the system's own keys, which no instruction names."""


@dataclass(frozen=True)
class Clause:
    """One thing to do: `open` or `press` something, `type` a word (into something), or `read` something out.

    A word that is typed may be `IT`, what was read before. What is read may be a row of `PLACES`.
    """

    verb: str
    words: tuple[str, ...]


def instruction(clauses: Sequence[Clause], locale: str) -> str:
    """The task in words: `Open Settings then Mute`, `打开设置，然后静音`.

    A verb is said once for clauses in a row that share it, and `open` covers the presses after it.
    """
    parts: list[str] = []
    last = ""
    for clause in clauses:
        silent = clause.verb == "press" and last in ("open", "press", "type")
        parts.append(_clause(clause, locale, silent))
        last = clause.verb
    return (" then " if locale == "en" else "，然后").join(parts)


def _clause(clause: Clause, locale: str, silent: bool) -> str:
    first = clause.words[0]
    if silent:
        return first
    if locale == "en":
        verb = {"open": "Open", "press": "Press", "type": "Type", "read": "Read"}[clause.verb]
        return f"{verb} {first} in {clause.words[1]}" if len(clause.words) > 1 else f"{verb} {first}"
    verb = {"open": "打开", "press": "按", "type": "输入", "read": "读出"}[clause.verb]
    return f"在{clause.words[1]}{verb}{first}" if len(clause.words) > 1 else f"{verb}{first}"


def thought_of_typing(word: str, locale: str) -> str:
    """The thought before typing: `Type Ticket`."""
    return _clause(Clause("type", (word,)), locale, silent=False)


def thought_of_end(locale: str) -> str:
    """The thought before the last action."""
    return "done" if locale == "en" else "完成"


def parse(text: str) -> list[Clause]:
    """The inverse of `instruction`; empty if the text is not one of these."""
    if text[:1].isascii():
        return [_parse_english(part) for part in text.split(" then ")] if _starts_with_verb(text, _ENGLISH) else []
    return [_parse_chinese(part) for part in text.split("，然后")] if _starts_with_verb(text, (*_CHINESE, "在")) else []


_ENGLISH = {"Open ": "open", "Press ": "press", "Type ": "type", "Read ": "read"}
_CHINESE = {"打开": "open", "按": "press", "输入": "type", "读出": "read"}


def _starts_with_verb(text: str, verbs: Iterable[str]) -> bool:
    return any(text.startswith(verb) and len(text) > len(verb) for verb in verbs)


def _parse_english(part: str) -> Clause:
    for start, verb in _ENGLISH.items():
        if part.startswith(start):
            word, _, place = part.removeprefix(start).partition(" in ")
            return Clause(verb, (word, place) if place else (word,))
    return Clause("press", (part,))


def _parse_chinese(part: str) -> Clause:
    if part.startswith("在") and "输入" in part:
        place, _, word = part[1:].partition("输入")
        return Clause("type", (word, place))
    for start, verb in _CHINESE.items():
        # "打开" is a word of the interface too: alone it is the thing that is pressed.
        if part.startswith(start) and len(part) > len(start):
            return Clause(verb, (part.removeprefix(start),))
    return Clause("press", (part,))
