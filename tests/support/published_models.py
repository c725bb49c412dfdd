"""Names in the papers' tables and the catalog entries that they mean, so that own numbers join on published rows."""

from __future__ import annotations

from collections.abc import Mapping

from models.spec import ModelSpec

__all__ = ["MADE_DATA", "NO_MODEL", "SCORERS", "models_published_as"]

NO_MODEL: Mapping[tuple[str, str], str] = {
    ("mate", "Human"): "people",
    ("vague", "Human"): "people",
    ("vflute", "Human"): "people",
    ("unpie", "Human"): "people",
    ("unpie", "Human evaluator 1"): "one person",
    ("unpie", "Human evaluator 2"): "one person",
    ("unpie", "Human evaluator 3"): "one person",
    ("unpie", "Plain translation"): "sentences of the data compared with each other",
    ("unpie", "Pun-aware translation"): "sentences of the data compared with each other",
    ("vflute", "ExplanationScore"): "a metric compared with people",
}
"""Rows of the published tables that stand for no model: (benchmark, name) -> what they are."""

MADE_DATA: Mapping[str, tuple[str, ...]] = {
    "gpt-3.5-turbo-instruct-0914": ("vflute",),
    "gpt-4-0613": ("vflute",),
    "gpt-4o": ("maia", "vague"),
    "dall-e-3": ("unpie", "vague"),
    "yolov11": ("vague",),
}
"""Models that made or marked the benchmarks' data and are asked nothing by a sweep -> papers."""

SCORERS: Mapping[str, tuple[str, ...]] = {
    "bert-base-multilingual-cased": ("maia", "unpie"),
    "roberta-large": ("vague",),
    "microsoft/deberta-xlarge-mnli": ("vflute",),
    "lucadiliello/BLEURT-20": ("vflute",),
}
"""Models behind text-similarity metrics; they are named by `--scorer`, not by the catalog -> papers."""


def models_published_as(models: Mapping[str, ModelSpec]) -> dict[tuple[str, str], tuple[str, ...]]:
    """(benchmark, printed name) -> names of the entries whose numbers stand under it, in order.

    Args:
        models: the catalog, with the user's own files laid over it.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, spec in models.items():
        for one in spec.published_as:
            found.setdefault((one.benchmark, one.name), []).append(name)
    return {key: tuple(sorted(names)) for key, names in found.items()}
