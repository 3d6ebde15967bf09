"""Oracles for MiniWoB++ pages: what somebody who knows the page does, as real actions with the boxes they aim at.

An oracle is a generator of moves that looks at the page anew before each of them. Only pages on which it always earned
its reward (a test holds it to that) are listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from assets.agent.actions import Action, from_pixel, render_response
from assets.agent.observation import Box, Observation
from assets.environments.miniwob import PREFIX, TICK_MS, MiniwobSession
from assets.environments.session import Element
from assets.errors import InfrastructureError

Move = tuple[Action, tuple[Box, ...]]
"""An action and the boxes of its coordinates."""


class MiniwobOracle:
    """The oracle as a policy of one session. A new episode is one without a history."""

    name = "oracle"

    def __init__(self, session: MiniwobSession, digits: int = 0) -> None:
        self._scene = Scene(session)
        self._digits = digits
        self._moves: Iterator[Move] = iter(())
        self._targets: tuple[Box, ...] = ()

    def respond(self, observations: Sequence[Observation]) -> list[str]:
        """The next move; a name of what is acted on is its thought."""
        (observation,) = observations
        if not observation.history:
            self._moves = ORACLES[self._scene.page](self._scene)
        action, self._targets = next(self._moves, (Action("Finished", content=""), ()))
        return [render_response(None, [action], self._digits)]

    def targets(self) -> list[list[Box]]:
        """The boxes of the last move."""
        return [list(self._targets)]


class Scene:
    """What an oracle works with: the page's instruction, its elements and moves on them."""

    def __init__(self, session: MiniwobSession) -> None:
        self._session = session

    @property
    def page(self) -> str:
        """The page's name."""
        return str(self._session.state()["page"])

    @property
    def utterance(self) -> str:
        """The page's instruction."""
        return str(self._session.state()["utterance"])

    def quoted(self) -> list[str]:
        """The words in double quotes of the instruction."""
        return re.findall(r'"([^"]*)"', self.utterance)

    def all(self, label: str | None = None, kind: str = "", identity: str = "") -> list[Element]:
        """Visible elements with this label, of a kind that holds `kind`, with this id."""
        return [
            element
            for element in self._session.elements()
            if element.visible
            and (label is None or element.label == label)
            and kind in element.kind
            and (not identity or element.id == identity)
        ]

    def one(self, label: str | None = None, kind: str = "", identity: str = "") -> Element:
        """The first such element.

        Raises:
            InfrastructureError: there is none: the page is not as it should be.
        """
        found = self.all(label, kind, identity)
        if not found:
            raise InfrastructureError(f"{PREFIX}{self.page}: no element {label!r} {kind} {identity}")
        return found[0]

    def text(self, css: str) -> str:
        """The text of the first element that a CSS selector names."""
        return str(self._session.page.locator(css).first.inner_text())

    def texts(self, css: str) -> list[str]:
        """The texts of all elements that a CSS selector names."""
        return [str(text) for text in self._session.page.locator(css).all_inner_texts()]

    def box(self, css: str) -> Box:
        """The box of the first element that a CSS selector names, on the session's screen."""
        found = self._session.page.locator(css).first.bounding_box()
        if found is None:
            raise InfrastructureError(f"{PREFIX}{self.page}: nothing at {css}")
        y = found["y"] - self._session.above
        return (found["x"], y, found["x"] + found["width"], y + found["height"])

    def boxes(self, css: str) -> list[Box]:
        """The boxes of all elements that a CSS selector names, on the session's screen, in document order."""
        above = self._session.above
        found = self._session.page.evaluate(_BOXES, css)
        return [(x0, y0 - above, x1, y1 - above) for x0, y0, x1, y1 in found]

    def wait(self) -> Move:
        """Let time pass."""
        return Action("Wait"), ()

    def hover(self, box: Box) -> Move:
        """The mouse into the middle."""
        return Action("Hover", point=self.middle(box)), (box,)

    def drag(self, start: Box, end: Box) -> Move:
        """From the middle of one to the middle of another."""
        return Action("Drag", point=self.middle(start), end=self.middle(end)), (start, end)

    def middle(self, box: Box) -> tuple[int, int]:
        """The middle of a box as coordinates of an action."""
        return from_pixel((box[0] + box[2]) / 2, (box[1] + box[3]) / 2, *self._session.size)

    def click(self, target: Element | Box) -> Move:
        """A click into the middle."""
        box = target.box if isinstance(target, Element) else target
        return Action("Click", point=self.middle(box)), (box,)

    def click_bare(self, label: str, kind: str) -> Move:
        """A click on the part nearest to the middle of an element that others may partly cover."""
        found = [element for element in self._session.elements() if element.label == label and kind in element.kind]
        for element in found:
            x0, y0, x1, y1 = element.box
            shift = self._session.page.evaluate(_BARE, [x0, y0 + self._session.above, x1, y1 + self._session.above])
            if shift is not None:
                x, y = x0 + shift[0] * (x1 - x0), y0 + shift[1] * (y1 - y0)
                return Action("Click", point=from_pixel(x, y, *self._session.size)), (element.box,)
        raise InfrastructureError(f"{PREFIX}{self.page}: no part of {label!r} can be clicked")

    def type(self, text: str) -> Move:
        """Text into the focused field."""
        return Action("Type", content=text), ()


_BARE = """([x0, y0, x1, y1]) => {
  const shares = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9];
  const owner = [...document.querySelectorAll("button")].find((button) => {
    const box = button.getBoundingClientRect();
    return box.left === x0 && box.top === y0 && box.right === x1 && box.bottom === y1;
  });
  const places = shares.flatMap((fx) => shares.map((fy) => [fx, fy]));
  places.sort((a, b) => Math.hypot(a[0] - 0.5, a[1] - 0.5) - Math.hypot(b[0] - 0.5, b[1] - 0.5));
  const bare = ([fx, fy]) => document.elementFromPoint(x0 + fx * (x1 - x0), y0 + fy * (y1 - y0)) === owner;
  return places.find(bare) ?? null;
}"""

_BOXES = """(css) => [...document.querySelectorAll(css)].map((element) => {
  const box = element.getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom];
})"""

Oracle = Callable[[Scene], Iterator[Move]]


def _click_only_button(scene: Scene) -> Iterator[Move]:
    yield scene.click(scene.one(kind="button"))


def _click_named(scene: Scene) -> Iterator[Move]:
    yield scene.click(scene.one(scene.quoted()[0], "button"))


def _click_word(scene: Scene) -> Iterator[Move]:
    for word in re.findall(r"button ([A-Z]+)", scene.utterance):
        yield scene.click_bare(word, "button")


def _click_link(scene: Scene) -> Iterator[Move]:
    yield scene.click(scene.one(scene.quoted()[0], "span"))


def _close_dialog(scene: Scene) -> Iterator[Move]:
    yield scene.click(scene.one("Close", "button"))


def _click_in_dialog(scene: Scene) -> Iterator[Move]:
    label = scene.quoted()[0]
    yield scene.click(scene.one("Close" if label == "x" else label, "button"))


def _focus(scene: Scene) -> Iterator[Move]:
    ordinal = re.search(r"(\d)(st|nd|rd|th)", scene.utterance)
    fields = scene.all(kind="input:text")
    yield scene.click(fields[int(ordinal[1]) - 1 if ordinal else 0])


def _click_tab(scene: Scene) -> Iterator[Move]:
    yield scene.click(scene.one(scene.utterance.removeprefix("Click on ").removesuffix("."), "presentation"))


def _select_labels(scene: Scene) -> Iterator[Move]:
    wanted = scene.utterance.removeprefix("Select ").removesuffix(" and click Submit.")
    for label in [] if wanted == "nothing" else wanted.split(", "):
        yield scene.click(scene.one(label, "label"))
    yield scene.click(scene.one("Submit", "button"))


def _enter_text(scene: Scene) -> Iterator[Move]:
    yield scene.click(scene.one(kind="input:text"))
    yield scene.type(scene.quoted()[0])
    yield scene.click(scene.one("Submit", "button"))


def _enter_cased(scene: Scene) -> Iterator[Move]:
    text = scene.quoted()[0]
    yield scene.click(scene.one(kind="input:text"))
    yield scene.type(text.upper() if "upper" in scene.utterance else text.lower())
    yield scene.click(scene.one("Submit", "button"))


def _enter_password(scene: Scene) -> Iterator[Move]:
    password = scene.quoted()[0]
    for field in ("password", "verify"):
        yield scene.click(scene.one(identity=field))
        yield scene.type(password)
    yield scene.click(scene.one("Submit", "button"))


def _login(scene: Scene) -> Iterator[Move]:
    for field, text in zip(("username", "password"), scene.quoted(), strict=True):
        yield scene.click(scene.one(identity=field))
        yield scene.type(text)
    yield scene.click(scene.one("Login", "button"))


def _click_color(scene: Scene) -> Iterator[Move]:
    color = re.findall(r"on the (.*) colored", scene.utterance)[0]
    yield scene.click(scene.box(f'.color[data-color*="{color}"]'))


def _click_widget(scene: Scene) -> Iterator[Move]:
    kinds = {
        "button": "button",
        "checkbox": "input:checkbox",
        "radio": "input:radio",
        "text": "input:text",
        "textarea": "textarea",
    }
    yield scene.click(scene.one(kind=kinds[scene.quoted()[0]]))


def _expand(scene: Scene) -> Iterator[Move]:
    yield scene.click(scene.one(kind="tab", identity="ui-id-1"))
    yield scene.click(scene.one("Submit", "button"))


def _grid(scene: Scene) -> Iterator[Move]:
    coordinate = re.findall(r"\(.*\)", scene.utterance)[0]
    yield scene.click(scene.box(f'circle[id="{coordinate}"]'))


def _read_table(scene: Scene) -> Iterator[Move]:
    name = re.findall(r"value of (.*) into", scene.utterance)[0]
    cells = [element.label for element in scene.all(kind="td")]
    yield scene.click(scene.one(kind="input:text"))
    yield scene.type(cells[cells.index(name) + 1])
    yield scene.click(scene.one("Submit", "button"))


def _find_word(scene: Scene) -> Iterator[Move]:
    ordinal = int(re.findall(r"the (\d+)", scene.utterance)[0])
    words = re.findall(r"[A-Za-z]+", scene.text("#area p"))
    yield scene.click(scene.one(kind="input:text"))
    yield scene.type(words[ordinal - 1])
    yield scene.click(scene.one("Submit", "button"))


def _arithmetic(scene: Scene) -> Iterator[Move]:
    left, sign, right = re.findall(r"(-?\d+)\s*([-+x×*])\s*(-?\d+)", scene.text("#math-problem"))[0]
    a, b = int(left), int(right)
    yield scene.click(scene.one(kind="input"))
    yield scene.type(str({"+": a + b, "-": a - b}.get(sign, a * b)))
    yield scene.click(scene.one("Submit", "button"))


def _identify(scene: Scene) -> Iterator[Move]:
    shape = scene.one(kind="", identity="0")
    names = {"circle": "Circle", "rect": "Rectangle", "polygon": "Triangle"}
    name = names.get(shape.kind, "Number" if shape.label.isdigit() else "Letter")
    yield scene.click(scene.one(name, "button"))


def _choose(scene: Scene) -> Iterator[Move]:
    wanted = re.findall(r"Select (.*) from the list", scene.utterance)[0]
    field = scene.one(kind="select")
    yield scene.click(field)
    yield Action("SelectOption", index=field.label.split("\n").index(wanted)), ()
    yield scene.click(scene.one("Submit", "button"))


def _tabs_with_link(scene: Scene) -> Iterator[Move]:
    word = scene.quoted()[0]
    tabs = [element.label for element in scene.all(kind="presentation")]
    for number, tab in enumerate(tabs):
        if number > 0:
            yield scene.click(scene.one(tab, "presentation"))
        if scene.all(word, "span"):
            yield scene.click(scene.one(word, "span"))


def _click_tree(scene: Scene) -> Iterator[Move]:
    word = scene.quoted()[0]
    while not scene.all(word, "span"):
        # Only the sign beside a folder opens it: a click on a name is an answer.
        yield scene.click(scene.box(".expandable-hitarea:visible"))
    box = scene.one(word, "span").box
    yield scene.click((box[0], box[1], box[0] + 24, box[3]))


# --- pages in full size, of which the whole window must be on the screen ---------------------------------------------


def _ascending(scene: Scene) -> Iterator[Move]:
    # The numbers are covered after the first click.
    for box in scene.boxes("svg text"):
        yield scene.click(box)


def _press_after_delay(scene: Scene) -> Iterator[Move]:
    seconds = int(re.findall(r"wait (\d+) second", scene.utterance)[0])
    yield scene.click(scene.box("#subbtn"))
    for _ in range(seconds * 1000 // TICK_MS - 1):
        yield scene.wait()
    yield scene.click(scene.box("#subbtn2"))


def _follow_circle(scene: Scene) -> Iterator[Move]:
    while scene.boxes("#circ"):
        yield scene.hover(scene.box("#circ"))


def _hit_circles(scene: Scene) -> Iterator[Move]:
    while True:
        inside = [box for box in scene.boxes(".item") if box[0] > 0 and box[2] < 160 and box[1] > 0 and box[3] < 160]
        yield scene.click(inside[0]) if inside else scene.wait()


def _repeat_flashes(scene: Scene) -> Iterator[Move]:
    flashes: list[str] = []
    lit, dark = "", 0
    while not flashes or dark < 4:
        now = next((number for number in "1234" if scene.boxes(f"#button-{number}.push")), "")
        if now and not lit:
            flashes.append(now)
        lit, dark = now, 0 if now else dark + 1
        yield scene.wait()
    for number in flashes:
        yield scene.click(scene.box(f"#button-{number}"))


def _buy_low(scene: Scene) -> Iterator[Move]:
    limit = float(re.findall(r"less than \$([\d.]+\d)", scene.utterance)[0])
    while True:
        price = scene.text("#stock-price").lstrip("$")
        yield scene.click(scene.box("#buy")) if price and float(price) <= limit else scene.wait()


def _copy_letters(scene: Scene) -> Iterator[Move]:
    letters = "".join(scene.text("#captcha").split())
    yield scene.click(scene.box("#tt"))
    yield scene.type(letters)
    yield scene.click(scene.box("#subbtn"))


def _odd_or_even(scene: Scene) -> Iterator[Move]:
    numbers = [int(text) for text in scene.texts(".display-number")]
    for number, odd, even in zip(numbers, scene.boxes(".odd"), scene.boxes(".even"), strict=True):
        yield scene.click(odd if number % 2 else even)
    yield scene.click(scene.box("#submit"))


def _enter_parts(scene: Scene) -> Iterator[Move]:
    # The parts of a date or a time take digits one after another; a click at the left edge starts with the first.
    x0, y0, _, y1 = scene.box("#tt")
    parts = re.findall(r"\d+", scene.utterance)
    half = "P" if "PM" in scene.utterance else "A" if "AM" in scene.utterance else ""
    yield scene.click((x0, y0, x0 + 24, y1))
    yield scene.type("".join(part.zfill(2) for part in parts) + half)
    yield scene.click(scene.box("#subbtn"))


def _drag_inside(scene: Scene) -> Iterator[Move]:
    yield scene.drag(scene.box("#draggableSmall"), scene.box("#draggableLarge"))
    yield scene.click(scene.box("#subbtn"))


ORACLES: dict[str, Oracle] = {
    "ascending-numbers": _ascending,
    "button-delay": _press_after_delay,
    "chase-circle": _follow_circle,
    "drag-box": _drag_inside,
    "enter-date": _enter_parts,
    "enter-time": _enter_parts,
    "moving-items": _hit_circles,
    "odd-or-even": _odd_or_even,
    "simon-says": _repeat_flashes,
    "stock-market": _buy_low,
    "text-transform": _copy_letters,
    "choose-list": _choose,
    "click-button": _click_named,
    "click-button-sequence": _click_word,
    "click-checkboxes": _select_labels,
    "click-checkboxes-large": _select_labels,
    "click-checkboxes-transfer": _select_labels,
    "click-collapsible": _expand,
    "click-collapsible-nodelay": _expand,
    "click-color": _click_color,
    "click-dialog": _close_dialog,
    "click-dialog-2": _click_in_dialog,
    "click-link": _click_link,
    "click-option": _select_labels,
    "click-tab": _click_tab,
    "click-tab-2-easy": _tabs_with_link,
    "click-test": _click_only_button,
    "click-test-2": _click_word,
    "click-test-transfer": _click_word,
    "click-widget": _click_widget,
    "enter-password": _enter_password,
    "enter-text": _enter_text,
    "enter-text-2": _enter_cased,
    "enter-text-dynamic": _enter_text,
    "find-word": _find_word,
    "focus-text": _focus,
    "focus-text-2": _focus,
    "grid-coordinate": _grid,
    "identify-shape": _identify,
    "login-user": _login,
    "navigate-tree": _click_tree,
    "read-table": _read_table,
    "simple-arithmetic": _arithmetic,
    "unicode-test": _click_named,
}
"""Page -> oracle."""
