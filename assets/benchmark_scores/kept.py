"""What the training kept: the step that a checkpoint's weights are of, and which other checkpoints have the same.

A stage that trains may find that none of its steps did better, on samples put aside, than what it began with. Its
checkpoint then is the model that it was made from, and two columns of figures measure one model.
"""

from __future__ import annotations

import filecmp
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kept:
    """Of one checkpoint.

    Attributes:
        step: of its training, that its weights are of; None where its stage does not choose among steps.
        same_as: the checkpoints before it that have the same weights, byte for byte.
    """

    step: int | None
    same_as: tuple[str, ...]


def read_kept(models: Mapping[str, Path]) -> dict[str, Kept]:
    """Look at the checkpoints, path -> folder, given in the order of the lineage."""
    kept: dict[str, Kept] = {}
    for path, folder in models.items():
        same = tuple(other for other in kept if _same_weights(folder, models[other]))
        kept[path] = Kept(_kept_step(folder), same)
    return kept


def _kept_step(folder: Path) -> int | None:
    metrics = folder / "metrics.json"
    step = json.loads(metrics.read_text(encoding="utf-8")).get("kept_step") if metrics.is_file() else None
    return None if step is None else int(step)


def _same_weights(one: Path, other: Path) -> bool:
    """Whether the files of weights are the same; of different ones, only the beginnings are read."""
    names, others = (sorted(file.name for file in folder.glob("*.safetensors")) for folder in (one, other))
    return bool(names) and names == others and filecmp.cmpfiles(one, other, names, shallow=False)[0] == names
