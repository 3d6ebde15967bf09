"""What and where: the objective that teaches a model made from scratch to read a screen before it is asked anything.

The DOM says what covers each visual token, so each merged visual token is asked three things about itself: *what*
covers it (the label's word token, through the tied embedding), *where* it lies (row and column of the screen), and
where the *centre* of what covers it lies. Without it, a model of this size learns nothing from questions and answers
(FACTS.md). The heads are temporary: they are trained beside the model and not saved in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from assets.agent.processor import Processor
from assets.agent.samples import Element, Screen, StoredPicture
from assets.agent.tokenizer import NOTHING, token_id
from assets.stage import StageParameters, some_weight

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class PerceptionWeights(StageParameters):
    """Weights of the three parts, and how finely a centre is told: bins over the width and over the height."""

    what: float = Field(ge=0)
    where: float = Field(ge=0)
    centre: float = Field(ge=0)
    centre_bins: int = Field(ge=1)

    @model_validator(mode="after")
    def _asks_something(self) -> PerceptionWeights:
        some_weight((self.what, self.where, self.centre))
        return self


@dataclass(frozen=True)
class Cover:
    """What covers each merged visual token of a screen.

    Attributes:
        what: `[tokens]`, the word token of the element that covers most of it, or that of NOTHING.
        centre: `[tokens, 2]`, column and row bin of that element's centre; -100 where nothing is.
    """

    what: torch.Tensor
    centre: torch.Tensor

    @cached_property
    def covered(self) -> int:
        """How many tokens something covers."""
        return int((self.centre[:, 0] >= 0).sum())


class Perception:
    """The objective for screens of one size, with its temporary heads.

    Args:
        like: a screen of that size.
    """

    def __init__(self, model: PreTrainedModel, processor: Processor, weights: PerceptionWeights, like: Screen) -> None:
        from torch import nn

        rows, columns = processor.patches(like.image).grid
        merge = processor.images.merge_size
        self.grid = (rows // merge, columns // merge)
        self.weights = weights
        hidden = model.config.text_config.hidden_size
        self.heads = nn.ModuleDict(
            {
                "row": nn.Linear(hidden, self.grid[0]),
                "column": nn.Linear(hidden, self.grid[1]),
                "centre_row": nn.Linear(hidden, weights.centre_bins),
                "centre_column": nn.Linear(hidden, weights.centre_bins),
            }
        ).to(model.device)
        self._model = model
        self._tokenizer = processor.tokenizer
        self._covers: dict[bytes | StoredPicture, Cover] = {}

    def losses(
        self, visual: torch.Tensor, screens: Sequence[Screen], shown: float, covered: float
    ) -> dict[str, torch.Tensor]:
        """Cross-entropies of the parts, from visual tokens `[screens, tokens, hidden]`.

        Each is this call's part of the mean over the visual tokens of the whole step, which has `shown` screens and
        `covered` tokens that something covers.
        """
        import torch.nn.functional as F

        asked = self._asked(visual, screens)
        total = {name: F.cross_entropy(scores, right, reduction="sum") for name, (scores, right) in asked.items()}
        tokens = self.grid[0] * self.grid[1] * shown
        return {
            "what": total["what"] / tokens,
            "where": (total["column"] + total["row"]) / tokens,
            "centre": (total["centre_column"] + total["centre_row"]) / max(1, covered),
        }

    def covered(self, screens: Sequence[Screen]) -> int:
        """How many visual tokens of the screens something covers."""
        return sum(self._cover(screen).covered for screen in screens)

    def weighted(self, parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The sum of the parts by their weights."""
        weights = self.weights
        return weights.what * parts["what"] + weights.where * parts["where"] + weights.centre * parts["centre"]

    def pointer(self, hidden: torch.Tensor, centres: torch.Tensor, step: float) -> torch.Tensor:
        """Cross-entropy of the centres told by hidden states `[questions, hidden]`, through the centre heads.

        `centres` `[questions, 2]` are shares of the width and height, negative where there is nothing to tell. This
        call's part of the mean over all that is told in the step, `step` centres.
        """
        import torch.nn.functional as F

        told = centres[:, 0] >= 0
        bins = (centres[told] * self.weights.centre_bins).long().clamp_max(self.weights.centre_bins - 1)
        bins, hidden = bins.to(hidden.device), hidden[told.to(hidden.device)]
        column, row = self.heads["centre_column"](hidden).float(), self.heads["centre_row"](hidden).float()
        both = (F.cross_entropy(column, bins[:, 0], reduction="sum"), F.cross_entropy(row, bins[:, 1], reduction="sum"))
        return (both[0] + both[1]) / max(1, step)

    def accuracy(self, visual: torch.Tensor, screens: Sequence[Screen]) -> dict[str, float]:
        """Share of the covered visual tokens `[screens, tokens, hidden]` whose word, and whose centre, is right."""
        asked = self._asked(visual, screens)
        scores, what = asked["what"]
        covered = what != self._nothing
        read = (scores.argmax(-1) == what)[covered].float().mean().item()
        right = [scores.argmax(-1) == target for scores, target in (asked["centre_column"], asked["centre_row"])]
        return {"words_read": read, "centres_told": (right[0] & right[1]).float().mean().item()}

    @property
    def _nothing(self) -> int:
        return token_id(self._tokenizer, NOTHING)

    def _asked(self, visual: torch.Tensor, screens: Sequence[Screen]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Scores and targets of every question to the visual tokens."""
        import torch

        rows, columns = self.grid
        tokens = visual.reshape(-1, visual.shape[-1])
        covers = [self._cover(screen) for screen in screens]
        what = torch.cat([item.what for item in covers]).to(tokens.device)
        centre = torch.cat([item.centre for item in covers]).to(tokens.device)
        place = torch.arange(rows * columns, device=tokens.device).repeat(len(covers))
        covered = centre[:, 0] >= 0
        centred = tokens[covered]
        # 4 / sqrt(hidden) gives logits a useful spread from the start, when token and embedding are still random.
        embedding: torch.Tensor = self._model.get_input_embeddings().weight  # type: ignore[assignment]
        return {
            "what": ((tokens @ embedding.T * (4 / tokens.shape[-1] ** 0.5)).float(), what),
            "row": (self.heads["row"](tokens).float(), place // columns),
            "column": (self.heads["column"](tokens).float(), place % columns),
            "centre_row": (self.heads["centre_row"](centred).float(), centre[covered, 1]),
            "centre_column": (self.heads["centre_column"](centred).float(), centre[covered, 0]),
        }

    def _cover(self, screen: Screen) -> Cover:
        known = self._covers.get(screen.picture)
        if known is None:
            known = cover(screen, self.grid, self._tokenizer, self.weights.centre_bins)
            self._covers[screen.picture] = known
        return known


def cover(screen: Screen, grid: tuple[int, int], tokenizer: PreTrainedTokenizerBase, bins: int) -> Cover:
    """Label the merged visual tokens of a screen, which lie in rows; `grid` is the number of rows and columns."""
    import torch

    rows, columns = grid
    cell_width, cell_height = screen.width / columns, screen.height / rows
    what = torch.full((rows, columns), token_id(tokenizer, NOTHING), dtype=torch.long)
    centre = torch.full((rows, columns, 2), -100, dtype=torch.long)
    best = torch.zeros(rows, columns)
    for element in screen.elements:
        word = label_token(element, tokenizer)
        if word is None:
            continue
        left, top, right, bottom = element.box
        area = _overlap(top, bottom, cell_height, rows)[:, None] * _overlap(left, right, cell_width, columns)[None, :]
        better = area > best
        best = torch.where(better, area, best)
        what[better] = word
        column = min(int((left + right) / 2 * bins / screen.width), bins - 1)
        row = min(int((top + bottom) / 2 * bins / screen.height), bins - 1)
        centre[better] = torch.tensor([column, row])
    return Cover(what.flatten(), centre.view(-1, 2))


def label_token(element: Element, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token of the label's first word, or None where the label has none."""
    words = element.label.split()
    return int(tokenizer.encode(words[0], add_special_tokens=False)[0]) if words else None


def _overlap(low: float, high: float, cell: float, cells: int) -> torch.Tensor:
    """How much of `[low, high)` lies in each cell: `[cells]`."""
    import torch

    starts = torch.arange(cells) * cell
    return (torch.clamp(starts + cell, max=high) - torch.clamp(starts, min=low)).clamp_min(0)
