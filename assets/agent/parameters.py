"""The `agent` section of params.yaml: what every link must agree on about the agent."""

from typing import Literal

from pydantic import Field, PositiveInt

from assets.stage import StageParameters


class AgentParameters(StageParameters):
    """Read with `stage.section("agent", AgentParameters)`.

    Attributes:
        screen: width and height in pixels of every screenshot that a small profile makes.
        coordinate_digits: zero-padded width of a coordinate in a response; 0 writes it as it is.
        system_prompt: whether the system line spells out the action space.
        screenshots: how many of the last screenshots the model sees.
    """

    screen: tuple[PositiveInt, PositiveInt]
    coordinate_digits: int = Field(ge=0, le=3)
    system_prompt: Literal["brief", "full"]
    screenshots: PositiveInt
