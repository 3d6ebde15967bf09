"""Distillation on a micro project: five specialists become one model, whatever the estimator and the start."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from assets.agent import fan
from assets.agent.matching import Match
from assets.agent.model import load_model
from assets.agent.model_policy import sample_prompt
from assets.agent.parameters import AgentParameters
from assets.agent.samples import DOMAINS, TABLE_OF_DOMAIN, load_screens
from assets.checkpoints.distilled_model import Learner, Parameters, average_weights
from assets.checkpoints.ledger import Ledger
from assets.checkpoints.losses.distillation import ErrorClass, TokenClass, jensen_shannon
from assets.checkpoints.ranks import Ranks
from assets.checkpoints.rollouts import Rollout, Sampler
from assets.stage import execute
from tests.checkpoints.micro_project import DISTILLATION, OPTIMISATION, write_params

WEIGHTS = {
    "right": {"think": 0.1, "type": 0.1, "parameters": 0.1},
    "parameters": {"think": 1.0, "type": 2.0, "parameters": 2.0},
    "type": {"think": 1.0, "type": 3.0, "parameters": 0.0},
}


def distil(project: Path, **changed: Any) -> str:
    write_params(project, distilled_model={**DISTILLATION, **changed})
    return execute("distilled_model", None, project)


def metrics(project: Path) -> dict[str, float]:
    return json.loads((project / "models" / "distilled" / "metrics.json").read_text(encoding="utf-8"))


def curve(project: Path, name: str) -> list[float]:
    lines = (project / "models" / "distilled" / "curves.csv").read_text(encoding="utf-8").splitlines()
    place = lines[0].split(",").index(name)
    return [float(cells[place]) for line in lines[1:] if (cells := line.split(","))[place]]


@pytest.mark.parametrize(
    ("estimator", "start", "top_k", "questions", "changed", "least"),
    [
        ("forward_kl", "midtrained", None, 20, {"steps": 30}, 0.75),
        ("reverse_kl", "average", 5, 20, {"steps": 30}, 0.75),
        ("sampled_token", "midtrained", None, 40, {"steps": 40, "learning_rate": 0.005}, 0.55),  # far noisier
    ],
)
def test_one_model_learns_all_domains(
    project_with_teachers: Path,
    estimator: str,
    start: str,
    top_k: int | None,
    questions: int,
    changed: dict[str, Any],
    least: float,
) -> None:
    optimisation = {**OPTIMISATION, "evaluate_every": 10, **changed}
    settings = {"estimator": estimator, "start": start, "top_k": top_k, "questions": questions}
    distil(project_with_teachers, **settings, optimisation=optimisation)
    figures = metrics(project_with_teachers)
    teachers = sum(figures[f"teacher_{domain}"] for domain in DOMAINS) / 5
    students = sum(figures[f"student_{domain}"] for domain in DOMAINS) / 5
    assert teachers > 0.8
    assert students > least
    assert figures["student_minus_teachers"] == pytest.approx(students - teachers)
    assert curve(project_with_teachers, "validation/accuracy")[0] < students
    folder = project_with_teachers / "models" / "distilled"
    assert "mean of the domains" in (folder / "heldout.md").read_text(encoding="utf-8")
    assert "kl/parameters" in (folder / "ledger.md").read_text(encoding="utf-8")
    load_model(folder)


def test_a_student_equal_to_its_teachers_learns_nothing(project_with_teachers: Path) -> None:
    for domain in DOMAINS:
        shutil.rmtree(project_with_teachers / "models" / "rl" / domain)
        shutil.copytree(
            project_with_teachers / "models" / "midtrained", project_with_teachers / "models" / "rl" / domain
        )
    distil(project_with_teachers, start="average", optimisation={**OPTIMISATION, "steps": 2})
    assert max(map(abs, curve(project_with_teachers, "loss")[:1])) < 1e-6
    assert curve(project_with_teachers, "gradient_norm")[0] < 1e-5
    assert metrics(project_with_teachers)["student_web"] == metrics(project_with_teachers)["teacher_web"]


def test_a_killed_run_continues_and_ends_in_the_same_bytes(
    project_with_teachers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"optimisation": {**OPTIMISATION, "steps": 7}, "start": "average", "weights": WEIGHTS}
    settings |= {"disagreement_every": 3}
    undisturbed = distil(project_with_teachers, **settings)
    shutil.rmtree(project_with_teachers / "models" / "distilled")
    step = Learner.step
    seen: list[int] = []

    def killed_at_six(self: Learner, number: int) -> dict[str, float]:
        seen.append(number)
        if number == 6 and seen.count(6) == 1:
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(Learner, "step", killed_at_six)
    with pytest.raises(KeyboardInterrupt):
        distil(project_with_teachers, **settings)
    assert distil(project_with_teachers, **settings) == undisturbed
    folder = project_with_teachers / "models" / "distilled"
    rows = pq.read_table(folder / "ledger.parquet").to_pylist()
    assert {row["step"] for row in rows} == set(range(7))
    assert {row["teacher"] for row in rows} == set(DOMAINS)
    said = (folder / "disagreements.md").read_text(encoding="utf-8").splitlines()
    assert [line.split()[1] for line in said[2:]] == ["0", "3", "6"]
    assert seen.count(4) == 1
    assert seen.count(5) == 2


@pytest.fixture(scope="module")
def learner(taught_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Learner:
    """A learner without a stage around it."""
    torch.set_num_threads(1)
    parameters = Parameters.model_validate({**DISTILLATION, "weights": WEIGHTS})
    work = tmp_path_factory.mktemp("work")
    stage: Any = SimpleNamespace(parameters=parameters, rng=lambda *names: random.Random(str(names)), work=work)
    agent = AgentParameters(screen=(64, 64), coordinate_digits=3, system_prompt="brief", screenshots=1)
    student, processor = load_model(taught_project / "models" / "midtrained", "cpu")
    teachers = {
        domain: load_model(taught_project / "models" / "rl" / domain, "cpu")[0].requires_grad_(False)
        for domain in DOMAINS
    }
    screens = {
        domain: load_screens(taught_project / table, domain, "train") for domain, table in TABLE_OF_DOMAIN.items()
    }
    return Learner(stage, agent, student, teachers, processor, screens, Ranks())


def gradients(learner: Learner) -> torch.Tensor:
    student = learner._student
    found = torch.cat([p.grad.flatten() for p in student.parameters() if p.grad is not None])
    student.zero_grad()
    return found


@pytest.mark.parametrize("estimator", ["forward_kl", "reverse_kl", "sampled_token"])
@pytest.mark.parametrize("cut", [{"rows": 3}, {"logit_tokens": 7}])  # the sampler keeps 64 rows
def test_any_cut_gives_the_same_gradient(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, cut: dict[str, int], estimator: str
) -> None:
    monkeypatch.setattr(learner, "_settings", learner._settings.model_copy(update={"estimator": estimator}))
    whole = learner.step(3)
    expected = gradients(learner)
    monkeypatch.setattr(learner, "_settings", learner._settings.model_copy(update=cut))
    pieces = learner.step(3)
    found = gradients(learner)
    assert pieces == pytest.approx(whole, rel=1e-4, abs=1e-6)
    assert float((found - expected).norm() / expected.norm()) < (1e-5 if "logit_tokens" in cut else 1e-4)


def test_each_answer_is_scored_by_the_teacher_of_its_domain(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the student in the place of one teacher, that domain alone has no divergence."""
    monkeypatch.setitem(learner._teachers, "web", learner._student)
    figures = learner.step(0)
    gradients(learner)
    assert figures["kl/web"] == pytest.approx(0.0, abs=1e-6)
    assert all(figures[f"kl/{domain}"] > 1e-3 for domain in DOMAINS if domain != "web")


def test_a_token_far_from_where_it_was_sampled_is_gated(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Sampler.draw

    def shifted(self: Sampler, *arguments: Any) -> Any:
        from dataclasses import replace

        return [
            [
                replace(r, answer=replace(r.answer, log_probs=tuple(value - 3 for value in r.answer.log_probs)))
                for r in group
            ]
            for group in draw(self, *arguments)
        ]

    monkeypatch.setattr(Sampler, "draw", shifted)
    figures = learner.step(0)
    assert gradients(learner).abs().max() == 0
    assert figures["loss"] == figures["weight/parameters"] == 0


@pytest.mark.parametrize("logit_tokens", [4096, 20])
def test_the_token_on_which_two_teachers_differ_most_is_found(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, logit_tokens: int
) -> None:
    """Two teachers alike have no divergence; the largest is the largest of all answers looked at one by one."""
    monkeypatch.setattr(learner, "_teachers", {**learner._teachers, "web": learner._teachers["mobile"]})
    update = {"logit_tokens": logit_tokens, "rows": 4}
    monkeypatch.setattr(learner, "_settings", learner._settings.model_copy(update=update))
    samples = [screen.samples[0] for deck in learner._decks.values() for screen in deck.deal(0, 2)]
    rollouts = [answers[0] for answers in learner._sampler.draw(learner._student, samples, 1, 5)]
    classes = [[TokenClass.TYPE] * len(rollout.answer.ids) for rollout in rollouts]
    means, most = learner._disagreement(rollouts, classes)
    assert means["disagreement/mobile-web"] == pytest.approx(0.0, abs=1e-6)
    assert len(means) == 10
    assert min(value for name, value in means.items() if name != "disagreement/mobile-web") > 1e-3

    def view(rollout: Rollout, teacher: Any) -> torch.Tensor:
        shown = [(rollout.prompt.prefix, [learner._processor.patches(rollout.sample.image)])]
        batch = fan.collate(learner._processor, shown, [(0, rollout.prompt.suffix, rollout.answer.ids)])
        with torch.no_grad():
            return fan.log_probabilities(teacher, fan.forward(teacher, batch).answers)

    looked = {
        (rollout.sample.id, pair): jensen_shannon(*(view(rollout, learner._teachers[name]) for name in pair))
        for rollout in rollouts
        for pair in itertools.combinations(DOMAINS, 2)
    }
    assert most is not None
    assert most.divergence == pytest.approx(max(float(values.max()) for values in looked.values()), rel=1e-4)
    (rollout,) = (rollout for rollout in rollouts if rollout.sample.id == most.sample)
    assert float(looked[most.sample, most.pair][most.position]) == pytest.approx(most.divergence, rel=1e-4)
    assert most.token == learner._piece(rollout.answer.ids[most.position])
    likeliest = [view(rollout, learner._teachers[name])[most.position].argmax() for name in most.pair]
    assert most.instead == tuple(learner._piece(int(token)) for token in likeliest)


def test_the_ledger_counts_by_class_error_and_domain() -> None:
    right, wrong = Match(True, 1.0, 1.0, 0.0, True), Match(True, 1.0, 0.0, 0.0, False)
    rollouts: Any = [
        SimpleNamespace(sample=SimpleNamespace(domain=domain), match=match)
        for domain, match in (("web", right), ("web", wrong), ("captcha", right))
    ]
    classes = [[TokenClass.TYPE, TokenClass.PARAMETERS], [TokenClass.TYPE], [TokenClass.THINK]]
    ledger = Ledger(rollouts, [ErrorClass.RIGHT, ErrorClass.PARAMETERS, ErrorClass.RIGHT], classes)
    ledger.enter([2, 0], torch.tensor([1.0, 0.0, 2.0]), torch.tensor([0.5, 0.1, 0.3]))
    ledger.enter([1], torch.tensor([3.0]), torch.tensor([0.7]))
    rows = ledger.rows(Ranks())
    assert rows[0] == {"teacher": "captcha", "error": "right", "kind": "think", "tokens": 1, "weight": 1.0, "kl": 0.5}
    assert sum(row["tokens"] for row in rows) == 4
    figures = ledger.figures(Ranks(), rows)
    assert figures == pytest.approx(
        {
            "weight/think": 1.0,
            "weight/type": 1.5,
            "weight/parameters": 2.0,
            "kl/think": 0.5,
            "kl/type": 0.4,
            "kl/parameters": 0.3,
            "kl/web": (0.1 + 0.3 + 0.7) / 3,
            "kl/captcha": 0.5,
            "sampled/web": 0.5,
            "sampled/captcha": 1.0,
            "error/right": 2 / 3,
            "error/parameters": 1 / 3,
            "error/type": 0.0,
        }
    )


def test_average_weights_is_the_mean() -> None:
    models: list[Any] = [torch.nn.Linear(3, 2) for _ in range(3)]
    average_weights(models[0], [models[1], models[2]])
    assert torch.allclose(models[0].weight, (models[1].weight + models[2].weight) / 2)


def test_only_the_teacher_reads_the_hint(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The teacher's logits are those of the plain computation with the hint in its prompt, answer by answer."""
    samples = [screen.samples[0] for deck in learner._decks.values() for screen in deck.deal(0, 2)]
    rollouts = [answers[0] for answers in learner._sampler.draw(learner._student, samples, 1, 5)]
    plain = learner._teacher_logits(*learner._taught(rollouts))
    hinted = learner._settings.model_copy(update={"hint": "save {type}"})
    monkeypatch.setattr(learner, "_settings", hinted)
    told = learner._teacher_logits(*learner._taught(rollouts))
    assert told.shape == plain.shape
    assert not torch.allclose(told, plain, atol=1e-3)

    def alone(rollout: Rollout) -> torch.Tensor:
        names = ", ".join(action.name for action in rollout.sample.actions)
        prompt = sample_prompt(learner._processor, rollout.sample, learner._system_prompt, f"save {names}")
        shown = [(prompt.prefix, [learner._processor.patches(rollout.sample.image)])]
        batch = fan.collate(learner._processor, shown, [(0, prompt.suffix, rollout.answer.ids)])
        teacher = learner._teachers[rollout.sample.domain]
        with torch.no_grad():
            return teacher.lm_head(fan.forward(teacher, batch).answers)

    assert torch.allclose(told, torch.cat([alone(rollout) for rollout in rollouts]), atol=1e-4)
    assert all(rollout.prompt == learner._sampler._prompt(rollout.sample) for rollout in rollouts)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"gate": {"low": 2.0, "high": 0.5}}, "low must be below high"),
        ({"mix": dict.fromkeys(DISTILLATION["mix"], 0)}, "a share above 0"),
    ],
)
def test_settings_that_leave_nothing_to_learn_from_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Parameters.model_validate({**DISTILLATION, **values})


def test_a_hint_that_tells_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must say \{type\}"):
        Parameters.model_validate({**DISTILLATION, "hint": "look well"})
