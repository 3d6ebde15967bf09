"""Every profile is complete and typed: all that dvc.yaml's stages read is there, and nothing else."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

from assets.agent.parameters import AgentParameters
from assets.environments.phone import PhoneParameters
from assets.stage import StageParameters, load_section
from dagster_project.ablation import Ablation, merge
from dagster_project.automation import Automation
from dagster_project.workers import Worker

REPOSITORY = Path(__file__).parents[2]
PROFILES = [REPOSITORY / "params.yaml", *sorted((REPOSITORY / "infra" / "profiles").glob("*.yaml"))]
STAGES = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())["stages"]


def parameters_of(stage: str) -> type[StageParameters]:
    (file,) = (REPOSITORY / "assets").glob(f"*/{stage}.py")
    model = importlib.import_module(f"assets.{file.parent.name}.{stage}").Parameters
    assert issubclass(model, StageParameters)
    return model


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_a_profile_is_complete_and_typed(profile: Path) -> None:
    models = {stage: parameters_of(stage) for stage in STAGES}
    models |= {"agent": AgentParameters, "phone": PhoneParameters, "worker": Worker, "automation": Automation}
    models["ablation"] = Ablation
    for section, model in models.items():
        load_section(profile, section, model)
    assert set(yaml.safe_load(profile.read_text())) == {"seed", *models}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_each_variant_of_the_ablation_is_one_of_the_stage(profile: Path) -> None:
    document = yaml.safe_load(profile.read_text())
    for name, changes in document["ablation"]["variants"].items():
        changed = merge(document["distilled_model"], changes)
        assert changed != document["distilled_model"], name
        parameters_of("distilled_model").model_validate(changed)
    for changes in document["ablation"]["joint"].values():
        parameters_of("rl_checkpoint").model_validate(merge(document["rl_checkpoint"], changes))


def test_the_full_scale_profiles_are_there() -> None:
    assert {path.stem for path in PROFILES} >= {"params", "smoke", "9b", "27b"}
