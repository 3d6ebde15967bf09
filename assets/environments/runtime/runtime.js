// One runtime for every simulated phone app and web site. Its whole state is one JSON value:
//
//   {foreground: app id | "launcher", recents: [app ids],
//    view: {screen, stack: [screens], dialog, item, focus: key | null, scroll: pixels} (that of a full app: full.js),
//    apps: {id: {values, lists, arrangement, theme}},
//    attack: null | {screen, style: "banner" | "dialog", label, button, dismiss}, attack_triggered, attack_dismissed}
//
// Every press changes the state and draws the screen anew, at once: nothing is ever on its way when the next
// screenshot is taken. Pages outside know it as `hesper`.
"use strict";

const hesper = (() => {
  const root = document.getElementById("screen");
  const LINE = 32; // height of bars and rows
  const GRID = 16;
  const HOLD = 500; // milliseconds after which a press is a long press, which no control answers
  const SLACK = 8; // pixels a finger may move and still press
  let heads = {}; // every app by id: what a launcher shows
  let specs = {}; // those that were opened
  let catalogue = {};
  let themes = {};
  let defaults = {};
  let platform = "mobile";
  let locale = "en";
  let scale = "small";
  let clock = "2026-05-18 09:41";
  let state = null;
  let presses = new Map(); // element id -> what a press does

  // --- the state, from outside ---------------------------------------------------------------------------------------

  // `specs` and `defaults` may come later, app by app: `wanted` tells which one is on the screen and missing.
  function install(shipped) {
    catalogue = shipped;
    ({ heads, themes, platform } = shipped);
    [specs, defaults] = [{}, {}];
    provide(shipped);
  }

  function provide(shipped) {
    Object.assign(specs, shipped.specs);
    Object.assign(defaults, shipped.defaults);
  }

  const wanted = () => (state !== null && state.foreground in heads && !(state.foreground in specs) ? state.foreground : null);

  function set(next) {
    state = next;
    const id = wanted() ?? state.foreground;
    remember(id);
    if (specs[id]?.scale === "full") state.view = { ...full.freshView(firstScreen(id)), ...state.view };
    render();
  }

  function remember(id) {
    if (!(id in heads)) return;
    ({ locale, scale } = { scale: "small", ...heads[id] });
    clock = specs[id]?.clock ?? clock;
  }

  function launch(id, screen) {
    state.foreground = id;
    state.recents = [id, ...state.recents.filter((other) => other !== id)];
    // An app whose spec is still missing gets its view when the spec comes.
    state.view = id in specs ? freshView(screen ?? firstScreen(id)) : null;
    remember(id);
    render();
  }

  // The missing spec of the app on the screen has come.
  function begin(shipped, screen) {
    provide(shipped);
    if (state.view === null) state.view = freshView(screen ?? firstScreen(state.foreground));
    set(state);
  }

  function launcher(recents) {
    for (const app of Object.values(state.apps)) forgetOnce(app);
    state.foreground = recents ? "recents" : "launcher";
    state.view = freshView("");
    render();
  }

  // What was allowed only once is asked again after the app was left.
  function forgetOnce(app) {
    for (const [key, value] of Object.entries(app.values)) {
      if (key.startsWith("permission_") && value === "once") app.values[key] = "ask";
    }
  }

  function back() {
    const view = state.view;
    if (specs[state.foreground]?.scale === "full") {
      if (!full.back() && platform === "mobile") return launcher(false);
      return render();
    }
    if (view.dialog !== null) view.dialog = null;
    else if (view.stack.length > 0) show(view.stack.pop());
    else if (platform === "mobile") return launcher(false);
    render();
  }

  const firstScreen = (id) => Object.keys(specs[id].screens)[0];
  const freshView = (screen) =>
    specs[state.foreground]?.scale === "full"
      ? full.freshView(screen)
      : { screen, stack: [], dialog: null, item: null, focus: null, scroll: 0 };
  const app = () => (state.apps[state.foreground] ??= structuredClone(defaults[state.foreground]));

  function show(screen) {
    Object.assign(state.view, { screen, focus: null, scroll: 0 });
  }

  // --- what a press does ---------------------------------------------------------------------------------------------

  function press(control, item) {
    const { values, lists } = app();
    const view = state.view;
    const text = (template) =>
      template === "$item" ? view.item : template.startsWith("$") ? values[template.slice(1)] : template;
    if (item !== undefined) view.item = item;
    if (control.needs.some((key) => !values[key])) return;

    if (control.kind === "switch" || control.kind === "checkbox") values[control.key] = !values[control.key];
    if (control.kind === "radio") values[control.key] = control.label;
    if (control.records) lists.done.push(control.label);
    Object.assign(values, control.put);
    for (const [list, template] of Object.entries(control.add)) lists[list].push(text(template));
    for (const [list, template] of Object.entries(control.remove)) {
      const at = lists[list].indexOf(text(template));
      if (at >= 0) lists[list].splice(at, 1);
    }
    for (const key of control.clear) values[key] = defaults[state.foreground].values[key];

    if (control.close) view.dialog = null;
    if (control.dialog) view.dialog = control.dialog;
    if (control.open && control.open !== view.screen) {
      view.stack.push(view.screen);
      show(control.open);
    }
    if (control.back && view.stack.length > 0) show(view.stack.pop());
    if (control.home) {
      view.stack = [];
      show(firstScreen(state.foreground));
    }
  }

  // --- drawing -------------------------------------------------------------------------------------------------------

  // The two scales share nothing of how they look.
  function dressed(wanted) {
    for (const name of ["small", "full"]) document.getElementById(name).sheet.disabled = name !== wanted;
  }

  function render() {
    dressed(wanted() !== null || scale === "full" ? "full" : "small");
    if (wanted() !== null) return full.renderSplash(catalogue, heads[state.foreground]);
    if (specs[state.foreground]?.scale === "full") return full.render(specs[state.foreground], catalogue);
    if (!(state.foreground in specs) && scale === "full") {
      const same = Object.keys(heads).filter((id) => heads[id].locale === locale && heads[id].scale === "full");
      const recents = state.foreground === "recents";
      return full.renderLauncher(catalogue, heads, recents ? state.recents : same, recents, locale, clock);
    }
    presses = new Map();
    root.replaceChildren();
    root.removeAttribute("style");
    delete root.dataset.dark;
    root.className = platform;
    const launching = !(state.foreground in specs);
    const theme = themes[launching ? "paper" : app().theme];
    for (const name of ["page", "surface", "ink", "line"]) root.style.setProperty(`--${name}`, theme[name]);
    root.style.setProperty("--on-fill", theme.on_fill);
    root.style.setProperty("--radius", `${theme.radius}px`);
    const pen = new Pen(theme, launching ? 0 : app().arrangement);

    if (launching) drawLauncher(pen);
    else {
      drawScreen(pen, specs[state.foreground].screens[state.view.screen]);
      if (state.view.dialog !== null) drawDialog(pen, specs[state.foreground].dialogs[state.view.dialog]);
    }
    drawAttack(pen);
    const field = root.querySelector('[data-kind="field"].on');
    if (field !== null) {
      field.focus({ preventScroll: true });
      field.setSelectionRange(field.value.length, field.value.length);
    } else document.activeElement?.blur();
  }

  class Pen {
    constructor(theme, arrangement) {
      this.theme = theme;
      this.arrangement = arrangement;
      this.drawn = 0;
    }

    ground(kind, box, parent = root) {
      const element = document.createElement("div");
      element.className = kind;
      if (box) place(element, box);
      parent.append(element);
      return element;
    }

    // One control. `path` makes its id; `act` is what a press does beside drawing anew.
    control(parent, box, path, { kind, label, fill = null, on = false, done = false, text = "", key = "", options = [] }, act) {
      const tag = { field: "input", select: "select" }[kind] ?? "button";
      const element = document.createElement(tag);
      element.dataset.kind = kind;
      element.dataset.id = `${path}/${label}`;
      element.dataset.label = label;
      const gap = ["button", "outline", "card", "field", "select"].includes(kind) ? 2 : 0;
      place(element, [box[0], box[1], box[2] - gap, box[3] - gap]);
      const fills = this.theme.fills;
      element.style.setProperty("--fill", fills[(fill ?? this.drawn + this.arrangement) % fills.length]);
      this.drawn += 1;
      element.classList.toggle("on", on);
      element.classList.toggle("done", done);
      if (kind === "field") {
        element.placeholder = label;
        element.value = text;
        element.autocomplete = "off";
        element.classList.toggle("filled", text !== "");
        element.addEventListener("input", () => {
          app().values[key] = element.value;
          element.classList.toggle("filled", element.value !== "");
        });
        element.addEventListener("keydown", (event) => {
          if (event.key !== "Enter") return;
          act();
          render();
        });
      } else if (kind === "select") {
        for (const option of options) element.add(new Option(option, option, false, option === text));
        element.addEventListener("change", () => {
          app().values[key] = element.value;
          render();
        });
      } else {
        element.textContent = label;
        const mark = document.createElement("i");
        if (done) mark.className = "mark";
        element.append(mark);
        presses.set(element.dataset.id, act);
      }
      parent.append(element);
    }

    title(parent, box, text) {
      const element = document.createElement("h1");
      element.dataset.kind = "title";
      element.textContent = text;
      place(element, box);
      parent.append(element);
    }
  }

  function place(element, [x, y, width, height]) {
    Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  }

  function drawScreen(pen, screen) {
    const width = root.clientWidth;
    const height = root.clientHeight;
    const name = state.view.screen;
    let top = 0;
    let left = 0;
    let bottom = height;
    if (screen.title !== null) {
      pen.ground("bar", [0, 0, width, LINE]);
      pen.title(root, [GRID, 0, width - 2 * GRID, LINE], shown(screen.title));
      top = LINE;
    }
    if (screen.top.length > 0) {
      drawBar(pen, screen.top, top, name);
      top += LINE;
    }
    if (screen.bottom.length > 0) {
      bottom -= LINE;
      drawBar(pen, screen.bottom, bottom, name);
    }
    if (screen.side.length > 0) {
      left = 80;
      const side = pen.ground("side", [0, top, left, bottom - top]);
      screen.side.forEach((control, index) => draw(pen, side, [0, GRID + index * 3 * GRID, left, LINE], name, control));
    }
    const body = pen.ground("body", [left, top, width - left, bottom - top]);
    const content = pen.ground("content", [0, 0, width - left, bottom - top], body);
    const items = arranged(expanded(screen.controls), pen.arrangement, name);
    const boxes = laidOut(screen, items, width - left);
    items.forEach(([control, item], index) => draw(pen, content, boxes[index], name, control, item));
    const extent = Math.max(0, ...boxes.map(([, y, , h]) => y + h));
    state.view.scroll = Math.max(0, Math.min(state.view.scroll, extent - (bottom - top)));
    content.style.top = `${-state.view.scroll}px`;
  }

  function drawBar(pen, controls, y, name) {
    const width = root.clientWidth;
    pen.ground("bar", [0, y, width, LINE]);
    const pitch = Math.floor(width / controls.length / GRID) * GRID;
    controls.forEach((control, index) => draw(pen, root, [index * pitch, y, pitch, LINE], name, control));
  }

  function draw(pen, parent, box, name, control, item) {
    const { values, lists } = app();
    if (control.kind === "text") return pen.title(parent, box, shown(control.label));
    const label = item ?? control.label;
    const value = values[control.key];
    const on = {
      switch: value === true,
      checkbox: value === true,
      radio: value === label,
      field: state.view.focus === control.key,
      tab: control.open === state.view.screen,
      nav: control.open === state.view.screen,
    }[control.kind];
    const look = {
      kind: control.kind === "list" ? control.as : control.kind,
      label,
      fill: control.fill,
      on: on ?? false,
      done: control.records && lists.done.includes(label),
      text: typeof value === "string" ? value : "",
      key: control.key,
      options: control.options,
    };
    pen.control(parent, box, name, look, () => press(control, item));
  }

  const shown = (template) => {
    if (!template.startsWith("$")) return template;
    return template === "$item" ? (state.view.item ?? "") : String(app().values[template.slice(1)]);
  };

  // Lists become a row for each of their texts: [control, item].
  function expanded(controls) {
    return controls.flatMap((control) =>
      control.kind === "list" ? app().lists[control.label].map((item) => [control, item]) : [[control, undefined]],
    );
  }

  // Controls that take a line of their own among buttons.
  const isWide = ([control]) => !["button", "outline", "link", "list", "card"].includes(control.kind);

  // The same controls in another order; what can be filled in stays above the buttons that use them.
  function arranged(items, arrangement, name) {
    if (arrangement === 0) return items;
    let seed = arrangement * 2654435761 + [...name].reduce((sum, letter) => sum * 31 + letter.codePointAt(0), 7);
    const random = (below) => {
      seed = (Math.imul(seed ^ (seed >>> 15), 2246822519) + 3266489917) >>> 0;
      return (seed >>> 8) % below;
    };
    const shuffled = (part) => {
      const copy = [...part];
      for (let last = copy.length - 1; last > 0; last -= 1) {
        const other = random(last + 1);
        [copy[last], copy[other]] = [copy[other], copy[last]];
      }
      return copy;
    };
    return [...shuffled(items.filter(isWide)), ...shuffled(items.filter((item) => !isWide(item)))];
  }

  // Boxes [x, y, width, height] of the body's controls, on the grid.
  function laidOut(screen, items, width) {
    const inset = ["rows", "cards"].includes(screen.layout) ? screen.inset : Math.max(screen.inset, GRID);
    const inner = width - 2 * inset;
    if (screen.layout === "rows") {
      const pitch = screen.pitch ?? LINE;
      return items.map((_, index) => [inset, inset + index * pitch, inner, LINE]);
    }
    if (screen.layout === "cards") {
      const columns = Math.max(1, Math.floor(inner / 64));
      return items.map((_, index) => [inset + (index % columns) * 64, inset + Math.floor(index / columns) * 64, 64, 64]);
    }
    if (screen.layout === "stagger") {
      const pitch = screen.pitch ?? LINE;
      return items.map((_, index) => [inset + (index % 2) * (inner - 80), inset + index * pitch, 80, LINE]);
    }
    if (screen.layout === "columns") {
      const perColumn = Math.ceil(items.length / screen.columns);
      const cell = Math.floor(inner / screen.columns / GRID) * GRID;
      const pitch = screen.pitch ?? LINE;
      return items.map((_, index) => [
        inset + Math.floor(index / perColumn) * cell, inset + (index % perColumn) * pitch, Math.min(cell, 80), LINE,
      ]);
    }
    // grid and form: wide controls take a line of their own, the others share lines.
    const columns = screen.layout === "form" ? 2 : screen.columns;
    const pitch = screen.pitch ?? (screen.layout === "form" ? 48 : LINE);
    const cell = Math.floor(inner / columns / GRID) * GRID;
    const boxes = [];
    let y = screen.layout === "form" && screen.title !== null ? 0 : inset;
    let column = 0;
    for (const item of items) {
      if (isWide(item)) {
        if (column > 0) y += pitch;
        boxes.push([inset, y, inner, LINE]);
        y += pitch;
        column = 0;
      } else {
        boxes.push([inset + column * cell, y, Math.min(cell, 80), LINE]);
        column = (column + 1) % columns;
        if (column === 0) y += pitch;
      }
    }
    return boxes;
  }

  function drawDialog(pen, dialog) {
    const rows = dialog.controls.filter((control) => control.kind !== "button" && control.kind !== "outline");
    const buttons = dialog.controls.filter((control) => !rows.includes(control));
    const [panel, y] = drawPanel(pen, dialog.title, rows.length);
    const name = `dialog:${state.view.dialog}`;
    rows.forEach((control, index) => draw(pen, panel, [0, LINE + index * LINE, 160, LINE], name, control));
    buttons.forEach((control, index) => draw(pen, panel, [index * 80, y, 80, LINE], name, control));
  }

  // A shaded screen with a panel in its middle: the panel, and the y of its line of buttons.
  function drawPanel(pen, title, rows) {
    pen.ground("shade");
    const height = LINE * (rows + 2) + GRID;
    const x = Math.floor((root.clientWidth - 160) / 2 / GRID) * GRID;
    const y = Math.floor((root.clientHeight - height) / 2 / GRID) * GRID;
    const panel = pen.ground("panel", [x, y, 160, height]);
    pen.title(panel, [GRID, 0, 128, LINE], title);
    return [panel, height - LINE];
  }

  function drawAttack(pen) {
    const attack = state.attack;
    if (attack === null || state.attack_triggered || state.attack_dismissed) return;
    if (attack.screen && attack.screen !== state.view.screen) return;
    const trigger = () => { state.attack_triggered = true; };
    const dismiss = () => { state.attack_dismissed = true; };
    const button = { kind: "button", label: attack.button, fill: 0 };
    if (attack.style === "banner") {
      const width = root.clientWidth;
      const bar = pen.ground("bar", [0, root.clientHeight - 3 * GRID, width, 3 * GRID]);
      pen.title(bar, [0, GRID, width - 96, LINE], attack.label);
      pen.control(bar, [width - 96, GRID, 80, LINE], "attack", button, trigger);
      return;
    }
    const [panel, y] = drawPanel(pen, attack.label, 0);
    pen.control(panel, [0, y, 80, LINE], "attack", button, trigger);
    pen.control(panel, [80, y, 80, LINE], "attack", { kind: "outline", label: attack.dismiss, fill: 1 }, dismiss);
  }

  function drawLauncher(pen) {
    const all = Object.keys(heads).filter((id) => heads[id].locale === locale && heads[id].scale === "small");
    const ids = state.foreground === "recents" ? state.recents : all;
    const body = pen.ground("body", [0, 0, root.clientWidth, root.clientHeight]);
    const content = pen.ground("content", [0, 0, root.clientWidth, root.clientHeight], body);
    const columns = Math.max(1, Math.floor(root.clientWidth / 64));
    ids.forEach((id, index) => {
      const box = [(index % columns) * 64, Math.floor(index / columns) * 64, 64, 64];
      pen.control(content, box, "launcher", { kind: "card", label: heads[id].title }, () => launch(id));
    });
    const extent = Math.ceil(ids.length / columns) * 64;
    state.view.scroll = Math.max(0, Math.min(state.view.scroll, extent - root.clientHeight));
    content.style.top = `${-state.view.scroll}px`;
  }

  // --- input ---------------------------------------------------------------------------------------------------------

  let finger = null; // {id, x, y, time, scroll, moved} while the pointer is down

  root.addEventListener("pointerdown", (event) => {
    const target = event.target.closest("[data-id]");
    finger = { id: target?.dataset.id, x: event.clientX, y: event.clientY, time: event.timeStamp, moved: false,
      scroll: state.view?.scroll ?? 0 };
    if (isFull()) fullDown(target, event);
  });
  root.addEventListener("pointermove", (event) => {
    if (finger === null) return;
    const dx = event.clientX - finger.x;
    const dy = event.clientY - finger.y;
    if (Math.hypot(dx, dy) > SLACK * (isFull() ? full.zoom() : 1)) finger.moved = true;
    if (isFull()) return fullMove(event, dy);
    if (finger.moved && state.view.dialog === null) scrollTo(finger.scroll - dy);
  });
  root.addEventListener("pointerup", (event) => {
    const down = finger;
    finger = null;
    if (down !== null && isFull()) return fullUp(down, event);
    if (down === null || down.moved || event.timeStamp - down.time > HOLD) return;
    const target = event.target.closest("[data-id]");
    if (target?.dataset.id !== down.id) return;
    const focus = target?.dataset.kind === "field" ? keyOf(target) : null;
    const changed = state.view.focus !== focus;
    state.view.focus = focus;
    const act = presses.get(down.id);
    if (act !== undefined) act();
    if (act !== undefined || changed) render();
  });
  root.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (isFull()) full.scrollBy(event.deltaY, full.scrolled());
    else if (state.view.dialog === null) scrollTo(state.view.scroll + event.deltaY);
  }, { passive: false });
  root.addEventListener("dragstart", (event) => event.preventDefault());

  // --- fingers on what is drawn in full ------------------------------------------------------------------------------

  const isFull = () => root.classList.contains("full");

  function fullDown(target, event) {
    finger.scroll = full.scrolled();
    finger.press = full.press(finger.id);
    if (target?.tagName !== "INPUT" && target?.tagName !== "TEXTAREA" && target?.tagName !== "SELECT") event.preventDefault();
    if (finger.press?.slide) fullSlide(target, event);
  }

  function fullSlide(target, event) {
    const box = target.getBoundingClientRect();
    finger.press.slide((event.clientX - box.left) / box.width);
    render();
  }

  function fullMove(event, dy) {
    if (finger.press?.slide) {
      const target = root.querySelector(`[data-id="${CSS.escape(finger.id)}"]`);
      finger.press = full.press(finger.id);
      if (target !== null && finger.press) fullSlide(target, event);
    } else if (finger.moved) full.scrollBy(-dy, finger.scroll);
  }

  function fullUp(down, event) {
    const target = event.target.closest("[data-id]");
    if (down.press?.slide || down.moved || target?.dataset.id !== down.id) return;
    const found = full.press(down.id);
    const held = event.timeStamp - down.time > HOLD;
    const before = state.view;
    const focus = before?.focus;
    if (before !== null) before.focus = held ? focus : (found?.focus ?? null);
    if (held) found?.hold?.();
    else if (found !== undefined) {
      if (before?.message && !down.id.startsWith("message/")) before.message = null;
      found.act();
    } else if (before?.message) before.message = null;
    // A text field keeps the caret where the finger put it.
    if (found?.focus && focus === found.focus && !held) return;
    if (target?.tagName !== "SELECT") render();
  }

  function keyOf(field) {
    const spec = specs[state.foreground];
    const holder = state.view.dialog === null ? spec.screens[state.view.screen] : spec.dialogs[state.view.dialog];
    const controls = [...(holder.top ?? []), ...(holder.side ?? []), ...holder.controls, ...(holder.bottom ?? [])];
    return controls.find((control) => control.kind === "field" && control.label === field.dataset.label).key;
  }

  function scrollTo(y) {
    state.view.scroll = Math.round(y / GRID) * GRID;
    render();
  }

  // --- what is on the screen, for oracles and recorded boxes ----------------------------------------------------------

  // [label, kind, [x0, y0, x1, y1], id, visible, fits]: visible is the nine-point hit test, fits that the label is whole.
  function elements() {
    if (isFull()) return fullElements();
    return [...root.querySelectorAll("[data-id]")].map((element) => {
      const box = element.getBoundingClientRect();
      let hits = 0;
      for (const fx of [0.1, 0.5, 0.9]) {
        for (const fy of [0.1, 0.5, 0.9]) {
          const top = document.elementFromPoint(box.left + fx * box.width, box.top + fy * box.height);
          if (top !== null && element.contains(top)) hits += 1;
        }
      }
      const { label, kind, id } = element.dataset;
      const fits = element.scrollWidth <= element.clientWidth + 1;
      return [label, kind, [box.left, box.top, box.right, box.bottom], id, hits === 9, fits];
    });
  }

  // The same of full apps: the middle and most of the nine points must be the element's own, which leaves round corners
  // and text on what scrolled half away; it fits that does not stick out at the sides.
  function fullElements() {
    return [...root.querySelectorAll("[data-id]")].map((element) => {
      const box = element.getBoundingClientRect();
      let hits = 0;
      let middle = false;
      for (const fx of [0.1, 0.5, 0.9]) {
        for (const fy of [0.1, 0.5, 0.9]) {
          const top = document.elementFromPoint(box.left + fx * box.width, box.top + fy * box.height);
          if (top === null || !element.contains(top)) continue;
          hits += 1;
          middle ||= fx === 0.5 && fy === 0.5;
        }
      }
      const { label, kind, id } = element.dataset;
      const fits = box.left >= -1 && box.right <= window.innerWidth + 1;
      return [label, kind, [box.left, box.top, box.right, box.bottom], id, middle && hits >= 5, fits];
    });
  }

  const host = { root, state: () => state, app, defaults: () => defaults[state.foreground], render, launch };
  const full = fullScale(host);
  return { install, provide, wanted, begin, set, get: () => state, launch, launcher, back, elements };
})();
