"""Models of a sweep asked beside each other, by the book of `cluster.scheduling.gpu_scheduler`: one thread each, one watcher."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from cluster.connect import ClusterInfo
from cluster.placement import StoppedError
from cluster.scheduling.gpu_scheduler import Book, side_by_side
from pipelines.predict.executor import Receipt
from pipelines.predict.status import StatusBoard


class _Rows(Protocol):
    def advance(self, rows: int, failed: int) -> None: ...


class _Shared:
    """A watcher for threads: the phase is everybody's and was begun before, rows are told one after the other."""

    def __init__(self, watcher: _Rows) -> None:
        self._watcher, self._lock = watcher, threading.Lock()

    def phase(self, title: str, total: int) -> None:
        """Nothing."""

    def advance(self, rows: int, failed: int) -> None:
        """So many more rows are done."""
        with self._lock:
            self._watcher.advance(rows, failed)


def ask_together(
    book: Book,
    cluster: ClusterInfo,
    watcher: _Rows,
    board: StatusBoard,
    ask: Callable[[str, ClusterInfo, _Shared, Callable[[Receipt], None], Callable[[], bool]], None],
) -> None:
    """Ask all models of a book; returns when each has ended.

    Args:
        book: who begins when, on which share of the GPUs.
        cluster: what there is in all.
        watcher: is told of rows.
        board: is told of commits.
        ask: asks one model, given its name, its share of the cluster, a watcher, what to call with each receipt, and
            what tells whether it shall end.

    Raises:
        Exception: the first that `ask` raised; the other models are stopped at their next commit.
    """
    shared, gpus = _Shared(watcher), {work.name: work.gpus for work in book.works}

    def run(name: str, replicas: int, stop: threading.Event) -> None:
        def note(receipt: Receipt) -> None:
            board.note(name, receipt)
            if stop.is_set():
                raise StoppedError(name)

        share = replace(cluster, gpus=float(replicas * gpus[name]), grows_to=()) if gpus[name] else cluster
        ask(name, share, shared, note, stop.is_set)

    side_by_side(book, run)
