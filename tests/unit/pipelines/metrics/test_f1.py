from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.metrics import f1_score

from pipelines.metrics import f1
from tests.support import f1_oracle
from tests.unit.pipelines.metrics.metric_cases import golden, row_name

ROWS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1, None]), st.floats(-0.2, 1.2)), min_size=1, max_size=30
)


def macro_f1(gold: Sequence[int], answers: Sequence[int]) -> float:
    """Return Macro F1 of the product, from the counts that it takes."""
    right = np.array(gold) == np.array(answers)
    counts = (right & (np.array(gold) == 1), right & (np.array(gold) == 0), np.ones_like(right))
    return float(f1.macro_f1(*(np.array([float(column.sum())]) for column in counts))[0])


@pytest.mark.parametrize("row", golden("f1_at_k"), ids=row_name)
def test_f1_at_k_matches_golden_rows(row: dict[str, Any]) -> None:
    answers = f1_oracle.answers_at_k(row["gold"], row["predicted"], row["scores"], row["k"])
    assert answers == row["answers"]
    assert macro_f1(row["gold"], answers) == pytest.approx(row["expected"], abs=5e-5)


@pytest.mark.parametrize("row", golden("precision_recall"), ids=row_name)
def test_precision_recall_matches_golden_rows(row: dict[str, Any]) -> None:
    summary = f1.precision_recall(row["adequate"], row["scores"])
    for name in ("auc", "average_precision", "max_f1", "max_f1_threshold", "balanced_threshold"):
        expected = row[name]
        assert getattr(summary, name) == (expected if expected is None else pytest.approx(expected, abs=5e-5)), name


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([-0.2, 0.0, 0.1, 0.5, 0.75, 1.2])), min_size=1, max_size=30))
def test_precision_recall_equals_scikit_learn(rows: list[tuple[bool, float]]) -> None:
    adequate, scores = [int(is_adequate) for is_adequate, _ in rows], [score for _, score in rows]
    if not any(adequate):
        with pytest.raises(ValueError, match="at least one adequate row"):
            f1.precision_recall(adequate, scores)
        return
    expected = metrics.precision_recall_curve(adequate, scores)
    for ours, theirs in zip(f1.precision_recall_curve(adequate, scores), expected, strict=True):
        assert ours[::-1] == pytest.approx(theirs[: len(ours)])
    summary = f1.precision_recall(adequate, scores)
    assert summary.auc == pytest.approx(metrics.auc(expected[1], expected[0]))
    assert summary.average_precision == pytest.approx(metrics.average_precision_score(adequate, scores))


def test_thresholds_exceed_their_floor_and_ties_take_the_higher_one() -> None:
    adequate, scores = [1, 0, 1, 1, 0, 0], [0.72, 0.58, 0.64, 0.52, 0.61, 0.40]
    assert f1.precision_recall(adequate, scores, floor=0.6).balanced_threshold == 0.64
    assert f1.precision_recall(adequate, scores, floor=0.7).balanced_threshold is None
    summary = f1.precision_recall([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6])
    # F1 is 2/3 at 0.9, 1/2 at 0.8 and 4/5 at 0.7; then 2/3 at 0.9 and at 0.6 once the third is not adequate.
    assert summary.max_f1_threshold == 0.7
    tied = f1.precision_recall([1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6])
    assert tied.max_f1 == pytest.approx(2 / 3)
    assert tied.max_f1_threshold == 0.9
    assert len(f1.THRESHOLDS) == 101
    assert (f1.THRESHOLDS[57], f1.THRESHOLDS[70], f1.THRESHOLDS[100]) == (0.57, 0.70, 1.0)


@pytest.mark.parametrize(
    ("adequate", "scores"), [([0, 0], [0.1, 0.2]), ([1], [0.1, 0.2]), ([1, 0], [float("nan"), 0.1])]
)
def test_precision_recall_refuses_invalid_input(adequate: list[int], scores: list[float]) -> None:
    with pytest.raises(ValueError):
        f1.precision_recall(adequate, scores)


@given(rows=ROWS)
def test_macro_f1_equals_scikit_learn_and_the_oracle(rows: list[tuple[int, int | None, float]]) -> None:
    gold = [y for y, _, _ in rows]
    answers = [1 - y if p is None else p for y, p, _ in rows]
    present = sorted({*gold, *answers})
    library = f1_score(gold, answers, labels=present, average="macro", zero_division=0.0)
    assert macro_f1(gold, answers) == pytest.approx(library)
    assert f1_oracle.macro_f1(gold, answers) == pytest.approx(library)


def test_macro_f1_without_rows_is_undefined() -> None:
    assert np.isnan(f1.macro_f1(*[np.zeros(1)] * 3)).all()
