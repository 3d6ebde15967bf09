"""What people decide about episodes that the judges can't agree on: a small JSON file a decision.

A decision names the episode and what was seen of it. An episode of the same name that went otherwise, as a later round
may bring it, is another matter: the decision does not hold for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assets.errors import InputError

Verdict = Literal["completed", "partial", "infeasible", "failed"]
"""The label of an episode."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Review(BaseModel):
    """One decision of a person.

    Attributes:
        episode: id of the episode.
        seen: what was seen of it, see `seen_of`.
        verdict: the label it is to have.
        reviewer: who says so.
        note: why, in the reviewer's words.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    episode: str = Field(min_length=1)
    seen: str = Field(pattern=r"^[0-9a-f]{64}$")
    verdict: Verdict
    reviewer: str = Field(min_length=1, max_length=100)
    note: str = Field("", max_length=10_000)


def seen_of(episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    """sha256 of all that is there to be seen of an episode: the instruction, every screen and every response.

    Args:
        episode: row of the episodes table.
        steps: its rows of the steps table, in order.
    """
    parts = [str(episode["instruction"]).encode()]
    for step in steps:
        parts += [step["screenshot"]["bytes"], str(step["response"]).encode()]
    if episode["final_screenshot"] is not None:
        parts.append(episode["final_screenshot"]["bytes"])
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def write_review(folder: Path, review: Review) -> Path:
    """Keep a decision; one about the same thing seen is replaced. Returns the file."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", review.episode)[:80]
    path = folder / f"{name}.{review.seen[:16]}.json"
    partial = path.with_suffix(".partial")
    folder.mkdir(parents=True, exist_ok=True)
    partial.write_text(
        json.dumps(review.model_dump(), ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    os.replace(partial, path)
    return path


def read_reviews(folder: Path) -> dict[str, Review]:
    """What was seen -> the decision about it.

    Raises:
        InputError: a file is no decision; says which and why.
    """
    found: dict[str, Review] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            review = Review.model_validate_json(path.read_bytes())
        except ValidationError as error:
            trouble = error.errors()[0]
            place = ".".join(map(str, trouble["loc"])) or "the file"
            raise InputError(f"{path} is no review: {place}: {trouble['msg']}") from None
        found[review.seen] = review
    return found
