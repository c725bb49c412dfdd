"""How far a model's weights are, told while they arrive to whoever listens in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from time import monotonic
from typing import Any

Listener = Callable[[str, float, float], None]
"""What arrives (`fetching` or `loading`), how much of it is here, and how much there is; both in bytes."""

_EVERY_S = 1.0
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def progress_listener(listener: Listener) -> Iterator[None]:
    """Within, this listener is told."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(what: str, done: float, total: float) -> None:
    """Say how far it is; nothing happens where nobody listens."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


@contextlib.contextmanager
def weights_progress(size: float) -> Iterator[None]:
    """Within, what transformers shows as a bar of its own is told as bytes, and no bar is drawn.

    Args:
        size: bytes of all weights, of which tensors are taken to be equal shares; 0 where they are not known, and
            nothing is told.
    """
    from transformers.utils import logging as transformers_logging

    def bar(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if not (size and args and hasattr(args[0], "__len__") and "eights" in str(options.get("desc"))):
            return factory(*args, **options)
        return factory(_counted(args[0], size), *args[1:], **options)

    transformers_logging.disable_progress_bar()
    before = transformers_logging.set_tqdm_hook(bar)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(before)


def _counted(items: Any, size: float) -> Iterator[Any]:
    count, said = len(items), monotonic()
    report_progress("loading", 0.0, size)
    for number, item in enumerate(items):
        yield item
        if monotonic() - said > _EVERY_S:
            said = monotonic()
            report_progress("loading", size * (number + 1) / count, size)
    report_progress("loading", size, size)
