"""Keys: X11's number for each character and for each key as agents name it."""

from __future__ import annotations

from assets.agent.actions import ActionError


def keysym(name: str) -> int:
    """The number of a key by its X11 name; 0 if there is none."""
    from Xlib import XK

    return int(XK.string_to_keysym(name))


def keysym_of(character: str) -> int:
    """X11's keysym of a character: Latin-1 as it is, the rest of Unicode from 0x1000000 on."""
    named = {"\n": "Return", "\t": "Tab"}.get(character)
    if named is not None:
        return keysym(named)
    point = ord(character)
    return point if 0x20 <= point <= 0x7E or 0xA0 <= point <= 0xFF else 0x1000000 | point


def key(name: str) -> int:
    """The keysym of a key as agents name it, such as `ctrl` or `c`.

    Raises:
        ActionError: no such key.
    """
    known = keysym(_KEYS.get(name.casefold(), name))
    if not known and len(name) != 1:
        function = name.upper()  # f5 for F5
        known = keysym(function) if function[:1] == "F" and function[1:].isdigit() else 0
        if not known:
            raise ActionError(f"no key '{name}'", 0)
    return known or keysym_of(name)


_KEYS = {
    **{"ctrl": "Control_L", "control": "Control_L", "alt": "Alt_L", "shift": "Shift_L", "meta": "Super_L"},
    **{"super": "Super_L", "win": "Super_L", "cmd": "Super_L", "option": "Alt_L", "menu": "Menu"},
    **{"enter": "Return", "return": "Return", "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "space"},
    **{"backspace": "BackSpace", "delete": "Delete", "del": "Delete", "insert": "Insert"},
    **{"home": "Home", "end": "End", "pageup": "Prior", "pagedown": "Next", "page_up": "Prior", "page_down": "Next"},
    **{"up": "Up", "down": "Down", "left": "Left", "right": "Right"},
    **{"arrowup": "Up", "arrowdown": "Down", "arrowleft": "Left", "arrowright": "Right"},
}
