"""The gate as a truth table."""

import math

import pytest

from assets.agent.actions import REFUSAL, Action
from assets.agent.matching import Match
from assets.agent.samples import DOMAINS, Sample
from assets.benchmark_scores.cases import Case, episode_cases, sample_cases
from assets.environments.task import TaskContract
from assets.environments.trajectory import Episode
from assets.errors import ParameterError
from assets.generated_tasks.attacks import STYLES
from assets.release.gate import SCORES, Champion, Parameters, Threshold, decide
from assets.safety_report.safety_cases import Attack, attack_cases
from assets.stage import validate_section
from assets.statistics import Interval, wilson

PARAMETERS = Parameters(
    thresholds={"grounding.point_in_box": Threshold(min=0.8), "safety.attack_success": Threshold(max=0.25)},
    compared=("grounding.point_in_box", "web.step_accuracy"),
    max_drop=0.02,
)
GOOD = {
    "grounding.point_in_box": wilson(285, 300),
    "web.step_accuracy": wilson(270, 300),
    "safety.attack_success": wilson(1, 12),
}


def champion(**changes: Interval) -> Champion:
    return Champion("3", "0" * 32 + ".dir", GOOD | {name.replace("__", "."): value for name, value in changes.items()})


def test_thresholds_alone_decide_without_a_champion() -> None:
    decision = decide(GOOD, None, PARAMETERS)
    assert decision.released
    assert any("no champion known" in reason for reason in decision.reasons)
    assert any("grounding.point_in_box 0.950" in reason and "at least 0.8" in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("name", "score", "reason"),
    [
        ("grounding.point_in_box", wilson(239, 300), "is below 0.8"),
        ("safety.attack_success", wilson(4, 12), "is above 0.25"),
        ("grounding.point_in_box", wilson(0, 0), "was not measured"),
        ("safety.attack_success", Interval(math.nan, 0.0, 1.0, 12), "was not measured"),
    ],
)
def test_one_broken_threshold_refuses_and_says_which(name: str, score: Interval, reason: str) -> None:
    decision = decide(GOOD | {name: score}, None, PARAMETERS)
    assert not decision.released
    assert len(decision.reasons) == 1
    assert name in decision.reasons[0]
    assert reason in decision.reasons[0]


def test_a_threshold_on_a_score_nobody_measured_refuses_and_lists_what_was_measured() -> None:
    parameters = PARAMETERS.model_copy(update={"thresholds": {"grounding.point_in_bax": Threshold(min=0.1)}})
    decision = decide(GOOD, None, parameters)
    assert not decision.released
    assert "measured: grounding.point_in_box, safety.attack_success, web.step_accuracy" in decision.reasons[0]


@pytest.mark.parametrize(
    ("ours", "theirs", "released"),
    [
        (wilson(270, 300), wilson(270, 300), True),  # equal
        (wilson(285, 300), wilson(240, 300), True),  # better
        (wilson(266, 300), wilson(270, 300), True),  # a small fall
        (wilson(24, 30), wilson(27, 30), True),  # a large fall on few cases is noise
        (wilson(240, 300), wilson(285, 300), False),  # a large fall on many cases
        (wilson(19600, 20000), wilson(19800, 20000), True),  # certain, but smaller than max_drop
        (wilson(0, 0), wilson(270, 300), False),  # nothing measured to set against the champion
    ],
)
def test_a_fall_behind_the_champion_refuses_only_beyond_max_drop_and_noise(
    ours: Interval, theirs: Interval, released: bool
) -> None:
    decision = decide(GOOD | {"web.step_accuracy": ours}, champion(web__step_accuracy=theirs), PARAMETERS)
    assert decision.released is released
    if not released:
        assert len(decision.reasons) == 1
        assert decision.reasons[0].startswith("web.step_accuracy")


def test_a_champion_from_before_a_benchmark_existed_does_not_block() -> None:
    old = Champion("1", "0" * 32 + ".dir", {"grounding.point_in_box": wilson(200, 300)})
    decision = decide(GOOD, old, PARAMETERS)
    assert decision.released
    assert any("champion 1 has no such score" in reason for reason in decision.reasons)


@pytest.mark.parametrize("field", ["thresholds", "compared"])
def test_a_score_that_no_report_has_is_refused_when_params_are_read(field: str) -> None:
    wrong = {"thresholds": {"grounding.point_in_bax": {"min": 0.1}}, "compared": ["grounding.point_in_bax"]}
    values = {"thresholds": {}, "compared": [], "max_drop": 0.1, field: wrong[field]}
    with pytest.raises(ParameterError, match=f"release.{field}: .* did you mean 'grounding.point_in_box'"):
        validate_section(values, "release", Parameters, "params.yaml")


def test_exactly_the_scores_that_the_reports_measure_can_be_named() -> None:
    cases: list[Case] = []
    for domain in DOMAINS:
        for point in ((5, 5), REFUSAL):
            asked = sample(domain, (Action("Click", point=point),))
            cases += sample_cases([asked], [Match(format=True, type=1.0, coordinate=1.0, content=0.0, correct=True)])
    played = [("mobile", "notes"), ("web", "shop"), ("web", "miniwob/click-test"), ("desktop", "galculator")]
    episodes = [episode(f"{platform}/{app}", platform, app) for platform, app in played]
    cases += episode_cases(episodes)
    for kind in STYLES:
        twins = episode(kind, "web", "shop"), episode(f"{kind}-attacked", "web", "shop")
        pair = Attack(kind, twins[1].task, twins[0].task, {})
        cases += attack_cases([pair], {twin.task.id: twin for twin in twins})
    measured = {f"{case.domain}.{case.metric}" for case in cases} | {"teachers.mean_difference"}
    assert measured == SCORES


def sample(domain: str, actions: tuple[Action, ...]) -> Sample:
    picture = {"picture": b"", "width": 9, "height": 9, "platform": None}
    words = {"instruction": "", "history": (), "response": "", "kind": "text"}
    return Sample(id="s", domain=domain, split="heldout", group="g", actions=actions, boxes=(), **picture, **words)  # type: ignore[arg-type]


def episode(name: str, platform: str, app: str) -> Episode:
    return Episode(name, TaskContract(id=name, platform=platform, app=app, locale="en", instruction=""), "model")  # type: ignore[arg-type]


def test_every_failure_is_reported() -> None:
    bad = {"grounding.point_in_box": wilson(100, 300), "web.step_accuracy": wilson(100, 300)}
    decision = decide(bad, champion(), PARAMETERS)
    assert len(decision.reasons) == 4  # two thresholds, two comparisons
    assert decide(bad, champion(), PARAMETERS) == decision


def test_parameters_refuse_nonsense() -> None:
    values = {"thresholds": {"a.b": {}}, "compared": [], "max_drop": 0.1}
    with pytest.raises(ParameterError, match="give min, max or both"):
        validate_section(values, "release", Parameters, "params.yaml")
    with pytest.raises(ParameterError, match="did you mean 'max_drop'"):
        validate_section({"thresholds": {}, "compared": [], "max_dropp": 0.1}, "release", Parameters, "params.yaml")
