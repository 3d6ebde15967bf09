"""Which samples are measured and which weights are kept."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from assets.agent.samples import Sample, Screen, load_samples, load_screens
from assets.checkpoints.measurement import BestWeights, put_aside, screens_a_step, thin
from assets.checkpoints.ranks import Ranks
from tests.checkpoints.micro_project import picture


def test_put_aside_takes_whole_groups(midtrained_project: Path) -> None:
    screens = load_screens(midtrained_project / "data" / "grounding_samples", "grounding", "train")
    remaining, aside = put_aside(screens, 0.25, random.Random(0))
    assert len({sample.group for sample in aside}) == 4
    assert not {sample.group for sample in aside} & {s.group for screen in remaining for s in screen.samples}
    assert len(aside) + sum(len(screen.samples) for screen in remaining) == 32


def test_put_aside_cuts_screens_that_several_episodes_share() -> None:
    image = picture(0)

    def sample(episode: str) -> Sample:
        return Sample(f"{episode}/0", "web", "train", episode, image, 64, 64, "web", "Save", (), "", (), (), "Click")

    screen = Screen(image, 64, 64, "web", (sample("a"), sample("b")))
    remaining, aside = put_aside([screen], 0.5, random.Random(0))
    assert len(aside) == len(remaining[0].samples) == 1
    assert aside[0].group != remaining[0].samples[0].group


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
