"""Agreement of verdicts with people's, where the user's answers have a column `human` of 0 and 1 (1 is positive).

The paper's Tables 8 and 9: accuracy and phi of BERTScore's verdicts; precision, recall, F1, accuracy and Pearson's
correlation of the judge's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.unpie.aggregate import Place
from pipelines.metrics.agreement import phi

if TYPE_CHECKING:
    import pandas as pd

AGREEMENT: Final = tuple(f"agreement_{name}" for name in ("precision", "recall", "f1", "accuracy", "phi", "pearson"))
"""Metrics in the tables' order; of two binary verdicts phi is Pearson's correlation."""


def agreement(place: Place, answered: pd.DataFrame, column: str) -> Iterator[Metric]:
    """Yield the agreement of `column` with `human` over the answers with both; nothing without human labels."""
    both = answered[answered["human"].isin([0.0, 1.0]) & answered[column].isin([0.0, 1.0])]
    if both.empty:
        return
    ours, human = both[column] == 1.0, both["human"] == 1.0
    hits, predicted, actual = int((ours & human).sum()), int(ours.sum()), int(human.sum())
    correlation = phi(ours.tolist(), human.tolist())
    values = {
        "precision": hits / predicted if predicted else None,
        "recall": hits / actual if actual else None,
        "f1": 2 * hits / (predicted + actual) if predicted + actual else None,
        "accuracy": float((ours == human).mean()),
        "phi": correlation,
        "pearson": correlation,
    }
    for name, value in values.items():
        unit = "" if name in ("phi", "pearson") else "fraction"
        note = "" if value is not None else "undefined: one side has one verdict only"
        yield place.metric(f"agreement_{name}", value, len(both), unit=unit, note=note)
