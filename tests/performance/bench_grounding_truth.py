"""2,000 grounding targets proven by acting: a click in the box reaches the target, one beside it does not."""

from __future__ import annotations

from collections.abc import Iterator

from assets.synthetic_samples.capture import interface_page
from assets.synthetic_samples.interface_samples import choose_queries
from tests.performance.__main__ import Comparison
from tests.synthetic_samples.acting import act
from tests.synthetic_samples.full_scale import full_parameters, shown
from tests.synthetic_samples.searching import search

TARGETS = 2000
SEED = "truth"


def truth() -> Iterator[Comparison]:
    """Targets of all sizes of screens and both splits, of the 9b profile."""
    true, unique, acted, screens = 0, 0, 0, 0
    wrong: dict[str, list[str]] = {"acting": [], "names": []}
    with interface_page() as page:
        for screen in shown(page, full_parameters(), SEED):
            chosen = choose_queries(screen.capture, 24, screen.rng)
            where = f"screen {screens}, {screen.interface.description.words()}"
            for (target, query), found in zip(chosen, search(page, [query for _, query in chosen]), strict=True):
                unique += found == [target.index]
                if found != [target.index]:
                    wrong["names"].append(f"{where}: {query.to_json()} means {found}, not {target}")
            for clicked in act(page, screen.capture.nodes, tuple(target for target, _ in chosen)):
                true += clicked.true
                acted += 1
                if not clicked.true:
                    wrong["acting"].append(f"{where}: {clicked}")
            screens += 1
            if acted >= TARGETS:
                break
    for line in (*wrong["acting"], *wrong["names"]):
        print(line, flush=True)
    yield Comparison(
        "grounding_truth_by_acting", f"{acted} targets on {screens} screens, clicked at 5 points inside and 4 outside",
        "no exception", lambda: true / acted, 1.0, runs=1, unit="share", note="; ".join(wrong["acting"]),
    )  # fmt: skip
    yield Comparison(
        "grounding_unique_names", f"{acted} instructions whose query a search of the page finds once", "no exception",
        lambda: unique / acted, 1.0, runs=1, unit="share", note="; ".join(wrong["names"]),
    )  # fmt: skip


BENCHMARKS = {"grounding_truth": truth}
