"""What is said while no replica is ready yet: how far its weights are, or what it waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Any, Self

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""Weights that are here sooner are not spoken of."""
SAY_S = 15.0
WAIT_S = 60.0
SMALL = 0.1e9
"""Nor of weights of fewer bytes than these."""
_GB = 1e9

Load = tuple[str, float, float]
"""See `models.engines.load_progress.Listener`."""


@dataclass
class ReplicaStartupLog:
    """For the length of a block, a thread that asks the ledger how the replicas of a model come up."""

    model: str
    needs: Mapping[str, float]
    """Ray's resources for one replica."""
    ledger: Any
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="waiting", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _watch(self) -> None:
        import ray

        began = said = monotonic()
        first: dict[str, tuple[float, float]] = {}  # of what arrives, when it was first seen and how much was here
        waited = False
        while not self._over.wait(LOOK_S):
            try:
                if ray.get(self.ledger.report.remote(), timeout=10)[0]:
                    return
                loads: Sequence[Load] = ray.get(self.ledger.loads.remote(), timeout=10)
            except ray.exceptions.RayError:
                continue  # the ledger is as busy as its machine; when it is gone, so is this block
            now = monotonic()
            slowest = min((load for load in loads if load[2] >= SMALL), key=lambda load: load[1], default=None)
            if slowest and (slowest[0] not in first or now - said > SAY_S):
                since = first.setdefault(slowest[0], (now, slowest[1]))
                log.warning(
                    "model %r: %s", self.model, format_load_progress(slowest, since=since, now=now, count=len(loads))
                )
                said = now
            elif not loads and not waited and now - began > WAIT_S:
                waited = True
                self._say_what_is_waited_for()

    def _say_what_is_waited_for(self) -> None:
        """Others may hold what a replica needs, or its weights come from a hub."""
        import ray

        free = ray.available_resources()
        log.warning(
            "model %r: no replica is ready yet; one needs %s, free now: %s; it loads, or waits for others to finish",
            self.model,
            ", ".join(f"{amount:g} {name}" for name, amount in self.needs.items()),
            ", ".join(f"{free.get(name, 0):g} {name}" for name in self.needs),
        )


def format_load_progress(load: Load, *, since: tuple[float, float], now: float, count: int = 1) -> str:
    """A line about weights on their way: how much is here, how fast it comes, how long it will take.

    Args:
        load: where they are now.
        since: an earlier moment in seconds, and the bytes that were here then.
        now: this moment.
        count: replicas that load at the same time; the line is about the last of them.
    """
    what, done, total = load
    seconds, came = now - since[0], done - since[1]
    rate = f", {came / seconds / _GB:.2f} GB/s" if seconds > 0 and came > 0 else ""
    left = f", {(total - done) * seconds / came:.0f} s left" if rate and done < total else ""
    more = f" ({count} replicas load)" if count > 1 else ""
    return f"{what} weights, {done / _GB:.2f} of {total / _GB:.2f} GB{rate}{left}{more}"
