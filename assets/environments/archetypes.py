"""Archetypes: one parameterised spec that many apps are made of.

An archetype (`apps/archetypes/<name>.yaml`) is a spec with four things more:

    words: {en: {send: Send}, zh: {send: 发送}}   texts by language, that an app may replace
    features: {stars: true, archive: false}       what an app can switch on and off
    variants: {list: [row, card], menu: [bottom]} what it can choose; the first is the default
    parts: [settings, feedback]                   fragments of `apps/archetypes/parts/` that it takes in

Anywhere in it, a word `@name`, and `@{name}` within one, is replaced by the word or variant of that name. A mapping
with `if` stands only where its condition on features and variants holds: `stars`, `!stars`, `list=card`, several joined
by ` and `. A dialog that no control of the app shows is left out.

An app's file names the archetype, switches `features` (a list: those that are on beside the defaults, or off with `!`),
chooses `variants`, replaces `words`, sets any field of the spec, and may `extend` screens and dialogs with controls of
its own: `{screen: {top: [...], controls: [...], bottom: [...]}}`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from assets.environments.apps import FOLDER, read_yaml
from assets.errors import ParameterError

ARCHETYPES = FOLDER / "archetypes"
PARTS = ARCHETYPES / "parts"
_WITHIN = re.compile(r"@\{(\w+)\}|(?<!\S)@(\w+)")
_MAPPINGS = ("values", "fields", "computed", "lists", "screens", "dialogs", "style")


class Archetype(BaseModel):
    """A parameterised spec as its file gives it; the parts of the spec itself are checked when an app is expanded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    about: str
    words: dict[str, dict[str, str]] = {}
    features: dict[str, bool] = {}
    variants: dict[str, tuple[str, ...]] = {}
    parts: tuple[str, ...] = ()
    icon: str = "app"
    menu: str = "bottom"
    style: dict[str, Any] = {}
    navigation: list[Any] = []
    values: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    computed: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    screens: dict[str, Any] = {}
    dialogs: dict[str, Any] = {}


def load_archetype(name: str) -> Archetype:
    """An archetype with its parts taken in.

    Raises:
        ParameterError: there is none of this name, or its file is broken.
    """
    whole = _read(ARCHETYPES, name, "archetype")
    merged = whole.model_dump()
    for part in whole.parts:
        taken = _read(PARTS, part, "part").model_dump()
        for field in ("values", "fields", "computed", "lists", "screens", "dialogs", "features", "variants"):
            merged[field] = {
                **merged[field],
                **{key: value for key, value in taken[field].items() if key not in merged[field]},
            }
        for locale, words in taken["words"].items():
            merged["words"][locale] = {**words, **merged["words"].get(locale, {})}
    for words in merged["words"].values():
        if both := sorted({*words} & {*merged["variants"], "title"}):
            raise ParameterError(f"{name}.yaml: a word must not be called title or as a variant: {', '.join(both)}")
    return Archetype.model_validate(merged)


@cache
def _read(folder: Path, name: str, what: str) -> Archetype:
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.yaml")))
        raise ParameterError(f"no {what} '{name}'; known: {known}")
    try:
        return Archetype.model_validate(read_yaml(path))
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc'])) or what}: {item['msg']}" for item in error.errors()]
        raise ParameterError("\n".join(f"{path.name}: {problem}" for problem in problems)) from None


def expand(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The plain spec of an app's document; `path` is the file to name in errors.

    Raises:
        ParameterError: it names an archetype, feature, variant, word or screen that does not exist.
    """
    app = dict(document)
    archetype = load_archetype(str(app["archetype"]))
    texts, switches = _choices(app, archetype, path)
    for consumed in ("features", "variants", "words"):
        app.pop(consumed, None)
    extend = app.pop("extend", {})
    base = archetype.model_dump(include={"icon", "menu", "style", "navigation", *_MAPPINGS})
    spec: dict[str, Any] = _resolved(base, _Choices(texts, switches, path.name))
    for key, value in app.items():
        spec[key] = {**spec[key], **value} if key in _MAPPINGS and isinstance(value, Mapping) else value
    for place, added in extend.items():
        kind, _, name = place.rpartition(":")
        holders = spec["dialogs" if kind == "dialog" else "screens"]
        if name not in holders:
            raise ParameterError(f"{path.name}: extend: no screen '{place}'; known: {', '.join(holders)}")
        screen = holders[name] = copy.deepcopy(holders[name])
        for part, controls in added.items():
            screen[part] = [*screen.get(part, []), *controls]
    while unused := {*spec["dialogs"]} - {*_shown({key: spec[key] for key in ("navigation", "screens", "dialogs")})}:
        spec["dialogs"] = {name: dialog for name, dialog in spec["dialogs"].items() if name not in unused}
    return {"scale": "full", **spec}


def _shown(part: Any) -> Iterator[str]:
    """Names of the dialogs that controls show."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key in ("dialog", "hold") and isinstance(value, str):
                yield value
            yield from _shown(value)
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _shown(item)


@dataclass(frozen=True)
class _Choices:
    """What `@name` and what `if` may refer to, and the file to name in errors."""

    texts: Mapping[str, str]
    switches: Mapping[str, bool | str]
    where: str


def _choices(app: Mapping[str, Any], archetype: Archetype, path: Path) -> tuple[dict[str, str], dict[str, bool | str]]:
    words = archetype.words.get(str(app.get("locale")), {})
    features = dict(archetype.features)
    for entry in app.get("features", ()):
        name, on = (entry[1:], False) if entry.startswith("!") else (entry, True)
        if name not in features:
            known = ", ".join(sorted(features))
            raise ParameterError(f"{path.name}: features: '{archetype_name(app)}' has no '{name}'; known: {known}")
        features[name] = on
    variants = {name: values[0] for name, values in archetype.variants.items()}
    for name, value in app.get("variants", {}).items():
        if name not in archetype.variants or value not in archetype.variants[name]:
            known = "; ".join(f"{key}: {', '.join(values)}" for key, values in sorted(archetype.variants.items()))
            raise ParameterError(f"{path.name}: variants: no '{name}: {value}'; known: {known}")
        variants[name] = value
    for name in app.get("words", {}):
        if name not in words:
            raise ParameterError(f"{path.name}: words: no '{name}'; known: {', '.join(sorted(words))}")
    return {"title": str(app.get("title", "")), **variants, **words, **app.get("words", {})}, {**features, **variants}


def archetype_name(app: Mapping[str, Any]) -> str:
    """The archetype that an app's document names."""
    return str(app.get("archetype", ""))


_GONE = object()


def _resolved(value: Any, choices: _Choices) -> Any:
    """`value` with its `@name` replaced and what an `if` rules out left out."""
    if isinstance(value, Mapping):
        if "if" in value and not _holds(str(value["if"]), choices):
            return _GONE
        pairs = ((_text(key, choices), _resolved(item, choices)) for key, item in value.items() if key != "if")
        return {key: item for key, item in pairs if item is not _GONE}
    if isinstance(value, list | tuple):
        items = (_resolved(item, choices) for item in value)
        return [item for item in items if item is not _GONE]
    return _text(value, choices)


def _text(value: Any, choices: _Choices) -> Any:
    if not isinstance(value, str) or "@" not in value:
        return value
    return _WITHIN.sub(lambda match: _chosen(match[1] or match[2], choices.texts, "@", choices.where), value)


def _chosen(name: str, known: Mapping[str, Any], mark: str, where: str) -> Any:
    if name not in known:
        raise ParameterError(f"{where}: nothing is called '{mark}{name}'; known: {', '.join(sorted(known))}")
    return known[name]


def _holds(condition: str, choices: _Choices) -> bool:
    for part in condition.split(" and "):
        name, equals, wanted = part.strip().partition("=")
        denied = name.startswith("!")
        value = _chosen(name.lstrip("!"), choices.switches, "if ", choices.where)
        if (str(value) == wanted if equals else bool(value)) == denied:
            return False
    return True
