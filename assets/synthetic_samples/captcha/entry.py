"""Answers by typing: a text field below the picture."""

from __future__ import annotations

import html
import random
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.captcha.latent import Answer, Box, Facts, Gesture

ROW = 46
"""Height of the row with the field."""

LABEL: dict[Locale, str] = {"en": "Answer", "zh": "答案"}


@dataclass(frozen=True)
class Entry:
    """Type the first of `answers`; the others are further ways to write it. Case, spaces and full-width forms don't
    matter."""

    answers: tuple[str, ...]
    picture: tuple[int, int]
    script: str = "entry.js"
    confirm: bool = True
    strip: int = ROW

    @property
    def field(self) -> Box:
        """Where the text field is."""
        width, height = self.picture
        return (0, height + 6, min(width, 220), height + 40)

    def rule(self) -> dict[str, Any]:
        """The texts to accept."""
        return {"answers": list(self.answers)}

    def controls(self, locale: Locale) -> str:
        """The text field."""
        x0, y0, x1, y1 = self.field
        return (
            f'<input data-kind="field" autocomplete="off" spellcheck="false" aria-label="{html.escape(LABEL[locale])}" '
            f'style="left:{x0}px;top:{y0}px;width:{x1 - x0}px;height:{y1 - y0}px">'
        )

    def solution(self) -> tuple[Gesture, ...]:
        """Click the field, type the answer."""
        return self._typed(self.answers[0])

    def misses(self, rng: random.Random) -> list[tuple[Gesture, ...]]:
        """One character wrong, one too few, one too many, two neighbours swapped, nothing at all."""
        answer = self.answers[0]
        position = rng.randrange(len(answer))
        swap = rng.randrange(max(1, len(answer) - 1))
        wrong = [
            answer[:position] + _other(rng, answer[position]) + answer[position + 1 :],
            answer[:position] + answer[position + 1 :],
            answer[: position + 1] + answer[position:],
            answer[:swap] + answer[swap : swap + 2][::-1] + answer[swap + 2 :],
        ]
        accepted = {plain(text) for text in self.answers}
        return [self._typed(text) for text in wrong if plain(text) not in accepted]

    def places(self) -> Sequence[Box]:
        """The field."""
        return [self.field]

    def _typed(self, text: str) -> tuple[Gesture, ...]:
        return (Gesture("Click", (self.field,)), Gesture("Type", content=text))


def plain(text: str) -> str:
    """What of a text the page compares."""
    return "".join(unicodedata.normalize("NFKC", text).split()).upper()


def type_answer(facts: Facts, answer: Answer) -> Entry:
    """Type the answer, a text, or one of the `also` of the facts."""
    return Entry((str(answer), *facts.get("also", ())), (facts["size"][0], facts["size"][1]))


def _other(rng: random.Random, character: str) -> str:
    """Another character of the same kind."""
    if character.isdecimal():
        kind = "0123456789"
    elif character.isascii():
        kind = "ACDEFHJKMNPRTUVWXY"
    else:
        kind = "天地山水火木金土"
    return rng.choice([other for other in kind if other != character.upper()])
