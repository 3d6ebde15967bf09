"""Stage `verified_trajectories`: cleaned, judged and voted episodes, and how good the verifier is.

The judges see screens, thoughts, actions and keypoints, never the programmatic outcome. The vote weights them by a
reliability that is itself estimated without it, on the training split. The outcome is read once, at the end, to
measure the verifier on held-out apps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pydantic import Field, PositiveInt

from assets.agent.parameters import AgentParameters
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.environments.workers import Sessions, spread
from assets.errors import InputError
from assets.stage import Stage, StageParameters, write_parquet
from assets.statistics import wilson
from assets.verified_trajectories.cleaning import clean
from assets.verified_trajectories.drawing import load_strips
from assets.verified_trajectories.evidence import StepVerdict, act_of, blind
from assets.verified_trajectories.judges import (
    ChangeJudge,
    ReadingJudge,
    ThoughtJudge,
    Thresholds,
    Vote,
    judge_all,
    judge_steps,
)
from assets.verified_trajectories.reading import OcrReader, Remembering, VocabularyReader
from assets.verified_trajectories.voting import Panel, estimate

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image


class Parameters(StageParameters):
    """How strict the verifier is.

    Attributes:
        sure: confidence from which a reading counts.
        changed: share of pixels that differ when a screen counts as changed.
        seconds: what a judge may take for one episode; a slower one has voted against.
        accept: probability of completion from which an episode counts as completed.
        chunk: episodes that are judged in one go.
        processes: processes that judge.
        strips: episodes on the picture.
    """

    sure: float = Field(gt=0, le=1)
    changed: float = Field(ge=0, le=1)
    seconds: float = Field(gt=0)
    accept: float = Field(gt=0, lt=1)
    chunk: PositiveInt
    processes: PositiveInt
    strips: PositiveInt


@dataclass(frozen=True)
class Chunk:
    """Some episodes of one folder."""

    folder: Path
    ids: tuple[str, ...]
    thresholds: Thresholds


@dataclass(frozen=True)
class Finding:
    """What the judges made of one episode.

    Attributes:
        steps: label of each step that was kept.
        effective: whether a step did something that the task asks for.
        gave_up: whether the agent called for the user without having gone wrong before.
    """

    split: str
    votes: tuple[Vote, ...]
    steps: tuple[StepVerdict, ...]
    effective: bool
    gave_up: bool


def run(stage: Stage[Parameters]) -> None:
    """Write `episodes.parquet`, `steps.parquet`, `feedback.json` and the verifier's quality."""
    parameters = stage.parameters
    thresholds = Thresholds(parameters.sure, parameters.changed, parameters.seconds)
    chunks = [
        Chunk(folder, ids, thresholds)
        for folder in [stage.input("data/collected_trajectories"), *_batches(stage.input("data/imported_batches"))]
        for ids in _cut(_playable(folder), parameters.chunk)
    ]
    findings: dict[str, Finding] = {}
    read = Counter[str]()
    size = stage.section("agent", AgentParameters).screen
    results = spread(chunks, judge_chunk, size, parameters.processes)
    for _, (found, counts) in stage.progress(results, "chunks", total=len(chunks)):
        findings.update(found)
        read.update(counts)
    if not findings:
        raise InputError("there is no episode to verify")
    panel = estimate([findings[name].votes for name in sorted(findings) if findings[name].split == "train"])
    verdicts = {name: label(finding, panel, parameters.accept) for name, finding in findings.items()}

    write_parquet(
        stage.output / "episodes.parquet", _episode_rows(chunks, findings, verdicts), verified_episodes_schema()
    )
    write_parquet(stage.output / "steps.parquet", _step_rows(chunks, findings), verified_steps_schema())
    _write_feedback(stage)
    _report(stage, panel, read)


# --- judging ---------------------------------------------------------------------------------------------------------


def judge_chunk(_sessions: Sessions, chunk: Chunk) -> tuple[dict[str, Finding], dict[str, int]]:
    """(findings by episode, how much was read and how much of it was remembered)."""
    readers = _readers()
    before = {f"{r.name}.{what}": getattr(r, what) for r in readers for what in ("asked", "hits")}
    reading = [ReadingJudge(reader, chunk.thresholds) for reader in readers]
    judges: list[Any] = [*reading, ThoughtJudge(), ChangeJudge(chunk.thresholds)]
    findings = {}
    for row, steps in load(chunk.folder, chunk.ids):
        episode = blind(row, clean(row, steps))
        verdicts = judge_steps(episode, reading, chunk.thresholds.sure)
        acts = [act_of(step) for step in episode.steps]
        findings[row["id"]] = Finding(
            split=row["split"],
            votes=tuple(judge_all(judges, episode, chunk.thresholds.seconds)),
            steps=tuple(verdicts),
            effective=any(v == "correct" and act in ("click", "type") for v, act in zip(verdicts, acts, strict=True)),
            gave_up="call" in acts and "incorrect" not in verdicts[: acts.index("call")],
        )
    counts = {
        f"{r.name}.{what}": getattr(r, what) - before[f"{r.name}.{what}"] for r in readers for what in ("asked", "hits")
    }
    return findings, counts


@cache
def _readers() -> tuple[Remembering, ...]:
    """One of each kind a process: they are slow to start and remember what they have read."""
    return (Remembering(OcrReader()), Remembering(VocabularyReader()))


def label(finding: Finding, panel: Panel, accept: float) -> str:
    """`completed`, `partial`, `infeasible` or `failed`. What the agent claims is not asked."""
    if panel.probability(finding.votes) >= accept:
        return "completed"
    if finding.gave_up:
        return "infeasible"
    return "partial" if finding.effective else "failed"


# --- tables ----------------------------------------------------------------------------------------------------------


def verified_episodes_schema() -> pa.Schema:
    """The episodes table with the verdict and the votes."""
    import pyarrow as pa

    fields = [("judge", pa.string()), ("vote", pa.bool_()), ("confidence", pa.float32()), ("reason", pa.string())]
    return pa.schema(
        [*episodes_schema(), pa.field("verdict", pa.string()), pa.field("votes", pa.list_(pa.struct(fields)))]
    )


def verified_steps_schema() -> pa.Schema:
    """The steps table with the verdict of each step."""
    import pyarrow as pa

    return pa.schema([*steps_schema(), pa.field("step_verdict", pa.string())])


def load(folder: Path, ids: Sequence[str]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """(row of the episodes table, rows of the steps table in order) of some episodes of a folder."""
    episodes = pq.read_table(folder / "episodes.parquet", filters=[("id", "in", list(ids))]).to_pylist()
    steps: dict[str, list[dict[str, Any]]] = {}
    for row in pq.read_table(folder / "steps.parquet", filters=[("episode_id", "in", list(ids))]).to_pylist():
        steps.setdefault(row["episode_id"], []).append(row)
    for row in sorted(episodes, key=lambda row: str(row["id"])):
        yield row, sorted(steps.get(row["id"], []), key=lambda step: int(step["index"]))


def _batches(folder: Path) -> list[Path]:
    """Imported batches that hold the two tables, sorted by name.

    Raises:
        InputError: a table has not the columns of ours.
    """
    batches = sorted(path.parent for path in folder.glob("*/episodes.parquet"))
    for batch in batches:
        for name, schema in (("episodes", episodes_schema()), ("steps", steps_schema())):
            missing = sorted(set(schema.names) - set(pq.read_schema(batch / f"{name}.parquet").names))
            if missing:
                raise InputError(f"{batch}/{name}.parquet lacks the columns {', '.join(missing)}")
    return batches


def _playable(folder: Path) -> list[str]:
    """Ids of the episodes that were played: where the environment broke there is nothing to verify."""
    rows = pq.read_table(folder / "episodes.parquet", columns=["id", "steps", "outcome"]).to_pylist()
    return sorted(row["id"] for row in rows if row["steps"] and row["outcome"] != "infrastructure")


def _cut(ids: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    source = iter(ids)
    while part := tuple(islice(source, size)):
        yield part


def _episode_rows(
    chunks: Sequence[Chunk], findings: Mapping[str, Finding], verdicts: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for chunk in chunks:
        for row, _ in load(chunk.folder, chunk.ids):
            finding = findings[row["id"]]
            votes = [asdict(vote) for vote in finding.votes]
            yield {**row, "steps": len(finding.steps), "verdict": verdicts[row["id"]], "votes": votes}


def _step_rows(chunks: Sequence[Chunk], findings: Mapping[str, Finding]) -> Iterator[dict[str, Any]]:
    for chunk in chunks:
        for row, steps in load(chunk.folder, chunk.ids):
            for step, verdict in zip(clean(row, steps), findings[row["id"]].steps, strict=True):
                yield {**step, "step_verdict": verdict}


def _write_feedback(stage: Stage[Parameters]) -> None:
    """What the next round's catalogue needs: how often each named thing of each app was tried and came out well."""
    columns = ["app", "keypoints", "verdict"]
    counts: dict[str, Counter[str]] = {}
    for row in pq.read_table(stage.output / "episodes.parquet", columns=columns).to_pylist():
        for word in dict.fromkeys(row["keypoints"]):
            counts.setdefault(f"{row['app']}/{word}", Counter()).update(["attempts", row["verdict"]])
    capabilities = {
        name: {"attempts": count["attempts"], "completed": count["completed"]} for name, count in sorted(counts.items())
    }
    text = json.dumps({"capabilities": capabilities}, ensure_ascii=False, indent=1, sort_keys=True)
    (stage.output / "feedback.json").write_text(text + "\n", encoding="utf-8")


# --- the verifier's own quality ---------------------------------------------------------------------------------------


def _report(stage: Stage[Parameters], panel: Panel, read: Mapping[str, int]) -> None:
    columns = ["id", "platform", "split", "policy", "outcome", "verdict", "votes"]
    rows = pq.read_table(stage.output / "episodes.parquet", columns=columns).to_pylist()
    heldout = [row for row in rows if row["split"] == "heldout"]
    table = [_quality_row("the vote", heldout, lambda row: row["verdict"] == "completed")]
    for name in sorted(panel.judges):
        table.append(_quality_row(name, heldout, partial(_voted, judge=name)))
    for platform in sorted({row["platform"] for row in heldout}):
        mine = [row for row in heldout if row["platform"] == platform]
        table.append(_quality_row(f"the vote, {platform}", mine, lambda row: row["verdict"] == "completed"))
    stage.table("quality", ("held-out apps", "episodes", "precision", "95 %", "recall", "95 %"), table)
    stage.table(
        "reliability",
        ("judge", "sensitivity", "specificity"),
        [(name, judge.sensitivity, judge.specificity) for name, judge in sorted(panel.judges.items())],
    )
    caught = []
    for policy in sorted({row["policy"] for row in rows}):
        mine = [row for row in rows if row["policy"] == policy]
        verdicts = Counter(row["verdict"] for row in mine)
        successes = sum(row["outcome"] == "success" for row in mine)
        labels = ("completed", "partial", "infeasible", "failed")
        caught.append((policy, len(mine), successes, *(verdicts[verdict] for verdict in labels)))
    stage.table(
        "verdicts",
        ("policy", "episodes", "really succeeded", "completed", "partial", "infeasible", "failed"),
        caught,
    )
    steps = pq.read_table(stage.output / "steps.parquet", columns=["step_verdict"])["step_verdict"].to_pylist()
    stage.summary(
        **_quality(heldout),
        episodes=len(rows),
        completed=sum(row["verdict"] == "completed" for row in rows),
        steps=len(steps),
        **{f"{verdict}_steps": count for verdict, count in sorted(Counter(steps).items())},
    )
    # How much was remembered depends on which process judged what, so it is said, not stored.
    asked, hits = (sum(count for name, count in read.items() if name.endswith(what)) for what in ("asked", "hits"))
    stage.log(f"{asked} texts looked at, {hits / max(asked, 1):.0%} of them read before")
    stage.picture("verified", _sample_strips(stage, rows))


def _voted(row: Mapping[str, Any], judge: str) -> bool:
    return any(vote["judge"] == judge and vote["vote"] for vote in row["votes"])


Accepts = Callable[[Mapping[str, Any]], bool]


def _counts(rows: Sequence[Mapping[str, Any]], accepts: Accepts) -> tuple[int, int, int]:
    """(accepted and right, accepted, really succeeded)."""
    accepted = [row for row in rows if accepts(row)]
    right = sum(row["outcome"] == "success" for row in accepted)
    return right, len(accepted), sum(row["outcome"] == "success" for row in rows)


def _quality_row(name: str, rows: Sequence[Mapping[str, Any]], accepts: Accepts) -> tuple[object, ...]:
    right, accepted, succeeded = _counts(rows, accepts)
    return (name, len(rows), *_rate(right, accepted), *_rate(right, succeeded))


def _rate(right: int, total: int) -> tuple[object, object]:
    if not total:
        return "", ""
    interval = wilson(right, total)
    return right / total, f"{interval.low:.3f}–{interval.high:.3f}"


def _quality(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    right, accepted, succeeded = _counts(rows, lambda row: row["verdict"] == "completed")
    figures: dict[str, float] = {"heldout_episodes": len(rows)}
    for name, total in (("precision", accepted), ("recall", succeeded)):
        if total:
            interval = wilson(right, total)
            figures |= {name: right / total, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return figures


def _sample_strips(stage: Stage[Parameters], rows: Sequence[Mapping[str, Any]]) -> Image:
    """Episodes of every verdict and platform in turn, as many as the picture holds."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_kind.setdefault((row["verdict"], row["platform"]), []).append(row["id"])
    kinds = [stage.rng(*kind).sample(ids, len(ids)) for kind, ids in sorted(by_kind.items())]
    turns = [kind[turn] for turn in range(max(map(len, kinds))) for kind in kinds if turn < len(kind)]
    return load_strips(stage.output, sorted(turns[: stage.parameters.strips]))
