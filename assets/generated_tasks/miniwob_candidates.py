"""Candidates on MiniWoB++ pages: a page and a seed. The page says what is asked and whether it was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assets.environments.miniwob import MiniwobSession
from assets.environments.miniwob_oracles import ORACLES, Scene
from assets.generated_tasks.plan import Candidate

BUDGET = 10
"""Most responses of an episode; the longest oracle of a page takes eight."""


def miniwob_candidates(wanted: Sequence[tuple[str, int]], size: tuple[int, int]) -> list[Candidate]:
    """A candidate for each (app id, seed). Its plan is empty: the page's own oracle solves it."""
    candidates = []
    with MiniwobSession(size) as session:
        for app, seed in wanted:
            page = app.partition("/")[2]
            task = session.task(page, seed)
            task = replace(task, capabilities=(f"{app}/solve",), step_budget=BUDGET)
            candidates.append(Candidate(task, (), f"{app}/{seed}", f"{app}/{seed}"))
    return candidates


def play(session: MiniwobSession) -> None:
    """Let the page's oracle act until it is done or the page has given its reward."""
    scene = Scene(session)
    for action, _ in ORACLES[scene.page](scene):
        session.act(action)
        if session.over:
            return
