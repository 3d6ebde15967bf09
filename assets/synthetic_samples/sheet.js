// Draw a sheet of screens and measure what can be clicked on each: candidates from the page's semantics, boxes from
// its layout, and the nine-point hit test. Returns, as JSON, a list for each screen of
// [label, kind, [x0, y0, x1, y1], hits, fits].
(sheet) => {
  document.body.innerHTML = sheet;
  const candidates = "button, input, a[href], [role], h1";

  // A piece of text is clicked on its text, a control anywhere on it.
  const boxOf = (element) =>
    element.matches("a[href], h1") ? textBox(element) : element.getBoundingClientRect();
  const textBox = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element.firstChild ?? element);
    return range.getBoundingClientRect();
  };

  // A place that is only marked for a proof is not covered by the mark of another.
  const topAt = (element, x, y) => {
    if (element.dataset.proof === undefined) return document.elementFromPoint(x, y);
    const others = (other) => other === element || other.dataset.proof === undefined;
    return document.elementsFromPoint(x, y).find(others) ?? null;
  };

  // Nine points, the outer ones a tenth inside the box: each must reach the element itself.
  const hitsOf = (element, box) => {
    let hits = 0;
    for (const fx of [0.1, 0.5, 0.9]) {
      for (const fy of [0.1, 0.5, 0.9]) {
        const top = topAt(element, box.left + fx * box.width, box.top + fy * box.height);
        if (top !== null && element.contains(top)) hits += 1;
      }
    }
    return hits;
  };

  const measure = (screen) => {
    const frame = screen.getBoundingClientRect();
    return [...screen.querySelectorAll(candidates)].map((element) => {
      const whole = element.getBoundingClientRect();
      const box = boxOf(element);
      const text = element.hasAttribute("aria-label") ? whole : textBox(element);
      const inside =
        box.left >= frame.left && box.top >= frame.top && box.right <= frame.right && box.bottom <= frame.bottom;
      const visible = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
      return [
        element.getAttribute("aria-label") ?? element.textContent.trim(),
        element.dataset.kind,
        [box.left - frame.left, box.top - frame.top, box.right - frame.left, box.bottom - frame.top],
        inside && visible ? hitsOf(element, box) : 0,
        text.left >= whole.left && text.right <= whole.right,
      ];
    });
  };

  // The cost of a hit test grows with all that is on the page, so each screen is measured alone. None overlaps
  // another, so what is hit is the same.
  const screens = [...document.querySelectorAll(".screen")];
  for (const screen of screens) screen.style.display = "none";
  const measured = screens.map((screen) => {
    screen.style.display = "";
    const found = measure(screen);
    screen.style.display = "none";
    return found;
  });
  for (const screen of screens) screen.style.display = "";
  return JSON.stringify(measured);
}
