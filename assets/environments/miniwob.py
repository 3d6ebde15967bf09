"""MiniWoB++ pages from the PyPI package, with their own reward.

The query header is the instruction, so the screen begins below it; episodes are drawn from a seed and have no time
limit, so that a slow machine and a fast one see the same.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from assets.agent.actions import Action
from assets.environments.page import PageSession
from assets.environments.task import TaskContract
from assets.errors import MissingProgramError, ParameterError

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

All of TRAIN and HELDOUT begin a new episode without being loaded again and are then the same as fresh.
"""


@cache
def pages() -> tuple[str, ...]:
    """Names of all pages, sorted.

    Raises:
        MissingProgramError: the package `miniwob` is not installed.
    """
    return tuple(sorted(path.stem for path in (_folder() / "miniwob").glob("*.html")))


def split_of(page: str) -> str:
    """The split that a page belongs to."""
    return "heldout" if page in HELDOUT else "train"


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
            step_budget=20,
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
        address = (_folder() / "miniwob" / f"{page}.html").as_uri()
        if self.page.url == address and page in (*TRAIN, *HELDOUT):
            self.page.evaluate(_RESTART, self._seed)
        else:
            self.page.goto(address, wait_until="load")
            self.page.evaluate(_START, [self._seed, _HIDE])

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
_START = """([seed, hide]) => {
  const style = document.createElement("style");
  style.textContent = hide;
  document.head.append(style);
  if (window.jQuery) jQuery.fx.off = true;
  core.EPISODE_MAX_TIME = 2147483647;
  Math.seedrandom(seed);
  core.startEpisodeReal();
}"""
_RESTART = """(seed) => {
  document.activeElement?.blur();
  Math.seedrandom(seed);
  core.startEpisodeReal();
}"""
_STATE = """() => {
  const controls = [...document.querySelectorAll("#area input, #area textarea, #area select")];
  const values = controls.map((control) => [control.value, control.checked]);
  const focused = controls.indexOf(document.activeElement);
  // MiniWoB++ marks what was touched, and the mark outlives the episode.
  const area = document.getElementById("area").innerHTML.replace(/ data-tampered="[^"]*"/g, "");
  const document_ = JSON.stringify([area, values, focused]);
  return [document_, core.getUtterance(), WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL];
}"""


def _folder() -> Path:
    try:
        return Path(str(resources.files("miniwob"))) / "html"
    except ModuleNotFoundError:
        raise MissingProgramError("MiniWoB++ is not installed: `pip install miniwob`") from None
