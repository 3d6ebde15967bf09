"""The web: simulated sites, and any site on the allow list, behind the fifteen actions of a browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from assets.agent.actions import Action
from assets.environments.page import PageSession
from assets.environments.simulated import RUNTIME_URL, SimulatedSession

DOMAIN = "test"
"""Simulated sites live at `https://<id>.test/<screen>`, a name that no real site can have."""


class WebSession(SimulatedSession):
    """A browser tab. It starts on the task's site.

    Launch opens a simulated site by its address, or a real one whose origin the browser's allow list names. On a real
    site the state holds the address and the title; everything else is the site's own.
    """

    platform = "web"
    _left: Any = None
    """State of the simulated sites when a real one was opened."""

    def _state(self) -> dict[str, Any]:
        if self._on_site:
            return super()._state()
        return {"url": self.page.url, "title": self.page.title(), **self._agent}

    def _elements(self) -> list[Any]:
        return super()._elements() if self._on_site else PageSession._elements(self)

    def _perform(self, action: Action) -> None:
        match action.name:
            case "PressBack":
                if self._on_site:
                    self.page.evaluate("hesper.back()")
                else:
                    self._go_back()
            case "Launch":
                self._launch(action.content or "")
            case "GetUrl":
                self._note = self._address() if self._on_site else self.page.url
            case "TakeNote":
                self._agent["notes"].append(action.content)
            case _:
                super()._perform(action)

    def _launch(self, url: str) -> None:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        site, _, domain = (parts.hostname or "").rpartition(".")
        if domain == DOMAIN and site in self.specs:
            screen = parts.path.strip("/") or self.specs[site].start
            if screen not in self.specs[site].screens:
                self._note = f"{url}: not found"
                return
            self._open_runtime()
            self.page.evaluate("([site, screen]) => hesper.launch(site, screen)", [site, screen])
        elif parts.scheme in ("http", "https") and self.browser.allows(parts.geturl()):
            if self._on_site:
                self._left, self._installed = self.page.evaluate("hesper.get()"), False
            self.page.goto(parts.geturl())
        else:
            self.browser.refuse(parts.geturl())
            self._note = f"{url}: refused, not on the allow list"

    def _go_back(self) -> None:
        """The page before; a simulated site comes back as it was left."""
        self.page.go_back()
        if self.page.url == RUNTIME_URL:
            self._open_runtime()
            self.page.evaluate("state => hesper.set(state)", self._left)

    @property
    def _on_site(self) -> bool:
        return self._installed and self.page.url == RUNTIME_URL

    def _address(self) -> str:
        foreground, screen = self.page.evaluate("[hesper.get().foreground, hesper.get().view.screen]")
        return f"https://{foreground}.{DOMAIN}/{screen}"
