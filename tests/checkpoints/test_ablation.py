"""The ablation: variants of the real stage, compared sample by sample, and gone on with after a kill."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assets.agent.samples import DOMAINS
from assets.errors import InfrastructureError, InputError, ParameterError
from assets.reporting import connect, experiment_id
from dagster_project import ablation
from dagster_project.ablation import AVERAGED, CONFIGURED, Outcomes, ablate, as_markdown, compare, draw, merge
from tests.checkpoints.micro_project import DISTILLATION, write_params

JOINT: dict[str, Any] = {"joint RL": {"optimisation": {"steps": 1, "checkpoint_every": 1}}}
VARIANTS = {"reverse KL": {"estimator": "reverse_kl"}, "slow": {"optimisation": {"learning_rate": 1e-6}}}


@given(st.dictionaries(st.sampled_from("abc"), st.integers() | st.dictionaries(st.sampled_from("xy"), st.integers())))
def test_merging_changes_what_is_named_and_nothing_else(section: dict[str, Any]) -> None:
    assert merge(section, {}) == section
    assert merge(section, section) == section
    changed = merge(section, {"a": {"x": 7}})
    assert changed["a"]["x"] == 7
    assert {key: value for key, value in changed.items() if key != "a"} == {
        key: value for key, value in section.items() if key != "a"
    }


def outcomes(students: list[bool], seed: int = 0) -> Outcomes:
    return {"web": {(seed, str(place)): (f"g{place}", False, True, right) for place, right in enumerate(students)}}


def test_a_variant_is_compared_with_the_configured_settings_sample_by_sample() -> None:
    rows = compare({CONFIGURED: outcomes([True, False] * 20), "all right": outcomes([True] * 40)}, 1, averaged=True)
    assert [row.name for row in rows] == [CONFIGURED, AVERAGED, "all right"]
    assert rows[0].against is None
    assert rows[0].accuracy == 0.5
    assert rows[1].accuracy == 0.0
    assert rows[2].against is not None
    assert rows[2].against.value == 0.5
    assert rows[2].against.excludes_zero
    assert rows[2].teachers.value == 0.0
    table = as_markdown(rows)
    assert table.count("\n") == 5
    assert str(rows[2].against) in table
    assert draw(rows).width > 100


@pytest.fixture
def project(taught_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import shutil

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    root = tmp_path / "project"
    shutil.copytree(taught_project, root, symlinks=True)
    section = {**DISTILLATION, "start": "average", "optimisation": {**DISTILLATION["optimisation"], "steps": 2}}
    write_params(root, distilled_model=section, ablation={"seeds": 2, "variants": VARIANTS, "joint": JOINT})
    return root


def test_variants_are_trained_compared_and_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Path] = []
    run = ablation._run

    def killed_at_the_second(folder: Path, entry: Any) -> None:
        ran.append(folder)
        if len(ran) == 2:
            raise KeyboardInterrupt
        run(folder, entry)

    monkeypatch.setattr(ablation, "_run", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        ablate(project, ["slow"], 1)
    rows = ablate(project, ["slow", "joint RL"], 1)
    assert len(ran) == 4  # the run that was finished is not run again
    assert [row.name for row in rows] == [CONFIGURED, AVERAGED, "slow", "joint RL"]
    assert rows[3].teachers.n == rows[0].teachers.n  # the same held-out samples of the same domains
    assert all(0 <= row.accuracy <= 1 for row in rows)
    assert not (project / "models/distilled").exists()
    (recorded,) = connect(project).search_runs([experiment_id(project)], "tags.asset = 'ablation'")
    assert recorded.info.status == "FINISHED"
    assert recorded.data.metrics["accuracy/slow"] == rows[2].accuracy
    assert {item.path for item in connect(project).list_artifacts(recorded.info.run_id)} == {"pictures", "tables"}


def test_joint_rl_takes_the_steps_of_the_single_runs_and_is_measured_as_distillation_is(project: Path) -> None:
    variant = ablation._joint(project, "joint RL", {"optimisation": {"steps": 3}})
    document = yaml.safe_load((project / "params.yaml").read_text(encoding="utf-8"))
    assert variant.section["optimisation"]["steps"] == 3 * len(DOMAINS)
    assert variant.section["questions"] == document["rl_checkpoint"]["questions"]
    assert variant.section["measurement"] == document["distilled_model"]["measurement"]


def test_what_can_not_be_compared_is_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ParameterError, match=r"no variant 'fast' in params\.yaml; there are: reverse KL, slow, joint RL"
    ):
        ablate(project, ["fast"], 1)
    write_params(
        project, distilled_model=DISTILLATION, ablation={"seeds": 1, "variants": {"x": {"estimater": "y"}}, "joint": {}}
    )
    with pytest.raises(ParameterError, match="did you mean 'estimator'"):
        ablate(project, [], 1)
    write_params(project, ablation={"seeds": 1, "variants": {}, "joint": {"x": {"algorythm": "y"}}})
    with pytest.raises(ParameterError, match=r"ablation\.joint\.x.*did you mean 'algorithm'"):
        ablate(project, [], 1)
    write_params(project, ablation={"seeds": 1, "variants": VARIANTS, "joint": {"slow": {}}})
    with pytest.raises(ParameterError, match="'slow' stands in both variants and joint"):
        ablate(project, [], 1)
    write_params(project, distilled_model=DISTILLATION, ablation={"seeds": 1, "variants": VARIANTS, "joint": JOINT})
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 139))
    with pytest.raises(InfrastructureError, match="ended with exit code 139"):
        ablate(project, [], 1)
    (project / "models/midtrained").rename(project / "models/elsewhere")
    with pytest.raises(InputError, match="models/midtrained, which does not exist"):
        ablate(project, [], 1)
