"""What `hesper serve` serves: a folder, or exactly the bytes of the version behind an alias."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assets.errors import InputError, ParameterError
from assets.stage import directory_id
from dagster_project import serving, tracking
from dagster_project.serving import find_model


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Alias -> tags of the version that bears it; exported ids are written as the text `exported`."""
    aliases: dict[str, Any] = {}

    def behind(root: Path, alias: str) -> Any:
        return SimpleNamespace(version="3", tags=aliases[alias]) if alias in aliases else None

    class Exporting:
        def __init__(self, root: Path) -> None:
            """Opens nothing."""

        def export(self, identity: str, path: Path) -> None:
            path.mkdir(parents=True)
            (path / "config.json").write_text(f"exported {identity}")

    monkeypatch.setattr(tracking, "behind_alias", behind)
    monkeypatch.setattr(serving, "Versions", Exporting)
    return aliases


def test_a_folder_is_itself(tmp_path: Path, registry: dict[str, Any]) -> None:
    assert find_model(tmp_path / "elsewhere", str(tmp_path)) == tmp_path


def test_an_alias_is_the_output_while_it_holds_the_version_and_an_export_after(
    tmp_path: Path, registry: dict[str, Any]
) -> None:
    output = tmp_path / "models" / "distilled"
    output.mkdir(parents=True)
    (output / "config.json").write_text("one")
    registry["champion"] = {"dvc_hash": directory_id(output), "path": "models/distilled"}
    assert find_model(tmp_path, "champion") == output
    identity = directory_id(output)
    (output / "config.json").write_text("another")
    for _ in range(2):
        found = find_model(tmp_path, "champion")
        assert found.is_relative_to(tmp_path / ".hesper")
        assert (found / "config.json").read_text() == f"exported {identity}"


def test_neither_is_one_clear_error(tmp_path: Path, registry: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="no folder 'nobody', and no version"):
        find_model(tmp_path, "nobody")
    for identity in ("", "../../etc", "f" * 32):
        registry["odd"] = {"dvc_hash": identity}
        with pytest.raises(InputError, match="lacks the tag dvc_hash"):
            find_model(tmp_path, "odd")
