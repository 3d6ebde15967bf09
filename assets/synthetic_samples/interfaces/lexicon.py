"""The texts of interfaces: domains, actions, words of the frame, people. All are read from the folder texts/.

A text is written `English = Chinese`. Each belongs to one split: nothing that a held-out screen says or calls itself
occurs on a training screen, apart from numbers, dates and units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from assets.agent.vocabulary import Locale
from assets.stage import YamlLoader
from assets.synthetic_samples.themes import Split

Text = dict[Locale, str]
"""One text in both languages."""


@dataclass(frozen=True)
class ActionTexts:
    """What a control can do: its icon, the label it bears, and its function in words."""

    icon: str
    label: Text
    function: Text


@dataclass(frozen=True)
class Column:
    """A column of a table: its name and the kind of its values, such as `number 52 124 bpm` or `person`."""

    name: Text
    kind: str


@dataclass(frozen=True)
class Domain:
    """A field of work or life, and what its programs talk about.

    `item` is what it counts; the items' names are put together of `heads` and `tails`. `settings` are groups of
    switches, `fields` what forms ask, `notes` sentences that people write.
    """

    key: str
    split: Split
    name: Text
    item: Text
    apps: tuple[Text, ...]
    personas: tuple[Text, ...]
    heads: tuple[Text, ...]
    tails: tuple[Text, ...]
    groups: tuple[Text, ...]
    statuses: tuple[Text, ...]
    columns: tuple[Column, ...]
    fields: tuple[Text, ...]
    settings: tuple[tuple[Text, tuple[Text, ...]], ...]
    tabs: tuple[Text, ...]
    actions: tuple[ActionTexts, ...]
    notes: tuple[Text, ...]

    def labels(self) -> Iterator[Text]:
        """What controls and groups can be called in this domain, beside its items and people."""
        for texts in (self.groups, self.statuses, self.fields, self.tabs):
            yield from texts
        yield from (column.name for column in self.columns)
        for title, switches in self.settings:
            yield from (title, *switches)
        yield from (action.label for action in self.actions)


@cache
def domains(split: Split) -> tuple[Domain, ...]:
    """The domains of a split, by name."""
    folder = files("assets.synthetic_samples.interfaces") / "texts" / "domains"
    entries = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda it: it.name)
    found = (
        _domain(entry.name.removesuffix(".yaml"), yaml.load(entry.read_text("utf-8"), YamlLoader)) for entry in entries
    )
    return tuple(domain for domain in found if domain.split == split)


def domain_named(split: Split, key: str) -> Domain:
    """The domain of this key."""
    return next(domain for domain in domains(split) if domain.key == key)


@cache
def actions(split: Split) -> dict[str, ActionTexts]:
    """Actions that any program may have, as the screens of a split word them."""
    first = 1 if split == "train" else 3
    return {
        name: ActionTexts(row[0], text(row[first]), text(row[first + 1])) for name, row in _read("actions.yaml").items()
    }


@cache
def words(split: Split) -> dict[str, Text]:
    """Words of the frame: Cancel, Today, Total."""
    place = 0 if split == "train" else 1
    return {name: text(row[place]) for name, row in _read("words.yaml").items()}


@cache
def people(split: Split) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    """Given names and family names."""
    names = _read("people.yaml")[split]
    return _texts(names["given"]), _texts(names["family"])


@cache
def icon_words() -> dict[str, Text]:
    """What each icon shows, in words; a floppy disk whatever it does."""
    return {icon: text(words) for icon, words in _read("icons.yaml").items()}


def text(pair: str) -> Text:
    """Read `English = Chinese`."""
    english, chinese = pair.split(" = ")
    return {"en": english.strip(), "zh": chinese.strip()}


def _texts(pairs: list[str]) -> tuple[Text, ...]:
    return tuple(text(pair) for pair in pairs)


def _read(name: str) -> Any:
    return yaml.load((files("assets.synthetic_samples.interfaces") / "texts" / name).read_text("utf-8"), YamlLoader)


def _domain(key: str, entry: dict[str, Any]) -> Domain:
    def action(line: str) -> ActionTexts:
        icon, label, function = line.split(" | ")
        return ActionTexts(icon, text(label), text(function))

    def column(line: str) -> Column:
        name, kind = line.split(" | ")
        return Column(text(name), kind)

    return Domain(
        key,
        entry["split"],
        text(entry["name"]),
        text(entry["item"]),
        settings=tuple((text(title), _texts(switches)) for title, switches in entry["settings"].items()),
        columns=tuple(column(line) for line in entry["columns"]),
        actions=tuple(action(line) for line in entry["actions"]),
        **{
            name: _texts(entry[name])
            for name in ("apps", "personas", "heads", "tails", "groups", "statuses", "fields", "tabs", "notes")
        },
    )
