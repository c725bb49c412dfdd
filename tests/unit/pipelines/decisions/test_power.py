"""How many rows a difference needs, against the textbook's number."""

from __future__ import annotations

import math

import pytest

from models.spec import ModelSpec
from pipelines.decisions.power import power
from pipelines.errors import UsageError
from pipelines.plan.run_spec import RunSpec
from pipelines.report.compare import compare
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep


@pytest.fixture(scope="module")
def out(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("power") / "out"
    models = {name: ModelSpec(engine="random", seed=seed) for name, seed in (("a", 1), ("b", 2))}
    spec = RunSpec(
        data=maia_data, out=str(folder), models=models, benchmarks=("maia",), tasks=("vsv",), settings=("1-frame",)
    )
    run_sweep(spec)
    return Store(str(folder))


def test_rows_follow_from_the_standard_error(out: Store) -> None:
    rows = power(out, 0.02, "statement_accuracy")
    single = next(row for row in rows if row.model == "a" and not row.other)
    assert single.clusters == 2
    # (1.96 + 0.8416)^2 (s / d)^2 rows as often as there are, s the standard error of a difference of two such models.
    expected = (1.959964 + 0.841621) ** 2 * (single.standard_error / 0.02) ** 2 * single.n
    assert single.rows_needed == math.ceil(expected)
    assert single.detectable == pytest.approx(2.801585 * single.standard_error)
    assert power(out, 0.04, "statement_accuracy")[0].rows_needed == pytest.approx(rows[0].rows_needed / 4, abs=1)


def test_difference_must_be_a_fraction_and_the_metric_known(out: Store) -> None:
    with pytest.raises(UsageError, match="--difference is 2"):
        power(out, 2)
    with pytest.raises(UsageError, match="did you mean 'statement_accuracy'"):
        power(out, 0.02, "statement_acuracy")


def test_pair_has_the_spread_of_the_comparison(out: Store) -> None:
    by_value = {d.value: d for d in compare(out, out, ("a", "b")).differences}
    pairs = [row for row in power(out, 0.02, "pool_accuracy") if row.other]
    for row in pairs:
        ends = by_value["pool_accuracy"]
        assert ends.ci_low is not None
        assert ends.ci_high is not None
        assert row.standard_error == pytest.approx((ends.ci_high - ends.ci_low) / 2 / 1.959964)
    assert pairs
