"""A search of the living page for what a query means, independent of what was captured and of `matches`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assets.synthetic_samples.capture import InterfacePage
from assets.synthetic_samples.queries import Query

SEARCH = Path(__file__).with_name("search.js").read_text(encoding="utf-8")


def search(page: InterfacePage, queries: list[Query]) -> list[list[int]]:
    """What each query means on the page that was captured last: indices of nodes, -1 for what was not captured."""
    asked: list[dict[str, Any]] = [query.to_json() for query in queries]
    found: list[list[int]] = page.page.evaluate(SEARCH, asked)
    return found
