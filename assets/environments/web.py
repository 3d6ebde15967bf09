"""The web: simulated sites, and any site on the allow list, behind the fifteen actions of a browser."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assets.agent.actions import WEB_HOTKEY_KEYS, Action, ActionError
from assets.environments.chromium import devtools
from assets.environments.page import PageSession
from assets.environments.simulated import RUNTIME_URL, SimulatedSession
from assets.environments.task import TaskContract

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Dialog, Download, FileChooser, Page

DOMAIN = "test"
"""Simulated sites live at `https://<id>.test/<screen>`, a name that no real site can have."""

LOAD_SECONDS = 10.0
"""How long an action waits for a real page to be loaded; one that never ends loading is then looked at as it is."""


class WebSession(SimulatedSession):
    """A browser window. It starts on the task's site: the id of a simulated one, or the address of an allowed real one.

    Launch opens a simulated site by its address, or a real one whose origin the browser's allow list names. What no
    screenshot shows comes as the next turn's note:

    - a click on a native `<select>`: its options; SelectOption chooses;
    - a dialog of the page, which is answered at once: an alert with OK, a leave-this-page with leave, a confirm or
      prompt with Cancel. If the next action is Hotkey(keys=['enter']) or Type, the action that led to the dialog is
      carried out again and the answer is OK, with the text typed;
    - a file chooser: the files there are; Type names those to choose, one a line;
    - a download: its name.

    Files lie in a folder of the session's own, which a reset empties and fills with the task's `resources["files"]`
    (name -> text). A page that opens a new tab is followed there; PressBack on a tab without a past closes it.

    State of a real site: url, title, text (a hash of what it says), fields (name or id -> value), scroll, tabs; and on
    any site, once there are files, files (name -> hash).
    """

    platform = "web"
    downloads = True
    _left: Any = None
    """State of the simulated sites when a real one was opened."""
    _folder: Path | None = None
    _visited = False
    """Whether a real site was opened: its cookies and storage must not reach the next episode."""
    _task: TaskContract | None = None
    _acted: list[Action]
    _tabs: list[Page]
    _arriving: list[Download]
    _underway: _Underway
    _acting: Action | None = None
    """What is being carried out."""
    _asked: Action | None = None
    """The action that led to a dialog which was answered with Cancel."""
    _answer: Action | None = None
    """The action that answers dialogs with OK."""
    _chooser: FileChooser | None = None

    def reset(self, task: TaskContract) -> None:
        """Bring the window into the task's initial state: one tab, fresh cookies, the task's files."""
        if self._page is not None and (self._visited or len(self._tabs) != 1):
            self._leave()
        self._visited = False
        self._task, self._acted = task, []
        self._fill(task.resources.get("files", {}))
        self._asked = self._chooser = self._answer = None
        super().reset(task)

    def snapshot(self) -> dict[str, Any]:
        """The state of simulated sites is everything; a real site is brought back by doing the same again."""
        if self._on_site:
            return super().snapshot()
        return {"task": self._task, "actions": list(self._acted)}

    def restore(self, snapshot: Any) -> None:
        """Bring a snapshot back."""
        if "state" in snapshot:
            super().restore({**snapshot, "state": {k: v for k, v in snapshot["state"].items() if k != "files"}})
            return
        self.reset(snapshot["task"])
        for action in snapshot["actions"]:
            self.act(action)

    def close(self) -> None:
        """Close the tabs and remove the files."""
        super().close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def page(self) -> Page:
        """The tab in front."""
        return self._tabs[-1] if self._page is not None and self._tabs else super().page

    @property
    def files(self) -> Path:
        """The session's own folder: downloads land here, uploads come from here."""
        assert self._folder is not None, "reset the session first"
        return self._folder

    def _begin(self, task: TaskContract) -> None:
        if "://" not in task.app:
            super()._begin(task)
            return
        self._app, self._agent = "", {"answer": None, "notes": [], "album": 0}
        self._visit(task.app)

    def _state(self) -> dict[str, Any]:
        files = {path.name: _hash(path.read_bytes()) for path in sorted(self.files.iterdir())}
        kept = {"files": files} if files else {}
        if self._on_site:
            return {**super()._state(), **kept}
        seen = self.page.evaluate(_PAGE_STATE)
        seen["text"] = _hash(seen["text"].encode())
        return {"url": self.page.url, **seen, "tabs": len(self._tabs), **kept, **self._agent}

    def _elements(self) -> list[Any]:
        return super()._elements() if self._on_site else PageSession._elements(self)

    def _perform(self, action: Action) -> None:
        if len(action.keys) > WEB_HOTKEY_KEYS:
            raise ActionError(f"at most {WEB_HOTKEY_KEYS} keys on the web, here are {len(action.keys)}", 0)
        self._note = None
        self._acted.append(action)
        asked, self._asked = self._asked, None
        chooser, self._chooser = self._chooser, None
        if asked is not None and (action.name == "Type" or (action.name, action.keys) == ("Hotkey", ("enter",))):
            self._answer = action
            self._acting = asked
        elif chooser is not None and action.name == "Type":
            self._choose(chooser, (action.content or "").split("\n"))
            self._settle()
            return
        else:
            self._answer = None
            self._acting = action
        self._carry_out(self._acting)
        self._settle()
        self._answer = None

    def _carry_out(self, action: Action) -> None:
        match action.name:
            case "PressBack":
                if self._on_site:
                    self.page.evaluate("hesper.back()")
                else:
                    self._go_back()
            case "Launch":
                self._launch(action.content or "")
            case "GetUrl":
                self._remark(self._address() if self._on_site else self.page.url)
            case "TakeNote":
                self._agent["notes"].append(action.content)
            case _:
                super()._perform(action)

    # --- where the window is -----------------------------------------------------------------------------------------

    def _launch(self, url: str) -> None:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        site, _, domain = (parts.hostname or "").rpartition(".")
        if domain == DOMAIN and site in self.specs:
            screen = parts.path.strip("/") or self.specs[site].start
            if screen not in self.specs[site].screens:
                self._remark(f"{url}: not found")
                return
            self._open_runtime()
            self.launch(site, screen)
        elif parts.scheme in ("http", "https") and self.browser.allows(parts.geturl()):
            if self._on_site:
                self._left, self._installed = self.page.evaluate("hesper.get()"), False
            self._visit(parts.geturl())
        else:
            self.browser.refuse(parts.geturl())
            self._remark(f"{url}: refused, not on the allow list")

    def _visit(self, url: str) -> None:
        """Open a real address. One that leads to a download or away from the allow list is the agent's to know about;
        one that does not answer is not."""
        from playwright.sync_api import Error

        self._visited = True
        self._installed = False
        refused = len(self.browser.refused)
        try:
            self.page.goto(url, wait_until="commit")
        except Error as error:
            if len(self.browser.refused) > refused:
                self._remark(f"{self.browser.refused[-1]}: refused, not on the allow list")
            elif "Download is starting" not in str(error):
                raise
        self._settle()

    def _go_back(self) -> None:
        """The page before; a simulated site comes back as it was left. A tab without a page before is closed."""
        history = devtools(self.page).send("Page.getNavigationHistory")
        if history["currentIndex"] > 0:
            self.page.go_back(wait_until="commit")
            if self.page.url == RUNTIME_URL:
                self._open_runtime()
                self._set(self._left)
        elif len(self._tabs) > 1:
            self._tabs.pop().close()
            self._remark("the tab is closed")
        else:
            self._remark("there is no page before")

    @property
    def _on_site(self) -> bool:
        return self._installed and self.page.url == RUNTIME_URL

    def _address(self) -> str:
        foreground, screen = self.page.evaluate("[hesper.get().foreground, hesper.get().view.screen]")
        return f"https://{foreground}.{DOMAIN}/{screen}"

    def _settle(self) -> None:
        """Wait until what an action set off on a real page has happened: a frame, a navigation, downloads."""
        from playwright.sync_api import Error

        if self._on_site:
            return
        underway = self._underway
        try:
            offered, fetched = self.page.evaluate(_NEXT_FRAME)
            underway.choosers += offered if self._chooser is None else 0
            underway.downloads += max(0, fetched - len(self._arriving))
        except Error:
            # On its way to another document, as a rule.
            if not self.browser.alive:
                raise
        refused, waited = len(self.browser.refused), 0
        while underway.anything and waited < LOAD_SECONDS * 1000 and len(self.browser.refused) == refused:
            self.page.wait_for_timeout(_POLL_MS)
            waited += _POLL_MS
            underway.doubt = max(0, underway.doubt - _POLL_MS)
        underway.forget()
        if self._on_site:
            return
        try:
            self.page.wait_for_load_state("load", timeout=LOAD_SECONDS * 1000)
        except Error:
            if not self.browser.alive:
                raise
        while self._arriving:
            self._keep(self._arriving.pop(0))

    # --- tabs, dialogs, files ----------------------------------------------------------------------------------------

    def _opened(self, page: Page) -> None:
        super()._opened(page)
        self._installed = False
        self._tabs, self._arriving, self._underway = [], [], _Underway()
        self._follow(page)
        page.context.on("page", self._follow)
        page.context.add_init_script(_WATCH_FILES)

    def _follow(self, page: Page) -> None:
        self._tabs.append(page)
        page.on("close", lambda page: self._tabs.remove(page) if page in self._tabs else None)
        page.on("dialog", self._reply)
        page.on("filechooser", self._offer)
        page.on("download", self._receive)
        if len(self._tabs) > 1:
            self._underway.tabs -= 1
            page.on("crash", lambda page: page.close())
        self._underway.watch(devtools(page))

    def _receive(self, download: Download) -> None:
        self._arriving.append(download)
        self._underway.downloads = max(0, self._underway.downloads - 1)
        self._underway.doubt = 0

    def _reply(self, dialog: Dialog) -> None:
        """Answer a dialog at once: nothing else happens on its page as long as it is open."""
        from playwright.sync_api import Error

        said = f"{dialog.type}: {dialog.message}".rstrip(": ")
        try:
            if dialog.type in ("alert", "beforeunload"):
                dialog.accept()
                self._remark(said)
            elif self._answer is not None:
                text = self._answer.content if self._answer.name == "Type" else dialog.default_value
                dialog.accept(text or "")
                self._remark(f"{said}\nanswered OK")
            else:
                dialog.dismiss()
                self._asked = self._acting
                self._remark(f"{said}\nanswered Cancel; Hotkey(keys=['enter']) or Type does it again and answers OK")
        except Error:
            return  # The page went away with its dialog.

    def _offer(self, chooser: FileChooser) -> None:
        self._chooser = chooser
        self._underway.choosers = max(0, self._underway.choosers - 1)
        names = "\n".join(path.name for path in sorted(self.files.iterdir()))
        self._remark(f"choose {'files' if chooser.is_multiple() else 'a file'} with Type, one name a line:\n{names}")

    def _choose(self, chooser: FileChooser, names: list[str]) -> None:
        known = {path.name: path for path in self.files.iterdir()}
        if missing := [name for name in names if name not in known]:
            self._chooser = chooser
            self._remark(f"no file {', '.join(missing)}; there are: {', '.join(sorted(known))}")
        elif len(names) > 1 and not chooser.is_multiple():
            self._chooser = chooser
            self._remark("only one file can be chosen")
        else:
            chooser.set_files([known[name] for name in names])

    def _keep(self, download: Download) -> None:
        """Put a finished download into the session's folder, under a name that is free."""
        from playwright.sync_api import Error

        name = Path(download.suggested_filename).name or "download"
        target = self.files / name
        number = 1
        while target.exists():
            target = self.files / f"{Path(name).stem} ({number}){Path(name).suffix}"
            number += 1
        try:
            download.save_as(target)
        except Error:
            if not self.browser.alive:
                raise
            self._remark(f"{name}: the download failed")
        else:
            self._remark(f"downloaded {target.name}")

    def _fill(self, files: dict[str, str]) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="files-", dir=self.browser.folder))
        for path in self._folder.iterdir():
            path.unlink()
        for name, text in files.items():
            (self._folder / Path(name).name).write_text(text, encoding="utf-8")

    def _remark(self, text: str) -> None:
        self._note = text if self._note is None else f"{self._note}\n{text}"


_POLL_MS = 20


_DOUBT_MS = 500


class _Underway:
    """What pages have set off and that is not there yet.

    Attributes:
        tabs, downloads, choosers: how many of them.
        frames: those that are on their way to another document.
        doubt: milliseconds to wait for a download still, because a frame stopped loading and holds no new document.
    """

    def __init__(self) -> None:
        self.tabs = self.downloads = self.choosers = self.doubt = 0
        self.frames: set[str] = set()

    @property
    def anything(self) -> bool:
        """Whether there is something to wait for."""
        return bool(self.frames) or max(self.tabs, self.downloads, self.choosers, self.doubt) > 0

    def forget(self) -> None:
        """Wait for nothing of this any more."""
        self.tabs = self.downloads = self.choosers = self.doubt = 0
        self.frames.clear()

    def watch(self, session: CDPSession) -> None:
        """Hear what a page tells of it."""
        session.on("Page.windowOpen", self._open)
        session.on("Page.frameRequestedNavigation", self._request)
        session.on("Page.frameNavigated", lambda event: self.frames.discard(event["frame"]["id"]))
        session.on("Page.frameStoppedLoading", self._stop)
        session.send("Page.enable")

    def _open(self, event: dict[str, Any]) -> None:
        self.tabs += 1

    def _request(self, event: dict[str, Any]) -> None:
        if event["disposition"] == "currentTab":
            self.frames.add(event["frameId"])

    def _stop(self, event: dict[str, Any]) -> None:
        if event["frameId"] in self.frames:
            self.frames.discard(event["frameId"])
            self.doubt = _DOUBT_MS


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


_WATCH_FILES = """(() => {
  // File choosers and downloads are told a little after the click that leads to them: the click says they will come.
  window.hesperFiles = [0, 0];
  const expect = (element) => {
    if (!(element instanceof Element)) return;
    if (element.matches("input[type=file]:enabled")) window.hesperFiles[0] = 1;
    if (element.closest("a[download]")) window.hesperFiles[1] += 1;
  };
  window.addEventListener("click", (event) => expect(event.composedPath()[0]), true);
  const click = HTMLElement.prototype.click;
  HTMLElement.prototype.click = function () {
    if (!this.isConnected) expect(this);
    return click.call(this);
  };
})()"""
_NEXT_FRAME = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const files = window.hesperFiles ?? [0, 0];
  window.hesperFiles = [0, 0];
  done(files);
})))"""
_PAGE_STATE = """() => {
  const fields = {};
  for (const field of document.querySelectorAll("input, textarea, select")) {
    const name = field.name || field.id;
    if (!name || ["password", "hidden", "submit", "button", "image", "reset"].includes(field.type)) continue;
    if (field.type === "radio") { if (field.checked) fields[name] = field.value; }
    else if (field.type === "checkbox") fields[name] = field.checked;
    else if (field.type === "file") fields[name] = [...field.files].map((file) => file.name);
    else fields[name] = field.value;
  }
  const scroll = [Math.round(window.scrollX), Math.round(window.scrollY)];
  return { title: document.title, text: document.body?.innerText ?? "", fields, scroll };
}"""
