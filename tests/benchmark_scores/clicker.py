"""A scripted agent that sees what is on the screen: for tests that need to know what an agent will do."""

from collections.abc import Sequence

from assets.agent.actions import Action, from_pixel, render_response
from assets.agent.observation import Observation
from assets.environments.session import Session


class Clicker:
    """Clicks the first of its labels that is on the screen and that it has not clicked yet, then says it is done."""

    name = "clicker"

    def __init__(self, session: Session, labels: Sequence[str]) -> None:
        self._session = session
        self._labels = labels

    def respond(self, observations: Sequence[Observation]) -> list[str]:
        (seen,) = observations
        on_screen = {element.label: element for element in self._session.elements() if element.visible}
        for label in self._labels:
            if label in on_screen and not any(f"<think>{label}<" in said for said in seen.history):
                point = from_pixel(*on_screen[label].center, seen.width, seen.height)
                return [render_response(label, [Action("Click", point=point)], 3)]
        return [render_response("done", [Action("Finished", content="")], 3)]
