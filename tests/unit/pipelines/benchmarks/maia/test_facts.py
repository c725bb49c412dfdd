"""Columns of MAIA's categories."""

import pytest

from pipelines.benchmarks.maia.facts import COLUMNS, column_of


def test_columns_follow_the_paper() -> None:
    assert ", ".join(COLUMNS) == (
        "Causal, Counterfactual, Out-of-Scope, Planning, Sentiment, Uncertainty, Implicit-Partial, Implicit-Total, "
        "Spatial-Partial, Spatial-Total, Temporal-Duration, Temporal-Partial"
    )


@pytest.mark.parametrize(
    ("category", "column"),
    [
        ("ImplicitoTot_B", "Implicit-Total"),
        ("TemporaleDurata_A", "Temporal-Duration"),
        ("Incertezza_A", "Uncertainty"),
        ("SpazialeParziale_A", "Spatial-Partial"),
        ("CausaleEsplicita_B", "Causal"),
        ("CausaleImplicita_A", "Causal"),
    ],
)
def test_column_of_maps_distributed_names(category: str, column: str) -> None:
    assert column_of(category) == column


@pytest.mark.parametrize(
    ("category", "nearest"), [("ImplicitoTotale_A", "ImplicitoTot"), ("incertezza_A", "Incertezza"), ("", "")]
)
def test_column_of_suggests_the_nearest_category(category: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"unknown MAIA category '{category}'.*nearest known one is '{nearest}"):
        column_of(category)
