from __future__ import annotations

import numpy as np
import pytest

from pipelines.report.tables.repeats import variance_components


def planted(seed: int, shape: tuple[int, int, int, int], **deviations: float) -> np.ndarray:
    draws = np.random.default_rng(seed).normal
    items, settings, prompts, repeats = shape
    return (
        deviations.get("items", 0) * draws(size=(items, 1, 1, 1))
        + deviations.get("settings", 0) * draws(size=(1, settings, 1, 1))
        + deviations.get("prompts", 0) * draws(size=(1, 1, prompts, 1))
        + deviations.get("interaction", 0) * draws(size=(items, settings, prompts, 1))
        + deviations.get("repeats", 0) * draws(size=(items, settings, prompts, repeats))
    )


def test_planted_components_are_estimated_without_bias() -> None:
    planned = {"items": 1.0, "settings": 0.5, "prompts": 0.4, "interaction": 0.6, "repeats": 0.8}
    estimates = [variance_components(planted(seed, (60, 6, 6, 3), **planned)) for seed in range(100)]
    for name, deviation in planned.items():
        assert np.mean([parts[name] for parts in estimates]) == pytest.approx(deviation**2, rel=0.15)


def test_a_factor_with_one_level_is_absent_and_equal_scores_have_no_variance() -> None:
    assert set(variance_components(planted(1, (9, 1, 1, 4), items=1, repeats=1))) == {"items", "repeats"}
    assert set(variance_components(planted(1, (9, 3, 1, 1), items=1, repeats=1))) == {
        "items",
        "settings",
        "interaction",
    }
    assert set(variance_components(np.ones((5, 2, 2, 3))).values()) == {0.0}
