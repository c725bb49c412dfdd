"""Human baseline of VAGUE: one person answered 400 items with their pictures; which items is unpublished."""

from __future__ import annotations

from typing import Final

from pipelines.benchmarks.human import HumanBaseline, HumanLevel
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.vague.facts import HUMAN_ITEMS, HUMAN_LISTED, HUMAN_SUBSETS
from pipelines.benchmarks.vague.results import HUMAN, mcq_key


class VagueHumanBaseline(HumanBaseline):
    """Accuracy of one person."""

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return the person's accuracy, for the listed items or those that stand in for them."""
        human = results.value(mcq_key("accuracy", "vlm", HUMAN, HUMAN_LISTED), "published")
        subsets = {key.subset for key in results.ours}
        return [
            HumanLevel(
                task="mcq",
                metric="accuracy",
                subset=subset,
                settings=("vlm", "vlm-cot"),
                value=human,
                n=HUMAN_ITEMS,
                chance=0.25,
                items="same" if subset == HUMAN_LISTED else "approximate",
                tables=("Table 2",),
                drawn=("vlm",),
                printed_subset=HUMAN_LISTED,
                source="Table 2: one person, 400 items; 374 of the 398 answers counted",
            )
            for subset in HUMAN_SUBSETS
            if subset in subsets
        ]


HUMAN_BASELINE: Final = VagueHumanBaseline()
