"""A session on the page of a puzzle: real input in Chromium, as a phone or as a browser's window."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

from assets.agent.actions import Action
from assets.environments.chromium import Chromium
from assets.environments.page import PageSession
from assets.environments.task import TaskContract
from assets.errors import ParameterError
from assets.synthetic_samples.captcha.latent import Puzzle, draw_puzzle
from assets.synthetic_samples.captcha.page import puzzle_page
from assets.synthetic_samples.captcha.settings import PuzzlePlatform, draw_setting
from assets.synthetic_samples.captcha.types import TYPES
from assets.synthetic_samples.themes import Split


class CaptchaSession(PageSession):
    """Plays tasks of the app `captcha/<type>`, as `captcha_task` makes them.

    Its state is the page's own: `verdict` (open, accepted, locked), the number of the `puzzle`, `rejections` and
    `renewals` so far.
    """

    lists = False

    def __init__(
        self,
        size: tuple[int, int],
        browser: Chromium | None = None,
        platform: PuzzlePlatform = "web",
    ) -> None:
        super().__init__(size, browser)
        self.platform = platform
        self.touch = platform == "mobile"
        self.puzzles: list[Puzzle] = []
        self._task: TaskContract | None = None
        self._acted: list[Action] = []

    @property
    def puzzle(self) -> Puzzle:
        """The one that the page shows."""
        return self.puzzles[self.state()["puzzle"]]

    def snapshot(self) -> dict[str, Any]:
        """The task and what was done: a page is brought back by doing the same again."""
        return {"task": self._task, "actions": list(self._acted)}

    def restore(self, snapshot: Any) -> None:
        """Bring a snapshot back."""
        self.reset(snapshot["task"])
        for action in snapshot["actions"]:
            self.act(action)

    def _begin(self, task: TaskContract) -> None:
        if task != self._task:
            self.puzzles = task_puzzles(task, self.size)
        self._task, self._acted = task, []
        self.page.set_content(puzzle_page(self.puzzles), wait_until="domcontentloaded")

    def _perform(self, action: Action) -> None:
        super()._perform(action)
        self._acted.append(action)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.page.evaluate("captcha.state")
        return state


def captcha_task(
    type: str,
    seed: int,
    platform: PuzzlePlatform,
    screen: tuple[int, int],
    difficulty: int,
    split: Split = "train",
    attempts: int = 4,
) -> TaskContract:
    """The task to solve the puzzle of a seed, or one of those after it: the page is locked after so many `attempts`."""
    wanted = {"seed": seed, "difficulty": difficulty, "attempts": attempts}
    task = TaskContract(
        id=f"captcha/{type}/{platform}/{split}/{difficulty}/{seed}",
        platform=platform,
        app=f"captcha/{type}",
        locale="",
        instruction="",
        resources=wanted,
        expected_state={"verdict": "accepted"},
        allowed_side_effects=("puzzle", "rejections", "renewals"),
        step_budget=attempts,
        split=split,
    )
    first = next(_drawn(task, screen))
    return replace(task, locale=first.setting.locale, instruction=first.instruction)


def task_puzzles(task: TaskContract, screen: tuple[int, int]) -> list[Puzzle]:
    """The puzzles of a task's page: that of its seed and those of the seeds after it, in one setting.

    Raises:
        ParameterError: there is no such type of puzzle.
    """
    return list(islice(_drawn(task, screen), task.resources["attempts"]))


def _drawn(task: TaskContract, screen: tuple[int, int]) -> Iterator[Puzzle]:
    name = task.app.removeprefix("captcha/")
    if name not in TYPES:
        raise ParameterError(f"no such type of puzzle: {name}; known: {', '.join(TYPES)}")
    rng = random.Random(f"setting/{task.split}/{task.platform}/{task.resources['seed']}")
    platform: PuzzlePlatform = "mobile" if task.platform == "mobile" else "web"
    split: Split = "heldout" if task.split == "heldout" else "train"
    setting = draw_setting(rng, split, platform, screen, task.resources["difficulty"])
    for seed in count(task.resources["seed"]):
        yield draw_puzzle(TYPES[name], seed, setting)
