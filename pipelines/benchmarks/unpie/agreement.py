"""Agreement of the verdicts with people's, where the user's answers carry a column `human` of 0 and 1.

The paper's Tables 8 and 9: accuracy and phi of BERTScore's verdicts; precision, recall, F1, accuracy and Pearson's
correlation of the judge's. Positive is the right translation, or the same pun.
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
"""Metrics, in the tables' order; of two binary verdicts phi is Pearson's correlation."""


def agreement(place: Place, answered: pd.DataFrame, column: str) -> Iterator[Metric]:
    """Agreement over the answers that have both verdicts.

    Args:
        place: where the metrics belong.
        answered: rows with the columns `human` and `column`, 0, 1 or NaN.
        column: the verdict to be checked.

    Yields:
        Nothing where there are no human labels; None where a measure is undefined.
    """
    both = answered[answered["human"].isin([0.0, 1.0]) & answered[column].isin([0.0, 1.0])]
    if both.empty:
        return
    ours, theirs = both[column] == 1.0, both["human"] == 1.0
    hits, said, true = int((ours & theirs).sum()), int(ours.sum()), int(theirs.sum())
    correlation = phi(ours.tolist(), theirs.tolist())
    found = {
        "precision": hits / said if said else None,
        "recall": hits / true if true else None,
        "f1": 2 * hits / (said + true) if said + true else None,
        "accuracy": float((ours == theirs).mean()),
        "phi": correlation,
        "pearson": correlation,
    }
    for name, value in found.items():
        unit = "" if name in ("phi", "pearson") else "fraction"
        note = "" if value is not None else "undefined: one side has one verdict only"
        yield place.metric(f"agreement_{name}", value, len(both), unit=unit, note=note)
