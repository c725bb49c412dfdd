"""A process that logs as a rank does, in a light module: a spawned process imports the module of its target."""

import json
import logging
from functools import partial
from multiprocessing import connection
from typing import Any

from models.engines.tensor_parallel.log_forwarding import forward_logs


def _send(pipe: connection.Connection, **message: Any) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def log_as_rank(pipe: connection.Connection, level: int, rank: int) -> None:
    """Log lines of this project and of a library, on three levels."""
    forward_logs(partial(_send, pipe), level, rank)
    product, library = logging.getLogger("models.engines.some"), logging.getLogger("library")
    product.info("info of ours")
    library.info("info of a library")
    product.warning("warning of %s", "ours")
    library.error("error of a library", exc_info=ValueError("why"))
