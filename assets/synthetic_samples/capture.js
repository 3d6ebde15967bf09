// Measure everything on a page that can be named, in one pass: controls, texts and icons with their states, groups,
// boxes and the nine-point hit test. The page stays as it is; window.captured holds the elements of the nodes, in their
// order. Returns {groups, nodes, language} as JSON; `at` is the place of an element among all of the document.
() => {
  const CONTROL = [
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [contenteditable=true]",
    ...["button", "link", "checkbox", "switch", "radio", "tab", "menuitem", "menuitemcheckbox", "menuitemradio",
      "option", "treeitem", "slider", "spinbutton", "combobox", "textbox", "searchbox", "gridcell"].map(
      (role) => `[role=${role}]`),
    "[role=listitem][tabindex]",
  ].join(",");
  const GROUP = [
    "fieldset, nav, aside, main, header, footer, section, form, table, dialog",
    ...["group", "radiogroup", "region", "toolbar", "navigation", "dialog", "alertdialog", "table", "grid", "tablist",
      "menu", "menubar", "listbox", "list", "tree", "complementary", "banner", "contentinfo", "main", "form", "search",
      "tabpanel"].map((role) => `[role=${role}]`),
  ].join(",");
  const ROW = "tr, li, [role=row], [role=listitem]";
  const TEXTUAL = "text search email url tel password number date time month week".split(" ");
  const BEYOND = 2; // pixels outside a box at which it must not be hit
  // The nine points: the middle, near the middles of the edges, and corners that lie well inside a circle.
  const NEAR = 0.1;
  const CORNER = 0.2;
  const POINTS = [[0.5, 0.5], [0.5, NEAR], [0.5, 1 - NEAR], [NEAR, 0.5], [1 - NEAR, 0.5], [CORNER, CORNER],
    [1 - CORNER, CORNER], [CORNER, 1 - CORNER], [1 - CORNER, 1 - CORNER]];

  const clean = (text) => (text ?? "").replace(/\s+/g, " ").trim();
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const isTextField = (element) =>
    element.matches("textarea") || (element.matches("input") && TEXTUAL.includes(element.type));

  // --- what a click at a point reaches: the innermost control, also through its label -------------------------------
  const ownerOf = (node) => {
    const control = node?.closest(CONTROL) ?? null;
    const label = node?.closest("label") ?? null;
    if (label !== null && label.control !== null && (control === null || control.contains(label))) return label.control;
    return control;
  };
  // The innermost control around a node, or `outer` where that comes first.
  const ownControl = (node, outer) => {
    const control = node.closest(CONTROL);
    return control !== null && outer.contains(control) ? control : outer;
  };
  const wrapper = (element) => {
    const label = element.labels?.[0];
    return label?.contains(element) ? label : element;
  };

  // --- boxes --------------------------------------------------------------------------------------------------------
  // The text in an element, without that of the controls in it.
  const textNodes = (element, control = element) => {
    const found = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (clean(node.textContent) === "" || !shown(node.parentElement)) continue;
      if (element === document.body || [element, control].includes(ownControl(node.parentElement, element))) found.push(node);
    }
    return found;
  };
  const rectsOf = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter((rect) => rect.width > 0 && rect.height > 0);
  };
  const union = (rects) => ({
    left: Math.min(...rects.map((rect) => rect.left)),
    top: Math.min(...rects.map((rect) => rect.top)),
    right: Math.max(...rects.map((rect) => rect.right)),
    bottom: Math.max(...rects.map((rect) => rect.bottom)),
  });
  const within = (inner, outer, slack) =>
    inner.left >= outer.left - slack && inner.top >= outer.top - slack &&
    inner.right <= outer.right + slack && inner.bottom <= outer.bottom + slack;
  const viewport = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };

  // The boxes that cut off what is inside: those of the ancestors that scroll or hide what overflows.
  const clipCache = new Map();
  const clipsOf = (element) => {
    if (element === null || element === document.documentElement || element === document.body) return [viewport];
    if (clipCache.has(element)) return clipCache.get(element);
    const style = getComputedStyle(element);
    const above = style.position === "fixed" ? [viewport] : clipsOf(element.parentElement);
    const clips = style.overflowX !== "visible" || style.overflowY !== "visible"
      ? [...above, element.getBoundingClientRect()] : above;
    clipCache.set(element, clips);
    return clips;
  };
  const unclipped = (box, element) => clipsOf(element).every((clip) => within(box, clip, 0.5));

  // Whether all of the text shows: nothing runs out of its control, no ellipsis, nothing scrolled away.
  const textFits = (nodes, element) => {
    const whole = element.getBoundingClientRect();
    if (isTextField(element) && element.scrollWidth > element.clientWidth + 1) return false;
    return nodes.every((node) => {
      for (let at = node.parentElement; at !== null; at = at.parentElement) {
        const hides = getComputedStyle(at).overflowX !== "visible";
        if (hides && (at.scrollWidth > at.clientWidth + 1 || at.scrollHeight > at.clientHeight + 2)) return false;
        if (at === element) break;
      }
      return rectsOf(node).every((rect) => {
        const above = rect.height / 4; // by which letters may be taller than their line
        const letters = { left: rect.left, top: rect.top + above, right: rect.right, bottom: rect.bottom - above };
        return within(letters, whole, 1) && unclipped(rect, node.parentElement);
      });
    });
  };

  // --- the hit test -------------------------------------------------------------------------------------------------
  // Rounded inwards to whole pixels: all of the box is the element's.
  const inwards = (box) => [
    Math.ceil(box.left - 0.01), Math.ceil(box.top - 0.01), Math.floor(box.right + 0.01), Math.floor(box.bottom + 0.01),
  ];
  const hitsOf = ([x0, y0, x1, y1], reaches) =>
    POINTS.filter(([fx, fy]) => reaches(document.elementFromPoint(x0 + fx * (x1 - x0), y0 + fy * (y1 - y0)))).length;
  const strayOf = ([x0, y0, x1, y1], reaches) => {
    let stray = 0;
    for (const x of [x0 - BEYOND, (x0 + x1) / 2, x1 + BEYOND]) {
      for (const y of [y0 - BEYOND, (y0 + y1) / 2, y1 + BEYOND]) {
        const outside = x < x0 || x > x1 || y < y0 || y > y1;
        if (outside && reaches(document.elementFromPoint(x, y))) stray += 1;
      }
    }
    return stray;
  };

  // Whether the element itself draws anything: letters, a picture, a surface or an edge, its own or of what is in it.
  const draws = (element) => {
    if (element.matches("input, select, textarea, svg, img, canvas")) return true;
    if (element.querySelector("svg, img, canvas, input") !== null || clean(element.textContent) !== "") return true;
    return [element, ...element.querySelectorAll("*")].some((at) =>
      [null, "::before", "::after"].some((pseudo) => {
        const style = getComputedStyle(at, pseudo);
        if (pseudo !== null && style.content === "none") return false;
        const clear = /rgba\(.*, 0\)|transparent/.test(style.backgroundColor);
        const edge = parseFloat(style.borderTopWidth) + parseFloat(style.borderLeftWidth) > 0;
        return !clear || edge || style.backgroundImage !== "none" || style.boxShadow !== "none" ||
          (pseudo !== null && !["none", "normal", '""'].includes(style.content));
      }));
  };

  // --- names, roles, states -----------------------------------------------------------------------------------------
  const stateOf = (element) => {
    const state = {};
    if (element.matches("input[type=checkbox], input[type=radio]")) state.checked = String(element.checked);
    for (const name of ["checked", "selected", "expanded", "pressed"]) {
      if (element.hasAttribute(`aria-${name}`)) state[name] = element.getAttribute(`aria-${name}`);
    }
    if (element.hasAttribute("aria-current") && element.getAttribute("aria-current") !== "false") {
      state.selected = "true";
    }
    if (element.matches("summary")) state.expanded = String(element.parentElement.open === true);
    if (element.matches(":disabled") || element.closest("[aria-disabled=true]") !== null) state.disabled = "true";
    return state;
  };
  const valueOf = (element) => {
    if (element.matches("select")) return clean(element.selectedOptions[0]?.textContent);
    if (isTextField(element) || element.matches("input[type=range]")) return clean(element.value);
    return clean(element.getAttribute("aria-valuetext") ?? element.getAttribute("aria-valuenow"));
  };
  // The texts that a person reads on a control, in order.
  const lettersOf = (element, nodes) => {
    if (element.matches("select")) return [valueOf(element)].filter(Boolean);
    if (isTextField(element)) return [clean(element.type === "password" ? "" : element.value) || clean(element.placeholder)].filter(Boolean);
    return nodes.map((node) => clean(node.textContent));
  };

  // --- the pass -----------------------------------------------------------------------------------------------------
  const groups = [...document.querySelectorAll(GROUP)].filter(shown);
  const numberOfGroup = new Map(groups.map((element, number) => [element, number]));
  const rows = new Map([...document.querySelectorAll(ROW)].map((element, number) => [element, number]));
  const chainOf = (element) => {
    const chain = [];
    for (let at = element.parentElement; at !== null; at = at.parentElement) {
      if (numberOfGroup.has(at)) chain.push(numberOfGroup.get(at));
    }
    return chain;
  };
  const rowOf = (element) => rows.get(element.parentElement?.closest(ROW)) ?? -1;
  // Some icons only decorate, and say no name: they show what the named ones of the same drawing show.
  const drawings = new Map();
  for (const element of document.querySelectorAll("[data-icon]")) {
    const drawing = element.matches("svg") ? element : element.querySelector("svg");
    if (drawing !== null) drawings.set(drawing.innerHTML, element.dataset.icon);
  }
  const iconOf = (element) => element.dataset.icon || (element.matches("svg") ? drawings.get(element.innerHTML) : undefined);
  const iconsIn = (element) =>
    [...new Set([element, ...element.querySelectorAll("[data-icon], svg")].map(iconOf).filter(Boolean))];

  const place = (element) => ({
    at: places.get(element),
    groups: chainOf(element),
    row: rowOf(element),
    function: clean(element.dataset.function),
  });

  const places = new Map([...document.querySelectorAll("*")].map((element, at) => [element, at]));
  const found = [];
  const controls = [...document.querySelectorAll(CONTROL)].filter((element) => shown(wrapper(element)));
  for (const element of controls) {
    const area = wrapper(element);
    const nodes = textNodes(area, element);
    const letters = lettersOf(element, area === element ? nodes : []);
    const rects = nodes.flatMap(rectsOf);
    const inline = getComputedStyle(area).display === "inline";
    const box = !inline || rects.length === 0 ? area.getBoundingClientRect()
      : area === element ? union(rects) : union([...area.getClientRects()]);
    const sides = inwards(box);
    const visible = within(box, viewport, 0.01) && unclipped(box, area);
    const reaches = (top) => ownerOf(top) === element;
    const hits = visible ? hitsOf(sides, reaches) : 0;
    found.push([element, {
      kind: "control",
      ...place(element),
      role: null,
      name: null,
      texts: letters,
      icons: iconsIn(element),
      heads: rows.get(element) ?? -1,
      state: stateOf(element),
      value: valueOf(element),
      box: sides,
      fits: visible && textFits(nodes, area),
      hits,
      stray: hits === 9 ? strayOf(sides, reaches) : 0,
      draws: draws(area),
    }, box]);
  }
  const isControl = new Set(controls);
  const inControl = (element) => {
    const owner = element.closest(CONTROL);
    return owner !== null && isControl.has(owner);
  };
  const parents = new Set(textNodes(document.body).map((node) => node.parentElement));
  for (const element of parents) {
    if (inControl(element) || element.closest("select, textarea, script, style, svg") !== null) continue;
    const nodes = [...element.childNodes].filter((node) => node.nodeType === 3 && clean(node.textContent) !== "");
    const rects = nodes.flatMap(rectsOf);
    if (rects.length === 0) continue;
    const box = union(rects);
    const sides = inwards(box);
    const visible = within(box, viewport, 0.01) && unclipped(box, element);
    found.push([element, {
      kind: "text",
      ...place(element),
      role: element.closest("h1, h2, h3, h4, h5, h6, [role=heading]") === null ? "text" : "heading",
      name: "",
      texts: [clean(nodes.map((node) => node.textContent).join(" "))],
      icons: [],
      heads: -1,
      state: {},
      value: "",
      box: sides,
      fits: visible && textFits(nodes, element),
      hits: visible ? hitsOf(sides, (top) => top !== null && (top === element || element.contains(top) || top.contains(element))) : 0,
      stray: 0,
      draws: true,
    }, box]);
  }
  for (const element of document.querySelectorAll("[data-icon], svg")) {
    if (iconOf(element) === undefined || inControl(element) || !shown(element)) continue;
    if (element.parentElement.closest("[data-icon]") !== null) continue;
    const box = element.getBoundingClientRect();
    const visible = within(box, viewport, 0.01) && unclipped(box, element);
    const sides = inwards(box);
    found.push([element, {
      kind: "icon",
      ...place(element),
      role: "img",
      name: clean(element.getAttribute("aria-label")),
      texts: [],
      icons: [iconOf(element)],
      heads: -1,
      state: {},
      value: "",
      box: sides,
      fits: visible,
      hits: visible ? hitsOf(sides, (top) => top !== null && (element.contains(top) || top.contains(element))) : 0,
      stray: 0,
      draws: true,
    }, box]);
  }
  // In document order, without what lies wholly outside the screen; a fraction of a pixel at its edge lies on it.
  found.sort(([a], [b]) => (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
  const touches = (box) => box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
  const kept = found.filter(([, , box]) => touches(box));
  window.captured = kept.map(([element]) => element);
  return JSON.stringify({
    groups: groups.map((element) => {
      const box = element.getBoundingClientRect();
      return {
        at: places.get(element),
        function: clean(element.dataset.function),
        parents: chainOf(element),
        box: inwards(box),
        visible: within(box, viewport, 0.01) && unclipped(box, element.parentElement),
      };
    }),
    nodes: kept.map(([, node]) => node),
    language: document.documentElement.lang,
  });
}
