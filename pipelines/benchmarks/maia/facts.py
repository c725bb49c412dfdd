"""MAIA's categories as distributed and as columns of the paper's tables, its settings, measures, and their headings."""

import difflib
import re
from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.layout import coverage_notes
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import person
from pipelines.benchmarks.results import Key, Results

POOL_SIZE: Final = 8  # statement pairs of a question, and human answers to it
FULL_SET: Final = 2400  # questions behind the published numbers

COLUMN_OF_CATEGORY: Final[Mapping[str, str]] = load_facts(__package__, "facts.yaml")["columns"]
COLUMNS: Final = tuple(dict.fromkeys(COLUMN_OF_CATEGORY.values()))  # in the order of the paper's tables
CATEGORY_HEADS: Final = tuple(name if name == "Out-of-Scope" else name.replace("-", " ") for name in COLUMNS)
CATEGORIES: Final = {
    "Avg.": Key(),
    **{head: Key(category=name) for head, name in zip(CATEGORY_HEADS, COLUMNS, strict=True)},
}
"""Columns of tables by category."""

FULL: Final = "32-frames"
BLACK_FRAME: Final = "black-1-frame"  # the setting of the authors' scripts: one frame of the black clip
LEAVE_ONE_OUT: Final = "leave-one-out"
"""The setting of people's answers, each judged by the other seven, and the name of the person who stands for them."""
SETTING_HEADS: Final[Mapping[str, str]] = {"black-video": "Black video", "1-frame": "1-Frame", FULL: "32-Frames"}
"""Settings with a video and their headings, in the paper's order."""
ALL_HEADS: Final[Mapping[str, str]] = {**SETTING_HEADS, BLACK_FRAME: "Black video, one frame"}

STATEMENTS: Final = Key("statement_accuracy", "vsv")
POOLS: Final = Key("pool_accuracy", "vsv")
OEVQA: Final = Key("oevqa_accuracy", "oevqa")
AGG: Final = Key("agg_acc", "aggregate")
LEAVE_ONE_OUT_KEY: Final = Key("human_leave_one_out", "oevqa", LEAVE_ONE_OUT, model=person(LEAVE_ONE_OUT))
BASELINES: Final[Mapping[str, str]] = {"1-frame": "1_frame", "black-video": "black_video"}
"""Settings that the full one is compared with, and their names in metrics."""
MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "statement": ("vsv", "Statement accuracy"),
    "pool": ("vsv", "Pool accuracy"),
    "oevqa": ("oevqa", "Accuracy of open answers"),
}
"""Measure -> task and words."""


def column_of(category: str) -> str:
    """Return the table column of a category as distributed; ValueError with the nearest name for an unknown one."""
    column = COLUMN_OF_CATEGORY.get(re.sub(r"_[AB]\Z", "", category))
    if column is None:
        nearest = difflib.get_close_matches(category, COLUMN_OF_CATEGORY, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown MAIA category {category!r}; the nearest known one is {nearest!r}")
    return column


def gain_key(measure: str, baseline: str) -> Key:
    """Return the key of a measure's gain at 32 frames over a baseline setting."""
    return Key(f"{measure}_gain_over_{BASELINES[baseline]}", MEASURES[measure][0], FULL)


def subset_notes(results: Results) -> tuple[str, ...]:
    """Return the notes of tables where ours, without people, is not the full set."""
    sizes = results.sizes(lambda key: key.of("", "") in (POOLS, OEVQA, AGG))
    return coverage_notes(
        sizes, FULL_SET, "subset: {size:,} of {full:,} questions; not comparable with the published full-set values"
    )
