"""What one interface says: names, values and actions drawn from its domain, each name once."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeVar

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.interfaces.lexicon import ActionTexts, Column, Domain, Text, actions, people, words
from assets.synthetic_samples.themes import Split

T = TypeVar("T")
Piece = tuple[str, str]
"""A part of a line of source text: its kind, which gives the colour, and its characters."""

_FIRST_DAY = date(2024, 1, 8)
_DAYS = 900
_PLAUSIBLE_ITEMS = 24


@dataclass(frozen=True)
class Command:
    """An action in the language of the interface: its icon's name, its label and its function."""

    icon: str
    label: str
    function: str


@dataclass(frozen=True)
class TableColumn:
    """A column in the language of the interface. `numeric` columns are set flush right."""

    name: str
    kind: str

    @property
    def numeric(self) -> bool:
        return self.kind.split()[0] in ("number", "decimal", "money", "percent", "size", "duration")


class Content:
    """The source of texts of one interface; templates call its methods.

    Names of items, people, groups and the like come shuffled and don't repeat until all have been used.
    """

    def __init__(self, rng: random.Random, split: Split, domain: Domain, locale: Locale) -> None:
        self.rng = rng
        self.split = split
        self.domain = domain
        self.locale = locale
        self._common = actions(split)
        self._words = words(split)
        self._decks: dict[str, list[str]] = {}
        self.app = self._say(rng.choice(domain.apps))
        self.user = self.person()

    # --- chance ---

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def pick(self, choices: Sequence[T]) -> T:
        return self.rng.choice(choices)

    def some(self, choices: Sequence[T], low: int, high: int) -> list[T]:
        """Between `low` and `high` of the choices, in their order."""
        count = min(self.rng.randint(low, high), len(choices))
        return [choices[index] for index in sorted(self.rng.sample(range(len(choices)), count))]

    # --- texts ---

    def word(self, name: str) -> str:
        """A word of the frame."""
        return self._say(self._words[name])

    def command(self, name: str) -> Command:
        """An action that any program may have."""
        return self._command(self._common[name])

    def commands(self, names: str, low: int, high: int) -> list[Command]:
        """Between `low` and `high` of the named actions, in their order; `names` is one string, split at spaces."""
        return [self.command(name) for name in self.some(names.split(), low, high)]

    def domain_commands(self, count: int) -> list[Command]:
        """Actions of the domain, at most as many as it has."""
        chosen = self.rng.sample(self.domain.actions, min(count, len(self.domain.actions)))
        return [self._command(action) for action in chosen]

    @property
    def item_noun(self) -> str:
        return self._say(self.domain.item)

    def item(self) -> str:
        """The name of a thing: a track, an invoice, a shipment."""
        if not self._decks.get("item"):
            deck = [self._join(head, tail) for head in self.domain.heads for tail in self.domain.tails]
            self.rng.shuffle(deck)
            self._decks["item"] = deck
        return self._decks["item"].pop()

    def items(self, count: int) -> list[str]:
        return [self.item() for _ in range(count)]

    def group(self) -> str:
        return self._next("group", self.domain.groups)

    def groups(self, count: int) -> list[str]:
        """Names of folders, sections or categories, at most as many as the domain has."""
        return [self.group() for _ in range(min(count, len(self.domain.groups)))]

    def statuses(self) -> list[str]:
        """The domain's states, from good to bad in no particular order."""
        return [self._say(status) for status in self.domain.statuses]

    def tabs(self, count: int) -> list[str]:
        return [self._next("tab", self.domain.tabs) for _ in range(min(count, len(self.domain.tabs)))]

    def note(self) -> str:
        return self._next("note", self.domain.notes)

    def fields(self, count: int) -> list[str]:
        """Names of form fields, at most as many as the domain has."""
        return [self._next("field", self.domain.fields) for _ in range(min(count, len(self.domain.fields)))]

    def settings(self, count: int) -> list[tuple[str, list[str]]]:
        """Groups of settings: a title and the names of its switches."""
        chosen = self.rng.sample(self.domain.settings, min(count, len(self.domain.settings)))
        return [
            (self._say(title), [self._say(switch) for switch in self.some(switches, 2, len(switches))])
            for title, switches in chosen
        ]

    def person(self) -> str:
        """A full name."""
        if not self._decks.get("person"):
            given, family = people(self.split)
            deck = [self._full_name(first, last) for first in given for last in family]
            self.rng.shuffle(deck)
            self._decks["person"] = deck
        return self._decks["person"].pop()

    # --- values ---

    def columns(self, count: int) -> list[TableColumn]:
        """Columns of a table of items, at most as many as the domain has."""
        return [self._column(column) for column in self.some(self.domain.columns, count, count)]

    def figures(self, count: int) -> list[TableColumn]:
        """Columns of numbers, at most as many as the domain has."""
        columns = [self._column(column) for column in self.domain.columns]
        return self.some([column for column in columns if column.numeric], count, count)

    def value(self, column: TableColumn) -> str:
        """A value for a column."""
        kind, *rest = column.kind.split()
        match kind:
            case "number":
                low, high, *unit = rest
                return " ".join([f"{self.integer(int(low), int(high)):,}", *unit])
            case "decimal":
                low, high, *unit = rest
                return " ".join([f"{self.rng.uniform(float(low), float(high)):.1f}", *unit])
            case "choice":
                return self.pick(column.kind.removeprefix("choice ").split(";"))
            case "code":
                return f"{rest[0]}-{self.integer(1000, 99999)}"
            case "status":
                return self.pick(self.statuses())
            case "group":
                return self._say(self.pick(self.domain.groups))
        return {
            "money": self.money,
            "percent": self.percent,
            "duration": self.duration,
            "clock": self.clock,
            "date": self.date,
            "size": self.size,
            "person": self.person,
            "item": self.item,
        }[kind]()

    def money(self) -> str:
        amount = self.rng.choice((self.rng.uniform(2, 90), self.rng.uniform(90, 9000)))
        return f"¥{amount:,.2f}" if self.locale == "zh" else f"${amount:,.2f}"

    def percent(self) -> str:
        return f"{self.integer(1, 100)}%"

    def duration(self) -> str:
        return f"{self.integer(0, 59)}:{self.integer(0, 59):02}"

    def clock(self) -> str:
        return f"{self.integer(0, 23):02}:{self.integer(0, 59):02}"

    def date(self) -> str:
        day = _FIRST_DAY + timedelta(days=self.rng.randrange(_DAYS))
        if self.locale == "zh":
            return f"{day.year}年{day.month}月{day.day}日"
        return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"

    def size(self) -> str:
        return f"{self.integer(2, 980)} {self.pick(('kB', 'MB', 'MB', 'GB'))}"

    # --- source text ---

    def identifier(self) -> str:
        """A name as programs use it: `slow_error_page`."""
        words = f"{self.pick(self.domain.heads)['en']} {self.pick(self.domain.tails)['en']}"
        return re.sub(r"\W+", "_", words.lower())

    def identifiers(self, count: int) -> list[str]:
        return [self.identifier() for _ in range(count)]

    def file_names(self, count: int) -> list[str]:
        return [f"{self.identifier()}.{self.pick(('py', 'ts', 'yaml', 'md', 'rs', 'css'))}" for _ in range(count)]

    def code_lines(self, count: int) -> list[list[Piece]]:
        """Lines of a program that looks like one."""
        lines: list[list[Piece]] = []
        while len(lines) < count:
            name, argument, result = self.identifiers(3)
            lines.append([("keyword", "def "), ("call", name), ("", f"({argument}, limit="),
                          ("number", str(self.integer(1, 90))), ("", "):")])  # fmt: skip
            lines.append([("remark", f"    # {self.note()}")])
            for _ in range(self.integer(2, 6)):
                indent = " " * self.pick((4, 4, 8))
                lines.append(self.pick((
                    [("", f"{indent}{result} = "), ("call", self.identifier()), ("", f"({argument})")],
                    [("keyword", f"{indent}if "), ("", f"{result} > "), ("number", f"{self.integer(0, 500)}:")],
                    [("", f"{indent}    {result}."), ("call", "append"), ("", "("),
                     ("string", f'"{self.identifier()}"'), ("", ")")],
                    [("keyword", f"{indent}for "), ("", "entry "), ("keyword", "in "), ("", f"{argument}:")],
                )))  # fmt: skip
            lines.append([("keyword", "    return "), ("", result)])
            lines.append([])
        return lines[:count]

    def query_lines(self, columns: Sequence[TableColumn]) -> list[list[Piece]]:
        """A question to a database."""
        table, key = self.identifier(), self.identifier()
        return [
            [("keyword", "SELECT "), ("", f"{key}, "), ("call", "avg"), ("", f"({self.identifier()})")],
            [("keyword", "FROM "), ("", f"{table} "), ("keyword", "JOIN "), ("", self.identifier())],
            [("keyword", "WHERE "), ("", f"{key} > "), ("number", str(self.integer(2, 900)))],
            [("keyword", "  AND "), ("", f"{self.identifier()} = "), ("string", f"'{self.value(columns[0])}'")],
            [("keyword", "GROUP BY "), ("", f"{key} "), ("keyword", "LIMIT "), ("number", str(self.integer(5, 500)))],
        ]

    # --- what could have been shown ---

    def plausible(self) -> tuple[list[str], list[Command]]:
        """Labels and actions that such a screen could show: those of the domain and of any program, and some items."""
        labels = [self._say(label) for label in self.domain.labels()]
        labels += self.items(_PLAUSIBLE_ITEMS)
        commands = [self._command(action) for action in (*self.domain.actions, *self._common.values())]
        return labels, commands

    def _next(self, deck: str, texts: Sequence[Text]) -> str:
        if not self._decks.get(deck):
            said = [self._say(text) for text in texts]
            self.rng.shuffle(said)
            self._decks[deck] = said
        return self._decks[deck].pop()

    def _say(self, text: Text) -> str:
        return text[self.locale]

    def _join(self, head: Text, tail: Text) -> str:
        return head["zh"] + tail["zh"] if self.locale == "zh" else f"{head['en']} {tail['en']}"

    def _full_name(self, given: Text, family: Text) -> str:
        return family["zh"] + given["zh"] if self.locale == "zh" else f"{given['en']} {family['en']}"

    def _command(self, action: ActionTexts) -> Command:
        return Command(action.icon, self._say(action.label), self._say(action.function))

    def _column(self, column: Column) -> TableColumn:
        return TableColumn(self._say(column.name), column.kind)


_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
