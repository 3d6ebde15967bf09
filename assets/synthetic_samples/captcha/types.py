"""All full-scale types of puzzle, by name."""

from __future__ import annotations

from assets.synthetic_samples.captcha import (
    drag_to_end,
    icon_click_order,
    one_click,
    rotation,
    slider_puzzle,
    text_click_order,
    text_entry,
    visual_reasoning,
)
from assets.synthetic_samples.captcha.latent import PuzzleType

_FAMILIES = (
    text_entry,
    text_click_order,
    icon_click_order,
    rotation,
    drag_to_end,
    slider_puzzle,
    visual_reasoning,
    one_click,
)

TYPES: dict[str, PuzzleType] = {type.name: type for family in _FAMILIES for type in family.TYPES}
