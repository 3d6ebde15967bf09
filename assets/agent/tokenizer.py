"""The small tokenizer of models made from scratch: a word of the interface is one token.

A model of two million parameters learns to read a screen when each word it can see is one token (FACTS.md), so the
pieces are the closed vocabulary and the words of the corpus, single digits, the fixed pieces of the action syntax,
and single characters; whatever else is text falls back to bytes. Any UTF-8 text survives encoding and decoding.
Nothing is learned by counting merges: the same words give the same tokenizer.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, TURN_END, NOTHING = "<|pad|>", "<|im_end|>", "<|nothing|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
ANSWER = "<|answer|>"
SPECIAL: tuple[str, ...] = (PAD, TURN_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD, ANSWER, NOTHING)
"""NOTHING stands for the background in the what-and-where objective; the others are the chat template's."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role == 'assistant' -%}"
    "{{ '<|answer|>' + message.content + '<|im_end|>' }}"
    "{%- elif message.content is string -%}"
    "{{ message.content }}"
    "{%- else -%}"
    "{%- for part in message.content -%}"
    "{%- if part.type == 'image' -%}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- else -%}{{ part.text }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|answer|>' }}{%- endif -%}"
)
"""One turn an episode step, in few tokens: system line, screenshots, text, then the answer."""

SYNTAX: tuple[str, ...] = (
    "<think>",
    "</think>\n<action>",
    "<action>",
    "))</action>",
    "')</action>",
    "()</action>",
    "))\n",
    "')\n",
    ", ",
    "-1, -1",
    "), end=(",
    *(f"{name}(point=(" for name in ("Click", "DoubleClick", "LongPress", "RightClick", "Scroll", "Hover")),
    *(f"{name}(start=(" for name in ("Drag", "Swipe")),
    *(f"{name}(content='" for name in ("Type", "CallUser", "Finished", "TakeNote", "Answer")),
    *(f"{name}(" for name in ("Wait", "PressBack", "PressHome", "PressEnter", "PressRecent")),
    *(f"{name}(" for name in ("GetScreenshot", "GetUrl", "Hotkey", "LaunchApp", "Launch", "SelectOption")),
)
"""The fixed pieces of the action syntax: a click is its name, six digits and two of these."""


def corpus_words(texts: Iterable[str]) -> list[str]:
    """The Latin words of the texts, sorted; the closed vocabulary adds the Chinese ones, which no space parts."""
    return sorted({word for text in texts for word in re.findall(r"[A-Za-z]{2,}", text)})


def make_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer in which each of `words` (in any script, without spaces), is one token."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    whole = sorted(set(words))
    characters = sorted(set(string.printable.strip()) | {" ", "\n"} | {char for word in whole for char in word})
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    pieces = dict.fromkeys([*SPECIAL, *string.digits, *SYNTAX, *whole, *characters, *bytes_])
    vocabulary = {piece: index for index, piece in enumerate(pieces)}

    # Longest first: at each place the longest known piece wins. A Latin word is taken whole or not at all.
    parts = sorted((*SYNTAX, *(word for word in whole if not word.isascii())), key=lambda part: (-len(part), part))
    pattern = "|".join([*(_escape(part) for part in parts), "[A-Za-z]+", r"[\s\S]"])
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=TURN_END,
        additional_special_tokens=[token for token in SPECIAL if token not in (PAD, TURN_END)],
        clean_up_tokenization_spaces=False,
        model_max_length=1_000_000,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _escape(piece: str) -> str:
    return "".join(f"\\{char}" if char in r"\.^$|?*+()[]{}-/" else "\\n" if char == "\n" else char for char in piece)
