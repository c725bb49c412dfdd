"""An event loop in a thread of its own, for synchronous code whose work is asynchronous inside.

The caller's thread may run a loop already, as an asynchronous Ray actor's does; it is never touched.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _End:
    """Marks that nothing more will be put."""


class BackgroundLoop:
    """Runs coroutines in a thread until closed; closing cancels what still runs."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._ready.set()
            self._loop.run_forever()

    @property
    def closed(self) -> bool:
        """Whether nothing can be run any more."""
        return not self._thread.is_alive()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end and hand back the result, or raise what was raised."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stream(self, produce: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> Iterator[T]:
        """Yield what a coroutine puts, as it comes; an iterator closed early cancels the coroutine.

        Args:
            produce: makes the coroutine; it is given the function to put with.

        Raises:
            RuntimeError: the loop was closed before the coroutine ended.
        """
        run = _Stream[T]()
        task = self.run(run.start(produce))
        try:
            while not isinstance(item := run.items.get(), _End):
                yield item
        finally:
            if not run.ended.is_set():
                self._loop.call_soon_threadsafe(task.cancel)
                run.ended.wait()
        if task.cancelled():
            raise RuntimeError("closed while it was still answering")
        task.result()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel what runs, do one last thing, end the thread. Twice is as good as once.

        Args:
            last: makes a coroutine that is run when nothing else does any more, such as closing connections.
        """
        if self.closed:
            return
        self.run(_wind_up(last))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def _wind_up(last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if last is not None:
        await last()


class _Stream(Generic[T]):
    """One producing task and what it has put."""

    def __init__(self) -> None:
        self.items: SimpleQueue[T | _End] = SimpleQueue()
        self.ended = threading.Event()

    async def start(self, produce: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(produce(self.items.put))
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        # Looking at the exception here keeps asyncio from logging it as lost when the iterator was closed early.
        if not task.cancelled():
            task.exception()
        self.items.put(_End())
        self.ended.set()
