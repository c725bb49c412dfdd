"""The index of all answers: a DuckDB database in a temporary folder, which filters and sorts a million rows.

It reads no file and no address by itself: Arrow tables are handed to it, and values only as bound parameters. What a
page shows beyond these columns is read from the part that `parts` names.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from pipelines.errors import StoreError

MEMORY: Final = "400MB"
THREADS: Final = 2


def read_query(name: str) -> str:
    """Return a query of the folder `sql`."""
    return files("jobs.view").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


_TABLES, _ITEMS, _INSERT = map(read_query, ("tables", "items", "insert"))

PREDICTION_COLUMNS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("request_id", "sample_id", "benchmark", "task", "setting", "variant")),
        *((name, pa.string()) for name in ("model", "status", "output", "error")),
        ("latency_s", pa.float64()),
    ]
)
SCORE_COLUMNS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("request_id", "category", "answer", "verdict_state")),
        ("correct", pa.float64()),
        ("accepted", pa.float64()),
    ]
)
JUDGEMENT_COLUMNS: Final = pa.schema([(name, pa.string()) for name in ("model", "prompt_sha256", "output", "error")])


class Index:
    """Answers of all outputs; an item is what several models answered. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "threads": THREADS,
            "temp_directory": str(folder / "spill"),
        }
        self._folder = folder
        self._connection = duckdb.connect(str(folder / "index.duckdb"), config=settings)
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._connection.execute(_TABLES)
        self._connection.execute(_ITEMS)
        self._writing = threading.Lock()
        self._next_part = 0

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return the rows of a query, whose text is constant and whose values are bound."""
        with self._cursor() as cursor:
            cursor.execute(query, list(parameters))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def add_parts(self, out: int, parts: Sequence[tuple[str, str, pa.Table, pa.Table]]) -> None:
        """Add parts of an output: path, signature, predictions and scores of each, with the columns above."""
        numbers = range(self._next_part, self._next_part + len(parts))
        self._next_part += len(parts)
        names = [[number, out, path, signature] for number, (path, signature, _, _) in zip(numbers, parts, strict=True)]
        predictions = [_numbered(part[2], number) for number, part in zip(numbers, parts, strict=True)]
        scores = [_numbered(part[3], number) for number, part in zip(numbers, parts, strict=True)]
        with self._writing, self._cursor() as cursor:
            cursor.register("predictions", pa.concat_tables(predictions))
            cursor.register("scores", pa.concat_tables(scores))
            cursor.begin()
            cursor.execute(_INSERT, [out])
            cursor.executemany("INSERT INTO parts VALUES (?, ?, ?, ?)", names)
            cursor.commit()

    def drop_parts(self, out: int, paths: Sequence[str]) -> None:
        """Remove parts of an output that were replaced or deleted."""
        with self._writing, self._cursor() as cursor:
            cursor.begin()
            selected = "SELECT part FROM parts WHERE out = ? AND list_contains(?, path)"
            cursor.execute(f"DELETE FROM answers WHERE part IN ({selected})", [out, list(paths)])  # noqa: S608
            cursor.execute("DELETE FROM parts WHERE out = ? AND list_contains(?, path)", [out, list(paths)])
            cursor.commit()

    def add_questions(self, benchmark: str, shard: str, texts: Sequence[tuple[str, str]]) -> None:
        """Add sample ids of a benchmark's shard with the text by which they are found."""
        table = pa.table({"sample_id": [name for name, _ in texts], "text": [text for _, text in texts]})
        with self._writing, self._cursor() as cursor:
            cursor.register("texts", table)
            cursor.execute("INSERT INTO questions SELECT ?, sample_id, ?, lower(text) FROM texts", [benchmark, shard])

    def replace_judgements(self, out: int, path: str, replies: pa.Table) -> None:
        """Add the replies of one part of judgements, in place of those that it held before."""
        with self._writing, self._cursor() as cursor:
            cursor.register("replies", replies)
            cursor.begin()
            cursor.execute("DELETE FROM judgements WHERE out = ? AND path = ?", [out, path])
            cursor.execute(
                "INSERT INTO judgements SELECT ?, ?, model, prompt_sha256, coalesce(output, error) FROM replies",
                [out, path],
            )
            cursor.commit()

    def signatures(self, out: int) -> dict[str, str]:
        """Return path -> signature of the parts of an output."""
        rows = self.rows("SELECT path, signature FROM parts WHERE out = ?", [out])
        return {row["path"]: row["signature"] for row in rows}

    def refresh_items(self) -> None:
        """Group the answers to items, after parts were added or removed."""
        with self._writing, self._cursor() as cursor:
            cursor.execute(_ITEMS)

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor; StoreError where the memory of all queries or the temporary folder has no room."""
        try:
            with self._connection.cursor() as cursor:
                yield cursor
        except duckdb.OutOfMemoryException as error:
            problem = f"the index has no room for this beside what else is asked ({MEMORY} for all)"
            raise StoreError(f"{problem}; try again in a moment, or filter first", is_transient=True) from error
        except duckdb.IOException as error:
            problem = f"the index in {self._folder} cannot be written, is the disk full? ({str(error)[:200]})"
            raise StoreError(f"{problem}; start again with TMPDIR on a disk with room") from error


def _numbered(table: pa.Table, number: int) -> pa.Table:
    return table.append_column("part", pa.array([number] * table.num_rows, pa.int32()))
