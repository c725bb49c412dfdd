"""Shares corrected by people's labels: against ppi-python, worked cases and simulated judges."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from pipelines.metrics.intervals import FRACTION, FloatArray, interval, variance_between
from pipelines.metrics.judged import corrected
from tests.support.judge_simulation import JUDGES, SETS, Judged, coverage

PPI = {  # agreement of verdicts with labels -> value and ends of ppi_py 0.2.3: alpha 0.05, 200 labels, 20,000 verdicts
    0.5: (0.605, 0.5372499955101337, 0.6727500044898662),
    0.6: (0.5978646867243032, 0.5307096106215967, 0.6650197628270096),
    0.8: (0.5826616485141478, 0.5202279980737275, 0.6450952989545681),
    0.95: (0.5911260181905856, 0.5565467616325891, 0.6257052747485822),
    1.0: (0.5932352817032289, 0.5864292890724374, 0.6000412743340204),
}


def binary(agreement: float) -> tuple[FloatArray, FloatArray]:
    """Return labels and verdicts of 20,200 rows, of which the first 200 are labelled."""
    generator = np.random.default_rng(7)
    labels = (generator.random(20_200) < 0.6).astype(np.float64)
    return labels, np.where(generator.random(20_200) < agreement, labels, 1 - labels)


def ppi_ends(agreement: float) -> tuple[float, float, float]:
    """Return our value and interval with the variance of ppi_py: of independent rows, without pseudo rows."""
    labels, verdicts = binary(agreement)
    rows = np.arange(len(labels))
    result = corrected(verdicts, np.where(rows < 200, labels, np.nan), rows)
    assert result is not None
    first, errors = result.terms
    bare = replace(errors, columns=errors.columns[:200], clusters=errors.clusters[:200])
    error = math.sqrt(variance_between([first, bare]) * (1 - 1 / 200))  # CR2's of the labels
    return result.value, result.value - 1.959963984540054 * error, result.value + 1.959963984540054 * error


@pytest.mark.parametrize("agreement", PPI)
def test_values_and_intervals_are_those_of_ppi_python(agreement: float) -> None:
    assert ppi_ends(agreement) == pytest.approx(PPI[agreement], abs=2e-5)


@pytest.mark.parametrize("agreement", PPI)
def test_ppi_python_gives_these_values(agreement: float) -> None:
    ppi = pytest.importorskip("ppi_py", reason="ppi-python is not installed")
    labels, verdicts = binary(agreement)
    ends = ppi.ppi_mean_ci(labels[:200], verdicts[:200], verdicts[200:], alpha=0.05)
    value = ppi.ppi_mean_pointestimate(labels[:200], verdicts[:200], verdicts[200:])
    assert [float(x[0]) for x in (value, *ends)] == pytest.approx(list(PPI[agreement]), abs=1e-9)


@pytest.mark.parametrize("judge", JUDGES)
def test_corrected_intervals_hold_what_people_accept_and_plain_ones_do_not(judge: str) -> None:
    cases = [coverage(judge, clusters, 100, 100) for clusters in SETS]
    assert 0.90 <= fmean(case.corrected for case in cases) <= 0.99
    assert fmean(case.naive for case in cases) < 0.6


def test_the_labels_needed_are_about_those_that_reach_the_width() -> None:
    results = [Judged.draw([1, number], "strict", "100 clips of 24", 100).corrected() for number in range(40)]
    needed = [result.labels_for(0.05) for result in results if result]
    labels = round(fmean(number for number in needed if number))
    assert coverage("strict", "100 clips of 24", labels, 40).reach == pytest.approx(0.05, rel=0.1)
    assert results[0] is not None
    assert results[0].labels_for(0.001) is None


def test_labels_correct_those_rows_alone_that_a_judge_decided() -> None:
    verdicts = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    labels = np.array([0.0, 1, 0, 1, np.nan, np.nan, 1, 1])
    result = corrected(verdicts, labels, np.arange(8), judged=np.arange(8) < 4)
    assert result is not None
    assert (result.value, result.labels, result.rows) == (pytest.approx(0.25), 4, 4)


def test_labels_of_strata_count_by_the_rows_that_they_stand_for() -> None:
    strata = np.repeat(["a", "b"], [90, 10])
    verdicts = np.ones(100)
    labels = np.full(100, np.nan)
    labels[[0, 1, 90, 91, 92, 93]] = [1, 1, 0, 0, 0, 0]  # all of a is right, all of b wrong
    result, equal = (corrected(verdicts, labels, np.arange(100), strata=names) for names in (strata, None))
    assert result is not None
    assert equal is not None
    assert (result.value, equal.value) == (pytest.approx(0.9), pytest.approx(2 / 6))


def test_few_labels_without_an_error_leave_an_interval() -> None:
    verdicts = np.repeat([1.0, 0.0], 500)
    labels = np.where(np.arange(1000) % 50 == 0, verdicts, np.nan)
    result = corrected(verdicts, labels, np.arange(1000))
    assert result is not None
    ends, plain = interval(result.terms, FRACTION), (0.469, 0.531)
    assert result.value == pytest.approx(0.5)
    assert ends is not None
    assert ends.low < plain[0]
    assert ends.high > plain[1]


@pytest.mark.parametrize("rows", [[], [0], [0, 1]])
def test_labels_of_fewer_than_two_clusters_correct_nothing(rows: list[int]) -> None:
    labels = np.full(6, np.nan)
    labels[rows] = 1.0
    assert corrected(np.ones(6), labels, np.arange(6) // 2) is None
