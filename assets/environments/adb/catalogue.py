"""The apps of a phone: those that ship, or others that its owner gives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from assets.environments.adb.device import App
from assets.environments.apps import Head, Shelf
from assets.environments.simulated import Defaults, installation, payload


class ShippedApps:
    """The apps that ship, each spec read when it is first needed."""

    def __init__(self) -> None:
        self._shelf = Shelf("mobile")
        self._defaults = Defaults(self._shelf)
        self.apps = _apps(self._shelf.heads)

    def installation(self) -> dict[str, Any]:
        """What the runtime is installed with."""
        return installation("mobile", self._shelf.heads)

    def spec(self, app: str) -> Any:
        """An app's spec, as the runtime reads it."""
        return payload(self._shelf[app])

    def defaults(self, app: str) -> Any:
        """An app's part of the state before anybody touched it."""
        return self._defaults[app]


class GivenApps:
    """Apps whose heads, specs and defaults come as JSON values."""

    def __init__(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        self._heads = {name: Head(**head) for name, head in documents["heads"].items()}
        self._documents = documents
        self.apps = _apps(self._heads)

    def installation(self) -> dict[str, Any]:
        """What the runtime is installed with."""
        return installation("mobile", self._heads)

    def spec(self, app: str) -> Any:
        """An app's spec, as the runtime reads it."""
        return self._documents["specs"][app]

    def defaults(self, app: str) -> Any:
        """An app's part of the state before anybody touched it."""
        return self._documents["defaults"][app]


@cache
def shipped() -> ShippedApps:
    """The apps that ship."""
    return ShippedApps()


def _apps(heads: Mapping[str, Head]) -> dict[str, App]:
    return {name: App(name, head.title, head.locale, head.category) for name, head in heads.items()}
