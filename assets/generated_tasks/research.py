"""Finding out what an app can do: from its documents and from what the walk through the running app reached.

Two researchers, one interface. The offline one reads the app's spec, which is complete for everything that a task can
check. The other gives the same documents to a model behind an endpoint and adds what that finds, as far as the
documents bear it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assets.agent.endpoint import Endpoint, EndpointError, Message
from assets.environments.apps import FOLDER, AppSpec, Control, find_spec
from assets.environments.desktop import DesktopApp, ProgramSpec, load_programs
from assets.environments.desktop import load_apps as load_desktop_apps
from assets.environments.miniwob import PREFIX
from assets.generated_tasks.ways import words_of_rows


@dataclass(frozen=True)
class Capability:
    """One thing an app can do.

    Attributes:
        place: the screen, `dialog:<name>` or window where it is done; empty if the app has but one.
        signature: the call it would be: `open(settings)`, `set(Mute: bool)`, `type(Search: text)`.
        preconditions: what must hold before, in terms of the spec.
        entities: what it can be done to.
        compatible: ids of what can be done besides: in the same place, or where this leads to.
        sources: the documents it was read from.
        attempts, completed: episodes of earlier rounds that used it, and those that came out well.
        weight: how often it should be sampled, relative to the others.
    """

    id: str
    app: str
    platform: str
    locale: str
    split: str
    place: str
    signature: str
    preconditions: tuple[str, ...]
    entities: tuple[str, ...]
    compatible: tuple[str, ...]
    sources: tuple[str, ...]
    attempts: int = 0
    completed: int = 0
    weight: float = 1.0


@dataclass(frozen=True)
class Document:
    """A text about an app, and where it stands."""

    source: str
    text: str


@dataclass(frozen=True)
class Findings:
    """What a researcher found out about an app.

    Attributes:
        fallback: why these are the offline findings though a model was asked; else empty.
        refused: findings of a model that the documents don't bear out.
        added: how many of the capabilities only a model found.
    """

    capabilities: tuple[Capability, ...]
    fallback: str = ""
    refused: int = 0
    added: int = 0


class Researcher(Protocol):
    """Finds out what apps can do.

    Args of `research`: rows of the catalogue that `environments` writes; the findings come in their order.
    """

    def research(self, apps: Sequence[Mapping[str, Any]]) -> list[Findings]: ...


# --- documents --------------------------------------------------------------------------------------------------------

EXPLORATION = "exploration"
"""The source of what the walk through the running app saw."""


def documents(app: Mapping[str, Any]) -> list[Document]:
    """What is known about an app: its spec and the archetype it is made from, help texts, what the walk reached."""
    found = []
    environments = FOLDER.parent
    if app["id"].startswith(PREFIX):
        page = resources.files("miniwob") / "html" / "miniwob" / f"{app['title']}.html"
        title = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"), re.DOTALL)
        found.append(Document(app["source"], title.group(1).strip() if title else app["title"]))
    else:
        found.append(Document(app["source"], (environments / app["source"]).read_text(encoding="utf-8")))
    if app["platform"] != "desktop" and not app["id"].startswith(PREFIX):
        spec = find_spec(app["id"])
        if spec.archetype:
            path = f"apps/archetypes/{spec.archetype}.yaml"
            found.append(Document(path, (environments / path).read_text(encoding="utf-8")))
        found += _help(spec)
    missing = [screen for screen in app["screens"] if screen not in app["reached"]]
    lines = [f"{app['elements']} elements on the first screen", f"reached: {', '.join(app['reached']) or 'no names'}"]
    lines += [f"not reached: {', '.join(missing)}"] if missing else []
    return [*found, Document(EXPLORATION, "\n".join(lines))]


def _help(spec: AppSpec) -> Iterator[Document]:
    """The texts of screens and dialogs that are there to explain the app."""
    texts: dict[str, list[str]] = {name: [dialog.text] for name, dialog in spec.dialogs.items() if dialog.text}
    for place, control in spec.all_controls():
        if control.kind in ("text", "notice"):
            texts.setdefault(place.removeprefix("dialog:"), []).append(control.label)
    for name, said in texts.items():
        if re.search("help|about|guide|tips", name):
            yield Document(f"apps/{spec.id}.yaml#{name}", "\n".join(said))


# --- without a model --------------------------------------------------------------------------------------------------


class OfflineResearcher:
    """Reads the specs."""

    def research(self, apps: Sequence[Mapping[str, Any]]) -> list[Findings]:
        """What the specs say, with the walk as a second source."""
        return [Findings(tuple(_witnessed(app, _together(_of_app(app))))) for app in apps]


@dataclass(frozen=True)
class _Found:
    """A capability, and the place that it leads to."""

    capability: Capability
    leads: str = ""


def _of_app(app: Mapping[str, Any]) -> list[_Found]:
    make = partial(_capability, app)
    if app["id"].startswith(PREFIX):
        return [_Found(make("solve", "", "solve(seed)"))]
    if app["platform"] != "desktop":
        return [*_of_spec(find_spec(app["id"]), make)]
    if app["scale"] == "full":
        return [*_of_program(next(known for known in load_programs() if known.id == app["id"]), make)]
    return [*_of_desktop(next(known for known in load_desktop_apps() if known.id == app["id"]), make)]


def _capability(
    app: Mapping[str, Any],
    name: str,
    place: str,
    signature: str,
    preconditions: tuple[str, ...] = (),
    entities: tuple[str, ...] = (),
) -> Capability:
    return Capability(
        id=f"{app['id']}/{name}",
        app=app["id"],
        platform=app["platform"],
        locale=app["locale"],
        split=app["split"],
        place=place,
        signature=signature,
        preconditions=preconditions,
        entities=entities,
        compatible=(),
        sources=(app["source"],),
    )


def _together(found: Sequence[_Found]) -> list[Capability]:
    """The capabilities, each with those of its place and of the place that it leads to."""
    by_place: dict[str, list[str]] = {}
    for one in found:
        by_place.setdefault(one.capability.place, []).append(one.capability.id)
    together = []
    for one in found:
        others = [*by_place[one.capability.place], *(by_place.get(one.leads, []) if one.leads else [])]
        compatible = tuple(name for name in dict.fromkeys(others) if name != one.capability.id)
        together.append(replace(one.capability, compatible=compatible))
    return together


def _witnessed(app: Mapping[str, Any], capabilities: Sequence[Capability]) -> Iterator[Capability]:
    """The capabilities, with the walk and the help texts as sources where they bear them out."""
    helped = [document for document in documents(app) if "#" in document.source]
    for capability in capabilities:
        more = [EXPLORATION] if capability.place in app["reached"] else []
        more += [d.source for d in helped if any(entity and entity in d.text for entity in capability.entities)]
        yield replace(capability, sources=(*capability.sources, *more))


def _of_spec(spec: AppSpec, make: Any) -> Iterator[_Found]:
    lists = spec.initial_state()["lists"]
    seen: set[str] = set()
    for place, control in spec.all_controls():
        if control.kind == "text":
            continue
        name = f"{place}/{control.label if spec.scale == 'small' else control.identity}"
        if name in seen:
            continue
        seen.add(name)
        before = () if place == spec.start else (f"{place} is open",)
        needs = tuple(f"{key} holds text" for key in control.needs)
        rows = tuple(filter(None, (_named(row) for row in lists[control.label]))) if control.kind == "list" else ()
        if rows and spec.scale == "small":
            rows = (*rows, *words_of_rows(spec))  # what a task may find in the list
        entities = rows or tuple(control.options) or ((control.label,) if control.label else ())
        leads = control.open or (f"dialog:{control.dialog}" if control.dialog else spec.start if control.home else "")
        yield _Found(make(name, place, _signature(control), (*before, *needs), entities), leads)


def _named(row: Any) -> str:
    """What a row of a list is called: itself, or the first text of a record."""
    if isinstance(row, dict):
        return next((value for value in row.values() if isinstance(value, str) and value), "")
    return str(row)


def _signature(control: Control) -> str:
    label = control.label
    match control.kind:
        case "switch" | "checkbox":
            return f"set({label}: bool)"
        case "field" | "search":
            return f"type({label}: text)"
        case "select" | "segmented" | "chips" | "radio":
            return f"choose({label})"
        case "stepper" | "slider" | "rating":
            return f"set({label}: number)"
        case "list":
            return f"open({control.open or control.dialog}: row of {label})" if control.open else f"see({label})"
    if control.open or control.dialog:
        return f"open({control.open or control.dialog})"
    if control.back or control.home:
        return f"leave({label})"
    return f"press({label})"


def _of_desktop(app: DesktopApp, make: Any) -> Iterator[_Found]:
    if not app.windows:
        save, note = ("Save", "Note") if app.locale == "en" else ("保存", "笔记")
        yield _Found(make("note.save", "note", "type(note: text)", (), (save,)))
        yield _Found(make("note.read", "note", "read(note)", ("the file holds text",), (note,)))
    first = next(iter(app.windows), "")
    for name, window in app.windows.items():
        before = () if name == first else (f"{name} is open",)
        for control in (*window.controls, *window.closers):
            verb = {"toggle": "set({}: bool)", "entry": "type({}: text)", "opener": "open({})", "row": "select({})"}
            signature = verb.get(control.kind, "press({})").format(control.label)
            found = make(f"{name}.{control.id}", name, signature, before, (control.label,))
            yield _Found(found, control.opens or "")


def _of_program(program: ProgramSpec, make: Any) -> Iterator[_Found]:
    """A full program is known by what can be read of its outcome."""
    for name, reader in sorted(program.read.items()):
        yield _Found(make(f"read.{name}", "", f"change({name}: {reader.kind})", (f"{program.package} is installed",)))


# --- with a model -----------------------------------------------------------------------------------------------------

QUESTION = """You are given all documents about one app. List what a person can do with it.

Answer with one JSON object and nothing else:
{"capabilities": [{"id": "...", "signature": "...", "preconditions": ["..."], "entities": ["..."],
                   "compatible": ["..."], "source": "..."}]}

id: of the known capability that you mean; empty for one that is not known.
signature: the call it would be, such as set(Mute: bool) or open(settings).
preconditions: what must hold before.
entities: what it can be done to, in the words of the documents.
compatible: ids of known capabilities that can be combined with it.
source: the document that says so, by its name.

Known capabilities: {known}

{documents}"""

LONGEST_DOCUMENT = 12_000
"""Characters of one document that are shown."""


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = ""
    signature: str = Field(min_length=1, max_length=200)
    preconditions: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    compatible: tuple[str, ...] = ()
    source: str


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    capabilities: tuple[_Item, ...] = Field(min_length=1)


@dataclass
class EndpointResearcher:
    """Adds to the offline findings what a model makes of the documents.

    A finding counts if it names one of the documents and its entities stand in them. An answer that is no answer, or
    of which nothing counts, leaves the offline findings of that app as they are.

    Attributes:
        endpoint: whom to ask.
        folder: where answers are kept, so that a run that was killed does not pay for them again; None keeps none.
    """

    endpoint: Endpoint
    folder: Path | None = None
    offline: OfflineResearcher = field(default_factory=OfflineResearcher)

    def research(self, apps: Sequence[Mapping[str, Any]]) -> list[Findings]:
        """The findings, one request an app, as many at once as the endpoint takes."""
        known = self.offline.research(apps)
        dossiers = [documents(app) for app in apps]
        answers: list[str | EndpointError] = []
        step = self.endpoint.parameters.concurrent
        for at in range(0, len(apps), step):
            part = range(at, min(at + step, len(apps)))
            answers += self._answers([(apps[n]["id"], _question(known[n], dossiers[n])) for n in part])
        return [_merged(*found) for found in zip(known, dossiers, answers, strict=True)]

    def _answers(self, asked: Sequence[tuple[str, list[Message]]]) -> list[str | EndpointError]:
        """What was answered before, and what is answered now."""
        kept: dict[int, str | EndpointError] = {}
        for number, (app, _) in enumerate(asked):
            file = self._file(app)
            if file is not None and file.exists():
                kept[number] = json.loads(file.read_text(encoding="utf-8"))
        new = [number for number in range(len(asked)) if number not in kept]
        for number, answer in zip(new, self.endpoint.ask_all([asked[n][1] for n in new]), strict=True):
            kept[number] = answer
            file = self._file(asked[number][0])
            if file is not None and isinstance(answer, str):
                file.write_text(json.dumps(answer, ensure_ascii=False), encoding="utf-8")
        return [kept[number] for number in range(len(asked))]

    def _file(self, app: str) -> Path | None:
        return None if self.folder is None else self.folder / f"answer-{app.replace('/', '-')}.json"


def _question(known: Findings, dossier: Sequence[Document]) -> list[Message]:
    ids = ", ".join(capability.id for capability in known.capabilities)
    texts = "\n\n".join(f"--- {document.source} ---\n{document.text[:LONGEST_DOCUMENT]}" for document in dossier)
    text = QUESTION.replace("{known}", ids).replace("{documents}", texts)
    return [{"role": "user", "content": text}]


def _merged(known: Findings, dossier: Sequence[Document], answer: str | EndpointError) -> Findings:
    """The offline findings with those of an answer."""
    if isinstance(answer, EndpointError):
        return replace(known, fallback=str(answer))
    try:
        found = _Answer.model_validate_json(answer[answer.find("{") : answer.rfind("}") + 1]).capabilities
    except ValidationError as error:
        return replace(known, fallback=f"an answer without capabilities: {error.errors()[0]['msg']}")
    sources = {document.source for document in dossier}
    text = "\n".join(document.text for document in dossier)
    sound = [item for item in found if item.source in sources and all(entity in text for entity in item.entities)]
    if not sound:
        return replace(known, fallback="no finding that the documents bear out", refused=len(found))
    capabilities = {capability.id: capability for capability in known.capabilities}
    for item in sound:
        told = f"endpoint: {item.source}"
        compatible = tuple(name for name in item.compatible if name in capabilities)
        if item.id in capabilities:
            mine = capabilities[item.id]
            capabilities[item.id] = replace(
                mine,
                preconditions=_united(mine.preconditions, item.preconditions),
                compatible=_united(mine.compatible, compatible, without=item.id),
                sources=_united(mine.sources, (told,)),
            )
        elif item.entities:
            sample = next(iter(known.capabilities))
            identity = f"{sample.app}/found/{item.signature}"
            capabilities[identity] = replace(
                sample,
                id=identity,
                place="",
                signature=item.signature,
                preconditions=item.preconditions,
                entities=item.entities,
                compatible=compatible,
                sources=(told,),
            )
    added = len(capabilities) - len(known.capabilities)
    return Findings(tuple(capabilities.values()), "", len(found) - len(sound), added)


def _united(mine: Sequence[str], others: Sequence[str], without: str = "") -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys((*mine, *others)) if name != without)
