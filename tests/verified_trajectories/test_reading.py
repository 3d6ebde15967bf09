"""Reading words off small screens, drawn here as the interfaces draw them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.verified_trajectories.reading import (
    CHINESE_FONT,
    LATIN_FONT,
    OcrReader,
    Picture,
    Remembering,
    VocabularyReader,
    read_at,
    shows,
    texts_at,
)


def button_screen(
    word: str, fill: tuple[int, int, int] = (60, 90, 220), page: tuple[int, int, int] = (240, 240, 245)
) -> Picture:
    """A screen with the word on a button in the middle and another button beside it."""
    image = Image.new("RGB", (192, 192), page)
    draw = ImageDraw.Draw(image)
    font = ImageFont.truetype(LATIN_FONT if word.isascii() else CHINESE_FONT, 13)
    for x, text in ((8, word), (104, "Help")):
        draw.rounded_rectangle((x, 80, x + 79, 107), 4, fill=fill)
        face = font if text == word else ImageFont.truetype(LATIN_FONT, 13)
        draw.text((x + 40, 94), text, font=face, fill="white", anchor="mm")
    return np.asarray(image)


@pytest.mark.parametrize("fill", [(60, 90, 220), (220, 60, 60), (120, 120, 130)])
def test_the_vocabulary_reader_reads_every_word(fill: tuple[int, int, int]) -> None:
    reader = VocabularyReader()
    wrong = [w for w in (*ENGLISH, *CHINESE) if read_at(reader, button_screen(w, fill), 47, 94, 0.7).text != w]
    assert len(wrong) <= 2, wrong


def test_ocr_reads_both_languages_without_the_package_s_own_code() -> None:
    reader = OcrReader()
    words = (*ENGLISH[::6], *CHINESE[::6])
    read = [read_at(reader, button_screen(word), 47, 94, 0.5).text for word in words]
    assert sum(a == b for a, b in zip(read, words, strict=True)) >= len(words) - 1, list(zip(read, words, strict=True))


def test_the_text_under_the_point_comes_first_and_neighbours_do_not() -> None:
    reader = VocabularyReader()
    screen = button_screen("Mute")
    assert read_at(reader, screen, 47, 94, 0.7).text == "Mute"
    assert read_at(reader, screen, 143, 94, 0.7).text == "Help"
    assert texts_at(screen, 96, 20) == []


def test_remembered_pictures_are_not_read_again() -> None:
    class Counting:
        name = "counting"
        seen = 0

        def read(self, texts: list[Picture]) -> list[object]:
            self.seen += len(texts)
            return VocabularyReader().read(texts)  # type: ignore[return-value]

    inner = Counting()
    reader = Remembering(inner)  # type: ignore[arg-type]
    for _ in range(3):
        read_at(reader, button_screen("Save"), 47, 94, 0.7)
    assert inner.seen == 1
    assert (reader.asked, reader.hits) == (3, 2)


def test_shows_finds_a_word_on_any_ground() -> None:
    screen = button_screen("Ticket", (230, 140, 40), (30, 32, 40))
    assert shows(screen, "Ticket", 0.7)
    assert not shows(screen, "Wallet", 0.7)
    assert not shows(screen, "no such word", 0.7)
