"""A model behind an endpoint as a policy: shown what a model of ours is shown, in words that suit any model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assets.agent import prompts
from assets.agent.endpoint import Endpoint, image_part
from assets.agent.observation import Observation
from assets.agent.prompts import SystemPrompt
from assets.errors import InfrastructureError


class EndpointPolicy:
    """Asks an endpoint for every response. Where it does not answer, that is never the model's failure.

    Args:
        system_prompt: `full` tells a model of others the action space.
        screenshots: how many of the last screenshots are shown.
        name: how tables call it; the model's name by default.
    """

    def __init__(
        self, endpoint: Endpoint, system_prompt: SystemPrompt = "full", screenshots: int = 1, name: str | None = None
    ) -> None:
        self.name = name or endpoint.parameters.model
        self.endpoint = endpoint
        self._system_prompt: SystemPrompt = system_prompt
        self._screenshots = screenshots

    def respond(self, observations: Sequence[Observation]) -> Sequence[str | InfrastructureError]:
        """One response for each observation, asked for side by side; an error where the endpoint gave none."""
        return self.endpoint.ask_all([self._conversation(seen) for seen in observations])

    def _conversation(self, seen: Observation) -> list[dict[str, Any]]:
        """The chat of one turn: as in training, with the screenshots in their places. A note follows the history."""
        shown = [*seen.earlier, seen.screenshot][-self._screenshots :]
        history = seen.history if seen.note is None else (*seen.history, seen.note)
        chat = prompts.messages(seen.platform, seen.instruction, history, self._system_prompt, len(shown))
        waiting = iter(shown)
        return [
            {**turn, "content": [image_part(next(waiting)) if part["type"] == "image" else part for part in parts]}
            if isinstance(parts := turn["content"], list)
            else turn
            for turn in chat
        ]
