"""V-FLUTE beside people: two of them labelled 99 rows that are not named; own labels and judgements come from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    SAME_ITEMS,
    HumanBaseline,
    HumanKind,
    HumanLevel,
    csv_rows,
    gap_metric,
    human_metric,
)
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.tables import Table
from pipelines.benchmarks.vflute.f1_bootstrap import Bools, MetricSpec, intervals, macro
from pipelines.benchmarks.vflute.facts import LABELS, SETTINGS, SUBSETS, TASK
from pipelines.benchmarks.vflute.judgement_study import study_of
from pipelines.benchmarks.vflute.scored_rows import SettingRows
from pipelines.benchmarks.vflute.study_tables import study_figures, study_tables
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd
import math
from typing import TYPE_CHECKING

from pipelines.benchmarks.human import ANNOTATOR
from pipelines.benchmarks.vflute.f1_bootstrap import better_p, f1_measure
from pipelines.benchmarks.vflute.judgement_study import csv_rows as study_csv_rows
from pipelines.metrics.f1 import macro_f1, macro_f1_statistic
from pipelines.metrics.stats import paired_bootstrap_ci

if TYPE_CHECKING:
    import pandas as pd

_F1: Final = "f1_at_0"
_LABELLED: Final = 99
_SOURCE: Final = "Table 7: mean of two people, 99 test rows that are not named"


class VflutePeople(HumanBaseline):
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
            found += _beside_mean(SettingRows.of(scores, str(setting), samples), list(given.values()))
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


def _beside_mean(cell: SettingRows, people: Sequence[Mapping[str, str]]) -> Iterator[Metric]:
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
        MetricSpec(name=name, columns=tuple(columns), statistic=lambda *sums, part=part: _mean_f1(sums, part))
        for part, name in enumerate((_F1, human_metric(_F1), gap_metric(_F1)))
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


_LABEL_COLUMNS: Final = ("id", "annotator", "label")


def labels_as_predictions(text: str) -> list[dict[str, str]]:
    """People's labels as rows of a predictions file, a model an annotator; scored as labels without explanations.

    Args:
        text: CSV with columns id, annotator, label.

    Raises:
        ValueError: a column or a value is missing or wrong, or an annotator labels an item twice.
    """
    return [
        {
            "benchmark": "vflute",
            "model": f"{ANNOTATOR}{who}",
            "task": TASK,
            "setting": "label-only",
            "sample_id": item,
            "variant": "",
            "output": label,
        }
        for who, given in _labels(text).items()
        for item, label in given.items()
    ]


def human_f1(text: str, samples: Mapping[str, Sample]) -> list[Metric]:
    """Macro F1 of labels by annotator, and its mean over annotators, for the whole and each subset.

    Args:
        text: CSV with columns id, annotator, label.
        samples: by id.

    Returns:
        Metrics `f1_at_0` of setting '', n being the items that anyone labelled.

    Raises:
        ValueError: as for `labels_as_predictions`, or an item that is not among the samples.
    """
    labels = _known(_labels(text), samples)
    return [
        Metric(task=TASK, setting="", subset=subset, category=category, metric="f1_at_0", value=value, n=n)
        for subset, category in (("", ""), *((one.name, one.category) for one in SUBSETS))
        for value, n in [_label_mean_f1(labels, samples, subset)]
        if value is not None
    ]


def against_humans(text: str, scores: pd.DataFrame, samples: Mapping[str, Sample], setting: str) -> list[Metric]:
    """One model beside each annotator on the annotator's own rows.

    Args:
        text: CSV with columns id, annotator, label.
        scores: of the model, as `Benchmark.reduce` takes them.
        samples: by id.
        setting: of the model.

    Returns:
        For each annotator A: `f1_at_0_on_rows_of_A` and `f1_at_0_of_A`; `gap_to_A`, with the paired interval over
        pictures; `p_A_is_better`. All None where explanations were not scored.

    Raises:
        ValueError: as for `human_f1`.
    """
    cell = SettingRows.of(scores, setting, samples)
    found = []
    for who, given in _known(_labels(text), samples).items():
        own = cell.of_rows(np.array([name in given for name in cell.ids], dtype=np.bool_))
        found += _beside(own, who, given)
    return found


def _beside(cell: SettingRows, who: str, given: Mapping[str, str]) -> list[Metric]:
    at_0 = cell.right_at(0)
    if not len(cell.ids) or at_0.unknown.any():
        why = "explanations were not scored" if len(cell.ids) else "no row in common"
        names = (f"f1_at_0_on_rows_of_{who}", f"f1_at_0_of_{who}", f"gap_to_{who}", f"p_{who}_is_better")
        return [
            Metric(task=TASK, setting=cell.setting, metric=name, value=None, n=len(cell.ids), note=why)
            for name in names
        ]
    gold = cell.entailment.astype(np.int64)
    human = np.array([LABELS[given[name]] for name in cell.ids])
    model = np.where(at_0.right, gold, 1 - gold)
    ends = paired_bootstrap_ci(model, human, list(cell.cluster), statistic=macro_f1_statistic(gold.tolist()))
    ours = f1_measure("", cell.entailment, at_0.right).value
    theirs = macro_f1(gold.tolist(), human.tolist())
    p = better_p(cell.entailment, human == gold, at_0.right)

    def metric(name: str, value: float | None, low: float | None = None, high: float | None = None) -> Metric:
        return Metric(
            task=TASK,
            setting=cell.setting,
            metric=name,
            value=value,
            n=len(cell.ids),
            n_failed=int(cell.failed.sum()),
            ci_low=low,
            ci_high=high,
        )

    gap = None if ours is None else ours - theirs
    return [
        metric(f"f1_at_0_on_rows_of_{who}", ours),
        metric(f"f1_at_0_of_{who}", theirs),
        metric(f"gap_to_{who}", gap, ends.low if ends else None, ends.high if ends else None),
        metric(f"p_{who}_is_better", p),
    ]


def _label_mean_f1(
    labels: Mapping[str, Mapping[str, str]], samples: Mapping[str, Sample], subset: str
) -> tuple[float | None, int]:
    values, items = [], set[str]()
    for given in labels.values():
        own = [name for name in given if not subset or samples[name].subset == subset]
        items.update(own)
        if own:
            gold = [LABELS[samples[name].data["label"]] for name in own]
            values.append(macro_f1(gold, [LABELS[given[name]] for name in own]))
    return (math.fsum(values) / len(values) if values else None), len(items)


def _labels(text: str) -> dict[str, dict[str, str]]:
    """Annotator -> item -> label."""
    found: dict[str, dict[str, str]] = {}
    for line, row in study_csv_rows(text, _LABEL_COLUMNS):
        if row["label"] not in LABELS:
            raise ValueError(f"line {line}: label is {row['label']!r}, wanted entailment or contradiction")
        own = found.setdefault(row["annotator"], {})
        if row["id"] in own:
            raise ValueError(f"line {line}: {row['annotator']!r} labels {row['id']!r} twice")
        own[row["id"]] = row["label"]
    return found


def _known(labels: dict[str, dict[str, str]], samples: Mapping[str, Sample]) -> dict[str, dict[str, str]]:
    unknown = [name for given in labels.values() for name in given if name not in samples]
    if unknown:
        raise ValueError(f"no sample has the id {unknown[0]!r}")
    return labels
