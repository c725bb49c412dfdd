"""V-FLUTE: names of settings, subsets and phenomena, as in the paper (arXiv 2405.01474, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TASK: Final = "entailment"
SETTINGS: Final = ("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image", "label-only")
"""In the order of tables."""
TUNED_FOR: Final = ("label-only fine-tuning", "label + explanation multi-task fine-tuning")
"""Settings of the paper's appendix J."""
PUBLISHED_SETTINGS: Final[Mapping[str, str]] = {
    "fine-tuned": "zero-shot",
    "fine-tuned (-Image)": "no-image",
    **dict(zip(TUNED_FOR, ("label-only", "zero-shot"), strict=True)),
}
"""Setting of a fine-tuned checkpoint as published -> ours with the same requests."""
LABELS: Final[Mapping[str, int]] = {"entailment": 1, "contradiction": 0}
LENGTH_BINS: Final[Mapping[str, tuple[int, int]]] = {"caption": (20, 12), "explanation": (100, 10)}
"""Text -> width of a bin in characters, number of bins; the last one has no upper end."""
FULL_TEST: Final = 723
"""Rows of the test split."""
REPORTED_THRESHOLDS: Final = (0, 53, 60)
"""Thresholds of F1@k in the paper, in hundredths."""
PHENOMENA: Final = ("Metaphor/Simile", "Idiom", "Sarcasm", "Humor")


@dataclass(frozen=True, slots=True)
class Subset:
    """One of the six rows of the paper's tables."""

    name: str
    source: str
    """`source_dataset` in the data."""
    phenomena: tuple[str, ...]
    """`phenomenon` in the data."""
    category: str
    """The phenomenon as printed."""
    style: str
    figurative: str
    """The figurative part: image, caption or both."""


_METAPHOR: Final = (("metaphor", "simile"), "Metaphor/Simile")
SUBSETS: Final = (
    Subset("HAIVMET", "vismet", *_METAPHOR, "Generated illustration", "Image"),
    Subset("IRFL (metaphor/simile)", "irfl", *_METAPHOR, "Photo", "Caption"),
    Subset("IRFL (idiom)", "irfl", ("idiom",), "Idiom", "Photo", "Caption"),
    Subset("MuSE", "muse", ("sarcasm",), "Sarcasm", "Social media image", "Caption"),
    Subset("MemeCap", "memecap", ("humor",), "Humor", "Meme", "Image"),
    Subset("NYCartoons", "nycartoons", ("humor",), "Humor", "Cartoon", "Image and caption"),
)
GROUPS: Final = (*((subset.name, subset.category) for subset in SUBSETS), ("", ""))
"""Subset and category of each row of the paper's tables by subset, the whole last."""
SOURCES: Final = tuple(dict.fromkeys(subset.source for subset in SUBSETS))


def subset_of(source: str, phenomenon: str) -> Subset:
    """Return the subset of a row; ValueError for an unknown source, or an IRFL row of another phenomenon.

    Other sources have one subset each; their phenomenon is ignored, as one distribution has wrong tags.
    """
    subsets = [subset for subset in SUBSETS if subset.source == source]
    if not subsets:
        raise ValueError(f"source_dataset is {source!r}; known sources: {', '.join(SOURCES)}")
    if len(subsets) == 1:
        return subsets[0]
    for subset in subsets:
        if phenomenon in subset.phenomena:
            return subset
    raise ValueError(f"phenomenon is {phenomenon!r}; {source} has metaphor, simile and idiom")
