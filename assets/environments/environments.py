"""Probe every app on every platform: it starts, draws something, every screen it names is reached by real taps, a reset
leads to the same state and the same picture, and a snapshot brings the same screen back.

Writes `apps.parquet` (one row an app, with what the probe found and its first screen), `catalogue.json` (those that
work, for the stages that follow), a contact sheet and tables of the coverage. An app with a fault is tried again and
then recorded as broken, and why; what is the machine's fault and not the app's is told apart.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from assets.agent.actions import Action, from_pixel
from assets.agent.parameters import AgentParameters
from assets.environments.catalogue import AppInfo, catalogue, hints
from assets.environments.exploration import walk
from assets.environments.phone import PhoneParameters
from assets.environments.session import Session
from assets.environments.task import TaskContract
from assets.environments.trajectory import image_type
from assets.environments.workers import Sessions, spread
from assets.errors import HesperError, InfrastructureError, ParameterError
from assets.stage import Stage, StageParameters, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image


class Processes(StageParameters):
    """How many are at work at once. Browsers keep the processor busy; displays mostly wait for their programs."""

    browsers: PositiveInt
    displays: PositiveInt


class Parameters(StageParameters):
    """What to probe.

    Attributes:
        kinds: which kinds of apps.
        scales: which scales.
        screens: width and height of the screen of full apps, by platform; small ones have `agent.screen`, and pages of
            MiniWoB++ too, which are made for so small a screen.
        most: most apps of each kind, scale and split, in the order of their ids; 0 takes them all.
        attempts: how often a broken probe is tried before the app counts as broken.
        actions: most actions that the walk through one app may take.
        waits: how often to Wait for something to act on, on a screen that begins without.
        seconds: time for one app, after which its browser or display counts as hung.
        least_ink: share of the pixels that must differ from the commonest colour, or the screen counts as blank.
        processes: how many browsers and how many displays are at work at once.
        thumbnail: side of a picture of the contact sheet, in pixels.
    """

    kinds: tuple[Literal["phone", "site", "miniwob", "desktop"], ...]
    scales: tuple[Literal["small", "full"], ...]
    screens: dict[Literal["mobile", "web", "desktop"], tuple[PositiveInt, PositiveInt]]
    most: int
    attempts: PositiveInt
    actions: PositiveInt
    waits: NonNegativeInt
    seconds: PositiveFloat
    least_ink: PositiveFloat
    processes: Processes
    thumbnail: PositiveInt


@dataclass(frozen=True)
class Probe:
    """What a probe found.

    Attributes:
        elements: how many are visible at the start, or after the waits that it took for one to appear.
        digest: of the state then.
        reached: the named screens that real taps led to, in the order they were reached.
        actions: how many the walk took.
        trouble: why the app is not fit for use; empty where it is.
        fault: whose that is, the `app`'s or the `infrastructure`'s.
        screenshot: of the screen then, PNG.
    """

    elements: int = 0
    digest: str = ""
    reached: tuple[str, ...] = ()
    actions: int = 0
    trouble: str = ""
    fault: Literal["", "app", "infrastructure"] = ""
    screenshot: bytes = b""


@dataclass(frozen=True)
class Job:
    """An app to probe, on a screen of this size."""

    app: AppInfo
    size: tuple[int, int]
    parameters: Parameters


def run(stage: Stage[Parameters]) -> None:
    """Probe the apps and write the catalogue.

    Raises:
        InfrastructureError: not one app of a platform works.
    """
    parameters = stage.parameters
    screen = stage.section("agent", AgentParameters).screen
    apps = chosen(catalogue(), parameters)
    # What takes longest comes first, so that the processes end together.
    jobs = sorted(
        (Job(app, screen_of(app, screen, parameters), parameters) for app in apps),
        key=lambda job: (job.app.scale != "full", -len(job.app.screens), job.app.id),
    )
    phone = stage.section("phone", PhoneParameters)

    def kind(job: Job) -> str:
        if job.app.platform == "desktop":
            return "displays"
        return "phone" if job.app.platform == "mobile" and phone.adb else "browsers"

    # A phone that was named is one, and takes one app at a time.
    most = {"phone": 1, **parameters.processes.model_dump()}
    found = spread(jobs, probe_app, screen, most, parameters.attempts, parameters.seconds, lost, phone, kind)
    probes: dict[str, Probe] = {}
    for index, probe in stage.progress(found, "apps", total=len(jobs)):
        probes[jobs[index].app.id] = probe
        if probe.trouble:
            stage.log(f"{jobs[index].app.id}: {probe.trouble} ({probe.fault})")
    results = [(app, probes[app.id]) for app in apps]
    for platform in sorted({app.platform for app in apps}):
        if all(probe.trouble for app, probe in results if app.platform == platform):
            raise InfrastructureError(f"no app works on {platform}; the first: {_first_trouble(results, platform)}")
    rows = [_row(index, app, probe) for index, (app, probe) in enumerate(results)]
    write_parquet(stage.output / "apps.parquet", rows, apps_schema())
    working = [
        {name: value for name, value in row.items() if name not in ("trouble", "fault", "screenshot", "tile")}
        for row in rows
        if not row["trouble"]
    ]
    text = json.dumps(working, ensure_ascii=False, indent=1) + "\n"
    (stage.output / "catalogue.json").write_text(text, encoding="utf-8")
    stage.picture("contact_sheet", contact_sheet([probe.screenshot for _, probe in results], parameters.thumbnail))
    _report(stage, results)


def chosen(apps: Sequence[AppInfo], parameters: Parameters) -> list[AppInfo]:
    """The apps that the parameters ask for."""
    count: Counter[tuple[str, str, str]] = Counter()
    kept = []
    for app in apps:
        group = (app.kind, app.scale, app.split)
        wanted = app.kind in parameters.kinds and app.scale in parameters.scales
        if wanted and (parameters.most == 0 or count[group] < parameters.most):
            count[group] += 1
            kept.append(app)
    return kept


def screen_of(app: AppInfo, small: tuple[int, int], parameters: Parameters) -> tuple[int, int]:
    """Width and height of the screen that the app is probed on."""
    if app.scale == "small" or app.kind == "miniwob":
        return small
    return parameters.screens[app.platform]  # type: ignore[index]


def apps_schema() -> pa.Schema:
    """Arrow schema of the table of apps; `tile` is the place on the contact sheet."""
    import pyarrow as pa

    texts = ("id", "platform", "kind", "title", "locale", "split", "category", "scale", "source")
    return pa.schema(
        [
            *((name, pa.string()) for name in texts),
            *((name, pa.list_(pa.string())) for name in ("screens", "reached")),
            *((name, pa.int32()) for name in ("elements", "actions", "tile")),
            *((name, pa.string()) for name in ("digest", "trouble", "fault")),
            ("screenshot", image_type()),
        ]
    )


def _row(index: int, app: AppInfo, probe: Probe) -> dict[str, Any]:
    found = {**asdict(probe), "reached": list(probe.reached), "tile": index}
    found["screenshot"] = {"bytes": probe.screenshot, "path": f"{app.id}.png"} if probe.screenshot else None
    return {**asdict(app), "screens": list(app.screens), **found}


# --- one app ---------------------------------------------------------------------------------------------------------


def probe_app(sessions: Sessions, job: Job) -> Probe:
    """Probe one app in a session of its platform; what breaks is tried again, on a fresh browser or display."""
    app, parameters = job.app, job.parameters
    for _ in range(parameters.attempts):
        try:
            found = _probe(sessions.get(app.platform, app.id, job.size), job)
        except ParameterError as error:  # its spec is wrong
            found = Probe(trouble=str(error), fault="app")
        except HesperError as error:  # something broke, or is not installed
            found = Probe(trouble=str(error), fault="infrastructure")
        if found.fault != "infrastructure":
            break
    return found


def lost(job: Job, error: InfrastructureError) -> Probe:
    """What is known of an app whose process died or hung, again and again."""
    return Probe(trouble=str(error), fault="infrastructure")


def _probe(session: Session, job: Job) -> Probe:
    app = job.app
    task = TaskContract("probe", app.platform, app.id, app.locale, "", initial_state=_initial(app))
    waits = 0
    session.reset(task)
    while not (elements := [element for element in session.elements() if element.visible]):
        if waits == job.parameters.waits:
            break
        session.act(Action("Wait"))
        waits += 1

    def begin() -> None:
        session.reset(task)
        for _ in range(waits):
            session.act(Action("Wait"))

    first, digest = session.observe(), session.digest()
    known = Probe(len(elements), digest, screenshot=first.png)

    def broken(trouble: str) -> Probe:
        return replace(known, trouble=trouble, fault="app")

    if ink(first.png) < job.parameters.least_ink:
        return broken("the screen is blank")
    if not elements:
        return broken("nothing on the screen can be acted on")
    size = (first.width, first.height)  # a phone that was named has its own
    session.act(Action("Click", point=from_pixel(*elements[0].center, *size)))
    touched, snapshot = (session.observe().png, session.digest()), session.snapshot()
    begin()
    if session.digest() != digest:
        return broken("a reset leads to another state")
    if session.observe().png != first.png:
        return broken("a reset leads to another picture")
    session.restore(snapshot)
    if (session.observe().png, session.digest()) != touched:
        return broken("a snapshot does not come back as it was")
    if app.screens:
        begin()
        done = walk(session, app.screens, hints(app), size, job.parameters.actions)
        known = replace(known, reached=tuple(done.reached), actions=done.actions)
        if len(known.reached) < len(app.screens):
            missing = ", ".join(screen for screen in app.screens if screen not in known.reached)
            return broken(f"not reached by {done.actions} actions: {missing}")
    return known


def _initial(app: AppInfo) -> dict[str, int]:
    return {"seed": 1} if app.kind == "miniwob" else {}


# --- pictures and tables ---------------------------------------------------------------------------------------------


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
    header = ("apps", "work", "screens named", "screens reached", "elements at the start")
    stage.table(
        "coverage",
        ("by", "", *header),
        [(name, value, *counts) for name, key in _GROUPS for value, counts in _coverage(results, key)],
    )
    broken = [(app.id, probe.fault, probe.trouble) for app, probe in results if probe.trouble]
    stage.table("broken", ("app", "fault", "trouble"), broken)
    working = [(app, probe) for app, probe in results if not probe.trouble]
    counts = Counter(app.kind for app, _ in working)
    stage.summary(
        apps=len(working),
        broken=len(broken),
        infrastructure_failures=sum(probe.fault == "infrastructure" for _, probe in results),
        screens=sum(len(app.screens) for app, _ in results),
        screens_reached=sum(len(probe.reached) for _, probe in results),
        categories=len({(app.platform, app.category) for app, _ in working}),
        **{f"apps_{kind}": counts[kind] for kind in sorted(counts)},
    )


_GROUPS: tuple[tuple[str, Callable[[AppInfo], str]], ...] = (
    ("kind, scale", lambda app: f"{app.kind}, {app.scale}"),
    ("platform, language", lambda app: f"{app.platform}, {app.locale}"),
    ("platform, split", lambda app: f"{app.platform}, {app.split}"),
    ("platform, category", lambda app: f"{app.platform}, {app.category}"),
)


def _coverage(
    results: Sequence[tuple[AppInfo, Probe]], key: Callable[[AppInfo], str]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    for value in sorted({key(app) for app, _ in results}):
        group = [(app, probe) for app, probe in results if key(app) == value]
        yield (
            value,
            (
                len(group),
                sum(not probe.trouble for _, probe in group),
                sum(len(app.screens) for app, _ in group),
                sum(len(probe.reached) for _, probe in group),
                sum(probe.elements for _, probe in group),
            ),
        )
