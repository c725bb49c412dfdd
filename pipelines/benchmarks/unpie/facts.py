"""UNPIE: kinds of pun, settings and language pairs, and what tables look up: coverage and the size of the data."""

from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.layout import View, coverage_notes
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.unpie.column_map import LANGUAGES

KINDS: Final = ("Homo", "Hetero")
ALL: Final = "All"  # category of the mean of both kinds; the pooled value has category ''
TYPES: Final[Mapping[str, str]] = {"lm": "LM", "sm": "SM", "vlm": "VLM"}  # settings in the paper's order and words
INPUTS: Final[Mapping[str, str]] = {"lm": "L", "sm": "V+L", "vlm": "V+L"}
PAIRS: Final[Mapping[str, tuple[str, ...]]] = {
    "disambiguation": tuple(f"En-{lang.capitalize()}" for lang in LANGUAGES),
    "reconstruction": tuple(f"{lang.capitalize()}-En" for lang in LANGUAGES),
}
HEADLINES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "grounding": ("exact_match", ("",)),
    "disambiguation": ("accuracy", PAIRS["disambiguation"]),
    "reconstruction": ("correct_pct", PAIRS["reconstruction"]),
}
"""Task -> headline metric and subsets."""
MIN_COVERAGE: Final = 0.99  # share of requests that must not be excluded for ours to be compared with the published
_FULL_SET: Final[Mapping[str, int]] = {"grounding": 1000, "disambiguation": 6000, "reconstruction": 6000}


def has_low_coverage(view: View) -> bool:
    """Return whether too many of a model's requests are excluded for a comparison with the published."""
    _, task, setting, *_, model = view.key
    shares = [
        view.results.value(Key("coverage", task, setting, subset, category, model))
        for subset in ("", *PAIRS.get(task, ()))
        for category in ("", *KINDS)
    ]
    return any(share is not None and share < MIN_COVERAGE for share in shares)


def subset_notes(results: Results, task: str) -> tuple[str, ...]:
    """Return the notes of tables where ours is not the full set."""
    sizes = results.sizes(lambda key: key.of("", "") == Key("coverage", task))
    words = "subset: {size:,} of {full:,} requests; not comparable with the published full-set values"
    return coverage_notes(sizes, _FULL_SET[task], words)
