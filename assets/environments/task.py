"""The task contract: what is asked, from which state, and how a program can tell that it was done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TaskContract:
    """An executable task.

    Attributes:
        app: id of the app in the catalogue.
        kind: single, composite, query, batch or scenario.
        initial_state: dotted path -> value, laid over the app's own initial state.
        resources: what the session has to provide beside the app (files, installed apps), by name.
        expected_state: dotted path -> value of the session's final `state()`.
        allowed_side_effects: dotted prefixes that may change beside the expected paths.
        keypoints: what must be seen on the way, in words, in order.
        step_budget: most responses an episode may take.
        split: train or heldout.
    """

    id: str
    platform: str
    app: str
    locale: str
    instruction: str
    kind: str = "single"
    capabilities: tuple[str, ...] = ()
    initial_state: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    expected_state: dict[str, Any] = field(default_factory=dict)
    allowed_side_effects: tuple[str, ...] = ()
    keypoints: tuple[str, ...] = ()
    step_budget: int = 10
    split: str = "train"


def task_schema() -> pa.Schema:
    """Arrow schema of the tasks table."""
    import pyarrow as pa

    strings = ("id", "platform", "app", "locale", "instruction", "kind")
    return pa.schema(
        [
            *((name, pa.string()) for name in strings),
            ("capabilities", pa.list_(pa.string())),
            ("initial_state", pa.string()),
            ("resources", pa.string()),
            ("expected_state", pa.string()),
            ("allowed_side_effects", pa.list_(pa.string())),
            ("keypoints", pa.list_(pa.string())),
            ("step_budget", pa.int32()),
            ("split", pa.string()),
        ]
    )


def to_row(task: TaskContract) -> dict[str, Any]:
    """The task as a row of the tasks table."""
    row = {name: getattr(task, name) for name in TaskContract.__dataclass_fields__}
    row.update({name: canonical_json(row[name]) for name in _JSON_COLUMNS})
    row.update({name: list(row[name]) for name in _LIST_COLUMNS})
    return row


def from_row(row: Mapping[str, Any]) -> TaskContract:
    """The inverse of `to_row`."""
    values = {name: row[name] for name in TaskContract.__dataclass_fields__}
    values.update({name: json.loads(values[name]) for name in _JSON_COLUMNS})
    values.update({name: tuple(values[name]) for name in _LIST_COLUMNS})
    return TaskContract(**values)


_JSON_COLUMNS = ("initial_state", "resources", "expected_state")
_LIST_COLUMNS = ("capabilities", "allowed_side_effects", "keypoints")


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, readable Chinese."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
