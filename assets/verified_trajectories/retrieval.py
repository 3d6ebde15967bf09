"""A judge that reads nothing: it looks up what the app can do, and whether the screens changed as that would.

For each demand of the task it retrieves the capability of the app that is meant. Its signature says what must follow:
`open(...)` brings another screen, `set(...)` and `type(...)` change something on this one. What was done and came to
nothing, because the screen was later the same again, does not count.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assets.verified_trajectories.evidence import Demand, SeenEpisode, act_of, demands, folded, same_screen
from assets.verified_trajectories.judges import Thresholds, Vote
from assets.verified_trajectories.reading import Picture

Effect = Literal["none", "stays", "moves"]
"""What an action did to the screen: nothing, something, or brought another one."""

Expected = Literal["stays", "moves", "any"]
"""What an action should do: bring another screen, change something visible, or whatever it likes."""

Catalogue = Mapping[str, Mapping[str, Expected]]
"""App -> folded name of a thing in it -> what should follow when it is used."""

ALIKE = 0.8
"""Similarity of two names (Ratcliff and Obershelp) from which one is taken for the other."""


def read_catalogue(file: Path) -> Catalogue:
    """What each thing of each app should do, from the table of capabilities.

    What is done with an app as a whole, such as solving a page, names no thing in it. A name that stands for several
    things of an app, with different effects, may do any of them.
    """
    import pyarrow.parquet as pq

    found: dict[str, dict[str, Expected]] = {}
    for row in pq.read_table(file, columns=["app", "signature", "entities", "id", "place"]).to_pylist():
        if not row["entities"] and not row["place"]:
            continue
        expected = _expected(row["signature"])
        names = found.setdefault(row["app"], {})
        for name in {*map(folded, row["entities"]), folded(row["id"].rpartition("/")[2])} - {""}:
            names[name] = expected if names.get(name, expected) == expected else "any"
    return found


def retrieve(names: Mapping[str, Expected], word: str) -> str | None:
    """The name in an app that a word means, or None."""
    wanted = folded(word)
    if wanted in names:
        return wanted
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=ALIKE)
    return close[0] if close else None


@dataclass(frozen=True)
class CatalogueJudge:
    """Holds the effects that the screens show against those that the catalogue promises.

    An app of which the catalogue names nothing is judged by its changes alone. A demand for something that an app does
    not have is not met.
    """

    catalogue: Catalogue
    thresholds: Thresholds
    name: str = "catalogue"

    def __call__(self, episode: SeenEpisode) -> Vote:
        wanted = demands(episode)
        if not wanted:
            return Vote(self.name, False, 1.0, "the task names nothing to look for")
        names = self.catalogue.get(episode.app, {})
        missing = [demand.word for demand in wanted if demand.act == "click" and self._unknown(names, demand.word)]
        if missing:
            return Vote(self.name, False, 1.0, f"the app has no {missing[0]}")
        promised = promised_effects(names, wanted)
        seen = effects(episode, self.thresholds)
        lasting = without_loops(seen)
        due = [effect for effect in promised if effect is not None]
        # A task may lead back to where it began, as when its last window closes: then all that was seen counts. The
        # system's back key leads to where the next thing is done, and no task asks for it.
        asked = [effect for effect in seen if effect.act != "back" or effect is seen[-1]]
        fits = any(_fits(due, [effect.kind for effect in shown]) for shown in (lasting, seen, asked))
        shown = ", ".join(effect.kind for effect in lasting) or "nothing"
        return Vote(self.name, fits, 1.0, f"promised {', '.join(due) or 'nothing'}; lasting {shown}")

    def _unknown(self, names: Mapping[str, Expected], word: str) -> bool:
        return bool(names and word) and retrieve(names, word) is None


def promised_effects(names: Mapping[str, Expected], wanted: Sequence[Demand]) -> list[Expected | None]:
    """What must follow when each demand is met; None where nothing is done to the screen.

    Args:
        names: what the catalogue says of the app; what it does not name may do anything. Where it names nothing at all,
            every click must change something.
    """
    promised: list[Expected | None] = []
    for index, demand in enumerate(wanted):
        if demand.act == "answer":
            promised.append(None)
        elif demand.act == "type":
            promised.append("stays")
        elif index + 1 < len(wanted) and wanted[index + 1].act == "type":
            promised.append("any")  # a field takes the focus, if it has not got it already
        else:
            name = retrieve(names, demand.word)
            promised.append(names[name] if name is not None else "any" if names else "stays")
    return promised


@dataclass(frozen=True)
class Seen:
    """The visible effect of one action, with the kind of action and the screens before and after it."""

    kind: Effect
    act: str
    before: Picture
    after: Picture


def effects(episode: SeenEpisode, thresholds: Thresholds) -> list[Seen]:
    """The actions that changed the screen."""
    found = []
    for index, step in enumerate(episode.steps):
        after = episode.after(index)
        if after is not None and act_of(step) in ("click", "type", "back", "look"):
            kind = effect_between(step.picture, after, thresholds)
            if kind != "none":
                found.append(Seen(kind, act_of(step), step.picture, after))
    return found


def without_loops(seen: Sequence[Seen]) -> list[Seen]:
    """The effects without those that led back to an earlier screen, pixel by pixel."""
    kept: list[Seen] = []
    for effect in seen:
        kept.append(effect)
        returned = next((n for n, earlier in enumerate(kept) if same_screen(earlier.before, effect.after)), None)
        if returned is not None:
            del kept[returned:]
    return kept


def effect_between(before: Picture, after: Picture, thresholds: Thresholds) -> Effect:
    """How much of a screen is another: `[height, width, 3]` each."""
    if before.shape != after.shape:
        return "moves"
    share = float((before != after).any(axis=2).mean())
    return "moves" if share >= thresholds.moved else "stays" if share >= thresholds.changed else "none"


def _fits(promised: Sequence[Expected], shown: Sequence[Effect]) -> bool:
    """Whether the shown effects are those promised, one by one; what may do anything may do nothing."""
    if not promised:
        return not shown
    first, rest = promised[0], promised[1:]
    if first == "any" and _fits(rest, shown):
        return True
    return bool(shown) and (first != "moves" or shown[0] == "moves") and _fits(rest, shown[1:])


def _expected(signature: str) -> Expected:
    verb = signature.partition("(")[0]
    if verb == "open":
        return "moves"
    return "stays" if verb in ("set", "select") else "any"
