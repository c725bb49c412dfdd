"""The rows of an entry that a stress test compares."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.metrics_kernel.repeats import right_answers
from pipelines.benchmarks.records import Sample
from pipelines.plan.stress.conditions import options_of

STRESSED_KEY: Final = ["sample_id", "variant"]


def stressed_rows(
    definition: BenchmarkDefinition, condition: str, frame: pd.DataFrame, samples: Mapping[str, Sample]
) -> pd.DataFrame:
    """Return scored rows as they are compared: whether each is right, and the text of the option that it chooses."""
    rows = frame.assign(right=right_answers(frame), condition=condition)
    rows = rows[rows["right"].notna()]
    keys = zip(*(rows[name] for name in ("sample_id", "task", "setting", "variant")), strict=True)
    options = [options_of(definition, samples[sample_id], *request) for sample_id, *request in keys]
    chosen = [
        texts.get(answer or "", "") if texts else None for texts, answer in zip(options, rows["answer"], strict=True)
    ]
    rows = rows.assign(
        chosen=np.array(chosen, dtype=object),
        cluster=rows["cluster"].where(rows["cluster"].astype(bool), rows["sample_id"]),
    )
    return rows[["condition", "task", "setting", *STRESSED_KEY, "cluster", "right", "chosen"]]
