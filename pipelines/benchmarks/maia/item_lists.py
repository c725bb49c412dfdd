"""MAIA's items behind its tables: where both tasks differ, and wrong answers about what the clip does not show."""

from collections.abc import Mapping
from typing import Final

import pandas as pd

from pipelines.benchmarks.item_lists import ItemList, ListedItem, listed, rows_of
from pipelines.benchmarks.maia.facts import LEAVE_ONE_OUT, POOL_SIZE
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import Sample

_LISTS: Final[Mapping[str, tuple[str, str]]] = load_facts(__package__, "facts.yaml")["lists"]


def item_lists(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the lists of one model, from its scores and samples by id; a failed request counts as wrong."""
    if "accepted" not in scores:
        return []
    answers = scores[(scores["task"] == "oevqa") & (scores["setting"] != LEAVE_ONE_OUT)]
    answers = answers[answers["status"].isin(["ok", "error"])]
    answers = answers.assign(accepted=answers["accepted"].where(answers["status"] == "ok", 0.0)).dropna(
        subset=["accepted"]
    )
    pairs = scores[(scores["task"] == "vsv") & scores["status"].isin(["ok", "error"])]
    right = (pairs["correct"] == 1.0) if "correct" in pairs else pairs["status"] == ""
    pools = right.groupby([pairs["setting"], pairs["sample_id"]]).agg(["sum", "size"])
    counts = {key: int(row["sum"]) for key, row in pools.iterrows() if row["size"] == POOL_SIZE}
    lists: dict[str, list[ListedItem]] = {name: [] for name in _LISTS}
    for row in rows_of(answers):
        sample, pool = samples[row["sample_id"]], counts.get((row["setting"], row["sample_id"]))
        item = listed(
            row,
            question=str(sample.data["question"]),
            expected="; ".join(sample.data["answers"]),
            answer=row["answer"],
            detail="" if pool is None else f"{pool} of {POOL_SIZE} statements right",
        )
        accepted = row["accepted"] == 1.0
        if pool == POOL_SIZE and not accepted:
            lists["maia_pool_only"].append(item)
        if pool is not None and pool < POOL_SIZE and accepted:
            lists["maia_judge_only"].append(item)
        if not accepted and row["category"] == "Out-of-Scope":
            lists["maia_out_of_scope"].append(item)
        if not accepted and row["category"] == "Uncertainty":
            lists["maia_uncertainty"].append(item)
    return [ItemList(id=name, title=title, about=about, items=lists[name]) for name, (title, about) in _LISTS.items()]
