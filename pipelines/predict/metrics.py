"""What a run tells while it goes: metrics for Prometheus through Ray's own, and log lines that say whose they are.

Counts are made by the driver when a unit is committed, so that work which is done again counts once. Seconds are
counted where they pass: by the processes that load and that answer. Ray puts `ray_` before every name and `_total`
behind those that only grow.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.predict.records import Receipt

log = logging.getLogger(__name__)

GROWING: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "vlmsweep_requests": (
        "Requests committed (predictions, captions, judgements), by how they ended.",
        ("stage", "model", "benchmark", "status"),
    ),
    "vlmsweep_tokens": ("Tokens of committed answers: read, of these cached, and written.", ("model", "kind")),
    "vlmsweep_engine_seconds": ("Seconds of engine replicas, answering or waiting for work.", ("model", "doing")),
    "vlmsweep_load_seconds": ("Seconds of fetching and decoding.", ()),
}
LEVELS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "vlmsweep_waiting_requests": ("Requests of a model that is being asked, not committed yet.", ("model",)),
    "vlmsweep_spent_dollars": ("Dollars of this run by the prices of the models file.", ("model",)),
}


@cache
def _metric(name: str) -> Any:
    from ray.util.metrics import Counter, Gauge

    kind, (told, tags) = (Counter, GROWING[name]) if name in GROWING else (Gauge, LEVELS[name])
    return kind(name, description=told, tag_keys=tags)


def _grow(name: str, by: float, **tags: str) -> None:
    if by > 0:  # Ray refuses a counter that stands still
        _metric(name).inc(by, tags=tags)


def count_commit(model: str, receipt: Receipt) -> None:
    """A unit is committed: count its requests and tokens, and say so in the log."""
    stage, benchmark = receipt.part.split("/")[:2]
    benchmark = benchmark.removeprefix("benchmark=")
    for (_, _, status), requests in receipt.counts.items():
        _grow("vlmsweep_requests", requests, stage=stage, model=model, benchmark=benchmark, status=status)
    for kind, tokens in zip(("read", "written"), receipt.tokens, strict=True):
        _grow("vlmsweep_tokens", tokens, model=model, kind=kind)
    _grow("vlmsweep_tokens", receipt.cached, model=model, kind="cached")
    seconds = round(receipt.ended - receipt.began, 3)
    told = {"benchmark": benchmark, "part": receipt.part, "rows": sum(receipt.counts.values()), "seconds": seconds}
    log.info("%(rows)d rows in %(seconds).1f s: %(part)s", told, extra={"about": told})
    for request_id, error_type in receipt.failed:
        failed = {"benchmark": benchmark, "request_id": request_id, "error_type": error_type}
        log.info("request %(request_id)s failed: %(error_type)s", failed, extra={"about": failed})


def count_waiting(model: str, requests: int) -> None:
    """So many requests of a model are not committed yet."""
    _metric("vlmsweep_waiting_requests").set(float(requests), tags={"model": model})


def count_spent(model: str, dollars: float) -> None:
    """So much has been spent on a model in this run."""
    _metric("vlmsweep_spent_dollars").set(dollars, tags={"model": model})


def count_answering(model: str, *, answered_s: float, waited_s: float) -> None:
    """An engine has answered a unit, after it had waited for it."""
    _grow("vlmsweep_engine_seconds", answered_s, model=model, doing="answering")
    _grow("vlmsweep_engine_seconds", waited_s, model=model, doing="waiting")


def count_loading(seconds: float) -> None:
    """A convoy is loaded."""
    _grow("vlmsweep_load_seconds", seconds)
