"""VAGUE's items behind its error counts, one list per error type."""

from collections.abc import Mapping
from typing import Final

import pandas as pd

from pipelines.benchmarks.item_lists import ItemList, ListedItem, listed, rows_of
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vague.prompts import kinds_by_letter, readings_by_letter

_KINDS: Final = {
    "fs": "a reading of another scene (FS)",
    "su": "the literal reading (SU)",
    "ne": "a reading with an object that is not there (NE)",
    "invalid": "no readable choice",
}


def item_lists(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the lists of one model, from its scores and samples by id."""
    lists: dict[str, list[ListedItem]] = {kind: [] for kind in _KINDS}
    if "correct" not in scores:
        return []
    is_wrong = (scores["task"] == "mcq") & (scores["status"] == "ok") & (scores["correct"] == 0.0)
    for row in rows_of(scores[is_wrong]):
        sample = samples[row["sample_id"]]
        item = listed(
            row,
            question=str(sample.data["indirect"]),
            expected=str(sample.data["readings"]["correct"]),
            answer=readings_by_letter(sample).get(row["answer"], ""),
            detail=", ".join(flag for flag in row["flags"] if flag.startswith("invalid:")),
        )
        lists[kinds_by_letter(sample).get(row["answer"], "invalid")].append(item)
    return [
        ItemList(
            id=f"vague_{kind}",
            title=f"VAGUE: items with {_KINDS[kind]}",
            about="Counted in Tables 2, 3, H3 and H4; here over all items.",
            items=items,
        )
        for kind, items in lists.items()
    ]
