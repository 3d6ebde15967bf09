"""Take an inbox in processes that are killed at chosen places, then once more; print what there is in the end.

A program of its own, forked for each process, so that what takes long to import is imported once:

    python -m tests.dagster_project.import_kills PROJECT KILLS

PROJECT has a filled inbox. Each process works on a copy of it. The places are calls that rename, link, remove, write or
version something; as many as KILLS are spread over all of them. Prints a JSON object a line: the place, whether the
process was killed there, and the ids of all that is in the project after the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dvc.repo  # noqa: F401  # imported once, before the forks
import PIL.Image  # noqa: F401
import pyarrow.parquet  # noqa: F401

from assets.stage import directory_id
from assets.verified_trajectories.imports import batches as importing
from dagster_project import inbox
from dagster_project.materialise import Project
from dagster_project.versions import Versions
from tests.verified_trajectories.foreign_batches import LIMITS


def main(template: Path, kills: int) -> None:
    """See above."""
    inbox.check_tables = lambda batch: None  # type: ignore[assignment]  # what the tables hold is not at stake
    total = template.with_name("total")
    places: list[str] = []
    shutil.copytree(template, total, symlinks=True)
    note = template.with_name("places.txt")
    assert forked(lambda: take(total, None, note)) == 0
    places = note.read_text().splitlines()
    print(json.dumps({"place": "none", "killed": False, "left": left(total)}), flush=True)
    for turn in range(kills):
        number = 1 + turn * (len(places) - 1) // max(kills - 1, 1)
        root = template.with_name(f"killed-{number}")
        shutil.copytree(template, root, symlinks=True)
        status = forked(lambda root=root, number=number: take(root, number, None))  # type: ignore[misc]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert forked(lambda root=root: take(root, None, None)) == 0  # type: ignore[misc]
        line = {"place": f"{number}: {places[number - 1]}", "killed": killed, "left": left(root)}
        print(json.dumps(line), flush=True)
        shutil.rmtree(root)


def forked(work: Callable[[], None]) -> int:
    """How a process that does `work` ended, as `os.wait` has it."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def take(root: Path, kill_at: int | None, note: Path | None) -> None:
    """Take the inbox, and die before the call of this number."""
    count = 0

    def watched(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if note is not None:
                with note.open("a") as stream:
                    print(name, *(str(arg)[-60:] for arg in args[:2]), file=stream)
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return wrapper

    if kill_at is not None or note is not None:
        for place, name in ((os, "replace"), (os, "rename"), (os, "link"), (shutil, "rmtree")):
            setattr(place, name, watched(getattr(place, name), name))
        Versions.add = watched(Versions.add, "add")  # type: ignore[method-assign]
        importing.write_parquet = watched(importing.write_parquet, "write_parquet")  # type: ignore[attr-defined]
    project = Project.open(root)
    inbox.take_inbox(project, inbox.open_inbox(root, "inbox"), LIMITS, 0.0)


def left(root: Path) -> dict[str, str]:
    """The id of each batch, of the quarantine and of the originals; and what is where it should not be."""
    found = dict(inbox.batches(Project.open(root)))
    data = root / "data" / "imported_batches"
    found |= {f"data/{path.name}": directory_id(path) for path in sorted(data.iterdir()) if path.is_dir()}
    found |= {f"inbox/{path.name}": directory_id(path) for path in sorted((root / "inbox").iterdir()) if path.is_dir()}
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
