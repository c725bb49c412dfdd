"""A process that logs as a rank does. In a module of its own, for what a process is begun with, it imports."""

import json
import logging
from functools import partial
from multiprocessing import connection
from typing import Any

from models.engines.tensor_parallel.log_forwarding import forward_logs


def _say(pipe: connection.Connection, **message: Any) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def a_rank_that_logs(pipe: connection.Connection, level: int, rank: int) -> None:
    """Lines of this project and of a library, of three degrees."""
    forward_logs(partial(_say, pipe), level, rank)
    ours, foreign = logging.getLogger("models.engines.some"), logging.getLogger("library")
    ours.info("info of ours")
    foreign.info("info of a library")
    ours.warning("warning of %s", "ours")
    foreign.error("error of a library", exc_info=ValueError("why"))
