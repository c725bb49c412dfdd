"""Statistics of items on simulated models: what is flipped is found, and a subset stands for the whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests

from jobs.analysis.items.create import LISTED_Q, benjamini_hochberg, compact_subset, reversed_p, shrunk
from jobs.analysis.items.statistics import Rasch, discrimination, rest_shares, shares_right, suspicions
from tests.support.item_simulation import coin_tosses, simulated


def listed(p_values: list[float | None]) -> NDArray[np.bool_]:
    return np.array([q is not None and q < LISTED_Q for q in benjamini_hochberg(p_values)])


def suspects(right: NDArray[np.float64], answers: NDArray[Any]) -> NDArray[np.bool_]:
    return listed([None if s is None else s.p for s in suspicions(right, answers)])


@pytest.mark.parametrize(("models", "recall"), [(8, 0.2), (12, 0.5), (30, 0.8)])
def test_flipped_labels_are_suspect_and_few_others(models: int, recall: float) -> None:
    hits = estimates = flips = 0
    for seed in range(6):
        right, answers, is_flipped = simulated(seed, models)
        suspect = suspects(right, answers)
        hits, estimates, flips = (
            hits + (suspect & is_flipped).sum(),
            estimates + suspect.sum(),
            flips + is_flipped.sum(),
        )
    assert hits / flips >= recall
    assert hits / estimates >= 0.85


def test_models_that_toss_coins_are_equal_or_fail_list_nothing() -> None:
    for seed in range(10):
        right, answers, _ = coin_tosses(seed)
        assert not suspects(right, answers).any()
        assert not listed(reversed_p(right, rest_shares(right))).any()
    right, answers, _ = simulated(1, 1)
    for rows in (np.repeat(right, 6, axis=0), np.zeros((6, 500)), np.ones((6, 500))):
        given = np.repeat(answers, 6, axis=0)
        assert not suspects(rows, given).any()
        assert not listed(reversed_p(rows, rest_shares(rows))).any()
    assert suspicions(np.zeros((6, 3)), np.full((6, 3), None, dtype=object)) == [None] * 3


def test_reversed_items_and_discriminations_are_told_from_chance() -> None:
    ability = np.linspace(-2, 2, 16)
    right = (np.random.default_rng(0).random((16, 100)) < 1 / (1 + np.exp(-ability))[:, None]).astype(float)
    right[:, 0] = ability < 0
    p_values = reversed_p(right, rest_shares(right))
    assert p_values[0] == pytest.approx(1 / math.comb(16, 8), abs=3e-4)
    assert listed(p_values)[0]
    p_values = [0.001, 0.04, None, 0.03, 0.5, 0.012]
    defined = [p for p in p_values if p is not None]
    estimates = [q for q in benjamini_hochberg(p_values) if q is not None]
    np.testing.assert_allclose(estimates, multipletests(defined, method="fdr_bh")[1])
    right, _, _ = coin_tosses(1, models=12)
    raw, counts = discrimination(right), np.full(400, 12)
    values, low, high = shrunk(raw, counts)
    assert np.std(values) < 0.5 * np.std(raw)
    assert ((low <= 0) & (high >= 0)).mean() > 0.9


def test_rasch_finds_difficulties_and_says_how_sure_it_is() -> None:
    rng = np.random.default_rng(2)
    ability, difficulty = rng.normal(0, 1, 40), rng.normal(0, 1.2, 400)
    difficulty -= difficulty.mean()
    right = (rng.random((40, 400)) < 1 / (1 + np.exp(difficulty - ability[:, None]))).astype(float)
    model = Rasch.fit(right)
    estimates, error = model.difficulties(right)
    assert model.spread == pytest.approx(1.2, abs=0.15)
    assert np.abs(model.abilities - ability).max() < 0.5
    assert 0.9 < (np.abs(estimates - difficulty) < 1.96 * error).mean() < 0.99


def test_suspicion_discrimination_and_shares_by_hand() -> None:
    answers = np.array([["A", "B"], ["A", "B"], ["A", "B"], ["A", "C"], ["A", None]], dtype=object)
    right = np.array([[1.0, 0], [1, 0], [1, 0], [1, 1], [1, np.nan]])
    first, second = suspicions(right, answers)
    assert first is None
    assert (second.answer, second.models) == ("B", 3)
    right, _, _ = simulated(5, models=9, items=6)
    rest = (right.sum(axis=1, keepdims=True) - right) / 5
    expected = [np.corrcoef(right[:, i], rest[:, i])[0, 1] if right[:, i].std() else np.nan for i in range(6)]
    np.testing.assert_allclose(discrimination(right), expected)
    right = np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, np.nan]])
    shares = shares_right(right)
    assert shares[0] == 0.5
    assert np.isnan(shares[1])


def test_a_subset_is_a_random_draw_unless_models_agree_on_difficulty() -> None:
    right, _, _ = coin_tosses(3, models=8)
    compact = compact_subset(right, shares=(0.1,))
    assert compact.is_random
    assert len(set(compact.places)) == 40
    assert compact == compact_subset(right, shares=(0.1,))
    expected = np.sqrt(0.25 / 40 * 360 / 399)  # of a draw without replacement
    assert compact.error == pytest.approx(expected, rel=0.1)
    difficulty = np.linspace(-6, 6, 200)
    ability = np.random.default_rng(4).normal(0, 1, (12, 1))
    compact = compact_subset((ability > difficulty).astype(float), shares=(0.1,))
    assert not compact.is_random
    assert compact.error < 0.03
