"""Differences between MAIA's inputs: 32 frames minus one frame and minus the black clip, for the whole and categories.

Both sides are measured on the same questions, and resampled together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.results import CATEGORY_HEADS, SETTING_HEADS, MaiaResults
from pipelines.benchmarks.results import Key, filled, section
from pipelines.benchmarks.tables import Table, TableRow

FULL: Final = "32-frames"
BASELINES: Final[Mapping[str, str]] = {"1-frame": "1_frame", "black-video": "black_video"}
MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "statement": ("vsv", "Statement accuracy"),
    "pool": ("vsv", "Pool accuracy"),
    "oevqa": ("oevqa", "Accuracy of open answers"),
}
"""Measure -> task and words."""


def gain_key(measure: str, baseline: str) -> Key:
    """Return the key of a measure's gain at 32 frames over a baseline setting."""
    return Key(f"{measure}_gain_over_{BASELINES[baseline]}", MEASURES[measure][0], FULL)


def gain_table(maia: MaiaResults) -> Table:
    """Lay out the gains of our models by category."""
    rows: list[TableRow] = []
    for baseline in BASELINES:
        for measure, (_, label) in MEASURES.items():
            key = gain_key(measure, baseline)
            lines = (
                TableRow(
                    label=model,
                    cells=tuple(maia.find(key.of(model)._replace(category=name)) for name in ("", *COLUMNS)),
                )
                for model in maia.models_of(key, [FULL])
            )
            heads = f"{SETTING_HEADS[FULL]} \N{MINUS SIGN} {SETTING_HEADS[baseline]}"
            rows += section(f"{label}: {heads}", filled(lines))
    return Table(
        id="maia_category_deltas",
        title="MAIA: differences between inputs by category",
        columns=("Avg.", *CATEGORY_HEADS),
        rows=tuple(rows),
        notes=(
            "With the 95% interval of the paired difference: both sides are resampled together, by video.",
            *maia.subset_notes(),
        ),
    )
