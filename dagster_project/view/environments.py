"""`hesper view environments`: the catalogue of apps, to search and to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assets.errors import InputError
from dagster_project.view.page import thumbnail, write_page

COLUMNS = (
    "id", "platform", "kind", "title", "locale", "split", "category", "scale", "source", "screens", "reached",
    "elements", "actions", "digest", "trouble", "fault",
)  # fmt: skip


def write_environments(root: Path) -> Path:
    """Make the page of `data/environments` and return its path.

    Raises:
        InputError: the stage has not run.
    """
    table = root / "data" / "environments" / "apps.parquet"
    if not table.is_file():
        raise InputError("there is no data/environments yet: `hesper run environments` makes it")
    return write_page(root, "environments", "environments.html", {"apps": list(_apps(table))})


def _apps(table: Path) -> Iterator[dict[str, Any]]:
    """The rows, each with a small picture; read in batches, so that memory stays flat."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(table) as file:
        for batch in file.iter_batches(32, columns=[*COLUMNS, "screenshot"]):
            for row in batch.to_pylist():
                shot = row.pop("screenshot")
                yield {**row, "picture": thumbnail(shot["bytes"], 320, 320) if shot else None}
