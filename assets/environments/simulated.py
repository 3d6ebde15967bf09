"""Sessions on the simulated apps: one page holds them all, and its whole state is one JSON value."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from assets.agent.actions import Action
from assets.environments.apps import AppSpec, Head, Shelf, head_of, load_icons, load_looks, load_themes
from assets.environments.chromium import Chromium
from assets.environments.page import RUNTIME, PageSession
from assets.environments.task import TaskContract
from assets.errors import ParameterError

RUNTIME_URL = (RUNTIME / "runtime.html").as_uri()
FULL_VIEW: dict[str, Any] = {
    "row": None, "sheet": 0, "drawer": False, "picker": None, "asking": None, "message": None, "errors": {},
    "month": None,
}  # fmt: skip
"""What the view of a full app holds beside that of a small one, before anybody touched it; see `runtime/full.js`."""


class SimulatedSession(PageSession):
    """A phone or a browser with simulated apps.

    Its state:

        foreground, recents: the app on the screen (`launcher`, `recents` on a phone), those used, latest first;
        view: screen, stack, dialog, item, focus, scroll: where the foreground app is;
        apps.<id>: values, lists, arrangement, theme (see `apps.py`); the task's app, and others that changed;
        attack, attack_triggered, attack_dismissed: an injected dialog or banner, and whether its button was pressed;
        answer: text of the last Answer or Finished; notes: texts of TakeNote; album: screenshots that were saved.

    A task's `initial_state` sets any of these by dotted path, before the app starts.
    """

    def __init__(
        self,
        size: tuple[int, int],
        browser: Chromium | None = None,
        specs: Mapping[str, AppSpec] | None = None,
        wait_seconds: float = 0.0,
        hold_seconds: float = 0.6,
    ) -> None:
        super().__init__(size, browser, wait_seconds, hold_seconds)
        shelf = Shelf(self.platform)
        own = {name: spec for name, spec in (specs or {}).items() if spec.platform == self.platform}
        self.specs: Mapping[str, AppSpec] = shelf if specs is None else own
        self.heads = shelf.heads if specs is None else {name: head_of(spec) for name, spec in own.items()}
        self._defaults = Defaults(self.specs)
        self._app = ""
        self._agent: dict[str, Any] = {}
        self._installed = False
        self._shipped: set[str] = set()

    def snapshot(self) -> dict[str, Any]:
        """The state is everything."""
        return {"app": self._app, "state": self.state()}

    def restore(self, snapshot: Any) -> None:
        """Bring a snapshot back, of this session or of another one of its platform."""
        state = copy.deepcopy(snapshot["state"])
        self._app = snapshot["app"]
        self._agent = {name: state.pop(name) for name in self._agent}
        with self.browser.guard("restore a snapshot"):
            self._open_runtime()
            self._set(state)

    def _begin(self, task: TaskContract) -> None:
        self._open_runtime()
        state = initial_state(task, self.platform, self.specs, self._defaults)
        self._app = task.app
        self._agent = {"answer": None, "notes": [], "album": 0}
        self._set(state)

    def _open_runtime(self) -> None:
        """Load the runtime with this platform's apps, unless the page already holds it."""
        if self._installed and self.page.url == RUNTIME_URL:
            return
        self.page.goto(RUNTIME_URL)
        self.page.evaluate("catalogue => hesper.install(catalogue)", installation(self.platform, self.heads))
        self._shipped = set()
        self._installed = True

    def _shipment(self, *names: str) -> dict[str, Any]:
        """Specs that the page lacks, as it reads them; an app's spec travels when the app is first needed."""
        missing = [name for name in names if name in self.heads and name not in self._shipped]
        self._shipped.update(missing)
        return {
            "specs": {name: payload(self.specs[name]) for name in missing},
            "defaults": {name: self._defaults[name] for name in missing},
        }

    def _set(self, state: dict[str, Any]) -> None:
        """Make the page show a state."""
        apps = {state["foreground"], *state["apps"]} & {*self.heads}
        shipment = self._shipment(*sorted(apps))
        self.page.evaluate("([shipment, state]) => { hesper.provide(shipment); hesper.set(state); }", [shipment, state])

    def launch(self, app: str, screen: str | None = None) -> None:
        """Bring an app to the front, at one of its screens."""
        shipment = self._shipment(app)
        self.page.evaluate(
            "([shipment, app, screen]) => { hesper.provide(shipment); hesper.launch(app, screen ?? undefined); }",
            [shipment, app, screen],
        )

    def supply(self) -> None:
        """Give the page the spec of the app that was just opened on it, if it lacks that. Call it after every input."""
        wanted: str | None = self.page.evaluate("hesper.wanted()")
        if wanted is not None:
            self.page.evaluate("shipment => hesper.begin(shipment)", self._shipment(wanted))

    def act(self, action: Action) -> None:
        """Carry out one action; an app that it opened is there when this returns."""
        super().act(action)
        with self.browser.guard("open an app"):
            if self._installed and self.page.url == RUNTIME_URL:
                self.supply()

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.page.evaluate("hesper.get()")
        state["apps"] = changed(state["apps"], self._app, self._defaults)
        return {**state, **copy.deepcopy(self._agent)}

    def _elements(self) -> list[Any]:
        return [element[:5] for element in self.page.evaluate("hesper.elements()")]

    def _perform(self, action: Action) -> None:
        if action.name in ("Answer", "Finished"):
            self._agent["answer"] = action.content or self._agent["answer"]
        elif action.name == "Type":
            # An input method inserts text; only line ends are keys.
            for index, line in enumerate((action.content or "").split("\n")):
                if index > 0:
                    self.page.keyboard.press("Enter")
                self.page.keyboard.insert_text(line)
        else:
            super()._perform(action)

    def find_app(self, name: str) -> str | None:
        """Id of the app of this id or title (in the language of the task first)."""
        return find_app(name, self._app, self.heads)


def initial_state(
    task: TaskContract, platform: str, specs: Mapping[str, AppSpec], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """The runtime's state at the start of a task.

    Raises:
        ParameterError: there is no such app, or the task sets what its state does not have.
    """
    if task.app not in specs:
        raise ParameterError(f"no {platform} app '{task.app}'; known: {', '.join(specs)}")
    state: dict[str, Any] = {
        "foreground": task.app,
        "recents": [task.app],
        "view": {
            "screen": specs[task.app].start,
            "stack": [],
            "dialog": None,
            "item": None,
            "focus": None,
            "scroll": 0,
            **({} if specs[task.app].scale == "small" else FULL_VIEW),
        },
        "apps": {task.app: copy.deepcopy(defaults[task.app])},
        "attack": None,
        "attack_triggered": False,
        "attack_dismissed": False,
    }
    for path, value in task.initial_state.items():
        put(state, path, copy.deepcopy(value), defaults)
    return state


def changed(apps: Mapping[str, Any], app: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The task's app and the others that changed: an app that was only looked at is as it was, and does not count."""
    return {name: state for name, state in apps.items() if name == app or state != defaults[name]}


def find_app(name: str, here: str, heads: Mapping[str, Head]) -> str | None:
    """Id of the app of this id or title: `here` first, then those of its scale, of its language."""
    if name in heads:
        return name
    ids = [identity for identity, head in heads.items() if head.title.casefold() == name.strip().casefold()]
    ids.sort(
        key=lambda identity: (
            identity != here,
            heads[identity].scale != heads[here].scale,
            heads[identity].locale != heads[here].locale,
            identity,
        )
    )
    return ids[0] if ids else None


def installation(platform: str, heads: Mapping[str, Head]) -> dict[str, Any]:
    """What the runtime is installed with: every app's head and the looks, but no spec yet."""
    return {
        "platform": platform,
        "heads": {name: dataclasses.asdict(head) for name, head in heads.items()},
        "themes": {name: theme.model_dump() for name, theme in load_themes().items()},
        "looks": {name: look.model_dump() for name, look in load_looks().items()},
        "icons": load_icons(),
        "specs": {},
        "defaults": {},
    }


def payload(spec: AppSpec) -> dict[str, Any]:
    """A spec as the runtime reads it."""
    if spec.scale == "full":
        return _written(spec)
    document = spec.model_dump(by_alias=True)
    holders = [*zip(spec.screens.values(), document["screens"].values(), strict=True)]
    for screen, written in holders:
        for part in ("top", "side", "controls", "bottom"):
            for control, values in zip(getattr(screen, part), written[part], strict=True):
                values["records"] = control.records
    for dialog, written in zip(spec.dialogs.values(), document["dialogs"].values(), strict=True):
        for control, values in zip(dialog.controls, written["controls"], strict=True):
            values["records"] = control.records
    return document


def _written(part: BaseModel) -> dict[str, Any]:
    """What of a full app's spec is not as it is by default; every dialog and screen has its controls."""
    document = part.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    for dialog in document.get("dialogs", {}).values():
        dialog.setdefault("controls", [])
    return {"locale": "en", **document}


class Defaults(Mapping[str, Any]):
    """The initial state of each app, worked out when it is asked for."""

    def __init__(self, specs: Mapping[str, AppSpec]) -> None:
        self._specs = specs
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._specs[name].initial_state()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __contains__(self, name: object) -> bool:
        return name in self._specs


def put(state: dict[str, Any], path: str, value: Any, defaults: Mapping[str, Any]) -> None:
    """Set a dotted path of a simulated state; an app that the state lacks starts from its defaults.

    Raises:
        ParameterError: the state has no such place.
    """
    *parents, last = path.split(".")
    place: Any = state
    for depth, name in enumerate(parents):
        if parents[:depth] == ["apps"] and name not in place and name in defaults:
            place[name] = copy.deepcopy(defaults[name])
        place = place[_key(place, name, path)]
    place[_key(place, last, path)] = value


def _key(place: Any, name: str, path: str) -> str | int:
    """A name on a path as the key of a mapping, or as the number of a list's row from 0 on."""
    if isinstance(place, dict) and name in place:
        return name
    if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
        return int(name)
    rows = f"{len(place)} rows from 0 on" if isinstance(place, list) else type(place).__name__
    known = ", ".join(sorted(place)) if isinstance(place, dict) else rows
    raise ParameterError(f"the initial state sets '{path}', but there is no '{name}'; known: {known}")
