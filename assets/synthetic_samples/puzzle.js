// The page's side of a puzzle: it follows clicks and drags and says once whether the answer was right.
(rule) => {
  const screen = document.querySelector(".screen");
  const item = (index) => screen.querySelector(`[data-item="${index}"]`);
  const judge = (right) => {
    screen.dataset.verdict ??= right ? "accepted" : "rejected";
  };

  if (rule.drag === null) {
    // The items in their order; a click on anything else, or out of turn, is wrong.
    const expected = rule.clicks.map(item);
    screen.addEventListener("click", (event) => {
      if (event.target.closest("[data-item]") !== expected.shift()) judge(false);
      else if (expected.length === 0) judge(true);
    });
    return;
  }

  const { axis, within, zone, target, tolerance } = rule.drag;
  const handle = item(rule.drag.handle);
  const piece = rule.drag.piece === null ? null : item(rule.drag.piece);
  const between = (value, low, high) => Math.min(Math.max(value, low), high);
  let held = false;

  const centre = () => [handle.offsetLeft + handle.offsetWidth / 2, handle.offsetTop + handle.offsetHeight / 2];
  const follow = (event) => {
    const [x, y] = centre();
    const left = (axis === "y" ? x : between(event.clientX, within[0], within[2])) - handle.offsetWidth / 2;
    const top = (axis === "x" ? y : between(event.clientY, within[1], within[3])) - handle.offsetHeight / 2;
    handle.style.left = `${left}px`;
    handle.style.top = `${top}px`;
    if (piece !== null) piece.style.left = `${left}px`;
  };

  screen.addEventListener("pointerdown", (event) => {
    held = event.target.closest("[data-item]") === handle;
    if (!held) judge(false);
  });
  window.addEventListener("pointermove", (event) => {
    if (held) follow(event);
  });
  window.addEventListener("pointerup", (event) => {
    if (!held) return;
    held = false;
    follow(event);
    const [x, y] = centre();
    const inside =
      event.clientX >= zone[0] && event.clientX < zone[2] && event.clientY >= zone[1] && event.clientY < zone[3];
    judge(inside && Math.abs(x - target[0]) <= tolerance && Math.abs(y - target[1]) <= tolerance);
  });
}
