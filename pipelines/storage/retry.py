"""Retry an action while a store fails."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from pipelines.errors import DamagedPartError, StoreError

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_PAUSES_S = (1.0, 2.0, 4.0)
TRANSIENT_PAUSES_S = (8.0, 16.0, 32.0, 60.0, 60.0)
"""Further pauses before a store is retried, only where it is unreachable or overloaded, not where it refuses."""


def retry_store(action: Callable[[], T]) -> T:
    """Run an action, again after pauses when the store fails; if it refuses, a few times only; damage stays."""
    for pause in (*RETRY_PAUSES_S, *TRANSIENT_PAUSES_S):
        try:
            return action()
        except DamagedPartError:
            raise
        except StoreError as error:
            if pause in TRANSIENT_PAUSES_S and not error.is_transient:
                raise
            log.info("retried in %g s: %s", pause, error)
            time.sleep(pause)
    return action()
