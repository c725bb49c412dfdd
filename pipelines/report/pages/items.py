"""The items behind the tables: one CSV file per list, with all items, and a page with the first ones of each model."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipelines.benchmarks.item_lists import ItemList
from pipelines.rendering.environment import ITEMS, csv_text, render_page
from pipelines.report.model import ModelItems

SHOWN: Final = 10  # items of each list, model and setting on the page
_COLUMNS: Final = (
    *("model", "task", "setting", "sample_id", "variant", "category", "question", "expected", "answer", "detail"),
    "prompt_set",
)


def item_files(lists: Sequence[ModelItems], links: Sequence[Mapping[str, str]]) -> dict[str, bytes]:
    """Return the files by path under `report/`; none without lists. `links` lead to the report's other pages."""
    by_id: dict[str, list[ModelItems]] = {}
    for entry in lists:
        by_id.setdefault(entry.items.id, []).append(entry)
    if not by_id:
        return {}
    contents = {f"report/items/{name}.csv": csv_text(_COLUMNS, _rows(of)).encode() for name, of in by_id.items()}
    return {**contents, f"report/{ITEMS}": _page(by_id, links).encode("utf-8", "replace")}


def shown_requests(lists: Sequence[ItemList]) -> set[str]:
    """Return the requests of one model whose outputs the page shows."""
    return {item.request_id for items in lists for item in _first(items)}


def _first(items: ItemList) -> Iterator[Any]:
    counts: Counter[str] = Counter()
    for item in items.items:
        counts[item.setting] += 1
        if counts[item.setting] <= SHOWN:
            yield item


def _rows(entries: Sequence[ModelItems]) -> Iterator[tuple[str, ...]]:
    for entry in entries:
        for item in entry.items.items:
            yield entry.model, *(getattr(item, name) for name in _COLUMNS[1:-1]), entry.prompt_set


def _page(by_id: Mapping[str, Sequence[ModelItems]], links: Sequence[Mapping[str, str]]) -> str:
    sections = [
        {
            "id": name,
            "title": entries[0].items.title,
            "about": entries[0].items.about,
            "models": [
                {
                    "benchmark": entry.benchmark,
                    "name": ", ".join(filter(None, (entry.model, entry.prompt_set))),
                    "counts": _counts(entry),
                    "items": list(_first(entry.items)),
                    "outputs": entry.outputs,
                }
                for entry in entries
                if entry.items.items
            ],
        }
        for name, entries in by_id.items()
    ]
    subtitle = f"The first {SHOWN} items of each model and setting; the CSV files have all."
    return render_page("items.html.j2", ITEMS, "Items behind the tables", subtitle, links, sections=sections)


def _counts(entry: ModelItems) -> str:
    counts = Counter(item.setting for item in entry.items.items)
    return ", ".join(f"{setting} {count:,}" for setting, count in counts.items())
