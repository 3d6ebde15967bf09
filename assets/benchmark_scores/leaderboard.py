"""The published figures of UI-Venus-2 and its competitors, to stand beside ours: other benchmarks, full-size models.

`published/ui_venus_2_tables.csv` holds tables 1 to 6 of the UI-Venus-2 technical report (arXiv:2609.00028) as facts:
table, domain, benchmark, metric, model, value in percent, and whether its authors reproduced the figure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from assets.benchmark_scores.scores import Score, reading_order

PUBLISHED = Path(__file__).parent / "published" / "ui_venus_2_tables.csv"
FULL_SIZE = ("UI-Venus-2-9B", "UI-Venus-2-27B")
COLUMNS = ("domain", "benchmark", "metric", "this run", *FULL_SIZE, "best other")


@dataclass(frozen=True)
class Published:
    """One published figure, in percent."""

    domain: str
    benchmark: str
    metric: str
    higher_is_better: bool
    model: str
    value: float


def read_published(path: Path = PUBLISHED) -> list[Published]:
    """All published figures, in the report's order."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            Published(
                row["domain"],
                row["benchmark"],
                row["metric"],
                row["higher_is_better"] == "True",
                row["model"],
                float(row["value"]),
            )
            for row in csv.DictReader(stream)
        ]


def leaderboard(scores: Iterable[Score], figures: Iterable[Published]) -> list[tuple[str, ...]]:
    """Rows for COLUMNS: what this run measured on its own held-out suites, then the published figures, by domain.

    The two never share a row: they are different benchmarks and models of different size.
    """
    ours = [
        (
            score.domain,
            f"{score.suite.replace('_', ' ')} (this project's, held out)",
            score.metric,
            f"{100 * score.result.value:.1f} [{100 * score.result.low:.1f}, {100 * score.result.high:.1f}]",
            *("" for _ in FULL_SIZE),
            "",
        )
        for score in scores
        if score.result.n
    ]
    published: dict[tuple[str, str, str], list[Published]] = {}
    for figure in figures:
        published.setdefault((figure.domain, figure.benchmark, figure.metric), []).append(figure)
    theirs = [
        (
            key[0],
            f"{key[1]} (published; full-size models)",
            key[2],
            "",
            *(_value(members, model) for model in FULL_SIZE),
            _best_other(members),
        )
        for key, members in published.items()
    ]
    return sorted([*ours, *theirs], key=lambda row: (reading_order(row[0], "")[0], row[3] == ""))


def _value(figures: Iterable[Published], model: str) -> str:
    return ", ".join(f"{figure.value:.1f}" for figure in figures if figure.model == model)


def _best_other(figures: Iterable[Published]) -> str:
    others = [figure for figure in figures if figure.model not in FULL_SIZE]
    if not others:
        return ""
    best = max(others, key=lambda figure: figure.value if figure.higher_is_better else -figure.value)
    return f"{best.value:.1f} ({best.model})"
