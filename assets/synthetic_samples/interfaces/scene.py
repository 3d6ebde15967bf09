"""Interfaces from a seed: a scene is described, then drawn as one HTML document that works.

`describe` chooses domain, platform, persona, locale, theme, density and screen, and which template of the split draws
it; `interface` fills the template with texts of the domain. The document needs no network, shows no time of its own and
moves nothing, so the same seed and description give the same bytes. docs/grounding.md shows how to add a template.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import unescape
from importlib.resources import files
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from assets.agent.vocabulary import Locale
from assets.stage import StageParameters, Weights
from assets.synthetic_samples.interfaces.content import Content
from assets.synthetic_samples.interfaces.lexicon import Text, domain_named, domains, icon_words
from assets.synthetic_samples.interfaces.looks import (
    ICON_SETS,
    Density,
    IconSet,
    icon_set,
    interface_themes,
    theme_named,
)
from assets.synthetic_samples.interfaces.pictures import Pictures
from assets.synthetic_samples.themes import Split

Platform = Literal["phone", "web", "desktop"]
PLATFORMS: tuple[Platform, ...] = ("phone", "web", "desktop")


class SceneParameters(StageParameters):
    """Which scenes to describe.

    Attributes:
        platforms: relative weight of each platform.
        screens: width and height of the screens of each platform, in pixels.
        locales: relative weight of each language.
        densities: relative weight of each density.
        font_sizes: smallest and largest font size in pixels, before scaling.
        overlay_share: share of the scenes that ask a question in front of everything, or have a menu open.
    """

    platforms: Weights[Platform]
    screens: dict[Platform, list[tuple[PositiveInt, PositiveInt]]]
    locales: Weights[Locale]
    densities: Weights[Density]
    font_sizes: tuple[PositiveFloat, PositiveFloat]
    overlay_share: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _has_screens(self) -> SceneParameters:
        lacking = [platform for platform in self.platforms if not self.screens.get(platform)]
        if lacking:
            raise ValueError(f"screens: no screen for {', '.join(lacking)}")
        if self.font_sizes[0] > self.font_sizes[1]:
            raise ValueError("font_sizes: must be a smallest and a largest")
        return self


@dataclass(frozen=True)
class Template:
    """A layout: a file of the folder templates/<split>/. `professional` ones are dense tools of a trade.

    `title` says what it is, for people; `domains` are those it makes sense for, none named means all.
    """

    name: str
    split: Split
    platform: Platform
    professional: bool
    title: str
    domains: tuple[str, ...] = ()


@dataclass(frozen=True)
class SceneDescription:
    """A scene before it is drawn.

    `domain`, `theme`, `template` and `icons` are names of a domain, a theme, a template and an icon set of the split.
    `screen` is width and height in pixels, `font_size` in pixels on that screen, `overlay` whether a dialog or a menu
    lies on top.
    """

    domain: str
    platform: Platform
    persona: Text
    locale: Locale
    theme: str
    density: Density
    screen: tuple[int, int]
    split: Split
    template: str
    icons: str
    font_size: float
    overlay: bool

    def words(self) -> str:
        """The scene in a sentence: `A web dashboard for accounting, used by a bookkeeper ...`."""
        domain = domain_named(self.split, self.domain)
        width, height = self.screen
        tone = "dark" if theme_named(self.theme).dark else "light"
        language = {"en": "English", "zh": "Chinese"}[self.locale]
        return (
            f"{template_named(self.template).title} on a {self.platform} screen of {width}x{height}, "
            f"for {domain.name['en']}, used by: {self.persona['en']}; {language}, {tone} theme {self.theme}, "
            f"{self.density}, {self.font_size:g} px text, {self.icons} icons"
        )


@dataclass(frozen=True)
class Absent:
    """Something plausible that a scene does not show: a label, a function or an icon, in the scene's language.

    `name` is what an instruction would say; for an icon it is what the icon would show.
    """

    kind: Literal["label", "function", "icon"]
    name: str


@dataclass(frozen=True)
class Interface:
    """A drawn scene: a whole HTML document, and what it could have shown but does not."""

    description: SceneDescription
    html: str
    absent: tuple[Absent, ...]


def describe(rng: random.Random, split: Split, parameters: SceneParameters) -> SceneDescription:
    """A random scene of a split."""
    platform = rng.choices(list(parameters.platforms), list(parameters.platforms.values()))[0]
    width, height = rng.choice(parameters.screens[platform])
    template = rng.choice(templates(split, platform))
    fitting = [domain for domain in domains(split) if not template.domains or domain.key in template.domains]
    domain = rng.choice(fitting)
    return SceneDescription(
        domain=domain.key,
        platform=platform,
        persona=rng.choice(domain.personas),
        locale=rng.choices(list(parameters.locales), list(parameters.locales.values()))[0],
        theme=rng.choice(interface_themes(split)).name,
        density=rng.choices(list(parameters.densities), list(parameters.densities.values()))[0],
        screen=(width, height),
        split=split,
        template=template.name,
        icons=rng.choice(ICON_SETS[split]),
        font_size=_font_size(rng, platform, width, parameters.font_sizes),
        overlay=rng.random() < parameters.overlay_share,
    )


def interface_html(rng: random.Random, description: SceneDescription) -> str:
    """The document alone; `interface` gives it together with what it does not show."""
    return interface(rng, description).html


def interface(rng: random.Random, description: SceneDescription) -> Interface:
    """Draw a scene; the same chance and description give the same bytes."""
    theme, icons = theme_named(description.theme), icon_set(description.icons)
    content = Content(rng, description.split, domain_named(description.split, description.domain), description.locale)
    row_height = _ROW_HEIGHT["phone" if description.platform == "phone" else "large", description.density]
    dialog = description.overlay and rng.random() < 0.5
    html = (
        _environment()
        .get_template(f"{description.split}/{description.template}.jinja")
        .render(
            c=content,
            icon=icons.svg,
            pictures=Pictures(rng),
            css=Markup(_read("page.css")),
            script=Markup(_read("page.js")),
            platform=description.platform,
            density=description.density,
            style=theme.style(),
            font_size=f"{description.font_size:g}",
            frame=rng.choice(("left", "dots", "centred")),
            mirrored=rng.random() < 0.25,
            dialog=dialog,
            menu_open=rng.randrange(3) if description.overlay and not dialog else -1,
            wide=description.screen[0] / description.font_size,
            tall=description.screen[1] / description.font_size,
            fit=lambda height: int(height / row_height),
        )
    )
    return Interface(description, html, tuple(_absent(html, content, icons)))


# --- templates -------------------------------------------------------------------------------------------------------

TEMPLATES: tuple[Template, ...] = (
    Template("audio_workstation", "train", "desktop", True, "An audio workstation", ("music",)),
    Template("image_editor", "train", "desktop", True, "An image editor", ("imaging",)),
    Template("spreadsheet", "train", "desktop", True, "A spreadsheet"),
    Template("code_editor", "train", "desktop", True, "A code editor", ("software",)),
    Template("schedule", "train", "desktop", True, "A resource schedule"),
    Template("file_manager", "train", "desktop", False, "A file manager"),
    Template("dashboard", "train", "web", True, "An administration dashboard"),
    Template("record_form", "train", "web", True, "A record with its form"),
    Template("kanban", "train", "web", True, "A task board"),
    Template("mail", "train", "web", False, "A mailbox"),
    Template("shop", "train", "web", False, "A shop", ("retail", "travel", "education")),
    Template("settings", "train", "phone", False, "A settings screen"),
    Template("chat", "train", "phone", False, "A conversation"),
    Template("feed", "train", "phone", False, "A feed of posts"),
    Template("player", "train", "phone", False, "A player", ("music", "education")),
    Template("wallet", "train", "phone", False, "A wallet", ("accounting", "retail", "travel", "home_energy")),
    Template("model_viewer", "heldout", "desktop", True, "A model viewer"),
    Template("query_console", "heldout", "desktop", True, "A database console"),
    Template("monitoring_wall", "heldout", "web", True, "A monitoring wall"),
    Template("week_calendar", "heldout", "web", False, "A week in a calendar"),
    Template("map_sheet", "heldout", "phone", False, "A map with a sheet over it"),
    Template("booking_form", "heldout", "phone", False, "A booking in steps"),
)


def templates(split: Split, platform: Platform) -> tuple[Template, ...]:
    """The templates of a split that draw for a platform."""
    return tuple(template for template in TEMPLATES if (template.split, template.platform) == (split, platform))


def template_named(name: str) -> Template:
    """The template of this name."""
    return next(template for template in TEMPLATES if template.name == name)


_ROW_HEIGHT = {
    ("large", "compact"): 1.65,
    ("large", "regular"): 2.1,
    ("large", "comfortable"): 2.75,
    ("phone", "compact"): 2.6,
    ("phone", "regular"): 3.1,
    ("phone", "comfortable"): 3.7,
}
"""Height of a row in font sizes, as page.css has it; templates fill the screen by it."""


def _font_size(rng: random.Random, platform: Platform, width: int, sizes: tuple[float, float]) -> float:
    """A size in pixels: a phone's pixels are counted against 400 across, a large screen may be scaled or not."""
    if platform == "phone":
        scale = max(width / 400, 0.9)
    else:
        scales = [scale for scale in (1.0, 1.25, 1.5, 2.0) if width / scale >= 1280]
        scale = rng.choices(scales, [3, 1, 1, 1][: len(scales)])[0]
    return round(rng.uniform(*sizes) * scale, 1)


@cache
def _environment() -> Environment:
    folder = files("assets.synthetic_samples.interfaces") / "templates"
    return Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _read(name: str) -> str:
    return (files("assets.synthetic_samples.interfaces") / name).read_text(encoding="utf-8")


# --- what is not shown -----------------------------------------------------------------------------------------------


_CODE = re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL)
_SAID = re.compile(r'>([^<>]+)<|\b(?:aria-label|placeholder|title|value|data-function)="([^"]+)"')
"""What a document says to a person or to an accessibility tree. Templates escape every text, so `<` is markup."""


def _absent(html: str, content: Content, icons: IconSet) -> Iterator[Absent]:
    """What the domain could have shown; nothing whose words occur anywhere on the screen, in any case."""
    page = _CODE.sub("", html)
    said = unescape("\n".join(text or name for text, name in _SAID.findall(page))).casefold()
    shown = set(re.findall(r'data-icon="(\w+)"', page))
    labels, commands = content.plausible()
    for label in dict.fromkeys((*labels, *(command.label for command in commands))):
        if label.casefold() not in said:
            yield Absent("label", label)
    for command in commands:
        worded = command.label.casefold() in said or command.function.casefold() in said
        if command.icon not in shown and not worded:
            yield Absent("function", command.function)
    for icon in dict.fromkeys(command.icon for command in commands):
        # A drawing may stand on the screen without being a control: only what no element draws is absent.
        if icon not in shown and icons.drawings[icon] not in page:
            yield Absent("icon", icon_words()[icon][content.locale])
