"""MATE's items behind OSE: wrong answers that name nothing in the scene."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.benchmarks.item_lists import ItemList, listed, rows_of
from pipelines.benchmarks.mate.rows import CROSSMODAL, find_row
from pipelines.benchmarks.records import Sample

if TYPE_CHECKING:
    import pandas as pd


def item_lists(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the list of one model, from its scores and samples by id."""
    if "in_scene" not in scores:
        return []
    is_outside = (scores["correct"] == 0.0) & (scores["in_scene"] == 0.0)
    items = []
    for row in rows_of(scores[is_outside & (scores["status"] == "ok") & scores["task"].isin(CROSSMODAL)]):
        query = find_row(samples[row["sample_id"]], row["task"], row["setting"])
        if query is None:
            continue
        pointer, value = query["pointer"]
        items.append(
            listed(
                row,
                question=f"{query['target']} of the object whose {pointer} is {value}",
                expected=str(query["gold"]),
                answer=row["answer"],
                detail="no JSON with an answer" if row["rule"] == "no json" else "no object has this value",
            )
        )
    return [
        ItemList(
            id="mate_out_of_scene",
            title="MATE: wrong answers that name nothing in the scene",
            about="Cross-modal; divided by all wrong answers they are OSE of Table 2.",
            items=items,
        )
    ]
