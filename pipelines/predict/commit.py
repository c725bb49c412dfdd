"""Commit: the rows of an answered unit are written as one part, in one step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from pipelines.plan.units import WorkUnit
from pipelines.predict.records import AnsweredUnit, Receipt
from pipelines.schemas import PREDICTIONS
from pipelines.storage.lock_owner import check_lock
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store

LOGGED_FAILURES = 3
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
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
        new = _new_columns(unit, rows)
        read, written, cached, cache_writes = (sum(filter(None, new[name])) for name in _TOKENS)
        endings = zip(new["request_id"], new["error_type"], new["status"], strict=True)
        failed = [(request_id, error_type or "") for request_id, error_type, status in endings if status == "error"]
        return Receipt(
            part=unit.part,
            counts=Counter(zip(new["task"], new["setting"], new["status"], strict=True)),
            replica=span.replica,
            device=span.device,
            began=span.began,
            ended=span.ended,
            tokens=(read, written),
            cached=cached,
            cache_writes=cache_writes,
            failed=tuple(failed[:LOGGED_FAILURES]),
            warnings=answered.warnings,
            cost_limit_reached="cost_limit" in new["error_type"],
        )


def _new_columns(unit: WorkUnit, rows: pa.Table) -> dict[str, list[Any]]:
    """Return columns of the rows that are not kept from an earlier part."""
    rows = rows.select(_COLUMNS)
    if unit.retried:
        retried = set(unit.retried)
        rows = rows.filter(pa.array([request_id in retried for request_id in rows["request_id"].to_pylist()]))
    columns: dict[str, list[Any]] = rows.to_pydict()
    return columns
