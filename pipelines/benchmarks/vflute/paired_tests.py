"""V-FLUTE's F1 of two models on the same rows: the paired bootstrap over rows of Koehn (2004), which the paper uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.records import PairedTest, Sample
from pipelines.benchmarks.vflute.f1_bootstrap import Bools, MetricSpec, better_p, intervals, macro
from pipelines.benchmarks.vflute.scored_rows import SettingRows
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

_THRESHOLDS: Final = (0, 53, 60)
_TEST: Final = "Koehn"


def koehn_tests(a: pd.DataFrame, b: pd.DataFrame, setting: str, samples: Mapping[str, Sample]) -> list[PairedTest]:
    """F1 of labels, and at thresholds where the explanations of both are scored.

    Args:
        a: scores of the first, as `Benchmark.reduce` takes them.
        b: scores of the second on the same rows.
        setting: of both.
        samples: by id.

    Raises:
        ValueError: the rows are not the same.
    """
    cells = [SettingRows.of(frame.sort_values("sample_id", kind="stable"), setting, samples) for frame in (a, b)]
    first, second = cells
    if list(first.ids) != list(second.ids):
        raise ValueError(f"vflute {setting}: {len(first.ids)} and {len(second.ids)} rows, which are not the same")
    if not len(first.ids):
        return []
    found = [_test("label_f1", first, first.labelled_right(), second.labelled_right())]
    for k in _THRESHOLDS if setting != "label-only" else ():
        right = [cell.right_at(k) for cell in cells]
        if not any(one.unknown.any() for one in right):
            found.append(_test(f"f1_at_{k}", first, right[0].right, right[1].right))
    return found


def _test(metric: str, cell: SettingRows, right_a: Bools, right_b: Bools) -> PairedTest:
    gold, rows = cell.entailment, np.ones_like(right_a)
    columns = (right_a & gold, right_a & ~gold, right_b & gold, right_b & ~gold, rows)
    measures = [MetricSpec(name=metric, columns=columns, statistic=one) for one in (_of_a, _of_b, _gain)]
    value_a, value_b = (one.value for one in measures[:2])
    (ends,) = intervals(measures[2:], cell.cluster)
    one_sided = min(better_p(gold, right_a, right_b), better_p(gold, right_b, right_a))
    return PairedTest(
        metric=metric,
        n=len(cell.ids),
        value_a=value_a or 0.0,
        value_b=value_b or 0.0,
        ci_low=ends.low if ends else None,
        ci_high=ends.high if ends else None,
        p=min(1.0, 2 * one_sided),
        test=_TEST,
    )


def _of_a(*sums: FloatArray) -> FloatArray:
    return macro(sums[0], sums[1], sums[4])


def _of_b(*sums: FloatArray) -> FloatArray:
    return macro(sums[2], sums[3], sums[4])


def _gain(*sums: FloatArray) -> FloatArray:
    return _of_b(*sums) - _of_a(*sums)
