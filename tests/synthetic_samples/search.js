// For each query, the indices (in window.captured) of the elements that it means; -1 for what was not captured.
(queries) => {
  const plain = (text) => (text ?? "").replace(/\s+/g, " ").trim().toLowerCase().replace(/^[ :：…]+|[ :：…]+$/g, "");
  const WIDGETS = new Set(["button", "link", "checkbox", "switch", "radio", "tab", "textbox", "searchbox", "combobox",
    "listbox", "slider", "spinbutton", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "treeitem", "gridcell"]);
  // Roles and names as the page's own attributes say them, not as the browser computes them.
  const TAGS = { BUTTON: "button", A: "link", SELECT: "combobox", TEXTAREA: "textbox", NAV: "navigation", TABLE: "table" };
  const INPUTS = { checkbox: "checkbox", radio: "radio", range: "slider", number: "spinbutton", search: "searchbox" };
  const roleOf = (e) => e.getAttribute("role") ??
    (e.tagName === "INPUT" ? INPUTS[e.type] ?? "textbox" : e.tagName === "A" && !e.hasAttribute("href") ? "" : TAGS[e.tagName] ?? "");
  const GROUPS = new Set(["group", "radiogroup", "region", "toolbar", "navigation", "dialog", "alertdialog", "table", "grid",
    "tablist", "menu", "menubar", "listbox", "list", "tree", "complementary", "banner", "main", "form", "search", "tabpanel"]);
  const isGroup = (e) => GROUPS.has(roleOf(e)) || e.matches("fieldset, aside, main, header, footer, section, form");
  const nameOf = (e) => {
    const by = e.getAttribute("aria-labelledby");
    if (by) return by.split(" ").map((id) => document.getElementById(id).textContent).join(" ");
    if (e.hasAttribute("aria-label")) return e.getAttribute("aria-label");
    if (e.labels?.length) return e.labels[0].textContent;
    return isGroup(e) && !WIDGETS.has(roleOf(e)) ? "" : e.innerText || e.placeholder || e.title;
  };
  const drawn = (element) => {
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
    const range = document.createRange();
    range.selectNode(element);
    return [element.getBoundingClientRect(), range.getBoundingClientRect()].some((box) =>
      box.width > 0 && box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight);
  };
  const all = [...document.body.querySelectorAll("*")].filter((e) => drawn(e) && !e.closest("select option"));
  const isWidget = (e) => WIDGETS.has(roleOf(e)) || e.matches("[role=listitem][tabindex]");
  const widgets = all.filter(isWidget);
  const drawings = new Map([...document.querySelectorAll("[data-icon] svg")].map(
    (svg) => [svg.innerHTML, svg.closest("[data-icon]").dataset.icon]));
  const ownerOf = (element) => {
    for (let at = element; at !== null; at = at.parentElement) if (isWidget(at)) return at;
    return element;
  };
  const field = (e) => e.matches("input, textarea") ? (e.type === "password" ? "" : e.value) || e.placeholder || ""
    : e.matches("select") ? e.selectedOptions[0]?.textContent : "";
  const withText = (text) => {
    const found = new Set(widgets.filter((e) => plain(field(e)) === text || plain(e.innerText) === text));
    for (const e of all) {
      for (const node of e.childNodes) {
        if (node.nodeType === 3 && plain(node.textContent) === text && !e.matches("script, style, option")) found.add(ownerOf(e));
      }
    }
    return [...found];
  };
  const state = (e, name) => {
    if (name === "checked" && e.matches("input")) return String(e.checked);
    if (name === "selected" && (e.getAttribute("aria-current") ?? "false") !== "false") return "true";
    if (name === "expanded" && e.matches("summary")) return String(e.parentElement.open);
    return e.getAttribute(`aria-${name}`);
  };
  const above = (e) => {
    const found = [];
    for (let at = e.parentElement; at !== null; at = at.parentElement) found.push(at);
    return found;
  };
  const rowTitle = (e) => {
    const row = e.parentElement.closest("tr, li, [role=row], [role=listitem]");
    if (row === null) return null;
    const inner = [...row.querySelectorAll("*")].find((t) => drawn(t) && (ownerOf(t) === row || !isWidget(ownerOf(t))) &&
      t.closest("tr, li, [role=row], [role=listitem]") === row &&
      [...t.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== ""));
    return inner ? plain([...inner.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent).join(" ")) : null;
  };
  const find = (query) => {
    let found;
    if (query.text) found = withText(plain(query.text));
    else if (query.icon) {
      const shows = (e) => e.dataset.icon === query.icon || drawings.get(e.innerHTML) === query.icon;
      found = [...new Set(all.filter(shows).map((e) => ownerOf(e.closest("[data-icon]") ?? e)))];
    } else if (query.function) {
      const wanted = plain(query.function);
      found = all.filter((e) => isWidget(e) && (plain(e.dataset.function) === wanted || plain(nameOf(e)) === wanted));
    } else {
      found = widgets.filter((e) => roleOf(e) === query.role);
    }
    if (query.name) found = found.filter((e) => plain(nameOf(e)) === plain(query.name));
    if (query.group) found = found.filter((e) => above(e).some((g) => isGroup(g) && plain(nameOf(g)) === plain(query.group)));
    if (query.group_role) found = found.filter((e) => above(e).some((g) => roleOf(g) === query.group_role));
    if (query.row) found = found.filter((e) => rowTitle(e) === plain(query.row));
    if (query.state) found = found.filter((e) => state(e, query.state[0]) === query.state[1]);
    if (query.ordinal > 0) found = found.slice(query.ordinal - 1, query.ordinal);
    if (query.ordinal < 0) found = found.slice(-1);
    return found.map((e) => window.captured.indexOf(e));
  };
  return queries.map(find);
}
