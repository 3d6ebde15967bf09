// The page's side of the puzzles: puts one, judges what was done, and gives the next one after a wrong answer or on
// request. `views` are the puzzles in turn; after the last of them the page is locked. A page written over another keeps
// its window, so nothing here is a `const`.
window.captcha = {
  mechanics: {},
  state: { verdict: "open", puzzle: 0, rejections: 0, renewals: 0 },
  begin(views, says) {
    const state = this.state;
    const say = (text) => {
      document.querySelector(".captcha .status").textContent = text;
    };
    const put = (index, text) => {
      document.querySelector(".captcha").outerHTML = views[index].html;
      say(text);
      state.puzzle = index;
      let answered = false;
      const answer = (right) => {
        if (answered) return;
        answered = true;
        if (right) {
          state.verdict = "accepted";
          for (const button of document.querySelectorAll(".submit")) button.disabled = false;
          document.querySelector("[name=verified]").checked = true;
          say(says.accepted);
          return;
        }
        state.rejections += 1;
        next(says.rejected);
      };
      const frame = document.querySelector(".captcha .frame");
      const check = this.mechanics[views[index].mechanic](frame, views[index].rule, answer);
      document.querySelector(".captcha .confirm")?.addEventListener("click", () => answer(check()));
      document.querySelector(".captcha .renew").addEventListener("click", () => {
        if (answered) return;
        answered = true;
        state.renewals += 1;
        next(says.renewed);
      });
    };
    const next = (text) => {
      if (state.puzzle + 1 < views.length) {
        put(state.puzzle + 1, text);
      } else {
        state.verdict = "locked";
        say(says.locked);
      }
    };
    put(0, "");
  },
};
