"""Look up our numbers and the published ones, for MAIA's tables and figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.human import ANNOTATOR
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.results import Key, Results, Source
from pipelines.benchmarks.tables import TableValue

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
CATEGORY_HEADS: Final = tuple(name if name == "Out-of-Scope" else name.replace("-", " ") for name in COLUMNS)
FULL_SET: Final = 2400  # questions behind the published numbers


@dataclass(frozen=True, slots=True)
class MaiaResults:
    """The numbers of one report, with annotators apart from models."""

    results: Results

    def models(self, source: Source = "ours") -> list[str]:
        """Return the models without annotators."""
        return [model for model in self.results.models(source) if not model.startswith(ANNOTATOR)]

    def find(self, key: Key, source: Source = "ours") -> TableValue | None:
        """Return one number; None where there is no such row."""
        return self.results.find(key, source)

    def models_of(self, key: Key, settings: Collection[str], source: Source = "ours") -> list[str]:
        """Return the models with a row of this metric in one of the settings, in the order of these rows."""
        models = [
            row.model
            for row in self.results.index(source)
            if row.setting in settings and row.of("", "") == key.of("", "")
        ]
        return [model for model in dict.fromkeys(models) if not model.startswith(ANNOTATOR)]

    def subset_notes(self) -> tuple[str, ...]:
        """Return the notes of tables where ours is not the full set."""
        sizes = self.results.sizes(
            lambda key: key.of("", "") in (POOLS, OEVQA, AGG) and not key.model.startswith(ANNOTATOR)
        )
        return tuple(
            f"subset: {size:,} of {FULL_SET:,} questions; not comparable with the published full-set values"
            for size in sizes
            if size < FULL_SET
        )
