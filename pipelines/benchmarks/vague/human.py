"""VAGUE beside people: one person read 400 items with their pictures; which items is published nowhere."""

from __future__ import annotations

from typing import Final

from pipelines.benchmarks.human import HumanBaseline, HumanLevel
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.vague.facts import HUMAN_SUBSETS, SIZES
from pipelines.benchmarks.vague.results import HUMAN


class VaguePeople(HumanBaseline):
    """See the module's docstring."""

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """The person's accuracy, for the listed items or those that stand in for them."""
        printed = (n.value for key, n in results.published.items() if (key.model, key.metric) == (HUMAN, "accuracy"))
        human = next(printed, None)
        subsets = {key.subset for key in results.ours}
        return [
            HumanLevel(
                task="mcq",
                metric="accuracy",
                subset=subset,
                settings=("vlm", "vlm-cot"),
                value=human,
                n=SIZES[HUMAN_SUBSETS[0]],
                chance=0.25,
                items="same" if subset == HUMAN_SUBSETS[0] else "approximate",
                tables=("Table 2",),
                drawn=("vlm",),
                printed_subset=HUMAN_SUBSETS[0],
                source="Table 2: one person, 400 items; 374 of the 398 answers counted",
            )
            for subset in HUMAN_SUBSETS
            if subset in subsets
        ]


HUMAN_BASELINE: Final = VaguePeople()
