"""Differences between MAIA's inputs: 32 frames minus one frame and minus the black clip, for the whole and categories.

Both sides are measured on the same questions, and resampled together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from pipelines.benchmarks.maia.aggregate import MeanMetric
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.results import CATEGORY_HEADS, SETTING_HEADS, MaiaResults
from pipelines.benchmarks.maia.scored_rows import QuestionGrid, SettingScores, not_run_note
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Key, filled, section
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.metrics.stats import FloatArray

_FULL: Final = "32-frames"
_BASELINES: Final[Mapping[str, str]] = {"1-frame": "1_frame", "black-video": "black_video"}
_MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "statement": ("vsv", "Statement accuracy"),
    "pool": ("vsv", "Pool accuracy"),
    "oevqa": ("oevqa", "Accuracy of open answers"),
}
"""Measure -> task and words."""


def gain_key(measure: str, baseline: str) -> Key:
    """Return the key of a measure's gain at 32 frames over a baseline setting."""
    return Key(f"{measure}_gain_over_{_BASELINES[baseline]}", _MEASURES[measure][0], _FULL)


def gains(settings: Mapping[str, SettingScores]) -> Iterator[Metric]:
    """Yield the gains of every measure where both settings cover the same questions."""
    full = settings.get(_FULL)
    for baseline in _BASELINES:
        base = settings.get(baseline)
        if full is None or base is None:
            continue
        for measure, (task, _) in _MEASURES.items():
            grids = (full.vsv, base.vsv) if task == "vsv" else (full.oevqa, base.oevqa)
            if grids[0].is_planned and np.array_equal(grids[0].ids, grids[1].ids):
                blocked = not_run_note(_missing(full) + _missing(base))
                yield from _gain(measure, baseline, grids, blocked)(draws=full.draws).metrics()


def _missing(scores: SettingScores) -> int:
    return scores.vsv.missing_requests + scores.oevqa.missing_requests


def _gain(
    measure: str, baseline: str, grids: tuple[QuestionGrid, QuestionGrid], blocked: str
) -> Callable[..., MeanMetric]:
    """Return the gain in a measure; it lacks its draws."""
    full, base = grids
    key = gain_key(measure, baseline)
    return partial(
        MeanMetric,
        task=key.task,
        setting=key.setting,
        column=full.column,
        video=full.video,
        metric=key.metric,
        values=_values(measure, full) - _values(measure, base),
        failed=full.has_error | base.has_error,
        counted=np.ones(len(full.ids), dtype=np.bool_),
        blocked=blocked,
        missing_reason=lambda _rows: "not every answer has a verdict",
        unit="",
    )


def _values(measure: str, grid: QuestionGrid) -> FloatArray:
    """Return the measure of every question, (Q,)."""
    if measure == "oevqa":
        return grid.accepted
    return np.asarray(grid.correct.mean(axis=1)) if measure == "statement" else grid.pool_correct


def gain_table(maia: MaiaResults) -> Table:
    """Lay out the gains of our models by category."""
    rows: list[TableRow] = []
    for baseline in _BASELINES:
        for measure, (_, label) in _MEASURES.items():
            key = gain_key(measure, baseline)
            lines = (
                TableRow(
                    label=model,
                    cells=tuple(maia.find(key.of(model)._replace(category=name)) for name in ("", *COLUMNS)),
                )
                for model in maia.models_of(key, [_FULL])
            )
            heads = f"{SETTING_HEADS[_FULL]} \N{MINUS SIGN} {SETTING_HEADS[baseline]}"
            rows += section(f"{label}: {heads}", filled(lines))
    return Table(
        id="maia_category_deltas",
        title="MAIA: differences between inputs by category",
        columns=("Avg.", *CATEGORY_HEADS),
        rows=tuple(rows),
        notes=(
            "With the 95% interval of the paired difference: both sides are resampled together, by video.",
            *maia.subset_notes(),
        ),
    )
