"""The random explorer: sees what can be acted on, and has nothing in mind.

Its episodes reach what no task asks for; verification writes into the catalogue what became of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from assets.agent.actions import Action, from_pixel, render_response
from assets.agent.observation import Box, Observation
from assets.agent.vocabulary import WORDS, Locale
from assets.environments.exploration import INPUT_KINDS
from assets.environments.miniwob import PREFIX
from assets.environments.session import Element, Session
from assets.environments.task import TaskContract
from assets.generated_tasks.oracle import BACK
from assets.generated_tasks.templates import thought_of_typing

Turn = tuple[str, Action, list[Box]]
"""A thought, an action and the boxes of its coordinates."""


class ExplorerPolicy:
    """Clicks what it has clicked least so far, types a word into what takes text, sometimes scrolls or goes back.

    It never says that it is done: its episodes end with their budget.

    Args:
        session: where it plays; asked for the elements on the screen.
        scroll: how often it scrolls, of all turns.
        back: how often it goes back, where the platform has a way back.
    """

    name = "explorer"

    def __init__(
        self,
        session: Session,
        task: TaskContract,
        rng: random.Random,
        digits: int = 0,
        scroll: float = 0.1,
        back: float = 0.15,
    ) -> None:
        self._session = session
        self._locale: Locale = "zh" if task.locale == "zh" else "en"
        self._rng = rng
        self._digits = digits
        self._scroll = scroll
        self._back = back if task.platform != "desktop" and not task.app.startswith(PREFIX) else 0.0
        self._clicked: Counter[str] = Counter()
        self._typing = False
        self._targets: list[list[Box]] = []

    def respond(self, observations: Sequence[Observation]) -> list[str]:
        """One turn."""
        (seen,) = observations
        thought, action, boxes = self._turn(seen)
        self._targets = [boxes]
        return [render_response(thought, [action], self._digits)]

    def targets(self) -> list[list[Box]]:
        """The box of what the last turn clicked."""
        return self._targets

    def _turn(self, seen: Observation) -> Turn:
        if self._typing:
            self._typing = False
            word = self._rng.choice(WORDS[self._locale])
            return thought_of_typing(word, self._locale), Action("Type", content=word), []
        chance = self._rng.random()
        if chance < self._back:
            return BACK[self._locale], Action("PressBack"), []
        elements = [element for element in self._session.elements() if element.visible]
        if chance < self._back + self._scroll or not elements:
            return "", self._scrolling(seen.platform), []
        return self._click(elements, seen)

    def _click(self, elements: Sequence[Element], seen: Observation) -> Turn:
        least = min(self._clicked[element.id] for element in elements)
        element = self._rng.choice([element for element in elements if self._clicked[element.id] == least])
        self._clicked[element.id] += 1
        self._typing = element.kind in INPUT_KINDS or element.kind in ("input:text", "textarea")
        thought = "" if "<" in element.label else element.label
        return thought, Action("Click", point=from_pixel(*element.center, seen.width, seen.height)), [element.box]

    def _scrolling(self, platform: str) -> Action:
        down = self._rng.random() < 0.7
        if platform == "web":
            return Action("Scroll", point=(500, 500), direction="down" if down else "up")
        low, high = (500, 700), (500, 300)
        return Action("Swipe", point=low if down else high, end=high if down else low)
