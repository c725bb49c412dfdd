"""Log lines of ranks, said by their parent: it knows how lines are written, and of which request they are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

_ROOM = "models"


def own_level() -> int:
    """The level from which lines of this process's engines are written."""
    return logging.getLogger(_ROOM).getEffectiveLevel()


def forward_logs(say: Callable[..., None], level: int, rank: int) -> None:
    """From now on, hand this process's log lines to the parent.

    All ranks do the same and log alike, so rank 0 speaks for all; of the others errors alone are told.

    Args:
        say: sends a message; may be called from any thread.
        level: of the parent's `own_level`.
        rank: of this process.
    """
    handler = _Up(say)
    handler.setLevel(logging.NOTSET if rank == 0 else logging.ERROR)
    logging.getLogger().addHandler(handler)
    logging.getLogger(_ROOM).setLevel(level)


class _Up(logging.Handler):
    def __init__(self, say: Callable[..., None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(kind="line", logger=record.name, level=record.levelno, text=self.format(record))
        except OSError:  # the parent is gone, and this process with it in a moment
            self.handleError(record)


def relay(line: Mapping[str, Any], rank: int) -> None:
    """Write what a rank handed up as a line of this process."""
    logging.getLogger(line["logger"]).log(line["level"], "rank %d: %s", rank, line["text"])
