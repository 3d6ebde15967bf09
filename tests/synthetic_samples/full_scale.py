"""Full-scale interfaces for tests and benchmarks: what a shard draws, with the page still open."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assets.agent.parameters import AgentParameters
from assets.stage import load_section
from assets.synthetic_samples.capture import Capture, InterfacePage
from assets.synthetic_samples.grounding_samples import Parameters
from assets.synthetic_samples.interface_samples import InterfaceParameters
from assets.synthetic_samples.interfaces.scene import Interface, describe, interface
from assets.synthetic_samples.themes import SPLITS, Split

PROFILE = Path(__file__).parents[2] / "infra" / "profiles" / "9b.yaml"


def full_parameters(size: tuple[int, int] | None = None) -> InterfaceParameters:
    """Those of the 9b profile; with `size`, web and desktop interfaces of that size alone."""
    parameters = load_section(PROFILE, "grounding_samples", Parameters).interfaces
    assert parameters is not None
    if size is None:
        return parameters
    scenes = parameters.scenes.model_copy(
        update={"platforms": {"web": 0.5, "desktop": 0.5}, "screens": {"web": [size], "desktop": [size]}}
    )
    return parameters.model_copy(update={"scenes": scenes})


def full_agent() -> AgentParameters:
    """That of the 9b profile."""
    return load_section(PROFILE, "agent", AgentParameters)


@dataclass(frozen=True)
class Shown:
    """An interface that a browser shows now, and what was captured of it."""

    interface: Interface
    capture: Capture
    rng: random.Random


def shown(
    page: InterfacePage,
    parameters: InterfaceParameters,
    seed: str,
    splits: tuple[Split, ...] = SPLITS,
    screens: int = 1000000,
) -> Iterator[Shown]:
    """Interfaces of the splits in turn, each shown until the next is asked for."""
    for number in range(screens):
        rng = random.Random(f"{seed}/{number}")
        drawn = interface(rng, describe(rng, splits[number % len(splits)], parameters.scenes))
        yield Shown(drawn, page.capture(drawn.html, drawn.description.screen), rng)
