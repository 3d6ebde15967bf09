"""Every app that a session can open: phone apps, web sites, MiniWoB++ pages, desktop programs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from assets.environments.apps import Control, find_spec, load_heads
from assets.environments.exploration import Hints
from assets.environments.miniwob import HELDOUT, PREFIX, TRAIN, pages, split_of
from assets.errors import ParameterError


@dataclass(frozen=True)
class AppInfo:
    """An app.

    Attributes:
        id: what a task contract calls it.
        kind: phone, site, miniwob or desktop.
        scale: small (made for the small model: a closed vocabulary, a small screen) or full.
        source: the spec or page it comes from, a path below the environments folder or the package.
        screens: what its spec names: screens and `dialog:<name>`, or windows (none for a page or a full program).
    """

    id: str
    platform: str
    kind: str
    title: str
    locale: str
    split: str
    category: str
    scale: str
    source: str
    screens: tuple[str, ...]


def catalogue() -> list[AppInfo]:
    """Every app, sorted by platform and id.

    Raises:
        ParameterError: the head of a spec is broken.
        MissingProgramError: MiniWoB++ is not installed.
    """
    apps = [
        AppInfo(
            id=head.id,
            platform=head.platform,
            kind="phone" if head.platform == "mobile" else "site",
            title=head.title,
            locale=head.locale,
            split=head.split,
            category=head.category,
            scale=head.scale,
            source=f"apps/{head.id}.yaml",
            screens=_screens(head.id),
        )
        for head in load_heads().values()
    ]
    apps += [
        AppInfo(
            id=PREFIX + page,
            platform="web",
            kind="miniwob",
            title=page,
            locale="en",
            split=split_of(page),
            category="miniwob",
            scale="small" if page in (*TRAIN, *HELDOUT) else "full",
            source=f"miniwob/{page}.html",
            screens=(),
        )
        for page in pages()
    ]
    apps += _desktop_apps()
    return sorted(apps, key=lambda app: (app.platform, app.id))


def _screens(app: str) -> tuple[str, ...]:
    """The places that an app's spec names. Of a broken spec, none: who opens the app is told what is wrong with it."""
    try:
        spec = find_spec(app)
    except ParameterError:
        return ()
    return (*spec.screens, *(f"dialog:{name}" for name in spec.dialogs))


def desktop_programs() -> list[AppInfo]:
    """The full desktop programs, sorted by id."""
    return sorted((app for app in _desktop_apps() if app.scale == "full"), key=lambda app: app.id)


def _desktop_apps() -> list[AppInfo]:
    from assets.environments.desktop import DesktopApp, ProgramSpec, load_apps, load_programs

    apps: list[tuple[DesktopApp | ProgramSpec, str, str, tuple[str, ...]]]
    apps = [(app, app.program, "json", tuple(app.windows)) for app in load_apps()]
    apps += [(app, app.category, "yaml", ()) for app in load_programs()]
    return [
        AppInfo(
            id=app.id,
            platform="desktop",
            kind="desktop",
            title=app.title,
            locale=app.locale,
            split=app.split,
            category=category,
            scale=app.scale,
            source=f"desktop_apps/{app.id}.{ending}",
            screens=screens,
        )
        for app, category, ending, screens in apps
    ]


def hints(app: AppInfo) -> Hints:
    """What the app's spec says about the way to its screens."""
    if app.kind == "miniwob":
        return Hints()
    if app.kind == "desktop":
        from assets.environments.desktop import load_apps

        windows = [window for spec in load_apps() if spec.id == app.id for window in spec.windows.values()]
        opens = {c.label: frozenset({c.opens}) for window in windows for c in window.controls if c.opens}
        return Hints(opens)
    taps: defaultdict[str, set[str]] = defaultdict(set)
    holds: defaultdict[str, set[str]] = defaultdict(set)
    samples: dict[str, str] = {}
    ways: defaultdict[str, set[str]] = defaultdict(set)
    spec = find_spec(app.id)
    for place, control in spec.all_controls():
        if control.open:
            ways[place].add(control.open)
        for dialog in (control.dialog, control.hold):
            if dialog:
                ways[place].add(f"dialog:{dialog}")
        for name in (control.label, control.identity):
            if control.open:
                taps[name].add(control.open)
            if control.dialog:
                taps[name].add(f"dialog:{control.dialog}")
            if control.hold:
                holds[name].add(f"dialog:{control.hold}")
            if control.kind in ("field", "search"):
                samples[name] = _sample(control)
    taps["@menu"].update(control.open for control in spec.navigation if control.open)
    return Hints(
        {name: frozenset(places) for name, places in taps.items()},
        {name: frozenset(places) for name, places in holds.items()},
        samples,
        {place: frozenset(places) for place, places in ways.items()},
    )


def _sample(control: Control) -> str:
    """Something that the field takes."""
    if control.type in ("number", "decimal", "calculator"):
        number = int(max(control.minimum or 0, 2 if control.maximum is None else min(2, control.maximum)))
        return str(number).ljust(control.length, "0")
    if control.type in ("phone", "dial"):
        return "13800138000"[: control.length or None]
    if control.type == "email":
        return "ada@mail.test"
    if control.type == "pin":
        return "1234567890"[: control.length or 4]
    return "Secret-2468" if control.type == "password" else "Tea 12".ljust(control.length, "a")
