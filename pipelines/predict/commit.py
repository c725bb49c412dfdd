"""TODO doc."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from pipelines.plan.units import WorkUnit
from pipelines.schemas import PREDICTIONS
from pipelines.storage.lock_owner import check_lock
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store


class Committer:
    """Writes a unit's rows as one part, in one step."""

    def __init__(self, out: str, lock: str = "") -> None:
        self._out, self._lock = Store(out), lock

    def commit(self, unit: WorkUnit, rows: pa.Table) -> list[tuple[str, str, str, int]]:
        """Write the part; returns (task, setting, status, rows) of its own requests, carried rows left out.

        Raises:
            FencedError: the run that this worker belongs to was taken for dead and replaced.
        """
        content = to_parquet(rows.sort_by("request_id"), PREDICTIONS)
        check_lock(self._out, self._lock)
        self._out.put(unit.part, content)
        own = set(unit.only) if unit.carry else None
        columns = (rows[name].to_pylist() for name in ("request_id", "task", "setting", "status"))
        counts = Counter(
            (task, setting, status)
            for request_id, task, setting, status in zip(*columns, strict=True)
            if own is None or request_id in own
        )
        return [(*key, n) for key, n in counts.items()]


def own_tokens(unit: WorkUnit, rows: pa.Table) -> list[int]:
    """Tokens read, written and cached for a unit's own requests, rows that it carries over left out."""
    own = set(unit.only) if unit.carry else None
    kept = [row for row in rows.select(["request_id", *_TOKENS]).to_pylist() if own is None or row["request_id"] in own]
    return [sum(row[name] or 0 for row in kept) for name in _TOKENS]


_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")


FAILURES_TOLD = 3


def first_failures(rows: pa.Table) -> list[tuple[str, str]]:
    """Request id and type of the first few errors."""
    columns = rows.select(["request_id", "status", "error_type"]).to_pylist()
    failed = [(row["request_id"], row["error_type"] or "") for row in columns if row["status"] == "error"]
    return failed[:FAILURES_TOLD]
