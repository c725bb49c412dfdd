"""An event loop in its own thread: the caller's may already run one, as in an asynchronous Ray actor."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, MutableSet
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from models.errors import EngineUnreachableError

T = TypeVar("T")


class _End:
    """Marks the end of a stream."""


class BackgroundLoop:
    """Runs coroutines in a thread until closed; closing cancels running ones."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._streams: WeakSet[asyncio.Task[None]] = WeakSet()
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
        """Return whether the loop has ended."""
        return not self._thread.is_alive()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to the end and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stream(self, produce: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> Iterator[T]:
        """Yield a coroutine's items; closing the iterator cancels it.

        Raises:
            EngineUnreachableError: the loop was closed.
        """
        if self.closed:
            raise EngineUnreachableError("the engine was closed")
        stream = _Stream[T]()
        task = self.run(stream.start(produce, self._streams))
        try:
            while not isinstance(item := stream.items.get(), _End):
                yield item
        finally:
            if not stream.ended.is_set():
                self._loop.call_soon_threadsafe(task.cancel)
                stream.ended.wait()
        if task.cancelled():
            raise EngineUnreachableError("closed while answers were still running")
        task.result()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel running streams, run the coroutine that `last` creates, end the thread. May be called twice."""
        if self.closed:
            return
        self.run(_cancel(self._streams, last))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def _cancel(streams: Iterable[asyncio.Task[None]], last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
    # Not all tasks of the loop: anyio's, cancelled before their first step, would drop a coroutine with a warning.
    tasks = [*streams]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if last is not None:
        await last()


class _Stream(Generic[T]):
    def __init__(self) -> None:
        self.items: SimpleQueue[T | _End] = SimpleQueue()
        self.ended = threading.Event()

    async def start(
        self,
        produce: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]],
        streams: MutableSet[asyncio.Task[None]],
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(produce(self.items.put))
        streams.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        # Retrieving the exception keeps asyncio from logging it as lost when the iterator was closed early.
        if not task.cancelled():
            task.exception()
        self.items.put(_End())
        self.ended.set()
