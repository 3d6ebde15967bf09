"""What a judge may know of an episode, and the course of events that a judge makes of it.

A judge never sees the programmatic outcome, the state, the boxes or whether the agent claimed success: `blind` leaves
them out before anything else happens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from assets.agent.actions import Action, action_from_row
from assets.generated_tasks.templates import IT, parse
from assets.verified_trajectories.reading import Picture, decode

StepVerdict = Literal["correct", "exploratory", "ineffective", "incorrect"]


@dataclass(frozen=True)
class SeenStep:
    """One turn, as a judge sees it: the screen before the action, the thought, the actions."""

    picture: Picture
    think: str
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class SeenEpisode:
    """An episode, as a judge sees it."""

    platform: str
    instruction: str
    keypoints: tuple[str, ...]
    steps: tuple[SeenStep, ...]
    final: Picture | None
    app: str = ""

    def after(self, index: int) -> Picture | None:
        """The screen after a step."""
        return self.steps[index + 1].picture if index + 1 < len(self.steps) else self.final


def blind(episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> SeenEpisode:
    """Rows of the two tables without anything that a judge must not know."""
    final = episode["final_screenshot"]
    return SeenEpisode(
        platform=episode["platform"],
        instruction=episode["instruction"],
        keypoints=tuple(episode["keypoints"]),
        steps=tuple(
            SeenStep(
                decode(step["screenshot"]["bytes"]),
                step["think"],
                tuple(action_from_row(action) for action in step["actions"]),
            )
            for step in steps
        ),
        final=None if final is None else decode(final["bytes"]),
        app=episode["app"],
    )


# --- what the task demands -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Demand:
    """One thing that must be seen to happen: a `click` on a word, a `type` of it, or an `answer`.

    What is typed after it was read off the screen has no word: any text will do, as for an answer. A click without a
    word is one into a field, where nothing is written yet; a field that has the focus already needs none.
    """

    act: Literal["click", "type", "answer"]
    word: str


FIELD = Demand("click", "")
"""A click into a field, before something is typed there."""


def demands(episode: SeenEpisode) -> list[Demand]:
    """The completion keypoints of a task, in order, from its words; empty if they name nothing to look for."""
    if '"' in episode.instruction or episode.instruction.endswith("."):
        return _demands_of_sentence(episode.instruction)
    found: list[Demand] = []
    clauses = parse(episode.instruction)
    for clause in clauses:
        if clause.verb == "type":
            found += [Demand("click", place) for place in clause.words[1:]]
            found.append(Demand("type", "" if clause.words[0] in IT.values() else clause.words[0]))
        elif clause.verb == "read" and clause is not clauses[-1]:
            continue  # what is read on the way shows in what is typed
        elif clause.verb == "read":
            found.append(Demand("answer", clause.words[0]))
        else:
            found.append(Demand("click", clause.words[0]))
    return found


def _demands_of_sentence(sentence: str) -> list[Demand]:
    """Other people's words: what they put in quotes, and what they name after a verb, is what is named on the screen.

    A sentence demands nothing that asks for something that it does not name, such as a sum, a colour or the second
    field: who looks for the rest of it alone would take half of the task for all of it. Nor does one that asks for
    letters of another case than it shows, since case does not count here.
    """
    found: list[Demand] = []
    typing = nameless = False
    for match in _NAMED.finditer(sentence):
        verb = match["types"] or match["clicks"]
        named = [*(match["list"] or "").split(", "), match["name"], match["last"], match["quoted"]]
        words = [word for word in named if word and word != "nothing"]
        if verb and nameless:
            return []
        if verb:
            typing = bool(match["types"])
        nameless = not words
        for word in words:
            if typing:
                found += [FIELD, Demand("type", word)]
            else:
                found.append(Demand("click", word))
    return [] if nameless or _OTHER_CASE.search(sentence) else found


_OTHER_CASE = re.compile(r"\b(?:lower|upper) case\b", re.IGNORECASE)
_NAMED = re.compile(
    r'"(?P<quoted>[^"]+)"'
    r"|(?P<types>\b(?:enter|type)\b|输入)"
    r"|(?P<clicks>\b(?:click|press|tap|select|choose|expand|focus|solve)\b)"
    r"(?:(?<=select) (?P<list>\w+(?:, \w+)*)(?= and (?:click|press)\b)"
    r"| (?:on |the |button )*(?P<name>(?-i:[A-Z])\w*(?: #\d+)?)(?=[ ,.])"
    r"| (?P<last>\w+)\.$)?",
    re.IGNORECASE,
)
"""What a sentence names: in quotes; after a verb with a capital, as its last word, or in a list to select from."""


# --- what happened ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """What a step did, as one judge perceives it.

    `act` is click, type, answer, back, end, wait, look (scrolling, hovering) or nothing; `word` what was clicked or
    typed, empty if the judge can't tell. `returns` holds the steps before which the screen was what it is after this
    one, where that was looked at.
    """

    act: str
    word: str
    confidence: float = 1.0
    returns: frozenset[int] | None = None


def with_returns(episode: SeenEpisode, events: Sequence[Event]) -> list[Event]:
    """The events, those that go back with the steps before which the screen was the same to the pixel."""
    looked = []
    for number, event in enumerate(events):
        after = episode.after(number)
        if event.act == "back" and after is not None:
            earlier = (place for place in range(number) if same_screen(episode.steps[place].picture, after))
            event = replace(event, returns=frozenset(earlier))
        looked.append(event)
    return looked


def same_screen(one: Picture, other: Picture) -> bool:
    """Whether two screens are the same to the pixel."""
    return one.shape == other.shape and bool((one == other).all())


SAVE_KEYS = (("ctrl", "s"), ("control", "s"))
SAVE_WORDS = ("Save", "保存")
_ACTS = {
    **dict.fromkeys(("Click", "DoubleClick", "LongPress", "RightClick"), "click"),
    **dict.fromkeys(("Scroll", "Swipe", "Hover", "Drag", "GetUrl", "TakeNote", "GetScreenshot"), "look"),
    **dict.fromkeys(("PressBack", "PressHome"), "back"),
    **{"Type": "type", "Answer": "answer", "Finished": "end", "CallUser": "call", "Wait": "wait"},
}


def act_of(step: SeenStep) -> str:
    """The kind of a step by its first action; `nothing` for a response that was not understood."""
    return _ACTS.get(step.actions[0].name, "other") if step.actions else "nothing"


@dataclass(frozen=True)
class Course:
    """Events held against demands.

    Attributes:
        verdicts: of each step, against the task.
        met: the step that met each demand, in order; those after the last are not met.
        astray: what was done besides and not undone.
    """

    verdicts: tuple[StepVerdict, ...]
    met: tuple[int, ...]
    astray: tuple[str, ...]
    complete: bool


def follow_events(wanted: Sequence[Demand], events: Sequence[Event]) -> Course:
    """Walk through the events: each meets the next demand, undoes the last error, or is an error itself."""
    met: list[int] = []
    astray: list[tuple[int, str]] = []
    verdicts: list[StepVerdict] = []
    for number, event in enumerate(events):
        next_demand = wanted[len(met)] if len(met) < len(wanted) else None
        after_next = wanted[len(met) + 1] if len(met) + 1 < len(wanted) else None
        if next_demand is not None and meets(event, next_demand):
            met.append(number)
            verdicts.append("correct")
        elif next_demand == FIELD and after_next is not None and meets(event, after_next):
            met += [number, number]
            verdicts.append("correct")
        elif event.act == "end":
            verdicts.append("correct" if len(met) == len(wanted) and not astray and wanted else "incorrect")
        elif astray and _undoes(event, *astray[-1]):
            astray.pop()
            verdicts.append("correct")
        elif event.act in ("wait", "nothing"):
            verdicts.append("ineffective")
        elif event.act == "look" or (event.act == "back" and next_demand is not None):
            verdicts.append("exploratory")
        else:
            astray.append((number, event.word or event.act))
            verdicts.append("incorrect" if event.word else "ineffective")
    complete = bool(wanted) and len(met) == len(wanted) and not astray
    return Course(tuple(verdicts), tuple(met), tuple(word for _, word in astray), complete)


def _undoes(event: Event, step: int, word: str) -> bool:
    """Whether an event undoes an error: the same thing clicked again, or a way back to the screen before it.

    Going back undoes what opened a screen, not what was done on it.
    """
    if event.act == "back":
        return event.returns is None or step in event.returns
    return event.act == "click" and same_word(event.word, word)


def meets(event: Event, demand: Demand) -> bool:
    """Whether an event is what is demanded."""
    if demand.act == "answer":
        return event.act in ("answer", "end") and bool(event.word)
    if demand == FIELD:
        return event.act == "click" and not event.word
    if not demand.word:
        return event.act == demand.act and bool(event.word)
    return event.act == demand.act and same_word(event.word, demand.word)


def same_word(one: str, other: str) -> bool:
    """Whether two readings are one word: case, spaces and punctuation don't count."""
    return bool(one) and folded(one) == folded(other)


def folded(word: str) -> str:
    """A word without case, spaces and punctuation."""
    return "".join(character for character in word.casefold() if character.isalnum())
