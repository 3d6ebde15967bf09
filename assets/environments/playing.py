"""A person plays an app: what they do is carried out by a session and recorded like any agent's episode."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from assets.agent.actions import Action, render_response, to_pixel
from assets.agent.observation import Box
from assets.environments.session import ENDING, Session
from assets.environments.task import TaskContract
from assets.environments.trajectory import (
    Episode,
    Screenshot,
    Step,
    episode_row,
    episodes_schema,
    step_rows,
    steps_schema,
)
from assets.stage import write_parquet

POLICY = "person"


class Playing:
    """An episode in the making. After every action the tables in `folder` hold all of it so far.

    The outcome is what the person says (nobody has written down what state they were after): `success` once they have
    finished, `failure` where they gave up, `infrastructure` where the environment broke.

    Args:
        session: where they play; it is reset to `task`.
        folder: of this episode, made if need be; a batch that the inbox takes (docs/new_data.md).
    """

    def __init__(self, session: Session, task: TaskContract, folder: Path) -> None:
        self._session = session
        self._folder = folder
        session.reset(task)
        self.episode = Episode(task.id, task, POLICY)
        self._history: tuple[str, ...] = ()
        self.screenshot = session.observe()
        self.over = False

    def look(self) -> Screenshot:
        """What the screen shows now."""
        self.screenshot = self._session.observe()
        return self.screenshot

    def act(self, action: Action, think: str = "", digits: int = 0) -> str | None:
        """Carry out one action, record it, and return the text that it gave back.

        Raises:
            ActionError: it can't be carried out; nothing is recorded.
            InfrastructureError: the environment broke; the episode is over.
        """
        before, boxes = self._session.digest(), self._boxes(action)
        self._session.act(action)
        response = render_response(think, [action], digits)
        self.episode.steps.append(
            Step(
                index=len(self.episode.steps),
                screenshot=self.screenshot,
                history=self._history,
                think=think,
                response=response,
                actions=(action,),
                boxes=boxes,
                state_before=before,
                state_after=self._session.digest(),
            )
        )
        self._history = (*self._history, response)
        note = self._session.note()
        self.look()
        if action.name in ENDING:
            self.over = True
            self.episode.claimed = action.name == "Finished"
            self.episode.outcome = "success" if self.episode.claimed else "failure"
        self.save()
        return note

    def name(self, instruction: str) -> None:
        """Say what it was about: the instruction of the task."""
        self.episode.task = replace(self.episode.task, instruction=instruction)
        self.save()

    def broke(self) -> None:
        """The environment broke: that is nobody's failure."""
        self.over = True
        self.episode.outcome = "infrastructure"
        self.save()

    def save(self) -> None:
        """Write the tables; an episode without a step is not kept."""
        if not self.episode.steps:
            return
        self.episode.final_screenshot = None if self.episode.outcome == "infrastructure" else self.screenshot
        self._folder.mkdir(parents=True, exist_ok=True)
        rows: dict[str, tuple[list[dict[str, Any]], Any]] = {
            "steps": (step_rows(self.episode), steps_schema()),
            "episodes": ([episode_row(self.episode)], episodes_schema()),
        }
        for name, (table, schema) in rows.items():
            partial = self._folder / f"{name}.partial"
            write_parquet(partial, table, schema)
            partial.rename(self._folder / f"{name}.parquet")

    def _boxes(self, action: Action) -> tuple[Box, ...]:
        """The box of what each coordinate hits, or none at all where one hits nothing."""
        points = [to_pixel(point, self.screenshot.width, self.screenshot.height) for point in action.points()]
        boxes = []
        elements = [element for element in self._session.elements() if element.visible] if points else []
        for x, y in points:
            hit = [e.box for e in elements if e.box[0] <= x < e.box[2] and e.box[1] <= y < e.box[3]]
            if not hit:
                return ()
            boxes.append(min(hit, key=lambda box: (box[2] - box[0]) * (box[3] - box[1])))
        return tuple(boxes)


def new_folder(out: Path, app: str) -> tuple[str, Path]:
    """(task id, folder) for one more episode of this app: the next number that is free."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", app)
    taken = [int(folder.name.rpartition("-")[2]) for folder in out.glob(f"{name}-[0-9][0-9][0-9]")]
    number = max(taken, default=0) + 1
    return f"played/{name}-{number:03d}", out / f"{name}-{number:03d}"
