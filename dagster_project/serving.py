"""Which folder `hesper serve` serves: a path, or the version behind an alias of the registry."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from assets.errors import InputError, ParameterError
from assets.stage import directory_id
from dagster_project import tracking
from dagster_project.versions import Versions


def find_model(root: Path, what: str) -> Path:
    """A model folder of this name, or the bytes of the version that has this alias.

    They lie in the stage's output if that still is the version; else they are written from the DVC cache to
    `.hesper/served/<id>`.

    Raises:
        ParameterError: there is neither.
        InputError: the version's bytes are no longer here.
    """
    folder = Path(what)
    if folder.is_dir():
        return folder
    version = tracking.behind_alias(root, what)
    if version is None:
        raise ParameterError(f"no folder '{what}', and no version of the registered model has this alias")
    identity, output = version.tags.get("dvc_hash", ""), root / version.tags.get("path", "")
    if not re.fullmatch(r"[0-9a-f]{32}\.dir", identity):
        raise InputError(f"version {version.version} ({what}) lacks the tag dvc_hash, which says what its bytes are")
    if output.is_dir() and directory_id(output) == identity:
        return output
    kept = root / ".hesper" / "served" / identity.removesuffix(".dir")
    if not kept.is_dir():
        partial = kept.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        Versions(root).export(identity, partial)
        partial.rename(kept)
    return kept
