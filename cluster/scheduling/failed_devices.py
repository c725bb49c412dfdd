"""GPUs that failed a job twice: an idle actor holds each, so that Ray starts replicas on others."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

log = logging.getLogger(__name__)

Device: TypeAlias = tuple[str, str]  # a node's id, and the id of a GPU there

MAX_FAILURES = 2  # failures of one GPU, without a request that explains them, after which it is avoided
MAX_HOLDERS = 4
"""Actors started for the GPUs of a node: Ray may place one on a GPU that works, which it keeps until another fits."""


class FailedDevices:
    """Failures of GPUs by the unit that was being answered, and the actors that hold those which failed too often."""

    def __init__(
        self,
        start_holder: Callable[[str, int, str], Any] | None = None,
        stop_holder: Callable[[Any], None] = lambda _: None,
        count_gpus: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`start_holder` gets a node, a number of GPUs and the holder's name; without it nothing is avoided."""
        self._start_holder, self._stop_holder, self._count_gpus = start_holder, stop_holder, count_gpus
        self._failures: dict[Device, list[str]] = {}
        self._holders: dict[str, Any] = {}
        self._reserved: dict[str, tuple[Device, ...]] = {}
        self._holders_started: Counter[str] = Counter()

    def record_device_failure(self, node: str, gpus: Sequence[str], unit: str) -> None:
        """Record that a replica's GPUs failed; all of them count, for none says that it was the one."""
        for gpu in gpus:
            self._failures.setdefault((node, gpu), []).append(unit)
        self.avoid(node, gpus)

    def avoid(self, node: str, gpus: Sequence[str]) -> bool:
        """Return whether a replica on these GPUs is to leave them, with a holder started that takes them then.

        False where one of them has not failed twice, where a replica would find no other GPUs, and where Ray has put
        too many holders elsewhere.
        """
        if self._start_holder is None or not any(self._is_bad((node, gpu)) for gpu in gpus):
            return False
        others = self._count_gpus() - sum(self._is_bad(device) for device in self._failures)
        if others < len(gpus) or self._holders_started[node] >= MAX_HOLDERS:
            return False
        self._holders_started[node] += 1
        name = f"{node}/{self._holders_started[node]}"
        log.warning("GPU %s of node %s failed %d times and is avoided", ",".join(gpus), node, MAX_FAILURES)
        self._holders[name] = self._start_holder(node, len(gpus), name)
        return True

    def record_reserved(self, name: str, node: str, gpus: Sequence[str]) -> None:
        """Record which GPUs a holder got; when they are the failed ones, those that got others end."""
        self._reserved[name] = tuple((node, gpu) for gpu in gpus)
        if any(map(self._is_bad, self._reserved[name])):
            self._holders_started[node] = 0
            self.release_idle()

    def release_idle(self) -> None:
        """End the holders of GPUs that are not, or no longer, to be avoided."""
        for name, devices in list(self._reserved.items()):
            if not any(map(self._is_bad, devices)):
                del self._reserved[name]
                self._stop_holder(self._holders.pop(name))

    def excuse(self, unit: str) -> None:
        """Forget failures at a unit: one of its requests is their cause."""
        for failures in self._failures.values():
            failures[:] = [failed for failed in failures if failed != unit]
        self.release_idle()

    def _is_bad(self, device: Device) -> bool:
        return len(self._failures.get(device, ())) >= MAX_FAILURES
