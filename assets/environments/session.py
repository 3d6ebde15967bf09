"""One session for every platform: reset to a task, look, act, read the state. And the loop that plays an episode."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from assets.agent.actions import Action, ActionError, Response
from assets.agent.grammar import parse_response
from assets.agent.observation import Box, KnowsTargets, Observation, Policy
from assets.environments.task import TaskContract, canonical_json
from assets.environments.trajectory import Episode, Screenshot, Step
from assets.errors import InfrastructureError, ParameterError

if TYPE_CHECKING:
    from assets.environments.chromium import Chromium

ENDING = frozenset({"Finished", "CallUser"})
"""Actions that end an episode: the agent is done, or hands over to the user."""


@dataclass(frozen=True)
class Element:
    """Something on the screen that can be acted on, with its box in pixels of the screenshot.

    `visible` says that it passed the hit test: painted, inside the viewport and not covered.
    """

    label: str
    kind: str
    box: Box
    id: str
    visible: bool = True

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the box, in pixels."""
        return ((self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2)


def free_point(element: Element, elements: Iterable[Element]) -> tuple[float, float]:
    """A point of an element that belongs to no smaller element upon it, in pixels: its middle, if that is free.

    A card that opens when it is tapped may carry a switch across its middle.
    """
    x0, y0, x1, y1 = element.box
    upon = [
        (a, b, c, d)
        for a, b, c, d in (other.box for other in elements if other.visible)
        if (a, b, c, d) != element.box and x0 <= a and y0 <= b and c <= x1 and d <= y1
    ]
    shares = (1 / 2, 1 / 6, 5 / 6)
    points = [(x0 + (x1 - x0) * across, y0 + (y1 - y0) * down) for down in shares for across in shares]
    free = ((x, y) for x, y in points if not any(a <= x <= c and b <= y <= d for a, b, c, d in upon))
    return next(free, element.center)


def found_elements(found: Iterable[Sequence[Any]], size: tuple[int, int], above: int = 0) -> list[Element]:
    """What the runtime's or the page's script found, `[label, kind, [x0, y0, x1, y1], id, visible, ...]` each.

    Args:
        size: width and height of the screen; what lies outside is not visible.
        above: pixels of the page that lie above the screen.
    """
    elements = []
    for label, kind, (x0, y0, x1, y1), identity, visible, *_ in found:
        box = (x0, y0 - above, x1, y1 - above)
        inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
        elements.append(Element(label, kind, box, identity, visible and inside))
    return elements


class Session(Protocol):
    """A place to act. Every method raises `InfrastructureError` when the environment itself breaks.

    A session that broke works again from its next `reset`.
    """

    platform: str

    def reset(self, task: TaskContract) -> None:
        """Bring the environment into the task's initial state."""
        ...

    def observe(self) -> Screenshot:
        """What the screen shows."""
        ...

    def act(self, action: Action) -> None:
        """Carry out one action; its effect is complete when this returns.

        Raises:
            ActionError: the platform has no such action, or it names something that does not exist.
        """
        ...

    def state(self) -> dict[str, Any]:
        """The whole programmatic state, as JSON values."""
        ...

    def digest(self) -> str:
        """A short hash of `state()`."""
        ...

    def elements(self) -> list[Element]:
        """What is on the screen, for oracles and for recorded boxes; an agent never sees it."""
        ...

    def note(self) -> str | None:
        """Text that the last action asked for, once."""
        ...

    @property
    def over(self) -> bool:
        """Whether the environment itself has ended the episode."""
        ...

    def snapshot(self) -> Any:
        """Everything that `restore` needs to bring this moment back."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Bring a snapshot of this session back."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


def open_session(
    platform: str, size: tuple[int, int], app: str = "", browser: Chromium | None = None, **options: Any
) -> Session:
    """A session on a platform. Several web sessions may share one `browser`; phones share the ADB server they are at.

    Args:
        size: width and height of every screenshot, in pixels.
        app: the app it is for. Only the prefix matters: `miniwob/` pages need a session of their own kind.
        browser: the Chromium to open a page in; without it the session starts and closes its own.
        options: passed to the platform's session.

    Raises:
        ParameterError: no such platform.
        MissingProgramError: what the platform needs is not installed.
    """
    if platform == "mobile":
        from assets.environments.phone import PhoneSession

        return PhoneSession(size, **options)
    if platform == "web" and app.startswith("miniwob/"):
        from assets.environments.miniwob import MiniwobSession

        return MiniwobSession(size, browser, **options)
    if platform == "web":
        from assets.environments.web import WebSession

        return WebSession(size, browser, **options)
    if platform == "desktop":
        from assets.environments.desktop import DesktopSession

        return DesktopSession(size, **options)
    raise ParameterError(f"no platform '{platform}'; known: mobile, web, desktop")


def fits(task: TaskContract, screen: tuple[int, int]) -> bool:
    """Whether sessions with a screen of this size show the task's app on it, and not on a larger one of its own."""
    if task.platform != "desktop":
        return True
    from assets.environments.desktop import screen_of

    return screen_of(task.app, screen) == screen


def digest(state: Any) -> str:
    """A short hash of a JSON value."""
    return hashlib.sha256(canonical_json(state).encode()).hexdigest()[:16]


# --- the programmatic check ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Result of the programmatic check: whether the task is done and what else changed."""

    success: bool
    side_effects: tuple[str, ...]


def check(task: TaskContract, initial: Mapping[str, Any], final: Mapping[str, Any]) -> Outcome:
    """Compare the final state with the task's expectation.

    Success means that every expected path has its value and that nothing else differs from the initial state, except
    below the allowed prefixes.
    """
    before, after = flatten(initial), flatten(final)
    done = all(_value_at(final, path) == value for path, value in task.expected_state.items())
    tolerated = (*task.expected_state, *task.allowed_side_effects)
    side_effects = tuple(
        path
        for path in sorted({*before, *after})
        if before.get(path, _ABSENT) != after.get(path, _ABSENT)
        and not any(path == prefix or path.startswith(prefix + ".") for prefix in tolerated)
    )
    return Outcome(done and not side_effects, side_effects)


def flatten(state: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted path -> leaf of nested dicts and lists; an empty one is a leaf."""
    if isinstance(state, Mapping) and state:
        items: Iterator[tuple[str, Any]] = ((str(key), value) for key, value in state.items())
    elif isinstance(state, list) and state:
        items = ((str(index), value) for index, value in enumerate(state))
    else:
        return {prefix: state} if prefix else {}
    flat: dict[str, Any] = {}
    for key, value in items:
        flat.update(flatten(value, f"{prefix}.{key}" if prefix else key))
    return flat


_ABSENT = object()


def _value_at(state: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(state, Mapping) and key in state:
            state = state[key]
        elif isinstance(state, list) and key.isdecimal() and int(key) < len(state):
            state = state[int(key)]
        else:
            return _ABSENT
    return state


# --- the loop --------------------------------------------------------------------------------------------------------


def rollout(session: Session, task: TaskContract, policy: Policy, max_steps: int | None = None) -> Episode:
    """Play one episode: observe, ask the policy, understand, act; until it ends or the step budget is spent.

    A response that can't be understood is recorded as a step without actions and counts against the budget.
    """
    return rollout_batch([session], [task], policy, max_steps)[0]


def rollout_batch(
    sessions: Sequence[Session], tasks: Sequence[TaskContract], policy: Policy, max_steps: int | None = None
) -> list[Episode]:
    """Play many episodes with one policy, as many at once as there are sessions; the policy is asked in batches.

    The sessions move in lock-step; one whose episode ended takes the next task. Every session must be able to play
    every task.

    Returns:
        One episode a task, in the order of the tasks.
    """
    waiting = list(enumerate(tasks))[::-1]
    finished: dict[int, Episode] = {}
    running: list[_Player] = []
    idle = list(sessions)
    while waiting or running:
        while waiting and idle:
            number, task = waiting.pop()
            running.append(_Player(number, idle.pop(0), task, policy, max_steps))
        asking = [player for player in running if player.look()]
        if asking:
            responses = policy.respond([player.observation for player in asking])
            targets = policy.targets() if isinstance(policy, KnowsTargets) else [[] for _ in asking]
            for player, response, boxes in zip(asking, responses, targets, strict=True):
                player.play(response, boxes)
        for player in [player for player in running if player.ended]:
            running.remove(player)
            idle.append(player.session)
            finished[player.number] = player.finish()
    return [finished[number] for number in range(len(tasks))]


class _Player:
    """One session playing one task."""

    def __init__(
        self, number: int, session: Session, task: TaskContract, policy: Policy, max_steps: int | None
    ) -> None:
        self.number = number
        self.session = session
        self.episode = Episode(f"{task.id}/{policy.name}", task, policy.name)
        self.ended = False
        self._budget = task.step_budget if max_steps is None else max_steps
        self._initial: dict[str, Any] | None = None
        self._history: tuple[str, ...] = ()

    def look(self) -> bool:
        """Prepare the next observation; False when the episode is over."""
        if self._budget == 0:
            self.ended = True
            return False
        try:
            if self._initial is None:
                self.session.reset(self.episode.task)
                self._initial = self.session.state()
            self._before = self.session.digest()
            shot = self.session.observe()
            self._shot = shot
            self.observation = Observation(
                screenshot=shot.png,
                width=shot.width,
                height=shot.height,
                platform=self.session.platform,
                instruction=self.episode.task.instruction,
                history=self._history,
                note=self.session.note(),
                earlier=tuple(step.screenshot.png for step in self.episode.steps),
            )
        except InfrastructureError:
            self._broke()
            return False
        return True

    def play(self, text: str | InfrastructureError, boxes: Sequence[Box]) -> None:
        """Carry out one response and record the step; the episode is over where there is none."""
        if isinstance(text, InfrastructureError):
            self._broke()
            return
        error = ""
        try:
            response = parse_response(text, self.session.platform)
        except ActionError as problem:
            response, error = Response("", ()), str(problem)
        try:
            for action in response.actions:
                self.session.act(action)
                if action.name in ENDING:
                    self.ended = True
                    break
        except ActionError as problem:
            error = str(problem)
        except InfrastructureError:
            self._broke()
            return
        try:
            after = self.session.digest()
            self.ended = self.ended or self.session.over
        except InfrastructureError:
            self._broke()
            return
        self.episode.claimed = self.episode.claimed or any(action.name == "Finished" for action in response.actions)
        self.episode.steps.append(
            Step(
                index=len(self.episode.steps),
                screenshot=self._shot,
                history=self._history,
                think=response.think,
                response=text,
                actions=response.actions,
                boxes=tuple(boxes),
                state_before=self._before,
                state_after=after,
                error=error,
            )
        )
        self._history = (*self._history, text)
        self.ended = self.ended or len(self.episode.steps) >= self._budget

    def finish(self) -> Episode:
        """Check the outcome and keep the last screenshot."""
        if self.episode.outcome != "infrastructure" and self._initial is not None:
            try:
                self.episode.final_state = self.session.state()
                self.episode.final_screenshot = self.session.observe()
            except InfrastructureError:
                self._broke()
                return self.episode
            outcome = check(self.episode.task, self._initial, self.episode.final_state)
            self.episode.outcome = "success" if outcome.success else "failure"
            self.episode.side_effects = outcome.side_effects
        return self.episode

    def _broke(self) -> None:
        self.episode.outcome = "infrastructure"
        self.ended = True
