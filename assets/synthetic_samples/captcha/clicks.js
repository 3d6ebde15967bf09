// Clicks on the picture leave numbered marks. In an order, the last click puts the answer; a set is put by the button.
captcha.mechanics.clicks = (frame, rule, answer) => {
  const marks = [];
  const show = () => {
    for (const old of frame.querySelectorAll(".mark")) old.remove();
    marks.forEach(([x, y], index) => {
      const mark = document.createElement("b");
      mark.className = "mark";
      mark.textContent = rule.ordered ? index + 1 : "✓";
      mark.style.left = `${x}px`;
      mark.style.top = `${y}px`;
      frame.append(mark);
    });
  };
  const within = ([x, y], [x0, y0, x1, y1]) => x >= x0 && x < x1 && y >= y0 && y < y1;
  const zoneOf = (point) => rule.zones.findIndex((zone) => within(point, zone));
  frame.addEventListener("click", (event) => {
    const edge = frame.getBoundingClientRect();
    const point = [event.clientX - edge.left, event.clientY - edge.top];
    if (!within(point, [0, 0, ...rule.picture])) return;
    const again = rule.ordered ? -1 : marks.findIndex((mark) => zoneOf(mark) >= 0 && zoneOf(mark) === zoneOf(point));
    if (again >= 0) marks.splice(again, 1);
    else marks.push(point);
    show();
    if (rule.ordered && marks.length === rule.answer.length) {
      answer(marks.every((mark, index) => within(mark, rule.zones[rule.answer[index]])));
    }
  });
  return () => {
    const marked = marks.map(zoneOf).sort((a, b) => a - b);
    const wanted = [...rule.answer].sort((a, b) => a - b);
    return marked.length === wanted.length && marked.every((zone, index) => zone === wanted[index]);
  };
};
