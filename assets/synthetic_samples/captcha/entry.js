// A text field: what it holds is right when it reads like one of the answers, whatever its case, spaces and width.
captcha.mechanics.entry = (frame, rule, answer) => {
  const field = frame.querySelector("input");
  const plain = (text) => text.normalize("NFKC").replace(/\s/g, "").toUpperCase();
  const isRight = () => rule.answers.some((text) => plain(text) === plain(field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") answer(isRight());
  });
  return isRight;
};
