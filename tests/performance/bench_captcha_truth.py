"""CAPTCHA puzzles proven by acting: of each type, solutions that its page accepts and misses that it rejects."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import partial

from assets.environments.chromium import browser
from assets.synthetic_samples.captcha.latent import PuzzleType
from assets.synthetic_samples.captcha.session import CaptchaSession, captcha_task
from assets.synthetic_samples.captcha.settings import PuzzlePlatform
from assets.synthetic_samples.captcha.types import TYPES
from assets.synthetic_samples.themes import SPLITS
from tests.performance.__main__ import Comparison

PAGES = 200
"""Pages of each type, on which one puzzle is missed and another solved."""
SCREENS: dict[PuzzlePlatform, tuple[int, int]] = {"mobile": (360, 720), "web": (1280, 720)}


def truth(type: PuzzleType) -> Iterator[Comparison]:
    """A type: platforms, splits, difficulties and ways to miss in turn."""
    started = time.perf_counter()
    with browser() as chromium:
        sessions = {platform: CaptchaSession(size, chromium, platform) for platform, size in SCREENS.items()}
        outcomes = [played(sessions, type, number) for number in range(PAGES)]
    rejected, accepted = (sum(outcome[part] for outcome in outcomes) for part in (0, 1))
    yield Comparison(
        name=f"captcha_truth_{type.name}",
        work=f"{PAGES} solutions accepted and {PAGES} misses rejected by the page, from real input",
        peer="promised",
        ours=partial(float, (accepted + rejected) / (2 * PAGES)),
        theirs=1.0,
        unit="share",
        runs=1,
        note=f"{type.family}: {accepted} accepted, {rejected} rejected, {time.perf_counter() - started:.0f} s",
    )


def played(sessions: dict[PuzzlePlatform, CaptchaSession], type: PuzzleType, number: int) -> tuple[bool, bool]:
    """Whether the page rejected a miss of its first puzzle, and then accepted the solution of its second."""
    platform: PuzzlePlatform = "web" if number % 4 == 3 else "mobile"
    session, split = sessions[platform], SPLITS[number // 2 % 2]
    task = captcha_task(type.name, 2 * number, platform, SCREENS[platform], number % 5 + 1, split, attempts=2)
    session.reset(task)
    first, second = session.puzzles
    misses = first.misses(random.Random(number))
    for action in misses[number // 4 % len(misses)]:
        session.act(action)
    rejected = session.state() == {"verdict": "open", "puzzle": 1, "rejections": 1, "renewals": 0}
    for action in second.actions():
        session.act(action)
    accepted = session.state() == {"verdict": "accepted", "puzzle": 1, "rejections": 1, "renewals": 0}
    if not (accepted and rejected):
        print(f"{type.name}, {number}, {platform}: rejected {rejected}, accepted {accepted}", flush=True)
    return rejected, accepted


BENCHMARKS: dict[str, Callable[[], Iterator[Comparison]]] = {
    f"captcha_truth {type.family} {type.name}": partial(truth, type) for type in TYPES.values()
}
