"""A simulated phone: a page of the browser that shows its apps, its files and its settings."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from assets.environments.adb.devtools import BrokenError, Browser, Key, Page, gathered
from assets.environments.adb.files import PICTURES, Files

RUNTIME_URL = (Path(__file__).parents[1] / "runtime" / "runtime.html").as_uri()
PACKAGE = "org.hesper."
LAUNCHER = PACKAGE + "launcher"
ACTIVITY = "MainActivity"
KEYBOARD = "com.android.adbkeyboard/.AdbIME"
"""The input method that takes text by broadcast, Chinese too: https://github.com/senzhk/ADBKeyBoard."""
LATIN_KEYBOARD = "com.android.inputmethod.latin/.LatinIME"

LONG_PRESS_SECONDS = 0.55
"""How long a finger rests before `draganddrop` moves; Android waits for its long-press time-out, too."""
SWIPE_STEPS = 4
"""Moves of a swipe, as fast as the page follows."""

_SETTINGS: dict[str, dict[str, str]] = {
    "system": {"accelerometer_rotation": "0", "font_scale": "1.0", "screen_brightness": "128",
               "screen_brightness_mode": "0", "screen_off_timeout": "2147483647", "show_touches": "0",
               "user_rotation": "0"},
    "secure": {"default_input_method": KEYBOARD, "enabled_input_methods": f"{LATIN_KEYBOARD}:{KEYBOARD}",
               "location_mode": "0"},
    "global": {"adb_enabled": "1", "airplane_mode_on": "0", "animator_duration_scale": "0.0",
               "development_settings_enabled": "1", "device_name": "Hesper", "transition_animation_scale": "0.0",
               "wifi_on": "0", "window_animation_scale": "0.0"},
}  # fmt: skip


@dataclass(frozen=True)
class App:
    """What the phone knows of an app before it is opened."""

    id: str
    title: str
    locale: str
    category: str = ""

    @property
    def package(self) -> str:
        """Its Android package."""
        return package_of(self.id)


def package_of(app: str) -> str:
    """The Android package of an app's id."""
    return PACKAGE + app.replace("-", "_")


class Catalogue(Protocol):
    """The apps of a phone."""

    @property
    def apps(self) -> Mapping[str, App]:
        """What the phone knows of each before it is opened, by id."""
        ...

    def installation(self) -> dict[str, Any]:
        """What the runtime is installed with."""
        ...

    def spec(self, app: str) -> Any:
        """An app's spec, as the runtime reads it."""
        ...

    def defaults(self, app: str) -> Any:
        """An app's part of the state before anybody touched it."""
        ...


class Device:
    """A phone with its screen. Commands of several clients take turns.

    Attributes:
        serial, transport: its name, and its number among all that the server ever had.
        size: width and height of its screen, in pixels.
        has_program: whether its shell knows `hesper`, which no real phone has.
    """

    product = "hesper"
    model = "Hesper_Phone"

    def __init__(
        self, serial: str, transport: int, size: tuple[int, int], catalogue: Catalogue, capacity: int, has_program: bool
    ) -> None:
        self.serial = serial
        self.transport = transport
        self.size = size
        self.catalogue = catalogue
        self.has_program = has_program
        self.files = Files(capacity)
        self.settings = {name: dict(values) for name, values in _SETTINGS.items()}
        self.turn = asyncio.Lock()
        self._packages = {app.package: app.id for app in catalogue.apps.values()}
        self._shipped: set[str] = set()
        self._page: Page | None = None

    async def start(self, browser: Browser) -> None:
        """Switch it on: its launcher shows.

        Raises:
            BrokenError: the browser does not do it.
        """
        self._page = await browser.new_page(RUNTIME_URL, *self.size)
        await self._page.evaluate(f"hesper.install({_json(self.catalogue.installation())})")
        await self.set_state(EMPTY_STATE)

    @property
    def broken(self) -> bool:
        """Whether its page crashed, hangs or lost its browser."""
        return self._page is None or self._page.broken.is_set()

    @property
    def state(self) -> str:
        """What `adb devices` shows."""
        return "offline" if self.broken else "device"

    @property
    def page(self) -> Page:
        """The screen."""
        if self._page is None:
            raise BrokenError("the phone is off")
        return self._page

    async def close(self) -> None:
        """Give the page back."""
        if self._page is not None:
            await self._page.close()

    # --- the finger --------------------------------------------------------------------------------------------------

    async def press(self, x: float, y: float, seconds: float = 0.0, clicks: int = 1) -> None:
        """Tap, or press for so long. `clicks` is 2 for the second tap of a double one.

        A page of ours tells how long a press was by the times of its two ends, so nobody has to wait for it.
        """
        if not (0 <= x < self.size[0] and 0 <= y < self.size[1]):
            return
        page, now = self.page, time.time()
        # In order, without waiting for each answer.
        await gathered(
            page.move(x, y), page.press(x, y, clicks, when=now - seconds), page.release(x, y, clicks, when=now)
        )
        await self._provide()

    async def drag(self, x0: float, y0: float, x1: float, y1: float, hold: float = 0.0) -> None:
        """Put the finger down, rest as long as `hold` seconds for the page, move and lift it."""
        page, now = self.page, time.time()
        await page.move(x0, y0)
        await page.press(x0, y0, when=now - hold)
        for step in range(1, SWIPE_STEPS + 1):
            part = step / SWIPE_STEPS
            await page.move(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part, pressed=True)
        await page.release(x1, y1, when=now)
        await self._provide()

    # --- keys and text -----------------------------------------------------------------------------------------------

    async def key(self, key: Key, modifiers: int = 0) -> None:
        """Press and release a key of a keyboard."""
        await self.page.key(key, modifiers)
        await self._provide()

    async def insert(self, text: str) -> None:
        """Put text into the field that has the focus."""
        await self.page.insert(text)

    async def back(self) -> None:
        """The key that leads back."""
        await self._run("hesper.back()")

    async def home(self) -> None:
        """The key that leads to the launcher."""
        await self._run("hesper.launcher(false)")

    async def recent(self) -> None:
        """The key that shows the apps used last."""
        await self._run("hesper.launcher(true)")

    # --- apps --------------------------------------------------------------------------------------------------------

    def app_of(self, package: str) -> App | None:
        """The app of an Android package."""
        identity = self._packages.get(package)
        return None if identity is None else self.catalogue.apps[identity]

    async def launch(self, app: App) -> None:
        """Start an app on its first screen."""
        await self._run(f"hesper.provide({self._shipment(app.id)}); hesper.launch({_json(app.id)})")

    async def stop(self, app: App) -> None:
        """End an app: it is no longer among those used last, and the launcher shows where it stood."""
        state = await self.get_state()
        state["recents"] = [other for other in state["recents"] if other != app.id]
        if state["foreground"] == app.id:
            state["foreground"] = "launcher"
            await self.set_state(state)
            await self.home()
        else:
            await self.set_state(state)

    async def clear(self, app: App) -> None:
        """End an app and forget all that it kept."""
        await self.stop(app)
        state = await self.get_state()
        state["apps"].pop(app.id, None)
        await self.set_state(state)

    async def focus(self) -> str:
        """`package/activity` that has the focus."""
        foreground = await self.page.evaluate("hesper.get().foreground")
        app = self.catalogue.apps.get(foreground)
        return f"{LAUNCHER}/{LAUNCHER}.{ACTIVITY}" if app is None else f"{app.package}/{app.package}.{ACTIVITY}"

    # --- the whole state ---------------------------------------------------------------------------------------------

    async def get_state(self) -> dict[str, Any]:
        """What the runtime holds."""
        state: dict[str, Any] = json.loads(await self.state_text())
        return state

    async def state_text(self) -> str:
        """The same as JSON."""
        return str(await self.page.evaluate("JSON.stringify(hesper.get())"))

    async def set_state(self, state: Mapping[str, Any]) -> None:
        """Bring a state back.

        Raises:
            ScriptError: the runtime can't show it; it shows the one before.
        """
        shipment = self._shipment(*sorted({state.get("foreground"), *state.get("apps", {})}))
        show = f"hesper.provide({shipment}); hesper.set({_json(state)});"
        await self._run(
            f"{{ const before = structuredClone(hesper.get()); try {{ {show} }} "
            "catch (error) { if (before !== null) hesper.set(before); throw error; } }"
        )

    async def begin(self, state: Mapping[str, Any]) -> None:
        """As the phone came, in a given state: nothing of what was done on it before is left."""
        self.files.clear()
        self.settings = {name: dict(values) for name, values in _SETTINGS.items()}
        await self.page.move(0, 0)
        await self.set_state(state)

    async def elements_text(self) -> str:
        """JSON of [label, kind, box, id, visible, fits] of what is on the screen."""
        return str(await self.page.evaluate("JSON.stringify(hesper.elements())"))

    async def save_screenshot(self) -> str:
        """Save what the screen shows to the album; returns the file's path."""
        number = sum(1 for _ in self.files.list(PICTURES)) + 1
        path = f"{PICTURES}/Screenshot_{number:04d}.png"
        self.files.write(path, await self.page.screenshot())
        return path

    async def _run(self, script: str) -> None:
        """Run a script, then give the runtime the spec of the app that it shows, if it lacks that."""
        wanted = await self.page.evaluate(f"{script}; hesper.wanted()")
        if wanted is not None:
            await self.page.evaluate(f"hesper.begin({self._shipment(wanted)})")

    async def _provide(self) -> None:
        await self._run("0")

    def _shipment(self, *apps: str) -> str:
        """JSON of the specs that the page lacks of these apps; a spec travels when its app is first needed."""
        missing = [app for app in apps if app in self.catalogue.apps and app not in self._shipped]
        self._shipped.update(missing)
        specs = {app: self.catalogue.spec(app) for app in missing}
        return _json({"specs": specs, "defaults": {app: self.catalogue.defaults(app) for app in missing}})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


EMPTY_STATE: dict[str, Any] = {
    "foreground": "launcher",
    "recents": [],
    "view": {"screen": "", "stack": [], "dialog": None, "item": None, "focus": None, "scroll": 0},
    "apps": {},
    "attack": None,
    "attack_triggered": False,
    "attack_dismissed": False,
}
"""The runtime's state on a phone that was just switched on."""
