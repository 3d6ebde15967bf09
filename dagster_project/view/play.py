"""`hesper play APP`: one app in a local page, for a person to try; what they do is recorded as a trajectory."""

from __future__ import annotations

import difflib
import hashlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from assets.agent.actions import ACTIONS, ActionError
from assets.agent.grammar import parse_actions
from assets.agent.parameters import AgentParameters
from assets.environments.catalogue import AppInfo, catalogue
from assets.environments.environments import Parameters, screen_of
from assets.environments.phone import PhoneParameters
from assets.environments.playing import Playing, new_folder
from assets.environments.session import Session, open_session
from assets.environments.task import TaskContract
from assets.environments.trajectory import Screenshot
from assets.errors import InfrastructureError, ParameterError
from assets.stage import load_section
from dagster_project.view.page import filled
from dagster_project.view.server import Reply, reply_json, serve

ANSWER_SECONDS = 300.0
"""How long a page waits for the session."""

_LAST_REPLY_SECONDS = 0.5
"""For the page to be told that it is over, before the server goes."""


def play(
    root: Path,
    name: str,
    out: Path,
    size: tuple[int, int] | None,
    seed: int,
    ready: Callable[[str], None],
) -> Path | None:
    """Serve the page until the person is done or the process is told to end; returns the folder of the episode.

    Args:
        size: width and height of the screen; by default that of the environments stage.
        seed: of a MiniWoB++ page's episode.
        ready: called with the page's address.

    Raises:
        ParameterError: no such app.
        InfrastructureError: the environment does not start.
    """
    phone = load_section(root / "params.yaml", "phone", PhoneParameters)
    app = find_app(name, phone)
    agent = load_section(root / "params.yaml", "agent", AgentParameters)
    if size is None:
        size = screen_of(app, agent.screen, load_section(root / "params.yaml", "environments", Parameters))
    table = _Table(app, size, out, seed, agent.coordinate_digits, phone)
    table.start()
    try:
        serve(
            {
                ("GET", ""): lambda _: Reply(filled("play.html", table.about).encode(), "text/html; charset=utf-8"),
                ("GET", "screen"): table.screen,
                ("POST", "act"): table.act,
                ("POST", "instruction"): table.instruction,
            },
            ready,
            table.done,
        )
    finally:
        table.close()
    return table.folder if (table.folder / "episodes.parquet").is_file() else None


def find_app(name: str, phone: PhoneParameters) -> AppInfo:
    """The app of this id; on a phone that was named, also one of those that `phone.apps` names.

    Raises:
        ParameterError: there is none; the message names the nearest.
    """
    if phone.adb and name in phone.apps:
        locale = "en" if name.isascii() else "zh"
        return AppInfo(name, "mobile", "phone", name, locale, "train", "", "full", phone.apps[name], ())
    apps = {app.id: app for app in catalogue()}
    if name in apps:
        return apps[name]
    near = difflib.get_close_matches(name, apps, 3, 0.4)
    hint = f"did you mean {', '.join(near)}?" if near else "`hesper view environments` shows them all"
    raise ParameterError(f"no app '{name}'; {hint}")


class _Table(threading.Thread):
    """Where the game is played: the thread that owns the session, since a browser answers only to the one that
    started it. Requests of the page are carried out one after the other."""

    def __init__(
        self, app: AppInfo, size: tuple[int, int], out: Path, seed: int, digits: int, phone: PhoneParameters
    ) -> None:
        super().__init__(name="play", daemon=True)
        self.done = threading.Event()
        self._app, self._size, self._seed, self._digits, self._phone = app, size, seed, digits, phone
        identity, self.folder = new_folder(out, app.id)
        initial = {"seed": seed} if app.kind == "miniwob" else {}
        self._task = TaskContract(
            identity, app.platform, app.id, app.locale, "", initial_state=initial, split=app.split
        )
        self._requests: queue.Queue[tuple[Callable[[Playing], Any], Future[Any]] | None] = queue.Queue()
        self._begun: Future[tuple[str, Screenshot]] = Future()
        self.about: dict[str, Any] = {}

    def start(self) -> None:
        """Open the session; returns when the first screen is there."""
        super().start()
        instruction, first = self._begun.result()
        actions = sorted(name for name, form in ACTIONS.items() if self._app.platform in form.platforms)
        self.about = {
            "app": self._app.id,
            "title": self._app.title,
            "platform": self._app.platform,
            "width": first.width,
            "height": first.height,
            "actions": actions,
            "instruction": instruction,
            "folder": str(self.folder),
        }

    def run(self) -> None:
        """The thread."""
        try:
            options: dict[str, Any] = {"phone": self._phone} if self._app.platform == "mobile" else {}
            session = open_session(self._app.platform, self._size, self._app.id, **options)
        except Exception as error:
            self._begun.set_exception(error)
            return
        with session:
            try:
                playing = Playing(session, self._task, self.folder)
                utterance = _utterance(session)
                if utterance:
                    playing.name(utterance)
                self._begun.set_result((utterance, playing.screenshot))
            except Exception as error:
                self._begun.set_exception(error)
                return
            while (request := self._requests.get()) is not None:
                work, answer = request
                try:
                    answer.set_result(work(playing))
                except Exception as error:
                    if isinstance(error, InfrastructureError):
                        playing.broke()
                    answer.set_exception(error)
            playing.save()

    def close(self) -> None:
        """Save, and give the session back."""
        self._requests.put(None)
        self.join()

    # --- what the page asks for; from other threads -------------------------------------------------------------------

    def screen(self, given: dict[str, Any]) -> Reply:
        """The picture, unless the page has it already."""
        shot = self._ask(lambda playing: playing.screenshot if playing.over else playing.look())
        if isinstance(shot, Reply):
            return shot
        tag = hashlib.sha256(shot.png).hexdigest()[:16]
        if given.get("seen") == tag:
            return Reply(status=204)
        return Reply(shot.png, "image/png", headers={"X-Picture": tag})

    def act(self, given: dict[str, Any]) -> Reply:
        """Carry out an action, written with coordinates from 0 to 1."""
        try:
            (action,) = parse_actions(str(given.get("action", "")), self._app.platform, "unit")
        except ActionError as error:
            return reply_json({"error": str(error)}, 400)
        except ValueError:
            return reply_json({"error": "one action at a time"}, 400)
        think = str(given.get("think", ""))

        def work(playing: Playing) -> dict[str, Any]:
            note = playing.act(action, think, self._digits)
            step = playing.episode.steps[-1]
            return {"note": note, "step": step.index + 1, "response": step.response, "over": playing.over}

        reply = self._ask(work)
        if isinstance(reply, Reply):
            return reply
        if reply["over"]:
            threading.Timer(_LAST_REPLY_SECONDS, self.done.set).start()
        return reply_json(reply)

    def instruction(self, given: dict[str, Any]) -> Reply:
        """What the person is trying to do, in words."""
        reply = self._ask(lambda playing: playing.name(str(given.get("text", ""))))
        return reply if isinstance(reply, Reply) else reply_json({})

    def _ask(self, work: Callable[[Playing], Any]) -> Any:
        """The result of `work` in the session's thread, or a reply that says why there is none."""
        answer: Future[Any] = Future()
        self._requests.put((work, answer))
        try:
            return answer.result(ANSWER_SECONDS)
        except (ActionError, ValueError) as error:
            return reply_json({"error": str(error)}, 400)
        except InfrastructureError as error:
            self.done.set()
            return reply_json({"error": f"the environment broke: {error}"}, 503)
        except TimeoutError:
            return reply_json({"error": "the session does not answer"}, 503)


def _utterance(session: Session) -> str:
    """What a page with a task of its own asks for."""
    return str(session.state().get("utterance") or "")
