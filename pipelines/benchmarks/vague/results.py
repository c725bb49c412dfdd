"""What VAGUE's tables and figures look up: labels, models, and the items that the results cover."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pipelines.benchmarks.results import Key, Results, count_of
from pipelines.benchmarks.vague.facts import SIZES

SETTING_LABELS: Final[Mapping[str, str]] = {
    "lm": "LM",
    "sm": "SM",
    "sm-cot": "SM+CoT",
    "vlm": "VLM",
    "vlm-cot": "VLM+CoT",
}
"""In the order of tables."""
ERRORS: Final[Mapping[str, str]] = {"count_fs": "FS", "count_su": "SU", "count_ne": "NE"}
FULL_TABLES: Final[Mapping[str, str]] = {"VCR": "Table H3", "Ego4D": "Table H4"}
"""Subset -> the paper's table of all its numbers."""
HUMAN: Final = "Human"


def mcq_key(metric: str, setting: str, model: str, subset: str = "", category: str = "") -> Key:
    """Return the key of a multiple-choice metric."""
    return Key(metric, "mcq", setting, subset, category, model)


def models_in(results: Results, settings: Collection[str], task: str = "mcq", subset: str = "") -> list[str]:
    """Return our models with a row of the task and subset in one of the settings."""
    present = {
        key.model for key in results.ours if (key.task, key.subset) == (task, subset) and key.setting in settings
    }
    return [model for model in results.models() if model in present]


def counts(results: Results, key: Key, table: str, metrics: Collection[str]) -> list[int | None]:
    """Return counts of the key's model, setting and subset; of a published table, or ours where it is ''."""
    return [count_of(results.find(key._replace(metric=metric), table=table)) for metric in metrics]


def incomplete_notes(results: Results, subsets: Collection[str]) -> tuple[str, ...]:
    """Return notes on subsets of which ours does not cover all items behind the published numbers."""
    sizes = {
        (key.subset, number.n or 0)
        for key, number in results.ours.items()
        if key.task and key.subset in subsets and key.metric in ("accuracy", "bleu1")
    }
    return tuple(
        f"incomplete: {size:,} of {SIZES[subset]:,} items{f' of {subset}' if subset else ''}; not comparable with "
        "the published values"
        for subset, size in sorted(sizes)
        if size < SIZES[subset]
    )
