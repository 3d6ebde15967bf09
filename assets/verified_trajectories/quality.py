"""How good the verifier is, held against what really happened: the vote and each judge, by platform and by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from assets.stage import StageParameters
from assets.statistics import wilson

if TYPE_CHECKING:
    import pyarrow as pa

VOTE = "the vote"
ALL = "held-out apps"


class Bars(StageParameters):
    """What the vote must reach on held-out apps.

    Attributes:
        precision: share of the accepted episodes that really succeeded.
        recall: share of the successes that are accepted.
        caught: share of the bad trajectories of each kind that are not accepted.
        better_than_judges: whether its F1 must be at least that of its best judge, over real and mutated episodes.
    """

    precision: float = Field(ge=0, le=1)
    recall: float = Field(ge=0, le=1)
    caught: float = Field(ge=0, le=1)
    better_than_judges: bool


@dataclass(frozen=True)
class Judged:
    """An episode that was played: what really came of it, and what was said of it."""

    platform: str
    policy: str
    succeeded: bool
    accepted: bool
    votes: Mapping[str, bool]


@dataclass(frozen=True)
class Caught:
    """A bad trajectory that was made from a good one: what was said of it."""

    mutation: str
    accepted: bool
    votes: Mapping[str, bool]


@dataclass(frozen=True)
class Quality:
    """One figure with its 95 % interval (Wilson) and the bar that it must reach; 0 where there is none.

    Attributes:
        subject: whose figure it is: the vote's or a judge's.
        about: on what: held-out apps, one platform, or one kind of mistake.
        measure: `precision`, `recall`, `caught` or `f1` (which has no interval).
        n: how many cases.
    """

    subject: str
    about: str
    measure: str
    value: float
    low: float
    high: float
    n: int
    bar: float


Accepts = Callable[[Judged | Caught], bool]


def quality_rows(
    played: Sequence[Judged], mutated: Sequence[Caught], judges: Sequence[str], bars: Bars
) -> list[Quality]:
    """All figures. Mistakes that were played are those of policies other than the oracle, where they did harm."""
    rows: list[Quality] = []
    for subject in (VOTE, *judges):
        accepts = _accepts(subject)
        own = bars if subject == VOTE else _NO_BARS
        rows += _precision_and_recall(subject, ALL, played, accepts, own)
        for platform in sorted({judged.platform for judged in played}):
            mine = [judged for judged in played if judged.platform == platform]
            rows += _precision_and_recall(subject, platform, mine, accepts, _NO_BARS)
        for mistake, cases in _mistakes(played, mutated):
            rows.append(_share(subject, mistake, "caught", [not accepts(case) for case in cases], own.caught))
    rows += _f1_rows(played, mutated, judges, bars)
    return rows


def headline(quality: Sequence[Quality]) -> dict[str, float]:
    """The vote's figures by the names that they have among the metrics."""
    figures: dict[str, float] = {}
    for row in quality:
        if row.subject == VOTE and row.about == ALL and row.measure in ("precision", "recall"):
            figures |= {row.measure: row.value, f"{row.measure}_low": row.low, f"{row.measure}_high": row.high}
        if row.measure == "f1":
            name = "f1" if row.subject == VOTE else "f1_of_best_judge"
            figures[name] = max(row.value, figures.get(name, 0.0))
    caught = [row.value for row in quality if row.subject == VOTE and row.measure == "caught"]
    return {**figures, **({"least_caught": min(caught)} if caught else {})}


Table = tuple[str, tuple[str, ...], list[tuple[object, ...]]]


def quality_tables(quality: Sequence[Quality]) -> Iterator[Table]:
    """(name, header, rows) of the tables that people look at."""
    subjects = list(dict.fromkeys(row.subject for row in quality))
    found = {(row.subject, row.about, row.measure): row for row in quality}
    table: list[tuple[object, ...]] = []
    for about in dict.fromkeys(row.about for row in quality if row.measure in ("precision", "recall")):
        for subject in subjects if about == ALL else [VOTE]:
            cells: list[object] = []
            for measure in ("precision", "recall"):
                row = found.get((subject, about, measure))
                cells += ["", "", ""] if row is None else [row.n, row.value, f"{row.low:.3f}–{row.high:.3f}"]
            table.append((subject if about == ALL else f"{subject}, {about}", *cells))
    yield "quality", ("held-out apps", "accepted", "precision", "95 %", "successes", "recall", "95 %"), table
    mistakes = list(dict.fromkeys(row.about for row in quality if row.measure == "caught"))
    rows: list[tuple[object, ...]] = []
    for mistake in mistakes:
        vote = found[(VOTE, mistake, "caught")]
        shares = [found[(subject, mistake, "caught")].value for subject in subjects if subject != VOTE]
        rows.append((mistake, vote.n, vote.value, f"{vote.low:.3f}–{vote.high:.3f}", *shares))
    judges = [subject for subject in subjects if subject != VOTE]
    yield "mutations", ("bad trajectories", "n", "caught by the vote", "95 %", *judges), rows
    f1 = [(row.subject, row.n, row.value) for row in quality if row.measure == "f1"]
    yield "vote_and_judges", ("judge", "real and bad trajectories", "F1"), list(f1)


def quality_schema() -> pa.Schema:
    """Arrow schema of the quality table."""
    import pyarrow as pa

    return pa.schema(
        [
            *((name, pa.string()) for name in ("subject", "about", "measure")),
            *((name, pa.float64()) for name in ("value", "low", "high")),
            ("n", pa.int32()),
            ("bar", pa.float64()),
        ]
    )


# --- parts -----------------------------------------------------------------------------------------------------------

_NO_BARS = Bars(precision=0.0, recall=0.0, caught=0.0, better_than_judges=False)


def _accepts(subject: str) -> Accepts:
    if subject == VOTE:
        return lambda case: case.accepted
    return lambda case: case.votes.get(subject, False)


def _precision_and_recall(
    subject: str, about: str, played: Sequence[Judged], accepts: Accepts, bars: Bars
) -> Iterator[Quality]:
    accepted = [judged.succeeded for judged in played if accepts(judged)]
    if accepted:
        yield _share(subject, about, "precision", accepted, bars.precision)
    succeeded = [accepts(judged) for judged in played if judged.succeeded]
    if succeeded:
        yield _share(subject, about, "recall", succeeded, bars.recall)


def _mistakes(played: Sequence[Judged], mutated: Sequence[Caught]) -> Iterator[tuple[str, list[Judged | Caught]]]:
    """(name, cases) of each kind of mistake, played and made."""
    cases: dict[str, list[Judged | Caught]] = {}
    for judged in played:
        if judged.policy not in ("oracle", "mistaken") and not judged.succeeded:
            cases.setdefault(f"played: {judged.policy}", []).append(judged)
    for case in mutated:
        cases.setdefault(f"made: {case.mutation}", []).append(case)
    yield from sorted(cases.items())


def _share(subject: str, about: str, measure: str, right: Sequence[bool], bar: float) -> Quality:
    interval = wilson(sum(right), len(right))
    value = sum(right) / len(right)
    return Quality(subject, about, measure, value, interval.low, interval.high, len(right), bar)


def _f1_rows(
    played: Sequence[Judged], mutated: Sequence[Caught], judges: Sequence[str], bars: Bars
) -> Iterator[Quality]:
    """Harmonic mean of precision and recall over all that was played and made."""
    cases = [(judged, judged.succeeded) for judged in played] + [(case, False) for case in mutated]

    def f1(subject: str) -> float:
        accepts = _accepts(subject)
        hits = sum(truth and accepts(case) for case, truth in cases)
        wrong = sum(truth != accepts(case) for case, truth in cases)
        return 2 * hits / (2 * hits + wrong) if hits else 0.0

    best = max(map(f1, judges), default=0.0)
    bar = best if bars.better_than_judges else 0.0
    for subject in (VOTE, *judges):
        value = f1(subject)
        yield Quality(subject, "all", "f1", value, value, value, len(cases), bar if subject == VOTE else 0.0)
