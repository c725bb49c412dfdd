"""Report how far a model's weights have arrived to a listener in this process."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from time import monotonic
from typing import Any

Listener = Callable[[str, float, float], None]  # activity (`fetching` or `loading`), bytes done, total bytes

_INTERVAL_S = 1.0
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def progress_listener(listener: Listener) -> Iterator[None]:
    """Send progress to this listener within the context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(activity: str, done: float, total: float) -> None:
    """Send progress to the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(activity, done, total)


@contextlib.contextmanager
def weights_progress(size: float) -> Iterator[None]:
    """Report transformers' loading as bytes instead of a progress bar; every tensor counts an equal share of `size`."""
    from transformers.utils import logging as transformers_logging

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if not (size and args and hasattr(args[0], "__len__") and "eights" in str(options.get("desc"))):
            return factory(*args, **options)
        return factory(_count(args[0], size), *args[1:], **options)

    transformers_logging.disable_progress_bar()
    previous = transformers_logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(previous)


def _count(items: Any, size: float) -> Iterator[Any]:
    count, reported_at = len(items), monotonic()
    report_progress("loading", 0.0, size)
    for number, item in enumerate(items):
        yield item
        if monotonic() - reported_at > _INTERVAL_S:
            reported_at = monotonic()
            report_progress("loading", size * (number + 1) / count, size)
    report_progress("loading", size, size)
