"""Tasks: what it costs to prove one, and whether an oracle solves them again in other processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assets.environments.workers import Sessions
from tests.performance.__main__ import Comparison

SIZE = (192, 192)
TASKS = Path("data/generated_tasks")
PROMISED = 0.99
"""The share of accepted tasks that an oracle must solve again."""


def proof() -> Iterator[Comparison]:
    """Families of each platform, proven in sessions that stay open and in sessions of their own."""
    from assets.environments.apps import load_specs
    from assets.environments.desktop import load_apps
    from assets.generated_tasks.app_candidates import app_candidates
    from assets.generated_tasks.desktop_candidates import desktop_candidates
    from assets.generated_tasks.validity import prove_family

    families = {
        app: app_candidates(load_specs()[app], 1, load_specs()[app].theme, 3, random.Random(1))[:12]
        for app in ("mail-en", "office-zh")
    }
    program = next(app for app in load_apps() if app.id == "desk")
    families["desk"] = desktop_candidates(program, 1, 3, random.Random(1))[:12]
    for app, family in families.items():
        with Sessions(SIZE) as sessions:

            def ours(family: Any = family, sessions: Sessions = sessions) -> None:
                prove_family(sessions, family)

            def afresh(family: Any = family) -> None:
                for candidate in family:
                    with Sessions(SIZE) as own:
                        prove_family(own, [candidate])

            yield Comparison(
                name=f"task_proof_{family[0].task.platform}",
                work=f"one candidate for {app} proven, of a family of {len(family)}",
                peer="each in a session of its own",
                ours=ours,
                theirs=afresh,
                units=(len(family), len(family)),
                runs=3,
            )


def second_run() -> Iterator[Comparison]:
    """All tasks of the last run, played again."""
    if not (TASKS / "tasks.parquet").is_file():
        print("second run: no tasks here; `hesper run generated_tasks` makes some")
        return
    yield Comparison(
        name="task_second_run",
        work="accepted tasks solved again by an oracle, in other processes",
        peer="promised",
        ours=solved_again,
        theirs=PROMISED,
        unit="share",
        runs=1,
    )


def solved_again() -> float:
    """The share of the accepted tasks that an oracle solves in new processes."""
    import pyarrow.parquet as pq

    from assets.environments.workers import spread

    tasks = pq.read_table(TASKS / "tasks.parquet").to_pylist()
    plans = {row["task_id"]: row["plan"] for row in pq.read_table(TASKS / "solutions.parquet").to_pylist()}
    jobs = sorted(((row, plans[row["id"]]) for row in tasks), key=lambda job: job[0]["platform"] != "desktop")
    outcomes = [outcome for _, outcome in spread(jobs, play_again, SIZE, 2)]
    return outcomes.count("success") / len(outcomes)


def play_again(sessions: Sessions, job: tuple[dict[str, Any], str]) -> str:
    """The outcome of an oracle's episode."""
    from assets.environments.miniwob import MiniwobSession
    from assets.environments.miniwob_oracles import MiniwobOracle
    from assets.environments.session import rollout
    from assets.environments.task import from_row
    from assets.generated_tasks.oracle import OraclePolicy
    from assets.generated_tasks.plan import plan_from_json

    row, plan = job
    task = from_row(row)
    session = sessions.get(task.platform, task.app)
    page = isinstance(session, MiniwobSession)
    policy = MiniwobOracle(session) if page else OraclePolicy(session, task, plan_from_json(plan))
    outcome = rollout(session, task, policy).outcome
    if outcome != "success":
        print(f"{task.id}: {outcome}: {task.instruction}", flush=True)
    return outcome


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {"task_proof": proof, "task_second_run": second_run}
