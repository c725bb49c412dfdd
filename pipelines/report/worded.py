"""Tables whose words are data: `tables.yaml` has their titles, heads, styles and notes by name."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.tables import Table, TableRow

_load: Final = cache(load_facts)


def words_of(name: str) -> Mapping[str, Any]:
    """Return the words of a table as they stand in the file; `PACKAGE:NAME` for one of another package's file."""
    package, _, table = name.rpartition(":")
    words: Mapping[str, Any] = _load(package or "pipelines.report", "tables.yaml")[table]
    return words


def worded(
    name: str, rows: Iterable[TableRow], /, columns: Sequence[str] = (), notes: Sequence[str] = (), **words: Any
) -> Table:
    """Return a table with its words, in which `words` are filled in; `columns` stand for `*`, `notes` at the end."""
    entry = words_of(name)
    heads = (head for text in entry["columns"] for head in (columns if text == "*" else [text.format(**words)]))
    file_notes = (note.format(**words) for note in entry.get("notes", ()))
    texts: dict[str, Any] = {key: value.format(**words) for key, value in entry.items() if isinstance(value, str)}
    styles = entry.get("styles", ())
    return Table(**texts, columns=tuple(heads), styles=styles, rows=tuple(rows), notes=(*file_notes, *notes))


def worded_if_any(name: str, rows: Sequence[TableRow], /, **words: Any) -> Table | None:
    """Return such a table, None without rows."""
    return worded(name, rows, **words) if rows else None
