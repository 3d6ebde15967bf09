// Full-scale apps: how a spec with `scale: full` is drawn and what its controls do. `runtime.js` owns the state, the
// launcher and the fingers; this file is given what it needs of them as `host`.
//
// Beside the fields that every view has, the view of a full app holds
//
//   {item: null | {list, id} (the row that the screen is about), row: the one that the dialog is about,
//    stack: [{screen, item, scroll}], sheet: pixels that the dialog or picker is scrolled, drawer: bool,
//    picker: null | {id, kind, month}, asking: null | {permission, id}, message: null | {text, undo: null | app state},
//    errors: {key: text}, month: null | "2026-05"}
"use strict";

const fullScale = (host) => {
  const WORDS = {
    en: {
      back: "Back", menu: "Menu", close: "Close menu", undo: "Undo", ok: "OK", cancel: "Cancel", clear: "Clear", required: "This field is required",
      number: "Enter a number", phone: "Enter a valid phone number", email: "Enter a valid email address", least: "At least ",
      most: "At most ", letters: "At least {n} characters", previous: "Previous month", next: "Next month", nothing: "Nothing here yet",
      unmatched: "No results", fix: "Please check the marked fields", refused: "Permission denied. You can change this in the app's settings.",
      allow: "Allow “{app}” to use {what}?", using: "While using the app", once: "Only this time", deny: "Don't allow", choose: "Choose",
      today: "Today", delete: "Delete", weekdays: ["Su", "Mo", "Tu", "We", "Th", "Fr", "Sa"], recents: "Recent apps", none: "No recent apps",
      days: ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"],
      months: ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
      permissions: { location: "your location", camera: "the camera", microphone: "the microphone", contacts: "your contacts",
        photos: "your photos", notifications: "notifications", calendar: "your calendar", files: "your files", phone: "the phone" },
    },
    zh: {
      back: "返回", menu: "菜单", close: "关闭菜单", undo: "撤销", ok: "确定", cancel: "取消", clear: "清空", required: "请填写此项",
      number: "请输入数字", phone: "请输入正确的手机号", email: "请输入正确的邮箱地址", least: "不能小于", most: "不能大于",
      letters: "至少 {n} 个字符", previous: "上个月", next: "下个月", nothing: "这里还没有内容", unmatched: "没有找到结果",
      fix: "请检查标出的内容", refused: "没有权限，可在设置中重新开启", allow: "允许“{app}”使用{what}吗？", using: "使用期间允许",
      once: "仅此一次", deny: "不允许", choose: "请选择", today: "今天", delete: "删除", weekdays: ["日", "一", "二", "三", "四", "五", "六"],
      recents: "最近使用", none: "没有最近使用的应用",
      days: ["星期日", "星期一", "星期二", "星期三", "星期四", "星期五", "星期六"], months: null,
      permissions: { location: "位置信息", camera: "相机", microphone: "麦克风", contacts: "通讯录", photos: "照片",
        notifications: "通知", calendar: "日历", files: "文件", phone: "电话" },
    },
  };
  const MESSAGE_LINES = 3;
  const { root } = host;
  let presses = new Map(); // element id -> {act, hold, slide}
  let numbers = new Map(); // computed values of this drawing
  let looks = {};
  let icons = {};
  let spec = null;
  let words = WORDS.en;

  const state = () => host.state();
  const view = () => state().view;
  const app = () => host.app();

  const freshView = (screen) => ({
    screen, stack: [], dialog: null, item: null, row: null, focus: null, scroll: 0, sheet: 0, drawer: false, picker: null,
    asking: null, message: null, errors: {}, month: null,
  });

  // --- names, texts, conditions --------------------------------------------------------------------------------------

  // A scope is the row that a control stands in, or null: {list, record, index}.
  function find(reference) {
    if (reference === null || reference === undefined) return null;
    return (app().lists[reference.list] ?? []).find((record) => record.id === reference.id) ?? null;
  }

  const subject = () => find(view().dialog !== null && view().row ? view().row : view().item);

  function lookup(name, scope) {
    if (scope?.record && name in scope.record) return scope.record[name];
    const about = subject();
    if (about !== null && name in about) return about[name];
    const item = find(view().item);
    if (item !== null && name in item) return item[name];
    if (name in app().values) return app().values[name];
    if (spec.computed?.[name]) return computed(name);
    if (name === "now") return spec.clock ?? "2026-05-18 09:41";
    if (name === "today") return (spec.clock ?? "2026-05-18 09:41").slice(0, 10);
    if (name === "index") return (scope?.index ?? 0) + 1;
    return "";
  }

  function computed(name) {
    if (numbers.has(name)) return numbers.get(name);
    const { count, sum, of = [], where = "", plus = [], times = "" } = spec.computed[name];
    const rows = app().lists[count || sum].filter((record) => holds(where, { record }));
    let total = count ? rows.length : rows.reduce((all, record) => all + of.reduce((one, field) => one * Number(record[field]), 1), 0);
    for (const other of plus) total += Number(lookup(other, null));
    if (times) total *= Number(lookup(times, null));
    total = Math.round(total * 100) / 100;
    numbers.set(name, total);
    return total;
  }

  const conditions = new Map();
  const CLAUSE = /^(?:(\w+)\s*(!=|<=|>=|=|<|>|~)\s*(.*)|(!?)(\w+))$/;

  function holds(condition, scope) {
    if (!condition) return true;
    if (!conditions.has(condition)) conditions.set(condition, condition.split(" and ").map((part) => CLAUSE.exec(part.trim())));
    return conditions.get(condition).every(([, name, op, wanted, not, flag]) => {
      if (flag) return Boolean(lookup(flag, scope)) !== (not === "!");
      const left = lookup(name, scope);
      const right = wanted.startsWith("$") ? lookup(wanted.slice(1), scope?.outer ?? null) : wanted;
      if (op === "=") return String(left) === String(right);
      if (op === "!=") return String(left) !== String(right);
      if (op === "~") return String(left).toLowerCase().includes(String(right).toLowerCase());
      const [a, b] = [Number(left), Number(right)].some(Number.isNaN) ? [String(left), String(right)] : [Number(left), Number(right)];
      return { "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b }[op];
    });
  }

  function text(template, scope) {
    if (!template) return "";
    if (/^-?\$\w+$/.test(template)) return String(typed(template, scope));
    return template.replace(/\{(\w+)(?:\|(\w+))?\}/g, (_, name, form) => written(lookup(name, scope), form));
  }

  function typed(value, scope) {
    if (typeof value !== "string") return value;
    if (/^\$\w+$/.test(value)) return lookup(value.slice(1), scope);
    if (/^-\$\w+$/.test(value)) return -Number(lookup(value.slice(2), scope));
    return text(value, scope);
  }

  function written(value, form) {
    const chinese = spec.locale === "zh";
    const [year, month, day] = String(value).slice(0, 10).split("-").map(Number);
    const dated = /^\d{4}-\d\d-\d\d/.test(String(value));
    const cents = (number) => Math.abs(number).toFixed(2).replace(/\.00$/, "").replace(/\B(?=(\d{3})+(?!\d))/g, ",");
    const sign = spec.currency || (chinese ? "¥" : "$");
    switch (form) {
      case "money": return `${Number(value) < 0 ? "-" : ""}${sign}${cents(Number(value))}`;
      case "signed": return `${Number(value) < 0 ? "-" : "+"}${sign}${cents(Number(value))}`;
      case "number": return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
      case "percent": return `${value}%`;
      case "date": return !dated ? String(value) : chinese ? `${month}月${day}日` : `${words.months[month - 1]} ${day}`;
      case "month": return chinese ? `${year}年${month}月` : `${words.months[month - 1]} ${year}`;
      case "day": return dated ? String(day) : String(value);
      case "weekday": return dated ? words.days[weekday(year, month, day)] : String(value);
      case "time": return String(value).slice(-5);
      case "moment": {
        if (!dated) return String(value);
        const here = String(value).slice(0, 10);
        return here === lookup("today") && String(value).length > 10 ? String(value).slice(-5) : written(here, "date");
      }
      case "duration": return `${Math.floor(Number(value) / 60)}:${String(Number(value) % 60).padStart(2, "0")}`;
      case "size": return Number(value) < 1000 ? `${value} KB` : `${(Number(value) / 1000).toFixed(1)} MB`;
      case "stars": return "★".repeat(Math.round(Number(value))) + "☆".repeat(Math.max(0, 5 - Math.round(Number(value))));
      default: return typeof value === "boolean" ? "" : String(value);
    }
  }

  const weekday = (year, month, day) => new Date(Date.UTC(year, month - 1, day)).getUTCDay();
  const daysIn = (year, month) => new Date(Date.UTC(year, month, 0)).getUTCDate();
  const iso = (year, month, day) => `${year}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;

  // --- what a press does ----------------------------------------------------------------------------------------------

  function read(control, scope) {
    if (control.key.startsWith(".")) return (scope?.record ?? subject() ?? {})[control.key.slice(1)];
    return app().values[control.key];
  }

  function write(control, scope, value) {
    if (control.key.startsWith(".")) (scope?.record ?? subject())[control.key.slice(1)] = value;
    else app().values[control.key] = value;
    delete view().errors[control.key];
  }

  const within = (value, { minimum, maximum }) => Math.min(maximum ?? Infinity, Math.max(minimum ?? -Infinity, value));

  function press(control, scope, id) {
    const here = view();
    here.message = null;
    const { values, lists } = app();
    if ((control.needs ?? []).some((key) => !values[key])) return;
    if (control.submit && !valid(shownControls(), scope)) return;
    if (control.asks && !["allowed", "once"].includes(values[`permission_${control.asks}`])) {
      if (values[`permission_${control.asks}`] === "denied") here.message = { text: words.refused, undo: null };
      else here.asking = { permission: control.asks, id };
      return;
    }
    if (control.only && !holds(control.only, scope)) {
      if (control.otherwise) here.message = { text: text(control.otherwise, scope), undo: null };
      return;
    }
    const before = control.undo ? structuredClone({ values, lists }) : null;
    const record = scope?.record ?? subject();
    const list = scope?.list ?? (here.dialog !== null && here.row ? here.row.list : here.item?.list);
    const said = control.say ? text(control.say, scope) : "";
    let inserted = null;

    const put = Object.entries(control.put ?? {}).map(([key, value]) => [key, typed(value, scope)]);
    const edited = Object.entries(control.edit ?? {}).map(([field, value]) => [field, typed(value, scope)]);
    const steps = Object.entries(control.step ?? {}).map(([key, value]) => [key, Number(typed(value, scope))]);
    const bumps = Object.entries(control.bump ?? {}).map(([field, value]) => [field, Number(typed(value, scope))]);
    const rows = Object.entries(control.insert ?? {}).map(([name, fields]) => [
      name, Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, typed(value, scope)])),
    ]);
    const purged = Object.entries(control.purge ?? {}).map(([name, where]) => [
      name, lists[name].filter((row) => holds(where, { record: row, outer: scope })).map((row) => row.id),
    ]);
    for (const key of control.toggle ?? []) values[key] = !values[key];
    for (const [key, value] of put) values[key] = value;
    for (const [key, by] of steps) values[key] = within(round(Number(values[key]) + by), control);
    if (record !== null) {
      for (const [field, value] of edited) record[field] = value;
      for (const field of control.flip ?? []) record[field] = !record[field];
      for (const [field, by] of bumps) record[field] = within(round(Number(record[field]) + by), control);
    }
    for (const [name, update] of Object.entries(control.update ?? {})) {
      for (const row of lists[name]) {
        if (holds(update.where, { record: row, outer: scope })) Object.assign(row, update.set);
      }
    }
    for (const [name, fields] of rows) {
      const id = String(lists[name].reduce((most, row) => Math.max(most, Number(row.id) || 0), 0) + 1);
      lists[name].push({ id, ...(spec.fields?.[name] ?? {}), ...fields });
      inserted = { list: name, id };
    }
    for (const [name, ids] of purged) lists[name] = lists[name].filter((row) => !ids.includes(row.id));
    if (record !== null && list && (control.delete || control.move)) {
      lists[list].splice(lists[list].indexOf(record), 1);
      if (control.move) {
        const next = lists[control.move].reduce((most, row) => Math.max(most, Number(row.id) || 0), 0) + 1;
        lists[control.move].push({ ...record, id: String(next) });
      }
    }
    for (const key of control.clear ?? []) values[key] = host.defaults().values[key];

    const about = here.row;
    const over = here.dialog !== null;
    if (over && (control.close || control.open || control.back || control.home)) Object.assign(here, { dialog: null, row: null, sheet: 0 });
    if (control.dialog) {
      const row = scope?.record ? { list: scope.list, id: scope.record.id } : over ? about : null;
      Object.assign(here, { dialog: control.dialog, row, sheet: 0 });
    }
    if (control.kind === "nav" && control.open) toRoot(control.open);
    else if (control.open) {
      const next = control.new ? inserted : scope?.record ? { list: scope.list, id: scope.record.id } : (about ?? here.item);
      const same = control.open === here.screen && JSON.stringify(next) === JSON.stringify(here.item);
      if (!same) {
        here.stack.push({ screen: here.screen, item: here.item, scroll: here.scroll });
        show(control.open, next, 0);
      }
    }
    if (control.back) goBack();
    if (control.home) toRoot(first());
    if (said) here.message = { text: said, undo: before };
  }

  const round = (number) => Math.round(number * 100) / 100;
  const first = () => Object.keys(spec.screens)[0];

  function show(screen, item, scroll) {
    Object.assign(view(), { screen, item, scroll, focus: null, errors: {}, drawer: false, row: null, picker: null, sheet: 0 });
  }

  function toRoot(screen) {
    view().stack = screen === first() ? [] : [{ screen: first(), item: null, scroll: 0 }];
    show(screen, null, 0);
  }

  function goBack() {
    const last = view().stack.pop();
    if (last) show(last.screen, last.item, last.scroll);
  }

  // The system's back: true if the app had something to close or leave.
  function back() {
    const here = view();
    here.message = null;
    if (here.asking !== null) here.asking = null;
    else if (here.picker !== null) here.picker = null;
    else if (here.drawer) here.drawer = false;
    else if (here.dialog !== null) Object.assign(here, { dialog: null, row: null, sheet: 0 });
    else if (here.stack.length > 0) goBack();
    else return false;
    return true;
  }

  function* flat(controls) {
    for (const control of controls) {
      yield control;
      if (control.controls) yield* flat(control.controls);
    }
  }

  function shownControls() {
    const here = view();
    if (here.dialog !== null) return spec.dialogs[here.dialog].controls;
    const screen = spec.screens[here.screen];
    return [...(screen.top ?? []), ...(screen.controls ?? []), ...(screen.bottom ?? [])];
  }

  function valid(controls, scope) {
    const errors = {};
    for (const control of flat(controls)) {
      if (!["field", "checkbox", "radio", "rating", "select"].includes(control.kind) || !holds(control.when, scope)) continue;
      const value = read(control, scope);
      const problem = trouble(control, value);
      if (problem) errors[control.key] = problem;
    }
    view().errors = errors;
    if (Object.keys(errors).length > 0) view().message = { text: words.fix, undo: null };
    return Object.keys(errors).length === 0;
  }

  function trouble(control, value) {
    const given = String(value ?? "").trim();
    if (control.required && (!given || value === false || (control.kind === "rating" && !value))) return words.required;
    if (!given || control.kind !== "field") return "";
    if (["number", "decimal"].includes(control.type)) {
      if (!/^-?\d+(\.\d+)?$/.test(given)) return words.number;
      if (control.minimum !== undefined && control.minimum !== null && Number(given) < control.minimum) return words.least + control.minimum;
      if (control.maximum !== undefined && control.maximum !== null && Number(given) > control.maximum) return words.most + control.maximum;
    }
    if (control.type === "phone" && !/^\+?[\d\s-]{7,16}$/.test(given)) return words.phone;
    if (control.type === "email" && !/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(given)) return words.email;
    if (control.length && given.length < control.length) return words.letters.replace("{n}", control.length);
    return "";
  }

  // --- drawing: elements ----------------------------------------------------------------------------------------------

  function h(tag, className = "", ...children) {
    const element = document.createElement(tag);
    element.className = className;
    element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }

  // Makes an element something that can be acted on. Its look stays its own.
  function live(element, id, kind, label, act, more = {}) {
    Object.assign(element.dataset, { id, kind, label });
    if (act) presses.set(id, { act, ...more });
    return element;
  }

  function icon(name, extra = "") {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("class", `icon ${extra}`);
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", icons[name] ?? icons.app);
    svg.append(path);
    return svg;
  }

  const hash = (seed) => [...String(seed)].reduce((sum, letter) => (Math.imul(sum ^ letter.codePointAt(0), 16777619)) >>> 0, 2166136261);

  function avatar(name, extra = "") {
    const element = h("span", `avatar ${extra}`, [...String(name).trim()].slice(0, 1).join("").toUpperCase());
    const art = looks[app().theme].art;
    element.style.background = art[hash(name) % art.length];
    return element;
  }

  // A drawn picture: the same for the same text. With an icon, a product; without, a landscape or a pattern.
  function picture(seed, name, extra = "") {
    const art = looks[app().theme].art;
    const number = hash(seed);
    const color = (shift) => art[(number + shift * 7) % art.length];
    const pick = (shift, below) => (number >>> shift) % below;
    const parts = [`<rect width="160" height="120" fill="${color(0)}"/>`];
    if (name) parts.push(`<rect width="160" height="120" fill="#fff" opacity="0.72"/><circle cx="80" cy="60" r="46" fill="${color(0)}" opacity="0.18"/>`);
    else if (number % 5 === 0) {
      parts.push(`<circle cx="${30 + pick(3, 100)}" cy="34" r="16" fill="#fff" opacity="0.75"/>`,
        `<path d="M0 90L${30 + pick(5, 30)} 46L80 92L${105 + pick(7, 25)} 52L160 96V120H0Z" fill="${color(1)}"/>`,
        `<path d="M0 104Q40 ${84 + pick(9, 16)} 80 102T160 98V120H0Z" fill="${color(2)}"/>`);
    } else if (number % 5 === 1) {
      for (let i = 0; i < 5; i += 1) parts.push(`<circle cx="${pick(i * 3, 160)}" cy="${pick(i * 2 + 4, 120)}" r="${14 + pick(i + 6, 34)}" fill="${color(i + 1)}" opacity="0.55"/>`);
    } else if (number % 5 === 2) {
      for (let i = 0; i < 6; i += 1) parts.push(`<rect x="${i * 27 + pick(i, 6)}" y="${30 + pick(i * 3, 50)}" width="22" height="120" fill="${i % 2 ? "#fff" : color(i + 1)}" opacity="${i % 2 ? 0.35 : 0.8}"/>`);
    } else if (number % 5 === 3) {
      for (let i = 0; i < 4; i += 1) parts.push(`<path d="M0 ${30 + i * 24}Q40 ${8 + i * 24 + pick(i * 2, 20)} 80 ${30 + i * 24}T160 ${28 + i * 24}V120H0Z" fill="${color(i + 1)}" opacity="0.6"/>`);
    } else {
      parts.push(`<path d="M${pick(3, 60)} 0L160 ${pick(5, 70)}V120H${pick(7, 80)}Z" fill="${color(1)}" opacity="0.8"/><path d="M0 ${40 + pick(2, 40)}L90 120H0Z" fill="${color(2)}" opacity="0.9"/><circle cx="${60 + pick(9, 60)}" cy="56" r="20" fill="#fff" opacity="0.5"/>`);
    }
    const holder = h("span", `picture ${extra}`);
    holder.innerHTML = `<svg viewBox="0 0 160 120" preserveAspectRatio="xMidYMid slice">${parts.join("")}</svg>`;
    if (name) {
      const drawn = icon(name);
      drawn.style.color = color(0);
      holder.append(drawn);
    }
    return holder;
  }

  // A square of dots that looks as what a scanner reads; the same for the same text.
  function code(seed) {
    const squares = [];
    let number = hash(seed);
    for (let y = 0; y < 21; y += 1) {
      for (let x = 0; x < 21; x += 1) {
        number = (Math.imul(number, 1664525) + 1013904223) >>> 0;
        const [cx, cy] = [Math.min(x, 20 - x), y > 10 && x > 10 ? 9 : Math.min(y, 20 - y)];
        const corner = cx < 7 && cy < 7;
        const ring = Math.max(Math.abs(cx - 3), Math.abs(cy - 3));
        if (corner ? ring === 3 || ring <= 1 : number >>> 31) squares.push(`<rect x="${x}" y="${y}" width="1" height="1"/>`);
      }
    }
    const holder = h("span", "picture wide code");
    holder.innerHTML = `<svg viewBox="-2 -2 25 25" shape-rendering="crispEdges">${squares.join("")}</svg>`;
    return holder;
  }

  // --- drawing: the screen ----------------------------------------------------------------------------------------------

  function render(foreground, catalogue) {
    presses = new Map();
    numbers = new Map();
    ({ looks, icons } = catalogue);
    spec = foreground;
    words = WORDS[spec.locale];
    const style = spec.style ?? {};
    const mobile = spec.platform === "mobile";
    dress(app().theme, mobile);
    root.className = ["full", mobile ? "mobile" : "site", spec.locale, `head-${style.header ?? "plain"}`, `density-${style.density ?? "normal"}`,
      `corners-${style.corners ?? "soft"}`, `lists-${style.lists ?? "lines"}`, `font-${style.font ?? "sans"}`, `icons-${style.icons ?? "thin"}`,
      `menu-${spec.menu ?? "bottom"}`].join(" ");
    const here = view();
    const screen = spec.screens[here.screen];
    const body = h("div", `body layout-${screen.layout ?? "rows"}`);
    const frame = h("div", "frame");
    if (mobile) frame.append(statusBar(spec.clock ?? "2026-05-18 09:41"));
    frame.append(header(screen), body);
    drawBody(body, screen);
    const middle = frame;
    const foot = footer(screen);
    if (foot) middle.append(foot);
    root.replaceChildren(frame);
    if (here.message !== null) frame.append(message(here.message, foot !== null));
    if (here.drawer) root.append(drawer());
    if (here.dialog !== null) root.append(dialog(spec.dialogs[here.dialog]));
    if (here.picker !== null) root.append(picker(here.picker));
    if (here.asking !== null) root.append(asking(here.asking));
    const attack = drawAttack();
    if (attack) root.append(attack);
    const bubbled = body.querySelector(".bubbles");
    here.scroll = Math.round(Math.max(0, Math.min(here.scroll, body.scrollHeight - body.clientHeight)));
    if (bubbled) body.classList.add("talk");
    body.scrollTop = here.scroll;
    const sheet = topSheet();
    if (sheet) {
      here.sheet = Math.round(Math.max(0, Math.min(here.sheet, sheet.scrollHeight - sheet.clientHeight)));
      sheet.scrollTop = here.sheet;
    }
    const field = here.focus === null ? null : root.querySelector(`[data-focus="${CSS.escape(here.focus)}"]`);
    if (field !== null) {
      field.focus({ preventScroll: true });
      if (field.setSelectionRange && field.type !== "number") field.setSelectionRange(field.value.length, field.value.length);
    } else document.activeElement?.blur();
  }

  const topSheet = () => [...root.querySelectorAll(".scrolls")].at(-1) ?? null;

  // Colours and the scale of the whole: phones are laid out 360 wide and drawn as large as they are.
  function dress(theme, mobile) {
    const look = looks[theme] ?? looks[Object.keys(looks)[0]];
    for (const name of ["page", "surface", "raised", "ink", "muted", "line", "accent", "tint"]) root.style.setProperty(`--${name}`, look[name]);
    root.style.setProperty("--on-accent", look.on_accent);
    root.dataset.dark = look.dark ? "1" : "";
    root.style.zoom = mobile ? String(window.innerWidth / 360) : "1";
  }

  const zoom = () => Number(root.style.zoom || 1);

  function statusBar(clock) {
    return h("div", "status", h("span", "", clock.slice(-5)), h("span", "signs", icon("signal"), icon("wifi"), icon("battery")));
  }

  const roots = () => new Set((spec.navigation ?? []).map((item) => item.open));

  function header(screen) {
    const here = view();
    const bar = h("div", "appbar");
    const inner = h("div", "appbar-in");
    const mobile = spec.platform === "mobile";
    const isRoot = roots().has(here.screen) || here.screen === first();
    if (!mobile) {
      const brand = h("span", "brand", icon(spec.icon ?? "app"), h("b", "", spec.title));
      inner.append(brand);
    }
    const deep = here.stack.length > 0 && !(isRoot && roots().has(here.screen));
    if (mobile && deep) inner.append(live(h("button", "tool", icon("back")), `${here.screen}/@back`, "tool", words.back, goBack));
    else if (mobile && spec.menu === "drawer" && spec.navigation?.length) {
      inner.append(live(h("button", "tool", icon("menu")), `${here.screen}/@menu`, "tool", words.menu, () => { here.drawer = true; }));
    }
    const top = (screen.top ?? []).filter((control) => holds(control.when, null));
    const tools = top.filter((control) => control.kind === "tool");
    const others = top.filter((control) => control.kind !== "tool");
    const title = text(screen.title ?? "", null);
    if (mobile) inner.append(h("h1", "", title || (isRoot ? spec.title : "")));
    if (!mobile && spec.navigation?.length && ["bottom", "tabs"].includes(spec.menu ?? "bottom")) inner.append(h("nav", "links", navItems("link-item")));
    const right = h("span", "tools", tools.map((control) => draw(control, null, here.screen)));
    inner.append(right);
    bar.append(inner);
    if (mobile && screen.note) bar.append(h("p", "sub", text(screen.note, null)));
    if (mobile && spec.menu === "tabs" && spec.navigation?.length && roots().has(here.screen)) bar.append(h("nav", "tabs", navItems("tab-item")));
    const tabs = others.filter((control) => control.kind === "tab");
    if (tabs.length) bar.append(h("nav", "tabs", tabs.map((control) => draw(control, null, here.screen))));
    const rest = others.filter((control) => control.kind !== "tab");
    if (rest.length) bar.append(h("div", "under", rest.map((control) => draw(control, null, here.screen))));
    return bar;
  }

  function navItems(className) {
    const here = view();
    const current = roots().has(here.screen) ? here.screen : ([...here.stack].reverse().find((entry) => roots().has(entry.screen))?.screen ?? first());
    return (spec.navigation ?? []).filter((item) => holds(item.when, null)).map((item) => {
      const label = text(item.label, null);
      const badge = text(item.badge, null);
      const element = h("button", `${className}${item.open === current ? " on" : ""}`, item.icon ? icon(item.icon) : null, h("span", "", label),
        badge && badge !== "0" ? h("em", "badge", badge) : null);
      const id = `nav/${item.id || item.label}`;
      return live(element, id, "nav", label, () => press(item, null, id));
    });
  }

  function footer(screen) {
    const here = view();
    const bottom = (screen.bottom ?? []).filter((control) => holds(control.when, null));
    const mobile = spec.platform === "mobile";
    const parts = [];
    if (bottom.length) parts.push(h("div", "actionbar", bottom.map((control) => draw(control, null, here.screen))));
    if (mobile && (spec.menu ?? "bottom") === "bottom" && spec.navigation?.length && roots().has(here.screen)) parts.push(h("nav", "bottomnav", navItems("nav-item")));
    return parts.length ? h("div", "foot", parts) : null;
  }

  function drawBody(body, screen) {
    const here = view();
    const mobile = spec.platform === "mobile";
    if (screen.failure && holds(screen.failure.when, null)) {
      body.append(h("div", "empty failure", icon(screen.failure.icon ?? "cloud-off", "big"), h("b", "", text(screen.failure.text, null)),
        h("p", "", text(screen.failure.note, null)), draw(screen.failure.retry, null, here.screen)));
      return;
    }
    let into = body;
    const side = spec.navigation?.length && (spec.menu === "rail" || (!mobile && spec.menu === "drawer"));
    if (side || screen.side?.length) {
      const column = h("div", `sidebar${side && mobile ? " rail" : ""}`, side ? navItems("side-item") : null,
        (screen.side ?? []).filter((control) => holds(control.when, null)).map((control) => draw(control, null, here.screen)));
      if (!side || !mobile || roots().has(here.screen)) {
        into = h("div", "main");
        body.classList.add("sided");
        body.append(column, into);
      }
    }
    const content = h("div", "content");
    into.append(content);
    if (!mobile && (screen.title || here.stack.length)) {
      const crumbs = here.stack.length ? live(h("button", "crumb", icon("back"), h("span", "", words.back)), `${here.screen}/@back`, "link", words.back, goBack) : null;
      content.append(h("div", "pagehead", crumbs, screen.title ? h("h1", "", text(screen.title, null)) : null, screen.note ? h("p", "", text(screen.note, null)) : null));
    }
    const controls = arranged(screen.controls ?? []);
    const floating = controls.filter((control) => control.kind === "fab" && holds(control.when, null));
    content.append(...drawAll(controls.filter((control) => control.kind !== "fab"), null, here.screen));
    for (const control of floating) (mobile ? body.parentElement ?? root : content).append(draw(control, null, here.screen));
    if (floating.length && mobile) body.classList.add("floats");
  }

  const KEYED = new Set(["field", "search", "date", "time", "select", "switch", "checkbox", "stepper", "slider", "rating", "keypad", "calendar"]);
  const drawAll = (controls, scope, path) => controls.filter((control) => holds(control.when, scope)).flatMap((control) => draw(control, scope, path));

  // Another arrangement permutes tiles and rows of groups: what lies next to each other is not what makes an app.
  function arranged(controls) {
    const arrangement = app().arrangement;
    if (!arrangement) return controls;
    const turned = (list) => list.map((_, index) => list[(index + arrangement) % list.length]);
    return controls.map((control) => {
      if (control.kind !== "section" || !["grid", "group"].includes(control.layout)) return control;
      return (control.controls?.length ?? 0) > 1 ? { ...control, controls: turned(control.controls) } : control;
    });
  }

  // --- drawing: controls --------------------------------------------------------------------------------------------

  function draw(control, scope, path) {
    const name = `${scope?.path ?? path}/${control.id || (KEYED.has(control.kind) ? control.key : control.label)}`;
    const label = text(control.label, scope);
    const act = () => press(control, scope, name);
    const painter = painters[control.kind];
    const drawn = painter(control, { scope, path, id: name, label, act });
    if (drawn && control.hold) {
      const entry = presses.get(name);
      if (entry) entry.hold = () => openHeld(control.hold, scope);
    }
    return drawn;
  }

  function openHeld(name, scope) {
    Object.assign(view(), { dialog: name, sheet: 0, message: null, row: scope?.record ? { list: scope.list, id: scope.record.id } : null });
  }

  const lit = (control, scope) => Boolean(control.lit) && holds(control.lit, scope);
  const hint = (control, scope) => text(control.hint, scope);

  const painters = {
    text: (control, { label, scope }) => h("p", `text text-${control.style || "body"}`, label || null, control.note ? h("small", "", text(control.note, scope)) : null),
    heading: (control, { label, scope }) => h("h2", "heading", h("span", "", label), control.value ? h("small", "", text(control.value, scope)) : null),
    divider: () => h("hr", "divider"),
    picture: (control, { label, scope }) => control.style === "code" ? code(label) : picture(label, text(control.icon, scope), `wide ${control.style ?? ""}`),
    notice: (control, { label, scope, id, act }) => {
      const element = h("div", `notice ${control.style || "info"}`, icon(control.icon || "info"), h("span", "", label, control.note ? h("small", "", text(control.note, scope)) : null));
      return acts(control) ? live(element, id, "row", label, act) : element;
    },
    stat: (control, { label, scope }) => h("div", `stat ${control.style ?? ""}`, control.icon ? icon(text(control.icon, scope)) : null, h("b", "", text(control.value, scope)), h("span", "", label),
      control.note ? h("small", "", text(control.note, scope)) : null),
    progress: (control, { label, scope }) => {
      const share = Math.max(0, Math.min(1, Number(typed(control.value, scope)) / (control.maximum ?? 100)));
      const bar = h("i", "");
      bar.style.width = `${Math.round(share * 100)}%`;
      return h("div", "progress", h("span", "", label, h("small", "", text(control.note, scope))), h("div", "track", bar));
    },
    chart: drawChart,
    map: drawMap,
    section: (control, { label, scope, path }) => {
      const holder = h("div", `in layout-${control.layout || "stack"}`);
      if (control.layout === "grid") holder.style.gridTemplateColumns = `repeat(${control.columns ?? 2}, minmax(0, 1fr))`;
      holder.append(...drawAll(control.controls ?? [], scope, path));
      if (holder.childElementCount === 0) return "";
      return h("section", `section ${control.style ?? ""}`, label ? h("h2", "heading", h("span", "", label), control.value ? h("small", "", text(control.value, scope)) : null) : null, holder,
        control.note ? h("p", "footnote", text(control.note, scope)) : null);
    },
    button: (control, parts) => pressable(control, parts, `btn ${control.style || "filled"}`),
    outline: (control, parts) => pressable(control, parts, `btn ${control.style || "outlined"}`),
    link: (control, parts) => pressable(control, parts, "btn textual"),
    chip: (control, parts) => pressable(control, parts, `chip${lit(control, parts.scope) ? " on" : ""}`),
    fab: (control, { id, label, act }) => live(h("button", `fab ${control.style ?? ""}`, icon(control.icon || "plus"), control.style === "wide" ? h("span", "", label) : null), id, "button", label, act),
    tool: (control, { id, label, act, scope }) => {
      const badge = text(control.badge, scope);
      return live(h("button", `tool${lit(control, scope) ? " on" : ""}`, icon(control.icon || "more"), control.style === "wide" ? h("span", "", label) : null,
        control.value ? h("span", "", text(control.value, scope)) : null, badge && badge !== "0" ? h("em", "badge", badge) : null), id, "tool", label, act);
    },
    tile: (control, { id, label, act, scope }) => {
      const badge = text(control.badge, scope);
      const face = h("span", `face ${control.style ?? ""}`, icon(text(control.icon, scope) || "app"));
      const art = looks[app().theme].art;
      face.style.setProperty("--tile", art[hash(control.label) % art.length]);
      return live(h("button", `tile${lit(control, scope) ? " on" : ""}`, face, h("span", "", label), control.note ? h("small", "", text(control.note, scope)) : null,
        badge && badge !== "0" ? h("em", "badge", badge) : null), id, "card", label, act);
    },
    card: (control, { id, label, act, scope }) => live(h("button", `cardlet ${control.style ?? ""}`, control.picture ? picture(text(control.picture, scope), text(control.icon, scope)) : control.icon ? icon(control.icon) : null,
      h("span", "words", h("b", "", label), control.note ? h("small", "", text(control.note, scope)) : null), control.value ? h("em", "", text(control.value, scope)) : null), id, "card", label, act),
    row: (control, { id, label, act, scope }) => {
      const badge = text(control.badge, scope);
      const active = acts(control);
      const element = h(active ? "button" : "div", `row ${control.style ?? ""}`, lead(control, scope), h("span", "words", h("b", "", label), control.note ? h("small", "", text(control.note, scope)) : null),
        control.value ? h("span", "value", text(control.value, scope)) : null, badge && badge !== "0" ? h("em", "badge", badge) : null, active ? icon("next", "faint") : null);
      return active ? live(element, id, "row", label, act) : element;
    },
    tab: (control, { id, label, act }) => live(h("button", `tab-item${control.open === view().screen ? " on" : ""}`, h("span", "", label)), id, "tab", label, act),
    nav: (control, { id, label, act }) => live(h("button", "nav-item", control.icon ? icon(control.icon) : null, h("span", "", label)), id, "nav", label, act),
    switch: (control, { id, label, scope, act }) => {
      const on = Boolean(read(control, scope));
      return live(h("button", `row${on ? " on" : ""}`, lead(control, scope), h("span", "words", h("b", "", label), control.note ? h("small", "", text(control.note, scope)) : null), h("i", "switch")), id, "switch", label,
        () => { write(control, scope, !on); act(); });
    },
    checkbox: (control, { id, label, scope, act }) => {
      const on = Boolean(read(control, scope));
      const box = h("i", `check${on ? " on" : ""}`, on ? icon("check") : null);
      const wrong = view().errors[control.key];
      return live(h("button", `row${on ? " on" : ""}${wrong ? " wrong" : ""}`, box, h("span", "words", h("b", "", label), control.note ? h("small", "", text(control.note, scope)) : null, wrong ? h("small", "error", wrong) : null)), id, "checkbox", label,
        () => { write(control, scope, !on); act(); });
    },
    radio: (control, { id, label, scope, act }) => {
      const on = read(control, scope) === control.label;
      return live(h("button", `row${on ? " on" : ""}`, h("i", `dot${on ? " on" : ""}`), h("span", "words", h("b", "", label), control.note ? h("small", "", text(control.note, scope)) : null),
        control.value ? h("span", "value", text(control.value, scope)) : null), id, "radio", label, () => { write(control, scope, control.label); act(); });
    },
    field: drawField,
    search: (control, parts) => drawField({ ...control, kind: "search" }, parts),
    select: (control, { id, label, scope, act }) => {
      const value = String(read(control, scope) ?? "");
      if (spec.platform === "web") {
        const list = h("select", "input");
        for (const option of control.options) list.add(new Option(option, option, false, option === value));
        list.addEventListener("change", () => { write(control, scope, list.value); act(); host.render(); });
        return h("label", "labelled", h("span", "caption", label), live(list, id, "select", label, null));
      }
      const element = h("button", "row picks", lead(control, scope), h("span", "words", h("b", "", label), control.note ? h("small", "", text(control.note, scope)) : null), h("span", "value", value || words.choose), icon("down", "faint"));
      return live(element, id, "select", label, () => openPicker(id, "select"), { control, scope });
    },
    date: (control, { id, label, scope }) => live(h("button", "row picks", icon(control.icon || "calendar", "lead"), h("span", "words", h("b", "", label)), h("span", "value", written(read(control, scope), "date"))), id, "select", label,
      () => openPicker(id, "date", String(read(control, scope) || lookup("today")).slice(0, 7)), { control, scope }),
    time: (control, { id, label, scope }) => live(h("button", "row picks", icon(control.icon || "clock", "lead"), h("span", "words", h("b", "", label)), h("span", "value", String(read(control, scope)))), id, "select", label,
      () => openPicker(id, "time"), { control, scope }),
    stepper: (control, { id, label, scope, act }) => {
      const value = Number(read(control, scope) ?? 0);
      const change = (by) => () => { write(control, scope, within(round(value + by), { minimum: control.minimum ?? 0, maximum: control.maximum })); act(); };
      const by = control.by ?? 1;
      return h("div", `row stepper ${control.style ?? ""}`, label ? h("span", "words", h("b", "", label), control.note ? h("small", "", text(control.note, scope)) : null) : null, h("span", "counter",
        live(h("button", "", icon("minus")), `${id}/minus`, "button", `${label} −`.trim(), change(-by)), h("b", "", `${value}${control.unit ?? ""}`),
        live(h("button", "", icon("plus")), `${id}/plus`, "button", `${label} +`.trim(), change(by))));
    },
    slider: (control, { id, label, scope, act }) => {
      const [least, most] = [control.minimum ?? 0, control.maximum ?? 100];
      const value = Number(read(control, scope) ?? least);
      const share = (value - least) / (most - least || 1);
      const track = h("div", "groove", h("i", ""), h("b", ""));
      track.style.setProperty("--share", `${share * 100}%`);
      const slide = (x) => {
        const by = control.by ?? 1;
        const raw = least + Math.max(0, Math.min(1, x)) * (most - least);
        write(control, scope, within(round(Math.round(raw / by) * by), { minimum: least, maximum: most }));
        act();
      };
      const shown = control.value ? text(control.value, scope) : `${value}${control.unit ?? ""}`;
      return h("div", "slide", label ? h("span", "caption", control.icon ? icon(control.icon) : null, h("span", "", label), h("small", "", shown)) : null, live(track, id, "slider", label || control.key, () => {}, { slide }));
    },
    rating: (control, { id, label, scope, act }) => {
      const value = Number(read(control, scope) ?? 0);
      const stars = [1, 2, 3, 4, 5].map((star) => live(h("button", `star${star <= value ? " on" : ""}`, icon("star")), `${id}/${star}`, "button", `${label} ${star}`.trim(), () => { write(control, scope, star); act(); }));
      const wrong = view().errors[control.key];
      return h("div", `row rate${wrong ? " wrong" : ""}`, label ? h("span", "words", h("b", "", label), wrong ? h("small", "error", wrong) : null) : null, h("span", "stars", stars));
    },
    segmented: (control, parts) => options(control, parts, "segmented", "seg", "tab"),
    chips: (control, parts) => options(control, parts, "chips", "chip", "button"),
    keypad: drawKeypad,
    calendar: drawCalendar,
    list: drawList,
  };

  const EFFECTS = ["put", "clear", "dialog", "open", "back", "home", "close", "toggle", "step", "edit", "flip", "bump", "insert", "update", "purge", "delete", "move", "say", "asks", "submit"];
  const acts = (control) => EFFECTS.some((effect) => {
    const value = control[effect];
    return value && (typeof value !== "object" || Object.keys(value).length > 0);
  });

  function lead(control, scope) {
    if (control.lead) return drawLead(control.lead, scope);
    if (control.avatar) return avatar(text(control.avatar, scope));
    if (control.picture) return picture(text(control.picture, scope), text(control.icon, scope), "thumb");
    if (control.icon) return h("span", "glyph", icon(text(control.icon, scope)));
    return null;
  }

  // A bare box, star or icon that stands before a row's words.
  function drawLead(control, scope) {
    const id = `${scope.path}/${control.id || control.label}`;
    const label = `${text(control.label, scope)}`;
    const on = control.kind === "checkbox" ? Boolean(read(control, scope)) : lit(control, scope);
    const act = () => { if (control.kind === "checkbox") write(control, scope, !on); press(control, scope, id); };
    const face = control.kind === "checkbox" ? h("i", `check${on ? " on" : ""}`, on ? icon("check") : null) : icon(control.icon || "star");
    return live(h("button", `lead-btn${on ? " on" : ""}`, face), id, control.kind === "checkbox" ? "checkbox" : "tool", label, act);
  }

  function pressable(control, { id, label, act, scope }, className) {
    return live(h("button", className, control.icon ? icon(text(control.icon, scope)) : null, h("span", "", label), control.value ? h("small", "", text(control.value, scope)) : null), id, control.kind === "outline" ? "outline" : control.kind === "link" ? "link" : "button", label, act);
  }

  function options(control, { id, label, scope, act }, className, each, kind) {
    const value = read(control, scope);
    const prefix = id.slice(0, id.lastIndexOf("/"));
    const choices = control.options.map((option) => live(h("button", `${each}${option === value ? " on" : ""}`, h("span", "", option)), `${prefix}/${control.key}/${option}`, kind, option,
      () => { write(control, scope, option); act(); }));
    return h("div", "choice", label ? h("span", "caption", label) : null, h("div", className, choices));
  }

  function drawField(control, { id, label, scope, act }) {
    const looking = control.kind === "search";
    const lines = control.type === "lines";
    const input = h(lines ? "textarea" : "input", "input");
    const value = String(read(control, scope) ?? "");
    input.autocomplete = "off";
    input.spellcheck = false;
    if (!lines) input.type = control.type === "password" || control.type === "pin" ? "password" : "text";
    input.value = value;
    input.placeholder = hint(control, scope) || (looking || control.style === "bare" ? label : "");
    input.dataset.focus = id;
    const numeric = ["number", "decimal"].includes(control.type);
    input.addEventListener("input", () => {
      const raw = input.value;
      write(control, scope, numeric && /^-?\d+(\.\d+)?$/.test(raw) ? Number(raw) : raw);
      if (looking) host.render();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || (lines && !event.ctrlKey)) return;
      event.preventDefault();
      act();
      host.render();
    });
    const wrong = view().errors[control.key];
    const shownLabel = label || hint(control, scope) || control.key;
    live(input, id, "field", shownLabel, () => {}, { focus: id });
    if (looking) {
      const wipe = value ? live(h("button", "wipe", icon("close")), `${id}/clear`, "tool", words.clear, () => { write(control, scope, ""); }) : null;
      return h("div", "searchbox", icon("search"), input, wipe);
    }
    if (control.style === "bare") return h("div", `bare${wrong ? " wrong" : ""}`, control.icon ? icon(control.icon) : null, input);
    return h("label", `labelled${wrong ? " wrong" : ""}`, h("span", "caption", label, control.required ? h("i", "must", " *") : null), h("span", "inputbox", control.icon ? icon(control.icon) : null, input, control.unit ? h("small", "", control.unit) : null), wrong ? h("small", "error", wrong) : control.note ? h("small", "", text(control.note, scope)) : null);
  }

  // --- drawing: lists -------------------------------------------------------------------------------------------------

  function rowsOf(control, scope) {
    const { values, lists } = app();
    let rows = lists[control.label].filter((record) => holds(control.where, { record, outer: scope }));
    if (control.filter) {
      const chosen = values[control.filter];
      const chooser = [...allControls()].find((other) => other.key === control.filter && other.options?.length);
      if (control.filters?.[chosen]) rows = rows.filter((record) => holds(control.filters[chosen], { record, outer: scope }));
      else if (control.matches && chosen && chosen !== chooser?.options[0]) rows = rows.filter((record) => String(record[control.matches]) === String(chosen));
    }
    const query = control.search ? String(values[control.search] ?? "").trim().toLowerCase() : "";
    if (query) rows = rows.filter((record) => (control.inside?.length ? control.inside : Object.keys(record)).some((field) => typeof record[field] === "string" && field !== "id" && record[field].toLowerCase().includes(query)));
    const order = control.sort?.startsWith("$") ? (control.orders?.[values[control.sort.slice(1)]] ?? "") : (control.sort ?? "");
    if (order) {
      const field = order.replace(/^-/, "");
      const sign = order.startsWith("-") ? -1 : 1;
      rows = [...rows].sort((one, other) => sign * (one[field] < other[field] ? -1 : one[field] > other[field] ? 1 : 0));
    }
    return control.limit ? rows.slice(0, control.limit) : rows;
  }

  function* allControls() {
    for (const screen of Object.values(spec.screens)) yield* flat([...(screen.top ?? []), ...(screen.side ?? []), ...(screen.controls ?? []), ...(screen.bottom ?? [])]);
    for (const shown of Object.values(spec.dialogs ?? {})) yield* flat(shown.controls);
  }

  function drawList(control, { path, scope }) {
    const rows = rowsOf(control, scope);
    const as = control.as ?? "row";
    if (rows.length === 0) {
      const searched = control.search && app().values[control.search];
      return h("div", "empty", icon(control.empty?.icon ?? "inbox", "big"), h("b", "", searched ? words.unmatched : control.empty ? text(control.empty.text, scope) : words.nothing), control.empty?.note && !searched ? h("p", "", text(control.empty.note, scope)) : null);
    }
    const holder = h("div", `list as-${as}`);
    if (["grid", "poster", "tile"].includes(as)) holder.style.gridTemplateColumns = `repeat(${columnsOf(control, as)}, minmax(0, 1fr))`;
    let group = null;
    rows.forEach((record, index) => {
      const inner = { list: control.label, record, index, outer: scope, path: `${path}/${control.id || control.label}/${record.id}` };
      if (control.group) {
        const field = control.group.replace(/^-/, "");
        if (record[field] !== group) {
          group = record[field];
          holder.append(h("h3", "group", /^\d{4}-\d\d-\d\d/.test(group) ? `${written(group, "date")} ${written(group, "weekday")}` : String(group)));
        }
      }
      holder.append(drawRow(control, inner, as));
    });
    return holder;
  }

  const columnsOf = (control, as) => {
    const asked = control.columns ?? (as === "tile" ? 4 : 2);
    return spec.platform === "web" ? Math.max(asked, as === "tile" ? 6 : 3) : asked;
  };

  function drawRow(control, scope, as) {
    const fill = (template) => text(template, scope);
    const title = fill(control.title) || fill("{title}") || fill("{name}");
    const [note, meta, value, badge] = [fill(control.note), fill(control.meta), fill(control.value), fill(control.badge)];
    const actions = (control.actions ?? []).filter((action) => holds(action.when, scope)).map((action) => draw(action, scope, scope.path));
    const classes = `${control.strong && holds(control.strong, scope) ? " strong" : ""}${control.faded && holds(control.faded, scope) ? " faded" : ""}${lit(control, scope) ? " on" : ""}`;
    const iconName = fill(control.icon);
    const art = control.picture ? picture(fill(control.picture), iconName) : null;
    const mark = badge && badge !== "0" ? h("em", "badge", badge) : null;
    const chosen = control.kind === "list" && acts(control);
    let element;
    if (as === "grid" || as === "card") {
      element = h("div", `card-row${classes}`, art ?? (iconName ? h("span", "glyph", icon(iconName)) : control.avatar ? avatar(fill(control.avatar), "large") : null),
        h("span", "words", h("b", "", title), note ? h("small", "", note) : null, h("span", "line", value ? h("strong", "", value) : null, meta ? h("small", "", meta) : null, mark)), actions.length ? h("span", "acts", actions) : null);
    } else if (as === "poster") {
      element = h("div", `poster${classes}`, art ?? picture(title, iconName), h("span", "over", h("b", "", title), note ? h("small", "", note) : null), mark, actions.length ? h("span", "acts", actions) : null);
    } else if (as === "tile") {
      const face = art ?? (control.avatar ? avatar(fill(control.avatar), "large") : h("span", "face", icon(iconName || "app")));
      face.style.setProperty("--tile", looks[app().theme].art[hash(title) % looks[app().theme].art.length]);
      element = h("div", `tile${classes}`, face, h("span", "", title), note ? h("small", "", note) : null, mark);
    } else if (as === "bubbles") {
      const own = holds(control.mine, scope);
      element = h("div", `said${own ? " own" : ""}`, !own && control.avatar ? avatar(fill(control.avatar)) : null, h("span", "bubble", !own && control.meta && control.value ? h("small", "", value) : null, h("span", "", title), meta ? h("small", "when", meta) : null));
      element.classList.add("bubbles");
    } else if (as === "timeline") {
      element = h("div", `moment${classes}`, h("span", "when", meta), h("i", "knot"), h("span", "words", h("b", "", title), note ? h("small", "", note) : null, value ? h("small", "value", value) : null), actions.length ? h("span", "acts", actions) : null);
    } else if (as === "post") {
      element = h("div", `post${classes}`, h("span", "by", control.avatar ? avatar(fill(control.avatar)) : null, h("span", "words", h("b", "", title), meta ? h("small", "", meta) : null), mark), note ? h("p", "", note) : null,
        art && fill(control.picture) ? art : null, value ? h("small", "", value) : null, actions.length ? h("span", "acts wide", actions) : null);
    } else if (as === "table") {
      element = h("div", `cells${classes}`, h("span", "", title), h("span", "", note), h("span", "", meta), h("b", "", value), actions.length ? h("span", "acts", actions) : null);
    } else {
      element = h("div", `row listed${as === "compact" ? " slim" : ""}${classes}`, lead({ ...control, icon: control.icon }, scope),
        h("span", "words", h("b", "", title), note ? h("small", "", note) : null), h("span", "end", meta ? h("small", "", meta) : null, value ? h("span", "value", value) : null, mark), actions.length ? h("span", "acts", actions) : null);
    }
    if (chosen || control.hold) {
      const id = scope.path;
      live(element, id, "row", title, chosen ? () => press(control, scope, id) : () => {}, control.hold ? { hold: () => openHeld(control.hold, scope) } : {});
    }
    return element;
  }

  // --- drawing: what is more than a row ---------------------------------------------------------------------------------

  function drawChart(control, { scope }) {
    const rows = rowsOf(control, scope);
    const amounts = rows.map((record) => Number(typed(control.value, { record })));
    const most = Math.max(1, ...amounts);
    const bars = rows.map((record, index) => {
      const bar = h("i", "");
      bar.style.height = `${Math.max(3, Math.round((amounts[index] / most) * 100))}%`;
      return h("span", "", h("em", "", bar), h("small", "", text(control.title || "{title}", { record })));
    });
    return h("div", `chart ${control.style ?? ""}`, bars);
  }

  function drawMap(control, { label, path, scope }) {
    const seed = hash(label);
    const pick = (shift, below) => (seed >>> shift) % below;
    const lines = [];
    for (let i = 0; i < 5; i += 1) {
      const at = 30 + i * 62 + pick(i * 3, 30);
      lines.push(`<path d="M0 ${at}Q${120 + pick(i, 80)} ${at - 30 + pick(i * 2, 60)} 360 ${at + pick(i * 4, 30)}" class="${i % 2 ? "road" : "street"}"/>`,
        `<path d="M${at + 10} 0Q${at - 20 + pick(i * 2, 60)} 160 ${at + pick(i, 40)} 340" class="${i % 3 ? "street" : "road"}"/>`);
    }
    const holder = h("div", `map ${control.style ?? ""}`);
    holder.innerHTML = `<svg viewBox="0 0 360 340" preserveAspectRatio="xMidYMid slice"><path class="water" d="M0 ${240 + pick(4, 60)}Q120 ${200 + pick(6, 60)} 200 ${290 + pick(8, 30)}T360 ${260 + pick(9, 50)}V340H0Z"/><rect class="park" x="${40 + pick(3, 160)}" y="${30 + pick(5, 90)}" width="88" height="70" rx="14"/>${lines.join("")}</svg>`;
    const name = control.marks || "";
    for (const record of name ? rowsOf({ ...control, label: name }, scope) : []) {
      const title = text(control.title || "{name}", { record });
      const id = `${path}/${control.id || "map"}/${record.id}`;
      const pinned = { list: name, record, path: id, outer: scope };
      const pin = live(h("button", `pin${view().item?.id === record.id ? " on" : ""}`, icon("pin"), h("span", "", title)), id, "button", title, () => press(control, pinned, id));
      pin.style.left = `${record.x}%`;
      pin.style.top = `${record.y}%`;
      holder.append(pin);
    }
    return holder;
  }

  const PADS = {
    pin: ["1", "2", "3", "4", "5", "6", "7", "8", "9", "", "0", "⌫"],
    dial: ["1", "2", "3", "4", "5", "6", "7", "8", "9", "*", "0", "#"],
    number: ["1", "2", "3", "4", "5", "6", "7", "8", "9", ".", "0", "⌫"],
    calculator: ["C", "⌫", "%", "÷", "7", "8", "9", "×", "4", "5", "6", "−", "1", "2", "3", "+", "00", "0", ".", "="],
  };

  function drawKeypad(control, { id, scope, act }) {
    const type = PADS[control.type] ? control.type : "number";
    const keys = PADS[type].map((key) => {
      if (!key) return h("span", "");
      const strong = "÷×−+=".includes(key);
      return live(h("button", `key${strong ? " op" : ""}${key === "=" ? " equals" : ""}`, key), `${id}/${key}`, "button", key, () => {
        view().message = null;
        const value = String(read(control, scope) ?? "");
        if (key === "⌫") write(control, scope, value.slice(0, -1));
        else if (key === "C") write(control, scope, "");
        else if (key === "=") {
          const result = calculated(value);
          if (result === null) return;
          if (`${control.key}_before` in app().values) app().values[`${control.key}_before`] = value;
          write(control, scope, result);
          act();
        } else if (type === "pin" && control.length && value.length >= control.length) return;
        else {
          write(control, scope, value + key);
          if (type === "pin" && control.length && value.length + 1 === control.length) act();
        }
      });
    });
    return h("div", `keypad pad-${type}`, keys);
  }

  // + − × ÷ and % of decimal numbers, by precedence; null if it is no sum.
  function calculated(expression) {
    const tokens = expression.match(/\d+\.?\d*|\.\d+|[+−×÷%]/g) ?? [];
    if (tokens.join("") !== expression || tokens.length === 0) return null;
    let at = 0;
    const number = () => {
      const sign = tokens[at] === "−" ? (at += 1, -1) : 1;
      if (at >= tokens.length || Number.isNaN(Number(tokens[at]))) return NaN;
      let value = Number(tokens[at]) * sign;
      at += 1;
      if (tokens[at] === "%") { value /= 100; at += 1; }
      return value;
    };
    const product = () => {
      let value = number();
      while (["×", "÷"].includes(tokens[at])) {
        const times = tokens[at] === "×";
        at += 1;
        const other = number();
        value = times ? value * other : value / other;
      }
      return value;
    };
    let total = product();
    while (["+", "−"].includes(tokens[at])) {
      const plus = tokens[at] === "+";
      at += 1;
      const other = product();
      total = plus ? total + other : total - other;
    }
    if (at < tokens.length || !Number.isFinite(total)) return null;
    return String(Number(total.toPrecision(12))).replace("-", "−");
  }

  function drawCalendar(control, { id, scope, act }) {
    const chosen = String(read(control, scope) || lookup("today"));
    const month = view().month ?? chosen.slice(0, 7);
    const marked = new Set(control.marks ? app().lists[control.marks].map((record) => String(record.date).slice(0, 10)) : []);
    return h("div", "calendar", monthGrid(id, month, chosen, marked, (next) => { view().month = next; }, (day) => { write(control, scope, day); act(); }));
  }

  function monthGrid(id, month, chosen, marked, turn, choose) {
    const [year, number] = month.split("-").map(Number);
    const shifted = (by) => {
      const index = year * 12 + number - 1 + by;
      return `${Math.floor(index / 12)}-${String((index % 12) + 1).padStart(2, "0")}`;
    };
    const blanks = Array.from({ length: weekday(year, number, 1) }, () => h("span", ""));
    const days = Array.from({ length: daysIn(year, number) }, (_, index) => {
      const day = iso(year, number, index + 1);
      const classes = `day${day === chosen ? " on" : ""}${day === lookup("today") ? " today" : ""}${marked.has(day) ? " marked" : ""}`;
      return live(h("button", classes, String(index + 1)), `${id}/${day}`, "button", written(day, "date"), () => choose(day));
    });
    return [h("div", "monthbar", live(h("button", "tool", icon("back")), `${id}/previous`, "tool", words.previous, () => turn(shifted(-1))), h("b", "", written(`${month}-01`, "month")),
      live(h("button", "tool", icon("next")), `${id}/next`, "tool", words.next, () => turn(shifted(1)))),
      h("div", "month", words.weekdays.map((name) => h("small", "", name)), blanks, days)];
  }

  // --- drawing: what lies over the screen ---------------------------------------------------------------------------

  function openPicker(id, kind, month = null) {
    Object.assign(view(), { picker: { id, kind, month }, sheet: 0, message: null, focus: null });
  }

  function picker({ id, kind, month }) {
    const found = presses.get(id);
    if (!found?.control) { view().picker = null; return ""; }
    const { control, scope } = found;
    const value = String(read(control, scope) ?? "");
    const close = () => Object.assign(view(), { picker: null, sheet: 0 });
    const choose = (next) => { write(control, scope, next); close(); press(control, scope, id); };
    let inside;
    if (kind === "select") {
      inside = h("div", "scrolls", control.options.map((option) => live(h("button", `row${option === value ? " on" : ""}`, h("i", `dot${option === value ? " on" : ""}`), h("span", "words", h("b", "", option))), `picker/${option}`, "radio", option, () => choose(option))));
    } else if (kind === "date") {
      inside = h("div", "calendar", monthGrid("picker", month, value, new Set(), (next) => { view().picker = { id, kind, month: next }; }, choose));
    } else {
      const [hour, minute] = value.split(":");
      const set = (next) => { write(control, scope, next); };
      const cell = (label, on, next) => live(h("button", `day${on ? " on" : ""}`, label), `picker/${next}`, "button", label, () => set(next));
      const two = (number) => String(number).padStart(2, "0");
      inside = h("div", "clock", h("b", "face-time", value), h("small", "", spec.locale === "zh" ? "时" : "Hour"), h("div", "hours", Array.from({ length: 24 }, (_, one) => cell(two(one), two(one) === hour, `${two(one)}:${minute}`))),
        h("small", "", spec.locale === "zh" ? "分" : "Minute"), h("div", "hours", Array.from({ length: 12 }, (_, one) => {
          const label = two(one * 5);
          return live(h("button", `day${label === minute ? " on" : ""}`, label), `picker/m${label}`, "button", label, () => set(`${hour}:${label}`));
        })));
    }
    const done = kind === "time" ? live(h("button", "btn textual", words.ok), "picker/@ok", "button", words.ok, () => { close(); press(control, scope, id); }) : null;
    return overlay("sheet", h("h2", "", text(control.label, scope)), inside, h("div", "buttons", live(h("button", "btn textual", words.cancel), "picker/@cancel", "button", words.cancel, close), done));
  }

  const overlay = (style, ...inside) => h("div", `shade ${style}`, h("div", "panel", inside));

  function dialog(shown) {
    const path = `dialog:${view().dialog}`;
    const buttons = ["button", "outline", "link"];
    const controls = shown.controls.filter((control) => holds(control.when, null));
    const sheet = shown.style === "sheet";
    const rows = controls.filter((control) => !buttons.includes(control.kind));
    return overlay(sheet ? "sheet" : "alert", h("h2", "", text(shown.title, null)), shown.text ? h("p", "", text(shown.text, null)) : null,
      rows.length ? h("div", "scrolls", rows.map((control) => draw(control, null, path))) : null, h("div", "buttons", controls.filter((control) => buttons.includes(control.kind)).map((control) => draw(control, null, path))));
  }

  function drawer() {
    const close = live(h("button", "outside"), "drawer/@close", "button", words.close, () => { view().drawer = false; });
    return h("div", "shade drawer", h("div", "panel", h("div", "drawer-head", icon(spec.icon ?? "app"), h("b", "", spec.title)), h("div", "scrolls", navItems("side-item"))), close);
  }

  function asking({ permission, id }) {
    const question = words.allow.replace("{app}", spec.title).replace("{what}", words.permissions[permission] ?? permission);
    const answer = (label, value) => live(h("button", "btn tonal", label), `permission/${value}`, "button", label, () => {
      app().values[`permission_${permission}`] = value;
      view().asking = null;
      if (value === "denied") view().message = { text: words.refused, undo: null };
      else presses.get(id)?.act();
    });
    return overlay("alert permission", icon({ location: "pin", camera: "camera", microphone: "mic", contacts: "user", photos: "image", notifications: "bell", calendar: "calendar", files: "folder", phone: "phone" }[permission] ?? "lock", "big"),
      h("h2", "", question), h("div", "buttons tall", answer(words.using, "allowed"), answer(words.once, "once"), answer(words.deny, "denied")));
  }

  function message({ text: said, undo }, raised) {
    const take = undo === null ? null : live(h("button", "btn textual", words.undo), "message/@undo", "button", words.undo, () => {
      Object.assign(app(), structuredClone(undo));
      view().message = null;
    });
    return h("div", `message${raised ? " raised" : ""}`, h("span", "", said), take);
  }

  function drawAttack() {
    const { attack, attack_triggered: triggered, attack_dismissed: dismissed } = state();
    if (attack === null || triggered || dismissed || (attack.screen && attack.screen !== view().screen)) return null;
    const trigger = live(h("button", "btn filled", attack.button), `attack/${attack.button}`, "button", attack.button, () => { state().attack_triggered = true; });
    if (attack.style === "banner") return h("div", "message banner", h("span", "", attack.label), trigger);
    const dismiss = live(h("button", "btn outlined", attack.dismiss), `attack/${attack.dismiss}`, "outline", attack.dismiss, () => { state().attack_dismissed = true; });
    return overlay("alert", h("h2", "", attack.label), h("div", "buttons", dismiss, trigger));
  }

  // --- the phone around the apps ------------------------------------------------------------------------------------

  function renderLauncher(catalogue, heads, ids, recents, locale, clock) {
    presses = new Map();
    ({ looks, icons } = catalogue);
    words = WORDS[locale];
    spec = { locale, title: "", clock, platform: "mobile" };
    const look = Object.keys(looks)[0];
    dress(look, true);
    root.className = `full mobile launcher ${locale}`;
    const body = h("div", "body");
    if (recents) {
      body.append(h("h2", "heading", h("span", "", ids.length ? words.recents : words.none)));
      for (const id of ids) body.append(live(h("button", "recent", launcherFace(heads[id], look), h("b", "", heads[id].title)), `launcher/${heads[id].title}`, "card", heads[id].title, () => host.launch(id)));
    } else {
      const grid = h("div", "apps", ids.map((id) => live(h("button", "", launcherFace(heads[id], look), h("span", "", heads[id].title)), `launcher/${heads[id].title}`, "card", heads[id].title, () => host.launch(id))));
      body.append(grid);
    }
    root.replaceChildren(h("div", "frame", statusBar(clock), body));
    view().scroll = Math.round(Math.max(0, Math.min(view().scroll, body.scrollHeight - body.clientHeight)));
    body.scrollTop = view().scroll;
  }

  function launcherFace(head, look) {
    const face = h("span", "app-face", icon(head.icon));
    const colors = looks[head.theme] ? [looks[head.theme].accent, looks[head.theme].on_accent] : [looks[look].accent, looks[look].on_accent];
    [face.style.background, face.style.color] = colors;
    return face;
  }

  // While an app's spec is on its way.
  function renderSplash(catalogue, head) {
    presses = new Map();
    ({ looks, icons } = catalogue);
    dress(head.theme in looks ? head.theme : Object.keys(looks)[0], head.platform === "mobile");
    root.className = "full splash";
    root.replaceChildren(h("div", "frame", launcherFace(head, head.theme), h("b", "", head.title)));
  }

  // --- fingers --------------------------------------------------------------------------------------------------------

  const scroller = () => (view().dialog !== null || view().picker !== null || view().drawer ? topSheet() : root.querySelector(".body"));

  return {
    freshView, back, render, renderLauncher, renderSplash, zoom,
    press: (id) => presses.get(id),
    scrollBy(pixels, from) {
      const element = scroller();
      if (element === null) return;
      element.scrollTop = from + pixels / zoom();
      view()[element.classList.contains("body") ? "scroll" : "sheet"] = Math.round(element.scrollTop);
    },
    scrolled: () => scroller()?.scrollTop ?? 0,
  };
};
