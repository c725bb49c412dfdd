"""Forward log lines of ranks to their parent: it knows the log format, and which request they belong to."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

_PACKAGE = "models"


def effective_level() -> int:
    """Return the level from which this process's engines log."""
    return logging.getLogger(_PACKAGE).getEffectiveLevel()


def forward_logs(send: Callable[..., None], level: int, rank: int) -> None:
    """Send log records to the parent; ranks log alike, so only rank 0 forwards more than errors."""
    handler = _ForwardingHandler(send)
    handler.setLevel(logging.NOTSET if rank == 0 else logging.ERROR)
    logging.getLogger().addHandler(handler)
    logging.getLogger(_PACKAGE).setLevel(level)


class _ForwardingHandler(logging.Handler):
    def __init__(self, send: Callable[..., None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._send(kind="line", logger=record.name, level=record.levelno, text=self.format(record))
        except OSError:  # the parent is gone, and this process ends in a moment
            self.handleError(record)


def relay(line: Mapping[str, Any], rank: int) -> None:
    """Log a line that a rank forwarded."""
    logging.getLogger(line["logger"]).log(line["level"], "rank %d: %s", rank, line["text"])
