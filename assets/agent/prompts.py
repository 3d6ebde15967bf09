"""Prompts: what the model is shown before it answers, as chat messages and as token ids.

A prompt has two parts. The *prefix* holds the system line and the screenshots, and is the same for everything asked
about them; the *suffix* holds instruction and history. So a screenshot is encoded once, however much is asked about
it (see fan.py). Training and inference render one chat template, the tokenizer's, with these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from assets.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SystemPrompt = Literal["brief", "full"]

IMAGE = "<|image_pad|>"
IMAGE_END = "<|vision_end|>"

SCREEN = "screen"
"""The system line where no platform is driven: grounding and CAPTCHA."""

SYSTEM_LINES = (SCREEN, "mobile", "web", "desktop")
"""The brief system lines."""

_GESTURES = (
    "Click(point=(x, y))",
    "Drag(start=(x1, y1), end=(x2, y2))",
    "Swipe(start=(x1, y1), end=(x2, y2))",
    "DoubleClick(point=(x, y))",
    "LongPress(point=(x, y))",
    "Type(content='')",
    "Wait()",
    "CallUser(content='')",
    "Finished(content='')",
)
_ACTION_SPACE: dict[str, tuple[str, ...]] = {
    "mobile": (
        *_GESTURES,
        "PressBack()",
        "PressHome()",
        "PressEnter()",
        "PressRecent()",
        "LaunchApp(app='')",
        "GetScreenshot()",
        "Answer(content='')",
    ),
    "desktop": (*_GESTURES, "RightClick(point=(x, y))", "Hotkey(keys=['ctrl', 'c'])"),
    "web": (
        *_GESTURES,
        "Scroll(point=(x, y), direction='up'|'down'|'left'|'right')",
        "Launch(url='')",
        "GetUrl()",
        "TakeNote(content='')",
        "Hover(point=(x, y))",
        "Hotkey(keys=('ctrl', 'c'))",
        "SelectOption(index=3)",
        "PressBack()",
    ),
}
_FULL = {
    platform: (
        f"You operate a {platform} screen. Think inside <think></think>, then answer with exactly one action inside "
        "<action></action>. Coordinates are integers from 0 to 999 over the screenshot's width and height.\nActions:\n"
        + "\n".join(actions)
    )
    for platform, actions in _ACTION_SPACE.items()
}
_FULL_SCREEN = (
    "You see a screenshot. Answer inside <action></action> with Click(point=(x, y)) on what is asked for, or with the "
    "actions that solve the puzzle, one a line. Coordinates are integers from 0 to 999 over the screenshot's width and "
    "height; (-1, -1) says that it is not on this screen."
)


@dataclass(frozen=True)
class Prompt:
    """Token ids of a prompt: `prefix` ends with the last screenshot, `suffix` with the sign that an answer follows."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


def messages(
    platform: str | None,
    instruction: str,
    history: Sequence[str] = (),
    system_prompt: SystemPrompt = "brief",
    images: int = 1,
    hint: str | None = None,
) -> list[dict[str, Any]]:
    """The chat messages of one step.

    `history` holds every earlier response as text, oldest first. `hint` is what a teacher, and never the student, is
    told of the answer (METHOD.md, MOPD). Text from tasks can't forge the template's own tokens.
    """
    text = "\n".join([instruction, *history])
    if hint is not None:
        text += f"\n{hint}"
    content: list[dict[str, Any]] = [{"type": "image"}] * images
    return [
        {"role": "system", "content": _system_line(platform, system_prompt)},
        {"role": "user", "content": [*content, {"type": "text", "text": plain(text)}]},
    ]


def reword(system: str, system_prompt: SystemPrompt) -> str:
    """A system line of `messages`, brief or full, worded as `system_prompt` has it; any other text as it is."""
    for platform in (None, *_FULL):
        if system in (_system_line(platform, "brief"), _system_line(platform, "full")):
            return _system_line(platform, system_prompt)
    return plain(system)


def encode(
    tokenizer: PreTrainedTokenizerBase,
    image_tokens: Sequence[int],
    platform: str | None,
    instruction: str,
    history: Sequence[str] = (),
    system_prompt: SystemPrompt = "brief",
    hint: str | None = None,
) -> Prompt:
    """Token ids of one step's prompt; `image_tokens` is the number of visual tokens of each screenshot, in order.

    Raises:
        InputError: the chat template doesn't put each screenshot in its place before the text.
    """
    chat = messages(platform, instruction, history, system_prompt, len(image_tokens), hint)
    return encode_chat(tokenizer, image_tokens, chat)


def encode_chat(
    tokenizer: PreTrainedTokenizerBase, image_tokens: Sequence[int], chat: Sequence[dict[str, Any]]
) -> Prompt:
    """Token ids of any chat, up to where the model answers; `image_tokens` as in `encode`.

    Raises:
        InputError: the chat template doesn't put each screenshot in its place.
    """
    text = str(tokenizer.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=True))
    head, mark, tail = text.rpartition(IMAGE_END)
    pieces = head.split(IMAGE)
    if not mark or len(pieces) != len(image_tokens) + 1:
        raise InputError(f"the chat template shows {len(pieces) - 1} of {len(image_tokens)} screenshots")
    expanded = pieces[0]
    for count, piece in zip(image_tokens, pieces[1:], strict=True):
        expanded += IMAGE * count + piece
    return Prompt(
        tuple(tokenizer.encode(expanded + mark, add_special_tokens=False)),
        tuple(tokenizer.encode(tail, add_special_tokens=False)),
    )


def encode_response(tokenizer: PreTrainedTokenizerBase, response: str) -> tuple[int, ...]:
    """Token ids of an answer, the end-of-turn token included."""
    return (*tokenizer.encode(plain(response), add_special_tokens=False), tokenizer.eos_token_id)


def plain(text: str) -> str:
    """Text that can't be read as one of the template's own tokens, which are all written `<|…|>`."""
    return text.replace("<|", "< |")


def _system_line(platform: str | None, system_prompt: SystemPrompt) -> str:
    if system_prompt == "brief":
        return platform or SCREEN
    return _FULL[platform] if platform is not None else _FULL_SCREEN
