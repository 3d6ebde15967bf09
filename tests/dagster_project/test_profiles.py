"""Every profile is complete and typed: all that dvc.yaml's stages read is there, and nothing else."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import yaml

from assets.agent.parameters import AgentParameters
from assets.environments.phone import PhoneParameters
from assets.errors import ParameterError
from assets.stage import StageParameters, load_section, validate_section
from dagster_project.ablation import Ablation, merge
from dagster_project.automation import Automation
from dagster_project.tracking import Pages
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
    models |= {"ablation": Ablation, "ui": Pages}
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


WEIGHTS = [
    ("params", "grounding_samples", "scenes.locales"),
    ("9b", "grounding_samples", "interfaces.scenes.platforms"),
    ("9b", "grounding_samples", "interfaces.scenes.locales"),
    ("9b", "grounding_samples", "interfaces.scenes.densities"),
    ("params", "generated_tasks", "kinds"),
    ("params", "generated_tasks", "clauses"),
    ("params", "base_model", "scratch.mix"),
    ("params", "base_model", "scratch.perception"),
    ("params", "midtrained_checkpoint", "mix"),
    ("params", "midtrained_checkpoint", "perception"),
    ("params", "rl_checkpoint", "reward"),
    ("params", "distilled_model", "mix"),
]
"""Profile, section and place of every group of weights by which something is drawn or learned."""


@pytest.mark.parametrize(("profile", "section", "place"), WEIGHTS, ids=lambda part: str(part))
def test_weights_that_are_all_zero_are_refused_when_they_are_read(profile: str, section: str, place: str) -> None:
    (path,) = (path for path in PROFILES if path.stem == profile)
    document = yaml.safe_load(path.read_text())
    *parents, last = place.split(".")
    holder = document[section]
    for parent in parents:
        holder = holder[parent]
    weights = holder[last]
    zeros: dict[str, float] | list[float] = [0.0] * len(weights)
    if isinstance(weights, dict):
        zeros = {**dict.fromkeys(weights, 0.0), **({"centre_bins": 24} if "centre_bins" in weights else {})}
    holder[last] = zeros
    with pytest.raises(ParameterError, match=re.escape(f"params.yaml: {section}.{place}")):
        validate_section(document[section], section, parameters_of(section), "params.yaml")


def test_a_variant_whose_tokens_all_weigh_nothing_is_refused() -> None:
    document = yaml.safe_load(PROFILES[0].read_text())
    nothing = {key: {"think": 0, "type": 0, "parameters": 0} for key in ("right", "parameters", "type")}
    with pytest.raises(ParameterError, match=r"distilled_model\.weights: .* must be above 0"):
        validate_section(
            {**document["distilled_model"], "weights": nothing},
            "distilled_model",
            parameters_of("distilled_model"),
            "params.yaml",
        )


def test_the_full_scale_profiles_are_there() -> None:
    assert {path.stem for path in PROFILES} >= {"params", "smoke", "9b", "27b"}
