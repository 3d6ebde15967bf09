"""Truth by acting: real clicks in Chromium at and beside what was measured, and what they reach.

Every control of the page gets a listener of its own. The page's own handlers don't run, so that it stays as it was
measured, however many clicks it gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assets.synthetic_samples.capture import InterfacePage, Node

INSET = 0.2
BEYOND = 2

LISTEN = """(controls) => {
  window.fired = [];
  const own = new Map(controls.map((index) => [window.captured[index], index]));
  const innermost = (event) => event.composedPath().find((element) => own.has(element));
  const still = (event) => { event.preventDefault(); event.stopImmediatePropagation(); };
  for (const [element, index] of own) {
    element.addEventListener("click", (event) => {
      if (innermost(event) !== element) return;
      window.fired.push(index);
      still(event);
    }, true);
  }
  // A field that is half out of view is scrolled into it when it gets the focus, and moves all others.
  window.addEventListener("mousedown", (event) => event.preventDefault(), true);
  const scrolled = [...document.querySelectorAll("*")].map((at) => [at, at.scrollLeft, at.scrollTop]);
  window.settle = () => {
    for (const [at, left, top] of scrolled) {
      if (at.scrollLeft !== left || at.scrollTop !== top) at.scrollTo({ left, top, behavior: "instant" });
    }
    return window.fired.splice(0);
  };
  for (const kind of ["pointerdown", "pointerup", "mouseup"]) {
    window.addEventListener(kind, (event) => event.stopImmediatePropagation(), true);
  }
  // A label hands its click on to its control, which the page need not hear of: it closes its menus at any click.
  window.addEventListener("click", (event) => {
    if (innermost(event) !== undefined) return;
    event.stopImmediatePropagation();
    if (!event.composedPath().some((element) => element instanceof HTMLLabelElement)) event.preventDefault();
  }, true);
}"""


@dataclass(frozen=True)
class Clicked:
    """What clicks at the centre and the inset corners reached, and what clicks just outside reached: node indices."""

    target: Node
    inside: tuple[tuple[int, ...], ...]
    outside: tuple[tuple[int, ...], ...]

    @property
    def true(self) -> bool:
        """Whether all clicks in the box, and none outside, triggered the target's own event and no other."""
        return all(hit == (self.target.index,) for hit in self.inside) and all(
            self.target.index not in hit for hit in self.outside
        )


def act(page: InterfacePage, nodes: tuple[Node, ...], targets: tuple[Node, ...]) -> Iterator[Clicked]:
    """Click on targets of the page that was captured last, one after another."""
    page.page.evaluate(LISTEN, [node.index for node in nodes if node.kind == "control"])
    size = page.page.viewport_size
    assert size is not None
    for target in targets:
        outside = [
            (x, y) for x, y in _outside(target) if 0 <= x < size["width"] and 0 <= y < size["height"]
        ]  # fmt: skip
        yield Clicked(
            target,
            tuple(_click(page, x, y) for x, y in _inside(target)),
            tuple(_click(page, x, y) for x, y in outside),
        )


def _inside(target: Node) -> Iterator[tuple[float, float]]:
    x0, y0, x1, y1 = target.box
    for fx, fy in ((0.5, 0.5), (INSET, INSET), (1 - INSET, INSET), (INSET, 1 - INSET), (1 - INSET, 1 - INSET)):
        yield x0 + fx * (x1 - x0), y0 + fy * (y1 - y0)


def _outside(target: Node) -> Iterator[tuple[float, float]]:
    x0, y0, x1, y1 = target.box
    yield x0 - BEYOND, (y0 + y1) / 2
    yield x1 + BEYOND, (y0 + y1) / 2
    yield (x0 + x1) / 2, y0 - BEYOND
    yield (x0 + x1) / 2, y1 + BEYOND


def _click(page: InterfacePage, x: float, y: float) -> tuple[int, ...]:
    page.page.mouse.click(x, y)
    return tuple(page.page.evaluate("window.settle()"))
