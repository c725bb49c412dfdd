"""What VAGUE's tables and figures look up: labels, models, and the items that the results cover."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pipelines.benchmarks.layout import coverage_notes
from pipelines.benchmarks.results import Results
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


def incomplete_notes(results: Results, subsets: Collection[str]) -> tuple[str, ...]:
    """Return notes on subsets of which ours does not cover all items behind the published numbers."""
    return tuple(note for subset in sorted(subsets) for note in _incomplete_notes(results, subset))


def _incomplete_notes(results: Results, subset: str) -> tuple[str, ...]:
    sizes = results.sizes(lambda key: key.task != "" and key.subset == subset and key.metric in ("accuracy", "bleu1"))
    items = f"items of {subset}" if subset else "items"
    words = f"incomplete: {{size:,}} of {{full:,}} {items}; not comparable with the published values"
    return coverage_notes(sizes, SIZES[subset], words)
