// What can be acted on in any page: candidates from the DOM's semantics, boxes from its layout, and the nine-point hit
// test: an element counts as visible when its middle and most of the nine points are its own. Returns
// [label, kind, [x0, y0, x1, y1], id, visible] in document order, boxes in pixels of the viewport.
() => {
  const candidates =
    "a, button, input, textarea, select, option, label, summary, [role], [onclick], [tabindex], .alink, .link, " +
    "#area span, #area div, svg > *, canvas, li, th, td, p, h3";
  const found = [];
  const visited = new Set();
  for (const element of document.querySelectorAll(candidates)) {
    if (visited.has(element) || ["hidden"].includes(element.type)) continue;
    visited.add(element);
    const box = element.getBoundingClientRect();
    if (box.width < 1 || box.height < 1) continue;
    let hits = 0;
    let middle = false;
    for (const fx of [0.1, 0.5, 0.9]) {
      for (const fy of [0.1, 0.5, 0.9]) {
        const top = document.elementFromPoint(box.left + fx * box.width, box.top + fy * box.height);
        if (top !== null && (element.contains(top) || top.contains(element))) {
          hits += 1;
          middle ||= fx === 0.5 && fy === 0.5;
        }
      }
    }
    const text = (element.innerText ?? element.textContent ?? "").trim();
    const label = element.getAttribute("aria-label") || text || element.value || element.placeholder || "";
    const kind = element.getAttribute("role") || (element.type ? `${element.tagName}:${element.type}` : element.tagName);
    const identity = element.id || `${found.length}`;
    found.push([label, kind.toLowerCase(), [box.left, box.top, box.right, box.bottom], identity, middle && hits >= 5]);
  }
  return found;
}
