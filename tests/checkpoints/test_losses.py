"""Properties of the losses: zero where nothing is to be learned, the same however an update is cut or ordered."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from assets.agent.matching import UNREADABLE, Match
from assets.checkpoints.losses import ALGORITHMS
from assets.checkpoints.losses.distillation import (
    ClassWeights,
    ErrorClass,
    StructuredWeights,
    TokenClass,
    error_class,
    forward_kl,
    importance_gate,
    jensen_shannon,
    reverse_kl,
    sampled_token,
    structured_weights,
    token_classes,
    token_values,
    weighted_mean,
)
from assets.checkpoints.losses.policy_gradient import Clip, Extent, informative, kl_penalty, surrogate

CLIP = Clip(0.2, 0.28)
NAMES = sorted(ALGORITHMS)


def update(groups: int = 3, samples: int = 4, longest: int = 5) -> tuple[Tensor, Tensor, Tensor, Tensor, Extent]:
    """Log-probabilities [rows, tokens], mask, rewards [groups, samples], old log-probabilities, extent."""
    generator = torch.Generator().manual_seed(3)
    rows = groups * samples
    log_probs = -torch.rand(rows, longest, generator=generator, dtype=torch.float64) * 3
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator)
    mask = (torch.arange(longest) < lengths[:, None]).double()
    rewards = torch.randint(0, 3, (groups, samples), generator=generator).double()
    old = log_probs + 0.4 * torch.randn(rows, longest, generator=generator, dtype=torch.float64)
    return log_probs.requires_grad_(), mask, rewards, old, Extent(rows, int(mask.sum()), longest)


def gradient(log_probs: Tensor, loss: Tensor) -> Tensor:
    return torch.autograd.grad(loss, log_probs)[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reused", [False, True])
def test_identical_rewards_give_zero_gradient(name: str, reused: bool) -> None:
    log_probs, mask, rewards, old, extent = update()
    algorithm = ALGORITHMS[name]
    advantages = algorithm.advantages(torch.full_like(rewards, 0.7)).flatten()
    loss = algorithm.loss(log_probs, mask, advantages, extent, old if reused else None, CLIP)
    assert gradient(log_probs, loss).abs().max() == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reused", [False, True])
def test_any_cut_of_the_update_gives_the_same_gradient(name: str, reused: bool) -> None:
    log_probs, mask, rewards, old, extent = update()
    algorithm = ALGORITHMS[name]
    advantages = algorithm.advantages(rewards).flatten()
    whole = gradient(log_probs, algorithm.loss(log_probs, mask, advantages, extent, old if reused else None, CLIP))
    looped = torch.zeros_like(whole)
    for row in range(extent.rows):
        one = slice(row, row + 1)
        before = old[one] if reused else None
        looped += gradient(log_probs, algorithm.loss(log_probs[one], mask[one], advantages[one], extent, before, CLIP))
    assert torch.allclose(whole, looped, atol=1e-12)
    assert whole.abs().max() > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reused", [False, True])
def test_the_order_of_answers_does_not_matter(name: str, reused: bool) -> None:
    log_probs, mask, rewards, old, extent = update()
    algorithm = ALGORITHMS[name]
    order = torch.tensor([2, 0, 3, 1])
    rows = (torch.arange(3)[:, None] * 4 + order).flatten()
    plain = algorithm.loss(
        log_probs, mask, algorithm.advantages(rewards).flatten(), extent, old if reused else None, CLIP
    )
    permuted = algorithm.loss(
        log_probs[rows],
        mask[rows],
        algorithm.advantages(rewards[:, order]).flatten(),
        extent,
        old[rows] if reused else None,
        CLIP,
    )
    assert plain.item() == pytest.approx(permuted.item(), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_padding_does_not_matter(name: str) -> None:
    log_probs, mask, rewards, old, extent = update()
    algorithm = ALGORITHMS[name]
    advantages = algorithm.advantages(rewards).flatten()
    spoiled = torch.where(mask.bool(), log_probs, torch.full_like(log_probs, -50))
    old_spoiled = torch.where(mask.bool(), old, torch.full_like(old, -40))
    plain = algorithm.loss(log_probs, mask, advantages, extent, old, CLIP)
    assert algorithm.loss(spoiled, mask, advantages, extent, old_spoiled, CLIP).item() == pytest.approx(plain.item())


@pytest.mark.parametrize("name", NAMES)
def test_used_once_is_the_gradient_at_ratio_one(name: str) -> None:
    log_probs, mask, rewards, _, extent = update()
    algorithm = ALGORITHMS[name]
    advantages = algorithm.advantages(rewards).flatten()
    once = gradient(log_probs, algorithm.loss(log_probs, mask, advantages, extent, None, CLIP))
    fresh = algorithm.loss(log_probs, mask, advantages, extent, log_probs.detach().clone(), CLIP)
    assert torch.allclose(once, gradient(log_probs, fresh), atol=1e-12)


def test_each_normalisation_by_hand() -> None:
    """Two answers of 1 and 3 tokens, advantages 1 and -1, all log-probabilities -1, ratio 1."""
    log_probs, mask = torch.full((2, 4), -1.0), torch.tensor([[1.0, 0, 0, 0], [1.0, 1, 1, 0]])
    advantages, extent = torch.tensor([1.0, -1.0]), Extent(2, 4, 4)
    by_name = {name: ALGORITHMS[name].loss(log_probs, mask, advantages, extent, None, CLIP).item() for name in NAMES}
    assert by_name["grpo"] == by_name["gspo"] == pytest.approx((1 - 1) / 2)
    assert by_name["dapo"] == pytest.approx((1 - 3) / 4)
    assert by_name["dr_grpo"] == pytest.approx((1 - 3) / (2 * 4))


def test_advantages() -> None:
    rewards = torch.tensor([[0.0, 1.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 4.0]])
    assert informative(rewards).tolist() == [True, False, True]
    assert ALGORITHMS["dr_grpo"].advantages(rewards)[2].tolist() == [-1, -1, -1, 3]
    standardised = ALGORITHMS["grpo"].advantages(rewards)
    assert standardised[0].tolist() == [-1, 1, 1, -1]
    assert standardised[1].tolist() == [0, 0, 0, 0]
    assert standardised[2].square().mean().item() == pytest.approx(1.0)


def test_the_clip_stops_only_what_goes_too_far() -> None:
    old = torch.zeros(4)
    log_probs = torch.tensor([1.5, 0.5, 1.5, 0.5]).log().requires_grad_()
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    moved = gradient(log_probs, surrogate(log_probs, advantages, old, CLIP).sum())
    assert (moved != 0).tolist() == [False, True, True, False]


def test_the_upper_clip_may_be_wider() -> None:
    log_probs = torch.tensor([1.25]).log().requires_grad_()
    wide = surrogate(log_probs, torch.ones(1), torch.zeros(1), Clip(0.2, 0.28)).sum()
    narrow = surrogate(log_probs, torch.ones(1), torch.zeros(1), Clip(0.2, 0.2)).sum()
    assert gradient(log_probs, wide) != 0
    assert gradient(log_probs, narrow) == 0


def test_kl_penalty_is_zero_at_the_reference_and_estimates_the_kl() -> None:
    torch.manual_seed(0)
    policy, reference = torch.randn(2, 6).log_softmax(-1).unbind()
    drawn = torch.multinomial(policy.exp(), 200_000, replacement=True)
    ones, extent = torch.ones(1, drawn.numel()), Extent(1, drawn.numel(), drawn.numel())
    exact = (policy.exp() * (policy - reference)).sum().item()
    assert kl_penalty(policy[drawn][None], policy[drawn][None], ones, extent) == 0
    assert kl_penalty(policy[drawn][None], reference[drawn][None], ones, extent).item() == pytest.approx(
        exact, rel=0.03
    )


# --- distillation ----------------------------------------------------------------------------------------------------


def logits(seed: int) -> Tensor:
    return torch.randn(4, 3, 11, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("divergence", [forward_kl, reverse_kl])
@pytest.mark.parametrize("top_k", [None, 4, 11])
def test_a_student_equal_to_its_teacher_has_no_loss(divergence: Callable[..., Tensor], top_k: int | None) -> None:
    student = logits(0).requires_grad_()
    value = divergence(student, student.detach().clone() + 3.0, top_k)  # logits are free up to a constant
    assert value.abs().max() < 1e-12
    assert torch.autograd.grad(value.sum(), student)[0].abs().max() < 1e-12


def test_a_student_equal_to_its_teacher_has_no_sampled_loss() -> None:
    student = logits(0).log_softmax(-1)[..., 0].requires_grad_()
    value = sampled_token(student, student.detach().clone(), bound=20.0)
    assert torch.autograd.grad(value.sum(), student)[0].abs().max() == 0


@pytest.mark.parametrize("divergence", [forward_kl, reverse_kl])
def test_vectorised_equals_looped(divergence: Callable[..., Tensor]) -> None:
    student, teacher = logits(0), logits(1)
    values = divergence(student, teacher)
    for row in range(4):
        for token in range(3):
            s = [v - math.log(sum(map(math.exp, student[row, token]))) for v in student[row, token].tolist()]
            t = [v - math.log(sum(map(math.exp, teacher[row, token]))) for v in teacher[row, token].tolist()]
            p, q = (t, s) if divergence is forward_kl else (s, t)
            by_hand = sum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))
            assert values[row, token].item() == pytest.approx(by_hand)


def test_top_k_bounds_the_divergence_from_below_and_grows_to_it() -> None:
    student, teacher = logits(0), logits(1)
    whole = forward_kl(student, teacher)
    previous = torch.zeros_like(whole)
    for k in (1, 3, 6, 10, 11):
        part = forward_kl(student, teacher, k)
        assert (part <= whole + 1e-12).all()
        assert (part >= previous - 1e-12).all()
        previous = part
    assert torch.allclose(previous, whole)


def test_the_sampled_estimator_has_the_gradient_of_the_reverse_kl() -> None:
    student, teacher = logits(0)[:1, :1].requires_grad_(), logits(1)[:1, :1]
    exact = torch.autograd.grad(reverse_kl(student, teacher).sum(), student)[0]
    s, t = student.log_softmax(-1)[0, 0], teacher.log_softmax(-1)[0, 0]
    expected = torch.zeros_like(exact)
    for token in range(s.numel()):
        value = sampled_token(s[token], t[token], bound=1e9)
        expected += s[token].detach().exp() * torch.autograd.grad(value, student, retain_graph=True)[0]
    assert torch.allclose(exact, expected, atol=1e-12)


def test_two_distributions_are_as_far_apart_as_the_other_way_round_and_never_further_than_log_2() -> None:
    first, second = logits(0).log_softmax(-1), logits(1).log_softmax(-1)
    between = jensen_shannon(first, second)
    assert torch.allclose(between, jensen_shannon(second, first))
    assert (between > 0).all()
    assert jensen_shannon(first, first).abs().max() < 1e-12
    apart = torch.tensor([[0.0, -1e6], [-1e6, 0.0]], dtype=torch.float64)
    assert jensen_shannon(apart[0], apart[1]).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("estimator", ["forward_kl", "reverse_kl", "sampled_token"])
@pytest.mark.parametrize("top_k", [None, 4])
def test_what_the_ledger_needs_comes_with_each_estimator(estimator: Any, top_k: int | None) -> None:
    student, teacher = logits(0)[:, 0].requires_grad_(), logits(1)[:, 0]
    targets = torch.arange(4)
    values, chosen, divergence = token_values(estimator, student, teacher, targets, top_k, 20.0)
    assert values.requires_grad
    assert not chosen.requires_grad
    assert not divergence.requires_grad
    assert torch.equal(chosen, student.detach().log_softmax(-1)[range(4), targets])
    assert torch.equal(divergence, forward_kl(student.detach(), teacher))


def test_the_advantage_is_clipped() -> None:
    student = torch.tensor([[-30.0, -1.0]]).requires_grad_()
    value = sampled_token(student, torch.tensor([[-0.1, -40.0]]), bound=20.0)
    assert torch.autograd.grad(value.sum(), student)[0].tolist() == [[-20.0, 20.0]]


def test_the_gate_drops_tokens_whose_ratio_left_its_bounds() -> None:
    now = torch.tensor([[0.4, 0.6, 1.0, 1.9, 2.1]]).log()
    assert importance_gate(now, torch.zeros(1, 5), 0.5, 2.0).tolist() == [[0, 1, 1, 1, 0]]


def test_a_weight_of_zero_removes_and_does_not_raise_the_others() -> None:
    values = torch.tensor([[1.0, 3.0]])
    assert weighted_mean(values, torch.tensor([[1.0, 0.0]]), tokens=2).item() == 0.5


def test_error_classes() -> None:
    assert error_class(Match(True, 1.0, 1.0, 0.0, True)) == ErrorClass.RIGHT
    assert error_class(Match(True, 1.0, 0.0, 0.0, False)) == ErrorClass.PARAMETERS
    assert error_class(Match(True, 0.5, 0.5, 0.0, False)) == ErrorClass.TYPE
    assert error_class(UNREADABLE) == ErrorClass.TYPE


def test_token_classes_of_an_answer() -> None:
    pieces = ["<think>", "Send", "</think>", "\n", "<action>", "Click", "(point=(", "4", "12", ", 0", "87", "))"]
    pieces += ["\n", "Type", "(content=", "'a) b'", ")", "</action>", "<end>"]
    think, kind, parameters = TokenClass.THINK, TokenClass.TYPE, TokenClass.PARAMETERS
    expected = [think] * 4 + [kind] * 2 + [parameters] * 6 + [kind] * 2 + [parameters] * 3 + [kind] * 2
    assert token_classes(pieces) == expected
    assert token_classes(["<action>", "Wait()", "</action>"]) == [kind] * 3
    assert token_classes(["no", " action"]) == [think] * 2
    assert token_classes(["<action>Cl", "ick", " (", "", "1)"]) == [kind] * 2 + [parameters] * 3


def test_structured_weights_follow_the_error() -> None:
    weights = StructuredWeights(
        right=ClassWeights(think=0.1, type=0.2, parameters=0.3),
        parameters=ClassWeights(think=1.0, type=1.5, parameters=2.0),
        type=ClassWeights(think=1.0, type=3.0, parameters=0.0),
    )
    row = [TokenClass.THINK, TokenClass.TYPE, TokenClass.PARAMETERS]
    assert structured_weights([row] * 3, list(ErrorClass), weights) == [
        [0.1, 0.2, 0.3],
        [1.0, 1.5, 2.0],
        [1.0, 3.0, 0.0],
    ]
    assert structured_weights([row], [ErrorClass.TYPE], None) == [[1.0, 1.0, 1.0]]
