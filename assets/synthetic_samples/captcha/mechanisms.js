// Moving parts (mechanisms.py): real input events change the values, the parts show them, and `answer` is told whether
// the values are right. Parts are the elements with `data-part` in the frame; coordinates are the frame's pixels.
captcha.mechanics.mechanisms = (frame, rule, answer) => {
  const { freedoms, inputs, motions, terms, walls } = rule;
  const partOf = (name) => frame.querySelector(`[data-part="${name}"]`);
  const between = (value, low, high) => Math.min(Math.max(value, low), high);
  const values = freedoms.map((freedom) => freedom.start);
  const set = (index, value) => {
    const { low, high, period } = freedoms[index];
    values[index] = period > 0 ? ((value % period) + period) % period : between(value, low, high);
  };

  // --- what the parts show

  const alongPath = (path, way) => {
    let left = Math.max(way, 0);
    for (let leg = 1; leg < path.length; leg += 1) {
      const [from, to] = [path[leg - 1], path[leg]];
      const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
      if (left <= length) return from.map((start, axis) => start + (left / length) * (to[axis] - start));
      left -= length;
    }
    return path[path.length - 1];
  };
  const amountOf = (motion) => {
    const value = values[motion.freedom];
    const eased = motion.power === 1 ? value : motion.length * (value / motion.length) ** motion.power;
    const amount = motion.factor * (eased - motion.offset);
    return motion.limit > 0 ? between(amount, -motion.limit, motion.limit) : amount;
  };
  const transformOf = (motion) => {
    const amount = amountOf(motion);
    const [x, y] = motion.vector;
    if (motion.kind === "move") return `translate(${amount * x} ${amount * y})`;
    if (motion.kind === "along") return `translate(${alongPath(motion.path, amount).join(" ")})`;
    if (motion.kind === "turn") return `rotate(${amount} ${x} ${y})`;
    return `translate(${x} ${y}) scale(${amount}) translate(${-x} ${-y})`;
  };
  const show = () => {
    const transforms = new Map();
    for (const motion of motions) {
      const part = partOf(motion.part);
      if (motion.kind === "blur") part.style.filter = `blur(${Math.abs(amountOf(motion))}px)`;
      else if (motion.kind === "hue") part.style.fill = `hsl(${amountOf(motion)} 70% 50%)`;
      else if (motion.kind === "count") {
        const shown = motion.stops.filter((stop) => stop <= amountOf(motion)).length;
        [...part.children].forEach((child, index) => (child.style.display = index < shown ? "" : "none"));
      } else transforms.set(part, [...(transforms.get(part) ?? []), transformOf(motion)]);
    }
    for (const [part, transform] of transforms) part.setAttribute("transform", transform.join(" "));
  };

  // --- what is right

  const apart = ({ period }, one, other) => {
    const distance = Math.abs(one - other);
    return period > 0 ? Math.min(distance % period, period - (distance % period)) : distance;
  };
  const isRight = () =>
    terms.every(({ freedom, target, tolerance }) => apart(freedoms[freedom], values[freedom], target) <= tolerance);
  const crosses = (from, to, wall) => {
    let [enter, leave] = [0, 1];
    for (const axis of [0, 1]) {
      const [low, high, change] = [wall[axis], wall[axis + 2], to[axis] - from[axis]];
      if (change === 0) {
        if (from[axis] < low || from[axis] > high) return false;
        continue;
      }
      const ends = [(low - from[axis]) / change, (high - from[axis]) / change].sort((one, other) => one - other);
      [enter, leave] = [Math.max(enter, ends[0]), Math.min(leave, ends[1])];
    }
    return enter <= leave;
  };

  // --- what the pointer does

  const positionOf = (event) => {
    const edge = frame.getBoundingClientRect();
    return [event.clientX - edge.left, event.clientY - edge.top];
  };
  const STRAY = 40; // Pixels that the pointer can be off a guided part's rail before it loses the part.
  const AHEAD = 12; // Pixels of its rail that a guided part looks ahead and back for what is nearest.
  const STEP = 4; // Pixels after which a guided part looks again, however far the pointer has leapt.
  // The way to the nearest point of a path, and how far off it is; from a place on it, only AHEAD or back.
  const wayTo = (path, point, from) => {
    let [passed, least, way] = [0, Infinity, 0];
    for (let leg = 1; leg < path.length; leg += 1) {
      const [start, end] = [path[leg - 1], path[leg]];
      const [dx, dy] = [end[0] - start[0], end[1] - start[1]];
      const length = Math.hypot(dx, dy);
      const [low, high] = from === null ? [0, 1] : [(from - AHEAD - passed) / length, (from + AHEAD - passed) / length];
      if (low <= 1 && high >= 0) {
        const nearest = ((point[0] - start[0]) * dx + (point[1] - start[1]) * dy) / length ** 2;
        const share = between(nearest, Math.max(low, 0), Math.min(high, 1));
        const distance = Math.hypot(point[0] - start[0] - share * dx, point[1] - start[1] - share * dy);
        if (distance < least) [least, way] = [distance, passed + share * length];
      }
      passed += length;
    }
    return [way, least];
  };
  const bearing = (centre, point) => (Math.atan2(point[1] - centre[1], point[0] - centre[0]) * 180) / Math.PI;

  let held = null;
  let last = null;
  const release = () => {
    held = null;
    if (!rule.confirm) answer(isRight());
  };
  const follow = (event) => {
    const point = positionOf(event);
    const [first, second] = held.freedoms;
    if (held.kind === "rail") set(first, wayTo(held.path, point, null)[0]);
    else if (held.kind === "guided") {
      const steps = Math.ceil(Math.hypot(point[0] - last[0], point[1] - last[1]) / STEP);
      for (let step = 1; step <= steps; step += 1) {
        const at = last.map((start, axis) => start + (step / steps) * (point[axis] - start));
        const [way, off] = wayTo(held.path, at, values[first]);
        if (off > STRAY) {
          release();
          break;
        }
        set(first, way);
      }
    } else if (held.kind === "turn") {
      const by = bearing(held.centre, point) - bearing(held.centre, last);
      set(first, values[first] + ((((by + 180) % 360) + 360) % 360) - 180);
    } else {
      const from = [values[first], values[second]];
      set(first, point[0]);
      set(second, point[1]);
      if (walls.some((wall) => crosses(from, [values[first], values[second]], wall))) {
        set(first, freedoms[first].start);
        set(second, freedoms[second].start);
        release();
      }
    }
    last = point;
    show();
  };

  const inputAt = (event, isStep) => {
    const part = event.target.closest("[data-part]");
    return inputs.find((input) => (input.kind === "step") === isStep && part === partOf(input.part)) ?? null;
  };
  frame.addEventListener("pointerdown", (event) => {
    held = inputAt(event, false);
    last = positionOf(event);
  });
  window.addEventListener("pointermove", (event) => {
    if (held !== null) follow(event);
  });
  window.addEventListener("pointerup", (event) => {
    if (held !== null) follow(event);
    if (held !== null) release();
  });
  frame.addEventListener("click", (event) => {
    const input = inputAt(event, true);
    if (input === null) return;
    set(input.freedoms[0], values[input.freedoms[0]] + input.ratio);
    show();
  });
  show();
  return isRight;
};
