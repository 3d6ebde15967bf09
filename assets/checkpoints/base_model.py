"""base_model: the model that everything starts from.

At full scale it is a named checkpoint. In the small profiles it is made from scratch: a qwen3_5 model with random
weights, its own tokenizer, and a vision tower that has learned what is where on a screen. It has been asked nothing
about a screen yet: on questions it is at chance.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from assets.agent import fan, prompts, vocabulary
from assets.agent.model import default_device, save_model
from assets.agent.processor import Processor, make_image_processor
from assets.agent.samples import TABLE_OF_DOMAIN, Screen, load_screens
from assets.agent.tokenizer import make_tokenizer
from assets.checkpoints.deck import Deck, share_out
from assets.checkpoints.perception import Perception, PerceptionWeights
from assets.checkpoints.ranks import Ranks, together
from assets.checkpoints.tiny_model import Architecture, make_model, whiten_patches
from assets.checkpoints.training import Optimisation, draw_curves, precision, prepare, train
from assets.errors import ParameterError
from assets.generated_tasks import templates as task_templates
from assets.stage import Stage, StageParameters
from assets.synthetic_samples import templates as sample_templates

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class Mix(StageParameters):
    """Share of the screens of a step by the table they come from."""

    grounding: float = Field(gt=0)
    captcha: float = Field(ge=0)


class Scratch(StageParameters):
    """How a model is made from scratch.

    Attributes:
        whitening: screens whose patches the patch embedding starts out whitening.
        mix: share of each table's screens, grounding and CAPTCHA, in a step.
        screens: screenshots a step.
        heldout: held-out screens of each table on which the reading is measured.
    """

    architecture: Architecture
    whitening: int = Field(ge=1)
    mix: Mix
    perception: PerceptionWeights
    screens: int = Field(ge=1)
    heldout: int = Field(ge=1)
    optimisation: Optimisation


class Parameters(StageParameters):
    """`source` is `scratch`, a folder, or a name on the Hugging Face hub."""

    source: str
    scratch: Scratch | None = None


def run(stage: Stage[Parameters]) -> None:
    """Write the base model's folder."""
    if stage.parameters.source == "scratch":
        if stage.parameters.scratch is None:
            raise ParameterError("base_model.scratch is missing: source 'scratch' needs to know what to make")
        settings = stage.parameters.scratch.optimisation
        with together(stage, settings.ranks, settings.zero) as ranks:
            _make(stage, stage.parameters.scratch, ranks)
    else:
        _fetch(stage)


def _fetch(stage: Stage[Parameters]) -> None:
    source = Path(stage.parameters.source)
    if source.is_dir():
        shutil.copytree(source, stage.output, dirs_exist_ok=True)
        return
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        snapshot_download(stage.parameters.source, local_dir=stage.output, ignore_patterns=["*.bin", "*.pt", "*.pth"])
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise ParameterError(f"base_model.source: '{source}' is no folder and can't be fetched: {error}") from None
    shutil.rmtree(stage.output / ".cache", ignore_errors=True)


def _make(stage: Stage[Parameters], scratch: Scratch, ranks: Ranks) -> None:
    settings = scratch.optimisation
    prepare(settings, stage.rng("weights").getrandbits(32))
    written = [
        word
        for table in (vocabulary.WORDS, task_templates.TEMPLATE_WORDS)
        for words in table.values()
        for word in words
    ]
    words = [*written, *sample_templates.words(), *prompts.SYSTEM_LINES]
    processor = Processor(make_tokenizer(words), make_image_processor())
    model = make_model(scratch.architecture, processor.tokenizer)
    model.to(default_device())  # type: ignore[arg-type]

    mix = {domain: weight for domain, weight in scratch.mix.model_dump().items() if weight}
    screens, heldout = ({domain: _screens(stage, domain, split) for domain in mix} for split in ("train", "heldout"))
    for domain, known in heldout.items():
        heldout[domain] = stage.rng("heldout", domain).sample(known, min(scratch.heldout, len(known)))
    known = [screen for domain in mix for screen in screens[domain]]
    sampled = stage.rng("whitening").sample(known, min(scratch.whitening, len(known)))
    patches = [processor.patches(screen.image) for screen in sampled]
    whiten_patches(model, fan.stack_images(processor, patches, model.device).pixels)
    eyes = Perception(model, processor, scratch.perception, known[0])
    decks = {domain: Deck(stage, domain, screens[domain]) for domain in mix}

    def step(number: int) -> Mapping[str, float]:
        shares = share_out(number, scratch.screens, list(mix.values()))
        shown = [s for deck, share in zip(decks.values(), shares, strict=True) for s in deck.deal(*share)]
        mine = ranks.share(shown)
        covered = ranks.total({"covered": eyes.covered(mine)})["covered"]
        figures: dict[str, float] = {}

        def loss(screens: Sequence[Screen]) -> torch.Tensor:
            with precision(settings, model.device):
                parts = eyes.losses(_look(model, processor, screens), screens, len(shown), covered)
            figures.update({name: part.item() for name, part in parts.items()})
            return eyes.weighted(parts)

        for screens, counts in ranks.passes([mine] if mine else [], lambda: shown[:1]):
            ranks.backward(counts * ranks.forward(partial(loss, screens)))
        return ranks.total(figures if mine else {})

    def measure(_: int) -> dict[str, float]:
        with ranks.whole(model):
            return {
                f"{figure}_{domain}": value
                for domain, unseen in heldout.items()
                for figure, value in eyes.accuracy(_look(model, processor, unseen), unseen).items()
            }

    train(stage, settings, {"model": model, "heads": eyes.heads}, step, measure, ranks)
    final = measure(settings.steps)
    with ranks.whole(model):
        if ranks.leads:
            save_model(model, processor, stage.output)
            stage.summary(parameters=model.num_parameters(), vocabulary=len(processor.tokenizer), **final)
    if not ranks.leads:
        return
    draw_curves(stage)


def _screens(stage: Stage[Parameters], domain: str, split: str) -> list[Screen]:
    return load_screens(stage.input(TABLE_OF_DOMAIN[domain]), domain, split)


def _look(model: PreTrainedModel, processor: Processor, screens: Sequence[Screen]) -> torch.Tensor:
    """The merged visual tokens of screens of one size: `[screens, tokens, hidden]`."""
    return fan.encode_images(
        model, fan.stack_images(processor, [processor.patches(s.image) for s in screens], model.device)
    )
