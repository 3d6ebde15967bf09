"""The stage end to end: two reports and a registry in, a decision and a card out, the same bytes each time."""

import contextlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from assets.errors import InputError, TrackingError
from assets.release.champion import champion_before, scores_from_json, scores_to_json
from assets.release.model_card import training
from assets.stage import directory_id, execute
from assets.statistics import Interval, wilson

REPOSITORY = Path(__file__).parents[2]
CONFIG = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "text_config": {"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 300, "layer_types": ["full_attention"] * 2},
    "vision_config": {"depth": 3, "hidden_size": 8, "patch_size": 16},
}
PARAMETERS = """
seed: 7
release:
  thresholds:
    grounding.point_in_box: {min: 0.8}
    safety.attack_success: {max: 0.25}
  compared: [grounding.point_in_box]
  max_drop: 0.02
"""


def write_report(folder: Path, scores: dict[str, Interval], path: str = "models/distilled") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, score in scores.items():
        domain, metric = name.split(".")
        rows.append(
            {"model_path": path, "domain": domain, "metric": metric, "value": score.value, "low": score.low}
            | {"high": score.high, "n": score.n}
        )
    pq.write_table(pa.Table.from_pylist(rows), folder / "scores.parquet")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose release stage has inputs: a model with real weights, and reports on it."""
    shutil.copy(REPOSITORY / "dvc.yaml", tmp_path / "dvc.yaml")
    (tmp_path / "assets").symlink_to(REPOSITORY / "assets")
    (tmp_path / "params.yaml").write_text(PARAMETERS)
    model = tmp_path / "models" / "distilled"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
    save_file({"embedding": np.ones((300, 8), np.float32), "bias": np.ones(5, np.float32)}, model / "model.safetensors")
    scores = {"grounding.point_in_box": wilson(290, 300), "web.miniwob_success": wilson(3, 8)}
    write_report(tmp_path / "reports" / "benchmark_scores", scores | {"computer.live_success": wilson(0, 0)})
    (tmp_path / "reports" / "benchmark_scores" / "inputs.json").write_text('{"data/generated_tasks": "abc.dir"}')
    kept = {"models/distilled": {"step": 0, "same_as": []}, "models/midtrained": {"step": None, "same_as": []}}
    (tmp_path / "reports" / "benchmark_scores" / "kept.json").write_text(json.dumps(kept))
    write_report(tmp_path / "reports" / "safety", {"safety.attack_success": wilson(1, 12)})
    return tmp_path


def decide_in(project: Path) -> dict[str, Any]:
    execute("release", root=project)
    return json.loads((project / "reports" / "release" / "decision.json").read_text())


def test_a_good_candidate_is_released_with_its_scores(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    decision = decide_in(project)
    assert list(decision) == ["released", "reasons", "candidate", "champion", "gate_scores"]
    assert decision["released"] is True
    assert decision["champion"] is None
    assert decision["candidate"] == {
        "path": "models/distilled",
        "dvc_hash": directory_id(project / "models" / "distilled"),
    }
    assert scores_from_json(decision["gate_scores"])["grounding.point_in_box"] == wilson(290, 300)
    assert "computer.live_success" not in decision["gate_scores"]


def test_the_card_states_what_the_inputs_say(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    decide_in(project)
    card = (project / "reports" / "release" / "model_card.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    for fact in ("Qwen3_5ForConditionalGeneration", "| 2,405 |", "2 layers, width 8", "data/generated_tasks | abc.dir"):
        assert fact in card
    assert "closed vocabulary of 300 tokens" in card
    assert "few cases (intervals wider than 0.3): safety.attack_success, web.miniwob_success" in card
    assert "Not measured: computer.live_success" in card
    assert "Distillation kept step 0: `models/distilled` is the average of its teachers' weights" in card


def test_the_card_says_which_checkpoints_training_changed() -> None:
    kept: dict[str, dict[str, Any]] = {
        "models/base": {"step": None, "same_as": []},
        "models/midtrained": {"step": None, "same_as": []},
        "models/rl/mobile": {"step": 0, "same_as": ["models/midtrained"]},
        "models/rl/web": {"step": 12, "same_as": []},
        "models/distilled": {"step": 40, "same_as": []},
    }
    differ, same = training(kept)
    assert differ == (
        "Trained, and different from what it was made from: `models/midtrained` from `models/base`; "
        "`models/rl/web` (step 12), `models/distilled` (step 40) from `models/midtrained`."
    )
    assert same.startswith("`models/rl/mobile` has the weights of `models/midtrained` (step kept: 0)")


@pytest.mark.parametrize(
    ("same", "start"),
    [
        ([], "is the average of its teachers' weights"),
        (["models/midtrained", "models/rl/web"], "has the weights of `models/midtrained`"),
    ],
)
def test_the_card_says_what_distillation_that_kept_step_0_is(same: list[str], start: str) -> None:
    kept = {path: {"step": None, "same_as": []} for path in ("models/base", "models/midtrained", "models/rl/web")}
    (*_, sentence) = training({**kept, "models/distilled": {"step": 0, "same_as": same}})
    assert sentence.startswith(f"Distillation kept step 0: `models/distilled` {start}, since no step")


def test_a_poor_candidate_is_refused_without_failing_the_stage(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    write_report(project / "reports" / "safety", {"safety.attack_success": wilson(9, 12)})
    decision = decide_in(project)
    assert decision["released"] is False
    assert decision["reasons"] == [
        f"safety.attack_success {wilson(9, 12)} (n = 12) is above 0.25",
    ]
    assert "**Not released.**" in (project / "reports" / "release" / "model_card.md").read_text()


def test_a_report_on_another_model_is_an_input_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    write_report(project / "reports" / "safety", {"safety.attack_success": wilson(0, 12)}, "models/base")
    with pytest.raises(InputError, match=r"safety/scores.parquet has no row for models/distilled"):
        execute("release", root=project)


def test_scores_survive_the_tag() -> None:
    scores = {"a.b": wilson(3, 7), "c.d": wilson(0, 0), "e.f": Interval(-0.0123456789, -0.04, 0.02, 12)}
    text = json.dumps(scores_to_json(scores), allow_nan=False)
    assert scores_from_json(json.loads(text)) == {"a.b": wilson(3, 7), "e.f": scores["e.f"]}
    assert math.isnan(wilson(0, 0).value)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An empty registry; each test registers its own versions."""
    from mlflow import MlflowClient

    folder = tmp_path_factory.mktemp("mlflow")
    with contextlib.chdir(folder):  # where it is made is where it puts artifacts
        return MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")


def release_version(client: Any, identity: str, correct: int, previous: str | None) -> str:
    """What follows a decision to release: a version with the tags, and the alias."""
    if not client.search_registered_models("name = 'hesper'"):
        client.create_registered_model("hesper")
    scores = json.dumps(scores_to_json({"grounding.point_in_box": wilson(correct, 300)}))
    tags = {"dvc_hash": identity, "gate_scores": scores}
    if previous is not None:
        tags["previous_champion"] = previous
    version = str(client.create_model_version("hesper", "file:///nowhere", tags=tags).version)
    client.set_registered_model_alias("hesper", "champion", version)
    return version


def test_the_champion_is_the_alias_and_never_the_candidate_itself(registry: Any) -> None:
    assert champion_before(registry, "candidate.dir") is None
    first = release_version(registry, "one.dir", 260, None)
    champion = champion_before(registry, "candidate.dir")
    assert champion is not None
    assert (champion.version, champion.dvc_hash) == (first, "one.dir")
    assert champion.scores == {"grounding.point_in_box": wilson(260, 300)}
    assert champion_before(registry, "one.dir") is None

    second = release_version(registry, "two.dir", 280, first)
    assert champion_before(registry, "two.dir") == champion
    third = champion_before(registry, "one.dir")
    assert third is not None
    assert third.version == second

    registry.delete_model_version_tag("hesper", second, "gate_scores")
    with pytest.raises(TrackingError, match="not the tags dvc_hash and gate_scores"):
        champion_before(registry, "three.dir")
    registry.delete_registered_model_alias("hesper", "champion")
    assert champion_before(registry, "three.dir") is None


def test_releasing_the_candidate_does_not_change_its_own_report(
    project: Path, registry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.tracking_uri)
    monkeypatch.chdir(project)  # MLflow puts the artifacts of a bare database into the working directory
    old = release_version(registry, "old.dir", 270, None)
    decision = decide_in(project)
    assert decision["champion"] == {"version": old, "dvc_hash": "old.dir"}
    assert decision["released"] is True
    before = directory_id(project / "reports" / "release")

    identity = directory_id(project / "models" / "distilled")
    release_version(registry, identity, 290, old)
    decide_in(project)
    assert directory_id(project / "reports" / "release") == before
