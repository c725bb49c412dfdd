"""Compare MAIA's open answers with the eight human ones: ROUGE-L, METEOR, BERTScore, BLEU, CIDEr-D.

Failed requests are not counted. The paper does not name the metrics' variants, so values close to its Table 4 are not
to be expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from pipelines.benchmarks.aggregation import MetricSpec
from pipelines.benchmarks.maia.aggregate import NO_ROW, MeanMetric
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.scored_rows import BoolArray, IntArray, SettingScores, not_run_note
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.bleu import bleu_counts, bleu_of_counts, bleu_of_sums
from pipelines.metrics.cider import cider

_BLEU_NAMES: Final = {4: "bleu", 1: "bleu_1", 2: "bleu_2", 3: "bleu_3"}


def similarity_metrics(scores: SettingScores, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    """Compute all similarity metrics of the `oevqa` rows of one setting, for the whole and each category."""
    grid, ok = scores.oevqa, scores.oevqa.ok[:, 0]
    spec = partial(
        MeanMetric,
        draws=scores.draws,
        task="oevqa",
        setting=scores.setting,
        column=grid.column,
        video=grid.video,
        failed=grid.failed[:, 0],
        counted=ok,
        note=not_run_note(grid.missing_requests),
    )
    for name in ("rouge", "bertscore", "meteor"):
        values = grid.floats(name)[:, 0]
        missing_reason = partial(_missing_scores, everywhere=bool(np.isnan(values[ok]).all()))
        yield from spec(metric=name, values=values, missing_reason=missing_reason).metrics()
    answered = np.flatnonzero(ok)
    answers = grid.rows["answer"]
    candidates = list(answers.where(answers.notna(), "").to_numpy()[answered])
    references = [list(samples[grid.ids[index]].data["answers"]) for index in answered]
    yield from _bleu_metrics(scores, bleu_counts(candidates, references))
    values = np.full(len(ok), np.nan)
    if len(answered) > 1:
        values[answered] = cider(candidates, references)
    yield from spec(
        metric="cider",
        values=values,
        missing_reason=lambda _rows: "one question alone has no document frequencies",
        unit="score",
    ).metrics()


def _bleu_metrics(scores: SettingScores, counts: IntArray) -> list[Metric]:
    """Compute corpus BLEU-1 to BLEU-4 of all answers and of each category from their counts, (answers, COLUMNS)."""
    grid, ok = scores.oevqa, scores.oevqa.ok[:, 0]
    column = grid.column[ok]
    specs = []
    for order, name in _BLEU_NAMES.items():
        for group in (None, *map(int, np.unique(grid.column))):
            rows = np.ones(len(ok), dtype=np.bool_) if group is None else grid.column == group
            indices = np.flatnonzero(column == group) if group is not None else np.arange(len(column))
            metric = Metric(
                task="oevqa",
                setting=scores.setting,
                category="" if group is None else COLUMNS[group],
                metric=name,
                value=bleu_of_counts(counts[indices].sum(axis=0), order) if indices.size else None,
                n=int(indices.size),
                n_failed=int((rows & grid.failed[:, 0]).sum()),
                note=not_run_note(grid.missing_requests) if indices.size else NO_ROW,
            )
            columns = tuple(counts[indices].astype(np.float64).T) if indices.size else ()
            specs.append(MetricSpec(metric, columns, partial(bleu_of_sums, order=order), indices))
    return scores.draws.add(specs, grid.video[ok])


def _missing_scores(rows: BoolArray, *, everywhere: bool) -> str:
    return "no scorer gave it" if everywhere else f"answers without a score: {int(rows.sum()):,}"
