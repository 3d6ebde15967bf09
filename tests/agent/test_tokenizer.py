"""The small tokenizer: words are tokens, nothing but normalisation is lost, and transformers opens it unchanged."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.agent.actions import Action, render_response
from assets.agent.tokenizer import SPECIAL, SYNTAX, make_tokenizer, token_id
from assets.agent.vocabulary import CHINESE, ENGLISH
from assets.errors import InputError

TOKENIZER = make_tokenizer([*ENGLISH, *CHINESE, "then", "然后", "，"])

PIECES = st.sampled_from([*ENGLISH, *CHINESE, *SYNTAX, " ", "\n", "042"])
TEXT = st.lists(st.one_of(st.text(max_size=6), PIECES), max_size=8).map("".join)


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_any_text_survives_up_to_normalisation(text: str):
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("word", [*ENGLISH, *CHINESE])
def test_a_word_of_the_interface_is_one_token_wherever_it_stands(word: str):
    alone = TOKENIZER.encode(word, add_special_tokens=False)
    assert len(alone) == 1
    thought = TOKENIZER.encode(f"<think>{word}</think>\n<action>", add_special_tokens=False)
    assert thought[1:2] == alone
    assert len(thought) == 3


def test_chinese_words_need_no_spaces():
    ids = TOKENIZER.encode("打开设置，然后静音", add_special_tokens=False)
    assert [TOKENIZER.decode([index]) for index in ids] == ["打开", "设置", "，", "然后", "静音"]


def test_a_click_is_its_name_six_digits_and_three_pieces():
    text = render_response(None, [Action("Click", point=(412, 87))], digits=3)
    pieces = [TOKENIZER.decode([index]) for index in TOKENIZER.encode(text, add_special_tokens=False)]
    assert pieces == ["<action>", "Click(point=(", "4", "1", "2", ", ", "0", "8", "7", "))</action>"]


def test_transformers_opens_it_as_it_was(tmp_path: Path):
    """`AutoTokenizer` takes one class for every qwen3_5 folder; ours must give the same ids through it."""
    from transformers import AutoTokenizer

    TOKENIZER.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_5"}')
    opened = AutoTokenizer.from_pretrained(tmp_path)
    text = (
        "Click Save 打开设置 <think>Type</think>\n<action>Drag(start=(012, 345), end=(-1, -1))</action><|im_end|> é 🙂"
    )
    assert opened.encode(text) == TOKENIZER.encode(text)
    assert opened.chat_template == TOKENIZER.chat_template
    assert opened.eos_token == "<|im_end|>"
    assert len(opened) == len(TOKENIZER)


def test_special_tokens_are_known_by_name():
    assert len({token_id(TOKENIZER, token) for token in SPECIAL}) == len(SPECIAL)
    with pytest.raises(InputError, match="no token"):
        token_id(TOKENIZER, "<|missing|>")
