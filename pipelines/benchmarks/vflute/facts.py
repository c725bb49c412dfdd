"""V-FLUTE: names of settings, subsets and phenomena, and the sizes of the paper (arXiv 2405.01474, Tables 1 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TASK: Final = "entailment"
SETTINGS: Final = ("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image", "label-only")
"""In the order of tables."""
LABELS: Final[Mapping[str, int]] = {"entailment": 1, "contradiction": 0}
LENGTH_BINS: Final[Mapping[str, tuple[int, int]]] = {"caption": (20, 12), "explanation": (100, 10)}
"""Text -> width of a bin in characters, number of bins; the last one has no upper end."""
FULL_TEST: Final = 723
"""Rows of the test split."""
REPORTED_THRESHOLDS: Final = (0, 53, 60)
"""Thresholds of F1@k in the paper, in hundredths."""
PHENOMENA: Final = ("Metaphor/Simile", "Idiom", "Sarcasm", "Humor")


@dataclass(frozen=True, slots=True, kw_only=True)
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
    instances: tuple[int, int, int]
    """Of the whole data set: all, entailment, contradiction."""
    splits: tuple[int, int, int]
    """Train, validation, test."""


SUBSETS: Final = (
    Subset(
        name="HAIVMET",
        source="vismet",
        phenomena=("metaphor", "simile"),
        category="Metaphor/Simile",
        style="Generated illustration",
        figurative="Image",
        instances=(857, 450, 407),
        splits=(649, 107, 101),
    ),
    Subset(
        name="IRFL (metaphor/simile)",
        source="irfl",
        phenomena=("metaphor", "simile"),
        category="Metaphor/Simile",
        style="Photo",
        figurative="Caption",
        instances=(1149, 574, 575),
        splits=(912, 117, 120),
    ),
    Subset(
        name="IRFL (idiom)",
        source="irfl",
        phenomena=("idiom",),
        category="Idiom",
        style="Photo",
        figurative="Caption",
        instances=(370, 186, 184),
        splits=(170, 100, 100),
    ),
    Subset(
        name="MuSE",
        source="muse",
        phenomena=("sarcasm",),
        category="Sarcasm",
        style="Social media image",
        figurative="Caption",
        instances=(1042, 521, 521),
        splits=(830, 106, 106),
    ),
    Subset(
        name="MemeCap",
        source="memecap",
        phenomena=("humor",),
        category="Humor",
        style="Meme",
        figurative="Image",
        instances=(1958, 979, 979),
        splits=(1566, 196, 196),
    ),
    Subset(
        name="NYCartoons",
        source="nycartoons",
        phenomena=("humor",),
        category="Humor",
        style="Cartoon",
        figurative="Image and caption",
        instances=(651, 651, 0),
        splits=(451, 100, 100),
    ),
)
GROUPS: Final = (*((subset.name, subset.category) for subset in SUBSETS), ("", ""))
"""Subset and category of each row of the paper's tables by subset, the whole last."""
SPLITS: Final = (4578, 726, 723)
"""Train, validation and test of the whole."""
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
