"""Look up settings, language pairs, coverage and data size for UNPIE's tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.results import Key, Results, Source
from pipelines.benchmarks.tables import TableValue
from pipelines.benchmarks.unpie.aggregate import KINDS
from pipelines.benchmarks.unpie.column_map import LANGUAGES

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


@dataclass(frozen=True, slots=True)
class UnpieResults:
    """The numbers of one report."""

    results: Results

    def models(self, source: Source = "ours") -> list[str]:
        """Return the models of a source."""
        return self.results.models(source)

    def find(self, key: Key, source: Source = "ours") -> TableValue | None:
        """Return one number; None where there is no such row."""
        return self.results.find(key, source)

    def value(self, key: Key, source: Source = "ours") -> float | None:
        """Return one number without its interval."""
        return self.results.value(key, source)

    def has_low_coverage(self, model: str, task: str, setting: str) -> bool:
        """Return whether too many of our requests are excluded for a comparison with the published."""
        shares = [
            self.value(Key("coverage", task, setting, subset, category, model))
            for subset in ("", *PAIRS.get(task, ()))
            for category in ("", *KINDS)
        ]
        return any(share is not None and share < MIN_COVERAGE for share in shares)

    def subset_notes(self, task: str) -> tuple[str, ...]:
        """Return the notes of tables where ours is not the full set."""
        full = _FULL_SET[task]
        return tuple(
            f"subset: {size:,} of {full:,} requests; not comparable with the published full-set values"
            for size in self.results.sizes(lambda key: key.of("", "") == Key("coverage", task))
            if size < full
        )
