"""The desktop: real X11 programs on an X server of their own, real input, outcomes read from what the programs leave.

A session owns an Xvfb display of the screenshot's size, an openbox window manager and one application at a time. From
the outside in:

    place.py      the session's corner of the machine: folder, processes, no network; ../keeper.py cleans it up
    confined.py   a filter of system calls that keeps programs from the network where namespaces are forbidden
    display.py    the X server: its screen, its windows, its mouse; keys.py its keyboard
    processes.py  whether programs are at rest
    dialogs.py    small applications, made of yad dialogs, for a model that reads 192 pixels
    programs.py   programs of Debian at full size; fixtures.py what they find, outcomes.py what they leave
    session.py    all of that as a session
"""

from assets.environments.desktop.dialogs import LIST_ROWS, Control, DesktopApp, Window, load_apps, overlay
from assets.environments.desktop.fixtures import TaskSpec, leaks
from assets.environments.desktop.place import program
from assets.environments.desktop.programs import ProgramSpec, load_programs
from assets.environments.desktop.session import DesktopSession, find_app, screen_of

__all__ = [
    "LIST_ROWS",
    "Control",
    "DesktopApp",
    "DesktopSession",
    "ProgramSpec",
    "TaskSpec",
    "Window",
    "find_app",
    "leaks",
    "load_apps",
    "load_programs",
    "overlay",
    "program",
    "screen_of",
]
