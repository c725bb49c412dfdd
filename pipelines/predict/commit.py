"""Commit: the rows of an answered unit are written as one part, in one step."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from pipelines.plan.units import WorkUnit
from pipelines.schemas import PREDICTIONS
from pipelines.storage.lock_owner import check_lock
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store


class Committer:
    """Commits the rows of units."""

    def __init__(self, out: str, lock: str = "") -> None:
        self._out, self._lock = Store(out), lock

    def commit(self, unit: WorkUnit, rows: pa.Table) -> list[tuple[str, str, str, int]]:
        """Write the part and return (task, setting, status, rows) of new rows; FencedError if another run took over."""
        content = to_parquet(rows.sort_by("request_id"), PREDICTIONS)
        check_lock(self._out, self._lock)
        self._out.put(unit.part, content)
        retried = set(unit.retried)
        columns = (rows[name].to_pylist() for name in ("request_id", "task", "setting", "status"))
        counts = Counter(
            (task, setting, status)
            for request_id, task, setting, status in zip(*columns, strict=True)
            if not retried or request_id in retried
        )
        return [(*key, n) for key, n in counts.items()]


def new_tokens(unit: WorkUnit, rows: pa.Table) -> list[int]:
    """Return the tokens read, written and cached for the new rows of a unit."""
    retried = set(unit.retried)
    new_rows = [
        row for row in rows.select(["request_id", *_TOKENS]).to_pylist() if not retried or row["request_id"] in retried
    ]
    return [sum(row[name] or 0 for row in new_rows) for name in _TOKENS]


_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")


LOGGED_FAILURES = 3


def first_failures(rows: pa.Table) -> list[tuple[str, str]]:
    """Return request id and error type of the first few failed rows."""
    columns = rows.select(["request_id", "status", "error_type"]).to_pylist()
    failed = [(row["request_id"], row["error_type"] or "") for row in columns if row["status"] == "error"]
    return failed[:LOGGED_FAILURES]
