"""`hesper review`: episodes that the judges can't agree on, for a person to decide in a local page.

The reviewer knows what the judges know: screens, thoughts, actions, keypoints and votes. The programmatic outcome, the
state, the boxes and the agent's own claim are left out.
"""

from __future__ import annotations

import getpass
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import ValidationError

from assets.errors import HesperError, InputError, ParameterError
from assets.verified_trajectories.reviews import Review, read_reviews, write_review
from dagster_project.view.page import filled
from dagster_project.view.server import Reply, reply_json, serve
from dagster_project.view.trajectories import routes
from dagster_project.view.trajectory_table import TrajectoryTable

_HIDDEN = ("outcome", "claimed")
_HIDDEN_OF_STEPS = ("boxes", "before", "after", "differences")


def review(root: Path, reviewer: str | None, ready: Callable[[str], None]) -> str:
    """Serve the page until the process is told to end; returns what there is to say about it.

    Args:
        reviewer: who decides; by default Git's `user.name`, else the name of the account.
        ready: called with the page's address. Not called where nothing is to be decided.

    Raises:
        InputError: nothing was verified yet, or `data/reviews` holds a file that is no decision.
        ParameterError: the reviewer's name is empty or too long.
    """
    queue = ReviewQueue(root, reviewer or default_reviewer(root))
    if not queue.state()["open"]:
        return queue.summary()
    page = filled("review.html", {"reviewer": queue.reviewer})
    serve(
        {
            ("GET", ""): lambda _: Reply(page.encode(), "text/html; charset=utf-8"),
            ("GET", "queue"): lambda _: _told(queue.state),
            ("POST", "decide"): lambda given: _told(lambda: queue.decide(given)),
            ("POST", "undo"): lambda _: _told(queue.undo),
            **routes(queue.table, _blinded),
        },
        ready,
    )
    return queue.summary()


def default_reviewer(root: Path) -> str:
    """Who uses this project: Git's `user.name`, else the name of the account."""
    try:
        done = subprocess.run(["git", "config", "user.name"], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.strip() or getpass.getuser()
    except (OSError, KeyError):  # no Git, or an account without a name
        raise ParameterError("nobody knows who you are: give --reviewer NAME") from None


class Refused(Exception):
    """A decision that can't be taken or taken back, with a message for the reviewer."""


class ReviewQueue:
    """The episodes for review, and what is decided about them. May be used from many threads and processes."""

    def __init__(self, root: Path, reviewer: str) -> None:
        folder = root / "data" / "verified_trajectories"
        if not (folder / "episodes.parquet").is_file():
            raise InputError("there is no data/verified_trajectories yet: `hesper run verified_trajectories` makes it")
        if not (folder / "reports.parquet").is_file():
            raise InputError(f"{folder} has no reports: `hesper run verified_trajectories` makes them")
        try:
            named = Review(episode="-", seen="0" * 64, verdict="failed", reviewer=reviewer.strip(), note="")
        except ValidationError:
            raise ParameterError("a reviewer has a name of 1 to 100 letters") from None
        self.reviewer = named.reviewer
        self.table = TrajectoryTable(folder)
        self.folder = root / "data" / "reviews"
        (root / ".hesper").mkdir(exist_ok=True)
        # Look and write in one go: two people may decide about one episode in the same moment.
        self._lock = FileLock(root / ".hesper" / "reviews.lock")
        self._thread_lock = threading.Lock()
        self._mine: list[tuple[int, Path, Review]] = []
        self._items = self._read_items()

    def state(self) -> dict[str, Any]:
        """What is still open, the most disputed first, and how much is decided."""
        decided = read_reviews(self.folder)
        still = [item for item in self._items.values() if item["seen"] not in decided]
        names = ("number", "episode_id", "disagreement", "probability")
        return {
            "open": [{name: item[name] for name in names} for item in still],
            "decided": len(self._items) - len(still),
            "mine": len(self._mine),
        }

    def decide(self, given: dict[str, Any]) -> dict[str, Any]:
        """Keep a decision about the episode `number`: `verdict` and `note`.

        Raises:
            Refused: it is no decision, or somebody else was faster.
        """
        number = given.get("number")
        item = self._items.get(number) if isinstance(number, int) else None
        if item is None:
            raise Refused("no such episode is for review")
        try:
            decision = Review(
                episode=item["episode_id"],
                seen=item["seen"],
                verdict=given.get("verdict", ""),
                reviewer=self.reviewer,
                note=given.get("note", ""),
            )
        except ValidationError as error:
            trouble = error.errors()[0]
            raise Refused(f"{'.'.join(map(str, trouble['loc']))}: {trouble['msg']}") from None
        with self._thread_lock, self._lock:
            other = read_reviews(self.folder).get(item["seen"])
            if other is not None:
                raise Refused(f"{other.reviewer} has decided this one: {other.verdict}")
            self._mine.append((item["number"], write_review(self.folder, decision), decision))
        return {}

    def undo(self) -> dict[str, Any]:
        """Take back this session's last decision; returns the `number` of its episode and the `note`.

        Raises:
            Refused: there is none, or it is no longer what was written.
        """
        with self._thread_lock, self._lock:
            if not self._mine:
                raise Refused("nothing was decided in this session")
            number, path, decision = self._mine.pop()
            if read_reviews(self.folder).get(decision.seen) != decision:
                raise Refused(f"{path.name} is no longer what was written here; it stays as it is")
            path.unlink()
        return {"number": number, "note": decision.note}

    def summary(self) -> str:
        """Where the queue stands, in words."""
        state = self.state()
        if not self._items:
            return "nothing to review: the judges are agreed about every episode"
        said = f"{state['decided']} of {len(self._items)} disputed episodes are decided, {state['mine']} of them now"
        if state["decided"] == 0:
            return said
        return f"{said}; keep {self.folder} in Git, then `hesper run verified_trajectories` takes the decisions in"

    def _read_items(self) -> dict[int, dict[str, Any]]:
        found = []
        for name, report in self.table.reports().items():
            number = self.table.number(name)
            if number is None:
                raise InputError(f"reports.parquet of {self.table.folder} names '{name}', which is no episode of it")
            if report["for_review"]:
                found.append({**report, "number": number})
        found.sort(key=lambda item: (-(item["disagreement"] or 0.0), item["episode_id"]))
        return {item["number"]: item for item in found}


def _blinded(episode: dict[str, Any]) -> dict[str, Any]:
    steps = [{key: value for key, value in step.items() if key not in _HIDDEN_OF_STEPS} for step in episode["steps"]]
    return {**{key: value for key, value in episode.items() if key not in _HIDDEN}, "steps": steps}


def _told(work: Callable[[], dict[str, Any]]) -> Reply:
    """The result of some work, or what hinders it, as a reply."""
    try:
        return reply_json(work())
    except Refused as error:
        return reply_json({"error": str(error)}, 409)
    except HesperError as error:
        return reply_json({"error": str(error)}, 503)
    except OSError as error:
        return reply_json({"error": f"{error.strerror} ({error.filename})"}, 503)
