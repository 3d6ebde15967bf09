"""What of an app remains when its labels, content and colours are taken away: screens, controls, layouts, effects."""

from __future__ import annotations

import json
from typing import Any

from assets.environments.apps import AppSpec, Control

# Fields of a control that say how it looks or what it does, not what it says.
LOOKS = (
    "kind", "as_", "style", "layout", "columns", "type", "required", "submit", "delete", "back", "home", "close",
    "undo", "limit", "new",
)  # fmt: skip
SAYS = (
    "icon", "note", "value", "meta", "badge", "avatar", "picture", "strong", "faded", "lit", "hold", "search", "sort",
    "filter", "matches", "group", "when", "only", "asks", "dialog", "open", "move",
)  # fmt: skip
DOES = ("put", "clear", "toggle", "step", "edit", "flip", "bump", "insert", "update", "purge", "filters", "orders")


def structure(spec: AppSpec) -> str:
    """The app as JSON without its words: equal for two apps that differ in strings, content and theme alone."""
    screens = [
        [
            screen.layout,
            screen.title is not None,
            screen.failure is not None,
            *[
                [_control(control) for control in part]
                for part in (screen.top, screen.side, screen.controls, screen.bottom)
            ],
        ]
        for screen in spec.screens.values()
    ]
    dialogs = [[dialog.style, [_control(control) for control in dialog.controls]] for dialog in spec.dialogs.values()]
    menu = [spec.menu, len(spec.navigation)] if spec.navigation else []
    return json.dumps([menu, screens, dialogs])


def _control(control: Control) -> list[Any]:
    return [
        *[getattr(control, field) for field in LOOKS],
        *[bool(getattr(control, field)) for field in SAYS],
        *[len(getattr(control, field)) for field in DOES],
        len(control.options),
        control.lead is not None and _control(control.lead),
        [_control(held) for held in control.actions],
        [_control(held) for held in control.controls],
    ]
