from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from pipelines.metrics import agreement
from pipelines.metrics.agreement import agreement_interval, fleiss_kappa, krippendorff_alpha

VERDICTS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd"), st.integers(0, 5)), min_size=1, max_size=20))
def test_cohen_kappa_equals_scikit_learn(rows: list[tuple[str, str, int]]) -> None:
    a, b, counts = ([row[part] for row in rows] for part in range(3))
    if len({label for *pair, count in rows if count for label in pair}) > 1:
        expected = cohen_kappa_score(a, b, sample_weight=counts)
        assert agreement.cohen_kappa(a, b, counts) == pytest.approx(expected)  # type: ignore[arg-type]
    else:
        assert agreement.cohen_kappa(a, b, counts) is None  # type: ignore[arg-type]


@given(VERDICTS)
def test_phi_equals_the_pearson_correlation(pairs: list[tuple[bool, bool]]) -> None:
    a, b = (list(side) for side in zip(*pairs, strict=True))
    value = agreement.phi(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert value is None
    else:
        assert value == pytest.approx(np.corrcoef(a, b)[0, 1])


@given(st.lists(st.permutations([3, 1, 0]), min_size=1, max_size=9))
def test_fleiss_kappa_equals_statsmodels(counts: list[list[int]]) -> None:
    assert agreement.fleiss_kappa(counts) == inter_rater.fleiss_kappa(np.array(counts), method="fleiss")


@pytest.mark.parametrize("counts", [[], [[3, 0], [2, 0]], [[1, 0], [0, 1]], [3, 0]])
def test_fleiss_kappa_refuses_invalid_counts(counts: Any) -> None:
    with pytest.raises(ValueError, match="Fleiss"):
        agreement.fleiss_kappa(counts)


@pytest.mark.parametrize(("a", "b"), [([1], [1, 0]), ([], [])])
def test_cohen_kappa_refuses_invalid_labels(a: list[int], b: list[int]) -> None:
    with pytest.raises(ValueError, match="kappa"):
        agreement.cohen_kappa(a, b)


@pytest.mark.parametrize(("counts", "expected"), [((3, 1, 2, 1), 2 / 23), ((3, 0, 0, 0), None), ((0, 0, 0, 0), None)])
def test_cohen_kappa_of_counts_equals_that_of_the_labels(counts: tuple[int, ...], expected: float | None) -> None:
    # Of 7 pairs 4 are equal, by chance (4 * 5 + 3 * 2) / 7: (28 - 26) / (49 - 26).
    a, b = (True, True, False, False), (True, False, True, False)
    value = agreement.cohen_kappa(a, b, counts)
    assert value == (None if expected is None else pytest.approx(expected))
    if any(counts):
        labels = [[label for label, count in zip(side, counts, strict=True) for _ in range(count)] for side in (a, b)]
        assert value == agreement.cohen_kappa(*labels)


def test_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        agreement.phi([True], [True, False])


def test_krippendorff_alpha_is_that_of_the_definition_and_may_have_no_interval() -> None:
    # Nine labels A4 B4 C1 in units of at least two: expected 81 - 33 = 48; observed 2/1 + 2/1 = 4; 1 - 8*4/48 = 1/3.
    units = [["A", "A", "A"], ["A", "B"], ["B", "B"], ["B", "C"], ["A"]]
    assert krippendorff_alpha(units) == pytest.approx(1 / 3)
    assert krippendorff_alpha([["A", "A"], ["A"]]) is None
    assert krippendorff_alpha([]) is None
    assert agreement_interval(fleiss_kappa, [[2, 0]]) is None
    assert agreement_interval(fleiss_kappa, [[2, 0], [2, 0], [0, 2]]) is None, "equal without any of them, or undefined"


@pytest.mark.parametrize(("rating_people", "items", "kappa"), [(2, 60, 0.6), (2, 150, 0.2), (3, 100, 0.8)])
def test_intervals_of_coefficients_cover_the_true_one(rating_people: int, items: int, kappa: float) -> None:
    """Each person answers by a latent label with probability `s`, else at random: kappa is then `s` squared."""
    rng, hits = np.random.default_rng(7), 0
    for _ in range(200):
        latent = rng.integers(0, 2, (items, 1))
        guesses = rng.integers(0, 2, (items, rating_people))
        answers = np.where(rng.random((items, rating_people)) < kappa**0.5, latent, guesses)
        ones = answers.sum(axis=1)
        interval = agreement_interval(fleiss_kappa, np.stack([ones, rating_people - ones], axis=1).tolist())
        hits += interval.low <= kappa <= interval.high
    assert 0.92 <= hits / 200 <= 0.985
