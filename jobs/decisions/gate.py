"""`vlmsweep gate` and `power`: may this model be released, and how much data does a difference need."""

from __future__ import annotations

from pathlib import Path


def gate(out: str, policy: Path, baseline: str | None = None, json: bool = False) -> int:
    """Decide by a policy whether a model may be released: exit code 0 for GO, 1 for NO-GO, 4 for INCONCLUSIVE."""
    from jobs.decisions.render import show_gate
    from pipelines.decisions.gate import EXIT_CODES
    from pipelines.decisions.gate import gate as decide
    from pipelines.decisions.policy import read_policy
    from pipelines.storage.store import Store

    result = decide(Store(out), read_policy(policy), Store(baseline) if baseline else None)
    show_gate(result, as_json=json)
    return EXIT_CODES[result.decision]


def power(out: str, difference: float, metric: str = "", json: bool = False) -> None:
    """Tell how many rows and clusters a difference needs, and what difference this data can show."""
    from jobs.decisions.render import show_power
    from pipelines.decisions.power import power as estimate
    from pipelines.storage.store import Store

    show_power(estimate(Store(out), difference, metric), difference, as_json=json)
