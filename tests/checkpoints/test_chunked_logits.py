"""Logits of a few tokens at a time give what all of them at once give, and need less memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from assets.agent import fan
from assets.capacity.tracing import Life
from assets.checkpoints.chunked_logits import in_chunks, token_log_probs
from assets.checkpoints.losses.distillation import token_values

HIDDEN = 8
TEACHER = torch.nn.Linear(HIDDEN, 23, bias=False).requires_grad_(False)

Loss = Callable[[Any, torch.Tensor, torch.Tensor, int], torch.Tensor]
"""From a model, hidden states [tokens, hidden], sampled tokens [tokens] and a chunk's size to a value a token."""


def likelihood(model: Any, hidden: torch.Tensor, targets: torch.Tensor, size: int) -> torch.Tensor:
    return token_log_probs(model, hidden, targets, size, 0.7)


def estimator(name: str, top_k: int | None) -> Loss:
    def loss(model: Any, hidden: torch.Tensor, targets: torch.Tensor, size: int) -> torch.Tensor:
        def compare(*chunk: torch.Tensor) -> tuple[torch.Tensor, ...]:
            of_student, of_teacher, sampled = chunk
            return token_values(name, model.lm_head(of_student), TEACHER(of_teacher), sampled, top_k, 20.0)  # type: ignore[arg-type]

        return in_chunks(compare, (hidden, hidden.detach().flip(0), targets), size)[0]

    return loss


LOSSES = {
    "log-probability": likelihood,
    "forward_kl": estimator("forward_kl", None),
    "forward_kl, top 3": estimator("forward_kl", 3),
    "reverse_kl": estimator("reverse_kl", None),
    "reverse_kl, top 3": estimator("reverse_kl", 3),
    "sampled_token": estimator("sampled_token", None),
}


def computed(loss: Loss, tokens: int, size: int, words: int = 23) -> list[torch.Tensor]:
    """Values and every gradient of their weighted sum."""
    generator = torch.Generator().manual_seed(tokens)
    hidden = torch.randn(tokens, HIDDEN, generator=generator).requires_grad_()
    head = torch.nn.Linear(HIDDEN, words, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.randn(words, HIDDEN, generator=generator))
    targets = torch.randint(0, words, (tokens,), generator=generator)
    values = loss(SimpleNamespace(lm_head=head), hidden, targets, size)
    weights = torch.rand(tokens, generator=generator)
    (values * weights).sum().backward()
    assert hidden.grad is not None
    assert head.weight.grad is not None
    return [values.detach(), hidden.grad, head.weight.grad]


@pytest.mark.parametrize("name", LOSSES)
def test_any_size_gives_the_values_and_gradients_of_all_at_once(name: str) -> None:
    tokens = 7
    plain = computed(LOSSES[name], tokens, tokens)
    for size in range(1, tokens + 2):
        for ours, expected in zip(computed(LOSSES[name], tokens, size), plain, strict=True):
            assert (ours - expected).norm() <= 1e-5 * expected.norm()


def test_a_log_probability_is_that_of_the_whole_distribution() -> None:
    model: Any = SimpleNamespace(lm_head=torch.nn.Linear(HIDDEN, 23))
    hidden, targets = torch.randn(7, HIDDEN), torch.arange(7)
    whole = fan.log_probabilities(model, hidden, 0.7)
    assert torch.allclose(token_log_probs(model, hidden, targets, 3, 0.7), whole[range(7), targets])


def test_under_autocast_it_is_computed_again_in_the_same_precision() -> None:
    hidden = torch.randn(9, HIDDEN).requires_grad_()
    model: Any = SimpleNamespace(lm_head=torch.nn.Linear(HIDDEN, 23))
    gradients = []
    for size in (9, 2):
        with torch.autocast("cpu", torch.bfloat16):
            values = token_log_probs(model, hidden, torch.arange(9), size)
        (gradient,) = torch.autograd.grad(values.sum(), hidden)
        gradients.append(gradient)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("name", LOSSES)
def test_memory_is_that_of_one_chunk(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.checkpoints.test_chunked_logits.TEACHER", torch.nn.Linear(HIDDEN, 3000))
    most = []
    for size in (400, 20):
        life = Life()
        with life.watch():
            computed(LOSSES[name], 400, size, words=3000)
        most.append(life.most)
    assert most[1] < most[0] / 5
