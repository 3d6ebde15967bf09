"""A session's page in Chromium: screenshots, real input, recovery after a crash. Phone, web and MiniWoB++ share it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from assets.agent.actions import ACTIONS, REFUSAL, Action, ActionError, Point, to_pixel
from assets.environments.chromium import Chromium, screenshot
from assets.environments.session import Element, digest, found_elements
from assets.environments.task import TaskContract
from assets.environments.trajectory import Screenshot
from assets.errors import InfrastructureError

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUNTIME = Path(__file__).resolve().parent / "runtime"

_KEYS = {
    "ctrl": "Control", "control": "Control", "alt": "Alt", "shift": "Shift", "meta": "Meta", "cmd": "Meta",
    "win": "Meta", "super": "Meta", "enter": "Enter", "return": "Enter", "esc": "Escape", "escape": "Escape",
    "tab": "Tab", "space": "Space", "backspace": "Backspace", "delete": "Delete", "del": "Delete", "insert": "Insert",
    "home": "Home", "end": "End", "pageup": "PageUp", "pagedown": "PageDown", "up": "ArrowUp", "down": "ArrowDown",
    "left": "ArrowLeft", "right": "ArrowRight",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip


class PageSession:
    """What sessions on a page have in common. Subclasses load their page in `_load` and add their own actions.

    Args:
        size: width and height of the page, in pixels.
        browser: the Chromium to open the page in; without it the session starts and closes its own.
        wait_seconds: how long a Wait lasts.
        hold_seconds: how long a LongPress lasts.
    """

    platform = "web"
    touch = False
    lists = True
    """Whether the page may hold native `<select>`s."""
    downloads = False
    above = 0
    """Pixels of the page above what the session shows."""
    least = (0, 0)
    """Smallest width and height of the page; the session shows what fits its size."""

    def __init__(
        self,
        size: tuple[int, int],
        browser: Chromium | None = None,
        wait_seconds: float = 0.0,
        hold_seconds: float = 0.6,
    ) -> None:
        self.size = size
        self.browser = browser if browser is not None else Chromium()
        self.wait_seconds = wait_seconds
        self.hold_seconds = hold_seconds
        self._owns_browser = browser is None
        self._page: Page | None = None
        self._moved = False
        self._note: str | None = None

    def reset(self, task: TaskContract) -> None:
        """Bring the page into the task's initial state, on a new page if the old one broke."""
        if self._page is not None and (self._page.is_closed() or not self.browser.alive):
            self._leave()
        if self._page is None:
            width, height = max(self.size[0], self.least[0]), max(self.size[1] + self.above, self.least[1])
            self._page = self.browser.new_page(width, height, touch=self.touch, downloads=self.downloads)
            self._moved = False
            self._opened(self._page)
        with self.browser.guard(f"reset {task.app}"):
            self._note = None
            if self._moved:
                self.page.mouse.move(0, 0)
                self._moved = False
            self._begin(task)

    def observe(self) -> Screenshot:
        """What the page shows."""
        with self.browser.guard("take a screenshot"):
            png = screenshot(self.page)
            whole = self.page.viewport_size == {"width": self.size[0], "height": self.size[1]}
            return Screenshot(png if whole else _cut(png, (0, self.above, *self.size)), *self.size)

    def act(self, action: Action) -> None:
        """Carry out one action through the browser's real mouse and keyboard.

        Raises:
            ActionError: the platform has no such action, or a key has no such name.
        """
        if action.name not in ACTIONS or self.platform not in ACTIONS[action.name].platforms:
            raise ActionError(f"{action.name} does not exist on {self.platform}", 0)
        if action.point == REFUSAL:
            return
        self._moved = self._moved or action.point is not None
        with self.browser.guard(f"carry out {action.name}"):
            self._perform(action)

    def state(self) -> dict[str, Any]:
        """The whole programmatic state."""
        with self.browser.guard("read the state"):
            return self._state()

    def digest(self) -> str:
        """A short hash of the state."""
        return digest(self.state())

    def elements(self) -> list[Element]:
        """Everything that can be acted on, in document order; `visible` is the nine-point hit test."""
        with self.browser.guard("measure the page"):
            return found_elements(self._elements(), self.size, self.above)

    def note(self) -> str | None:
        """What the last action gave back as text, once."""
        note, self._note = self._note, None
        return note

    @property
    def over(self) -> bool:
        """Whether the page itself has ended the episode."""
        return False

    def close(self) -> None:
        """Close the page, and the browser if it is the session's own."""
        self._leave()
        if self._owns_browser:
            self.browser.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- for subclasses ----------------------------------------------------------------------------------------------

    @property
    def page(self) -> Page:
        """The open page."""
        assert self._page is not None, "reset the session first"
        return self._page

    def _opened(self, page: Page) -> None:
        """Watch a page that was just opened."""
        # A page that crashed stays open but answers nothing.
        page.on("crash", lambda page: page.close())

    def _leave(self) -> None:
        """Close the page with all that belongs to it; the next reset opens another."""
        from playwright.sync_api import Error

        page, self._page = self._page, None
        if page is not None and self.browser.alive:
            try:
                with self.browser.guard("close a page"):
                    page.context.close()
            except (Error, InfrastructureError):
                self.browser.kill()

    def _begin(self, task: TaskContract) -> None:
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        raise NotImplementedError

    def _elements(self) -> list[Any]:
        """[label, kind, [x0, y0, x1, y1], id, visible] of each element; by default what the DOM's semantics say."""
        elements: list[Any] = self.page.evaluate(_DOM_ELEMENTS)
        return elements

    def _perform(self, action: Action) -> None:
        mouse, keyboard = self.page.mouse, self.page.keyboard
        match action.name:
            case "Click":
                self._click(*self._pixel(action.point))
            case "DoubleClick":
                mouse.dblclick(*self._pixel(action.point))
            case "LongPress":
                mouse.click(*self._pixel(action.point), delay=self.hold_seconds * 1000)
            case "Swipe" if not self.touch:
                # A page without touch scrolls by the wheel: a swipe moves what is under the finger.
                (x0, y0), (x1, y1) = self._pixel(action.point), self._pixel(action.end)
                mouse.move(x0, y0)
                mouse.wheel(x0 - x1, y0 - y1)
            case "Drag" | "Swipe":
                mouse.move(*self._pixel(action.point))
                mouse.down()
                mouse.move(*self._pixel(action.end), steps=4)
                mouse.up()
            case "Type":
                keyboard.type(action.content or "")
            case "Hotkey":
                keyboard.press("+".join(_key(name) for name in action.keys))
            case "PressEnter":
                keyboard.press("Enter")
            case "Scroll":
                dx, dy = _SCROLL[action.direction or "down"]
                mouse.move(*self._pixel(action.point))
                mouse.wheel(dx * self.size[0] / 2, dy * self.size[1] / 2)
            case "Hover":
                mouse.move(*self._pixel(action.point))
            case "SelectOption":
                if not self.page.evaluate(_CHOOSE, action.index):
                    self._note = f"no option {action.index}: click a list that has one first"
            case "Wait":
                self.page.wait_for_timeout(self.wait_seconds * 1000)
            case "CallUser" | "Finished":
                pass
            case _:
                raise ActionError(f"{action.name} is not available here", 0)

    def _click(self, x: float, y: float) -> None:
        """Click; a native `<select>` gives its options back as text instead of a pop-up that no screenshot shows."""
        options = self.page.evaluate(_LOOK_FOR_SELECT, [x, y]) if self.lists and not self.touch else None
        if options is None:
            self.page.mouse.click(x, y)
        else:
            self._note = "\n".join(f"{index}: {option}" for index, option in enumerate(options))

    def _pixel(self, point: Point | None) -> tuple[float, float]:
        assert point is not None
        x, y = to_pixel(point, *self.size)
        return x, y + self.above


def _cut(png: bytes, part: tuple[int, int, int, int]) -> bytes:
    """The part (x, y, width, height) of a picture: quicker than a clip, for which Chromium draws the page again."""
    from PIL import Image

    x, y, width, height = part
    cut = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").crop((x, y, x + width, y + height)).save(cut, "PNG", compress_level=3)
    return cut.getvalue()


def _key(name: str) -> str:
    if name in _KEYS:
        return _KEYS[name]
    if len(name) == 1 and name.isascii() and name.isprintable():
        return name
    raise ActionError(f"no key '{name}'", 0)


_SCROLL = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
"""Directions of a Scroll, each half a screen far."""

_LOOK_FOR_SELECT = """([x, y]) => {
  let found = document.elementFromPoint(x, y);
  for (;;) {
    const inner = found?.shadowRoot?.elementFromPoint(x, y) ?? null;
    if (inner !== null && inner !== found) { found = inner; continue; }
    if (found?.tagName !== "IFRAME" || found.contentDocument === null) break;
    const box = found.getBoundingClientRect();
    x -= box.left + found.clientLeft;
    y -= box.top + found.clientTop;
    found = found.contentDocument.elementFromPoint(x, y);
  }
  found = found?.closest("select") ?? null;
  window.hesperSelect = found !== null && found.size <= 1 && !found.multiple && !found.disabled ? found : null;
  return window.hesperSelect === null ? null : [...found.options].map((option) => option.text);
}"""
_CHOOSE = """(index) => {
  const list = window.hesperSelect ?? null;
  if (list === null || !list.isConnected || index >= list.options.length) return false;
  if (list.options[index].disabled || list.options[index].parentElement.disabled) return false;
  list.selectedIndex = index;
  for (const name of ["input", "change"]) list.dispatchEvent(new Event(name, { bubbles: true }));
  return true;
}"""
_DOM_ELEMENTS = (RUNTIME / "elements.js").read_text(encoding="utf-8")
