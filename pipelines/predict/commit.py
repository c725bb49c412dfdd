"""Commit: the rows of an answered unit are written as one part, in one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pipelines.plan.units import WorkUnit
from pipelines.predict.records import AnsweredUnit, Receipt
from pipelines.schemas import PREDICTIONS
from pipelines.storage.lock_owner import check_lock
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store

LOGGED_FAILURES = 3
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_COLUMNS = ("request_id", "task", "setting", "status", "error_type", *_TOKENS)


class Committer:
    """Commits the rows of units."""

    def __init__(self, out: str, lock: str = "") -> None:
        self._out, self._lock = Store(out), lock

    def commit(self, answered: AnsweredUnit) -> Receipt:
        """Write the part of a unit, unless an earlier attempt has; FencedError if another run took over."""
        unit, rows, span = answered.unit, answered.rows, answered.span
        if answered.fatal:
            return Receipt(part="", counts={}, fatal=answered.fatal)
        if not answered.is_committed:
            content = to_parquet(rows.sort_by("request_id"), PREDICTIONS)
            check_lock(self._out, self._lock)
            self._out.put(unit.part, content)
        new_rows = _new_rows(unit, rows)
        read, written, cached = (sum(row[name] or 0 for row in new_rows) for name in _TOKENS)
        failed = [(row["request_id"], row["error_type"] or "") for row in new_rows if row["status"] == "error"]
        return Receipt(
            part=unit.part,
            counts=Counter((row["task"], row["setting"], row["status"]) for row in new_rows),
            replica=span.replica,
            began=span.began,
            ended=span.ended,
            tokens=(read, written),
            cached=cached,
            failed=tuple(failed[:LOGGED_FAILURES]),
            cost_limit_reached="cost_limit" in rows["error_type"].to_pylist(),
        )


def _new_rows(unit: WorkUnit, rows: pa.Table) -> list[Mapping[str, Any]]:
    """Return the rows that are not kept from an earlier part."""
    retried = set(unit.retried)
    return [row for row in rows.select(_COLUMNS).to_pylist() if not retried or row["request_id"] in retried]
