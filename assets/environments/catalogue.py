"""Every app that a session can open: phone apps, web sites, MiniWoB++ pages, desktop programs."""

from __future__ import annotations

from dataclasses import dataclass

from assets.environments.apps import Control, load_specs
from assets.environments.miniwob import HELDOUT, PREFIX, TRAIN, pages, split_of


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
        ParameterError: a spec is broken.
        MissingProgramError: MiniWoB++ is not installed.
    """
    apps = [
        AppInfo(
            id=spec.id,
            platform=spec.platform,
            kind="phone" if spec.platform == "mobile" else "site",
            title=spec.title,
            locale=spec.locale,
            split=spec.split,
            category=spec.category,
            scale=spec.scale,
            source=f"apps/{spec.id}.yaml",
            screens=(*spec.screens, *(f"dialog:{name}" for name in spec.dialogs)),
        )
        for spec in load_specs().values()
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


def _desktop_apps() -> list[AppInfo]:
    from assets.environments.desktop import load_apps, load_programs

    small = [
        AppInfo(
            id=app.id,
            platform="desktop",
            kind="desktop",
            title=app.title,
            locale=app.locale,
            split=app.split,
            category=app.program,
            scale=app.scale,
            source=f"desktop_apps/{app.id}.json",
            screens=tuple(app.windows),
        )
        for app in load_apps()
    ]
    full = [
        AppInfo(
            id=app.id,
            platform="desktop",
            kind="desktop",
            title=app.title,
            locale=app.locale,
            split=app.split,
            category=app.category,
            scale=app.scale,
            source=f"desktop_apps/{app.id}.yaml",
            screens=(),
        )
        for app in load_programs()
    ]
    return [*small, *full]


def hints(app: AppInfo) -> tuple[frozenset[str], dict[str, str]]:
    """For a walk through the app: labels and ids of what leads to other screens, and what to type into its fields."""
    if app.kind == "desktop":
        from assets.environments.desktop import load_apps

        windows = [window for spec in load_apps() if spec.id == app.id for window in spec.windows.values()]
        return frozenset(control.label for window in windows for control in window.controls if control.opens), {}
    if app.kind == "miniwob":
        return frozenset(), {}
    leads: set[str] = set()
    samples: dict[str, str] = {}
    for _, control in load_specs()[app.id].all_controls():
        if control.open or control.dialog:
            leads.update((control.label, control.identity))
        if control.kind in ("field", "search"):
            samples[control.identity] = samples[control.label] = _sample(control)
    return frozenset(leads), samples


def _sample(control: Control) -> str:
    """Something that the field takes."""
    if control.type in ("number", "decimal", "calculator"):
        return f"{int(max(control.minimum or 0, 2 if control.maximum is None else min(2, control.maximum)))}"
    if control.type in ("phone", "dial"):
        return "13800138000"[: control.length or None]
    if control.type == "email":
        return "ada@mail.test"
    if control.type == "pin":
        return "1234567890"[: control.length or 4]
    return "Tea 12"[: control.length or None] if control.type != "password" else "Secret-2468"
