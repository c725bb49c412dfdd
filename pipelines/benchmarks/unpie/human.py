"""UNPIE beside people: nobody did its tasks, but people can say which outputs of models are right.

Such labels check the verdicts that stand for them (the paper's Tables 8 and 9).
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
_NOBODY: Final = "no human score on this task is published"


class UnpiePeople(HumanBaseline):
    """See the module's docstring."""

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
            source=_NOBODY,
        )
        return [
            grounding,
            *(_level("disambiguation", "accuracy", pair, 0.5, "Table 5") for pair in PAIRS["disambiguation"]),
            *(_level("reconstruction", "correct_pct", pair, None, "Table 6") for pair in PAIRS["reconstruction"]),
        ]

    def check(self, _kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Every row names an output that there can be, once, and says 0 or 1."""
        seen: set[tuple[str, ...]] = set()
        for line, row in _rows(text):
            if row["human"] not in ("0", "1"):
                raise ValueError(f"line {line}: human is {row['human']!r}, wanted 0 or 1")
            if row["sample_id"] not in samples:
                raise ValueError(f"line {line}: the data has no sample {row['sample_id']!r}")
            if row["setting"] not in _SETTINGS.get(row["task"], ()):
                raise ValueError(
                    f"line {line}: setting {row['setting']!r} of task {row['task']!r}: wanted the task disambiguation "
                    "with sm or vlm, or reconstruction with lm, sm or vlm"
                )
            key = tuple(row[name] for name in ("task", "setting", "sample_id", "variant", "model"))
            if key in seen:
                raise ValueError(f"line {line}: a second label for {'/'.join(key)}; keep one")
            seen.add(key)

    def with_labels(self, scores: pd.DataFrame, files: Mapping[str, str], model: str, /) -> pd.DataFrame:
        """The scores with the column `human` of the file; labels that came with predictions stay where it has none."""
        if "labels" not in files:
            return scores
        labels = {
            (row["task"], row["setting"], row["sample_id"], row["variant"]): float(row["human"])
            for _, row in _rows(files["labels"])
            if row["model"] == model
        }
        keys = zip(*(scores[name] for name in ("task", "setting", "sample_id", "variant")), strict=True)
        found = [labels.get(key) for key in keys]
        made = scores.copy()
        earlier = made["human"] if "human" in made else [None] * len(made)
        made["human"] = [old if new is None else new for new, old in zip(found, earlier, strict=True)]
        made["human"] = made["human"].astype("float64")
        return made


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
        source=_NOBODY,
    )


def _rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows with their task; only reconstruction is asked without a picture."""
    for line, row in csv_rows(text, _COLUMNS, optional=("task",)):
        yield line, {**row, "task": row["task"] or ("reconstruction" if row["setting"] == "lm" else "")}


HUMAN_BASELINE: Final = UnpiePeople()
