"""The verifier's figures against counts made by hand."""

from __future__ import annotations

import pytest

from assets.verified_trajectories.quality import Bars, Caught, Judged, Quality, headline, quality_rows, quality_tables

BARS = Bars(precision=0.98, recall=0.9, caught=0.9, better_than_judges=True)


def judged(policy: str, succeeded: bool, accepted: bool, judge: bool) -> Judged:
    return Judged("web", policy, succeeded, accepted, {"a": judge})


PLAYED = [
    *[judged("oracle", True, True, True)] * 8,
    *[judged("oracle", True, False, True)] * 2,
    judged("misclick", False, False, True),
    judged("misclick", False, True, True),
    judged("misclick", True, True, True),
]
MADE = [Caught("frozen", False, {"a": False}), Caught("frozen", False, {"a": True})]


def rows() -> dict[tuple[str, str, str], Quality]:
    return {(row.subject, row.about, row.measure): row for row in quality_rows(PLAYED, MADE, ["a"], BARS)}


def test_figures_are_the_counts() -> None:
    found = rows()
    assert (found["the vote", "held-out apps", "precision"].value, found["the vote", "web", "recall"].n) == (0.9, 11)
    assert found["the vote", "held-out apps", "recall"].value == pytest.approx(9 / 11)
    assert found["the vote", "played: misclick", "caught"].value == 0.5
    assert found["the vote", "made: frozen", "caught"].value == 1.0
    assert found["a", "made: frozen", "caught"].value == 0.5
    assert found["the vote", "all", "f1"].value == pytest.approx(2 * 9 / (2 * 9 + 3))
    assert found["a", "all", "f1"].value == pytest.approx(2 * 11 / (2 * 11 + 3))
    assert all(row.low <= row.value <= row.high for row in found.values())


def test_only_the_vote_has_bars_and_the_best_judge_is_one() -> None:
    found = rows()
    below = {key for key, row in found.items() if row.value < row.bar}
    assert below == {
        ("the vote", "held-out apps", "precision"),
        ("the vote", "held-out apps", "recall"),
        ("the vote", "played: misclick", "caught"),
        ("the vote", "all", "f1"),
    }
    lenient = BARS.model_copy(update={"better_than_judges": False})
    assert {row.bar for row in quality_rows(PLAYED, MADE, ["a"], lenient) if row.measure == "f1"} == {0.0}


def test_the_headline_and_the_tables_say_the_same() -> None:
    quality = quality_rows(PLAYED, MADE, ["a"], BARS)
    figures = headline(quality)
    assert figures["precision"] == 0.9
    assert figures["least_caught"] == 0.5
    assert figures["f1_of_best_judge"] > figures["f1"]
    tables = {name: table for name, _, table in quality_tables(quality)}
    assert [row[0] for row in tables["mutations"]] == ["made: frozen", "played: misclick"]
    assert tables["quality"][0][:3] == ("the vote", 10, 0.9)


def test_without_successes_or_mistakes_there_is_nothing_to_say_of_them() -> None:
    quality = quality_rows([judged("oracle", True, False, False)], [], ["a"], BARS)
    assert {row.measure for row in quality} == {"recall", "f1"}
