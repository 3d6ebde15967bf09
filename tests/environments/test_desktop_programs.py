"""Programs of Debian at full size, driven by mouse and keyboard, judged by what they leave behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assets.agent.actions import Action, from_pixel
from assets.environments.desktop import DesktopSession, load_programs
from assets.environments.desktop.programs import RunningProgram
from assets.environments.keeper import carriers
from assets.environments.session import check
from assets.environments.task import TaskContract
from assets.errors import InfrastructureError, MissingProgramError, ParameterError

SIZE = (1024, 768)
PATIENCE = 120.0
"""Seconds a busy machine may take for what takes one."""


ZIM_HEADER = "Content-Type: text/x-zim-wiki\nWiki-Format: zim 0.6\nCreation-Date: 2026-01-05T09:00:00+00:00\n"
"""What Zim keeps above a page."""


def keys(*names: str) -> Action:
    return Action("Hotkey", keys=names)


def text(content: str) -> Action:
    return Action("Type", content=content)


def drag(start: tuple[int, int], end: tuple[int, int]) -> Action:
    return Action("Drag", point=from_pixel(*start, *SIZE), end=from_pixel(*end, *SIZE))


ORACLES: dict[str, tuple[list[Action], dict[str, Any], tuple[str, ...]]] = {
    "engrampa": (
        [keys("ctrl", "e"), text("\n"), Action("Wait")],
        {"read.downloads": ["list.txt", "notes", "photos.tar.gz"]},
        ("windows", "files.Downloads/list%2Etxt", "files.Downloads/notes/camera%2Etxt"),
    ),
    "galculator": ([text("12*34\n"), keys("ctrl", "c")], {"read.result": "408"}, ()),
    "gnumeric": (
        [*[keys("Down")] * 4, text("April\t"), text("99\n"), keys("ctrl", "s")],
        {"read.a5": "April", "read.b5": 99, "read.b2": 120},
        ("files.Documents/sales%2Egnumeric",),
    ),
    "mousepad-full": (
        [keys("ctrl", "End"), text("Eggs 鸡蛋 😀\n"), keys("ctrl", "s")],
        {"read.note": "Milk\nBread\nApples\nEggs 鸡蛋 😀\n"},
        ("files.Documents/shopping%2Etxt",),
    ),
    "pcmanfm": (
        [drag((453, 250), (360, 250))],
        {"read.archive": ["budget.csv"], "read.documents": ["Archive", "letter.txt"]},
        ("files.Documents/Archive", "files.Documents/Archive/budget%2Ecsv", "files.Documents/budget%2Ecsv"),
    ),
    "pcmanfm-zh": (
        [drag((453, 250), (360, 250))],
        {"read.archive": ["账单.csv"], "read.documents": ["存档"]},
        ("files.文档/存档", "files.文档/存档/账单%2Ecsv", "files.文档/账单%2Ecsv"),
    ),
    "sylpheed": (
        [keys("ctrl", "m"), text("ada@example.org\t\tNoon\t"), text("See you then"), keys("ctrl", "shift", "d")],
        {"read.drafts": [{"to": "ada@example.org", "subject": "Noon", "body": "See you then"}]},
        ("files.Mail/draft", "files.Mail/draft/1"),
    ),
    "viewnior": (
        [keys("ctrl", "r"), keys("ctrl", "s")],
        {"read.size": [320, 480]},
        ("windows", "files.Pictures/harbour%2Epng"),
    ),
    "xterm": (
        [text("grep -c 20 projects/trees.csv > projects/count\n")],
        {"read.projects": ["count", "readme.md", "trees.csv"]},
        ("files.projects/count",),
    ),
    "zim": (
        [keys("ctrl", "End"), text("\nFeed the cat"), keys("ctrl", "s")],
        {"read.home": f"{ZIM_HEADER}\n====== Home ======\nWater the plants\n\nFeed the cat\n"},
        ("files.Notebook/Home%2Etxt",),
    ),
}
"""Program -> (actions, what they must lead to, what else they may change)."""


def task(app: str, **changes: Any) -> TaskContract:
    return TaskContract("t", "desktop", app, "en", "Do it", **changes)


@pytest.fixture(scope="module")
def desktop() -> Iterator[DesktopSession]:
    with DesktopSession((192, 192), PATIENCE) as session:
        yield session


@pytest.mark.parametrize("app", [spec.id for spec in load_programs()])
def test_an_oracle_solves_a_task_and_doing_nothing_does_not(desktop: DesktopSession, app: str) -> None:
    actions, expected, allowed = ORACLES[app]
    wanted = task(app, expected_state=expected, allowed_side_effects=allowed)
    desktop.reset(wanted)
    first, before = desktop.observe(), desktop.state()
    assert (first.width, first.height) == SIZE
    assert not check(wanted, before, before).success
    for action in actions:
        desktop.act(action)
    outcome = check(wanted, before, desktop.state())
    assert outcome.success, (outcome.side_effects, desktop.state())
    desktop.reset(wanted)
    assert desktop.state() == before
    assert desktop.observe().png == first.png


def test_every_program_has_an_oracle() -> None:
    assert set(ORACLES) == {spec.id for spec in load_programs()}
    categories = {spec.category for spec in load_programs()}
    assert {"editor", "calculator", "files", "spreadsheet", "pictures", "terminal", "archives", "notes"} <= categories


def test_menus_and_dialogs_are_in_the_picture_and_among_the_elements(desktop: DesktopSession) -> None:
    desktop.reset(task("pcmanfm"))
    plain = desktop.observe().png
    desktop.act(Action("RightClick", point=from_pixel(600, 500, *SIZE)))
    assert desktop.observe().png != plain
    assert [element.kind for element in desktop.elements()] == ["menu", "window"]
    desktop.act(keys("esc"))
    assert [element.kind for element in desktop.elements()] == ["window"]
    desktop.act(keys("alt", "F4"))
    assert desktop.elements() == []
    assert desktop.state()["windows"] == []


def test_windows_are_moved_by_their_frames(desktop: DesktopSession) -> None:
    desktop.reset(task("galculator"))
    x0, y0, _, _ = desktop.elements()[0].box
    desktop.act(drag((int(x0) + 100, int(y0) + 10), (int(x0) + 40, int(y0) + 70)))
    x1, y1, _, _ = desktop.elements()[0].box
    assert abs(x1 - (x0 - 60)) <= 2
    assert abs(y1 - (y0 + 60)) <= 2


def test_a_task_brings_files_settings_and_steps_of_its_own(desktop: DesktopSession) -> None:
    view = "org/xfce/mousepad/preferences/view"
    resources = {
        "files": {"Documents/list.txt": {"text": "one\n"}, "Documents/minutes.txt": None},
        "settings": {".config/glib-2.0/settings/keyfile": {view: {"show-line-numbers": "true"}}},
        "arguments": ["Documents/list.txt"],
        "setup": [{"hotkey": ["ctrl", "End"]}, {"type": "two\n"}, {"hotkey": ["ctrl", "r"]}, {"window": "Replace"}],
        "window": "Find and Replace",
        "read": {"list": {"kind": "text", "path": "Documents/list.txt"}, "open": {"kind": "window", "title": "list"}},
    }
    # The step that types changes nothing on the disk, so the preflight finds the file as it was described.
    desktop.reset(task("mousepad-full", resources=resources))
    state = desktop.state()
    assert state["windows"][-1] == "Find and Replace"
    assert state["read"]["list"] == "one\n"
    assert state["read"]["line_numbers"] == "true"
    assert state["read"]["open"] is True
    assert "Documents/minutes%2Etxt" not in state["files"]


def test_preflight_refuses_another_state_than_was_promised() -> None:
    with DesktopSession(SIZE, PATIENCE) as session:
        spoiled = [{"hotkey": ["ctrl", "End"]}, {"type": "!"}, {"hotkey": ["ctrl", "s"]}]
        with pytest.raises(InfrastructureError, match=r"not as set up: \['Documents/shopping\.txt'\]"):
            session.reset(task("mousepad-full", resources={"setup": spoiled}))
        session.reset(task("mousepad-full"))
        running = session._application
        assert isinstance(running, RunningProgram)
        running.screen.timeout = 1
        with pytest.raises(InfrastructureError, match=r"no sign of a window 'Paint' on top.*open windows: .*shopping"):
            running.wait_for_window("Paint")


def test_snapshot_leads_back_to_the_same_screen(desktop: DesktopSession) -> None:
    desktop.reset(task("galculator"))
    desktop.act(text("17+4"))
    snapshot, picture, digest = desktop.snapshot(), desktop.observe().png, desktop.digest()
    desktop.act(text("\n"))
    assert desktop.observe().png != picture
    desktop.restore(snapshot)
    assert (desktop.observe().png, desktop.digest()) == (picture, digest)


def test_a_busy_terminal_is_no_failure_of_the_environment() -> None:
    with DesktopSession(SIZE, PATIENCE) as session:
        session.reset(task("xterm"))
        session.timeout = 2
        session.act(text("while :; do :; done\n"))
        assert session.observe().png
        session.act(keys("ctrl", "c"))
        session.timeout = PATIENCE
        session.act(text("touch projects/done\n"))
        assert "done" in session.state()["read"]["projects"]


# --- robust ----------------------------------------------------------------------------------------------------------


def use(session: DesktopSession) -> None:
    """An action and a look, between which the kernel has told of what was killed before."""
    session.act(text("1"))
    time.sleep(0.3)
    session.observe()


def test_a_window_that_closes_while_it_is_asked_is_not_waited_for(desktop: DesktopSession) -> None:
    """Such as the progress of an archive being opened: it never answers, and the window below it does."""
    from Xlib import display

    desktop.reset(task("galculator"))
    screen = desktop._displays["full"]
    connection = display.Display(screen.name)
    root = connection.screen().root
    silent = root.create_window(0, 0, 300, 200, 0, connection.screen().root_depth)
    silent.set_wm_name("silent")
    silent.set_wm_protocols([connection.intern_atom("_NET_WM_PING")])
    silent.map()
    connection.sync()
    while screen.titles()[-1] != "silent":
        time.sleep(0.01)
    assert not screen.responds(0.3)
    closing = threading.Timer(0.3, lambda: (silent.destroy(), connection.sync()))
    closing.start()
    start = time.monotonic()
    assert screen.responds(PATIENCE)
    assert time.monotonic() - start < PATIENCE / 2
    closing.join()
    connection.close()


def test_whatever_is_killed_or_hangs_is_noticed_and_mended_by_the_next_reset() -> None:
    with DesktopSession(SIZE, PATIENCE) as session:
        for victim in ("program", "bus", "manager", "server"):
            for number in (signal.SIGKILL, signal.SIGSTOP):
                if (victim, number) == ("bus", signal.SIGSTOP):
                    continue  # nothing here waits for it
                session.timeout = PATIENCE
                session.reset(task("galculator"))
                screen, running = session._displays["full"], session._application
                assert isinstance(running, RunningProgram)
                assert screen._manager is not None
                bus, program = running._processes
                process = {"program": program, "bus": bus, "manager": screen._manager, "server": screen.server}[victim]
                session.timeout = screen.timeout = 1.5
                process.send_signal(number)
                began = time.monotonic()
                with pytest.raises(InfrastructureError):
                    use(session)
                assert time.monotonic() - began < 30, f"{victim} {number.name}"
        session.timeout = PATIENCE
        session.reset(task("galculator"))
        assert session.state()["windows"] == ["galculator"]


def sockets() -> set[int]:
    """The sockets of X servers in /tmp, by their inodes."""
    return {socket.stat().st_ino for socket in Path("/tmp/.X11-unix").glob("X*")}


def test_nothing_is_left_when_the_process_is_killed() -> None:
    """Neither what ran from its parent nor the folder stays behind, though no session comes to clear them away."""
    script = (
        "import time\n"
        "from assets.agent.actions import Action\n"
        "from assets.environments.desktop import DesktopSession\n"
        "from assets.environments.task import TaskContract\n"
        f"session = DesktopSession((1024, 768), {PATIENCE})\n"
        "session.reset(TaskContract('t', 'desktop', 'xterm', 'en', 'x'))\n"
        "session.act(Action('Type', content='setsid sleep 600 & disown\\n'))\n"
        "print(session.place.folder, session._displays['full']._socket_id, flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        place, own_socket = process.stdout.readline().split()
        folder = Path(place)
        marker = f"HESPER_DESKTOP={folder}"
        assert "sleep" in {Path(f"/proc/{pid}/comm").read_text().strip() for pid in carriers(marker)}
        assert int(own_socket) in sockets()
        assert folder.is_dir()
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 20
    while (carriers(marker) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert carriers(marker) == []
    assert not folder.exists()
    assert int(own_socket) not in sockets()


def test_a_folder_whose_keeper_was_killed_too_is_cleared_away_by_the_next_session() -> None:
    with DesktopSession(SIZE, PATIENCE) as first:
        first.reset(task("galculator"))
        script = (
            "import os\nfrom assets.environments.desktop.place import Place\n"
            "place = Place()\nprint(place.folder, flush=True)\n"
            "place.start(['sleep', '600'], place.environment(), place.folder, 'machine')\n"
            "place._keeper.kill()\nplace._keeper.wait()\nos.kill(os.getpid(), 9)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        folder = Path(done.stdout.strip())
        assert folder.is_dir()
        assert len(carriers(f"HESPER_DESKTOP={folder}")) == 1
        with DesktopSession(SIZE, PATIENCE) as second:
            assert second.place.folder == folder  # the number is free again, and taken
            assert not list(folder.glob("run*"))
            assert len(carriers(f"HESPER_DESKTOP={folder}")) == 0
        assert first.observe().png  # who is alive is left alone


def test_close_leaves_nothing() -> None:
    session = DesktopSession(SIZE, PATIENCE)
    session.reset(task("sylpheed"))
    own_socket = session._displays["full"]._socket_id
    assert own_socket in sockets()
    session.close()
    session.close()
    assert carriers(session.place.marker) == []
    assert not session.place.folder.exists()
    assert own_socket not in sockets()
    with pytest.raises(InfrastructureError, match="closed"):
        session.observe()


def test_programs_reach_neither_the_network_nor_homes(desktop: DesktopSession) -> None:
    if desktop.place.isolation.startswith("a filter"):
        pytest.skip(desktop.place.isolation)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        port = server.getsockname()[1]
        resources = {"read": {"log": {"kind": "text", "path": "log"}, "who": {"kind": "text", "path": "who"}}}
        desktop.reset(task("xterm", resources=resources))
        desktop.act(text(f"(echo hello > /dev/tcp/127.0.0.1/{port}) 2> log; whoami > who; ls /home /tmp >> who\n"))
        state = desktop.state()
        assert "connect" in state["read"]["log"]
        assert state["read"]["who"].split() == ["user", "/home:", "user", "/tmp:", "run"]
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_missing_program_says_how_to_get_it(desktop: DesktopSession, monkeypatch: pytest.MonkeyPatch) -> None:
    desktop.reset(task("galculator"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingProgramError, match="apt-get install gnumeric"):
        desktop.reset(task("gnumeric"))


def test_other_resources_are_refused(desktop: DesktopSession) -> None:
    with pytest.raises(ParameterError, match=r"resources: files\.\.\./secret.*not a path below the home folder"):
        desktop.reset(task("galculator", resources={"files": {"../secret": {"text": ""}}}))
    with pytest.raises(ParameterError, match=r"resources: setup\.0: an operation is one of type"):
        desktop.reset(task("galculator", resources={"setup": [{}]}))
    with pytest.raises(ParameterError, match=r"initial state of galculator is given by `resources`"):
        desktop.reset(task("galculator", initial_state={"text": ""}))


def test_environment_of_this_process_stays_here(desktop: DesktopSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    desktop.reset(task("galculator"))
    for pid in carriers(desktop.place.marker):
        assert b"hush" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "hush"
