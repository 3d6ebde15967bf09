"""Judges that see different things of an episode and so fail differently.

- `ocr` and `template` read what is written where the agent clicked, each in its own way;
- `thought` believes what the agent says it clicks, as far as the action fits the words;
- `change` reads nothing: it counts the actions after which the screen was another.

Each says whether the task was completed. One that fails or runs out of time has voted against.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assets.agent.actions import to_pixel
from assets.verified_trajectories.evidence import (
    FIELD,
    SAVE_KEYS,
    SAVE_WORDS,
    Course,
    Demand,
    Event,
    SeenEpisode,
    SeenStep,
    StepVerdict,
    act_of,
    demands,
    follow_events,
    meets,
    same_word,
    with_returns,
)
from assets.verified_trajectories.reading import Picture, Reader, lines_of, read_at, shows


@dataclass(frozen=True)
class Vote:
    """What one judge says of an episode."""

    judge: str
    vote: bool
    confidence: float
    reason: str


@dataclass(frozen=True)
class Thresholds:
    """When something counts.

    Attributes:
        sure: confidence of a reading.
        changed: share of the pixels that differ where a screen changed.
        moved: share of the pixels that differ where it is another screen.
        seconds: that a judge may take for one episode.
    """

    sure: float
    changed: float
    moved: float
    seconds: float


Judge = Callable[[SeenEpisode], Vote]


class ReadingJudge:
    """Reads the control under every click and holds what was clicked and typed against the task."""

    def __init__(self, reader: Reader, thresholds: Thresholds) -> None:
        self.name = reader.name
        self._reader = reader
        self._sure = thresholds.sure

    def __call__(self, episode: SeenEpisode) -> Vote:
        wanted, events = demands(episode), self.events(episode)
        course = follow_events(wanted, events)
        read = [event.confidence for event in events if event.act == "click"]
        return Vote(self.name, course.complete, min(read, default=1.0), _reason(wanted, course))

    def events(self, episode: SeenEpisode) -> list[Event]:
        """What happened, as this judge reads it."""
        return with_returns(episode, [self._event(episode, number) for number in range(len(episode.steps))])

    def _event(self, episode: SeenEpisode, number: int) -> Event:
        step = episode.steps[number]
        act = act_of(step)
        if act != "click":
            return self._other(episode, number, act)
        action = step.actions[0]
        if action.point is None or action.point[0] < 0:
            return Event("nothing", "")
        height, width = step.picture.shape[:2]
        x, y = to_pixel(action.point, width, height)
        reading = read_at(self._reader, step.picture, x, y, self._sure)
        word = reading.text if reading.confidence >= self._sure else ""
        if not word and FIELD in demands(episode) and not _typed_at(episode, number + 1, y):
            word = ELSEWHERE
        return Event("click", word, reading.confidence)

    def _other(self, episode: SeenEpisode, number: int, act: str) -> Event:
        step = episode.steps[number]
        event = wordless(step, act)
        if event.act == "type" and event.word not in episode.instruction:
            # What the task does not say must have been read somewhere.
            seen = any(shows(earlier.picture, event.word, self._sure) for earlier in episode.steps[:number])
            return event if seen else Event("type", "", event.confidence)
        if event.act in ("answer", "end") and event.word and not self._on_screen(step.picture, event.word):
            return Event("end", "", event.confidence)  # the answer is nowhere to be read
        return event

    def _on_screen(self, picture: Picture, word: str) -> bool:
        if self.name == "template":
            return shows(picture, word, self._sure)
        return any(same_word(reading.text, word) for reading in self._reader.read(lines_of(picture)))


ELSEWHERE = "elsewhere"
"""What a click hit after which the typed text came to stand in another place."""


def _typed_at(episode: SeenEpisode, number: int, y: float) -> bool:
    """Whether a step typed something that came to stand at this height of the screen, in pixels."""
    if number >= len(episode.steps) or act_of(episode.steps[number]) != "type":
        return False
    before, after = episode.steps[number].picture, episode.after(number)
    if after is None or before.shape != after.shape:
        return False
    rows = (before != after).any(axis=(1, 2)).nonzero()[0]
    return rows.size > 0 and bool(rows.min() - LINE <= y <= rows.max() + LINE)


LINE = 8
"""Half the height of a line of text, in pixels."""


class ThoughtJudge:
    """Takes the agent's word for what it clicks; an agent that thinks nothing convinces it of nothing."""

    name = "thought"

    def __call__(self, episode: SeenEpisode) -> Vote:
        wanted = demands(episode)
        course = follow_events(wanted, self.events(episode))
        return Vote(self.name, course.complete, 1.0, _reason(wanted, course))

    def events(self, episode: SeenEpisode) -> list[Event]:
        """What happened, as the agent has it."""
        return with_returns(episode, [self._event(step) for step in episode.steps])

    def _event(self, step: SeenStep) -> Event:
        act = act_of(step)
        return Event("click", step.think) if act == "click" else wordless(step, act)


class ChangeJudge:
    """Counts the actions that changed the screen: a task needs one for each demand, the last of them included."""

    name = "change"

    def __init__(self, thresholds: Thresholds) -> None:
        self._least = thresholds.changed

    def __call__(self, episode: SeenEpisode) -> Vote:
        wanted = [demand for demand in demands(episode) if demand.act != "answer"]
        acting = [i for i, step in enumerate(episode.steps) if act_of(step) in ("click", "type", "back")]
        changes = [
            index for index in acting if changed(episode.steps[index].picture, episode.after(index), self._least)
        ]
        enough = len(changes) >= len(wanted)
        vote = enough and (not acting or acting[-1] in changes) and bool(demands(episode))
        return Vote(self.name, vote, 1.0, f"{len(changes)} of {len(acting)} actions changed the screen")


def wordless(step: SeenStep, act: str) -> Event:
    """An event that is known from the action alone."""
    if act == "nothing":
        return Event("nothing", "")
    action = step.actions[0]
    if action.name == "Hotkey" and action.keys in SAVE_KEYS:
        return Event("click", next((word for word in SAVE_WORDS if same_word(word, step.think)), SAVE_WORDS[0]))
    if act in ("type", "answer", "end"):
        return Event(act, action.content or "")
    return Event(act, "")


def changed(before: Picture, after: Picture | None, least: float) -> bool:
    """Whether two screens differ in at least this share of their pixels (another size differs altogether)."""
    if after is None:
        return False
    if before.shape != after.shape:
        return True
    return float((before != after).any(axis=2).mean()) >= least


def judge_all(judges: Sequence[Any], episode: SeenEpisode, seconds: float) -> list[Vote]:
    """The votes of all judges. One that raises, or takes longer than `seconds`, has voted against."""
    votes = []
    for judge in judges:
        begun = time.monotonic()
        try:
            vote = judge(episode)
        except Exception as error:
            votes.append(Vote(judge.name, False, 1.0, f"no answer: {type(error).__name__}"))
            continue
        if time.monotonic() - begun > seconds:
            vote = Vote(judge.name, False, 1.0, "no answer in time")
        votes.append(vote)
    return votes


# --- single steps ----------------------------------------------------------------------------------------------------


def judge_steps(episode: SeenEpisode, readers: Sequence[ReadingJudge], sure: float) -> list[StepVerdict]:
    """The four labels, each before its action runs: from the screens so far, the thoughts, the actions and the task.

    First: does the action do what the thought says? Then: does it serve the task? A click counts as what two of the
    readers and the thought agree on; without two of one mind it counts as unread.
    """
    wanted = demands(episode)
    readings = zip(*(reader.events(episode) for reader in readers), strict=True)
    events = [_agreed(step.think, events) for step, events in zip(episode.steps, readings, strict=True)]
    course = follow_events(wanted, events)
    verdicts: list[StepVerdict] = []
    met = 0
    for step, event, verdict in zip(episode.steps, events, course.verdicts, strict=True):
        contradicts = event.act == "click" and bool(step.think) and not same_word(step.think, event.word)
        if verdict == "correct" and contradicts:
            verdicts.append("incorrect")
        elif verdict == "incorrect" and event.act == "click" and not contradicts:
            missing = wanted[met].word if met < len(wanted) else ""
            searching = bool(missing) and not shows(step.picture, missing, sure)
            verdicts.append("exploratory" if searching else "incorrect")
        else:
            verdicts.append(verdict)
        met += verdict == "correct" and met < len(wanted) and meets(event, wanted[met])
    return verdicts


def _agreed(think: str, events: Sequence[Event]) -> Event:
    """One event from several readings of it: what two agree on, the thought being one of those that may agree."""
    read = [event for event in events if event.word]
    for event in read:
        if same_word(event.word, think) or sum(same_word(event.word, other.word) for other in read) > 1:
            return event
    return Event(events[0].act, "", 0.0)


def _reason(wanted: Sequence[Demand], course: Course) -> str:
    if not wanted:
        return "the task names nothing to look for"
    text = f"{len(course.met)} of {len(wanted)} keypoints"
    return f"{text}; besides: {', '.join(course.astray)}" if course.astray else text
