"""V-FLUTE beside people: two of them labelled 99 rows that are not named; own labels and judgements come from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pipelines.benchmarks.base import Metric, Sample
from pipelines.benchmarks.human import SAME_ITEMS, HumanKind, HumanLevel, People, csv_rows, gap_of, of_people
from pipelines.benchmarks.tables import Figure, Table
from pipelines.benchmarks.vflute.f1_bootstrap import Bools, Measure, intervals, macro
from pipelines.benchmarks.vflute.facts import LABELS, SETTINGS, SUBSETS, TASK
from pipelines.benchmarks.vflute.human_scores import against_humans, labels_as_predictions
from pipelines.benchmarks.vflute.judgement_study import study_of
from pipelines.benchmarks.vflute.scored_rows import Cell
from pipelines.benchmarks.vflute.study_tables import study_figures, study_tables
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

_F1: Final = "f1_at_0"
_LABELLED: Final = 99
_SOURCE: Final = "Table 7: mean of two people, 99 test rows that are not named"


class VflutePeople(People):
    """See the module's docstring."""

    kinds: ClassVar[tuple[HumanKind, ...]] = (
        HumanKind(
            name="labels",
            columns=("id", "annotator", "label"),
            about="A person's label of a row: entailment or contradiction.",
        ),
        HumanKind(
            name="judgements",
            columns=("id", "system", "annotator", "adequate", "error_type", "preferred"),
            about=(
                "A person's judgement of a model's explanation: adequate and preferred are 0 or 1; where adequate is 0,"
                " error_type is hallucination, unsound, incomplete or verbosity, else it is empty. Two people judge"
                " every explanation. The system is a model's name, or model/setting."
            ),
        ),
    )

    def levels(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[HumanLevel]:
        """Macro F1 of labels, for the whole and each subset."""
        del metrics
        human = published[(published["table"] == "Table 7") & (published["model"] == "Human")]
        found = []
        for subset, category in (("", ""), *((one.name, one.category) for one in SUBSETS)):
            own = human[(human["subset"] == subset) & (human["metric"] == _F1)]
            found.append(
                HumanLevel(
                    task=TASK,
                    metric=_F1,
                    subset=subset,
                    category=category,
                    settings=tuple(name for name in SETTINGS if name != "no-image"),
                    value=float(own["value"].iloc[0]) if len(own) else None,
                    n=None if subset else _LABELLED,
                    chance_metric="chance_f1_at_0",
                    items="approximate",
                    drawn=() if subset else ("zero-shot",),
                    tables=("Table 7",),
                    source=_SOURCE,
                )
            )
        return found

    def check(self, kind: str, text: str, samples: Mapping[str, Sample]) -> None:
        """Labels and marks are what they may be, nothing comes twice, and every row is one of the data set's."""
        if kind == "labels":
            labels_as_predictions(text)
        else:
            study_of(text)
        for line, row in csv_rows(text, ("id",)):
            if row["id"] not in samples:
                raise ValueError(f"line {line}: the data has no row {row['id']!r}")

    def predictions(self, kind: str, text: str) -> list[dict[str, str]]:
        """Labels, scored as labels without explanations; judgements are none."""
        return labels_as_predictions(text) if kind == "labels" else []

    def metrics(
        self,
        scores: pd.DataFrame,
        samples: Mapping[str, Sample],
        files: Mapping[str, str],
        people: Mapping[str, pd.DataFrame],
    ) -> list[Metric]:
        """One model beside each annotator, and beside their mean, on the rows that they labelled."""
        del people
        if "labels" not in files:
            return []
        given: dict[str, dict[str, str]] = {}
        for row in labels_as_predictions(files["labels"]):
            if row["sample_id"] in samples:
                given.setdefault(row["model"], {})[row["sample_id"]] = row["output"]
        known = "\n".join(
            ["id,annotator,label"]
            + [_line(name, who.partition(":")[2], label) for who, own in given.items() for name, label in own.items()]
        )
        found: list[Metric] = []
        for setting in dict.fromkeys(scores["setting"]):
            found += against_humans(known, scores, samples, str(setting))
            found += _beside_mean(Cell.of(scores, str(setting), samples), list(given.values()))
        return found

    def marks(self, scores: pd.DataFrame, files: Mapping[str, str]) -> Mapping[str, float]:
        """Explanation scores of the judged rows, by setting and id."""
        if "judgements" not in files or "es" not in scores:
            return {}
        judged = {row["id"] for _, row in csv_rows(files["judgements"], ("id",))}
        own = scores[scores["sample_id"].isin(judged) & (scores["status"] == "ok")].dropna(subset=["es"])
        keys = zip(own["setting"], own["sample_id"], strict=True)
        return {f"{setting}/{name}": float(value) for (setting, name), value in zip(keys, own["es"], strict=True)}

    def display(
        self, files: Mapping[str, str], marks: Mapping[str, Mapping[str, float]], published: pd.DataFrame
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Table 6, section 5.3 and figure 7 from own judgements."""
        del published
        if "judgements" not in files:
            return (), ()
        scores: dict[tuple[str, str], float] = {}
        for model, own in marks.items():
            for setting in reversed(SETTINGS):  # so that the first setting has the last word on the bare name
                for key, value in own.items():
                    where, _, name = key.partition("/")
                    if where == setting:
                        scores[name, f"{model}/{setting}"] = scores[name, model] = value
        study = study_of(files["judgements"], scores)
        return study_tables(study), study_figures(study)


def _line(*values: str) -> str:
    return ",".join('"' + value.replace('"', '""') + '"' for value in values)


def _beside_mean(cell: Cell, people: Sequence[Mapping[str, str]]) -> Iterator[Metric]:
    """F1@0 of the model and of people, means over annotators on the rows of each, and the gap between them."""
    asked = cell.of_rows(np.array([any(name in own for own in people) for name in cell.ids], dtype=np.bool_))
    at_0 = asked.right_at(0)
    if not len(asked.ids) or at_0.unknown.any():
        return
    gold = asked.entailment
    columns: list[Bools] = []
    for own in people:
        inside = np.array([name in own for name in asked.ids], dtype=np.bool_)
        human = inside & np.array([LABELS[own[n]] == 1 if n in own else False for n in asked.ids], dtype=np.bool_)
        right = inside & (human == gold)
        columns += [at_0.right & inside & gold, at_0.right & inside & ~gold, right & gold, right & ~gold, inside]
    measures = [
        Measure(name=name, columns=tuple(columns), statistic=lambda *sums, part=part: _mean_f1(sums, part))
        for part, name in enumerate((_F1, of_people(_F1), gap_of(_F1)))
    ]
    for measure, ends in zip(measures, intervals(measures, asked.cluster), strict=True):
        yield Metric(
            task=TASK,
            setting=cell.setting,
            subset=SAME_ITEMS,
            metric=measure.name,
            value=measure.value,
            n=len(asked.ids),
            n_failed=int(asked.failed.sum()),
            ci_low=ends.low if ends else None,
            ci_high=ends.high if ends else None,
        )


def _mean_f1(sums: Sequence[FloatArray], part: int) -> FloatArray:
    """Of the five sums an annotator: the model's mean F1, people's, or the first minus the second."""
    groups = [sums[start : start + 5] for start in range(0, len(sums), 5)]
    model = np.stack([macro(e, c, rows) for e, c, _, _, rows in groups]).mean(axis=0)
    people = np.stack([macro(e, c, rows) for _, _, e, c, rows in groups]).mean(axis=0)
    found: FloatArray = (model, people, model - people)[part]
    return found


PEOPLE: Final = VflutePeople()
