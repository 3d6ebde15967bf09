"use strict";
// Episodes on a page: a strip of screens, one screen large, and the facts beside it. Texts of the data are only ever
// set as text.

const h = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};
const svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const percent = (share) => `${Number((100 * share).toFixed(3))}%`;
const shareText = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);

const TONES = {
  completed: "good", correct: "good", met: "good", success: "good",
  partial: "mixed", exploratory: "mixed", ineffective: "mixed", unclear: "mixed", "to review": "mixed", infrastructure: "mixed",
  failed: "bad", infeasible: "bad", incorrect: "bad", missing: "bad", contradicted: "bad", failure: "bad",
};
const SIGNS = { good: "✓", mixed: "~", bad: "✗" };
const signed = (word) => `${SIGNS[TONES[word]] ?? ""} ${word}`.trim();
const chip = (text, tone = "") => h("span", { className: `chip ${tone}`, textContent: text });
const judged = (word) => chip(signed(word), TONES[word]);

// --- what was done, drawn on the screen ---

document.body.append(svg("svg", { class: "defs", "aria-hidden": "true" }, svg("defs", {},
  svg("marker", { id: "tip", viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 12, markerHeight: 12, markerUnits: "userSpaceOnUse", orient: "auto" },
    svg("path", { d: "M0 0L10 5L0 10z", class: "tip" })))));

const TURNS = { up: [0, -26], down: [0, 26], left: [-26, 0], right: [26, 0] };
function drawMarks(step) {
  const drawing = svg("svg", { class: "marks", "aria-hidden": "true" });
  for (const [left, top, right, low] of step.boxes ?? []) {
    drawing.append(svg("rect", { class: "box", x: percent(left), y: percent(top), width: percent(Math.max(right - left, 0)), height: percent(Math.max(low - top, 0)) }));
  }
  for (const action of step.actions) {
    const [start, end] = action.points;
    if (start === undefined) continue;
    const at = { cx: percent(start[0]), cy: percent(start[1]) };
    if (end !== undefined) {
      const line = { x1: at.cx, y1: at.cy, x2: percent(end[0]), y2: percent(end[1]) };
      drawing.append(svg("line", { class: "halo", ...line }), svg("line", { class: "mark", ...line, "marker-end": "url(#tip)" }));
    }
    drawing.append(svg("circle", { class: "halo", r: 9, ...at }), svg("circle", { class: "mark", r: 9, ...at }), svg("circle", { class: "dot", r: 2.5, ...at }));
    const turn = TURNS[action.direction];
    if (turn !== undefined) {
      drawing.append(svg("svg", { x: at.cx, y: at.cy, overflow: "visible" },
        svg("line", { class: "mark", x1: 0, y1: 0, x2: turn[0], y2: turn[1], "marker-end": "url(#tip)" })));
    }
  }
  return drawing;
}

// Position `steps.length` is the screen after the last action.
const lastPosition = (episode) => (episode.final ? episode.steps.length : Math.max(episode.steps.length - 1, 0));
const ratioAt = (episode, position) => {
  const step = episode.steps[Math.min(position, episode.steps.length - 1)];
  return step?.width > 0 && step?.height > 0 ? step.width / step.height : 1;
};
const pictureAddress = (episode, position) => (episode.pictures ? episode.pictures[position] : `picture?number=${episode.number}&at=${position}`);
const briefly = (action) => (action.brief ? `${action.name} ${action.brief}` : action.name);
const nameOf = (episode, position) => {
  const step = episode.steps[position];
  return step === undefined ? "end" : step.actions.map(briefly).join(", ") || "not understood";
};

function drawScreen(episode, position) {
  const screen = h("span", { className: "screen" });
  const missing = () => screen.replaceChildren(h("span", { className: "none", textContent: "no picture" }));
  const address = pictureAddress(episode, position);
  if (!address) {
    missing();
    return screen;
  }
  const step = episode.steps[position];
  screen.append(h("img", { src: address, alt: "", decoding: "async", draggable: false, onerror: missing }));
  if (step !== undefined) screen.append(drawMarks(step));
  return screen;
}

// --- the strip: only frames in sight exist, however long the episode ---

class Strip {
  constructor(episode, height, picked) {
    Object.assign(this, { episode, height, picked, frames: new Map(), current: -1 });
    this.lefts = [0];
    for (let at = 0; at <= lastPosition(episode); at++) {
      this.lefts.push(this.lefts[at] + this.width(at) + 8);
    }
    this.reel = h("div", { className: "reel" });
    this.reel.style.width = `${this.lefts.at(-1)}px`;
    this.reel.style.height = `${height + 40}px`;
    this.element = h("div", { className: "strip" }, this.reel);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.sight = new ResizeObserver(() => this.draw());
    this.sight.observe(this.element);
  }
  width(at) {
    return Math.round(Math.min(Math.max(this.height * ratioAt(this.episode, at), 84), 2.4 * this.height));
  }
  draw() {
    const [from, to] = [this.element.scrollLeft - 200, this.element.scrollLeft + this.element.clientWidth + 200];
    let first = 0;
    for (let [low, high] = [0, this.lefts.length - 1]; low < high;) {  // the last frame that begins before the sight
      const middle = (low + high + 1) >> 1;
      if (this.lefts[middle] <= from) first = low = middle;
      else high = middle - 1;
    }
    const wanted = new Set();
    for (let at = first; at < this.lefts.length - 1 && this.lefts[at] < to; at++) wanted.add(at);
    for (const [at, frame] of this.frames) {
      if (wanted.has(at)) continue;
      frame.remove();
      this.frames.delete(at);
    }
    for (const at of wanted) if (!this.frames.has(at)) this.frames.set(at, this.reel.appendChild(this.drawFrame(at)));
  }
  drawFrame(at) {
    const step = this.episode.steps[at];
    const screen = drawScreen(this.episode, at);
    const width = this.width(at);
    screen.style.height = `${this.height}px`;
    screen.style.width = `${Math.min(width, Math.round(this.height * ratioAt(this.episode, at)))}px`;
    const verdict = step?.verdict ?? "";
    const frame = h("button", { className: "frame", type: "button", tabIndex: -1, onclick: () => this.picked(at) }, screen,
      h("span", { className: "caption", textContent: nameOf(this.episode, at) }),
      h("span", { className: `caption ${TONES[verdict] ?? ""}`, textContent: verdict ? signed(verdict) : step ? `${at + 1}` : "" }));
    frame.ariaLabel = step ? `Step ${at + 1}: ${nameOf(this.episode, at)}` : "The screen at the end";
    frame.ariaCurrent = String(at === this.current);
    frame.style.left = `${this.lefts[at]}px`;
    frame.style.width = `${width}px`;
    return frame;
  }
  select(at) {
    this.current = at;
    if (at >= 0) {
      const [left, right] = [this.lefts[at], this.lefts[at + 1]];
      const box = this.element;
      if (left < box.scrollLeft) box.scrollLeft = left;
      else if (right > box.scrollLeft + box.clientWidth) box.scrollLeft = right - box.clientWidth;
    }
    this.draw();
    for (const [other, frame] of this.frames) frame.ariaCurrent = String(other === at);
  }
}

// --- one step large ---

class Panel {
  constructor(moved) {
    Object.assign(this, { moved, episode: null, at: 0 });
    this.stage = h("div", { className: "stage" });
    this.facts = h("div", { className: "facts", tabIndex: 0, ariaLabel: "About this step" });
    this.element = h("div", { className: "panel" }, this.stage, this.facts);
  }
  show(episode, at) {
    const other = this.episode !== episode;
    this.episode = episode;
    this.at = Math.min(Math.max(at, 0), lastPosition(episode));
    const screen = drawScreen(episode, this.at);
    const ratio = (value) => screen.style.setProperty("--ratio", value);
    ratio(ratioAt(episode, this.at));
    screen.querySelector("img")?.addEventListener("load", ({ target }) => ratio(target.naturalWidth / target.naturalHeight));
    const step = episode.steps[this.at];
    const img = screen.querySelector("img");
    if (img) img.alt = step ? `Screen before step ${this.at + 1}` : "Screen at the end";
    this.stage.replaceChildren(screen);
    const open = this.facts.querySelector("details")?.open ?? false;
    this.facts.replaceChildren(...(step ? aboutStep(step, this.at, episode, open) : aboutEnd(episode)), ...aboutEpisode(episode, (position) => this.go(position)));
    if (other) this.facts.scrollTop = 0;
  }
  go(at) {
    if (this.episode === null || at < 0 || at > lastPosition(this.episode)) return;
    this.show(this.episode, at);
    this.moved(this.at);
  }
}

function section(title, ...children) {
  return h("section", {}, h("h2", { textContent: title }), ...children);
}
function table(head, rows) {
  const cell = (tag, content) => h(tag, {}, content ?? "–");
  const body = h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((content) => cell("td", content)))));
  return h("table", {}, h("thead", {}, h("tr", {}, ...head.map((name) => cell("th", name)))), body);
}
const code = (text) => h("code", { textContent: text });

function aboutStep(step, at, episode, open) {
  const actions = step.actions.map((action) => h("p", {}, code(action.text), action.absent ? h("span", { className: "soft", textContent: " not on this screen" }) : null));
  const parts = [section(`Step ${at + 1} of ${episode.steps.length}`,
    step.verdict ? h("p", {}, judged(step.verdict)) : null,
    ...(actions.length ? actions : [h("p", { className: "bad", textContent: "The response was not understood." })]),
    step.think ? h("p", { className: "thought", dir: "auto", textContent: step.think }) : null,
    h("details", { className: "raw", open }, h("summary", { textContent: "Raw response" }), h("pre", { textContent: step.response || "(empty)" })))];
  if (step.differences) {
    parts.push(section("State", step.differences.length
      ? table(["changed", "before", "after"], step.differences.map(([path, before, after]) => [code(path), before === null ? "–" : code(before), after === null ? "–" : code(after)]))
      : h("p", { className: "soft", textContent: "The step changed nothing." })));
  } else if (step.before || step.after) {
    const same = step.before === step.after;
    parts.push(section("State", h("p", {}, code(step.before || "–"), same ? " unchanged" : " → ", same ? null : code(step.after || "–"))));
  }
  return parts;
}
function aboutEnd(episode) {
  return [section("The end", h("p", { textContent: `The screen after the last of ${episode.steps.length} steps.` }))];
}

function aboutEpisode(episode, jump) {
  const parts = [];
  const { report } = episode;
  if (report?.keypoints?.length) parts.push(section("Keypoints", drawKeypoints(episode, report.keypoints, jump)));
  else if (episode.named.length) parts.push(section("Keypoints of the task", h("p", { textContent: episode.named.join(" · ") })));
  if (episode.votes.length) {
    parts.push(section("Votes", table(["judge", "completed?", "sure", "reason"], episode.votes.map((vote) => [
      vote.judge, h("span", { className: `nowrap ${vote.vote ? "good" : "bad"}`, textContent: vote.vote ? "✓ yes" : "✗ no" }),
      h("span", { className: "nowrap", textContent: shareText(vote.confidence) }), vote.reason,
    ]))));
  }
  const rows = [];
  const fact = (name, value) => { if (value !== undefined && value !== null && value !== "") rows.push([h("span", { className: "soft", textContent: name }), value]); };
  fact("verdict", episode.verdict && judged(episode.verdict));
  if (report) {
    fact("decided by", report.decided_by);
    fact("probability of completion", shareText(report.probability));
    fact("disagreement", shareText(report.disagreement));
  }
  fact("outcome", episode.outcome && judged(episode.outcome));
  if (episode.claimed !== undefined) fact("says that it has finished", episode.claimed ? "yes" : "no");
  fact("policy", episode.policy);
  fact("app", `${episode.app} (${episode.platform})`);
  fact("split", episode.split);
  fact("task", code(episode.task_id ?? ""));
  fact("id", code(episode.id));
  parts.push(section("Episode", h("p", { dir: "auto", textContent: episode.instruction ?? "" }), h("table", {}, h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((content) => h("td", {}, content))))))));
  return parts;
}

function drawKeypoints(episode, keypoints, jump) {
  return h("ul", { className: "keypoints" }, ...keypoints.map((found) => {
    // Seen after a step: that is the screen before the next one.
    const position = found.step + 1;
    const there = found.step >= 0 && position <= lastPosition(episode);
    return h("li", {}, h("span", { className: TONES[found.status] ?? "", textContent: `${signed(found.status)} ` }), h("b", { textContent: found.keypoint }),
      h("div", { className: "soft", textContent: [found.judge, found.evidence].filter(Boolean).join(": ") }),
      there ? h("button", { type: "button", textContent: position === episode.steps.length ? "Evidence: the end" : `Evidence: after step ${position}`, onclick: () => jump(position) }) : null);
  }));
}

// --- keys and requests, the same on every page ---

const typing = (event) => event.target.closest?.("input, select, textarea") !== null || event.ctrlKey || event.metaKey || event.altKey;

async function ask(path, given, signal) {
  const answer = await fetch(path, given === undefined ? { signal } : { method: "POST", body: JSON.stringify(given) });
  const said = await answer.json().catch(() => ({ error: `the program answered ${answer.status}` }));
  if (!answer.ok) throw new Error(said.error ?? `the program answered ${answer.status}`);
  return said;
}
