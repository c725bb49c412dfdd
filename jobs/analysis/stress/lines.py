"""What `stress` prints after a run: what flips under each condition."""

from collections.abc import Mapping
from typing import Any, Final

from jobs.analysis.stress.changes import load_stress
from jobs.shared.tables import table
from pipelines.storage.store import Store

_HEADS: Final = ("benchmark", "cell", "condition", "moved answers", "change of share right", "pairs")


def stress_result(out: Store) -> tuple[Mapping[str, Any], list[str]]:
    """Return the results of an output's report, as a key of JSON and as lines."""
    results = load_stress(out)
    if not results:
        return {"stress": results}, []
    where = "Paired by question; 95% over clusters. Models and pairs: report/stress.html and report/stress.json."
    return {"stress": results}, [table(_HEADS, [_stressed(result) for result in results]), where]


def _stressed(result: Mapping[str, Any]) -> list[str]:
    return [
        *(result["benchmark"], f"{result['task']} {result['setting']}", result["condition"]),
        *("-" if (e := result[name]) is None else _with_ends(e) for name in ("moved", "change")),
        result["conclusion"],
    ]


def _with_ends(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["ci_low"], estimate["ci_high"]
    return f"{estimate['value']:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")
