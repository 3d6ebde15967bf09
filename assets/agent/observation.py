"""What an agent sees in one turn, and what a policy is: observations in, responses out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from assets.agent.actions import ACTIONS, Action, render_response
from assets.errors import InfrastructureError

Box = tuple[float, float, float, float]
"""Pixels of a screenshot, half-open: x0, y0, x1, y1."""


@dataclass(frozen=True)
class Observation:
    """One turn's input.

    Attributes:
        screenshot: PNG bytes of `width` x `height` pixels.
        history: every earlier response of the episode, oldest first.
        note: text that the last action asked for (the URL of a GetUrl, the options of a `<select>`), if any.
        earlier: screenshots of the turns before this one, oldest first.
    """

    screenshot: bytes
    width: int
    height: int
    platform: str
    instruction: str
    history: tuple[str, ...] = ()
    note: str | None = None
    earlier: tuple[bytes, ...] = ()


class Policy(Protocol):
    """Whatever answers observations: a model, an oracle, chance."""

    name: str

    def respond(self, observations: Sequence[Observation]) -> Sequence[str | InfrastructureError]:
        """One response for each observation; they are independent of one another and may be batched.

        An error stands where there is no answer because something between here and the model broke.
        """
        ...


@runtime_checkable
class KnowsTargets(Protocol):
    """A policy that also knows what it aims at: oracles do, models don't."""

    def targets(self) -> list[list[Box]]:
        """For each response of the last `respond`, the boxes of its actions' coordinates in order."""
        ...


class RandomPolicy:
    """The chance level: a random legal action at a random place, never the end of the task."""

    name = "random"

    def __init__(self, seed: int, digits: int = 0) -> None:
        self._random = random.Random(seed)
        self._digits = digits

    def respond(self, observations: Sequence[Observation]) -> list[str]:
        """One random pointing action each."""
        return [
            render_response(None, [self._action(observation.platform)], self._digits) for observation in observations
        ]

    def _action(self, platform: str) -> Action:
        pointing = [
            name
            for name, form in ACTIONS.items()
            if platform in form.platforms and [parameter.field for parameter in form.parameters] == ["point"]
        ]
        return Action(self._random.choice(pointing), point=(self._random.randrange(1000), self._random.randrange(1000)))
