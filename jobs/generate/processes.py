"""Helper processes that change the run time, never the result."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_THREADS = Path("/proc/self/task")
_CHUNK = 8  # items sent at a time: enough that sending costs nothing beside them


def start_method() -> str | None:
    """Return `fork`, `spawn`, or None where processes cannot be started.

    `fork` needs one thread, native ones included, since it would stop others in mid-work; `spawn` runs the calling
    script's file once more, which must exist.
    """
    if _THREADS.is_dir() and len(list(_THREADS.iterdir())) == 1:
        return "fork"
    script = getattr(sys.modules["__main__"], "__file__", None)
    return "spawn" if script is None or Path(script).is_file() else None


class Processes:
    """A context with helper processes; with one, or where none can be started, this process does the work."""

    def __init__(self, workers: int) -> None:
        method = start_method() if workers > 1 else None
        self._pool = None if method is None else ProcessPoolExecutor(workers, mp_context=get_context(method))

    def map(self, function: Callable[[_In], _Out], items: Sequence[_In]) -> Iterator[_Out]:
        """Return results in the order of the items; an error of one ends the whole."""
        if self._pool is None:
            return map(function, items)
        return self._pool.map(function, items, chunksize=_CHUNK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=error is not None)
