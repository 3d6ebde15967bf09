"""Probe every app on every platform: it starts, draws something, resets to the same state and the same picture, and a
snapshot brings the same screen back. Left out: a walk through every screen of every app, which the tests do.

Writes `catalogue.json` (one entry an app, with what the probe found), a contact sheet and a table of the platforms.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import PositiveFloat, PositiveInt

from assets.agent.actions import Action, from_pixel
from assets.agent.parameters import AgentParameters
from assets.environments.catalogue import AppInfo, catalogue
from assets.environments.session import Session
from assets.environments.task import TaskContract
from assets.environments.workers import Sessions, spread
from assets.errors import InfrastructureError
from assets.stage import Stage, StageParameters

if TYPE_CHECKING:
    from PIL.Image import Image


class Parameters(StageParameters):
    """What to probe.

    Attributes:
        kinds: which kinds of apps.
        most: most apps of each kind and split, in the order of their ids; 0 takes them all.
        attempts: how often a broken probe is tried before the app counts as broken.
        least_ink: share of the pixels that must differ from the commonest colour, or the screen counts as blank.
        processes: browsers and displays at work at once.
        thumbnail: side of a picture of the contact sheet, in pixels.
    """

    kinds: tuple[Literal["phone", "site", "miniwob", "desktop"], ...]
    most: int
    attempts: PositiveInt
    least_ink: PositiveFloat
    processes: PositiveInt
    thumbnail: PositiveInt


@dataclass(frozen=True)
class Probe:
    """What a probe found.

    `elements` are those visible at the start, `digest` that of the initial state, `trouble` why the app is not fit for
    use (empty where it is), `screenshot` the first screen.
    """

    elements: int
    digest: str
    trouble: str
    screenshot: bytes


def run(stage: Stage[Parameters]) -> None:
    """Probe the apps and write the catalogue; apps that failed are in it with their trouble.

    Raises:
        InfrastructureError: not one app of a platform works.
    """
    parameters = stage.parameters
    screen = stage.section("agent", AgentParameters).screen
    apps = chosen(catalogue(), parameters)
    jobs = [(app, parameters) for app in apps]
    probes: dict[int, Probe] = {}
    for index, found in stage.progress(spread(jobs, probe_app, screen, parameters.processes), "apps", total=len(jobs)):
        probes[index] = found
        if found.trouble:
            stage.log(f"{apps[index].id}: {found.trouble}")
    results = [(app, probes[index]) for index, app in enumerate(apps)]
    for platform in sorted({app.platform for app in apps}):
        if all(probe.trouble for app, probe in results if app.platform == platform):
            raise InfrastructureError(f"no app works on {platform}; the first: {_first_trouble(results, platform)}")
    entries = [
        {**asdict(app), "elements": probe.elements, "digest": probe.digest, "trouble": probe.trouble}
        for app, probe in results
    ]
    text = json.dumps([entry for entry in entries if not entry["trouble"]], ensure_ascii=False, indent=1) + "\n"
    (stage.output / "catalogue.json").write_text(text, encoding="utf-8")
    broken = json.dumps([entry for entry in entries if entry["trouble"]], ensure_ascii=False, indent=1) + "\n"
    (stage.output / "broken.json").write_text(broken, encoding="utf-8")
    stage.picture("contact_sheet", contact_sheet([probe.screenshot for _, probe in results], parameters.thumbnail))
    _report(stage, results)


def chosen(apps: Sequence[AppInfo], parameters: Parameters) -> list[AppInfo]:
    """The apps that the parameters ask for."""
    count: Counter[tuple[str, str]] = Counter()
    kept = []
    for app in apps:
        group = (app.kind, app.split)
        if app.kind in parameters.kinds and (parameters.most == 0 or count[group] < parameters.most):
            count[group] += 1
            kept.append(app)
    return kept


def probe_app(sessions: Sessions, job: tuple[AppInfo, Parameters]) -> Probe:
    """Probe one app in a session of its platform; what breaks is tried again on a fresh browser or display."""
    app, parameters = job
    session = sessions.get(app.platform, app.id)
    task = TaskContract("probe", app.platform, app.id, app.locale, "", initial_state=_initial(app))
    for _ in range(parameters.attempts):
        try:
            found = _probe(session, task, parameters.least_ink)
        except InfrastructureError as error:
            found = Probe(0, "", str(error), b"")
        if not found.trouble:
            break
    return found


def _probe(session: Session, task: TaskContract, least_ink: float) -> Probe:
    session.reset(task)
    first, digest = session.observe(), session.digest()
    elements = [element for element in session.elements() if element.visible]

    def found(trouble: str) -> Probe:
        return Probe(len(elements), digest, trouble, first.png)

    if ink(first.png) < least_ink:
        return found("the screen is blank")
    if not elements:
        return found("nothing on the screen can be acted on")
    session.act(Action("Click", point=from_pixel(*elements[0].center, first.width, first.height)))
    touched, snapshot = (session.observe().png, session.digest()), session.snapshot()
    session.reset(task)
    if session.digest() != digest:
        return found("a reset leads to another state")
    if session.observe().png != first.png:
        return found("a reset leads to another picture")
    session.restore(snapshot)
    if (session.observe().png, session.digest()) != touched:
        return found("a snapshot does not come back as it was")
    return found("")


def _initial(app: AppInfo) -> dict[str, int]:
    return {"seed": 1} if app.kind == "miniwob" else {}


def ink(png: bytes) -> float:
    """The share of pixels that are not of the picture's commonest colour."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        colors = image.convert("RGB").getcolors(image.width * image.height)
        return 1 - max(count for count, _ in colors or [(0, 0)]) / (image.width * image.height)


def contact_sheet(screenshots: Sequence[bytes], side: int, across: int = 12) -> Image:
    """All pictures in rows, each fitted into a square of `side` pixels; an empty square where there is none."""
    from PIL import Image

    gap = 4
    rows = -(-len(screenshots) // across)
    sheet = Image.new("RGB", (across * (side + gap) + gap, rows * (side + gap) + gap), "#808080")
    for index, png in enumerate(screenshots):
        if not png:
            continue
        with Image.open(io.BytesIO(png)) as image:
            small = image.convert("RGB")
        small.thumbnail((side, side))
        sheet.paste(small, (gap + index % across * (side + gap), gap + index // across * (side + gap)))
    return sheet


def _first_trouble(results: Sequence[tuple[AppInfo, Probe]], platform: str) -> str:
    return next(f"{app.id}: {probe.trouble}" for app, probe in results if app.platform == platform and probe.trouble)


def _report(stage: Stage[Parameters], results: Sequence[tuple[AppInfo, Probe]]) -> None:
    groups: dict[tuple[str, str, str], list[tuple[AppInfo, Probe]]] = {}
    for app, probe in results:
        groups.setdefault((app.kind, app.split, app.locale), []).append((app, probe))
    stage.table(
        "coverage",
        ("kind", "split", "language", "apps", "work", "screens", "elements at the start"),
        [
            (
                *key,
                len(group),
                sum(not probe.trouble for _, probe in group),
                sum(app.screens for app, _ in group),
                sum(probe.elements for _, probe in group),
            )
            for key, group in sorted(groups.items())
        ],
    )
    counts = Counter(app.kind for app, probe in results if not probe.trouble)
    stage.summary(
        apps=sum(counts.values()),
        broken=sum(bool(probe.trouble) for _, probe in results),
        **{f"apps_{kind}": counts[kind] for kind in sorted(counts)},
    )
