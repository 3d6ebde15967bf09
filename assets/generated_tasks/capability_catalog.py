"""Stage `capability_catalog`: what each app can do, with sources and coverage.

Researched from the apps' documents and from the walk through the running apps, without a model or with one. Feedback
of earlier rounds says how often a capability was tried and how often it came out well; what is weakly covered is
weighted up, so that the next round's tasks go there. What turned out not to be there is not proposed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeFloat

from assets.agent.endpoint import Endpoint, EndpointParameters, Usage
from assets.environments.catalogue import desktop_programs
from assets.generated_tasks.feedback import Feedback, read_feedback, weight
from assets.generated_tasks.research import Capability, EndpointResearcher, Findings, OfflineResearcher, Researcher
from assets.stage import Stage, StageParameters, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa


class ResearcherParameters(StageParameters):
    """Who finds out what an app can do: nobody but the specs, or a model too, behind an endpoint."""

    kind: Literal["offline", "endpoint"] = "offline"
    endpoint: EndpointParameters = EndpointParameters()


class Parameters(StageParameters):
    """What the tasks that follow may use.

    Attributes:
        scales: of the apps to take: `small` ones are made of the words that the small model knows, `full` ones are not.
        programs: whether to take the full desktop programs, of whatever scale the others are and though nobody has
            probed them: whatever is asked of a program is proven in it.
        boost: how much a capability that never came out well outweighs one that always does.
        researcher: who finds out.
    """

    scales: tuple[Literal["small", "full"], ...] = Field(min_length=1)
    programs: bool
    boost: NonNegativeFloat
    researcher: ResearcherParameters


def run(stage: Stage[Parameters]) -> None:
    """Write `capabilities.parquet`, `excluded.json` (`app/word` not to be proposed) and a table of coverage by app.

    Raises:
        ParameterError: the endpoint has no address, no model or no key.
    """
    catalogue = json.loads((stage.input("data/environments") / "catalogue.json").read_text(encoding="utf-8"))
    apps = [app for app in catalogue if app["scale"] in stage.parameters.scales and not _is_program(app)]
    if stage.parameters.programs:
        probed = {app["id"]: app for app in catalogue if _is_program(app)}
        apps += [probed.get(known.id, {**asdict(known), "reached": [], "elements": 0}) for known in desktop_programs()]
    feedback = read_feedback(stage.input("data/feedback"))
    usage, researcher = _researcher(stage)
    findings = researcher.research(apps)
    found = [capability for finding in findings for capability in finding.capabilities]
    capabilities = sorted(covered(found, feedback, stage.parameters.boost), key=lambda capability: capability.id)
    write_parquet(stage.output / "capabilities.parquet", map(asdict, capabilities), schema())
    excluded = json.dumps(sorted(feedback.invalid_entities), ensure_ascii=False, indent=1)
    (stage.output / "excluded.json").write_text(excluded + "\n", encoding="utf-8")
    _report(stage, apps, findings, capabilities, len(found) - len(capabilities), usage)


def _is_program(app: Mapping[str, Any]) -> bool:
    return (app["platform"], app["scale"]) == ("desktop", "full")


def _researcher(stage: Stage[Parameters]) -> tuple[Usage, Researcher]:
    wanted = stage.parameters.researcher
    if wanted.kind == "offline":
        return Usage(), OfflineResearcher()
    endpoint = Endpoint(wanted.endpoint)
    return endpoint.usage, EndpointResearcher(endpoint, stage.work)


def covered(capabilities: Sequence[Capability], feedback: Feedback, boost: float) -> Iterator[Capability]:
    """The capabilities with their coverage and weight, without what earlier rounds found not to be there."""
    for capability in capabilities:
        entities = tuple(e for e in capability.entities if f"{capability.app}/{e}" not in feedback.invalid_entities)
        if capability.entities and not entities:
            continue
        names = [capability.id, *(f"{capability.app}/{entity}" for entity in entities)]
        attempts, completed = feedback.coverage(names)
        never = f"{capability.app}/{capability.place}" in feedback.unreached
        found = weight(0, 0, boost) if never else weight(attempts, completed, boost)
        yield replace(capability, entities=entities, attempts=attempts, completed=completed, weight=found)


def schema() -> pa.Schema:
    """Arrow schema of the capability table."""
    import pyarrow as pa

    texts = ("id", "app", "platform", "locale", "split", "place", "signature")
    return pa.schema(
        [
            *((name, pa.string()) for name in texts),
            *((name, pa.list_(pa.string())) for name in ("preconditions", "entities", "compatible", "sources")),
            *((name, pa.int32()) for name in ("attempts", "completed")),
            ("weight", pa.float32()),
        ]
    )


def _report(
    stage: Stage[Parameters],
    apps: Sequence[Mapping[str, Any]],
    findings: Sequence[Findings],
    capabilities: Sequence[Capability],
    excluded: int,
    usage: Usage,
) -> None:
    rows: dict[tuple[str, str, str], list[Capability]] = {}
    for capability in capabilities:
        rows.setdefault((capability.platform, capability.split, capability.app), []).append(capability)
    stage.table(
        "coverage",
        ("platform", "split", "app", "capabilities", "tried in earlier rounds", "mean weight"),
        [
            (*key, len(group), sum(c.attempts > 0 for c in group), sum(c.weight for c in group) / len(group))
            for key, group in sorted(rows.items())
        ],
    )
    fallbacks = [(app["id"], found.fallback) for app, found in zip(apps, findings, strict=True) if found.fallback]
    stage.table("fallbacks", ("app", "why the model's findings were not used"), fallbacks)
    stage.summary(
        apps=len(rows),
        capabilities=len(capabilities),
        covered=sum(c.attempts > 0 for c in capabilities),
        excluded=excluded,
        fallbacks=len(fallbacks),
        refused=sum(finding.refused for finding in findings),
        added=sum(finding.added for finding in findings),
        requests=usage.requests,
        failed_requests=usage.failures,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
    )
