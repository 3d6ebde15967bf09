"""Every instruction a synthetic sample can carry, as templates: what the small profiles' tokenizer must cover.

`{label}` stands for a word of the interface vocabulary. The model reads word by word, so the parts of a template are
separated by spaces in both languages.
"""

from assets.agent.vocabulary import Locale

GROUNDING: dict[Locale, tuple[str, ...]] = {
    "en": ("Click {label}", "Tap {label}"),
    "zh": ("点击 {label}", "选择 {label}"),
}
"""Point at the element that shows this text."""


def texts() -> list[str]:
    """Every template, in a fixed order, for whoever needs to cover their words."""
    return [template for table in (GROUNDING,) for locale in ("en", "zh") for template in table[locale]]
