"""On-policy distillation: the student samples, the teacher of the sample's domain scores (METHOD.md, "MOPD").

Two estimators of the same thing. `sampled_token` is the published one: a policy gradient whose advantage is the gap of
log-probabilities at the sampled token. `forward_kl` and `reverse_kl` compare the whole distributions (or the
teacher's top k) and have no sampling variance within a position. All of them give one value a token,
[rows, tokens]; `weighted_mean` makes a loss of them.

The weights by the student's error are the structured part: `token_classes` says what each token of an answer is, and
`structured_weights` what it counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from assets.stage import StageParameters, some_weight

if TYPE_CHECKING:
    from torch import Tensor

    from assets.agent.matching import Match


# --- estimators ------------------------------------------------------------------------------------------------------

Estimator = Literal["forward_kl", "reverse_kl", "sampled_token"]


def sampled_token(student: Tensor, teacher: Tensor, bound: float) -> Tensor:
    """REINFORCE with A = stopgrad(log teacher - log student) at the sampled token, clipped to [-bound, bound].

    `student` and `teacher` are log-probabilities of the sampled tokens, [rows, tokens]; the clip is Nemotron's
    (|A| <= 20). In expectation over the student's samples the gradient is that of `reverse_kl` at each position.
    """
    advantage = (teacher - student).detach().clamp(-bound, bound)
    return -advantage * student


def forward_kl(student: Tensor, teacher: Tensor, top_k: int | None = None) -> Tensor:
    """KL(teacher || student) a position: the student covers all that the teacher would say.

    `student` and `teacher` are logits, [rows, tokens, vocab]. With `top_k` the teacher's k most likely tokens stand
    for themselves and all others together for one.
    """
    s, t = _distributions(student, teacher, top_k)
    return _divergence(t, s)


def reverse_kl(student: Tensor, teacher: Tensor, top_k: int | None = None) -> Tensor:
    """KL(student || teacher) a position: the student keeps to what the teacher would say. See `forward_kl`."""
    s, t = _distributions(student, teacher, top_k)
    return _divergence(s, t)


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """The divergence of two distributions from their mean (Lin 1991), a position: symmetric, from 0 to log 2.

    `first` and `second` are log-probabilities, [..., vocab].
    """
    import torch

    middle = torch.logaddexp(first, second) - math.log(2)
    return (_divergence(first, middle) + _divergence(second, middle)) / 2


def token_values(
    estimator: Estimator, student: Tensor, teacher: Tensor, targets: Tensor, top_k: int | None, bound: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What an estimator gives each sampled token, its log-probability by the student, and KL(teacher || student) there.

    `student` and `teacher` are logits, [tokens, vocab], `targets` the sampled tokens, [tokens], `bound` that of
    `sampled_token`. All three results are [tokens]; the first alone has a gradient.
    """
    import torch

    places = targets[:, None]
    if estimator == "forward_kl":
        values = forward_kl(student, teacher, top_k)
    elif estimator == "reverse_kl":
        values = reverse_kl(student, teacher, top_k)
    else:
        of_student, of_teacher = (logits.log_softmax(-1).gather(-1, places)[:, 0] for logits in (student, teacher))
        values = sampled_token(of_student, of_teacher, bound)
    with torch.no_grad():
        chosen = student.log_softmax(-1).gather(-1, places)[:, 0]
        is_whole = estimator == "forward_kl" and top_k is None
        divergence = values.detach() if is_whole else forward_kl(student, teacher)
    return values, chosen, divergence


def importance_gate(student: Tensor, sampled: Tensor, low: float, high: float) -> Tensor:
    """MiMo's gate (arXiv:2601.02780), [rows, tokens]: 1 where the ratio of the probability now to the probability when
    the token was sampled lies in [low, high], else 0."""
    ratio = (student - sampled).detach().exp()
    return ((ratio >= low) & (ratio <= high)).to(student.dtype)


def weighted_mean(values: Tensor, weights: Tensor, tokens: int) -> Tensor:
    """Sum of weight * value over the number of answer tokens of the whole update: a weight of 0 really removes."""
    return (values * weights).sum() / tokens


def _distributions(student: Tensor, teacher: Tensor, top_k: int | None) -> tuple[Tensor, Tensor]:
    """Log-probabilities over the whole vocabulary, or over the teacher's top k and the rest as one."""
    import torch

    s, t = student.log_softmax(-1), teacher.log_softmax(-1)
    if top_k is None or top_k >= teacher.shape[-1]:
        return s, t
    chosen = teacher.topk(top_k, -1).indices
    outside = torch.ones_like(teacher, dtype=torch.bool).scatter(-1, chosen, False)

    def lump(log_probs: Tensor) -> Tensor:
        rest = log_probs.masked_fill(~outside, float("-inf")).logsumexp(-1, keepdim=True)
        return torch.cat([log_probs.gather(-1, chosen), rest], -1)

    return lump(s), lump(t)


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).sum(-1)


# --- structured weights ----------------------------------------------------------------------------------------------


class TokenClass(IntEnum):
    """What a token of an answer belongs to."""

    THINK = 0
    TYPE = 1
    PARAMETERS = 2


class ErrorClass(IntEnum):
    """What the student's answer got wrong."""

    RIGHT = 0
    PARAMETERS = 1
    TYPE = 2


class ClassWeights(StageParameters):
    """Weight of a token by what it belongs to."""

    think: float
    type: float
    parameters: float


class StructuredWeights(StageParameters):
    """Weight of a token by the student's error and by what the token belongs to (METHOD.md).

    Attributes:
        right: the whole action is right: its distillation is suppressed.
        parameters: the type is right, the parameters are wrong: the action span is amplified.
        type: the type is wrong: its tokens are stressed and the parameters masked, since they belong to another action.
    """

    right: ClassWeights
    parameters: ClassWeights
    type: ClassWeights

    @model_validator(mode="after")
    def _leaves_something(self) -> StructuredWeights:
        some_weight(
            [weight for tokens in (self.right, self.parameters, self.type) for weight in tokens.model_dump().values()]
        )
        return self


def error_class(match: Match) -> ErrorClass:
    """The student's error; an answer that does not parse has no right type."""
    if match.correct:
        return ErrorClass.RIGHT
    return ErrorClass.PARAMETERS if match.format and match.type == 1 else ErrorClass.TYPE


def token_classes(pieces: Sequence[str]) -> list[TokenClass]:
    """The class of each token of an answer, given the text of each token.

    Inside `<action>`, from the start of a line or the end of a call to the next `(` is type, from there to the
    matching `)` parameters; tags count as what they open or close: `<think>` as think, `<action>` and what ends the
    answer as type. Before `<action>` everything is think. A token that spans two classes has the class of its first
    visible character.
    """
    text = "".join(pieces)
    by_character = _character_classes(text)
    classes = []
    start = 0
    for piece in pieces:
        visible = start + len(piece) - len(piece.lstrip())
        where = visible if visible < start + len(piece) else start
        classes.append(by_character[where] if where < len(text) else TokenClass.TYPE)
        start += len(piece)
    return classes


def structured_weights(
    classes: Sequence[Sequence[TokenClass]], errors: Sequence[ErrorClass], weights: StructuredWeights | None
) -> list[list[float]]:
    """The weight of every token of every answer; all 1 without weights."""
    if weights is None:
        return [[1.0] * len(row) for row in classes]
    by_error = {
        ErrorClass.RIGHT: weights.right,
        ErrorClass.PARAMETERS: weights.parameters,
        ErrorClass.TYPE: weights.type,
    }
    tables = {error: (row.think, row.type, row.parameters) for error, row in by_error.items()}
    return [[tables[error][token] for token in row] for row, error in zip(classes, errors, strict=True)]


def _character_classes(text: str) -> list[TokenClass]:
    opened = text.find("<action>")
    if opened < 0:
        return [TokenClass.THINK] * len(text)
    classes = [TokenClass.THINK] * opened
    depth, quote = 0, ""
    for position in range(opened, len(text)):
        character = text[position]
        if quote:
            quote = "" if character == quote and text[position - 1] != "\\" else quote
        elif depth and character in "'\"":
            quote = character
        elif character == "(":
            depth += 1
        inside = depth > 0
        if not quote and character == ")" and depth:
            depth -= 1
        classes.append(TokenClass.PARAMETERS if inside else TokenClass.TYPE)
    return classes
