"""What `stress` prints after a run: what flips under each condition."""

from collections.abc import Mapping
from typing import Any, Final

from jobs.analysis.stress.changes import load_stress
from jobs.shared.tables import table
from pipelines.storage.store import Store

_HEADS: Final = ("benchmark", "cell", "condition", "moved answers", "change of share right", "pairs")


def stress_result(out: Store) -> tuple[Mapping[str, Any], list[str]]:
    """Return the cells of an output's report, as a key of JSON and as lines."""
    cells = load_stress(out)
    if not cells:
        return {"stress": cells}, []
    where = "Paired by question; 95% over clusters. Models and pairs: report/stress.html and report/stress.json."
    return {"stress": cells}, [table(_HEADS, [_stressed(cell) for cell in cells]), where]


def _stressed(cell: Mapping[str, Any]) -> list[str]:
    return [
        *(cell["benchmark"], f"{cell['task']} {cell['setting']}", cell["condition"]),
        *("-" if (e := cell[name]) is None else _with_ends(e) for name in ("moved", "change")),
        cell["conclusion"],
    ]


def _with_ends(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["ci_low"], estimate["ci_high"]
    return f"{estimate['value']:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")
