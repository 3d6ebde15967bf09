"""Policies at play in real sessions; shards that repeat to the byte."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq

from assets.environments.apps import load_specs
from assets.environments.desktop import load_apps
from assets.environments.trajectory import Episode
from assets.environments.workers import Sessions
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.plan import Candidate
from assets.generated_tasks.validity import prove_family
from assets.stage import directory_id
from assets.verified_trajectories.collected_trajectories import POLICIES, Assignment, Shard, _play, play_shard
from assets.verified_trajectories.drawing import load_strips


def assignments(candidates: list[Candidate]) -> list[Assignment]:
    """Every policy on the first candidate; the second is its sibling."""
    first, second = candidates
    return [
        Assignment(first.task, first.plan, policy, second.plan, 5, 3, 3 if policy == "random" else None)
        for policy in POLICIES
    ]


def proven(sessions: Sessions) -> list[list[Candidate]]:
    spec = load_specs()["clock-en"]
    app = next(app for app in load_apps() if app.id == "mixer")
    pools = [
        app_candidates(spec, 1, spec.theme, 3, random.Random(3)),
        desktop_candidates(app, 1, 2, random.Random(3)),
    ]
    families = []
    for pool in pools:
        longer = [candidate for candidate in pool if len(candidate.plan) >= 3][:4]
        families.append([v.candidate for v in prove_family(sessions, longer) if not v.reason][:2])
    return families


def test_each_policy_does_what_its_name_says_and_shards_repeat(tmp_path: Path) -> None:
    with Sessions((192, 192)) as sessions:
        for number, candidates in enumerate(proven(sessions)):
            played = {a.policy: _play(sessions, a) for a in assignments(candidates)}
            _check(played)
            shard = Shard(tuple(assignments(candidates)), tmp_path / f"first-{number}")
            play_shard(sessions, shard)
            again = Shard(shard.assignments, tmp_path / f"second-{number}")
            play_shard(sessions, again)
            assert directory_id(shard.folder) == directory_id(again.folder)
            rows = pq.read_table(shard.folder / "episodes.parquet").to_pylist()
            assert len(rows) == len(POLICIES)
            assert load_strips(shard.folder, [rows[0]["id"], rows[-1]["id"]]).height > 300


def _check(played: dict[str, Episode]) -> None:
    oracle = played["oracle"]
    assert oracle.outcome == "success"
    assert oracle.claimed
    for step in oracle.steps[:-1]:
        for action, box in zip(step.actions, step.boxes, strict=False):
            assert action.point is not None
            x, y = ((value + 0.5) * 192 / 1000 for value in action.point)
            assert box[0] <= x < box[2]
            assert box[1] <= y < box[3]
            assert step.think
    assert played["mistaken"].outcome == "success"
    assert len(played["mistaken"].steps) > len(oracle.steps)
    assert (played["early_claim"].outcome, played["early_claim"].claimed) == ("failure", True)
    assert (played["wrong_entity"].outcome, played["wrong_entity"].claimed) == ("failure", True)
    assert played["misclick"].outcome == "failure"
    assert (played["random"].outcome, len(played["random"].steps)) == ("failure", 3)
