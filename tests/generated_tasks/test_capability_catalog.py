"""Which apps the tasks are made for."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from assets.environments.catalogue import catalogue, desktop_programs
from assets.stage import execute

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(("scales", "programs"), [(("small",), False), (("small",), True), (("small", "full"), True)])
def test_only_apps_of_the_wanted_scales_have_capabilities(
    scales: tuple[str, ...], programs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    for name in ("assets", "dvc.yaml"):
        (tmp_path / name).symlink_to(PROJECT / name)
    (tmp_path / "params.yaml").write_text(
        f"capability_catalog: {{scales: [{', '.join(scales)}], programs: {str(programs).lower()}, boost: 2.0,\n"
        "  researcher: {kind: offline}}\n"
    )
    for folder in ("environments", "feedback"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    apps = [app for app in catalogue() if app.id != "xterm"]  # a program that the probe has not seen is described too
    text = json.dumps([{**asdict(app), "reached": list(app.screens), "elements": 3} for app in apps])
    (tmp_path / "data" / "environments" / "catalogue.json").write_text(text, encoding="utf-8")
    execute("capability_catalog", root=tmp_path)
    described = set(pq.read_table(tmp_path / "data/capability_catalog/capabilities.parquet")["app"].to_pylist())
    wanted = {app.id for app in apps if app.scale in scales and (app.platform, app.scale) != ("desktop", "full")}
    assert described == wanted | ({program.id for program in desktop_programs()} if programs else set())
    assert json.loads((tmp_path / "data/capability_catalog/excluded.json").read_text()) == []
