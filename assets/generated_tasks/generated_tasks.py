"""Stage `generated_tasks`: executable task contracts, each proven by acting in the real environment.

Candidates of five kinds come from the specs, arrangement by arrangement, more of them where the capability catalogue
says that coverage is weak. The validity gate keeps what it can prove; what it rejects is kept with the reason.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt

from assets.agent.parameters import AgentParameters
from assets.environments.apps import find_spec, load_specs, load_themes
from assets.environments.desktop import ProgramSpec, load_programs, program
from assets.environments.desktop import load_apps as load_desktop_apps
from assets.environments.miniwob import PREFIX
from assets.environments.miniwob_oracles import ORACLES
from assets.environments.phone import PhoneParameters
from assets.environments.task import TaskContract, from_row, task_schema, to_row
from assets.environments.workers import spread
from assets.errors import MissingProgramError
from assets.generated_tasks.app_candidates import app_candidates
from assets.generated_tasks.attacks import attack_pairs, attack_schema
from assets.generated_tasks.desktop_candidates import desktop_candidates
from assets.generated_tasks.full_candidates import full_candidates
from assets.generated_tasks.miniwob_candidates import miniwob_candidate
from assets.generated_tasks.plan import Candidate, plan_from_json, plan_to_json, solutions_schema
from assets.generated_tasks.program_candidates import program_candidates
from assets.generated_tasks.validity import Duplicates, Verdict, prove_family
from assets.stage import Stage, StageParameters, Weight, Weights, some_weight, write_parquet

Kind = Literal["single", "composite", "query", "batch", "scenario"]


class Parameters(StageParameters):
    """How many tasks, and of what kind.

    Attributes:
        tasks: how many to propose a platform; what the gate rejects is not replaced.
        miniwob: how many tasks on MiniWoB++ pages, beside those of the simulated sites.
        programs: how many tasks on full desktop programs, beside those on small ones. At least two of each program
            that is taken: what one asks for must not pass as the other.
        heldout_share: part of them on held-out apps.
        family: tasks that share one arrangement of one app.
        kinds: weight of each kind of task, where an app has tasks of that kind.
        clauses: weight of a single or composite instruction with one, two, three, ... named things.
        toggles: most controls of one desktop window that a task sets.
        attacks: pairs of a task with and without an attack.
        processes: sessions that act at once.
    """

    tasks: dict[str, int]
    miniwob: NonNegativeInt
    programs: NonNegativeInt
    heldout_share: float = Field(gt=0, lt=1)
    family: PositiveInt
    kinds: Weights[Kind]
    clauses: Annotated[tuple[Weight, ...], AfterValidator(some_weight)]
    toggles: PositiveInt
    attacks: int
    processes: PositiveInt


def run(stage: Stage[Parameters]) -> None:
    """Write `tasks.parquet`, `solutions.parquet`, `rejected.parquet` and `attacks.parquet`."""
    parameters = stage.parameters
    size = stage.section("agent", AgentParameters).screen
    catalogue = json.loads((stage.input("data/environments") / "catalogue.json").read_text(encoding="utf-8"))
    findings = _findings(stage)
    catalogue = [app for app in catalogue if app["id"] in findings.apps and app["id"] not in _programs()]
    families, refused = _propose(stage, catalogue, findings)
    families += _miniwob_families(stage, catalogue)
    of_programs, refused_of_programs, left_out = _propose_for_programs(stage, findings)
    families, refused = families + of_programs, refused + refused_of_programs
    verdicts = _proven(stage, families, size)
    accepted = sorted(_numbered([v for v in verdicts if not v.reason]), key=lambda verdict: verdict.candidate.task.id)
    rejected = [verdict for verdict in verdicts if verdict.reason] + refused

    tasks = [verdict.candidate for verdict in accepted]
    write_parquet(stage.output / "tasks.parquet", (to_row(c.task) for c in tasks), task_schema())
    write_parquet(
        stage.output / "solutions.parquet",
        ({"task_id": c.task.id, "family": c.family, "plan": plan_to_json(c.plan)} for c in tasks),
        solutions_schema(),
    )
    write_parquet(stage.output / "rejected.parquet", map(_rejected_row, rejected), _rejected_schema())
    pairs = attack_pairs(tasks, parameters.attacks, size, stage.rng("attacks"), stage.section("phone", PhoneParameters))
    write_parquet(stage.output / "attacks.parquet", pairs, attack_schema())
    stage.table("left_out", ("program", "why nothing is asked of it"), left_out)
    _report(stage, accepted, rejected, len(pairs) // 2)


# --- proposing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Findings:
    """What the capability catalogue says.

    Attributes:
        weights: of each capability.
        apps: those that have some; tasks are for them alone.
        excluded: `app/word` of what earlier rounds found not to be there.
    """

    weights: Mapping[str, float]
    apps: frozenset[str]
    excluded: frozenset[str]

    def objection(self, task: TaskContract) -> str:
        """Why a task is not worth proving, or an empty text."""
        unknown = [capability for capability in task.capabilities if capability not in self.weights]
        if unknown:
            return f"unsupported: {', '.join(unknown)}"
        gone = [word for word in task.keypoints if f"{task.app}/{word}" in self.excluded]
        return f"invalid in an earlier round: {', '.join(gone)}" if gone else ""


def _findings(stage: Stage[Parameters]) -> _Findings:
    import pyarrow.parquet as pq

    folder = stage.input("data/capability_catalog")
    table = pq.read_table(folder / "capabilities.parquet", columns=["id", "app", "weight"])
    weights = dict(zip(table["id"].to_pylist(), table["weight"].to_pylist(), strict=True))
    excluded = json.loads((folder / "excluded.json").read_text(encoding="utf-8"))
    return _Findings(weights, frozenset(table["app"].to_pylist()), frozenset(excluded))


def _propose(
    stage: Stage[Parameters], catalogue: Sequence[Mapping[str, Any]], findings: _Findings
) -> tuple[list[list[Candidate]], list[Verdict]]:
    """(families to prove, candidates that are not worth it).

    A platform's number is divided evenly among the apps of each split; what an app can't give, because it has nothing
    new to ask for, the others give.
    """
    sources = {str(app["id"]): _Source(stage, app, catalogue, findings) for app in catalogue}
    families: list[list[Candidate]] = []
    for platform, count in sorted(stage.parameters.tasks.items()):
        for apps, total in _shares(stage.parameters, catalogue, platform, count):
            giving = [app for app in apps if not app.startswith(PREFIX)]
            missing = total
            while missing and giving:
                for app, quota in _even(giving, missing):
                    found = sources[app].families(quota)
                    families += found
                    missing -= sum(map(len, found))
                giving = [app for app in giving if not sources[app].dry]
    return families, [verdict for _, source in sorted(sources.items()) for verdict in source.refused]


class _Source:
    """The proposals for one app, arrangement after arrangement.

    Attributes:
        dry: whether the last arrangement had nothing new.
        refused: what it had that is not worth proving.
    """

    def __init__(
        self,
        stage: Stage[Parameters],
        app: Mapping[str, Any],
        catalogue: Sequence[Mapping[str, Any]],
        findings: _Findings,
    ) -> None:
        self._stage, self._app, self._findings = stage, app, findings
        self._neighbours = [
            other["id"]
            for other in catalogue
            if app["platform"] == "mobile" and other["id"] != app["id"] and _alike(app) == _alike(other)
        ]
        self._arrangement = 0
        self._duplicates = Duplicates()
        self.dry = False
        self.refused: list[Verdict] = []

    def families(self, count: int) -> list[list[Candidate]]:
        """Families of that many candidates together, fewer if the app runs dry."""
        found: list[list[Candidate]] = []
        while count and not self.dry:
            family = self._family(min(count, self._stage.parameters.family))
            self.dry = not family
            found += [family] if family else []
            count -= len(family)
        return found

    def _family(self, size: int) -> list[Candidate]:
        self._arrangement += 1
        rng = self._stage.rng(self._app["id"], self._arrangement)
        family: list[Candidate] = []
        found = candidates(self._app, self._neighbours, self._arrangement, self._stage.parameters, rng)
        for candidate in _drawn(found, self._findings.weights, self._stage.parameters, rng):
            if len(family) == size:
                break
            earlier = self._duplicates.of(candidate.task.app, candidate.target)
            reason = f"near duplicate of '{earlier}'" if earlier else self._findings.objection(candidate.task)
            if reason:
                self.refused.append(Verdict(candidate, reason))
            else:
                family.append(candidate)
        return family


def candidates(
    app: Mapping[str, Any], neighbours: Sequence[str], arrangement: int, parameters: Parameters, rng: random.Random
) -> list[Candidate]:
    """What can be asked for in one arrangement of an app; nothing where only an oracle or nobody knows its controls.

    Args:
        app: its entry in the catalogue.
        neighbours: small apps of which one may be on the same phone.
    """
    if app["platform"] == "desktop":
        if app["scale"] == "full":
            return program_candidates(_programs()[app["id"]], arrangement, rng)
        small = next(known for known in load_desktop_apps() if known.id == app["id"])
        return desktop_candidates(small, arrangement, parameters.toggles, rng)
    if app["scale"] == "full":
        return full_candidates(find_spec(app["id"]), arrangement, rng)
    spec = load_specs()[app["id"]]
    themes = sorted(name for name, theme in load_themes().items() if theme.split == spec.split)
    neighbour = load_specs()[rng.choice(neighbours)] if neighbours else None
    return app_candidates(spec, arrangement, rng.choice(themes), len(parameters.clauses), rng, neighbour)


def _alike(app: Mapping[str, Any]) -> tuple[str, ...]:
    """What apps on one phone have in common."""
    return tuple(str(app[name]) for name in ("platform", "split", "locale", "scale"))


def _miniwob_families(stage: Stage[Parameters], catalogue: Sequence[Mapping[str, Any]]) -> list[list[Candidate]]:
    """Episodes of the MiniWoB++ pages that have an oracle; the page draws the instruction from the seed."""
    return [
        [miniwob_candidate(app, stage.rng(app, number).randrange(1, 1_000_000))]
        for apps, total in _shares(stage.parameters, catalogue, "web", stage.parameters.miniwob)
        for app, quota in _even([app for app in apps if app.removeprefix(PREFIX) in ORACLES], total)
        for number in range(quota)
    ]


def _propose_for_programs(
    stage: Stage[Parameters], findings: _Findings
) -> tuple[list[list[Candidate]], list[Verdict], list[tuple[str, str]]]:
    """(families on full desktop programs, candidates that are not worth it, programs left out with the reason).

    Where there are fewer tasks than two of each program, some of the programs are drawn.
    """
    count = stage.parameters.programs
    there, left_out = [], []
    for name, spec in sorted(_programs().items()):
        try:
            program(spec.program, spec.package)
        except MissingProgramError as missing:
            left_out.append((name, str(missing)))
            continue
        if name in findings.apps:
            there.append(name)
        else:
            left_out.append((name, "it is not in the catalogue of capabilities, see capability_catalog.programs"))
    if not count:
        return [], [], left_out
    drawn = sorted(stage.rng("programs").sample(there, min(len(there), max(1, count // 2))))
    left_out += [(name, f"{count} tasks are for other programs") for name in sorted({*there} - {*drawn})]
    families: list[list[Candidate]] = []
    refused: list[Verdict] = []
    for name, quota in _even(drawn, count):
        spec = _programs()[name]
        app = {"id": name, "platform": "desktop", "locale": spec.locale, "split": spec.split, "scale": spec.scale}
        source = _Source(stage, app, (), findings)
        families += source.families(quota)
        refused += source.refused
    return families, refused, left_out


@cache
def _programs() -> dict[str, ProgramSpec]:
    """The full desktop programs by their ids."""
    return {spec.id: spec for spec in load_programs()}


def _shares(
    parameters: Parameters, catalogue: Sequence[Mapping[str, Any]], platform: str, count: int
) -> Iterator[tuple[list[str], int]]:
    """(ids of a platform's apps, how many tasks to propose) of each split."""
    for split, share in (("train", 1 - parameters.heldout_share), ("heldout", parameters.heldout_share)):
        apps = [str(app["id"]) for app in catalogue if (app["platform"], app["split"]) == (platform, split)]
        yield sorted(apps), round(count * share)


def _even(apps: Sequence[str], total: int) -> Iterator[tuple[str, int]]:
    """(app, its part of the total), for apps that have one."""
    for index, app in enumerate(apps):
        quota = total * (index + 1) // len(apps) - total * index // len(apps)
        if quota:
            yield app, quota


def _drawn(
    candidates: Sequence[Candidate], weights: Mapping[str, float], parameters: Parameters, rng: random.Random
) -> list[Candidate]:
    """The candidates in a random order, those with weakly covered capabilities and favoured kinds more often first.

    Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis 2006).
    """
    kinds = Counter(candidate.task.kind for candidate in candidates)
    lengths = Counter((candidate.task.kind, len(candidate.names)) for candidate in candidates)
    favour = parameters.clauses

    def key(candidate: Candidate) -> float:
        task, length = candidate.task, len(candidate.names)
        weight = parameters.kinds.get(task.kind, 0.0)  # type: ignore[call-overload]
        if task.kind in ("single", "composite"):
            weight *= favour[min(max(length, 1), len(favour)) - 1] / lengths[task.kind, length]
        else:
            weight /= kinds[task.kind]
        covered = [weights.get(capability, 1.0) for capability in task.capabilities]
        weight *= sum(covered) / max(1, len(covered))
        return -rng.expovariate(1.0) / max(weight, 1e-9)

    keys = [key(candidate) for candidate in candidates]
    order = sorted(range(len(candidates)), key=lambda index: (-keys[index], index))
    return [candidates[index] for index in order]


# --- proving ---------------------------------------------------------------------------------------------------------


def _proven(stage: Stage[Parameters], families: Sequence[list[Candidate]], size: tuple[int, int]) -> list[Verdict]:
    """The gate's verdicts in the order of the candidates. Those of a killed run are taken from its work folder."""
    files = [stage.work / f"family-{number:05d}.json" for number in range(len(families))]
    missing = [number for number, file in enumerate(files) if not file.exists()]
    phone = stage.section("phone", PhoneParameters)
    results = spread(
        [families[number] for number in missing], prove_family, size, stage.parameters.processes, phone=phone
    )
    for index, verdicts in stage.progress(results, "families", total=len(missing)):
        partial = files[missing[index]].with_suffix(".partial")
        partial.write_text(json.dumps([*map(_to_json, verdicts)], ensure_ascii=False), encoding="utf-8")
        partial.rename(files[missing[index]])
    return [
        _from_json(candidate, found)
        for family, file in zip(families, files, strict=True)
        for candidate, found in zip(family, json.loads(file.read_text(encoding="utf-8")), strict=True)
    ]


def _to_json(verdict: Verdict) -> dict[str, Any]:
    """What the gate found out about a candidate."""
    candidate = verdict.candidate
    found = {"task": to_row(candidate.task), "plan": plan_to_json(candidate.plan)}
    return {**found, "reason": verdict.reason, "wrong": verdict.wrong}


def _from_json(candidate: Candidate, found: Mapping[str, Any]) -> Verdict:
    proven = replace(candidate, task=from_row(found["task"]), plan=plan_from_json(found["plan"]))
    return Verdict(proven, found["reason"], found["wrong"])


# --- writing ---------------------------------------------------------------------------------------------------------


def _numbered(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Ids by platform, app and the order in which they were proposed."""
    counts: Counter[tuple[str, str]] = Counter()
    numbered = []
    for verdict in verdicts:
        task = verdict.candidate.task
        counts[(task.platform, task.app)] += 1
        name = task.app.replace("/", "-")
        identity = f"{task.platform}-{name}-{counts[(task.platform, task.app)]:03d}"
        numbered.append(replace(verdict, candidate=replace(verdict.candidate, task=replace(task, id=identity))))
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


def _report(stage: Stage[Parameters], accepted: Sequence[Verdict], rejected: Sequence[Verdict], pairs: int) -> None:
    tasks = [verdict.candidate.task for verdict in accepted]
    refused = [verdict.candidate.task for verdict in rejected]
    counts, others = (Counter((t.platform, t.split, t.app) for t in group) for group in (tasks, refused))
    rows = []
    for key in sorted({*counts, *others}):
        example = next((t.instruction for t in tasks if (t.platform, t.split, t.app) == key), "")
        rows.append((*key, counts[key], others[key], example))
    stage.table("tasks", ("platform", "split", "app", "accepted", "rejected", "for example"), rows)
    kinds = Counter((task.platform, task.kind, task.locale) for task in tasks)
    stage.table("kinds", ("platform", "kind", "language", "accepted"), [(*key, kinds[key]) for key in sorted(kinds)])
    reasons = Counter((v.candidate.task.platform, _kind_of_reason(v.reason)) for v in rejected)
    stage.table("rejections", ("platform", "reason", "candidates"), [(*key, reasons[key]) for key in sorted(reasons)])
    stage.summary(
        tasks=len(tasks),
        heldout_tasks=sum(task.split == "heldout" for task in tasks),
        rejected=len(rejected),
        rejected_by_acting=sum(not v.reason.startswith(_BEFORE_ACTING) for v in rejected),
        done_wrong=sum(verdict.wrong for verdict in accepted),
        without_wrong=sum(verdict.wrong == 0 for verdict in accepted),
        attack_pairs=pairs,
        program_tasks=sum(task.app in _programs() for task in tasks),
        **{
            f"{platform}_tasks": sum(task.platform == platform for task in tasks) for platform in stage.parameters.tasks
        },
        **{f"{kind}_tasks": sum(task.kind == kind for task in tasks) for kind in stage.parameters.kinds},
        **{f"{locale}_tasks": sum(task.locale == locale for task in tasks) for locale in ("en", "zh")},
    )


_BEFORE_ACTING = ("near duplicate", "unsupported", "invalid in an earlier round")
"""Reasons to reject a candidate without trying it."""


def _kind_of_reason(reason: str) -> str:
    """A reason without its particulars."""
    kinds = (*_BEFORE_ACTING, "not on the screen", "also passed", "side effects", "doing nothing", "broke", "ambiguous")
    return next((kind for kind in kinds if kind in reason), reason)
