"""Scores of V-FLUTE rows as `Benchmark.reduce` gets them, and their samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vflute.facts import LABELS, SUBSETS

TEST_SIZES = {
    "HAIVMET": (44, 57), "IRFL (metaphor/simile)": (59, 61), "IRFL (idiom)": (51, 49), "MuSE": (53, 53),
    "MemeCap": (98, 98), "NYCartoons": (100, 0),
}  # fmt: skip
"""Entailment and contradiction rows of the test split, by subset."""
CATEGORY = {item.name: item.category for item in SUBSETS}


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One row. `label` None is no label, `es` None is an unscored explanation."""

    gold: int = 1
    label: int | None = 1
    robust: int | str | None = "same"
    es: float | None = 0.9
    es_robust: float | str | None = "same"
    subset: str = "MuSE"
    setting: str = "zero-shot"
    status: str = "ok"
    cluster: str = ""
    name: str = ""
    empty: bool = False
    flags: tuple[str, ...] = ()
    claim: str = "a caption"


def frame(rows: Sequence[Scored]) -> pd.DataFrame:
    """Return the rows, columns as `reduce` gets them; ids are indices where no name is given."""
    return pd.DataFrame([_row(item, index) for index, item in enumerate(rows)])


def samples(rows: Sequence[Scored]) -> dict[str, Sample]:
    """Return the samples of the rows."""
    names = {number: word for word, number in LABELS.items()}
    return {
        _name(item, index): Sample(
            sample_id=_name(item, index),
            subset=item.subset,
            category=CATEGORY[item.subset],
            cluster=item.cluster or _name(item, index),
            data={"label": names[item.gold], "claim": item.claim, "explanation": "because it is so"},
        )
        for index, item in enumerate(rows)
    }


def whole_split(**how: Any) -> list[Scored]:
    """Return the whole test split; a callable in `how` is called with gold and index."""
    results: list[Scored] = []
    for subset, (entailed, contradicted) in TEST_SIZES.items():
        for gold in [1] * entailed + [0] * contradicted:
            split_rows = {name: value(gold, len(results)) if callable(value) else value for name, value in how.items()}
            results.append(Scored(gold=gold, subset=subset, **{"name": f"row {len(results)}", **split_rows}))
    return results


def _name(scored_row: Scored, index: int) -> str:
    return scored_row.name or f"row {index}"


def _row(scored_row: Scored, index: int) -> dict[str, Any]:
    ok = scored_row.status == "ok"
    robust = scored_row.label if scored_row.robust == "same" else scored_row.robust
    es_robust = scored_row.es if scored_row.es_robust == "same" else scored_row.es_robust
    return {
        "request_id": f"{index} {scored_row.setting}", "sample_id": _name(scored_row, index), "task": "entailment",
        "setting": scored_row.setting, "variant": "", "subset": scored_row.subset,
        "category": CATEGORY[scored_row.subset], "cluster": scored_row.cluster or _name(scored_row, index),
        "status": scored_row.status, "answer": None, "rule": None, "flags": list(scored_row.flags) if ok else None,
        "finish_reason": None, "verdict_state": "absent", "label": _float(scored_row.label) if ok else None,
        "label_robust": _float(robust) if ok else None, "es": scored_row.es if ok else None,
        "es_robust": es_robust if ok else None, "empty": float(scored_row.empty) if ok else None,
    }  # fmt: skip


def _float(label: object) -> float | None:
    return None if label is None else float(str(label))
