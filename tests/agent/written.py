"""Actions as hypothesis draws them, for the tests that write and read them."""

from hypothesis import strategies as st

from assets.agent.actions import ACTIONS, Action

points = st.tuples(st.integers(0, 999), st.integers(0, 999))
sizes = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
FIELDS = {
    "point": points,
    "end": points,
    "content": text,
    "keys": st.lists(
        st.sampled_from(["ctrl", "shift", "c", "+", ",", "-", "'", "\\", "f1"]), min_size=1, max_size=3
    ).map(tuple),
    "direction": st.sampled_from(["up", "down", "left", "right"]),
    "index": st.integers(0, 10_000),
}


@st.composite
def actions(draw: st.DrawFn, platform: str | None = None) -> Action:
    """Any well-formed action, of a platform where one is named."""
    names = [name for name, form in ACTIONS.items() if platform is None or platform in form.platforms]
    name = draw(st.sampled_from(sorted(names)))
    return Action(name, **{p.field: draw(FIELDS[p.field]) for p in ACTIONS[name].parameters})
