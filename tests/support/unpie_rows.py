"""Scored rows of UNPIE as the reducer gets them, made from few words by the benchmark's own reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from pipelines.benchmarks.records import MediaRef, Metric, Row, Sample, Verdict
from pipelines.benchmarks.unpie.metrics import reduce_scores
from tests.support.sweeps import answered_row, metric_named, scored_row
from tests.support.unpie_source import row as source_row

CATEGORIES = {"homographic": "Homo", "heterographic": "Hetero"}
SIX = tuple(f"{lang}/{meaning}" for lang in ("de", "fr", "ko") for meaning in range(2))


def sample(split: str, index: int, **data: Any) -> Sample:
    """Return an ingested pun without pictures."""
    raw = source_row(split, index)
    return Sample(
        sample_id=f"{split}/{index:04d}",
        category=CATEGORIES[split],
        cluster=f"{split}-{index}",
        data={
            "sentence": raw["pun_sentence"],
            "phrase": raw["pun_phrase"],
            "gloss": [raw["meaning1"], raw["meaning2"]],
            "translation": [raw["translation1"], raw["translation2"]],
            "frequent": None,
            **data,
        },
    )


def pictured(**data: Any) -> Sample:
    """Return a pun with its three pictures."""
    refs = tuple(
        MediaRef(role=role, kind="image", sha256=name * 64, extension=".png", bytes=1, width=6, height=5)
        for role, name in (("explanation", "e"), ("disambiguator/0", "0"), ("disambiguator/1", "1"))
    )
    return replace(sample("homographic", 0, **data), media=refs)


def samples(count: int, **data: Any) -> dict[str, Sample]:
    """Return `count` puns of each split."""
    created = [sample(split, index, **data) for split in CATEGORIES for index in range(count)]
    return {item.sample_id: item for item in created}


def prediction(of: Sample, task: str, setting: str, variant: str = "", **how: Any) -> Row:
    """Return a prediction with an empty output, unless `how` has another."""
    name = f"{of.sample_id}/{task}/{setting}/{variant}"
    row = answered_row(of, task, setting, "", request_id=name, variant=variant, finish_reason="stop")
    return replace(row, **how)


def scored(row: Row, status: str = "") -> dict[str, Any]:
    """Return a row of the scores; `status` may be `missing`."""
    return scored_row(row, "unpie", status)


def cell(
    of: Mapping[str, Sample], task: str, setting: str, say: Callable[[Sample, str], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return all rows of a cell; `say` gives the fields of each row."""
    variants = ("",) if task == "grounding" else SIX
    return [scored(prediction(item, task, setting, v, **say(item, v))) for item in of.values() for v in variants]


def reduced(rows: Sequence[Mapping[str, Any]], of: Mapping[str, Sample]) -> list[Metric]:
    """Return the metrics of rows."""
    return reduce_scores(pd.DataFrame([dict(row) for row in rows]), of)


def metric_of(metrics: Sequence[Metric], name: str, setting: str = "vlm", **where: str) -> Metric:
    """Return the only metric of a name in a cell."""
    return metric_named(metrics, name, setting=setting, **where)


def similar(first: float, second: float) -> dict[str, Any]:
    """Return fields of a translation with these similarities to both targets."""
    return {"output": "Ein Satz.", "given": {"bertscore_0": first, "bertscore_1": second}}


def judged(accepted: bool) -> Verdict:
    """Return a verdict of the judge."""
    return Verdict(state="ok", accepted=accepted, tries=1)


def in_order(text: str, *pieces: str) -> None:
    """Assert that the pieces occur in this order."""
    positions = [text.index(piece) for piece in pieces]
    assert positions == sorted(positions), pieces
