"""`hesper view [TABLE]`: episodes of any trajectory table, their screens and what was made of them."""

from __future__ import annotations

import base64
import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from assets.errors import InputError, ParameterError
from dagster_project.view.page import filled, save_page
from dagster_project.view.server import Handler, Reply, reply_json, serve
from dagster_project.view.trajectory_table import TrajectoryTable

STAGES = ("verified_trajectories", "collected_trajectories")
"""Those with trajectories; the first that has run is shown by default."""

_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
"""First bytes -> type. Nothing else is sent to a browser as a picture: an SVG could hold a script."""


def view_trajectories(
    root: Path, what: str | None, chosen: Mapping[str, str | None], ready: Callable[[str], None]
) -> None:
    """Serve the page of a table until the process is told to end.

    Args:
        what: name of a stage or of an imported batch, or a folder; see `find_table`.
        chosen: columns of the episodes table, or `episode`, and the value to keep (None keeps all).
        ready: called with the page's address.

    Raises:
        ParameterError: no such table, or no such episode in it.
        InputError: the table can't be read.
    """
    table = TrajectoryTable(find_table(root, what))
    page = filled("trajectories.html", _about(table, choose(table, chosen)))
    serve(
        {
            ("GET", ""): lambda _: Reply(page.encode(), "text/html; charset=utf-8"),
            ("GET", "find"): lambda given: reply_json(table.find(str(given.get("text", "")))),
            **routes(table),
        },
        ready,
    )


def write_trajectories(
    root: Path, what: str | None, chosen: Mapping[str, str | None], output: Path, most_steps: int
) -> None:
    """Write the page of a table as one file that needs nothing else.

    Raises:
        ParameterError: as `view_trajectories`, or more steps are chosen than one file may hold.
    """
    table = TrajectoryTable(find_table(root, what))
    rows = choose(table, chosen)
    steps = sum(row["steps"] for row in rows)
    if steps > most_steps:
        raise ParameterError(
            f"{steps} steps are chosen and a file holds {most_steps}: choose fewer (--policy, --app, --verdict, "
            "--split, --episode), or allow more with --most-steps"
        )
    details = {}
    for row in rows:
        detail = table.episode(row["number"])
        assert detail is not None
        pictures = [table.picture(row["number"], at) for at in range(len(detail["steps"]) + 1)]
        details[row["number"]] = {**detail, "pictures": [picture and _data_address(picture) for picture in pictures]}
    save_page(output, "trajectories.html", {**_about(table, rows), "details": details})


def find_table(root: Path, what: str | None) -> Path:
    """The folder of a table: of a stage, of an imported batch, or any that holds the two files.

    Raises:
        ParameterError: there is none; says what there is.
    """
    data = root / "data"
    if what is None:
        made = [data / name for name in STAGES if (data / name / "episodes.parquet").is_file()]
        if not made:
            raise InputError("there are no trajectories yet: `hesper run verified_trajectories` makes them")
        return made[0]
    if what in STAGES:
        if not (data / what / "episodes.parquet").is_file():
            raise InputError(f"there is no data/{what} yet: `hesper run {what}` makes it")
        return data / what
    batches = sorted(path.parent.name for path in (data / "imported_batches").glob("*/episodes.parquet"))
    folder = data / "imported_batches" / what if what in batches else Path(what)
    if not folder.is_dir():
        names = [*STAGES, *batches]
        near = difflib.get_close_matches(what, names, 3, 0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(names)}, or a folder"
        raise ParameterError(f"no table '{what}'; {hint}")
    missing = [name for name in ("episodes.parquet", "steps.parquet") if not (folder / name).is_file()]
    if missing:
        raise ParameterError(f"{folder} is no table of trajectories: it has no {' and no '.join(missing)}")
    return folder.resolve()


def choose(table: TrajectoryTable, chosen: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Rows of the index with these values.

    Raises:
        ParameterError: no row has a value, or none has all of them; the message says which there are.
    """
    rows = table.index()
    for name, value in chosen.items():
        if value is None:
            continue
        column = "id" if name == "episode" else name
        if column == "verdict" and not table.has_verdicts:
            raise ParameterError(f"the episodes of {table.folder} have not been judged, so none has a verdict")
        known = sorted({str(row[column]) for row in rows})
        if value not in known:
            near = difflib.get_close_matches(value, known, 3, 0.4)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(known[:20])}"
            raise ParameterError(f"no episode{' of those chosen' if rows else ''} has the {name} '{value}'; {hint}")
        rows = [row for row in rows if row[column] == value]
    return rows


def routes(
    table: TrajectoryTable, shown: Callable[[dict[str, Any]], dict[str, Any]] = lambda episode: episode
) -> dict[tuple[str, str], Handler]:
    """What a page with episodes asks for.

    Args:
        shown: makes of an episode what the page may know of it.
    """

    def episode(given: dict[str, Any]) -> Reply:
        found = table.episode(_whole(given.get("number")))
        return Reply(status=404) if found is None else reply_json(shown(found))

    def picture(given: dict[str, Any]) -> Reply:
        found = table.picture(_whole(given.get("number")), _whole(given.get("at")))
        kind = None if found is None else _type_of(found)
        return Reply(status=404) if found is None or kind is None else Reply(found, kind)

    return {("GET", "episode"): episode, ("GET", "picture"): picture}


def _about(table: TrajectoryTable, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": table.folder.name, "episodes": rows, "stray": table.stray_steps}


def _whole(value: object) -> int:
    """The number that a query holds, -1 for anything else."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else -1


def _type_of(picture: bytes) -> str | None:
    return next((kind for begin, kind in _TYPES.items() if picture.startswith(begin)), None)


def _data_address(picture: bytes) -> str | None:
    kind = _type_of(picture)
    return kind and f"data:{kind};base64,{base64.b64encode(picture).decode()}"
