"""Addresses of pages: the query string holds the whole state of a page, so that a link reproduces it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from jobs.view.filters import Filter
from jobs.view.listing import Item


def link(root: str, page: str, query: str = "", /, **values: Any) -> str:
    """Return an address below the key: `root` is `/` and the key."""
    more = urlencode({name: value for name, value in values.items() if value not in ("", None)})
    return f"{root}/{page}" + ("?" if query or more else "") + "&".join(part for part in (query, more) if part)


def item_query(item: Item, chosen: Filter) -> str:
    """Return the query of an item's page, with the list that it is in and its index there."""
    within = {f"in_{name}": value for name, value in chosen.values().items()}
    return urlencode({**item.identity(), "at": item.at, **within})
