"""`status.json`: the progress of a run by model, benchmark, task and setting, written while it runs."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pipelines.errors import StoreError
from pipelines.json_records import dump_checked, load_checked
from pipelines.plan.records import ModelPlan
from pipelines.predict.records import Receipt, TaskCount
from pipelines.storage.backend import is_remote
from pipelines.storage.parts import folder_names
from pipelines.storage.store import Store, put_named

log = logging.getLogger(__name__)

WRITE_EVERY_S = 5.0
WRITE_TO_STORE_EVERY_S = 15.0  # in an object store, where each time is a request
HEARTBEAT_S = 10.0
"""While models run the file's age is looked at so often, and shows that the run lives: it stays below 30 s."""

_Key = tuple[str, str, str, str]
_KEY = ("model", "benchmark", "task", "setting")


class StatusWriter:
    """Counts of rows by model, benchmark, task and setting; plans without requests leave the file as it is.

    `done` are rows with an answer or excluded, `failed` those with an error, `running` those of running models,
    `pending` those of models that have not started.
    """

    def __init__(self, out: Store, plans: Mapping[str, Sequence[ModelPlan]], *, is_new: bool = False) -> None:
        """Begin with the counts of earlier runs, of which an output that `is_new` has none."""
        self._out = out
        self._requests: dict[_Key, int] = {}
        self._open: dict[_Key, int] = {}
        self._failed: Counter[_Key] = Counter()
        self._excluded: Counter[_Key] = Counter()
        self._running: set[str] = set()
        self._written = 0.0
        self._write_every_s = WRITE_TO_STORE_EVERY_S if is_remote(out.uri) else WRITE_EVERY_S
        self._lock = threading.RLock()  # models may run concurrently
        for model, model_plans in plans.items():
            for plan in model_plans:
                for (task, setting), n in plan.requests.items():
                    key = (model, plan.prompts.benchmark_name, task, setting)
                    self._requests[key] = self._requests.get(key, 0) + n
                    self._open[key] = self._open.get(key, 0) + plan.pending[task, setting]
        self._earlier_rows = [
            row
            for row in ([] if is_new else read_status(out).get("cells", []))
            if tuple(row[name] for name in _KEY) not in self._requests
        ]
        if self._requests:
            self.write()
        self._closed = threading.Event()
        self._heartbeat = threading.Thread(target=self._beat, name="vlmsweep-status", daemon=True)
        self._heartbeat.start()

    def close(self) -> None:
        """Stop the heartbeat."""
        self._closed.set()
        self._heartbeat.join()

    def _beat(self) -> None:
        while not self._closed.wait(HEARTBEAT_S):
            with self._lock:
                if self._running and time.monotonic() - self._written > self._write_every_s:
                    self.write()

    def begin(self, model: str) -> None:
        """Record that a model runs."""
        with self._lock:
            self._running.add(model)
            self.write()

    def end(self, model: str) -> None:
        """Record that a model has ended."""
        with self._lock:
            self._running.discard(model)
            self.write()

    def record(self, model: str, receipt: Receipt) -> None:
        """Record a committed unit."""
        _, name = folder_names(receipt.part)
        with self._lock:
            for (task, setting, status), n in receipt.counts.items():
                key = (model, name, task, setting)
                self._open[key] -= n
                self._failed[key] += n if status == "error" else 0
                self._excluded[key] += n if status == "excluded" else 0
            if time.monotonic() - self._written > self._write_every_s:
                self.write()

    def rows(self) -> list[dict[str, Any]]:
        """Return the counts, one mapping per model, benchmark, task and setting."""
        return [_status_row(count, is_running=count.model in self._running) for count in self.counts()]

    def counts(self) -> list[TaskCount]:
        """Return the counts in the form of the report."""
        return [
            TaskCount(
                **dict[str, Any](zip(_KEY, key, strict=True)),
                requests=total,
                ok=total - self._open[key] - self._failed[key] - self._excluded[key],
                error=self._failed[key],
                excluded=self._excluded[key],
                missing=self._open[key],
            )
            for key, total in self._requests.items()
        ]

    def write(self) -> None:
        """Write the file; a failure is only logged, so that a slow store does not end the run."""
        self._written = time.monotonic()
        try:
            _write(self._out, [*self._earlier_rows, *self.rows()])
        except StoreError as error:
            log.warning("status.json not written: %s", error)


def read_status(out: Store) -> dict[str, Any]:
    """Return the content of `status.json`; {} if it is missing or unreadable."""
    try:
        return load_checked(out.get("status.json"))
    except (FileNotFoundError, ValueError):
        return {}


def write_counts(out: Store, counts: Sequence[TaskCount]) -> None:
    """Write `status.json` from exact counts, after imported answers were scored."""
    _write(out, [_status_row(count) for count in counts])


def _status_row(count: TaskCount, *, is_running: bool = False) -> dict[str, Any]:
    return {
        **{name: getattr(count, name) for name in (*_KEY, "requests")},
        "pending": 0 if is_running else count.missing,
        "running": count.missing if is_running else 0,
        "done": count.ok + count.excluded,
        "failed": count.error,
        "excluded": count.excluded,
    }


def _write(out: Store, rows: Sequence[dict[str, Any]]) -> None:
    status = {"updated": datetime.now(UTC).isoformat(timespec="seconds"), "cells": list(rows)}
    put_named(out, "status.json", dump_checked(status), b'"updated"')
