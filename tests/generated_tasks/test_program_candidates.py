"""Contracts for full desktop programs: what is asked, and that the gate proves it in the programs themselves."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from assets.environments.catalogue import catalogue, desktop_programs
from assets.environments.desktop import load_programs
from assets.environments.session import check, fits, rollout
from assets.environments.workers import Sessions
from assets.generated_tasks.oracle import OraclePolicy
from assets.generated_tasks.plan import Candidate
from assets.generated_tasks.program_candidates import program_candidates
from assets.generated_tasks.research import OfflineResearcher
from assets.generated_tasks.validity import prove_family
from assets.stage import execute

PROGRAMS = {spec.id: spec for spec in load_programs()}
PROJECT = Path(__file__).parents[2]


def family(program: str, seed: int = 1) -> list[Candidate]:
    return program_candidates(PROGRAMS[program], 1, random.Random(seed))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_a_family_asks_different_things_of_one_set_up(program: str, seed: int) -> None:
    candidates = family(program, seed)
    assert len(candidates) > 2
    spec = PROGRAMS[program]
    assert len({spec.fingerprint(candidate.task) for candidate in candidates}) == 1
    assert len({candidate.target for candidate in candidates}) == len(candidates)
    known = {c.id for found in OfflineResearcher().research(_rows()) for c in found.capabilities}
    for candidate in candidates:
        task = candidate.task
        assert (task.app, task.platform, task.split) == (program, "desktop", spec.split)
        assert spec.locale == "en" or task.locale == "zh"
        assert set(task.capabilities) <= known
        assert task.keypoints
        assert len(candidate.plan) < task.step_budget
        assert candidate.decoy not in ((), candidate.plan)
        assert (task.kind == "query") == ("answer" in task.expected_state)
        assert all(name in task.instruction for name in candidate.names)


def _rows() -> list[dict[str, object]]:
    return [{**asdict(program), "reached": [], "elements": 0} for program in desktop_programs()]


def test_all_kinds_are_asked_in_both_languages_and_again_the_same() -> None:
    tasks = [candidate.task for program in PROGRAMS for seed in range(6) for candidate in family(program, seed)]
    kinds = {(task.kind, task.locale) for task in tasks}
    assert kinds == {
        (k, locale) for k in ("single", "composite", "query", "batch", "scenario") for locale in ("en", "zh")
    }
    assert {task.split for task in tasks} == {"train", "heldout"}
    assert tasks == [candidate.task for program in PROGRAMS for seed in range(6) for candidate in family(program, seed)]


def test_they_are_for_screens_on_which_a_program_fits() -> None:
    task = family("xterm")[0].task
    assert not fits(task, (192, 192))
    assert fits(task, (1280, 720))


def told(candidate: Candidate) -> Candidate:
    text = f"{candidate.task.instruction} {candidate.task.expected_state['answer']}"
    return replace(candidate, task=replace(candidate.task, instruction=text))


def written_elsewhere(candidate: Candidate) -> Candidate:
    resources = candidate.task.resources
    files = {**resources["files"], "projects/hint": {"text": candidate.task.expected_state["answer"]}}
    return replace(candidate, task=replace(candidate.task, resources={**resources, "files": files}))


def of_two(candidate: Candidate) -> Candidate:
    resources = candidate.task.resources
    files = {**resources["files"], f"old/{candidate.names[0]}": {"text": "-"}}
    return replace(candidate, task=replace(candidate.task, resources={**resources, "files": files}))


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (told, "the answer stands in instruction"),
        (written_elsewhere, "the answer stands in projects/hint"),
        (of_two, "ambiguous: 2 things in its files are called"),
    ],
)
def test_what_gives_itself_away_or_means_two_things_is_refused(
    spoiled: Callable[[Candidate], Candidate], reason: str, sessions: Sessions
) -> None:
    asked = next(candidate for candidate in family("xterm") if candidate.task.kind == "query")
    (verdict,) = prove_family(sessions, [spoiled(asked)])
    assert reason in verdict.reason


def test_the_gate_proves_them_in_the_real_program(sessions: Sessions) -> None:
    candidates = family("galculator", 3)
    alone = next(c for c in candidates if c.task.kind == "composite")
    other = next(c for c in candidates if c.task.kind == "query")
    together = prove_family(sessions, [alone, other])
    assert [(verdict.reason, verdict.wrong) for verdict in together] == [("", 1), ("", 1)]
    assert [(v.reason, v.wrong) for v in prove_family(sessions, [replace(alone, decoy=other.plan)])] == [("", 1)]
    (same,) = prove_family(sessions, [replace(alone, decoy=alone.plan)])
    assert same.reason == "also passed by doing it to something else"
    session = sessions.get("desktop", "galculator")
    assert rollout(session, alone.task, OraclePolicy(session, alone.task, alone.plan, 3)).outcome == "success"


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_everything_that_is_asked_holds(program: str, sessions: Sessions) -> None:
    for seed in (1, 2, 4):
        verdicts = prove_family(sessions, family(program, seed))
        assert [verdict.reason for verdict in verdicts if verdict.reason] == []
        assert all(verdict.wrong == len(verdicts) - 1 for verdict in verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["gnumeric", "mousepad-full", "pcmanfm", "zim"])
def test_an_answer_is_not_to_be_read_on_the_first_screen(program: str, sessions: Sessions) -> None:
    import io

    import numpy as np
    from PIL import Image

    from assets.verified_trajectories.reading import OcrReader, lines_of

    asked = next(candidate for candidate in family(program, 5) if candidate.task.kind == "query")
    session = sessions.get("desktop", program)
    session.reset(asked.task)
    picture = np.asarray(Image.open(io.BytesIO(session.observe().png)).convert("RGB"))
    read = [reading.text for reading in OcrReader().read(lines_of(picture))]
    assert read
    assert not any(asked.task.expected_state["answer"] in text for text in read)
    assert not check(asked.task, session.state(), session.state()).success


def test_programs_that_are_not_there_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("assets", "dvc.yaml"):
        (tmp_path / name).symlink_to(PROJECT / name)
    (tmp_path / "params.yaml").write_text(
        "capability_catalog: {scales: [small], programs: true, boost: 2.0, researcher: {kind: offline}}\n"
        "generated_tasks: {tasks: {}, miniwob: 0, programs: 4, heldout_share: 0.5, family: 2, kinds: {single: 1.0},\n"
        "  clauses: [1.0], toggles: 2, attacks: 0, processes: 1}\n"
        "agent: {screen: [192, 192], coordinate_digits: 3, system_prompt: brief, screenshots: 1}\n"
        "phone: {adb: '', serial: ''}\n"
    )
    (tmp_path / "data" / "environments").mkdir(parents=True)
    (tmp_path / "data" / "feedback").mkdir()
    rows = [{**asdict(app), "reached": [], "elements": 0} for app in catalogue() if app.id == "wallet-en"]
    (tmp_path / "data" / "environments" / "catalogue.json").write_text(json.dumps(rows), encoding="utf-8")
    for stage in ("capability_catalog", "generated_tasks"):
        execute(stage, root=tmp_path)
    assert pq.read_table(tmp_path / "data/generated_tasks/tasks.parquet").num_rows == 0
    left_out = (tmp_path / "data/generated_tasks/left_out.md").read_text(encoding="utf-8")
    assert all(f"| {program} |" in left_out for program in PROGRAMS)
    assert "apt-get install gnumeric" in left_out
