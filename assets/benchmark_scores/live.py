"""Live episodes: held-out apps and pages, played in real sessions and judged by the programmatic check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assets.agent.actions import DOMAIN_OF_PLATFORM
from assets.environments.session import rollout_batch
from assets.environments.task import TaskContract, from_row

if TYPE_CHECKING:
    import random

    from assets.agent.observation import Policy
    from assets.environments.trajectory import Episode
    from assets.environments.workers import Sessions

MINIWOB = "miniwob"
"""The suite of tasks whose app is a MiniWoB++ page; their app ids start with it."""


def play(
    sessions: Sessions, tasks: Sequence[TaskContract], policy: Policy, side_by_side: int, max_steps: int
) -> list[Episode]:
    """Every task once, suite by suite, at most `side_by_side` of them at once.

    An episode ends after the task's own step budget or `max_steps`, whichever is less.
    """
    suites: dict[str, list[TaskContract]] = {}
    for task in tasks:
        capped = replace(task, step_budget=min(task.step_budget, max_steps))
        suites.setdefault(suite_of(task), []).append(capped)
    episodes = []
    for _, members in sorted(suites.items()):
        opened = sessions.several(members[0].platform, members[0].app, min(side_by_side, len(members)))
        episodes += rollout_batch(opened, members, policy)
    return episodes


def read_tasks(path: Path, split: str = "heldout") -> list[TaskContract]:
    """The task contracts of one split."""
    import pyarrow.parquet as pq

    return [task for task in map(from_row, pq.read_table(path).to_pylist()) if task.split == split]


def suite_of(task: TaskContract) -> str:
    """`mobile`, `web` or `computer`, or `miniwob`."""
    return MINIWOB if task.app.startswith(f"{MINIWOB}/") else DOMAIN_OF_PLATFORM[task.platform]


def choose_tasks(tasks: Sequence[TaskContract], count: int, rng: random.Random) -> list[TaskContract]:
    """At most `count` tasks, drawn at random app by app in turn, so that every app has its share."""
    apps: dict[str, list[TaskContract]] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        apps.setdefault(task.app, []).append(task)
    order = sorted(apps)
    rng.shuffle(order)
    for app in order:
        rng.shuffle(apps[app])
    rounds = max((len(members) for members in apps.values()), default=0)
    in_turn = [apps[app][turn] for turn in range(rounds) for app in order if turn < len(apps[app])]
    return sorted(in_turn[:count], key=lambda task: task.id)
