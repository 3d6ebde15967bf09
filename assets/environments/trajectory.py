"""Episodes and their steps, as they are recorded and as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from assets.agent.actions import Action, action_to_row, action_type
from assets.agent.observation import Box
from assets.environments.task import TaskContract

if TYPE_CHECKING:
    import pyarrow as pa

Result = Literal["success", "failure", "infrastructure"]


@dataclass(frozen=True)
class Screenshot:
    """PNG bytes of `width` x `height` pixels."""

    png: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Step:
    """One turn: what was seen, what was said, what was done, and the state's digest before and after.

    `actions` is empty where the response could not be understood. `boxes` holds one box for each coordinate of the
    actions in order, or nothing where the policy does not know its targets.
    """

    index: int
    screenshot: Screenshot
    history: tuple[str, ...]
    think: str
    response: str
    actions: tuple[Action, ...]
    boxes: tuple[Box, ...]
    state_before: str
    state_after: str
    error: str = ""


@dataclass
class Episode:
    """One attempt at a task.

    Attributes:
        outcome: of the programmatic check, or `infrastructure` where the environment broke.
        claimed: whether the agent said that it had finished.
        final_screenshot: what the screen showed after the last action (none where the environment broke).
        side_effects: dotted paths that changed without being asked for.
        final_state: the session's state at the end.
    """

    id: str
    task: TaskContract
    policy: str
    steps: list[Step] = field(default_factory=list)
    outcome: Result = "failure"
    claimed: bool = False
    final_screenshot: Screenshot | None = None
    side_effects: tuple[str, ...] = ()
    final_state: dict[str, Any] = field(default_factory=dict)


def episodes_schema() -> pa.Schema:
    """Arrow schema of the episodes table."""
    import pyarrow as pa

    return pa.schema(
        [
            *((name, pa.string()) for name in ("id", "task_id", "policy", "platform", "app", "locale", "split")),
            ("instruction", pa.string()),
            ("keypoints", pa.list_(pa.string())),
            ("steps", pa.int32()),
            ("outcome", pa.string()),
            ("claimed", pa.bool_()),
            ("final_screenshot", image_type()),
        ]
    )


def steps_schema() -> pa.Schema:
    """Arrow schema of the steps table."""
    import pyarrow as pa

    return pa.schema(
        [
            ("episode_id", pa.string()),
            ("index", pa.int32()),
            ("platform", pa.string()),
            ("instruction", pa.string()),
            ("history", pa.list_(pa.string())),
            ("screenshot", image_type()),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("think", pa.string()),
            ("response", pa.string()),
            ("actions", pa.list_(action_type())),
            ("boxes", pa.list_(pa.list_(pa.float32()))),
            ("state_before", pa.string()),
            ("state_after", pa.string()),
        ]
    )


def image_type() -> pa.DataType:
    """An embedded picture, as Hugging Face datasets has it."""
    import pyarrow as pa

    return pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def episode_row(episode: Episode) -> dict[str, Any]:
    """The episode as a row of the episodes table."""
    task = episode.task
    return {
        "id": episode.id,
        "task_id": task.id,
        "policy": episode.policy,
        "platform": task.platform,
        "app": task.app,
        "locale": task.locale,
        "split": task.split,
        "instruction": task.instruction,
        "keypoints": list(task.keypoints),
        "steps": len(episode.steps),
        "outcome": episode.outcome,
        "claimed": episode.claimed,
        "final_screenshot": _image(episode.final_screenshot, f"{episode.id}/final.png"),
    }


def step_rows(episode: Episode) -> list[dict[str, Any]]:
    """The episode's steps as rows of the steps table."""
    return [
        {
            "episode_id": episode.id,
            "index": step.index,
            "platform": episode.task.platform,
            "instruction": episode.task.instruction,
            "history": list(step.history),
            "screenshot": _image(step.screenshot, f"{episode.id}/{step.index:03d}.png"),
            "width": step.screenshot.width,
            "height": step.screenshot.height,
            "think": step.think,
            "response": step.response,
            "actions": [action_to_row(action) for action in step.actions],
            "boxes": _boxes(step.boxes),
            "state_before": step.state_before,
            "state_after": step.state_after,
        }
        for step in episode.steps
    ]


def _boxes(boxes: Sequence[Box]) -> list[list[float]]:
    return [[float(value) for value in box] for box in boxes]


def _image(screenshot: Screenshot | None, path: str) -> dict[str, Any] | None:
    return None if screenshot is None else {"bytes": screenshot.png, "path": path}
