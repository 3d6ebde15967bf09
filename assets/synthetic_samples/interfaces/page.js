// Controls react to real clicks: states change, lists open, rows are chosen. What only starts something says so.
"use strict";
(() => {
  const name = (element) => (element.getAttribute("aria-label") ?? element.textContent).trim();
  const flip = (element, attribute) =>
    element.setAttribute(attribute, element.getAttribute(attribute) === "true" ? "false" : "true");
  const choose = (element, group, attribute) => {
    for (const other of group.querySelectorAll(`[${attribute}]`))
      if (other.getAttribute("role") === element.getAttribute("role")) other.setAttribute(attribute, "false");
    element.setAttribute(attribute, "true");
  };
  const popupOf = (button) => button.parentElement.querySelector(".popup");
  const fold = (except) => {
    for (const button of document.querySelectorAll('[aria-haspopup][aria-expanded="true"]'))
      if (button !== except) {
        button.setAttribute("aria-expanded", "false");
        popupOf(button).hidden = true;
      }
  };
  const say = (element) => {
    const line = document.querySelector("output.said");
    line.textContent = name(element);
    line.hidden = false;
  };
  const CONTROLS =
    'button,a,[role="option"],[role="treeitem"],[role="row"]:not(.head),[role="gridcell"],[role="listitem"][tabindex]';

  document.addEventListener("click", (event) => {
    const element = event.target.closest(CONTROLS);
    fold(element);
    if (!element || element.getAttribute("aria-disabled") === "true") return;
    const role = element.getAttribute("role");
    if (element.tagName === "A") event.preventDefault();
    if (element.hasAttribute("aria-haspopup")) {
      flip(element, "aria-expanded");
      popupOf(element).hidden = element.getAttribute("aria-expanded") !== "true";
    } else if (role === "switch" || role === "checkbox") flip(element, "aria-checked");
    else if (role === "radio") choose(element, element.closest('[role="radiogroup"]'), "aria-checked");
    else if (role === "tab") choose(element, element.closest('[role="tablist"]'), "aria-selected");
    else if (role === "option") {
      choose(element, element.closest('[role="listbox"]'), "aria-selected");
      const box = element.closest(".choice")?.querySelector('[role="combobox"]');
      if (box) box.firstElementChild.textContent = name(element);
      fold();
    } else if (role === "treeitem") {
      const branch = element.querySelector(':scope > [role="group"]');
      if (branch) {
        flip(element, "aria-expanded");
        branch.hidden = !branch.hidden;
      } else choose(element, element.closest('[role="tree"]'), "aria-selected");
    } else if (role === "row" || role === "gridcell")
      choose(element, element.closest('[role="table"],[role="grid"]'), "aria-selected");
    else if (element.hasAttribute("aria-pressed")) flip(element, "aria-pressed");
    else {
      fold();
      const dialog = element.closest(".scrim");
      if (dialog) dialog.remove();
      say(element);
    }
  });
})();
