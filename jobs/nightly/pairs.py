"""Records of the pairs of a night, by what became of each."""

from dataclasses import replace
from typing import Any

from jobs.nightly.history import Pair
from jobs.nightly.records import PairStatus
from pipelines.sweep.result import SweepResult


def requests_of(result: SweepResult, name: str) -> int:
    """Return the requests of a sweep on one benchmark."""
    return sum(count.requests for count in result.counts if count.benchmark == name)


def unchanged_pair(night: str, status: PairStatus) -> Pair:
    """Return the record of a pair that is not due."""
    assert status.before is not None
    pair = replace(status.before, night=night, state="unchanged", why="", cost_usd=0.0, seconds=0.0)
    return replace(pair, input_tokens=0, output_tokens=0)


def ran_pair(night: str, status: PairStatus, result: SweepResult, *, is_complete: bool) -> Pair:
    """Return the record of a pair that ran; without a fingerprint, it runs again the next night."""
    return Pair(
        **_identity(night, status),
        state="ran",
        why=status.why,
        parts=status.parts,
        fingerprint=status.fingerprint if is_complete else "",
        measured=night,
        requests=requests_of(result, status.benchmark),
        failed=sum(count.error for count in result.counts if count.benchmark == status.benchmark),
    )


def failed_pair(night: str, status: PairStatus, message: str) -> Pair:
    """Return the record of a pair that could not be run."""
    return Pair(
        **_identity(night, status),
        state="failed",
        why=_one_line(message),
        parts=status.parts,
        measured=status.before.measured if status.before else "",
    )


def waiting_pair(night: str, status: PairStatus, message: str) -> Pair:
    """Return the record of a pair that was not run; it stays due for the same reason."""
    before = status.before or Pair(night=night, model=status.model, benchmark=status.benchmark, state="waiting")
    fields = {**_identity(night, status), "state": "waiting", "why": _one_line(message)}
    return replace(before, **fields, seconds=0.0, cost_usd=0.0, input_tokens=0, output_tokens=0)


def _one_line(message: str) -> str:
    return " ".join(message.split())[:500]


def _identity(night: str, status: PairStatus) -> dict[str, Any]:
    rates = ("seconds_per_request", "usd_per_request")
    return {
        **({name: getattr(status.before, name) for name in rates} if status.before else {}),
        "night": night,
        "model": status.model,
        "benchmark": status.benchmark,
    }
