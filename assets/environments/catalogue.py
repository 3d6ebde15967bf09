"""Every app that a session can open: phone apps, web sites, MiniWoB++ pages, desktop programs."""

from __future__ import annotations

from dataclasses import dataclass

from assets.environments.apps import load_specs
from assets.environments.miniwob import HELDOUT, PREFIX, TRAIN, split_of


@dataclass(frozen=True)
class AppInfo:
    """An app.

    Attributes:
        id: what a task contract calls it.
        kind: phone, site, miniwob or desktop.
        source: the spec or page it comes from, a path below the environments folder or the package.
        screens: how many screens or windows its spec names (1 for a page).
    """

    id: str
    platform: str
    kind: str
    title: str
    locale: str
    split: str
    category: str
    source: str
    screens: int


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
            source=f"apps/{spec.id}.yaml",
            screens=len(spec.screens) + len(spec.dialogs),
        )
        for spec in load_specs().values()
    ]
    apps += [
        AppInfo(PREFIX + page, "web", "miniwob", page, "en", split_of(page), "miniwob", f"miniwob/{page}.html", 1)
        for page in (*TRAIN, *HELDOUT)
    ]
    apps += _desktop_apps()
    return sorted(apps, key=lambda app: (app.platform, app.id))


def _desktop_apps() -> list[AppInfo]:
    from assets.environments.desktop import load_apps

    return [
        AppInfo(
            id=app.id,
            platform="desktop",
            kind="desktop",
            title=app.title,
            locale=app.locale,
            split=app.split,
            category=app.program,
            source=f"desktop_apps/{app.id}.json",
            screens=max(len(app.windows), 1),
        )
        for app in load_apps()
    ]
