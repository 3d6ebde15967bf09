"""`hesper probe APP`: what the probe and the proof of a few tasks found out, in lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assets.agent.parameters import AgentParameters
from assets.environments import environments
from assets.environments.catalogue import AppInfo
from assets.environments.phone import PhoneParameters
from assets.generated_tasks import generated_tasks
from assets.generated_tasks.trial import Trial, try_app
from assets.stage import load_section
from dagster_project.view.play import find_app


def report(root: Path, name: str, tasks: int, seed: int) -> tuple[list[str], bool]:
    """Lines that say what was found, and whether the app works.

    Raises:
        ParameterError: no such app.
    """
    file = root / "params.yaml"
    probing = load_section(file, "environments", environments.Parameters)
    proposing = load_section(file, "generated_tasks", generated_tasks.Parameters)
    phone = load_section(file, "phone", PhoneParameters)
    app = find_app(name, phone)
    size = environments.screen_of(app, load_section(file, "agent", AgentParameters).screen, probing)
    trial = try_app(app, size, tasks, seed, probing, proposing, phone)
    return [*_lines(app, size, trial)], not trial.probe.trouble


def _lines(app: AppInfo, size: tuple[int, int], trial: Trial) -> Iterator[str]:
    probe = trial.probe
    if probe.trouble:
        yield f"{app.id} does not work: {probe.trouble} (the {probe.fault}'s fault)"
        return
    yield f"{app.id} works at {size[0]}x{size[1]}: {probe.elements} things to act on at the start"
    if app.screens:
        yield f"  reached by {probe.actions} real actions: {', '.join(probe.reached)}"
    yield "  a reset and a snapshot bring back the same state and the same picture"
    if not trial.verdicts:
        yield "no tasks were proposed for it"
        return
    proven = [verdict for verdict in trial.verdicts if not verdict.reason]
    yield f"{len(proven)} of {len(trial.verdicts)} tasks that were proposed are proven:"
    for verdict in proven:
        yield f"  {verdict.candidate.task.instruction}"
    for verdict in trial.verdicts:
        if verdict.reason:
            yield f"  refused: {verdict.candidate.task.instruction} [{verdict.reason}]"
