"""V-FLUTE's items that lose their point between F1@0 and F1@53: right label, poor explanation."""

from collections.abc import Mapping
from typing import Final

import pandas as pd

from pipelines.benchmarks.item_lists import ItemList, listed, rows_of
from pipelines.benchmarks.records import Sample

_POOR: Final = 53 / 100  # an explanation score of at most this loses the point at F1@53


def item_lists(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the list of one model, from its scores and samples by id; none where explanations were not scored."""
    if "es" not in scores:
        return []
    is_poor = (scores["status"] == "ok") & (scores["correct"] == 1.0) & (scores["es"] <= _POOR)
    items = [
        listed(
            row,
            question=str(samples[row["sample_id"]].data["claim"]),
            expected=str(samples[row["sample_id"]].data["explanation"]),
            answer=row["answer"],
            detail=f"explanation score {row['es']:.3f}",
        )
        for row in rows_of(scores[is_poor])
    ]
    return [
        ItemList(
            id="vflute_poor_explanation",
            title="V-FLUTE: right label, poor explanation",
            about="Counted as right by F1@0 and as wrong by F1@53: the explanation score is at most 0.53.",
            items=items,
        )
    ]
