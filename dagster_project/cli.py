"""hesper: run the lineage, and ask what is in it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from assets.errors import HesperError, ParameterError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__, rich_markup_mode=None
)


def main() -> None:
    """Entry point: a `HesperError` is one message and its exit code, not a traceback."""
    try:
        app()
    except HesperError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


@app.command()
def run(
    stages: Annotated[list[str] | None, typer.Argument(help="stages, or stage@partition; default: all")] = None,
    only: Annotated[bool, typer.Option("--only", help="just these, not what they are made from")] = False,
) -> None:
    """Bring assets, and everything they are made from, up to date."""
    begun = time.monotonic()
    root = _root()
    from dagster_project import launch
    from dagster_project.definitions import defs, project

    instance = launch.open_instance(root)
    launch.end_dead_runs(instance)
    addresses = stages or [s.name for s in project.lineage.stages]
    outcomes = launch.materialise_lineage(defs, project.lineage, instance, addresses, lambda o: print(o, flush=True))
    print(time.monotonic()-begun)
    for outcome in outcomes:
        if outcome.state == "failed":
            sys.exit(outcome.exit_code)


def _root() -> Path:
    from assets.stage import project_root

    root = project_root(Path(os.environ["HESPER_ROOT"]) if "HESPER_ROOT" in os.environ else None)
    os.environ["HESPER_ROOT"] = str(root)
    return root


if __name__ == "__main__":
    main()
