"""Stage `verified_trajectories`: cleaned, judged and voted episodes, and how good the verifier is.

The judges see screens, thoughts, actions and keypoints, never the programmatic outcome. The vote weights them by how
reliable they were on training apps, and what it leaves open goes to people, whose decisions of earlier rounds hold. On
held-out apps the outcome is read once, at the end, to measure the verifier, beside bad trajectories that are made from
good ones there.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pydantic import Field, PositiveInt

from assets.agent.endpoint import Endpoint, EndpointParameters
from assets.agent.parameters import AgentParameters
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.environments.workers import Sessions, spread
from assets.errors import InputError
from assets.stage import Stage, StageParameters, write_parquet
from assets.verified_trajectories.cleaning import clean
from assets.verified_trajectories.drawing import load_strips
from assets.verified_trajectories.endpoint_judge import EndpointJudge
from assets.verified_trajectories.evidence import StepVerdict, act_of, blind, demands, follow_events
from assets.verified_trajectories.judges import (
    ChangeJudge,
    ReadingJudge,
    ThoughtJudge,
    Thresholds,
    Vote,
    judge_all,
    judge_steps,
)
from assets.verified_trajectories.mutations import MUTATIONS
from assets.verified_trajectories.quality import (
    Bars,
    Caught,
    Judged,
    headline,
    quality_rows,
    quality_schema,
    quality_tables,
)
from assets.verified_trajectories.reading import OcrReader, Remembering, VocabularyReader
from assets.verified_trajectories.reports import (
    Attribution,
    Keypoint,
    attribute,
    disagreement,
    keypoints_seen,
    repair_schema,
    reports_schema,
    reusable_prefix,
)
from assets.verified_trajectories.retrieval import Catalogue, CatalogueJudge, read_catalogue
from assets.verified_trajectories.reviews import read_reviews, seen_of
from assets.verified_trajectories.voting import Panel, estimate, measure

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image


class JudgeParameters(StageParameters):
    """A model that judges too: its `name`, the `window` of steps that it sees at once, the `endpoint` that answers."""

    name: str
    window: PositiveInt = 4
    endpoint: EndpointParameters


class ReviewParameters(StageParameters):
    """What people are asked: episodes about which the judges are divided by `disagreement`, 0 to 1, at most `most`."""

    disagreement: float = Field(ge=0, le=1)
    most: int = Field(ge=0)


class Parameters(StageParameters):
    """How strict the verifier is.

    Attributes:
        sure: confidence from which a reading counts.
        changed: share of pixels that differ when a screen counts as changed.
        moved: share of pixels that differ when it counts as another screen.
        seconds: what a judge may take for one episode; a slower one has voted against.
        accept: probability of completion from which an episode counts as completed.
        models: vision-language models that judge beside the judges of this project.
        review: what people are asked.
        mutations: how many bad trajectories of each kind are made from good ones of held-out apps.
        bars: what the verifier must reach there; less blocks the asset.
        chunk: episodes that are judged in one go.
        processes: processes that judge.
        strips: episodes on the picture.
    """

    sure: float = Field(gt=0, le=1)
    changed: float = Field(ge=0, le=1)
    moved: float = Field(ge=0, le=1)
    seconds: float = Field(gt=0)
    accept: float = Field(gt=0, lt=1)
    models: tuple[JudgeParameters, ...]
    review: ReviewParameters
    mutations: int = Field(ge=0)
    bars: Bars
    chunk: PositiveInt
    processes: PositiveInt
    strips: PositiveInt

    @property
    def thresholds(self) -> Thresholds:
        """What the judges of this project need of them."""
        return Thresholds(self.sure, self.changed, self.moved, self.seconds)


@dataclass(frozen=True)
class Chunk:
    """Some episodes of one folder. With `mutations`, bad ones are made of them: one name an episode, in order.

    Attributes:
        tasks: rows with app, locale, instruction and keypoints, for mutations that need another task.
    """

    folder: Path
    ids: tuple[str, ...]
    catalogue: Path
    thresholds: Thresholds
    models: tuple[JudgeParameters, ...]
    mutations: tuple[str, ...] = ()
    tasks: tuple[Mapping[str, Any], ...] = ()
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What the judges made of one episode.

    Attributes:
        outcome: the programmatic one; nothing else here has seen it.
        seen: names what was there to be seen of it, see `reviews.seen_of`.
        steps: label of each step that was kept.
        effective: whether a step did something that the task asks for.
        gave_up: whether the agent called for the user without having gone wrong before.
        attribution: what a failure would be put down to.
    """

    split: str
    outcome: str
    seen: str
    votes: tuple[Vote, ...]
    steps: tuple[StepVerdict, ...]
    keypoints: tuple[Keypoint, ...]
    effective: bool
    gave_up: bool
    attribution: Attribution


@dataclass(frozen=True)
class Decision:
    """The label of an episode and where it comes from."""

    verdict: str
    voted: str
    probability: float
    disagreement: float
    decided_by: str
    for_review: bool


def run(stage: Stage[Parameters]) -> None:
    """Write the episodes and steps with their verdicts, the reports, the repair queue, feedback and quality."""
    parameters = stage.parameters
    folders = [stage.input("data/collected_trajectories"), *_batches(stage.input("data/imported_batches"))]
    catalogue = stage.input("data/capability_catalog") / "capabilities.parquet"
    chunks = [
        Chunk(folder, ids, catalogue, parameters.thresholds, parameters.models)
        for folder in folders
        for ids in _cut(_playable(folder), parameters.chunk)
    ]
    findings: dict[str, Finding] = {}
    counts = Counter[str]()
    size = stage.section("agent", AgentParameters).screen
    results = spread(chunks, judge_chunk, size, parameters.processes)
    for _, (found, counted) in stage.progress(results, "chunks", total=len(chunks)):
        findings.update(found)
        counts.update(counted)
    if not findings:
        raise InputError("there is no episode to verify")
    panel = _panel(findings)
    decisions = _decisions(stage, findings, panel)

    write_parquet(
        stage.output / "episodes.parquet", _episode_rows(chunks, findings, decisions), verified_episodes_schema()
    )
    write_parquet(stage.output / "steps.parquet", _step_rows(chunks, findings), verified_steps_schema())
    write_parquet(stage.output / "reports.parquet", _report_rows(findings, decisions), reports_schema())
    write_parquet(stage.output / "repair_queue.parquet", _repair_rows(stage, findings), repair_schema())
    _write_feedback(stage, findings)
    caught = _mutated(stage, panel, catalogue, size)
    _report(stage, panel, decisions, caught, counts)


# --- judging ---------------------------------------------------------------------------------------------------------


def judge_chunk(_sessions: Sessions, chunk: Chunk) -> tuple[dict[str, Finding], dict[str, int]]:
    """(findings by episode, how much was read and asked and how much of it was remembered)."""
    bench = _bench(chunk.catalogue, chunk.thresholds, chunk.models)
    before = bench.counts()
    findings = {}
    for row, steps in load(chunk.folder, chunk.ids):
        findings[row["id"]] = bench.finding(row, steps)
    return findings, {name: count - before[name] for name, count in bench.counts().items()}


def judge_mutations(_sessions: Sessions, chunk: Chunk) -> list[tuple[str, str, Finding]]:
    """(mutation, episode, finding) of every bad trajectory that could be made."""
    bench = _bench(chunk.catalogue, chunk.thresholds, chunk.models)
    good = {row["id"]: (row, steps) for row, steps in load(chunk.folder, chunk.ids)}
    judged = []
    for identity, name, seed in zip(chunk.ids, chunk.mutations, chunk.seeds, strict=True):
        bad = MUTATIONS[name](good[identity], chunk.tasks, random.Random(seed))
        if bad is not None:
            judged.append((name, identity, bench.finding(*bad)))
    return judged


class Bench:
    """The judges of one process: slow to start, and they remember what they have read."""

    def __init__(self, catalogue: Catalogue, thresholds: Thresholds, models: Sequence[JudgeParameters]) -> None:
        self.catalogue, self.thresholds = catalogue, thresholds
        self.readers = (Remembering(OcrReader()), Remembering(VocabularyReader()))
        self.reading = [ReadingJudge(reader, thresholds) for reader in self.readers]
        self.thought = ThoughtJudge()
        self.models = [EndpointJudge(model.name, Endpoint(model.endpoint), model.window) for model in models]
        self.judges = [
            *self.reading,
            self.thought,
            ChangeJudge(thresholds),
            CatalogueJudge(catalogue, thresholds),
            *self.models,
        ]

    def finding(self, row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Finding:
        """All that is found out about one episode."""
        kept = clean(row, steps)
        episode = blind(row, kept)
        wanted = demands(episode)
        verdicts = judge_steps(episode, self.reading, self.thresholds.sure)
        courses = {judge.name: follow_events(wanted, judge.events(episode)) for judge in self.reading}
        courses[self.thought.name] = follow_events(wanted, self.thought.events(episode))
        names = self.catalogue.get(episode.app, {})
        keypoints = keypoints_seen(episode, wanted, courses, names, self.thresholds)
        acts = [act_of(step) for step in episode.steps]
        return Finding(
            split=row["split"],
            outcome=row["outcome"],
            seen=seen_of(row, kept),
            votes=tuple(judge_all(self.judges, episode, self.thresholds.seconds)),
            steps=tuple(verdicts),
            keypoints=keypoints,
            effective=any(v == "correct" and act in ("click", "type") for v, act in zip(verdicts, acts, strict=True)),
            gave_up="call" in acts and "incorrect" not in verdicts[: acts.index("call")],
            attribution=attribute(wanted, keypoints, names),
        )

    def counts(self) -> dict[str, int]:
        """How much was read and asked so far."""
        read = {f"{r.name}.{what}": getattr(r, what) for r in self.readers for what in ("asked", "hits")}
        asked = {
            f"{model.name}.{what}": getattr(model.endpoint.usage, what)
            for model in self.models
            for what in ("requests", "failures", "input_tokens", "output_tokens")
        }
        return {**read, **asked}


@cache
def _bench(catalogue: Path, thresholds: Thresholds, models: tuple[JudgeParameters, ...]) -> Bench:
    return Bench(read_catalogue(catalogue), thresholds, models)


# --- deciding --------------------------------------------------------------------------------------------------------


def label(finding: Finding, panel: Panel, accept: float) -> str:
    """`completed`, `partial`, `infeasible` or `failed`. What the agent claims is not asked.

    Clear evidence against a keypoint decides by itself; the vote decides the rest.
    """
    contradicted = any(keypoint.status == "contradicted" for keypoint in finding.keypoints)
    if not contradicted and panel.probability(finding.votes) >= accept:
        return "completed"
    if finding.gave_up:
        return "infeasible"
    return "partial" if finding.effective else "failed"


def _panel(findings: Mapping[str, Finding]) -> Panel:
    """The judges with their reliability on training apps: measured where outcomes are known, else estimated."""
    train = [findings[name] for name in sorted(findings) if findings[name].split == "train"]
    known = [finding for finding in train if finding.outcome in ("success", "failure")]
    if known:
        return measure([finding.votes for finding in known], [finding.outcome == "success" for finding in known])
    return estimate([finding.votes for finding in train])


def _decisions(stage: Stage[Parameters], findings: Mapping[str, Finding], panel: Panel) -> dict[str, Decision]:
    """The vote's label of each episode, or that of the person who looked at it; the most divided are for review."""
    parameters, reviews = stage.parameters, read_reviews(stage.input("data/reviews"))
    divided = {name: disagreement(finding.votes, panel) for name, finding in findings.items()}
    open_ = [
        name
        for name in sorted(findings, key=lambda name: (-divided[name], name))
        if divided[name] >= parameters.review.disagreement and findings[name].seen not in reviews
    ]
    asked = set(open_[: parameters.review.most])
    decisions = {}
    for name, finding in findings.items():
        voted = label(finding, panel, parameters.accept)
        review = reviews.get(finding.seen)
        decisions[name] = Decision(
            verdict=voted if review is None else review.verdict,
            voted=voted,
            probability=panel.probability(finding.votes),
            disagreement=divided[name],
            decided_by="vote" if review is None else review.reviewer,
            for_review=name in asked,
        )
    return decisions


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
    chunks: Sequence[Chunk], findings: Mapping[str, Finding], decisions: Mapping[str, Decision]
) -> Iterator[dict[str, Any]]:
    for chunk in chunks:
        for row, _ in load(chunk.folder, chunk.ids):
            finding = findings[row["id"]]
            votes = [asdict(vote) for vote in finding.votes]
            verdict = decisions[row["id"]].verdict
            yield {**row, "steps": len(finding.steps), "verdict": verdict, "votes": votes}


def _step_rows(chunks: Sequence[Chunk], findings: Mapping[str, Finding]) -> Iterator[dict[str, Any]]:
    for chunk in chunks:
        for row, steps in load(chunk.folder, chunk.ids):
            for step, verdict in zip(clean(row, steps), findings[row["id"]].steps, strict=True):
                yield {**step, "step_verdict": verdict}


def _report_rows(findings: Mapping[str, Finding], decisions: Mapping[str, Decision]) -> Iterator[dict[str, Any]]:
    for name in sorted(findings):
        finding, decision = findings[name], decisions[name]
        yield {
            "episode_id": name,
            "seen": finding.seen,
            "verdict": decision.verdict,
            "probability": decision.probability,
            "disagreement": decision.disagreement,
            "for_review": decision.for_review,
            "decided_by": decision.decided_by,
            "attribution": finding.attribution if decision.verdict == "failed" else "",
            "keypoints": [asdict(keypoint) for keypoint in finding.keypoints],
        }


def _repair_rows(stage: Stage[Parameters], findings: Mapping[str, Finding]) -> Iterator[dict[str, Any]]:
    """The partial episodes, with the beginning that can be used again and what is still to be done."""
    columns = ["id", "task_id", "platform", "app", "instruction", "verdict"]
    for row in pq.read_table(stage.output / "episodes.parquet", columns=columns).to_pylist():
        if row.pop("verdict") == "partial":
            finding = findings[row["id"]]
            yield {
                "episode_id": row.pop("id"),
                **row,
                "prefix": reusable_prefix(finding.steps),
                "missing": [keypoint.keypoint for keypoint in finding.keypoints if keypoint.status != "met"],
            }


def _write_feedback(stage: Stage[Parameters], findings: Mapping[str, Finding]) -> None:
    """What the next round's catalogue needs of each named thing of each app.

    How often it was tried and came out well, what failures with it were put down to, and what can't be asked of an app
    because agents rightly gave up on it.
    """
    columns = ["id", "app", "keypoints", "verdict"]
    counts: dict[str, Counter[str]] = {}
    failures: dict[str, Counter[str]] = {}
    invalid: set[str] = set()
    for row in pq.read_table(stage.output / "episodes.parquet", columns=columns).to_pylist():
        finding = findings[row["id"]]
        for word in dict.fromkeys(row["keypoints"]):
            name = f"{row['app']}/{word}"
            counts.setdefault(name, Counter()).update(["attempts", row["verdict"]])
            if row["verdict"] == "failed":
                failures.setdefault(name, Counter()).update([finding.attribution])
        if row["verdict"] == "infeasible":
            words = [k.keypoint.partition(" ")[2] for k in finding.keypoints if k.status == "missing"]
            invalid.update(f"{row['app']}/{word}" for word in words[:1])
    feedback = {
        "capabilities": {
            name: {"attempts": count["attempts"], "completed": count["completed"]}
            for name, count in sorted(counts.items())
        },
        "failures": {name: dict(sorted(count.items())) for name, count in sorted(failures.items())},
        "invalid_entities": sorted(invalid),
    }
    text = json.dumps(feedback, ensure_ascii=False, indent=1, sort_keys=True)
    (stage.output / "feedback.json").write_text(text + "\n", encoding="utf-8")


# --- the verifier's own quality ---------------------------------------------------------------------------------------


def _mutated(stage: Stage[Parameters], panel: Panel, catalogue: Path, size: tuple[int, int]) -> list[Caught]:
    """What became of bad trajectories made from good ones of held-out apps."""
    parameters, folder = stage.parameters, stage.input("data/collected_trajectories")
    columns = ["id", "app", "locale", "split", "outcome", "instruction", "keypoints"]
    rows = pq.read_table(folder / "episodes.parquet", columns=columns).to_pylist()
    good = sorted(row["id"] for row in rows if (row["split"], row["outcome"]) == ("heldout", "success"))
    tasks = tuple({row["instruction"]: row for row in rows if row["split"] == "heldout"}.values())
    jobs = [
        (identity, name, stage.rng("mutation", name, identity).randrange(1 << 30))
        for name in MUTATIONS
        # Not every mutation can be made of every episode: some more are tried.
        for identity in stage.rng("mutation", name).sample(good, min(len(good), 2 * parameters.mutations))
    ]
    jobs.sort()
    chunks = []
    for start in range(0, len(jobs), parameters.chunk):
        ids, names, seeds = zip(*jobs[start : start + parameters.chunk], strict=True)
        chunks.append(Chunk(folder, ids, catalogue, parameters.thresholds, parameters.models, names, tasks, seeds))
    judged: list[tuple[str, str, Finding]] = []
    results = spread(chunks, judge_mutations, size, parameters.processes)
    for _, found in stage.progress(results, "mutations", total=len(chunks)):
        judged += found
    caught, made = [], Counter[str]()
    for name, _, finding in sorted(judged, key=lambda item: item[:2]):
        made[name] += 1
        if made[name] <= parameters.mutations:
            accepted = label(finding, panel, parameters.accept) == "completed"
            caught.append(Caught(name, accepted, {vote.judge: vote.vote for vote in finding.votes}))
    return caught


def _report(
    stage: Stage[Parameters],
    panel: Panel,
    decisions: Mapping[str, Decision],
    caught: Sequence[Caught],
    counts: Mapping[str, int],
) -> None:
    columns = ["id", "platform", "split", "policy", "outcome", "verdict", "votes"]
    rows = pq.read_table(stage.output / "episodes.parquet", columns=columns).to_pylist()
    heldout = [
        Judged(
            row["platform"],
            row["policy"],
            row["outcome"] == "success",
            decisions[row["id"]].voted == "completed",
            {vote["judge"]: vote["vote"] for vote in row["votes"]},
        )
        for row in rows
        if row["split"] == "heldout" and row["outcome"] in ("success", "failure")
    ]
    quality = quality_rows(heldout, caught, sorted(panel.judges), stage.parameters.bars)
    write_parquet(stage.output / "quality.parquet", map(asdict, quality), quality_schema())
    for name, header, table in quality_tables(quality):
        stage.table(name, header, table)
    stage.table(
        "reliability",
        ("judge", "sensitivity", "specificity"),
        [(name, judge.sensitivity, judge.specificity) for name, judge in sorted(panel.judges.items())],
    )
    stage.table(
        "verdicts",
        ("policy", "episodes", "really succeeded", "completed", "partial", "infeasible", "failed"),
        [_verdicts(policy, rows) for policy in sorted({row["policy"] for row in rows})],
    )
    steps = pq.read_table(stage.output / "steps.parquet", columns=["step_verdict"])["step_verdict"].to_pylist()
    stage.summary(
        **headline(quality),
        heldout_episodes=len(heldout),
        episodes=len(rows),
        completed=sum(row["verdict"] == "completed" for row in rows),
        for_review=sum(decision.for_review for decision in decisions.values()),
        reviewed=sum(decision.decided_by != "vote" for decision in decisions.values()),
        steps=len(steps),
        **{f"{verdict}_steps": count for verdict, count in sorted(Counter(steps).items())},
    )
    # How much was remembered depends on which process judged what, so it is said, not stored.
    asked, hits = (sum(count for name, count in counts.items() if name.endswith(what)) for what in (".asked", ".hits"))
    stage.log(f"{asked} texts looked at, {hits / max(asked, 1):.0%} of them read before")
    for model in stage.parameters.models:
        spent = {what: counts[f"{model.name}.{what}"] for what in ("requests", "failures")}
        prices = model.endpoint.prices
        cost = (
            counts[f"{model.name}.input_tokens"] * prices.input + counts[f"{model.name}.output_tokens"] * prices.output
        )
        stage.log(f"{model.name}: {spent['requests']} requests, {spent['failures']} failed, cost {cost / 1e6:.4f}")
    stage.picture("verified", _sample_strips(stage, rows))


def _verdicts(policy: str, rows: Sequence[Mapping[str, Any]]) -> tuple[object, ...]:
    mine = [row for row in rows if row["policy"] == policy]
    verdicts = Counter(row["verdict"] for row in mine)
    successes = sum(row["outcome"] == "success" for row in mine)
    labels = ("completed", "partial", "infeasible", "failed")
    return (policy, len(mine), successes, *(verdicts[verdict] for verdict in labels))


def _sample_strips(stage: Stage[Parameters], rows: Sequence[Mapping[str, Any]]) -> Image:
    """Episodes of every verdict and platform in turn, as many as the picture holds."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_kind.setdefault((row["verdict"], row["platform"]), []).append(row["id"])
    kinds = [stage.rng(*kind).sample(ids, len(ids)) for kind, ids in sorted(by_kind.items())]
    turns = [kind[turn] for turn in range(max(map(len, kinds))) for kind in kinds if turn < len(kind)]
    return load_strips(stage.output, sorted(turns[: stage.parameters.strips]))
