"""Human baseline of VAGUE: the published one (one person, 400 unnamed items), and files with people's choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    HumanBaseline,
    HumanInputs,
    HumanKind,
    HumanLevel,
    csv_rows,
    human_prediction,
    unique_rows,
)
from pipelines.benchmarks.people.comparison import paired_metrics, people_table, shared_rows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table
from pipelines.benchmarks.vague.facts import HUMAN_ITEMS, HUMAN_LISTED, HUMAN_SUBSETS, SETTINGS
from pipelines.benchmarks.vague.prompts import LETTERS
from pipelines.benchmarks.vague.results import ERRORS, HUMAN, mcq_key

_TASK: Final = "mcq"
_SETTING: Final = "vlm"  # people see the picture
_ITEM: Final = "image_name"
_COLUMNS: Final = (_ITEM, "annotator", "letter")
_PEOPLE_COLUMNS: Final[Mapping[str, Key]] = {
    "Accuracy": Key("accuracy", _TASK),
    "Correct": Key("count_correct", _TASK),
    **{head: Key(metric, _TASK) for metric, head in ERRORS.items()},
}


class VagueHumanBaseline(HumanBaseline):
    """Accuracy of one person, and comparisons with the people of the files."""

    kinds: ClassVar[tuple[HumanKind, ...]] = (
        HumanKind(
            name="choices",
            columns=_COLUMNS,
            about="A person's choice, A to D, among the readings of an item in the order as distributed.",
        ),
    )

    agreement_headings: ClassVar[Mapping[str, str]] = {_TASK: "Choices"}

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return the person's accuracy, for the listed items or those that stand in for them, then for own items."""
        subsets = {key.subset for key in results.ours}
        return [
            HumanLevel(
                task=_TASK,
                metric=metric,
                subset=subset,
                settings=("vlm", "vlm-cot"),
                value=results.value(mcq_key(metric, _SETTING, HUMAN, HUMAN_LISTED), "published"),
                n=HUMAN_ITEMS,
                chance=0.25 if metric == "accuracy" else None,
                items="same" if subset == HUMAN_LISTED else "approximate",
                tables=("Table 2",) if metric == "accuracy" else (),
                drawn=("vlm",) if metric == "accuracy" else (),
                printed_subset=HUMAN_LISTED,
                source="Table 2: one person, 400 items; 374 of the 398 answers counted",
            )
            for subset in HUMAN_SUBSETS
            if subset in subsets
            for metric in ("accuracy", *ERRORS, "count_correct", "count_invalid")
        ]

    def check(self, _kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Check letters, duplicates, and that every item is in the data set."""
        for line, row in _choices(text):
            if row[_ITEM] not in samples:
                raise ValueError(f"line {line}: the data has no item {row[_ITEM]!r}")

    def predictions(self, _kind: str, text: str, /) -> list[dict[str, str]]:
        """Return choices as answers of `mcq` with the picture."""
        return [
            human_prediction(
                "vague", row["annotator"], row["letter"], task=_TASK, setting=_SETTING, sample_id=row[_ITEM]
            )
            for _, row in _choices(text)
        ]

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compute accuracy in each setting on the items that people answered, with the paired gap."""
        scores, people = inputs.scores, inputs.people
        metrics: list[Metric] = []
        for setting in (name for name in SETTINGS if (scores["setting"] == name).any()):
            rows = shared_rows(scores[scores["setting"] == setting], people, "correct", task=_TASK)
            metrics += paired_metrics(rows, Key("accuracy", _TASK, setting))
        return metrics

    def display(
        self, _files: Mapping[str, str], _scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build the table of people's accuracy and error types."""
        return people_table("vague", "VAGUE", results, _PEOPLE_COLUMNS, SETTINGS), ()


def _choices(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows by line; ValueError for another letter or a second choice of one person."""
    for line, row in unique_rows(csv_rows(text, _COLUMNS), (_ITEM,), "annotator"):
        if row["letter"] not in LETTERS:
            raise ValueError(f"line {line}: letter is {row['letter']!r}, expected A, B, C or D")
        yield line, row


HUMAN_BASELINE: Final = VagueHumanBaseline()
