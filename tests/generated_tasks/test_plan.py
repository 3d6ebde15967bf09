"""Where a plan's presses go."""

from __future__ import annotations

import pytest

from assets.agent.actions import Action, from_pixel
from assets.environments.session import Element
from assets.generated_tasks.plan import PlannedStep, to_action

SIZE = (360, 720)
CARD = Element("05:20", "row", (88, 89, 344, 206), "alarms/1")
SWITCH = Element("", "switch", (101, 147, 331, 193), "alarms/1/on")
BELOW = Element("06:40", "row", (88, 216, 344, 333), "alarms/2")


@pytest.mark.parametrize(
    ("screen", "place"),
    [
        ([CARD, BELOW], (216, 147.5)),  # its middle
        ([CARD, SWITCH, BELOW], (216, 108.5)),  # above the switch, which covers its middle
        ([CARD, Element("", "switch", SWITCH.box, SWITCH.id, visible=False)], (216, 147.5)),
    ],
)
def test_a_press_goes_beside_what_lies_upon_the_middle(screen: list[Element], place: tuple[float, float]) -> None:
    action = to_action(PlannedStep("Click", CARD.id), CARD, screen, SIZE)
    assert action == Action("Click", point=from_pixel(*place, *SIZE))


def test_a_step_that_points_at_nothing_has_no_point() -> None:
    step = PlannedStep("Type", content="Tea")
    assert to_action(step, None, [CARD], SIZE) == Action("Type", content="Tea")
