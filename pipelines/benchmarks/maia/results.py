"""What MAIA's tables and figures show: measures, settings, categories, and how many questions the paper has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.layout import coverage_notes
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.prompts import BLACK_FRAME
from pipelines.benchmarks.results import Key, Results

STATEMENTS: Final = Key("statement_accuracy", "vsv")
POOLS: Final = Key("pool_accuracy", "vsv")
OEVQA: Final = Key("oevqa_accuracy", "oevqa")
AGG: Final = Key("agg_acc", "aggregate")

SETTING_HEADS: Final[Mapping[str, str]] = {
    "black-video": "Black video",
    "1-frame": "1-Frame",
    "32-frames": "32-Frames",
}
"""Settings with a video and their headings, in the paper's order."""
ALL_HEADS: Final[Mapping[str, str]] = {**SETTING_HEADS, BLACK_FRAME: "Black video, one frame"}
CATEGORY_HEADS: Final = tuple(name if name == "Out-of-Scope" else name.replace("-", " ") for name in COLUMNS)
CATEGORIES: Final = {
    "Avg.": Key(),
    **{head: Key(category=name) for head, name in zip(CATEGORY_HEADS, COLUMNS, strict=True)},
}
"""Columns of tables by category."""
FULL: Final = "32-frames"
BASELINES: Final[Mapping[str, str]] = {"1-frame": "1_frame", "black-video": "black_video"}
"""Settings that the full one is compared with, and their names in metrics."""
MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "statement": ("vsv", "Statement accuracy"),
    "pool": ("vsv", "Pool accuracy"),
    "oevqa": ("oevqa", "Accuracy of open answers"),
}
"""Measure -> task and words."""
FULL_SET: Final = 2400  # questions behind the published numbers


def gain_key(measure: str, baseline: str) -> Key:
    """Return the key of a measure's gain at 32 frames over a baseline setting."""
    return Key(f"{measure}_gain_over_{BASELINES[baseline]}", MEASURES[measure][0], FULL)


def subset_notes(results: Results) -> tuple[str, ...]:
    """Return the notes of tables where ours, without people, is not the full set."""
    sizes = results.sizes(lambda key: key.of("", "") in (POOLS, OEVQA, AGG))
    return coverage_notes(
        sizes, FULL_SET, "subset: {size:,} of {full:,} questions; not comparable with the published full-set values"
    )
