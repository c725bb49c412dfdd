"""Prometheus metrics of a run, through Ray's own, and the log lines of its commits.

The driver counts requests at their commit, so that repeated work counts once; workers count seconds. Ray adds the
prefix `ray_`, and `_total` to counters.
"""

import logging
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pipelines.storage.parts import folder_names

if TYPE_CHECKING:
    from pipelines.predict.records import Receipt

log = logging.getLogger(__name__)

COUNTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "vlmsweep_requests": (
        "Requests committed (predictions, captions, judgements), by how they ended.",
        ("stage", "model", "benchmark", "status"),
    ),
    "vlmsweep_tokens": ("Tokens of committed answers: read, of these cached, and written.", ("model", "kind")),
    "vlmsweep_engine_seconds": ("Seconds of engine replicas, answering or waiting for work.", ("model", "doing")),
    "vlmsweep_load_seconds": ("Seconds of fetching and decoding.", ()),
}
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "vlmsweep_waiting_requests": ("Requests of a running model that are not committed yet.", ("model",)),
    "vlmsweep_spent_dollars": ("Dollars of this run by the prices of the models file.", ("model",)),
}


def _has_ray() -> bool:
    """Return whether this process takes part in a cluster, which the metrics belong to."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


@cache
def _metric(name: str) -> Any:
    from ray.util.metrics import Counter, Gauge

    kind, (description, tags) = (Counter, COUNTERS[name]) if name in COUNTERS else (Gauge, GAUGES[name])
    return kind(name, description=description, tag_keys=tags)


def _increase(name: str, by: float, **tags: str) -> None:
    if by > 0 and _has_ray():  # Ray refuses a counter that stands still
        _metric(name).inc(by, tags=tags)


def _set(name: str, value: float, **tags: str) -> None:
    if _has_ray():
        _metric(name).set(value, tags=tags)


def count_commit(model: str, receipt: "Receipt") -> None:
    """Count and log the requests and tokens of a committed unit."""
    stage, benchmark = folder_names(receipt.part)
    for (_, _, status), requests in receipt.counts.items():
        _increase("vlmsweep_requests", requests, stage=stage, model=model, benchmark=benchmark, status=status)
    for kind in ("read", "written", "cached"):
        _increase("vlmsweep_tokens", getattr(receipt.tokens, kind), model=model, kind=kind)
    seconds = round(receipt.ended - receipt.began, 3)
    fields = {"benchmark": benchmark, "part": receipt.part, "rows": sum(receipt.counts.values()), "seconds": seconds}
    log.info("%(rows)d rows in %(seconds).1f s: %(part)s", fields, extra={"about": fields})
    for request_id, error_type in receipt.failed:
        failed = {"benchmark": benchmark, "request_id": request_id, "error_type": error_type}
        log.info("request %(request_id)s failed: %(error_type)s", failed, extra={"about": failed})


def count_waiting(model: str, requests: int) -> None:
    """Set how many requests of a model are not committed yet."""
    _set("vlmsweep_waiting_requests", float(requests), model=model)


def count_spent(model: str, dollars: float) -> None:
    """Set the dollars spent on a model in this run."""
    _set("vlmsweep_spent_dollars", dollars, model=model)


def count_answering(model: str, *, answered_s: float, waited_s: float) -> None:
    """Count the seconds in which an engine waited for a unit and answered it."""
    _increase("vlmsweep_engine_seconds", answered_s, model=model, doing="answering")
    _increase("vlmsweep_engine_seconds", waited_s, model=model, doing="waiting")


def count_loading(seconds: float) -> None:
    """Count the seconds of loading a batch."""
    _increase("vlmsweep_load_seconds", seconds)
