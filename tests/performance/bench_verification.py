"""Verification without endpoints: steps judged, beside the same judges without a memory of what they have read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.performance.__main__ import Comparison

EPISODES = 60
COLLECTED, CATALOGUE = Path("data/collected_trajectories"), Path("data/capability_catalog/capabilities.parquet")


def verification() -> Iterator[Comparison]:
    """Episodes of the last run, judged in one process."""
    import pyarrow.parquet as pq

    from assets.verified_trajectories import verified_trajectories as stage
    from assets.verified_trajectories.judges import ReadingJudge, Thresholds
    from assets.verified_trajectories.reading import OcrReader, VocabularyReader
    from assets.verified_trajectories.retrieval import read_catalogue

    if not (COLLECTED / "episodes.parquet").is_file():
        print("verification: no episodes here; `hesper run collected_trajectories` makes some")
        return
    rows = pq.read_table(COLLECTED / "episodes.parquet", columns=["id", "steps"]).to_pylist()
    every = max(1, len(rows) // EPISODES)
    ids = [row["id"] for row in rows[::every] if row["steps"]][:EPISODES]
    episodes = list(stage.load(COLLECTED, ids))
    steps = sum(len(rows) for _, rows in episodes)
    thresholds, catalogue = Thresholds(0.7, 0.0005, 0.1, 20.0), read_catalogue(CATALOGUE)
    last: list[stage.Bench] = []

    def judge(bench: stage.Bench) -> None:
        for row, kept in episodes:
            bench.finding(row, kept)

    def ours() -> None:
        last[:] = [stage.Bench(catalogue, thresholds, ())]
        judge(last[0])

    def forgetful() -> None:
        bench = stage.Bench(catalogue, thresholds, ())
        readers = [ReadingJudge(OcrReader(), thresholds), ReadingJudge(VocabularyReader(), thresholds)]
        bench.judges[: len(readers)] = readers
        bench.reading[:] = readers
        judge(bench)

    ours()
    counts = last[0].counts()
    asked, hits = (sum(count for name, count in counts.items() if name.endswith(what)) for what in (".asked", ".hits"))
    yield Comparison(
        name="verification_step",
        work=f"one of {steps} steps of {len(episodes)} episodes judged by five judges, one process, from cold",
        peer="the same judges reading everything anew",
        ours=ours,
        theirs=forgetful,
        units=(steps, steps),
        runs=3,
        note=f"{hits / max(asked, 1):.0%} of {asked} texts had been read before",
    )


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"verification": verification}
