"""UNPIE's human baseline: chance levels, and files with people's labels of model outputs.

No human result on the tasks is published; labels measure the agreement of our verdicts with people's (Tables 8 and 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pipelines.benchmarks.human import HumanBaseline, HumanKind, HumanLevel, csv_rows
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.unpie.aggregate import ALL
from pipelines.benchmarks.unpie.results import PAIRS

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS: Final = ("sample_id", "variant", "model", "setting", "human")
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "disambiguation": ("sm", "vlm"),
    "reconstruction": ("lm", "sm", "vlm"),
}
_UNPUBLISHED: Final = "no human score on this task is published"


class UnpieHumanBaseline(HumanBaseline):
    """Chance levels, and the one kind of label files."""

    kinds: ClassVar[tuple[HumanKind, ...]] = (
        HumanKind(
            name="labels",
            columns=_COLUMNS,
            optional=("task",),
            about=(
                "A person's 0 or 1 on one output of a model: the right translation (task disambiguation), or the same"
                " pun (task reconstruction). The column task may be left out where the setting is lm."
            ),
        ),
    )

    def reference_values(self, _results: Results, /) -> list[HumanLevel]:
        """Return chance only, for no human result on these tasks is published."""
        grounding = HumanLevel(
            task="grounding",
            metric="exact_match",
            category=ALL,
            chance_metric="random_exact_match",
            items="unpublished",
            drawn=("vlm",),
            source=_UNPUBLISHED,
        )
        return [
            grounding,
            *(_level("disambiguation", "accuracy", pair, 0.5, "Table 5") for pair in PAIRS["disambiguation"]),
            *(_level("reconstruction", "correct_pct", pair, None, "Table 6") for pair in PAIRS["reconstruction"]),
        ]

    def check(self, _kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Check that every row labels a possible output with 0 or 1, and none twice."""
        keys: set[tuple[str, ...]] = set()
        for line, row in _rows(text):
            if row["human"] not in ("0", "1"):
                raise ValueError(f"line {line}: human is {row['human']!r}, expected 0 or 1")
            if row["sample_id"] not in samples:
                raise ValueError(f"line {line}: the data has no sample {row['sample_id']!r}")
            if row["setting"] not in _SETTINGS.get(row["task"], ()):
                raise ValueError(
                    f"line {line}: setting {row['setting']!r} of task {row['task']!r}: expected disambiguation "
                    "with sm or vlm, or reconstruction with lm, sm or vlm"
                )
            key = tuple(row[name] for name in ("task", "setting", "sample_id", "variant", "model"))
            if key in keys:
                raise ValueError(f"line {line}: a second label for {'/'.join(key)}; keep one")
            keys.add(key)

    def with_labels(self, scores: pd.DataFrame, files: Mapping[str, str], model: str, /) -> pd.DataFrame:
        """Return the scores with the file's labels as column `human`; labels of the predictions remain elsewhere."""
        if "labels" not in files:
            return scores
        labels = {
            (row["task"], row["setting"], row["sample_id"], row["variant"]): float(row["human"])
            for _, row in _rows(files["labels"])
            if row["model"] == model
        }
        keys = zip(*(scores[name] for name in ("task", "setting", "sample_id", "variant")), strict=True)
        earlier = scores["human"] if "human" in scores else [None] * len(scores)
        human = [labels.get(key, old) for key, old in zip(keys, earlier, strict=True)]
        labelled = scores.assign(human=human)
        return labelled.astype({"human": "float64"})


def _level(task: str, metric: str, pair: str, chance: float | None, table: str) -> HumanLevel:
    return HumanLevel(
        task=task,
        metric=metric,
        subset=pair,
        category=ALL,
        chance=chance,
        items="unpublished",
        best_of=(table,),
        drawn=("vlm",),
        source=_UNPUBLISHED,
    )


def _rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows with their task: `lm` alone implies reconstruction."""
    for line, row in csv_rows(text, _COLUMNS, optional=("task",)):
        yield line, {**row, "task": row["task"] or ("reconstruction" if row["setting"] == "lm" else "")}


HUMAN_BASELINE: Final = UnpieHumanBaseline()
