"""How many rows a difference needs, against the textbook's number."""

from __future__ import annotations

import math

import pytest

from pipelines.decisions.power import power
from pipelines.errors import UsageError
from pipelines.report.compare import compare
from pipelines.storage.store import Store


def test_rows_follow_from_the_standard_error(two_models: Store) -> None:
    rows = power(two_models, 0.02, "statement_accuracy")
    single = next(row for row in rows if row.model == "a" and not row.other)
    assert single.clusters == 2
    # (1.96 + 0.8416)^2 (s / d)^2 rows as often as there are, s the standard error of a difference of two such models.
    expected = (1.959964 + 0.841621) ** 2 * (single.standard_error / 0.02) ** 2 * single.n
    assert single.rows_needed == math.ceil(expected)
    assert single.detectable == pytest.approx(2.801585 * single.standard_error)
    assert power(two_models, 0.04, "statement_accuracy")[0].rows_needed == pytest.approx(rows[0].rows_needed / 4, abs=1)


def test_difference_must_be_a_fraction_and_the_metric_known(two_models: Store) -> None:
    with pytest.raises(UsageError, match="--difference is 2"):
        power(two_models, 2)
    with pytest.raises(UsageError, match="did you mean 'statement_accuracy'"):
        power(two_models, 0.02, "statement_acuracy")


@pytest.mark.parametrize(("metric", "value"), [("pool_accuracy", "pool_accuracy"), ("statement_accuracy", "correct")])
def test_pair_has_the_spread_of_the_comparison(metric: str, value: str, two_models: Store) -> None:
    ends = next(d for d in compare(two_models, two_models, ("a", "b")).differences if d.value == value)
    (pair,) = (row for row in power(two_models, 0.02, metric) if row.other)
    assert ends.ci_low is not None
    assert ends.ci_high is not None
    assert (pair.model, pair.other) == ("a", "b")
    assert pair.standard_error == pytest.approx((ends.ci_high - ends.ci_low) / 2 / 1.959964)
