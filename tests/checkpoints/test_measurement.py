"""Which samples are measured and which weights are kept."""

from __future__ import annotations

from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st

from assets.agent.samples import Sample, Screen, load_samples, load_screens
from assets.checkpoints.measurement import BestWeights, put_aside, screens_a_step, thin
from assets.checkpoints.ranks import Ranks
from tests.checkpoints.micro_project import picture


def screen_of(*episodes: str) -> Screen:
    """A screen that is a step of several episodes."""
    image = picture(0)
    samples = [
        Sample(f"{name}/0", "web", "train", name, image, 64, 64, "web", "Save", (), "", (), (), "Click")
        for name in episodes
    ]
    return Screen(image, 64, 64, "web", tuple(samples))


def names(samples: list[Sample]) -> set[str]:
    return {sample.group for sample in samples}


def test_put_aside_takes_whole_groups(midtrained_project: Path) -> None:
    screens = load_screens(midtrained_project / "data" / "grounding_samples", "grounding", "train")
    remaining, aside = put_aside(screens, 0.25, 0)
    assert aside
    assert not names(aside) & names([sample for screen in remaining for sample in screen.samples])
    assert len(aside) + sum(len(screen.samples) for screen in remaining) == 32


@given(st.floats(0, 1, allow_subnormal=False), st.floats(0, 1, allow_subnormal=False), st.integers(0, 5))
def test_a_larger_share_holds_the_smaller_whatever_else_is_there(one: float, other: float, seed: int) -> None:
    """What mid-training leaves out is what later stages choose by, though they see other screens."""
    few, many = [screen_of("a", "b"), screen_of("c")], [screen_of(name) for name in "abcdefgh"]
    small, large = sorted([one, other])
    assert names(put_aside(few, small, seed)[1]) <= names(put_aside(many, large, seed)[1])


def test_about_the_share_is_put_aside_and_another_seed_takes_others() -> None:
    screens = [screen_of(str(number)) for number in range(2000)]
    first, second = (names(put_aside(screens, 0.15, seed)[1]) for seed in (0, 1))
    assert 240 < len(first) < 360
    assert 15 < len(first & second) < 90


def test_put_aside_cuts_screens_that_several_episodes_share() -> None:
    shared = screen_of(*"abcdefgh")
    remaining, aside = put_aside([shared], 0.5, 0)
    assert 0 < len(aside) < 8
    assert names(aside) | names(list(remaining[0].samples)) == set("abcdefgh")


def test_thin_spreads_over_groups(midtrained_project: Path) -> None:
    samples = load_samples(midtrained_project / "data" / "grounding_samples", "grounding", "heldout")
    assert thin(samples, 1000) == samples
    assert thin(samples, 0) == []
    some = thin(samples, 8)
    assert len(some) == 8
    assert sorted({sample.group[-2:] for sample in some}) == ["02", "05", "08", "11"]


def test_screens_a_step(midtrained_project: Path) -> None:
    screens = load_screens(
        midtrained_project / "data" / "grounding_samples", "grounding", "train"
    )  # two questions each
    assert screens_a_step(screens, 8) == 4
    assert screens_a_step(screens, 1) == 1


def test_best_weights_keep_the_first_of_equals(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    best = BestWeights(tmp_path / "best.safetensors", model, Ranks())
    best.offer(0, 0.5)
    kept = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    best.offer(1, 0.5)
    assert best.restore() == 0
    assert torch.equal(model.weight, kept)
    with torch.no_grad():
        model.weight.add_(1.0)
    BestWeights(tmp_path / "best.safetensors", model, Ranks()).offer(2, 0.6)
    assert best.restore() == 2
    assert torch.equal(model.weight, kept + 1)
