"""Scenes: which controls a synthetic screen shows, with what words, where, in which theme; and their HTML.

A scene is drawn by one template. Templates belong to one split: the layouts of held-out screens never occur in
training. About half of the screens are free scatters on a grid, which is what a small model learns to point on.
"""

from __future__ import annotations

import html
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assets.agent.vocabulary import CHINESE, ENGLISH, Locale
from assets.synthetic_samples.themes import Split, Theme, themes_of

SceneLocale = Literal["en", "zh", "mixed"]

GRID = 16
"""Every control starts on this grid, in pixels."""

LINE = 32
"""Height of a line of controls, in pixels. Its text starts 8 pixels in from the left and from the top, so that a word
always lies on the patches of the vision tower in one of four ways: a model of this size learns to read ten times
sooner than when words are centred (docs/tiny_profile.md)."""

TARGETS = (
    "button",
    "outline",
    "link",
    "row",
    "switch",
    "checkbox",
    "radio",
    "tab",
    "nav",
    "tool",
    "field",
    "card",
)
"""Kinds of controls that an instruction can name; `title` can be read but not clicked."""


@dataclass(frozen=True)
class Control:
    """One thing on a screen, in the pixels of the screen. `fill` is its colour in the theme, `on` its state.

    Kinds without a label are ground for others: `bar`, `panel`, and `shade`, which covers the whole screen.
    """

    kind: str
    label: str
    x: int
    y: int
    width: int
    height: int
    fill: int = 0
    on: bool = False


@dataclass(frozen=True)
class Scene:
    """A screen before it is drawn.

    `underlined` screens underline rows and tools, as web pages do. `absent` are words of the screen's language or
    languages that it does not show.
    """

    template: str
    theme: Theme
    underlined: bool
    locale: SceneLocale
    controls: tuple[Control, ...]
    absent: tuple[str, ...]


def draw_scene(
    rng: random.Random,
    split: Split,
    screen: tuple[int, int],
    elements: tuple[int, int],
    scatter_share: float,
    underlined_share: float,
    locales: dict[SceneLocale, float],
) -> Scene:
    """A random scene of a split.

    Args:
        rng: the only source of chance.
        split: decides which templates and themes can occur.
        screen: width and height in pixels.
        elements: fewest and most labelled elements.
        scatter_share: share of scenes in the free layout of the split.
        underlined_share: share of underlined scenes.
        locales: relative weight of each locale.
    """
    free, structured = TEMPLATES[split]
    template = free if rng.random() < scatter_share else rng.choice(structured)
    locale = rng.choices(list(locales), list(locales.values()))[0]
    theme, underlined = rng.choice(themes_of(split)), rng.random() < underlined_share
    order = rng.sample(range(len(ENGLISH)), len(ENGLISH))
    words = [_word(rng, locale, index) for index in order]
    draft = _Draft(rng, *screen, count=rng.randint(*elements), fills=len(theme.fills), words=words)
    template(draft)
    name, absent = template.__name__.strip("_"), tuple(draft.words[draft.used :])
    return Scene(name, theme, underlined, locale, tuple(draft.controls), absent)


def _word(rng: random.Random, locale: SceneLocale, index: int) -> str:
    """The word in the scene's language; a mixed scene shows each meaning in one language only."""
    language: Locale = rng.choice(("en", "zh")) if locale == "mixed" else locale
    return (ENGLISH if language == "en" else CHINESE)[index]


def fits(label: str, width: int) -> bool:
    """Whether a word is shown whole on a control this wide: a narrow one holds five Latin letters."""
    return width >= 80 or len(label) < 6


# --- templates -------------------------------------------------------------------------------------------------------


@dataclass
class _Draft:
    """A scene being laid out: the words still to be used and the controls placed so far, back to front."""

    rng: random.Random
    width: int
    height: int
    count: int
    fills: int
    words: list[str]
    used: int = 0
    controls: list[Control] = field(default_factory=list)

    def word(self, width: int = 80) -> str:
        """The next word that fits a control of this width."""
        place = next(index for index in range(self.used, len(self.words)) if fits(self.words[index], width))
        self.words.insert(self.used, self.words.pop(place))
        self.used += 1
        return self.words[self.used - 1]

    def add(
        self, kind: str, x: int, y: int, width: int, height: int, label: str | None = None, on: bool | None = None
    ) -> None:
        """Place a control; what is not given is drawn."""
        label = self.word(width) if label is None else label
        fill = self.rng.randrange(self.fills)
        on = self.rng.random() < 0.5 if on is None else on
        self.controls.append(Control(kind, label, x, y, width, height, fill, on))

    def ground(self, kind: str, x: int, y: int, width: int, height: int) -> None:
        self.controls.append(Control(kind, "", x, y, width, height))

    def scatter(self, area: tuple[int, int, int, int], count: int) -> None:
        """Put `count` controls of mixed kinds on free places of the grid inside `area` (x, y, width, height)."""
        left, top, width, height = area
        taken: list[tuple[int, int, int, int]] = []
        for _ in range(count):
            label = self.word()
            for _ in range(30):
                kind = self.rng.choices(*_SCATTERED)[0]
                w, h = self.size(kind, label)
                if w > width or h > height:
                    continue
                x = left + GRID * self.rng.randint(0, (width - w) // GRID)
                y = top + GRID * self.rng.randint(0, (height - h) // GRID)
                if all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in taken):
                    taken.append((x, y, w, h))
                    self.add(kind, x, y, w, h, label)
                    break

    def size(self, kind: str, label: str) -> tuple[int, int]:
        """A usual size of a control of this kind, wide enough for its label."""
        long = not fits(label, 64)
        if kind in ("checkbox", "radio", "field"):
            return (112 if kind == "field" or long else 96), LINE
        return (80 if long else self.rng.choice((64, 80))), LINE

    def rows(self, kinds: Sequence[str], x: int, y: int, width: int, count: int, pitch: int = 32) -> None:
        """Rows one below the other, as many as fit."""
        for index in range(min(count, (self.height - y) // pitch)):
            self.add(self.rng.choice(kinds), x, y + index * pitch, width, 32)

    def title(self) -> int:
        """A bar with a title across the top; returns the y below it."""
        self.ground("bar", 0, 0, self.width, 32)
        self.add("title", GRID, 0, self.width - 2 * GRID, 32)
        return 32

    def bar(self, kind: str, y: int, count: int) -> None:
        """A bar across the screen, divided among `count` controls, one of which is on."""
        self.ground("bar", 0, y, self.width, 32)
        pitch, chosen = self.width // count // GRID * GRID, self.rng.randrange(count)
        for index in range(count):
            self.add(kind, index * pitch, y, pitch, 32, on=index == chosen)


_SCATTERED = (("button", "outline", "link", "checkbox", "field"), (66, 16, 6, 6, 6))


def _scatter(draft: _Draft) -> None:
    draft.scatter((0, 0, draft.width, draft.height), draft.count)


def _list(draft: _Draft) -> None:
    y = draft.title()
    draft.rows(("row",), 0, y, draft.width, draft.count)


def _settings(draft: _Draft) -> None:
    y = draft.title() if draft.rng.random() < 0.7 else 0
    draft.rows(draft.rng.choice((("switch",), ("checkbox",), ("switch", "row"))), 0, y, draft.width, draft.count)


def _form(draft: _Draft) -> None:
    top = draft.rng.choice((0, 16))
    fields = min(draft.count - 2, (draft.height - 48 - top) // 48)
    for index in range(fields):
        draft.add("field", 16, top + index * 48, draft.width - 32, 32)
    y = min(top + fields * 48 + draft.rng.choice((0, 16)), draft.height - 32)
    draft.add("button", 16, y, 80, 32)
    draft.add(draft.rng.choice(("outline", "button")), draft.width - 96, y, 80, 32)


def _toolbar(draft: _Draft) -> None:
    tools = draft.rng.choice((2, 3)) if draft.width < 256 else draft.width // 96
    draft.bar("tool", 0, tools)
    draft.scatter((0, 48, draft.width, draft.height - 48), max(draft.count - tools, 2))


def _tabs(draft: _Draft) -> None:
    tabs = draft.rng.choice((2, 3))
    draft.bar("tab", 0, tabs)
    rest = max(draft.count - tabs, 2)
    if draft.rng.random() < 0.5:
        draft.rows(("row", "switch", "checkbox"), 0, 32, draft.width, rest)
    else:
        draft.scatter((0, 48, draft.width, draft.height - 48), rest)


def _navigation(draft: _Draft) -> None:
    y = draft.title() if draft.rng.random() < 0.5 else 0
    rest = max(draft.count - 3, 2)
    if draft.rng.random() < 0.5:
        draft.rows(("row",), 0, y, draft.width, min(rest, (draft.height - 32 - y) // 32))
    else:
        draft.scatter((0, y, draft.width, draft.height - 32 - y), rest)
    draft.bar("nav", draft.height - 32, 3)


def _home(draft: _Draft) -> None:
    width = draft.rng.choice((64, 80))
    columns, top = (draft.width - (0 if width == 64 else 16)) // width, draft.rng.choice((0, 16))
    for index in range(min(draft.count, columns * ((draft.height - top) // 64))):
        draft.add(
            "card", (index % columns) * width + (0 if width == 64 else 16), top + index // columns * 64, width, 64
        )


def _dialog(draft: _Draft) -> None:
    draft.scatter((0, 0, draft.width, draft.height), 4)
    draft.ground("shade", 0, 0, draft.width, draft.height)
    x, y = (draft.width - 160) // 2 // GRID * GRID, (draft.height - 128) // 2 // GRID * GRID
    draft.ground("panel", x, y, 160, 128)
    draft.add("title", x + 16, y, 128, 32)
    kind = draft.rng.choice(("radio", "checkbox"))
    draft.add(kind, x, y + 32, 160, 32)
    draft.add(kind, x, y + 64, 160, LINE)
    draft.add("outline", x, y + 96, 80, LINE)
    draft.add("button", x + 80, y + 96, 80, LINE)


def _stagger(draft: _Draft) -> None:
    """Held out: controls that step left and right down the screen, in two or three lanes."""
    lanes, pitch = draft.rng.choice((2, 3)), draft.rng.choice((32, 48))
    y = draft.rng.choice((0, 16))
    for index in range(draft.count):
        label = draft.word()
        kind = draft.rng.choices(*_SCATTERED)[0]
        width, height = draft.size(kind, label)
        x = (draft.width - width) * (index % lanes) // (lanes - 1) // GRID * GRID
        if pitch == 48 and index % 2:
            y -= 16
        if y + height > draft.height:
            break
        draft.add(kind, x, y, width, height, label)
        y += pitch if height == 32 or pitch == 48 else 32


def _pad(draft: _Draft) -> None:
    """Held out: keys in two or three even columns."""
    columns = draft.rng.choice((2, 3))
    pitch_x, pitch_y = draft.width // columns // GRID * GRID, draft.rng.choice((32, 48))
    y = draft.rng.choice((0, 16, 32))
    for index in range(min(draft.count, columns * ((draft.height - y) // pitch_y))):
        draft.add(
            draft.rng.choices(("button", "outline"), (3, 1))[0],
            (index % columns) * pitch_x + (16 if columns == 2 else 0),
            y + index // columns * pitch_y,
            80 if columns == 2 else 64,
            LINE,
        )


def _inset(draft: _Draft) -> None:
    """Held out: a card of rows that keeps off the edges, and a button below."""
    rows = min(draft.count - 1, (draft.height - 64) // 32)
    draft.ground("panel", 16, 16, draft.width - 32, rows * 32)
    draft.rows(("row", "switch", "checkbox"), 16, 16, draft.width - 32, rows)
    draft.add("button", draft.width // 2 // GRID * GRID - 32, draft.height - 40, 80, 32)


def _sidebar(draft: _Draft) -> None:
    """Held out: a menu down the left side, controls beside it."""
    items = min(draft.rng.choice((2, 3)), draft.count - 2)
    draft.ground("panel", 0, 0, 80, draft.height)
    for index in range(items):
        draft.add("tool", 0, 16 + index * 48, 80, 32)
    draft.scatter((96, 0, draft.width - 96, draft.height), draft.count - items)


def _sheet(draft: _Draft) -> None:
    """Held out: a sheet that slid up over the screen and covers its lower half."""
    draft.scatter((0, 0, draft.width, draft.height), 3)
    draft.ground("shade", 0, 0, draft.width, draft.height)
    options = min(draft.count, 4)
    top = draft.height - 32 * options - 32
    draft.ground("panel", 0, top, draft.width, draft.height - top)
    draft.rows(("row", "radio"), 0, top, draft.width, options - 1)
    draft.add("outline", 16, draft.height - 48, 80, 32)
    draft.add("button", draft.width - 96, draft.height - 48, 80, 32)


Template = Callable[[_Draft], None]

TEMPLATES: dict[Split, tuple[Template, tuple[Template, ...]]] = {
    "train": (_scatter, (_list, _settings, _form, _toolbar, _tabs, _navigation, _home, _dialog)),
    "heldout": (_stagger, (_pad, _inset, _sidebar, _sheet)),
}
"""Split -> its free layout and its structured layouts."""


# --- HTML ------------------------------------------------------------------------------------------------------------


def scene_html(scene: Scene) -> str:
    """The inside of the scene's screen. `SCENE_CSS` gives the look, `scene_style` the colours."""
    return "".join(_control_html(control, scene.theme) for control in scene.controls)


def scene_style(scene: Scene) -> str:
    """The scene's look as CSS variables."""
    return theme_style(scene.theme) + (";--underline:underline" if scene.underlined else "")


def theme_style(theme: Theme) -> str:
    """The theme as CSS variables."""
    return (
        f"--page:{theme.page};--surface:{theme.surface};--ink:{theme.ink};--line:{theme.line};"
        f"--on-fill:{theme.on_fill};--radius:{theme.radius}px"
    )


def _control_html(control: Control, theme: Theme) -> str:
    # Controls keep two pixels off their neighbours, as the cells of a grid do.
    gap = 2 if control.kind in ("button", "outline", "field", "card") else 0
    place = (
        f'class="{control.kind}" data-kind="{control.kind}" style="left:{control.x}px;top:{control.y}px;'
        f"width:{control.width - gap}px;height:{control.height - gap}px;--fill:{theme.fills[control.fill]}"
    )
    label, on = html.escape(control.label), "true" if control.on else "false"
    match control.kind:
        case "bar" | "panel" | "shade":
            return f'<div {place}"></div>'
        case "title":
            return f'<h1 {place}">{label}</h1>'
        case "link":
            return f'<a href="#" {place}">{label}</a>'
        case "field":
            return f'<input readonly {place}" placeholder="{label}" aria-label="{label}">'
        case "switch" | "checkbox" | "radio":
            return f'<button role="{control.kind}" aria-checked="{on}" {place}">{label}<i></i></button>'
        case "tab" | "nav":
            return f'<button role="tab" aria-selected="{on}" {place}">{label}</button>'
        case _:
            return f'<button {place}">{label}<i></i></button>'


SCENE_CSS = """
.screen { background: var(--page); color: var(--ink); }
.screen > * { position: absolute; display: block; margin: 0; padding: 8px 0 0 8px; border: 0; font: inherit;
  line-height: 16px; color: inherit; background: none; text-align: left; white-space: nowrap; overflow: hidden; }
.bar, .panel { background: var(--surface) !important; box-shadow: 0 0 0 1px var(--line); }
.panel { border-radius: var(--radius); }
.shade { background: rgb(0 0 0 / 55%) !important; }
.button, .card { background: var(--fill) !important; color: var(--on-fill) !important; border-radius: var(--radius); }
.outline { background: var(--surface) !important; box-shadow: inset 0 0 0 2px var(--fill);
  border-radius: var(--radius); }
.link { color: var(--fill) !important; text-decoration: underline; }
.row, .tool, .nav { text-decoration: var(--underline, none); }
.row, .switch, .checkbox, .radio { background: var(--surface) !important; box-shadow: inset 0 -1px var(--line); }
.row > i { position: absolute; right: 16px; top: 12px; width: 6px; height: 6px; transform: rotate(45deg);
  border: solid var(--line); border-width: 2px 2px 0 0; }
.checkbox, .radio { padding-left: 40px !important; }
.checkbox > i, .radio > i { position: absolute; left: 10px; top: 8px; width: 12px; height: 12px;
  border: 2px solid var(--fill); border-radius: 3px; box-sizing: content-box; }
.radio > i { border-radius: 50%; }
[aria-checked="true"] > i { background: var(--fill); }
.switch > i { position: absolute; right: 16px; top: 8px; width: 28px; height: 16px; border-radius: 8px;
  background: var(--line); }
.switch > i::after { content: ""; position: absolute; left: 2px; top: 2px; width: 12px; height: 12px;
  border-radius: 50%; background: #fff; }
.switch[aria-checked="true"] > i { background: var(--fill); }
.switch[aria-checked="true"] > i::after { left: 14px; }
.tab[aria-selected="true"] { box-shadow: inset 0 -3px var(--fill); }
.nav { box-shadow: inset 0 1px var(--line); }
.field { padding-bottom: 8px !important; background: var(--surface) !important;
  box-shadow: inset 0 0 0 1px var(--line); border-radius: var(--radius); }
.field::placeholder { color: inherit; opacity: 1; }
.card { padding-top: 40px !important; }
.card > i { position: absolute; left: 8px; top: 10px; width: 20px; height: 20px; border-radius: 6px;
  background: var(--on-fill); opacity: 0.85; }
"""
