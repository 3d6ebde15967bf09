"""Pages made by hand, with what makes naming hard: twins, ellipses, covers, scrolling, icons without names."""

STYLE = """
body { margin: 0; font: 14px/20px "DejaVu Sans", "Noto Sans CJK SC", sans-serif; background: #fff; color: #222; }
button, input, select { font: inherit; } .row { display: flex; justify-content: space-between; width: 380px; }
[role=switch] { width: 40px; height: 20px; border: 1px solid #555; border-radius: 10px; background: #ddd; padding: 0; }
[role=switch][aria-checked=true] { background: #36c; } svg { width: 16px; height: 16px; }
.icon { width: 32px; height: 32px; border: 1px solid #999; border-radius: 50%; background: #eee; padding: 7px; }
"""

BELL = '<svg viewBox="0 0 10 10"><path d="M1 8h8L8 3H2z"/></svg>'
BIN = '<svg viewBox="0 0 10 10"><path d="M2 2h6v7H2z"/></svg>'


def page(body: str, language: str = "en") -> str:
    """A whole document."""
    return f'<!DOCTYPE html><html lang="{language}"><head><style>{STYLE}</style></head><body>{body}</body></html>'


def switch(name: str, on: bool) -> str:
    """A row with a switch that is named by the text beside it."""
    state = "true" if on else "false"
    control = f'<button role="switch" aria-checked="{state}" aria-label="{name}"></button>'
    return f'<div class="row"><span>{name}</span>{control}</div>'


def icon(name: str, label: str, function: str, drawing: str) -> str:
    """A button that shows an icon only."""
    return f'<button class="icon" data-icon="{name}" aria-label="{label}" data-function="{function}">{drawing}</button>'


SETTINGS = page(
    f"""
<nav aria-label="Sections" style="float:left;width:160px">
  <div><a href="#p">Privacy</a></div><div><a href="#s">Sound</a></div><div><a href="#s2">About</a></div>
</nav>
<main style="margin-left:180px">
  <div role="toolbar" aria-label="Tools">
    {icon("bell", "Alerts", "show the alerts", BELL)}{icon("bin", "Remove", "remove the profile", BIN)}
    <span style="margin-left:40px">{BIN}</span>
  </div>
  <section aria-labelledby="h1"><h2 id="h1">Privacy</h2>{switch("Location", True)}{switch("Camera", False)}
    {switch("Contacts", False)}
    <label><input type="checkbox" checked>Ask first</label><label><input type="checkbox">Remember</label></section>
  <section aria-labelledby="h2"><h2 id="h2">Sound</h2>{switch("Clicks", True)}{switch("Ringing", True)}
    <button data-function="play a test sound">Test</button><button disabled>Reset</button></section>
  <table role="table" aria-label="Devices">
    <tr><td>Phone</td><td><button>Forget</button></td></tr>
    <tr><td>Laptop</td><td><button>Forget</button></td></tr>
  </table>
  <input aria-label="Name" value="Ada"><input placeholder="Search settings">
</main>"""
)
