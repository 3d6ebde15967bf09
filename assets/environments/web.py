"""The web: simulated sites, and any site on the allow list, behind the fifteen actions of a browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from assets.agent.actions import Action
from assets.environments.simulated import RUNTIME_URL, SimulatedSession
from assets.environments.task import TaskContract

DOMAIN = "test"
"""Simulated sites live at `https://<id>.test/<screen>`, a name that no real site can have."""

_DELTAS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


class WebSession(SimulatedSession):
    """A browser tab. It starts on the task's site.

    Launch opens a simulated site by its address, or a real one whose origin the browser's allow list names. On a real
    site the state holds the address and the title; everything else is the site's own.
    """

    platform = "web"

    def _begin(self, task: TaskContract) -> None:
        super()._begin(task)
        self._select: Any = None

    def _state(self) -> dict[str, Any]:
        if self._on_site:
            return super()._state()
        return {"url": self.page.url, "title": self.page.title(), **self._agent}

    def _elements(self) -> list[Any]:
        return super()._elements() if self._on_site else super(SimulatedSession, self)._elements()

    def _perform(self, action: Action) -> None:
        match action.name:
            case "Click":
                self._click(action)
            case "Swipe":
                # Pages scroll by the wheel; a swipe moves what is under the finger.
                (x0, y0), (x1, y1) = self._pixel(action.point), self._pixel(action.end)
                self.page.mouse.move(x0, y0)
                self.page.mouse.wheel(x0 - x1, y0 - y1)
            case "Scroll":
                dx, dy = _DELTAS[action.direction or "down"]
                self.page.mouse.move(*self._pixel(action.point))
                self.page.mouse.wheel(dx * self.size[0] / 2, dy * self.size[1] / 2)
            case "Hover":
                self.page.mouse.move(*self._pixel(action.point))
            case "PressBack":
                if self._on_site:
                    self.page.evaluate("hesper.back()")
                else:
                    self.page.go_back()
            case "Launch":
                self._launch(action.content or "")
            case "GetUrl":
                self._note = self._address() if self._on_site else self.page.url
            case "TakeNote":
                self._agent["notes"].append(action.content)
            case "SelectOption":
                self._choose(action.index or 0)
            case _:
                super()._perform(action)

    def _click(self, action: Action) -> None:
        """Click; on a native `<select>` the options come back as text instead of a pop-up no screenshot shows."""
        x, y = self._pixel(action.point)
        found = self.page.evaluate_handle(
            "([x, y]) => document.elementFromPoint(x, y)?.closest('select') ?? null", [x, y]
        ).as_element()
        self._select = found
        if found is None:
            self.page.mouse.click(x, y)
        else:
            options = found.evaluate("element => [...element.options].map(option => option.text)")
            self._note = "\n".join(f"{index}: {option}" for index, option in enumerate(options))

    def _choose(self, index: int) -> None:
        if self._select is None:
            self._note = "no <select> was clicked"
            return
        chosen = self._select.evaluate(
            """(element, index) => {
                if (index >= element.options.length) return false;
                element.selectedIndex = index;
                element.dispatchEvent(new Event("input", {bubbles: true}));
                element.dispatchEvent(new Event("change", {bubbles: true}));
                return true;
            }""",
            index,
        )
        if not chosen:
            self._note = f"no option {index}"

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
            self.page.goto(parts.geturl())
        else:
            self.browser.refuse(parts.geturl())
            self._note = f"{url}: refused, not on the allow list"

    @property
    def _on_site(self) -> bool:
        return self.page.url == RUNTIME_URL

    def _address(self) -> str:
        foreground, screen = self.page.evaluate("[hesper.get().foreground, hesper.get().view.screen]")
        return f"https://{foreground}.{DOMAIN}/{screen}"
