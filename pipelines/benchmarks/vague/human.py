"""VAGUE beside people: one person read 400 items with their pictures; which items is published nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pipelines.benchmarks.human import HumanBaseline, HumanLevel
from pipelines.benchmarks.vague.facts import HUMAN_SUBSETS, SIZES
from pipelines.benchmarks.vague.results import HUMAN

if TYPE_CHECKING:
    import pandas as pd


class VaguePeople(HumanBaseline):
    """See the module's docstring."""

    def levels(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[HumanLevel]:
        """The person's accuracy, for the listed items or those that stand in for them."""
        printed = published[(published["model"] == HUMAN) & (published["metric"] == "accuracy")]
        value = float(printed["value"].iloc[0]) if len(printed) else None
        there = set(metrics["subset"])
        return [
            HumanLevel(
                task="mcq",
                metric="accuracy",
                subset=subset,
                settings=("vlm", "vlm-cot"),
                value=value,
                n=SIZES[HUMAN_SUBSETS[0]],
                chance=0.25,
                items="same" if subset == HUMAN_SUBSETS[0] else "approximate",
                tables=("Table 2",),
                drawn=("vlm",),
                printed_subset=HUMAN_SUBSETS[0],
                source="Table 2: one person, 400 items; 374 of the 398 answers counted",
            )
            for subset in HUMAN_SUBSETS
            if subset in there
        ]


PEOPLE: Final = VaguePeople()
