"""VAGUE's metrics of two models that are no mean over rows: shares of error types, corpus BLEU-1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.paired import PairedMetric
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vague.prompts import READINGS, kinds_by_letter
from pipelines.metrics.bleu import bleu_counts, bleu_of_sums

if TYPE_CHECKING:
    import pandas as pd


def paired_metrics(a: pd.DataFrame, b: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[PairedMetric]:
    """Yield, in one setting, the share of each kind of wrong reading among all wrong readings, and corpus BLEU-1."""
    setting = str(a["setting"].iloc[0])
    if not samples:
        return
    for task, metrics in (("mcq", _error_shares), ("freeform", _corpus_bleu)):
        rows = (a["task"] == task).to_numpy()
        if rows.any():
            of_rows = [samples[name] for name in a["sample_id"][rows]]
            make = partial(PairedMetric, task=task, setting=setting, clusters=a["cluster"][rows].to_numpy())
            yield from metrics(make, (a["answer"][rows].to_numpy(), b["answer"][rows].to_numpy()), of_rows)


def _error_shares(
    make: partial[PairedMetric], answers: tuple[NDArray[Any], NDArray[Any]], samples: list[Sample]
) -> Iterator[PairedMetric]:
    letters = [kinds_by_letter(sample) for sample in samples]
    a, b = (np.array([kinds.get(x, "") for kinds, x in zip(letters, side, strict=True)]) for side in answers)
    wrong = READINGS[1:]
    for kind in wrong:
        yield make(metric=f"error_share_{kind}", a=(a == kind, np.isin(a, wrong)), b=(b == kind, np.isin(b, wrong)))


def _corpus_bleu(
    make: partial[PairedMetric], answers: tuple[NDArray[Any], NDArray[Any]], samples: list[Sample]
) -> Iterator[PairedMetric]:
    references = [[sample.data["readings"]["correct"]] for sample in samples]
    texts = ([text or "" for text in side] for side in answers)
    a, b = (tuple(bleu_counts(side, references, lowercase=True).astype(np.float64).T) for side in texts)
    yield make(metric="bleu1_corpus", a=a, b=b, statistic=partial(bleu_of_sums, order=1), corpus=True)
