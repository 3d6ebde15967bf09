"""Stage `capability_catalog`: what each app can do, with source and coverage.

Read off the apps' own specs, without a model. Feedback of earlier rounds (`data/feedback/*.json`, written by
verification) says how often a capability was tried and how often it came out well; what is weakly covered is weighted
up, so that the next round's tasks go there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from assets.environments.apps import AppSpec, Control, find_spec
from assets.environments.desktop import DesktopApp
from assets.environments.desktop import load_apps as load_desktop_apps
from assets.errors import InputError
from assets.stage import Stage, StageParameters, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa


class Parameters(StageParameters):
    """What the tasks that follow may use.

    Attributes:
        scales: of the apps to take: `small` ones are made of the words that the small model knows, `full` ones are not.
        boost: how much a capability that never came out well outweighs one that always does.
    """

    scales: tuple[Literal["small", "full"], ...]
    boost: float = Field(ge=0)


@dataclass(frozen=True)
class Capability:
    """One thing an app can do.

    Attributes:
        signature: the call it would be: `open(settings)`, `set(Mute: bool)`, `type(Search: text)`.
        preconditions: what must hold before, in terms of the spec.
        entities: what it can be done to.
        attempts, completed: episodes of earlier rounds that used it, and those that came out well.
        weight: how often it should be sampled, relative to the others.
        source: the document it was read from.
    """

    id: str
    app: str
    platform: str
    locale: str
    split: str
    signature: str
    preconditions: tuple[str, ...]
    entities: tuple[str, ...]
    attempts: int
    completed: int
    weight: float
    source: str


def run(stage: Stage[Parameters]) -> None:
    """Write `capabilities.parquet` and a table of coverage by app."""
    catalogue = json.loads((stage.input("data/environments") / "catalogue.json").read_text(encoding="utf-8"))
    feedback = read_feedback(stage.input("data/feedback"))
    capabilities = sorted(
        (
            _weighted(capability, feedback, stage.parameters.boost)
            for app in catalogue
            if app["scale"] in stage.parameters.scales
            for capability in _capabilities_of(app)
        ),
        key=lambda capability: capability.id,
    )
    write_parquet(stage.output / "capabilities.parquet", map(asdict, capabilities), schema())
    rows: dict[tuple[str, str, str], list[Capability]] = {}
    for capability in capabilities:
        rows.setdefault((capability.platform, capability.split, capability.app), []).append(capability)
    stage.table(
        "coverage",
        ("platform", "split", "app", "capabilities", "tried in earlier rounds", "mean weight"),
        [
            (*key, len(group), sum(c.attempts > 0 for c in group), sum(c.weight for c in group) / len(group))
            for key, group in sorted(rows.items())
        ],
    )
    stage.summary(apps=len(rows), capabilities=len(capabilities), covered=sum(c.attempts > 0 for c in capabilities))


def schema() -> pa.Schema:
    """Arrow schema of the capability table."""
    import pyarrow as pa

    texts = ("id", "app", "platform", "locale", "split", "signature")
    return pa.schema(
        [
            *((name, pa.string()) for name in texts),
            *((name, pa.list_(pa.string())) for name in ("preconditions", "entities")),
            *((name, pa.int32()) for name in ("attempts", "completed")),
            ("weight", pa.float32()),
            ("source", pa.string()),
        ]
    )


def read_feedback(folder: Path) -> dict[str, tuple[int, int]]:
    """`app/entity` -> (attempts, completed), summed over the files of all rounds.

    Raises:
        InputError: a file is not feedback.
    """
    totals: dict[str, tuple[int, int]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            for identity, counts in json.loads(path.read_text(encoding="utf-8"))["capabilities"].items():
                attempts, completed = totals.get(identity, (0, 0))
                totals[identity] = (attempts + int(counts["attempts"]), completed + int(counts["completed"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not feedback of a verification: {error!r}") from None
    return totals


def weight(attempts: int, completed: int, boost: float) -> float:
    """1 for a capability that always came out well, 1 + boost for one that never did or was never tried.

    The share that came out well is estimated with one success and one failure added (Laplace's rule), so that one
    lucky attempt is not certainty.
    """
    share = (completed + 1) / (attempts + 2) if attempts else 0.0
    return 1.0 + boost * (1.0 - share)


def _weighted(capability: Capability, feedback: Mapping[str, tuple[int, int]], boost: float) -> Capability:
    counts = [feedback.get(f"{capability.app}/{entity}", (0, 0)) for entity in capability.entities]
    attempts, completed = sum(tried for tried, _ in counts), sum(well for _, well in counts)
    values = {**asdict(capability), "attempts": attempts, "completed": completed}
    return Capability(**{**values, "weight": weight(attempts, completed, boost)})


def _capabilities_of(app: Mapping[str, Any]) -> Iterator[Capability]:
    """The capabilities of one app of the catalogue."""
    if app["platform"] == "desktop":
        # Nobody has written down what a full program can do: it has none.
        yield from (found for known in load_desktop_apps() if known.id == app["id"] for found in _of_desktop(known))
    elif app["id"].startswith("miniwob/"):
        source = f"{app['id']}.html"
        yield Capability(
            f"{app['id']}/solve", app["id"], "web", "en", app["split"], "solve(seed)", (), (), 0, 0, 1.0, source
        )
    else:
        yield from _of_spec(find_spec(app["id"]))


def _of_spec(spec: AppSpec) -> Iterator[Capability]:
    lists = spec.initial_state()["lists"]
    seen: set[str] = set()
    for place, control in spec.all_controls():
        if control.kind == "text" or control.back or control.home:
            continue
        labels = [_named(row) for row in lists[control.label]] if control.kind == "list" else [control.label]
        for label in labels:
            identity = f"{spec.id}/{place}/{label}"
            if identity in seen:
                continue
            seen.add(identity)
            needs = tuple(f"{key} holds text" for key in control.needs)
            before = () if place == spec.start else (f"{place} is open",)
            entities = tuple(control.options) if control.kind == "select" else (label,)
            yield Capability(
                identity, spec.id, spec.platform, spec.locale, spec.split, _signature(control, label),
                (*before, *needs), entities, 0, 0, 1.0, f"apps/{spec.id}.yaml",
            )  # fmt: skip


def _named(row: Any) -> str:
    """What a row of a list is called: itself, or the first text of a record."""
    if isinstance(row, dict):
        return next((value for value in row.values() if isinstance(value, str) and value), "")
    return str(row)


def _signature(control: Control, label: str) -> str:
    if control.kind in ("switch", "checkbox"):
        return f"set({label}: bool)"
    if control.kind in ("field", "select"):
        return f"type({label}: text)"
    if control.open or control.dialog:
        return f"open({control.open or control.dialog})"
    return f"press({label})"


def _of_desktop(app: DesktopApp) -> Iterator[Capability]:
    def capability(identity: str, signature: str, before: tuple[str, ...], entity: str) -> Capability:
        source = f"desktop_apps/{app.id}.json"
        return Capability(
            f"{app.id}/{identity}",
            app.id,
            "desktop",
            app.locale,
            app.split,
            signature,
            before,
            (entity,),
            0,
            0,
            1.0,
            source,
        )

    if not app.windows:
        save, note = ("Save", "Note") if app.locale == "en" else ("保存", "笔记")
        yield capability("note.save", "type(note: text)", (), save)
        yield capability("note.read", "read(note)", ("the file holds text",), note)
    first = next(iter(app.windows), "")
    for name, window in app.windows.items():
        before = () if name == first else (f"{name} is open",)
        for control in (*window.controls, *window.closers):
            verb = {"toggle": "set({}: bool)", "entry": "type({}: text)", "opener": "open({})", "row": "select({})"}
            signature = verb.get(control.kind, "press({})").format(control.label)
            yield capability(f"{name}.{control.id}", signature, before, control.label)
