"""One app tried as the stages try all of them: its screens are probed, a few tasks on it proven. Nothing is written."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from assets.environments import environments
from assets.environments.catalogue import AppInfo
from assets.environments.environments import Job, Probe, probe_app
from assets.environments.miniwob import PREFIX
from assets.environments.phone import PhoneParameters
from assets.environments.workers import Sessions
from assets.generated_tasks import generated_tasks
from assets.generated_tasks.generated_tasks import candidates
from assets.generated_tasks.validity import Verdict, prove_family


@dataclass(frozen=True)
class Trial:
    """What came of it.

    Attributes:
        probe: of the app; one with trouble has no tasks.
        verdicts: of the tasks that were proposed.
    """

    probe: Probe
    verdicts: Sequence[Verdict]


def try_app(
    app: AppInfo,
    size: tuple[int, int],
    tasks: int,
    seed: int,
    probing: environments.Parameters,
    proposing: generated_tasks.Parameters,
    phone: PhoneParameters,
) -> Trial:
    """Probe an app on a screen of this size, and prove `tasks` tasks on it where its controls are known.

    Args:
        seed: of the tasks that are proposed.

    Raises:
        MissingProgramError: what its platform needs is not installed.
    """
    with Sessions(size, phone) as sessions:
        probe = probe_app(sessions, Job(app, size, probing))
        if probe.trouble or app.id.startswith(PREFIX):
            return Trial(probe, ())
        found = candidates(asdict(app), (), 1, proposing, random.Random(seed))
        return Trial(probe, prove_family(sessions, found[:tasks]))
