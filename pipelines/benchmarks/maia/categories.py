"""MAIA's category names as distributed and as columns of the paper's tables."""

import difflib
import re
from typing import Final

POOL_SIZE: Final = 8  # statement pairs of a question, and human answers to it

COLUMN_OF_CATEGORY: Final = {
    "CausaleEsplicita": "Causal",
    "CausaleImplicita": "Causal",
    "Controfattuale": "Counterfactual",
    "OutofScope": "Out-of-Scope",
    "Pianificazione": "Planning",
    "Sentiment": "Sentiment",
    "Incertezza": "Uncertainty",
    "ImplicitoParziale": "Implicit-Partial",
    "ImplicitoTot": "Implicit-Total",
    "SpazialeParziale": "Spatial-Partial",
    "SpazialeTotale": "Spatial-Total",
    "TemporaleDurata": "Temporal-Duration",
    "TemporaleParziale": "Temporal-Partial",
}
COLUMNS: Final = tuple(dict.fromkeys(COLUMN_OF_CATEGORY.values()))  # in the order of the paper's tables


def column_of(category: str) -> str:
    """Return the table column of a category as distributed; ValueError with the nearest name for an unknown one."""
    column = COLUMN_OF_CATEGORY.get(re.sub(r"_[AB]\Z", "", category))
    if column is None:
        nearest = difflib.get_close_matches(category, COLUMN_OF_CATEGORY, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown MAIA category {category!r}; the nearest known one is {nearest!r}")
    return column
