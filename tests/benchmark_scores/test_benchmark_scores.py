"""The stage end to end on very small real inputs."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from assets.agent.model_policy import ModelPolicy, match_sample
from assets.agent.observation import Observation
from assets.agent.samples import load_samples
from assets.benchmark_scores.cases import read_cases
from assets.stage import directory_id, execute, find_stage, input_ids
from tests.benchmark_scores.small_project import SIDE, make_project, write_samples, write_tasks

MODELS = (
    *("models/base", "models/midtrained", "models/rl/grounding", "models/rl/captcha", "models/rl/mobile"),
    *("models/rl/web", "models/rl/computer", "models/distilled"),
)
PARAMETERS = """
benchmark_scores:
  cases: 12
  elsewhere: 0.5
  episodes: {mobile: 0, web: 0, computer: 0, miniwob: 0}
  sessions: 1
  processes: 1
  max_steps: 2
  max_new_tokens: 12
  threads: 1
  resamples: 200
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("project"), PARAMETERS, MODELS)
    write_samples(root, 5)
    write_tasks(root, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HESPER_TRACKING", "off")
        execute("benchmark_scores", root=root)
    return root


def test_every_checkpoint_has_every_score_with_its_interval(project: Path) -> None:
    rows = pq.read_table(project / "reports/benchmark_scores/scores.parquet").to_pylist()
    main = {(row["domain"], row["metric"]) for row in rows if row["checkpoint"] == "distilled"}
    assert main == {
        ("grounding", "point_in_box"),
        ("grounding", "refusal"),
        ("captcha", "pass_at_1"),
        *((domain, metric) for domain in ("mobile", "web", "computer") for metric in ("step_accuracy", "action_type")),
        ("teachers", "mean_difference"),
    }
    for path in MODELS:
        own = [row for row in rows if row["model_path"] == path and row["domain"] != "teachers"]
        assert len(own) == 9
        assert all(row["low"] <= row["value"] <= row["high"] and row["n"] > 0 for row in own)
    asked = {row["n"] for row in rows if (row["checkpoint"], row["metric"]) == ("base", "point_in_box")}
    assert asked == {12}
    (chance,) = [row for row in rows if (row["checkpoint"], row["domain"]) == ("chance", "grounding")]
    assert chance["value"] == pytest.approx(24 * 16 / SIDE**2)
    assert {row["domain"] for row in rows if row["checkpoint"] == "chance"} == {
        *("grounding", "captcha", "mobile", "web", "computer")
    }


def test_a_domain_s_own_checkpoint_is_asked_all_of_its_own_and_some_of_the_others(project: Path) -> None:
    cases = read_cases(project / "reports/benchmark_scores/cases.parquet")
    asked = {
        name: {domain: {case.case for case in own if case.domain == domain} for domain in ("grounding", "web")}
        for name, own in cases.items()
    }
    assert asked["rl_web"]["web"] == asked["base"]["web"]
    assert asked["rl_grounding"]["grounding"] == asked["base"]["grounding"]
    assert set() < asked["rl_web"]["grounding"] < asked["base"]["grounding"]
    assert set() < asked["rl_grounding"]["web"] < asked["base"]["web"]


def test_cases_say_what_the_model_answers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = read_cases(project / "reports/benchmark_scores/cases.parquet")["rl_web"]
    steps = {case.case: case.correct for case in answers if (case.domain, case.metric) == ("web", "step_accuracy")}
    policy = ModelPolicy(project / "models/rl/web", 12)
    samples = [s for s in load_samples(project / "data/verified_trajectories", "web", "heldout") if s.id in steps]
    assert len(samples) == len(steps) == 10
    for sample in samples:
        seen = Observation(sample.image, SIDE, SIDE, "web", sample.instruction, sample.history)
        assert match_sample(policy.respond([seen])[0], sample).correct == steps[sample.id]


def test_figures_can_be_attached_to_the_models_they_measure(project: Path) -> None:
    report = project / "reports/benchmark_scores"
    by_model = json.loads((report / "model_metrics.json").read_text())
    assert set(by_model) == set(MODELS)
    metrics = json.loads((report / "metrics.json").read_text())
    assert metrics["rl_web.web.step_accuracy"] == by_model["models/rl/web"]["web.step_accuracy"]
    assert metrics["distilled.teachers.mean_difference"] == by_model["models/distilled"]["teachers.mean_difference"]
    assert json.loads((report / "inputs.json").read_text()) == input_ids(
        project, find_stage(project, "benchmark_scores", None)
    )
    kept = json.loads((report / "kept.json").read_text())
    assert set(kept) == set(MODELS)
    assert kept["models/distilled"] == {"step": None, "same_as": []}
    gains = (report / "gains.md").read_text()
    for stage in ("mid-training", "RL on computer", "distillation", "distilled against its teacher"):
        assert f"| {stage} |" in gains
    assert "ScreenSpot-Pro" in (report / "leaderboard.md").read_text()
    assert (report / "pictures" / "scores.png").stat().st_size > 10_000


def test_a_second_run_gives_the_same_bytes_and_a_killed_one_goes_on(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assets.benchmark_scores import benchmark_scores as stage_module

    monkeypatch.setenv("HESPER_TRACKING", "off")
    before = directory_id(project / "reports/benchmark_scores")
    spread = stage_module.spread
    asked: list[str] = []

    def killed_at_the_third(examinations, *rest, **options):  # type: ignore[no-untyped-def]
        for index, cases in spread(examinations, *rest, **options):
            if len(asked) == 2:
                raise KeyboardInterrupt
            asked.append(examinations[index].name)
            yield index, cases

    monkeypatch.setattr(stage_module, "spread", killed_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        execute("benchmark_scores", root=project)
    assert asked == ["chance", "base"]
    assert directory_id(project / "reports/benchmark_scores") == before

    asked_again: list[str] = []

    def recorded(examinations, *rest, **options):  # type: ignore[no-untyped-def]
        asked_again.extend(examination.name for examination in examinations)
        yield from spread(examinations, *rest, **options)

    monkeypatch.setattr(stage_module, "spread", recorded)
    execute("benchmark_scores", root=project)
    assert asked_again[0] == "midtrained"
    assert len(asked_again) == len(MODELS) - 1
    assert directory_id(project / "reports/benchmark_scores") == before
