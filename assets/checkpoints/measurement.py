"""What is measured while a model trains, on which samples, and which of its weights are kept.

Held-out samples are only ever measured. Which weights are kept is decided on groups (screens or episodes) of the
training split that are put aside and never trained on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from assets.agent.matching import SCREEN_DISTANCE, Match
from assets.agent.model_policy import score_samples
from assets.agent.prompts import SystemPrompt
from assets.agent.samples import TABLE_OF_DOMAIN, Sample, Screen, load_samples, load_screens
from assets.checkpoints.ranks import Ranks
from assets.errors import InputError
from assets.stage import Stage, StageParameters

if TYPE_CHECKING:
    import pyarrow as pa
    from transformers import PreTrainedModel

    from assets.agent.processor import Processor


class Measurement(StageParameters):
    """What is measured on the way.

    Attributes:
        validation_share: share of the training groups put aside to choose the checkpoint.
        validation_questions: most of them that are asked; so is `curve_questions` of held-out ones on the way.
        heldout_questions: most held-out questions asked before and after.
    """

    validation_share: float = Field(ge=0, lt=1)
    validation_questions: int = Field(ge=0)
    curve_questions: int = Field(ge=0)
    heldout_questions: int = Field(ge=0)


def screens_a_step(screens: Sequence[Screen], questions: float) -> int:
    """How many screens hold about `questions` questions, by the average of all screens."""
    return max(1, round(questions * len(screens) / sum(len(screen.samples) for screen in screens)))


def asked_length(sample: Sample) -> int:
    """About how much text is asked with: characters of the instruction and the history."""
    return len(sample.instruction) + sum(map(len, sample.history)) + 1


def share_screens(ranks: Ranks, screens: Sequence[Screen]) -> list[Sample]:
    """A rank's samples of the screens of a step, those of like length on one rank."""

    def form(screen: Screen) -> tuple[str, int]:
        return screen.domain, max(map(asked_length, screen.samples))

    mine = ranks.share(screens, lambda screen: sum(map(asked_length, screen.samples)), form)
    return [sample for screen in mine for sample in screen.samples]


def put_aside(screens: Sequence[Screen], share: float, seed: int) -> tuple[list[Screen], list[Sample]]:
    """Take a share of the groups out of the training screens: what remains, and the samples taken out.

    A group is taken by a hash of its name and the seed, so that mid-training and what comes after it put the same
    groups aside (and a larger share holds the smaller): what a model has been trained on can't say when to stop.
    """

    def taken(sample: Sample) -> bool:
        digest = hashlib.sha256(f"{seed}/{sample.group}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < share * 2**64

    remaining = []
    aside: list[Sample] = []
    for screen in screens:
        kept = tuple(sample for sample in screen.samples if not taken(sample))
        aside += [sample for sample in screen.samples if taken(sample)]
        if kept:
            remaining.append(replace(screen, samples=kept))
    return remaining, aside


def thin(samples: Sequence[Sample], most: int) -> list[Sample]:
    """About `most` samples, whole groups, spread evenly over all of them; all where there are fewer."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    share = min(1.0, most / max(1, len(samples)))
    members = list(groups.values())
    return [
        sample
        for index, group in enumerate(members)
        if int((index + 1) * share) > int(index * share)
        for sample in group
    ]


def accuracy(matches: Sequence[Match]) -> float:
    """Share of correct steps."""
    return sum(match.correct for match in matches) / len(matches)


class DomainSamples:
    """What domains give: screens to train on, samples put aside to choose the weights, held-out samples, and those of
    them that are asked on the way.

    Raises:
        InputError: there is no verified training sample of a domain.
    """

    def __init__(self, stage: Stage[Any], domains: Sequence[str], measured: Measurement) -> None:
        self.screens: list[Screen] = []
        self.validation: list[Sample] = []
        self.heldout: list[Sample] = []
        self.curve: list[Sample] = []
        for domain in domains:
            folder = stage.input(TABLE_OF_DOMAIN[domain])
            screens, aside = put_aside(load_screens(folder, domain, "train"), measured.validation_share, stage.seed)
            if not screens:
                raise InputError(f"{stage.entry.address}: {folder} holds no verified training sample of {domain}")
            heldout = thin(load_samples(folder, domain, "heldout"), measured.heldout_questions)
            self.screens += screens
            self.validation += thin(aside, measured.validation_questions)
            self.heldout += heldout
            self.curve += thin(heldout, measured.curve_questions)

    def curve_accuracy(self, matches: Sequence[Match]) -> float:
        """Of the samples that are asked on the way, where the matches of all held-out ones are known."""
        known = {sample.id: match for sample, match in zip(self.heldout, matches, strict=True)}
        return accuracy([known[sample.id] for sample in self.curve])


@dataclass(frozen=True)
class Asking:
    """How samples are asked.

    Attributes:
        distance: see `matching.SCREEN_DISTANCE`.
    """

    max_new_tokens: int
    system_prompt: SystemPrompt
    distance: float = SCREEN_DISTANCE


def score_together(
    ranks: Ranks, model: PreTrainedModel, processor: Processor, samples: Sequence[Sample], asking: Asking
) -> list[Match]:
    """`score_samples`, its work shared by the ranks; every rank gets all matches, in the order of the samples."""

    def ask(mine: list[Sample]) -> list[tuple[Any, ...]]:
        with ranks.whole(model):
            matches = score_samples(
                model, processor, mine, asking.max_new_tokens, asking.system_prompt, asking.distance
            )
        return [astuple(match) for match in matches]

    screens = [list(members) for _, members in groupby(range(len(samples)), lambda place: samples[place].picture)]
    return [Match(*values) for values in in_shares(ranks, samples, screens, ask)]


def in_shares(
    ranks: Ranks,
    samples: Sequence[Sample],
    together: Sequence[Sequence[int]],
    ask: Callable[[list[Sample]], Sequence[Any]],
) -> list[Any]:
    """What `ask` says of each sample, its work shared by the ranks; every rank gets all of it, in the samples' order.

    Args:
        together: places of samples that one rank asks, next to each other.
        ask: called once, with this rank's samples; what it says is gathered, see `Ranks.gather`.
    """
    lengths = [asked_length(sample) for sample in samples]
    shared = ranks.share(
        together, lambda places: sum(lengths[place] for place in places), lambda places: lengths[places[0]]
    )
    mine = [place for places in shared for place in places]
    said = ask([samples[place] for place in mine])
    return [value for _, value in sorted(ranks.gather(list(zip(mine, said, strict=True))))]


def outcome_rows(samples: Sequence[Sample], **answered: Sequence[bool]) -> Iterator[dict[str, object]]:
    """Rows of `outcomes.parquet`: held-out samples, and by name whose answer repeated the verified action."""
    for sample, *right in zip(samples, *answered.values(), strict=True):
        named = dict(zip(answered, right, strict=True))
        yield {"domain": sample.domain, "sample": sample.id, "group": sample.group, **named}


def outcome_schema(*names: str) -> pa.Schema:
    """Of `outcome_rows` with these names. For comparisons case by case."""
    import pyarrow as pa

    told = [pa.field(name, pa.string()) for name in ("domain", "sample", "group")]
    return pa.schema([*told, *(pa.field(name, pa.bool_()) for name in names)])


class BestWeights:
    """The weights with the highest score so far, in a file that outlives the process.

    Measurements are the same on every run, so a run that continues from an earlier checkpoint meets its old scores
    again and ends with the same choice. Of equal scores the first is kept: it has drifted least.
    """

    def __init__(self, path: Path, model: PreTrainedModel, ranks: Ranks) -> None:
        self._path = path
        self._model = model
        self._ranks = ranks

    def offer(self, step: int, score: float) -> None:
        """Keep the model's weights if they score higher than those kept."""
        from safetensors.torch import save_file

        with self._ranks.whole(self._model):
            if not self._ranks.leads or (self._path.is_file() and score <= self._record()[1]):
                return
            weights = {name: value.detach().cpu().contiguous() for name, value in self._model.named_parameters()}
        partial = self._path.with_suffix(".partial")
        save_file(weights, partial, {"step": str(step), "score": repr(score)})
        os.replace(partial, self._path)

    def restore(self) -> int:
        """Load the weights kept into the model; returns their step."""
        import torch
        from safetensors.torch import load_file

        self._ranks.wait()  # until rank 0 has written what it was offered last
        weights = load_file(self._path)
        with self._ranks.whole(self._model, write=True), torch.no_grad():
            for name, parameter in self._model.named_parameters():
                parameter.copy_(weights[name])
        return self._record()[0]

    def _record(self) -> tuple[int, float]:
        from safetensors import safe_open

        with safe_open(self._path, "pt") as file:
            record = file.metadata()
        return int(record["step"]), float(record["score"])
