"""Live episodes: held-out apps and pages, played in real sessions and judged by the programmatic check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assets.agent.actions import DOMAIN_OF_PLATFORM
from assets.environments.session import Session, open_session, rollout_batch
from assets.environments.task import TaskContract, from_row

if TYPE_CHECKING:
    import random

    from assets.agent.observation import Policy
    from assets.environments.trajectory import Episode

MINIWOB = "miniwob"
"""The suite of tasks whose app is a MiniWoB++ page; their app ids start with it."""


@dataclass(frozen=True)
class Venue:
    """Sessions that can all play the same tasks."""

    domain: str
    sessions: tuple[Session, ...]
    tasks: tuple[TaskContract, ...]

    def play(self, policy: Policy, max_steps: int) -> list[Episode]:
        """Every task once, as many at a time as there are sessions; in the order of the tasks."""
        return rollout_batch(self.sessions, self.tasks, policy, max_steps)


@contextmanager
def open_venues(
    suites: Sequence[Sequence[TaskContract]], size: tuple[int, int], sessions: int
) -> Iterator[list[Venue]]:
    """A venue a suite; sessions stay open for all the policies that play there. Pages share one browser.

    Args:
        suites: lists of tasks of one platform (MiniWoB++ by itself); empty ones are left out.
        size: width and height of every screenshot, in pixels.
        sessions: most sessions of a venue.
    """
    from assets.environments.chromium import browser

    with ExitStack() as stack:
        chromium = None
        venues = []
        for tasks in suites:
            if not tasks:
                continue
            platform, app = tasks[0].platform, tasks[0].app
            if platform != "desktop" and chromium is None:
                chromium = stack.enter_context(browser())
            opened = tuple(
                stack.enter_context(open_session(platform, size, app, chromium))
                for _ in range(min(sessions, len(tasks)))
            )
            venues.append(Venue(DOMAIN_OF_PLATFORM[platform], opened, tuple(tasks)))
        yield venues


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
