"""What an instruction names, as a structured query, and the search that says which nodes of a page it means.

An instruction is given to a model only if its query means exactly one node of the page, and a hard negative only if its
query means none. `matches` is that search. It reads what a person can see, and is generous in what it takes for seen: a
node half hidden under a dialog still makes a name ambiguous.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from assets.synthetic_samples.capture import Capture, Node, plain

By = Literal["text", "icon", "function", "relation", "state"]

UNIQUE_ROLES = ("toolbar", "navigation", "dialog", "table", "menu", "tablist")
"""Roles of groups that can be named by what they are, where a page shows one of them."""

COUNTED_ROLES = (
    "button",
    "link",
    "checkbox",
    "switch",
    "radio",
    "tab",
    "textbox",
    "searchbox",
    "combobox",
    "slider",
    "spinbutton",
    "menuitem",
    "treeitem",
    "gridcell",
)
"""Kinds of controls that can be told apart by looking, and so counted."""

STATES: Mapping[str, Sequence[tuple[str, str]]] = {
    "checkbox": (("checked", "true"), ("checked", "false")),
    "switch": (("checked", "true"), ("checked", "false")),
    "radio": (("checked", "true"),),
    "tab": (("selected", "true"),),
    "treeitem": (("selected", "true"), ("expanded", "true"), ("expanded", "false")),
    "option": (("selected", "true"),),
    "button": (("pressed", "true"), ("expanded", "true")),
    "combobox": (("expanded", "true"),),
}
"""States that show, by role."""

ALIKE: Mapping[str, str] = {"link": "button", "searchbox": "textbox", "menuitemcheckbox": "menuitem"}
"""Roles that look like another: where a group holds both, neither is counted."""

LONGEST = 60
"""Characters of the longest text that an instruction quotes."""

ORDINALS = 6
"""The last place that is counted from the first; further ones are told otherwise."""


@dataclass(frozen=True)
class Query:
    """All that is given must hold of a node.

    Attributes:
        by: which kind of instruction it is.
        text: what is written on it, or on a part of it that is written apart, exactly.
        icon: the name of its icon.
        function: what it is for.
        role: what kind of control it is.
        name: its accessible name, where that is also written on the screen.
        group: the name of a group it lies in.
        group_role: the role of a group it lies in.
        row: what is written first in its table row or list item.
        state: one of its states and the value of that.
        ordinal: which one it is of those for which the rest holds, in the order of reading; -1 for the last.
    """

    by: By
    text: str = ""
    icon: str = ""
    function: str = ""
    role: str = ""
    name: str = ""
    group: str = ""
    group_role: str = ""
    row: str = ""
    state: tuple[str, str] | None = None
    ordinal: int = 0

    def to_json(self) -> dict[str, Any]:
        """What is given, and nothing else."""
        return {key: value for key, value in asdict(self).items() if value}


def matches(query: Query, page: Capture) -> list[Node]:
    """The nodes that a query means, in document order."""
    found = [node for node in _candidates(query, page) if _holds(query, node, page)]
    if query.ordinal == 0:
        return found
    place = query.ordinal if query.ordinal < 0 else query.ordinal - 1
    return [found[place]] if -len(found) <= place < len(found) else []


def _candidates(query: Query, page: Capture) -> Sequence[Node]:
    """Nodes among which all lie that a query means, looked up by one of its parts."""
    if query.function:
        named = {
            node.index: node
            for key in ("function", "name")
            for node in page.index.get((key, plain(query.function)), ())
        }
        return [named[index] for index in sorted(named)]
    for key in ("text", "icon", "name", "role"):
        value = getattr(query, key)
        if value:
            return page.index.get((key, plain(value) if key in ("text", "name") else value), ())
    return page.nodes


def _holds(query: Query, node: Node, page: Capture) -> bool:
    if node.kind != "control" and (query.role or query.name or query.row or query.state):
        return False
    groups = [page.groups[number] for number in node.groups] if query.group or query.group_role else []
    return (
        (not query.text or any(same(query.text, text) for text in (*node.texts, node.text)))
        and (not query.icon or query.icon in node.icons)
        and (not query.function or same(query.function, node.function) or same(query.function, node.name))
        and (not query.role or node.role == query.role)
        and (not query.name or same(query.name, node.name))
        and (not query.group or any(same(query.group, group.name) for group in groups))
        and (not query.group_role or any(query.group_role == group.role for group in groups))
        and (not query.row or same(query.row, page.row_titles.get(node.row, "")))
        and (query.state is None or node.state.get(query.state[0]) == query.state[1])
    )


def same(one: str, other: str) -> bool:
    """Whether a person takes two texts for one."""
    return plain(one) == plain(other)


# --- which queries mean a node ---------------------------------------------------------------------------------------


def queries_for(target: Node, page: Capture) -> list[Query]:
    """Every query that means this target alone, the kinds in their order."""
    return [query for query in _proposals(target, page) if means_only(query, target, page)]


def means_only(query: Query, target: Node, page: Capture) -> bool:
    """Whether a query means this node and no other, and a person counting on the screen comes to the same."""
    if [node.index for node in matches(query, page)] != [target.index]:
        return False
    return query.ordinal == 0 or _countable(query, page)


def _proposals(target: Node, page: Capture) -> Iterator[Query]:
    for text in dict.fromkeys([*target.texts[:1], target.text]):
        if 0 < len(text) <= LONGEST and not text.isdigit():
            yield Query("text", text=text)
    if len(target.icons) == 1 and not target.texts:
        yield Query("icon", icon=target.icons[0])
    if target.function:
        yield Query("function", function=target.function)
    if target.role not in COUNTED_ROLES and target.role not in STATES:
        return
    places = list(_places(target, page))
    if target.name and len(target.name) <= LONGEST and target.text != target.name and _written(target.name, page):
        yield Query("relation", role=target.role, name=target.name)
    row = page.row_titles.get(target.row, "")
    if 0 < len(row) <= LONGEST and target.role in COUNTED_ROLES:
        yield Query("relation", role=target.role, row=row)
    if target.role in COUNTED_ROLES:
        for place in places:
            kin = replace(place, role=target.role)
            peers = matches(kin, page)
            if len(peers) == 1:
                yield kin
                continue
            number = next((at for at, node in enumerate(peers, 1) if node.index == target.index), 0)
            if 0 < number <= ORDINALS:
                yield replace(kin, ordinal=number)
            if number == len(peers):
                yield replace(kin, ordinal=-1)
    for state in STATES.get(target.role, ()):
        for place in (Query("state"), *places):
            if target.state.get(state[0]) == state[1]:
                yield replace(place, by="state", role=target.role, state=state)


def _places(target: Node, page: Capture) -> Iterator[Query]:
    """The groups around a node that a person can name, from the innermost, as queries for all that is in them."""
    for number in target.groups:
        group = page.groups[number]
        if number in page.named_groups and len(group.name) <= LONGEST:
            yield Query("relation", group=group.name)
        elif group.role in UNIQUE_ROLES and sum(other.role == group.role for other in page.groups) == 1:
            yield Query("relation", group_role=group.role)


def _written(text: str, page: Capture) -> bool:
    return any(node.seen and node.kind == "text" for node in page.index.get(("text", plain(text)), ()))


def _countable(query: Query, page: Capture) -> bool:
    """Whether a person who counts on the screen comes to the same: all is seen, in reading order, nothing looks alike.

    Of what is counted from the first, what comes after the target need not be seen.
    """
    peers = matches(Query("relation", role=query.role, group=query.group, group_role=query.group_role), page)
    ordered = in_reading_order(peers)
    if query.ordinal > 0:
        peers = peers[: query.ordinal]
    confused = {ALIKE.get(query.role, query.role), *(role for role, like in ALIKE.items() if like == query.role)}
    for role in confused - {query.role}:
        if matches(Query("relation", role=role, group=query.group, group_role=query.group_role), page):
            return False
    return ordered and all(node.seen for node in peers)


def in_reading_order(nodes: Sequence[Node]) -> bool:
    """Whether nodes follow each other from the top down, and in a line from the left, as in the document."""
    return all(_follows(one, other) for one, other in pairwise(nodes))


def _follows(one: Node, other: Node) -> bool:
    middle = (other.box[1] + other.box[3]) / 2
    if one.box[1] <= middle < one.box[3]:
        return other.box[0] >= one.box[2]
    return other.box[1] >= one.box[3]


# --- which queries mean nothing --------------------------------------------------------------------------------------


def absent_queries(page: Capture, plausible: Iterable[Query], rng: random.Random) -> list[Query]:
    """Queries that mean nothing on this page, shuffled: proven by search.

    Args:
        plausible: texts, functions and icons that would fit the page; those whose words occur on it are left out, even
            as a part of others.
    """
    shown = [text for node in page.nodes for text in (*node.texts, node.text, node.name, node.function)]
    shown += [group.name for group in page.groups]
    written = "\n".join(shown).casefold()
    found = [query for query in plausible if not _occurs(query, written)]
    found += _absent_relations(page)
    found += _absent_states(page)
    found = [query for query in dict.fromkeys(found) if not matches(query, page)]
    rng.shuffle(found)
    return found


def _occurs(query: Query, written: str) -> bool:
    words = plain(query.text or query.function)
    return len(words) > LONGEST or (not query.icon and (not words or words in written))


def _absent_relations(page: Capture) -> Iterator[Query]:
    """One further than a group goes, and kinds of controls that it lacks though others of the page have them."""
    roles = sorted({node.role for node in page.nodes if node.kind == "control" and node.role in COUNTED_ROLES})
    for number in sorted(page.named_groups):
        group = page.groups[number]
        if not group.visible or len(group.name) > LONGEST:
            continue
        for role in roles:
            members = matches(Query("relation", role=role, group=group.name), page)
            if not members:
                alike = {ALIKE.get(role, role), *(other for other, like in ALIKE.items() if like == role)} - {role}
                if not any(matches(Query("relation", role=other, group=group.name), page) for other in alike):
                    yield Query("relation", role=role, group=group.name)
            elif len(members) < ORDINALS and _countable(
                Query("relation", role=role, group=group.name, ordinal=-1), page
            ):
                yield Query("relation", role=role, group=group.name, ordinal=len(members) + 1)


def _absent_states(page: Capture) -> Iterator[Query]:
    for role, states in STATES.items():
        members = [node for node in page.nodes if node.kind == "control" and node.role == role]
        if role in ("button", "combobox") or len(members) < 2:
            continue
        if all(node.seen for node in members):
            yield from (Query("state", role=role, state=state) for state in states)
