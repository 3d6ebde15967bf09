"""Stage `generated_tasks`: executable task contracts, each proven by acting in the real environment.

Candidates come from the specs, arrangement by arrangement, more of them where the capability catalogue says that
coverage is weak. The validity gate keeps what it can prove; what it rejects is kept with the reason.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, PositiveInt

from assets.agent.parameters import AgentParameters
from assets.environments.apps import load_specs, load_themes
from assets.environments.desktop import load_apps as load_desktop_apps
from assets.environments.miniwob import PREFIX
from assets.environments.miniwob_oracles import ORACLES
from assets.environments.task import task_schema, to_row
from assets.environments.workers import spread
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.attacks import attack_pairs, attack_schema
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.miniwob_candidates import miniwob_candidate
from assets.generated_tasks.plan import Candidate, plan_to_json, solutions_schema
from assets.generated_tasks.validity import Duplicates, Verdict, prove_family
from assets.stage import Stage, StageParameters, write_parquet


class Parameters(StageParameters):
    """How many tasks, and of what kind.

    Attributes:
        tasks: how many to propose a platform; what the gate rejects is not replaced.
        miniwob: how many tasks on MiniWoB++ pages, beside those of the simulated sites.
        heldout_share: part of them on held-out apps.
        family: tasks that share one arrangement of one app.
        clauses: weight of an instruction with one, two, three, ... named things.
        toggles: most controls of one desktop window that a task sets.
        attacks: pairs of a task with and without an attack.
        processes: sessions that act at once.
    """

    tasks: dict[str, int]
    miniwob: int
    heldout_share: float = Field(gt=0, lt=1)
    family: PositiveInt
    clauses: tuple[float, ...]
    toggles: PositiveInt
    attacks: int
    processes: PositiveInt


def run(stage: Stage[Parameters]) -> None:
    """Write `tasks.parquet`, `solutions.parquet`, `rejected.parquet` and `attacks.parquet`."""
    parameters = stage.parameters
    size = stage.section("agent", AgentParameters).screen
    catalogue = json.loads((stage.input("data/environments") / "catalogue.json").read_text(encoding="utf-8"))
    weights, described = _weights(stage)
    catalogue = [app for app in catalogue if app["id"] in described]
    families, repeated = _propose(stage, catalogue, weights)
    families += _miniwob_families(stage, catalogue)
    verdicts = _proven(stage, families, size)
    accepted = [verdict.candidate for verdict in verdicts if not verdict.reason]
    rejected = [verdict for verdict in verdicts if verdict.reason] + repeated
    accepted = sorted(_numbered(accepted), key=lambda candidate: candidate.task.id)

    write_parquet(stage.output / "tasks.parquet", (to_row(c.task) for c in accepted), task_schema())
    write_parquet(
        stage.output / "solutions.parquet",
        ({"task_id": c.task.id, "family": c.family, "plan": plan_to_json(c.plan)} for c in accepted),
        solutions_schema(),
    )
    write_parquet(stage.output / "rejected.parquet", map(_rejected_row, rejected), _rejected_schema())
    pairs = attack_pairs(accepted, parameters.attacks, size, stage.rng("attacks"))
    write_parquet(stage.output / "attacks.parquet", pairs, attack_schema())
    _report(stage, accepted, rejected, len(pairs) // 2)


# --- proposing -------------------------------------------------------------------------------------------------------


def _weights(stage: Stage[Parameters]) -> tuple[dict[str, float], set[str]]:
    """The weight of each capability, and the apps that have some: tasks are for those alone."""
    import pyarrow.parquet as pq

    file = stage.input("data/capability_catalog") / "capabilities.parquet"
    table = pq.read_table(file, columns=["id", "app", "weight"])
    return dict(zip(table["id"].to_pylist(), table["weight"].to_pylist(), strict=True)), set(table["app"].to_pylist())


def _propose(
    stage: Stage[Parameters], catalogue: Sequence[Mapping[str, Any]], weights: Mapping[str, float]
) -> tuple[list[list[Candidate]], list[Verdict]]:
    """(families to prove, candidates that nearly repeat an earlier one)."""
    duplicates = Duplicates()
    families: list[list[Candidate]] = []
    repeated: list[Verdict] = []
    for app, quota in _quotas(stage.parameters, catalogue):
        proposed = 0
        for arrangement in range(1, 4 * quota + 1):
            if proposed >= quota:
                break
            rng = stage.rng(app["id"], arrangement)
            family: list[Candidate] = []
            for candidate in _drawn(_candidates(app, arrangement, stage.parameters, rng), weights, stage, rng):
                if len(family) == min(stage.parameters.family, quota - proposed):
                    break
                earlier = duplicates.of(app["id"], candidate.target)
                if earlier:
                    repeated.append(Verdict(candidate, f"near duplicate of '{earlier}'"))
                else:
                    family.append(candidate)
            if not family:
                break  # the app has nothing new to ask for
            proposed += len(family)
            families.append(family)
    return families, repeated


def _miniwob_families(stage: Stage[Parameters], catalogue: Sequence[Mapping[str, Any]]) -> list[list[Candidate]]:
    """Episodes of the MiniWoB++ pages that have an oracle; the page draws the instruction from the seed."""
    return [
        [miniwob_candidate(app["id"], stage.rng(app["id"], number).randrange(1, 1_000_000))]
        for app, quota in _quotas(stage.parameters, catalogue, miniwob=True)
        for number in range(quota)
    ]


def _quotas(
    parameters: Parameters, catalogue: Sequence[Mapping[str, Any]], miniwob: bool = False
) -> Iterator[tuple[Mapping[str, Any], int]]:
    """(app, how many tasks to propose), the platform's number divided evenly among the apps of each split."""
    for platform, count in {"web": parameters.miniwob}.items() if miniwob else sorted(parameters.tasks.items()):
        for split, share in (("train", 1 - parameters.heldout_share), ("heldout", parameters.heldout_share)):
            apps = [
                app
                for app in sorted(catalogue, key=lambda app: str(app["id"]))
                if (app["platform"], app["split"]) == (platform, split)
                and app["id"].startswith(PREFIX) == miniwob
                and (not miniwob or app["id"].removeprefix(PREFIX) in ORACLES)
            ]
            total = round(count * share)
            for index, app in enumerate(apps):
                quota = total * (index + 1) // len(apps) - total * index // len(apps)
                if quota:
                    yield app, quota


def _candidates(
    app: Mapping[str, Any], arrangement: int, parameters: Parameters, rng: random.Random
) -> list[Candidate]:
    if app["platform"] == "desktop":
        spec = next(known for known in load_desktop_apps() if known.id == app["id"])
        return desktop_candidates(spec, arrangement, parameters.toggles, rng)
    site = load_specs()[app["id"]]
    themes = sorted(name for name, theme in load_themes().items() if theme.split == site.split)
    return app_candidates(site, arrangement, rng.choice(themes), len(parameters.clauses), rng)


def _drawn(
    candidates: Sequence[Candidate], weights: Mapping[str, float], stage: Stage[Parameters], rng: random.Random
) -> list[Candidate]:
    """The candidates in a random order, those with weakly covered capabilities and favoured lengths more often first.

    Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis 2006).
    """
    lengths = Counter(_length(candidate) for candidate in candidates)
    favour = stage.parameters.clauses

    def key(candidate: Candidate) -> float:
        covered = [weights.get(capability, 1.0) for capability in candidate.task.capabilities]
        length = _length(candidate)
        weight = favour[min(length, len(favour)) - 1] / lengths[length] * sum(covered) / max(1, len(covered))
        return -rng.expovariate(1.0) / max(weight, 1e-9)

    keys = [key(candidate) for candidate in candidates]
    order = sorted(range(len(candidates)), key=lambda index: (-keys[index], index))
    return [candidates[index] for index in order]


def _length(candidate: Candidate) -> int:
    """Steps that point at something or type: the length of the way."""
    return max(1, sum(step.do != "Type" for step in candidate.plan))


# --- proving ---------------------------------------------------------------------------------------------------------


def _proven(stage: Stage[Parameters], families: Sequence[list[Candidate]], size: tuple[int, int]) -> list[Verdict]:
    """The gate's verdicts in the order of the candidates. Those of a killed run are taken from its work folder."""
    files = [stage.work / f"family-{number:05d}.json" for number in range(len(families))]
    missing = [number for number, file in enumerate(files) if not file.exists()]
    results = spread([families[number] for number in missing], prove_family, size, stage.parameters.processes)
    for index, verdicts in stage.progress(results, "families", total=len(missing)):
        found = [{"instruction": v.candidate.task.instruction, "reason": v.reason} for v in verdicts]
        partial = files[missing[index]].with_suffix(".partial")
        partial.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        partial.rename(files[missing[index]])
    proven = []
    for family, file in zip(families, files, strict=True):
        for candidate, found in zip(family, json.loads(file.read_text(encoding="utf-8")), strict=True):
            task = replace(candidate.task, instruction=found["instruction"])
            proven.append(Verdict(replace(candidate, task=task), found["reason"]))
    return proven


# --- writing ---------------------------------------------------------------------------------------------------------


def _numbered(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Ids by platform, app and the order in which they were proposed."""
    counts: Counter[tuple[str, str]] = Counter()
    numbered = []
    for candidate in candidates:
        task = candidate.task
        counts[(task.platform, task.app)] += 1
        name = task.app.replace("/", "-")
        identity = f"{task.platform}-{name}-{counts[(task.platform, task.app)]:03d}"
        numbered.append(replace(candidate, task=replace(task, id=identity)))
    return numbered


def _rejected_schema() -> Any:
    import pyarrow as pa

    schema = task_schema()
    return pa.schema([*schema, pa.field("plan", pa.string()), pa.field("reason", pa.string())])


def _rejected_row(verdict: Verdict) -> dict[str, Any]:
    return {
        **to_row(verdict.candidate.task),
        "plan": plan_to_json(verdict.candidate.plan),
        "reason": verdict.reason,
    }


def _report(stage: Stage[Parameters], accepted: Sequence[Candidate], rejected: Sequence[Verdict], pairs: int) -> None:
    counts = Counter((c.task.platform, c.task.split, c.task.app) for c in accepted)
    refused = Counter((v.candidate.task.platform, v.candidate.task.split, v.candidate.task.app) for v in rejected)
    rows = []
    for key in sorted({*counts, *refused}):
        example = next((c.task.instruction for c in accepted if (c.task.platform, c.task.split, c.task.app) == key), "")
        rows.append((*key, counts[key], refused[key], example))
    stage.table("tasks", ("platform", "split", "app", "accepted", "rejected", "for example"), rows)
    reasons = Counter(_kind_of_reason(verdict.reason) for verdict in rejected)
    stage.table("rejections", ("reason", "candidates"), sorted(reasons.items()))
    kinds = Counter(c.task.kind for c in accepted)
    stage.summary(
        tasks=len(accepted),
        heldout_tasks=sum(c.task.split == "heldout" for c in accepted),
        rejected=len(rejected),
        attack_pairs=pairs,
        **{
            f"{platform}_tasks": sum(c.task.platform == platform for c in accepted)
            for platform in stage.parameters.tasks
        },
        **{f"{kind}_tasks": count for kind, count in sorted(kinds.items())},
    )


def _kind_of_reason(reason: str) -> str:
    """A reason without its particulars."""
    for kind in ("near duplicate", "not on the screen", "also passed", "side effects", "doing nothing", "broke"):
        if kind in reason:
            return kind
    return reason
