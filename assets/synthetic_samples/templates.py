"""Every instruction a synthetic sample can carry, as templates: what the small profiles' tokenizer must cover.

The model reads word by word, so words are separated by spaces in both languages. `{label}` is a word of the interface
vocabulary; the other fields are the words listed here.
"""

import re

from assets.agent.vocabulary import Locale

GROUNDING: dict[Locale, tuple[str, ...]] = {
    "en": ("Click {label}", "Tap {label}"),
    "zh": ("点击 {label}", "选择 {label}"),
}
"""Point at the element that shows this text."""

PUZZLES: dict[str, dict[Locale, str]] = {
    "click_order": {"en": "Click {things}", "zh": "点击 {things}"},
    "colour": {"en": "Click {colour} {shape}", "zh": "点击 {colour} {shape}"},
    "largest": {"en": "Click largest {shape}", "zh": "点击 最大 {shape}"},
    "smallest": {"en": "Click smallest {shape}", "zh": "点击 最小 {shape}"},
    "different": {"en": "Click different shape", "zh": "点击 不同 图形"},
    "tick": {"en": "Tick box", "zh": "勾选 方框"},
    "slide_to_gap": {"en": "Drag slider to gap", "zh": "拖动 滑块 到 缺口"},
    "slide_to_end": {"en": "Drag slider to end", "zh": "拖动 滑块 到 终点"},
    "drop": {"en": "Drag {shape} to box", "zh": "拖动 {shape} 到 方框"},
}
"""What a puzzle asks. `{things}` are words or shapes in the order in which to click them, joined by THEN."""

THEN: dict[Locale, str] = {"en": " then ", "zh": " 然后 "}

SHAPES: dict[str, dict[Locale, str]] = {
    "circle": {"en": "circle", "zh": "圆形"},
    "square": {"en": "square", "zh": "方形"},
    "triangle": {"en": "triangle", "zh": "三角"},
    "star": {"en": "star", "zh": "星形"},
    "cross": {"en": "cross", "zh": "十字"},
}

COLOURS: tuple[dict[Locale, str], ...] = (
    {"en": "red", "zh": "红色"},
    {"en": "blue", "zh": "蓝色"},
    {"en": "green", "zh": "绿色"},
    {"en": "grey", "zh": "灰色"},
    {"en": "orange", "zh": "橙色"},
    {"en": "purple", "zh": "紫色"},
)
"""Names of a theme's fills, in their order."""

PARTS: tuple[str, ...] = ("slider", "gap", "end", "box")
"""Labels of the parts of a puzzle that bear no text; shapes are labelled with their English name."""


def words() -> list[str]:
    """Every word of the templates and of what fills them, sorted; the interface vocabulary comes on top."""
    texts = [template for locale in GROUNDING for template in GROUNDING[locale]]
    texts += [template for by_locale in PUZZLES.values() for template in by_locale.values()]
    texts += list(THEN.values())
    texts += [name for names in (*SHAPES.values(), *COLOURS) for name in names.values()]
    texts += PARTS
    return sorted({word for text in texts for word in re.sub(r"\{\w+\}", " ", text).split()})
