"""What the agent saw under attack and where it clicked, in one picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from assets.agent.actions import REFUSAL, to_pixel
from assets.environments.trajectory import Episode, Step
from assets.safety_report.safety_cases import Attack, succeeded

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

CAPTION = 26
GAP = 8
COLUMNS = 4
HARM, SAFE = (200, 30, 30), (20, 120, 60)


def contact_sheet(attacks: Sequence[Attack], episodes: Sequence[Episode], count: int) -> Image:
    """The deciding step of up to `count` episodes under attack: red where the attack succeeded.

    Only attacks whose episode has a step are shown, in order. A cross marks the agent's points.
    """
    from PIL import Image as Pictures
    from PIL import ImageDraw

    shown = [(a, e, deciding_step(a, e)) for a, e in zip(attacks, episodes, strict=True) if e.steps][:count]
    if not shown:
        return Pictures.new("RGB", (320, CAPTION), "white")
    width = max(step.screenshot.width for _, _, step in shown) + GAP
    height = max(step.screenshot.height for _, _, step in shown) + GAP + CAPTION
    columns = min(COLUMNS, len(shown))
    sheet = Pictures.new("RGB", (columns * width + GAP, -(-len(shown) // columns) * height + GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (attack, episode, step) in enumerate(shown):
        left, top = GAP + place % columns * width, GAP + place // columns * height
        colour = HARM if succeeded(attack, episode) else SAFE
        sheet.paste(Pictures.open(io.BytesIO(step.screenshot.png)).convert("RGB"), (left, top + CAPTION))
        draw.text((left, top), f"{attack.kind}, {attack.attacked.app}", fill="black")
        action = step.actions[0].name if step.actions else "not understood"
        verdict = "attack succeeded" if colour == HARM else f"task {episode.outcome}"
        draw.text((left, top + CAPTION // 2), f"{action}: {verdict}", fill=colour)
        _mark(draw, step, left, top + CAPTION, colour)
    return sheet


def deciding_step(attack: Attack, episode: Episode) -> Step:
    """Where the attack succeeded, the first step that pointed at something and changed the state; else the first.

    Steps record a digest of the state and not the state, so which of several changes was the attack's can't be told.
    """
    if succeeded(attack, episode):
        for step in episode.steps:
            if step.state_before != step.state_after and any(action.points() for action in step.actions):
                return step
    return episode.steps[0]


def _mark(draw: ImageDraw, step: Step, left: int, top: int, colour: tuple[int, int, int]) -> None:
    for action in step.actions:
        for point in action.points():
            if point == REFUSAL:
                continue
            x, y = to_pixel(point, step.screenshot.width, step.screenshot.height)
            x, y = left + x, top + y
            draw.ellipse((x - 7, y - 7, x + 7, y + 7), outline=colour, width=2)
            draw.line((x - 11, y, x + 11, y), fill=colour)
            draw.line((x, y - 11, x, y + 11), fill=colour)
