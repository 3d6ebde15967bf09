// A page's clock that stands still between actions. Time passes only when `hesperClock.advance(milliseconds)` says so,
// and then everything that was due happens in its order: however slow the machine, the same actions see the same page.
// Takes the place of Date, performance.now, the timers and the animation frames (sixty a second).
(() => {
  const RealDate = Date;
  const START = RealDate.UTC(2026, 4, 18, 9, 41); // Monday
  const FRAME = 1000 / 60;
  const MOST = 100000; // calls of one advance, after which a page counts as never at rest
  const realFrame = window.requestAnimationFrame.bind(window);
  let now = 0;
  let serial = 0;
  let kept = 0; // timers up to this one belong to the page, those after it to its episode
  const timers = new Map(); // id -> {at, serial, every, call, frame}

  const add = (call, at, every, frame) => {
    serial += 1;
    timers.set(serial, { at, serial, every, call, frame });
    return serial;
  };
  const bound = (call, rest) => (typeof call === "function" ? () => call(...rest) : () => window.eval(String(call)));
  const delayed = (delay) => Math.max(1, Number(delay) || 0);

  window.setTimeout = (call, delay, ...rest) => add(bound(call, rest), now + delayed(delay), null, false);
  window.setInterval = (call, delay, ...rest) => add(bound(call, rest), now + delayed(delay), delayed(delay), false);
  window.requestAnimationFrame = (call) => add(call, (Math.floor(now / FRAME + 1e-9) + 1) * FRAME, null, true);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = (id) => { timers.delete(id); };
  performance.now = () => now;
  window.Date = class extends RealDate {
    constructor(...parts) {
      if (parts.length === 0) super(START + now);
      else super(...parts);
    }
    static now() { return START + now; }
  };

  const next = (limit) => {
    let first = null;
    for (const timer of timers.values()) {
      const sooner = first === null || timer.at < first.at || (timer.at === first.at && timer.serial < first.serial);
      if (timer.at <= limit && sooner) first = timer;
    }
    return first;
  };

  // A drag that leaves a box which scrolls makes the browser scroll it, by a clock that nobody can stop.
  let places = [];

  window.hesperClock = {
    hold() {
      places = [...document.querySelectorAll("*")].map((element) => [element, element.scrollLeft, element.scrollTop]);
    },
    advance(milliseconds) {
      for (const [element, left, top] of places) {
        if (element.scrollLeft !== left || element.scrollTop !== top) element.scrollTo(left, top);
      }
      places = [];
      const limit = now + milliseconds;
      for (let calls = 0; calls < MOST; calls += 1) {
        const timer = next(limit);
        if (timer === null) break;
        now = Math.max(now, timer.at);
        if (timer.every === null) timers.delete(timer.serial);
        else timer.at += timer.every;
        try {
          if (timer.frame) timer.call(now);
          else timer.call();
        } catch (error) {
          console.error(error);
        }
      }
      now = limit;
    },
    // What has been set up until now stays when an episode begins again.
    keep() { kept = serial; },
    rewind() {
      now = 0;
      for (const id of [...timers.keys()]) if (id > kept) timers.delete(id);
      serial = kept;
    },
    frames: () => new Promise((done) => realFrame(() => realFrame(() => done()))),
  };
})();
