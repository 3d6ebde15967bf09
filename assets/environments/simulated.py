"""Sessions on the simulated apps: one page holds them all, and its whole state is one JSON value."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from assets.agent.actions import Action
from assets.environments.apps import AppSpec, load_specs, load_themes
from assets.environments.chromium import Chromium
from assets.environments.page import RUNTIME, PageSession
from assets.environments.task import TaskContract
from assets.errors import ParameterError

RUNTIME_URL = (RUNTIME / "runtime.html").as_uri()


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
        known = load_specs() if specs is None else specs
        self.specs = {name: spec for name, spec in known.items() if spec.platform == self.platform}
        self._defaults = {name: spec.initial_state() for name, spec in self.specs.items()}
        self._app = ""
        self._agent: dict[str, Any] = {}
        self._installed = False

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
            self.page.evaluate("state => hesper.set(state)", state)

    def _begin(self, task: TaskContract) -> None:
        self._open_runtime()
        if task.app not in self.specs:
            raise ParameterError(f"no {self.platform} app '{task.app}'; known: {', '.join(self.specs)}")
        self._app = task.app
        self._agent = {"answer": None, "notes": [], "album": 0}
        state: dict[str, Any] = {
            "foreground": task.app,
            "recents": [task.app],
            "view": {
                "screen": self.specs[task.app].start,
                "stack": [],
                "dialog": None,
                "item": None,
                "focus": None,
                "scroll": 0,
            },
            "apps": {task.app: copy.deepcopy(self._defaults[task.app])},
            "attack": None,
            "attack_triggered": False,
            "attack_dismissed": False,
        }
        for path, value in task.initial_state.items():
            put(state, path, copy.deepcopy(value), self._defaults)
        self.page.evaluate("state => hesper.set(state)", state)

    def _open_runtime(self) -> None:
        """Load the runtime with this platform's apps, unless the page already holds it."""
        if self._installed and self.page.url == RUNTIME_URL:
            return
        self.page.goto(RUNTIME_URL)
        self.page.evaluate(
            "catalogue => hesper.install(catalogue)",
            {
                "platform": self.platform,
                "specs": {name: payload(spec) for name, spec in self.specs.items()},
                "defaults": self._defaults,
                "themes": {name: theme.model_dump() for name, theme in load_themes().items()},
            },
        )
        self._installed = True

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.page.evaluate("hesper.get()")
        # An app that was only looked at is as it was: it does not count as changed.
        state["apps"] = {
            name: app for name, app in state["apps"].items() if name == self._app or app != self._defaults[name]
        }
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
        if name in self.specs:
            return name
        locale = self.specs[self._app].locale
        ids = [identity for identity, spec in self.specs.items() if spec.title.casefold() == name.strip().casefold()]
        ids.sort(key=lambda identity: (identity != self._app, self.specs[identity].locale != locale, identity))
        return ids[0] if ids else None


def payload(spec: AppSpec) -> dict[str, Any]:
    """A spec as the runtime reads it."""
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


def put(state: dict[str, Any], path: str, value: Any, defaults: Mapping[str, Any]) -> None:
    """Set a dotted path of a simulated state; an app that the state lacks starts from its defaults.

    Raises:
        ParameterError: the state has no such place.
    """
    *parents, last = path.split(".")
    place = state
    for depth, key in enumerate(parents):
        if parents[:depth] == ["apps"] and key not in place and key in defaults:
            place[key] = copy.deepcopy(defaults[key])
        if not isinstance(place, dict) or key not in place:
            raise ParameterError(f"the initial state sets '{path}', but there is no '{key}'; known: {_names(place)}")
        place = place[key]
    if not isinstance(place, dict) or last not in place:
        raise ParameterError(f"the initial state sets '{path}', but there is no '{last}'; known: {_names(place)}")
    place[last] = value


def _names(place: Any) -> str:
    return ", ".join(sorted(place)) if isinstance(place, dict) else type(place).__name__
