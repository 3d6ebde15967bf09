"""Candidates on MiniWoB++ pages: a page and a seed. The page says what is asked and whether it was done."""

from __future__ import annotations

from dataclasses import replace

from assets.agent.actions import Action, from_pixel
from assets.environments.miniwob import PREFIX, MiniwobSession, split_of
from assets.environments.miniwob_oracles import ORACLES, Scene
from assets.environments.task import TaskContract
from assets.generated_tasks.plan import Candidate

BUDGET = 16
"""Most responses of an episode; the longest way, twelve checkboxes and a button, takes thirteen."""


def miniwob_candidate(app: str, seed: int) -> Candidate:
    """A candidate without words and without a plan: the page has its own, `worded` and `play` ask it."""
    task = TaskContract(
        id="",
        platform="web",
        app=app,
        locale="en",
        instruction="",
        capabilities=(f"{app}/solve",),
        initial_state={"seed": seed},
        expected_state={"success": True},
        allowed_side_effects=("done", "reward", "dom", "answer", "notes"),
        step_budget=BUDGET,
        split=split_of(app.removeprefix(PREFIX)),
    )
    return Candidate(task, (), f"{app}/{seed}", f"{app}/{seed}")


def worded(candidate: Candidate, session: MiniwobSession) -> Candidate:
    """The candidate with the instruction of the page, which the session has just been reset to."""
    return replace(candidate, task=replace(candidate.task, instruction=str(session.state()["utterance"])))


def play(session: MiniwobSession) -> int:
    """Let the page's oracle act until it is done or the page has given its reward; returns how often it acted."""
    scene = Scene(session)
    acted = 0
    for action, _ in ORACLES[scene.page](scene):
        session.act(action)
        acted += 1
        if session.over:
            break
    return acted


def click_elsewhere(session: MiniwobSession) -> bool:
    """Click something that the page's oracle does not begin with; False where there is nothing else."""
    scene = Scene(session)
    _, meant = next(ORACLES[scene.page](scene))
    for element in scene.all():
        x, y = element.center
        if not any(x0 <= x <= x1 and y0 <= y <= y1 for x0, y0, x1, y1 in meant):
            session.act(Action("Click", point=from_pixel(x, y, *session.size)))
            return True
    return False
