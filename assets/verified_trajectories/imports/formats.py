"""Which reader understands a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assets.errors import InputError
from assets.verified_trajectories.imports import agent_net, android_control, own_tables
from assets.verified_trajectories.imports.episodes import ImportedEpisode
from assets.verified_trajectories.imports.rows import BatchFiles, Rejection


@dataclass(frozen=True)
class Format:
    """A way to write trajectories down, and how to read it."""

    name: str
    recognises: Callable[[BatchFiles], bool]
    read: Callable[[BatchFiles], Iterator[ImportedEpisode | Rejection]]


def _by_rows(recognises: Callable[[Mapping[str, Any]], bool]) -> Callable[[BatchFiles], bool]:
    return lambda files: any(recognises(row.values) for row in files.first_rows)


FORMATS = (
    Format(own_tables.NAME, own_tables.recognises_files, own_tables.read),
    Format(agent_net.NAME, _by_rows(agent_net.recognises), agent_net.read),
    Format(android_control.NAME, _by_rows(android_control.recognises), android_control.read),
)
"""Every format, the surest to tell first."""


def recognise(files: BatchFiles) -> Format:
    """The format of a batch, by its first readable rows.

    Raises:
        InputError: no reader knows it.
    """
    for form in FORMATS:
        if form.recognises(files):
            return form
    known = ", ".join(form.name for form in FORMATS)
    held = ", ".join(files.tables[:5]) or "no JSON Lines, JSON or Parquet file"
    raise InputError(f"no reader knows the format of this batch (known: {known}); it holds {held}")
