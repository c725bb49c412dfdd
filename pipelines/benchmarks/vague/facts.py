"""VAGUE: settings and subsets, the sizes of the paper (ICCV 2025, arXiv 2411.14137), and what tables look up."""

from collections.abc import Collection, Mapping
from typing import Final

from pipelines.benchmarks.layout import coverage_notes
from pipelines.benchmarks.results import Results

SETTINGS: Final = ("lm", "sm", "vlm", "sm-cot", "vlm-cot")  # settings of both tasks, in the order of `metrics.json`
CAPTIONED: Final = "sm-other"
"""As `sm`, with the captions of the sweep's captioners instead of the model's own; of `mcq`."""
SUBSETS: Final[Mapping[str, int]] = {"VCR": 1144, "Ego4D": 533}  # subsets and their published sizes
HUMAN_LISTED: Final = "human-400"
"""Subset of the items that a person answered. The list is unpublished; a user may have it."""
HUMAN_APPROXIMATE: Final = "human-400-approx"
"""Subset that approximates it: the same number of items, those with the best mean rating."""
HUMAN_SUBSETS: Final = (HUMAN_LISTED, HUMAN_APPROXIMATE)
HUMAN_ITEMS: Final = 400
SIZES: Final[Mapping[str, int]] = {**SUBSETS, HUMAN_LISTED: HUMAN_ITEMS, "": sum(SUBSETS.values())}
"""Items behind the published numbers by subset; '' is the whole."""
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
