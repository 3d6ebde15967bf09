"""MiniWoB++ pages from the PyPI package, with their own reward.

The query header is the instruction, so the screen begins below it. Episodes are drawn from a seed and have no time
limit, and on most pages time stands still between actions (`runtime/clock.js`), so that a slow machine and a fast one
see the same, even where things move.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.agent.actions import Action
from assets.environments.page import RUNTIME, PageSession
from assets.environments.task import TaskContract
from assets.errors import MissingProgramError, ParameterError

if TYPE_CHECKING:
    from playwright.sync_api import Page

PREFIX = "miniwob/"
"""App ids are `miniwob/<page>`."""

TRAIN = (
    "choose-list", "click-button", "click-button-sequence", "click-checkboxes", "click-checkboxes-large",
    "click-checkboxes-transfer", "click-collapsible", "click-collapsible-nodelay", "click-color", "click-dialog",
    "click-link", "click-option", "click-tab", "click-test", "click-test-transfer", "enter-password", "enter-text",
    "enter-text-dynamic", "find-word", "focus-text", "grid-coordinate", "identify-shape", "login-user", "navigate-tree",
    "read-table", "simple-arithmetic", "unicode-test",
)  # fmt: skip
"""Pages that training episodes may come from: those that can be solved by clicks and typing."""

HELDOUT = ("click-test-2", "click-dialog-2", "focus-text-2", "click-widget", "enter-text-2", "click-tab-2-easy")
"""Pages that no training episode comes from.

All of TRAIN and HELDOUT begin a new episode without being loaded again and are then the same as fresh. Nothing happens
on them by itself, and their clock is the machine's.
"""

FULL_HELDOUT = (
    "book-flight", "book-flight-nodelay", "click-tab-2", "click-tab-2-hard", "click-tab-2-medium", "count-shape",
    "count-sides", "drag-shapes", "drag-shapes-2", "find-greatest", "form-sequence", "form-sequence-2",
    "form-sequence-3", "highlight-text", "highlight-text-2", "phone-book", "scroll-text", "scroll-text-2", "terminal",
    "tic-tac-toe", "use-slider", "use-slider-2", "use-spinner",
)  # fmt: skip
"""Other pages that no training episode comes from. All variants of a page are on the same side."""

RELOADED = (
    "chase-circle", "choose-date", "choose-date-easy", "choose-date-medium", "click-menu-2", "click-pie",
    "click-pie-nodelay", "drag-items", "drag-items-grid", "drag-sort-numbers", "form-sequence", "form-sequence-3",
    "moving-items", "order-food", "simon-says", "social-media", "social-media-all", "social-media-some", "stock-market",
    "use-colorwheel", "use-colorwheel-2", "use-slider", "use-slider-2", "use-spinner",
)  # fmt: skip
"""Pages that are loaded again for every episode: begun again, they are not the same as fresh."""

REWARDLESS = ("hover-shape",)
"""Pages whose reward the package leaves out: it pays while the mouse is over the square, and that line is disabled."""

TICK_MS = 200
"""Milliseconds that pass on a page in an action. Long enough for things to move on, short enough that of two flashes of
`simon-says` none falls between two screenshots."""

PATIENT = {"chase-circle": 60, "moving-items": 60, "simon-says": 40, "button-delay": 30, "stock-market": 60}
"""Step budgets of pages on which something has to be waited for; 20 elsewhere."""


@cache
def pages() -> tuple[str, ...]:
    """Names of all pages, sorted.

    Raises:
        MissingProgramError: the package `miniwob` is not installed.
    """
    return tuple(sorted(path.stem for path in (_folder() / "miniwob").glob("*.html")))


def split_of(page: str) -> str:
    """The split that a page belongs to."""
    return "heldout" if page in HELDOUT or page in FULL_HELDOUT else "train"


def scale_of(page: str) -> str:
    """`small` for the pages that the small model is trained and tested on, `full` for all others."""
    return "small" if page in TRAIN or page in HELDOUT else "full"


class MiniwobSession(PageSession):
    """One MiniWoB++ page at a time: a task's app is `miniwob/<page>`, its `initial_state` holds the `seed`.

    Its state: page, seed, utterance, done, success (reward above zero), reward (without the time penalty), and `dom`, a
    hash of what the page holds.
    """

    platform = "web"
    above = 50
    least = (332, 214)

    def task(self, page: str, seed: int) -> TaskContract:
        """The contract of one episode; its instruction is what the page asks."""
        task = TaskContract(
            id=f"{PREFIX}{page}/{seed}",
            platform=self.platform,
            app=PREFIX + page,
            locale="en",
            instruction="",
            initial_state={"seed": seed},
            expected_state={"success": True},
            allowed_side_effects=("done", "reward", "dom", "answer", "notes"),
            step_budget=PATIENT.get(page, 20),
            split=split_of(page),
        )
        self.reset(task)
        return TaskContract(**{**vars(task), "instruction": self.state()["utterance"]})

    @property
    def over(self) -> bool:
        """Whether the page has given its reward."""
        with self.browser.guard("read the reward"):
            return bool(self.page.evaluate("WOB_DONE_GLOBAL"))

    def snapshot(self) -> Any:
        """A page's state lives in its scripts; an episode is brought back by playing it again."""
        return {"task": self._task, "actions": list(self._acted)}

    def restore(self, snapshot: Any) -> None:
        """Play the actions of a snapshot from its seed."""
        self.reset(snapshot["task"])
        for action in snapshot["actions"]:
            self.act(action)

    def _begin(self, task: TaskContract) -> None:
        page = task.app.removeprefix(PREFIX)
        if page not in pages():
            raise ParameterError(f"no MiniWoB++ page '{page}'; known: {', '.join(pages())}")
        self._task = task
        self._acted: list[Action] = []
        self._agent: dict[str, Any] = {"answer": None, "notes": []}
        self._seed = int(task.initial_state.get("seed", 0))
        self._stepped = scale_of(page) == "full"
        self.lists = _has_lists(page)
        address = (_folder() / "miniwob" / f"{page}.html").as_uri()
        if self.page.url == address and page not in RELOADED:
            self.page.evaluate(_RESTART, self._seed)
        else:
            self.page.goto(address, wait_until="load")
            self.page.evaluate(_START, [self._seed, _HIDE, _style_pictures(page)])

    def _opened(self, page: Page) -> None:
        super()._opened(page)
        page.add_init_script(_CLOCK)

    def _state(self) -> dict[str, Any]:
        document, utterance, done, reward = self.page.evaluate(_STATE)
        return {
            "page": self._task.app.removeprefix(PREFIX),
            "seed": self._seed,
            "utterance": utterance,
            "done": done,
            "success": done and reward > 0,
            "reward": reward,
            "dom": hashlib.sha256(document.encode()).hexdigest()[:16],
            **self._agent,
        }

    def _perform(self, action: Action) -> None:
        self._acted.append(action)
        if self._stepped and action.name == "Drag":
            self.page.evaluate("hesperClock.hold()")
        self._carry_out(action)
        if self._stepped:
            held = round(self.hold_seconds * 1000) if action.name == "LongPress" else 0
            self.page.evaluate(_TICK, [TICK_MS + held, action.name in ("Scroll", "Swipe")])

    def _carry_out(self, action: Action) -> None:
        match action.name:
            case "Finished":
                self._agent["answer"] = action.content or self._agent["answer"]
            case "TakeNote":
                self._agent["notes"].append(action.content)
            case "GetUrl":
                self._note = self.page.url.rpartition("/")[2]
            case "PressBack" | "Launch":
                # One page is all there is: leaving it would end the episode without a reward.
                self._note = "there is no other page"
            case _:
                super()._perform(action)


_HIDE = "#reward-display, #click-canvas, #sync-task-cover { display: none !important; } #query { overflow: hidden; }"
_PAINTED = "await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));"
"""Pages make their pictures when an episode begins, and the browser reads them when it has time to."""
_WRITTEN = "void document.getElementById('area').innerHTML;"
"""What scripts change of a style stands among an element's attributes from when they are first read, after those that
were set until then. Read after every change, their order is the page's, and does not tell who looked when."""

_START = (
    """async ([seed, hide, pictures]) => {
  // A style's picture is read when something first needs it, and painted whenever that is done. Read now, and kept for
  // as long as the page, it is there when needed.
  window.hesperPictures = pictures.map((address) => Object.assign(new Image(), { src: address }));
  await Promise.all(window.hesperPictures.map((image) => image.decode().catch(() => {})));
  const style = document.createElement("style");
  style.textContent = hide;
  document.head.append(style);
  if (window.jQuery) jQuery.fx.off = true;
  core.EPISODE_MAX_TIME = 2147483647;
  window.hesperClock?.advance(100);
  window.hesperClock?.keep();
  window.hesperClock?.rewind();
  Math.seedrandom(seed);
  core.startEpisodeReal();
  window.hesperClock?.advance(1);
  """
    + _WRITTEN
    + _PAINTED
    + "}"
)
_RESTART = (
    """async (seed) => {
  document.activeElement?.blur();
  window.hesperClock?.rewind();
  Math.seedrandom(seed);
  core.startEpisodeReal();
  window.hesperClock?.advance(1);
  """
    + _WRITTEN
    + _PAINTED
    + "}"
)
_TICK = (
    """async ([milliseconds, scrolled]) => {
  if (scrolled) await hesperClock.frames();
  hesperClock.advance(milliseconds);
  """
    + _WRITTEN
    + _PAINTED
    + "}"
)
_STATE = """() => {
  const controls = [...document.querySelectorAll("#area input, #area textarea, #area select")];
  const values = controls.map((control) => [control.value, control.checked]);
  const focused = controls.indexOf(document.activeElement);
  // MiniWoB++ marks what was touched, and the mark outlives the episode.
  const area = document.getElementById("area").innerHTML.replace(/ data-tampered="[^"]*"/g, "");
  const document_ = JSON.stringify([area, values, focused]);
  // Pages with instructions from people give theirs with its slots.
  const utterance = core.getUtterance();
  return [document_, utterance.utterance ?? utterance, WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL];
}"""


_CLOCK = f"""if (!{json.dumps([*TRAIN, *HELDOUT])}.some((name) => location.pathname.endsWith(`/${{name}}.html`)))
{(RUNTIME / "clock.js").read_text(encoding="utf-8")}"""


@cache
def _has_lists(page: str) -> bool:
    """Whether a page holds or makes native `<select>`s."""
    source = (_folder() / "miniwob" / f"{page}.html").read_text(encoding="utf-8")
    return re.search(r"<select|[(]['\"]select['\"][)]", source) is not None


@cache
def _style_pictures(page: str) -> list[str]:
    """Addresses of the pictures that a page's own styles and its style sheets name."""
    folder = _folder() / "miniwob"
    source = (folder / f"{page}.html").read_text(encoding="utf-8")
    links = re.findall(r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"([^\"]+)\"", source)
    sheets = [folder / link for link in links]
    texts = [(folder, source), *((sheet.parent, sheet.read_text(encoding="utf-8")) for sheet in sheets)]
    found = {
        (base / name).resolve()
        for base, text in texts
        for name in re.findall(r"url\(['\"]?([\w./-]+\.(?:png|gif|jpg|svg))['\"]?\)", text)
    }
    return sorted(path.as_uri() for path in found if path.is_file())


def _folder() -> Path:
    try:
        return Path(str(resources.files("miniwob"))) / "html"
    except ModuleNotFoundError:
        raise MissingProgramError("MiniWoB++ is not installed: `pip install miniwob`") from None
