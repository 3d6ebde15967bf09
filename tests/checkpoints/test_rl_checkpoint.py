"""Reinforcement learning on a micro project: it learns, it resumes exactly, it leaves held-out data alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from assets.agent import fan
from assets.agent.model import load_model
from assets.agent.samples import Sample, load_samples
from assets.checkpoints import rl_checkpoint
from assets.checkpoints.rl_checkpoint import Learner
from assets.checkpoints.rollouts import Sampler, sampled_log_probs, scoring_batches
from assets.errors import InputError, ParameterError
from assets.stage import execute
from tests.checkpoints.micro_project import OPTIMISATION, RL, write_params


def metrics(project: Path, domain: str) -> dict[str, float]:
    return json.loads((project / "models" / "rl" / domain / "metrics.json").read_text(encoding="utf-8"))


def curve(project: Path, domain: str, name: str) -> list[float]:
    lines = (project / "models" / "rl" / domain / "curves.csv").read_text(encoding="utf-8").splitlines()
    place = lines[0].split(",").index(name)
    return [float(cells[place]) for line in lines[1:] if (cells := line.split(","))[place]]


@pytest.mark.parametrize("domain", ["grounding", "web"])
def test_reward_rises_and_so_does_heldout_accuracy(project: Path, domain: str) -> None:
    execute("rl_checkpoint", domain, project)
    rewards = curve(project, domain, "sampled/reward")
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.3
    figures = metrics(project, domain)
    assert figures["heldout_questions"] >= 12
    assert figures["heldout_accuracy"] > max(0.8, figures["heldout_accuracy_before"])
    assert figures["heldout_sampled"] > figures["heldout_sampled_before"] + 0.1
    folder = project / "models" / "rl" / domain
    assert (folder / "pictures" / "curves.png").is_file()
    assert "after RL" in (folder / "heldout.md").read_text(encoding="utf-8")
    load_model(folder)


def test_a_killed_run_continues_and_ends_in_the_same_bytes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = execute("rl_checkpoint", "grounding", project)
    shutil.rmtree(project / "models" / "rl")
    step = Learner.step
    seen: list[int] = []

    def killed_at_eight(self: Learner, number: int) -> dict[str, float]:
        seen.append(number)
        if number == 8 and seen.count(8) == 1:
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(Learner, "step", killed_at_eight)
    with pytest.raises(KeyboardInterrupt):
        execute("rl_checkpoint", "grounding", project)
    assert not (project / "models" / "rl" / "grounding").exists()
    assert execute("rl_checkpoint", "grounding", project) == undisturbed
    assert seen.count(4) == 1  # went on from the checkpoint at 5, not from the start
    assert seen.count(5) == 2


@pytest.mark.parametrize("algorithm", ["grpo", "dapo", "gspo"])
def test_every_algorithm_trains(project: Path, algorithm: str) -> None:
    """With reused answers and a KL penalty, so that ratio, clip and reference are at work."""
    width = {"low": 0.003, "high": 0.004} if algorithm == "gspo" else {"low": 0.2, "high": 0.28}
    changed = {"algorithm": algorithm, "uses": 5, "kl": 0.01, "clip": width}
    write_params(project, rl_checkpoint={**RL, **changed, "optimisation": {**OPTIMISATION, "steps": 20}})
    execute("rl_checkpoint", "captcha", project)
    rewards = curve(project, "captcha", "sampled/reward")
    assert rewards[-1] > rewards[0]
    assert curve(project, "captcha", "kl")[0] == pytest.approx(0.0, abs=1e-5)
    assert curve(project, "captcha", "kl")[-1] > 0


def test_heldout_samples_are_never_trained_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Learner.step
    trained: set[str] = set()
    measured: set[str] = set()

    def recording(self: Learner, number: int) -> dict[str, float]:
        figures = step(self, number)
        trained.update(self.suspects())
        return figures

    score = rl_checkpoint.score_together

    def scoring(ranks: Any, model: Any, processor: Any, samples: list[Sample], *rest: Any) -> Any:
        measured.update(sample.id for sample in samples)
        return score(ranks, model, processor, samples, *rest)

    monkeypatch.setattr(Learner, "step", recording)
    monkeypatch.setattr(rl_checkpoint, "score_together", scoring)
    execute("rl_checkpoint", "mobile", project)
    assert trained
    assert measured
    assert not trained & measured
    assert all(name.startswith("mobile-train") for name in trained)


def test_the_best_checkpoint_is_kept(project: Path) -> None:
    """A learning rate that ruins the model: what is kept is the start."""
    ruinous = {**OPTIMISATION, "learning_rate": 1.0, "clip": 100.0}
    write_params(project, rl_checkpoint={**RL, "optimisation": ruinous})
    execute("rl_checkpoint", "grounding", project)
    figures = metrics(project, "grounding")
    assert figures["kept_step"] == 0
    assert figures["heldout_accuracy"] == figures["heldout_accuracy_before"]


def test_no_training_sample_is_a_clear_error(project: Path) -> None:
    import pyarrow.parquet as pq

    file = project / "data" / "verified_trajectories" / "episodes.parquet"
    table = pq.read_table(file)
    pq.write_table(table.filter(pq.read_table(file)["platform"].to_pandas().ne("web").to_numpy()), file)
    with pytest.raises(InputError, match="no verified training sample"):
        execute("rl_checkpoint", "web", project)


def test_checkpoints_lie_between_uses(project: Path) -> None:
    write_params(project, rl_checkpoint={**RL, "uses": 3})
    with pytest.raises(ParameterError, match="multiple of uses"):
        execute("rl_checkpoint", "web", project)


# --- rollouts --------------------------------------------------------------------------------------------------------


def test_sampled_log_probabilities_equal_recomputed_ones(midtrained_project: Path) -> None:
    """And nothing is made from text again: the ids scored are the ids sampled."""
    model, processor = load_model(midtrained_project / "models" / "midtrained", "cpu")
    samples = [
        *load_samples(midtrained_project / "data" / "grounding_samples", "grounding", "train")[:6],
        *load_samples(midtrained_project / "data" / "verified_trajectories", "web", "train")[:4],
    ]
    sampler = Sampler(processor, "brief", 1.0, 16, 0.14, 64)
    rollouts = [rollout for group in sampler.draw(model, samples, 3, 11) for rollout in group]
    assert {rollout.match.correct for rollout in rollouts} == {False, True}
    seen = []
    for rows in (64, 5):
        for scoring in scoring_batches(processor, rollouts, rows, model.device):
            with torch.no_grad():
                scores = fan.log_probabilities(model, fan.forward(model, scoring.batch).answers)
            again = scoring.rows(scores.gather(-1, scoring.batch.targets()[:, None])[:, 0])
            assert torch.allclose(again, sampled_log_probs(rollouts, scoring), atol=1e-4)
            seen += scoring.indices.tolist()
    assert sorted(seen) == sorted([*range(len(rollouts))] * 2)


def test_the_same_seed_draws_the_same_answers(midtrained_project: Path) -> None:
    model, processor = load_model(midtrained_project / "models" / "midtrained", "cpu")
    samples = load_samples(midtrained_project / "data" / "grounding_samples", "grounding", "train")[:4]
    sampler = Sampler(processor, "brief", 1.0, 16, 0.14, 64)
    first, again, other = (
        [rollout.answer.ids for group in sampler.draw(model, samples, 4, seed) for rollout in group]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
