"""One browser pass over an interface page: pixels, geometry, accessible names and roles, states, and what is proven.

A page is drawn once, measured by one script (capture.js) and photographed once, however many targets it has. Names and
roles are those of the browser's own accessibility tree. A control becomes a target when a click anywhere in its box,
and none beside it, is a click on it, and when a person can see what it is:

- the nine points of the hit test reach it (visible, in the viewport, in its scroll container, not occluded);
- two pixels outside its box nothing reaches it;
- it is enabled, its text is whole, it draws something and the pixels of its box show it.

The box of text is the box of its letters, not of the block they stand in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from assets.agent.actions import from_pixel, to_pixel
from assets.environments.chromium import STILL_SCRIPT, Chromium, browser, devtools, screenshot
from assets.errors import InfrastructureError
from assets.synthetic_samples.sheets import SMALLEST_SIDE, Box, Pixels, decode_png

if TYPE_CHECKING:
    from playwright.sync_api import Page

Size = tuple[int, int]

CAPTURE_SCRIPT = files("assets.synthetic_samples").joinpath("capture.js").read_text(encoding="utf-8")

PATIENCE = 120.0
"""Seconds after which a browser that draws one page counts as hung; a 4K page takes two seconds."""


@dataclass(frozen=True)
class Group:
    """A part of the page: a region, toolbar, dialog, table, list.

    `parents` are the numbers of the groups around it, from the innermost; `box` is in pixels of the screen.
    """

    role: str
    name: str
    function: str
    parents: tuple[int, ...]
    box: Box
    visible: bool


@dataclass(frozen=True)
class Node:
    """A control, a text or an icon, as the browser laid it out, in document order.

    Attributes:
        index: its place among the nodes of its page.
        role: its computed role; of texts `heading` or `text`, of icons `img`.
        name: its accessible name, which need not be visible.
        texts: what a person reads on it, a string a text node.
        icons: names of the icons on it.
        function: what it is for, in the language of the page.
        state: checked, selected, expanded, pressed and disabled, where it has them, as ARIA writes them.
        groups: numbers of the groups it lies in, from the innermost.
        row: number of the table row or list item that it lies in, or -1.
        heads: number of the list item that it is itself, or -1.
        box: (x0, y0, x1, y1) in whole pixels, rounded inwards.
        fits: all of it is in the viewport and in its scroll containers, and its text is whole.
        hits: how many of the nine points reach it.
        stray: how many of eight points just outside its box reach it; looked for where all nine inside do.
        painted: whether it draws something, and the pixels of its box are not all alike.
    """

    index: int
    kind: Literal["control", "text", "icon"]
    role: str
    name: str
    texts: tuple[str, ...]
    icons: tuple[str, ...]
    function: str
    state: Mapping[str, str]
    value: str
    groups: tuple[int, ...]
    row: int
    heads: int
    box: Box
    fits: bool
    hits: int
    stray: int
    painted: bool

    @property
    def text(self) -> str:
        """All that is written on it."""
        return " ".join(self.texts)

    @property
    def seen(self) -> bool:
        """Whether a person sees all of it."""
        return self.fits and self.hits == 9 and self.painted

    @property
    def target(self) -> bool:
        """Whether a click in its box, and only there, is a click on this control, and a person sees what it is."""
        return self.kind == "control" and self.seen and self.stray == 0 and "disabled" not in self.state


@dataclass(frozen=True, eq=False)
class Capture:
    """A page: its pixels `[height, width, 3]`, its PNG as the browser wrote it, its groups and its nodes."""

    pixels: Pixels
    png: bytes
    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    language: str

    @property
    def size(self) -> Size:
        """Width and height in pixels."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @cached_property
    def targets(self) -> tuple[Node, ...]:
        """The proven controls that coordinates of 0-999 can point at."""
        return tuple(node for node in self.nodes if node.target and _addressable(node.box, self.size))

    @cached_property
    def index(self) -> Mapping[tuple[str, str], Sequence[Node]]:
        """(text, icon, function, name or role; its plain value) -> the nodes that have it, in document order."""
        found: dict[tuple[str, str], list[Node]] = {}
        for node in self.nodes:
            keys = [("text", plain(text)) for text in (*node.texts, node.text)]
            keys += [("icon", icon) for icon in node.icons]
            keys += [("function", plain(node.function)), ("name", plain(node.name)), ("role", node.role)]
            for key in dict.fromkeys(keys):
                if key[1]:
                    found.setdefault(key, []).append(node)
        return found

    @cached_property
    def named_groups(self) -> frozenset[int]:
        """Numbers of the groups whose name is written on the screen, once, and is that of no other group.

        A group in another of the same name doesn't make that ambiguous; the outer one counts.
        """
        outermost: dict[str, list[int]] = {}
        for number, group in enumerate(self.groups):
            name = plain(group.name)
            if name and all(plain(self.groups[parent].name) != name for parent in group.parents):
                outermost.setdefault(name, []).append(number)
        return frozenset(
            numbers[0] for name, numbers in outermost.items() if len(numbers) == 1 and self._written_once(name)
        )

    @cached_property
    def row_titles(self) -> Mapping[int, str]:
        """Number of a table row or list item -> the text that is written first in it, where that is seen."""
        titles: dict[int, str] = {}
        for node in self.nodes:
            row = node.heads if node.heads >= 0 else node.row if node.kind == "text" else -1
            if row >= 0 and node.texts:
                titles.setdefault(row, node.texts[0] if node.fits and (node.heads >= 0 or node.seen) else "")
        return {row: title for row, title in titles.items() if title}

    def _written_once(self, text: str) -> bool:
        titles = [node for node in self.index.get(("text", plain(text)), ()) if node.kind == "text"]
        return len(titles) == 1 and titles[0].seen


def plain(text: str) -> str:
    """What a person takes two texts for one by: case, and a colon or dots at the end, don't count."""
    return text.casefold().strip(" :：…")


class InterfacePage:
    """A browser that captures pages of any size, one after another. After `capture`, `page` still shows the last."""

    def __init__(self, chromium: Chromium) -> None:
        self._chromium = chromium
        self._pages: dict[Size, Page] = {}
        self.page: Page

    def capture(self, html: str, size: Size) -> Capture:
        """Draw a self-contained document on a screen of `size` (width, height) and measure it.

        Raises:
            InfrastructureError: the browser died or hangs.
        """
        self.show(html, size)
        with self._guard("capture an interface"):
            measured: dict[str, Any] = json.loads(self.page.evaluate(CAPTURE_SCRIPT))
            named = accessibility(self.page)
            png = screenshot(self.page)
        pixels = decode_png(png)
        groups = tuple(_group(values, named) for values in measured["groups"])
        nodes = tuple(_node(index, values, pixels, named) for index, values in enumerate(measured["nodes"]))
        return Capture(pixels, png, groups, nodes, measured["language"])

    def show(self, html: str, size: Size) -> None:
        """Draw a document, in a script world of its own: nothing of the page before it is left.

        Raises:
            InfrastructureError: the browser died or hangs.
        """
        if size not in self._pages:
            self._pages[size] = self._chromium.new_page(*size)
        self.page = self._pages[size]
        with self._guard("draw an interface"):
            self.page.goto("about:blank")
            self.page.set_content(html)
            self.page.evaluate(STILL_SCRIPT)

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        """After a failure no page is left: the next one starts the browser again."""
        try:
            with self._chromium.guard(what):
                yield
        except InfrastructureError:
            self._pages.clear()
            raise


@contextmanager
def interface_page() -> Iterator[InterfacePage]:
    """A browser for interface pages, closed at the end of the block.

    Raises:
        MissingProgramError: no Chromium is installed.
    """
    with browser(timeout=PATIENCE) as chromium:
        yield InterfacePage(chromium)


def accessibility(page: Page) -> list[tuple[str, str]]:
    """Role and name that the browser's accessibility tree gives each element, in document order."""
    session = devtools(page)
    told = {}
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        if "backendDOMNodeId" in node:
            name = " ".join(node.get("name", {}).get("value", "").split())
            told[node["backendDOMNodeId"]] = (node["role"]["value"], name)
    root = session.send("DOM.getDocument", {"depth": -1})["root"]
    session.send("DOM.disable")
    found = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node["nodeType"] == ELEMENT_NODE:
            found.append(told.get(node["backendNodeId"], ("none", "")))
        waiting += reversed(node.get("children", ()))
    return found


ELEMENT_NODE = 1


def _group(values: Mapping[str, Any], named: Sequence[tuple[str, str]]) -> Group:
    role, name = named[values["at"]]
    return Group(role, name, values["function"], tuple(values["parents"]), tuple(values["box"]), values["visible"])


def _node(index: int, values: Mapping[str, Any], pixels: Pixels, named: Sequence[tuple[str, str]]) -> Node:
    x0, y0, x1, y1 = box = tuple(values["box"])
    inner = pixels[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
    role, name = named[values["at"]]
    large = x1 - x0 >= SMALLEST_SIDE and y1 - y0 >= SMALLEST_SIDE
    return Node(
        index=index,
        kind=values["kind"],
        role=values["role"] or role,
        name=name if values["name"] is None else values["name"],
        texts=tuple(values["texts"]),
        icons=tuple(values["icons"]),
        function=values["function"],
        state=values["state"],
        value=values["value"],
        groups=tuple(values["groups"]),
        row=values["row"],
        heads=values["heads"],
        box=box,
        fits=values["fits"],
        hits=values["hits"],
        stray=values["stray"],
        painted=values["draws"] and large and bool((inner != inner[:1, :1]).any()),
    )


def _addressable(box: Box, size: Size) -> bool:
    """Whether the point that names the centre of a box lies in the box: coordinates of 0-999 are coarse on 4K."""
    x0, y0, x1, y1 = box
    x, y = to_pixel(from_pixel((x0 + x1) / 2, (y0 + y1) / 2, *size), *size)
    return x0 <= x < x1 and y0 <= y < y1
