"""The small tokenizer of models made from scratch: a word of the interface is one token.

A model of two million parameters learns to read a screen when each word it can see is one token (FACTS.md). So the
vocabulary is that of the bytes, the fixed pieces of the action syntax, and whole words: no merges are learned, and the
same words give the same tokenizer. Digits are single tokens. It is of the class that full-scale checkpoints use,
which transformers takes for every `qwen3_5` folder whatever the folder says; like theirs, it normalises text to NFC
and loses nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from assets.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase
    from transformers.models.qwen3_5.tokenization_qwen3_5 import Qwen3_5Tokenizer

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
    "</think>",
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


def make_tokenizer(words: Iterable[str]) -> Qwen3_5Tokenizer:
    """A tokenizer in which each of `words` (in any script, without spaces) is one token."""
    from tokenizers import AddedToken, pre_tokenizers
    from transformers.models.qwen3_5.tokenization_qwen3_5 import Qwen3_5Tokenizer

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Qwen3_5Tokenizer(
        vocab={char: index for index, char in enumerate(alphabet)},
        merges=[],
        unk_token=None,  # type: ignore[arg-type]  # bytes know no unknown
        pad_token=PAD,
        eos_token=TURN_END,
        additional_special_tokens=[token for token in SPECIAL if token not in (PAD, TURN_END)],
        clean_up_tokenization_spaces=False,
        model_max_length=1_000_000,
    )
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in SYNTAX])
    # A Latin word is taken whole or not at all; Chinese is written without spaces.
    known = dict.fromkeys([*alphabet, *SYNTAX])
    whole = [word for word in sorted(set(words)) if word not in known]
    tokenizer.add_tokens([AddedToken(word, normalized=False, single_word=word.isascii()) for word in whole])
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def token_id(tokenizer: PreTrainedTokenizerBase, token: str) -> int:
    """The id of one token.

    Raises:
        InputError: the tokenizer has no such token.
    """
    index = tokenizer.convert_tokens_to_ids(token)
    if not isinstance(index, int) or (index == tokenizer.unk_token_id and token != tokenizer.unk_token):
        raise InputError(f"the tokenizer has no token {token}")
    return index
