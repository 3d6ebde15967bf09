"""Every profile is complete and typed: all that dvc.yaml's stages read is there, and nothing else."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

from assets.agent.parameters import AgentParameters
from assets.environments.phone import PhoneParameters
from assets.stage import StageParameters, load_section
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
    for section, model in models.items():
        load_section(profile, section, model)
    assert set(yaml.safe_load(profile.read_text())) == {"seed", *models}


def test_the_full_scale_profiles_are_there() -> None:
    assert {path.stem for path in PROFILES} >= {"params", "smoke", "9b", "27b"}
