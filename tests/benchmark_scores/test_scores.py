"""From cases to scores and gains: grouped, paired, and blind to what the infrastructure lost."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from assets.agent.actions import REFUSAL, Action
from assets.agent.matching import Match
from assets.agent.samples import Sample
from assets.benchmark_scores.cases import (
    MAIN_METRIC,
    Case,
    choose_samples,
    episode_cases,
    read_cases,
    sample_cases,
    write_cases,
)
from assets.benchmark_scores.heat_map import heat_map
from assets.benchmark_scores.kept import Kept, read_kept
from assets.benchmark_scores.leaderboard import COLUMNS, leaderboard, read_published
from assets.benchmark_scores.live import choose_tasks, suite_of
from assets.benchmark_scores.scores import (
    Checkpoint,
    compare,
    flat_metrics,
    score_cases,
    teacher_difference,
    training_gains,
)
from assets.environments.task import TaskContract
from assets.environments.trajectory import Episode
from assets.statistics import proportion

RIGHT = Match(format=True, type=1.0, coordinate=1.0, content=0.0, correct=True)
WRONG_PLACE = Match(format=True, type=1.0, coordinate=0.0, content=0.0, correct=False)


def sample(domain: str, group: str, number: int, refusal: bool = False) -> Sample:
    return Sample(
        id=f"{group}/{number}",
        domain=domain,
        split="heldout",
        group=group,
        picture=b"",
        width=192,
        height=192,
        platform="web" if domain == "web" else None,
        instruction="Save",
        history=(),
        response="",
        actions=(Action("Click", point=REFUSAL if refusal else (5, 5)),),
        boxes=() if refusal else ((0.0, 0.0, 9.0, 9.0),),
        kind="text",
    )


def grounding_cases(correct: list[bool | None]) -> list[Case]:
    return [
        Case("grounding_screens", "grounding", "point_in_box", f"s{index // 5}/{index % 5}", f"s{index // 5}", value)
        for index, value in enumerate(correct)
    ]


def test_samples_are_drawn_by_whole_screens_until_enough_questions_have_an_answer() -> None:
    samples = [
        sample("grounding", f"s{screen:03d}", question, question == 4) for screen in range(50) for question in range(5)
    ]
    chosen = choose_samples(samples, 60, random.Random(1))
    assert len(chosen) == 75  # 15 screens of four answerable questions and one refusal
    assert {s.group for s in chosen} == {s.group for s in samples if s in chosen}
    assert [s.id for s in chosen] == sorted(s.id for s in chosen)
    assert chosen == choose_samples(samples, 60, random.Random(1))
    assert chosen != choose_samples(samples, 60, random.Random(2))
    assert choose_samples(samples, 10_000, random.Random(1)) == samples


def test_matches_become_cases_of_the_right_metric() -> None:
    samples = [sample("grounding", "s", 0), sample("grounding", "s", 1, refusal=True), sample("web", "e", 0)]
    cases = sample_cases(samples, [RIGHT, WRONG_PLACE, WRONG_PLACE])
    assert [(case.domain, case.metric, case.correct) for case in cases] == [
        ("grounding", "point_in_box", True),
        ("grounding", "refusal", False),
        ("web", "step_accuracy", False),
        ("web", "action_type", True),
    ]


def test_a_broken_environment_is_counted_apart_and_never_as_the_models() -> None:
    def episode(app: str, outcome: str) -> Episode:
        task = TaskContract(id=f"{app}-{outcome}", platform="web", app=app, locale="en", instruction="")
        return Episode("e", task, "model", outcome=outcome)  # type: ignore[arg-type]

    cases = episode_cases(
        [episode("shop", "success"), episode("shop", "infrastructure"), episode("miniwob/click-test", "failure")]
    )
    scores = {score.name: score for score in score_cases("distilled", "models/distilled", cases)}
    assert scores["web.live_success"].result == proportion([True])
    assert scores["web.live_success"].excluded == 1
    assert scores["web.miniwob_success"].result.value == 0.0
    assert scores["web.miniwob_success"].excluded == 0


def test_scores_are_clustered_by_screen() -> None:
    values = [index < 150 for index in range(300)]  # whole screens right or wrong
    (score,) = score_cases("base", "models/base", grounding_cases(values))
    assert score.name == "grounding.point_in_box"
    assert score.result.n == 300
    naive = proportion(values)
    assert score.result.high - score.result.low > 2 * (naive.high - naive.low)
    assert flat_metrics([score]) == {"base.grounding.point_in_box": 0.5}


def test_gains_pair_the_cases_that_both_checkpoints_answered() -> None:
    before: list[bool | None] = [False] * 100 + [True] * 100
    after: list[bool | None] = [True] * 60 + [False] * 40 + [True] * 90 + [None] * 10
    cases = {"base": grounding_cases(before), "midtrained": grounding_cases(after)}
    (gain,) = compare("mid-training", "base", "midtrained", cases, seed=1, resamples=500)
    assert gain.result.n == 190
    assert gain.result.value == pytest.approx(60 / 190)
    assert (gain.before_value, gain.after_value) == pytest.approx((90 / 190, 150 / 190))
    assert gain.result.low > 0
    assert gain.p_value < 1e-10
    assert compare("nothing", "base", "midtrained", cases, 1, 500, domain="web") == []


def all_domains(shares: dict[str, float], seed: int) -> list[Case]:
    rng = random.Random(seed)
    return [
        Case("suite", domain, MAIN_METRIC[domain], f"{domain}{index}", f"{domain}{index}", rng.random() < share)
        for domain, share in shares.items()
        for index in range(300)
    ]


def test_checkpoints_that_are_the_same_model_are_told_by_their_weights(tmp_path: Path) -> None:
    def checkpoint(name: str, weights: dict[str, bytes], kept_step: int | None = None) -> None:
        (tmp_path / name).mkdir()
        for file, content in weights.items():
            (tmp_path / name / file).write_bytes(content)
        metrics = {"heldout": 0.5} if kept_step is None else {"kept_step": float(kept_step)}
        (tmp_path / name / "metrics.json").write_text(json.dumps(metrics))

    whole, sharded = {"model.safetensors": b"1" * 99}, {"a.safetensors": b"1", "b.safetensors": b"2"}
    checkpoint("base", {})
    checkpoint("midtrained", whole)
    checkpoint("unchanged", whole, kept_step=0)
    checkpoint("changed", {"model.safetensors": b"1" * 98 + b"2"}, kept_step=24)
    checkpoint("sharded", sharded, kept_step=24)
    checkpoint("empty", {})
    kept = read_kept(
        {name: tmp_path / name for name in ("base", "midtrained", "unchanged", "changed", "sharded", "empty")}
    )
    assert kept["unchanged"] == Kept(0, ("midtrained",))
    assert kept["changed"] == kept["sharded"] == Kept(24, ())
    assert kept["midtrained"] == kept["empty"] == Kept(None, ())


def test_training_gains_follow_the_lineage() -> None:
    even = dict.fromkeys(MAIN_METRIC, 0.5)
    cases = {"base": all_domains(even, 0), "midtrained": all_domains(even, 1), "distilled": all_domains(even, 2)}
    for number, domain in enumerate(MAIN_METRIC):
        cases[f"rl_{domain}"] = all_domains(even, 3 + number)
    gains = training_gains(cases, 1, 200)
    assert [gain.stage for gain in gains if gain.domain == "web"] == [
        "mid-training",
        "RL on web",
        "distillation",
        "distilled against its teacher",
    ]
    assert len(gains) == 5 * 4
    assert training_gains({"base": cases["base"], "distilled": cases["distilled"]}, 1, 200) == []


def test_teacher_difference_weighs_domains_alike_and_sees_each_teacher_only_at_home() -> None:
    cases = {"distilled": all_domains(dict.fromkeys(MAIN_METRIC, 1.0), 0)}
    for domain in MAIN_METRIC:
        home = dict.fromkeys(MAIN_METRIC, 0.0) | {domain: 1.0 if domain != "web" else 0.0}
        cases[f"rl_{domain}"] = all_domains(home, 1)
    result = teacher_difference(cases, "distilled", 1, 300)
    assert result.value == pytest.approx(1 / 5)
    assert result.n == 1500


def test_cases_survive_the_table(tmp_path: Path) -> None:
    cases = {"chance": grounding_cases([True, None]), "rl_web": grounding_cases([False, True])}
    assert write_cases(tmp_path / "cases.parquet", cases) == 4
    assert read_cases(tmp_path / "cases.parquet") == cases
    first = (tmp_path / "cases.parquet").read_bytes()
    write_cases(tmp_path / "cases.parquet", {name: reversed(members) for name, members in cases.items()})
    assert (tmp_path / "cases.parquet").read_bytes() == first


def test_tasks_are_drawn_app_by_app() -> None:
    tasks = [
        TaskContract(id=f"{app}-{number}", platform="web", app=app, locale="en", instruction="")
        for app, count in (("shop", 20), ("bank", 2), ("miniwob/click-test", 20))
        for number in range(count)
    ]
    chosen = choose_tasks(tasks, 8, random.Random(3))
    assert sorted(task.app for task in chosen) == ["bank"] * 2 + ["miniwob/click-test"] * 3 + ["shop"] * 3
    assert choose_tasks(tasks[::-1], 8, random.Random(3)) == chosen
    assert {suite_of(task) for task in tasks} == {"web", "miniwob"}


def test_checkpoints_are_named_by_their_place() -> None:
    assert [Checkpoint(path).name for path in ("models/base", "models/rl/web")] == ["base", "rl_web"]


def test_published_figures_stand_apart_from_ours() -> None:
    figures = read_published()
    assert len(figures) == 239
    assert {figure.domain for figure in figures} == {"grounding", "captcha", "mobile", "web", "computer", "safety"}
    ours = score_cases("distilled", "models/distilled", grounding_cases([True] * 9 + [False]))
    rows = leaderboard(ours, figures)
    assert all(len(row) == len(COLUMNS) for row in rows)
    assert [row for row in rows if row[3]] == [rows[0]]
    assert rows[0][:3] == ("grounding", "grounding screens (this project's, held out)", "point_in_box")
    assert rows[0][4:] == ("", "", "")
    # Table 6 is the one in which lower is better: the best other attack success rate is the lowest.
    osharm = next(row for row in rows if row[1].startswith("OSHarm (published"))
    rates = [f.value for f in figures if f.benchmark == "OSHarm" and not f.model.startswith("UI-Venus-2")]
    assert osharm[6].startswith(f"{min(rates):.1f} ")


def test_heat_map_is_the_same_picture_every_time() -> None:
    scores = score_cases("base", "models/base", grounding_cases([True, False] * 40))
    first = heat_map(scores, ["chance", "base"], ["grounding.point_in_box", "web.step_accuracy"])
    second = heat_map(scores, ["chance", "base"], ["grounding.point_in_box", "web.step_accuracy"])
    assert np.array_equal(np.asarray(first), np.asarray(second))
    empty = heat_map([], ["chance", "base"], ["grounding.point_in_box", "web.step_accuracy"])
    assert not np.array_equal(np.asarray(first), np.asarray(empty))
