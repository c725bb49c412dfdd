"""People next to models: paired values, their own values and agreement, and whether a judge may replace them."""

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    SAME_ITEMS,
    HumanBaseline,
    HumanInputs,
    OutputKey,
    Reduce,
    gap_metric,
    human_metric,
)
from pipelines.benchmarks.metrics_kernel.definitions import MetricDef
from pipelines.benchmarks.metrics_kernel.definitions import mean_of as mean_estimate
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.records import JUDGE_AGREEMENT, Metric, Sample, person_name
from pipelines.benchmarks.results import Key, Results, filled, mean_of, with_interval
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.metrics.agreement import agreement_interval, cohen_kappa, krippendorff_alpha

Answers: TypeAlias = Mapping[str, Mapping[Any, Hashable]]  # annotator -> item -> answer
T = TypeVar("T")
_SHARED: Final = ("annotator", "sample_id", "variant", "cluster", "model", "person")


def shared_rows(
    scores: pd.DataFrame, people: Mapping[str, pd.DataFrame], value: str, *, task: str, setting: str = ""
) -> pd.DataFrame:
    """Return the rows that a model and people have a value of, one row per annotator and request.

    Args:
        scores: the model's rows of one setting.
        people: annotator -> scores.
        value: the column that is compared.
        task: the task of both sides.
        setting: the setting that people answered; '' for any.

    Returns:
        Columns annotator, sample_id, variant, cluster, model and person, the last two being the values.
    """
    keys = ["sample_id", "variant"]
    frames = []
    model_rows = scores[(scores["task"] == task) & (scores["status"] == "ok")]
    for annotator, frame in people.items():
        human_rows = frame[(frame["task"] == task) & (frame["status"] == "ok")]
        if setting:
            human_rows = human_rows[human_rows["setting"] == setting]
        if value not in model_rows or value not in human_rows or model_rows.empty or human_rows.empty:
            continue
        left = model_rows[[*keys, "cluster", value]].rename(columns={value: "model"})
        shared = left.merge(human_rows[[*keys, value]].rename(columns={value: "person"}), on=keys)
        frames.append(shared.dropna(subset=["model", "person"]).assign(annotator=annotator))
    frames = [frame for frame in frames if not frame.empty]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=_SHARED)


def paired_metrics(rows: pd.DataFrame, key: Key, parts: Sequence[NDArray[np.bool_]] = ()) -> list[Metric]:
    """Return the model's value, people's, and the gap, from `shared_rows`; n counts people's answers, which are pooled.

    `key` names task, setting, metric and category; the subset is that of people's items. With `parts`, masks of rows,
    values are the mean over parts; a part without rows leaves no metric.
    """
    masks = list(parts) or [np.ones(len(rows), dtype=np.bool_)]
    if not all(mask.any() for mask in masks):
        return []
    labels = {"task": key.task, "setting": key.setting, "subset": SAME_ITEMS, "category": key.category}
    every = ScoredRows.of(rows.assign(status="ok"), **labels)
    model, person = (
        mean_estimate([MetricDef(name=key.metric, value=side).estimate(every.where(mask)) for mask in masks])
        for side in ("model", "person")
    )
    gap = model.minus(person, metric=gap_metric(key.metric))
    return [
        model.with_interval(),
        replace(person.with_interval(), metric=human_metric(key.metric)),
        gap.with_interval(),
    ]


def mean_metrics(runs: Sequence[Sequence[Metric]]) -> list[Metric]:
    """Return the mean of every metric over runs or people, without intervals; None where one of them lacks it."""
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for metric in itertools.chain.from_iterable(runs):
        key = (metric.task, metric.setting, metric.subset, metric.category, metric.metric)
        groups.setdefault(key, []).append(metric)
    return [
        replace(
            same[0],
            value=mean_of([TableValue(value=metric.value) for metric in same]) if len(same) == len(runs) else None,
            ci_low=None,
            ci_high=None,
            note=same[0].note or ("" if len(same) == len(runs) else "not every run has it"),
        )
        for same in groups.values()
    ]


def people_table(
    name: str, title: str, results: Results, columns: Mapping[str, Key], settings: Iterable[str]
) -> list[Table]:
    """Return the table of people's own values, one row per person and setting, with intervals; none without people.

    `columns` maps heads to measures, whose settings are ignored; `settings` are those that people may have answered.
    """
    rows = filled(
        TableRow(
            label=f"{person_name(person)}, {setting}",
            cells=tuple(with_interval(results.find(key.of(person, setting))) for key in columns.values()),
            origin="human",
        )
        for setting in settings
        for person in results.annotators
    )
    if not rows:
        return []
    notes = (
        "Answers of the human files, scored by the same code as models' answers.",
        "In brackets the 95% interval over clusters of items that share media.",
    )
    return [
        Table(
            id=f"{name}_people",
            title=f"{title}: people's own answers",
            label_head="Person, setting",
            columns=tuple(columns),
            rows=tuple(rows),
            style="percent1",
            notes=notes,
        )
    ]


def parsed_answers(scores: pd.DataFrame, headings: Mapping[str, str]) -> dict[str, dict[Hashable, Hashable]]:
    """Return a person's answers as they were read, by name in the table of agreement; '' where nothing was read.

    `headings` maps the tasks to these names.
    """
    answers: dict[str, dict[Hashable, Hashable]] = {}
    answered = scores[(scores["status"] == "ok") & scores["task"].isin(list(headings))]
    keys = zip(*(answered[name] for name in ("task", "setting", "sample_id", "variant")), strict=True)
    for key, answer in zip(keys, answered["answer"], strict=True):
        answers.setdefault(headings[key[0]], {})[key] = answer if isinstance(answer, str) else ""
    return answers


def agreement_table(name: str, title: str, groups: Mapping[str, Answers]) -> list[Table]:
    """Return the table of agreement between people, one row per group of answers; none without a shared item."""
    rows = []
    for label, answers in groups.items():
        units = _units(answers)
        if units:
            items = list(dict.fromkeys(item for by_item in answers.values() for item in by_item))
            coefficients = (
                _coefficient(_same_share, units, least=0.0),
                _coefficient(partial(_kappa_of, answers), items),
                _coefficient(krippendorff_alpha, units),
            )
            cells = (len(answers), len(units), *coefficients)
            rows.append(TableRow(label=label, cells=cells, origin="human"))
    if not rows:
        return []
    return [
        Table(
            id=f"{name}_people_agreement",
            title=f"{title}: agreement of people",
            label_head="Answers",
            columns=("People", "Items", "Same answer", "Cohen's kappa", "Krippendorff's alpha"),
            rows=tuple(rows),
            style="fraction2",
            notes=(
                "Items: those that at least two people answered. Same answer: share of pairs of people, item by item.",
                "Cohen's kappa: of more than two people the mean over their pairs. Alpha: nominal.",
                "Intervals: 95%, over items.",
            ),
        )
    ]


def _coefficient(
    statistic: Callable[[Sequence[T]], float | None], items: Sequence[T], *, least: float = -1.0
) -> TableValue:
    interval = agreement_interval(statistic, items, least=least)
    return TableValue(
        value=statistic(items),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
    )


def _same_share(units: Sequence[Sequence[Hashable]]) -> float | None:
    pairs = [pair for values in units for pair in itertools.combinations(values, 2)]
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else None


def _kappa_of(answers: Answers, items: Sequence[Hashable]) -> float | None:
    chosen = frozenset(items)
    return light_kappa(
        {name: {item: by_item[item] for item in by_item if item in chosen} for name, by_item in answers.items()}
    )


def _units(answers: Answers) -> list[list[Hashable]]:
    """Return the answers of every item that at least two people answered."""
    units: dict[Hashable, list[Hashable]] = {}
    for by_item in answers.values():
        for item, answer in by_item.items():
            units.setdefault(item, []).append(answer)
    return [values for values in units.values() if len(values) > 1]


def light_kappa(answers: Answers) -> float | None:
    """Return Cohen's kappa of two people, of more the mean over pairs (Light 1971); None where none is defined."""
    kappas = []
    for first, second in itertools.combinations(answers.values(), 2):
        items = [item for item in first if item in second]
        if items:
            kappas.append(cohen_kappa([str(first[item]) for item in items], [str(second[item]) for item in items]))
    defined = [kappa for kappa in kappas if kappa is not None]
    return sum(defined) / len(defined) if defined else None


MARGIN: Final = 0.05  # by how much less than people a judge may agree with people
_LABELS: Final = ("task", "setting", "sample_id", "variant", "cluster")
Replaceable: TypeAlias = Literal["yes", "no", "undecided"]


def replacement_metrics(
    scores: pd.DataFrame, labels: Mapping[OutputKey, Mapping[str, float]], model: str
) -> list[Metric]:
    """Return agreement of judge and people by task and setting, from the answers that at least two people labelled.

    `judge_agreement` is the share of people's labels that the verdict equals, a mean over answers; `_of_people` the
    share of pairs of people with equal labels; `_minus_people` the difference, with an interval over clusters.
    """
    if "accepted" not in scores or not labels:
        return []
    judged = scores[scores["verdict_state"].isin(["ok", "invalid"]) & scores["accepted"].notna()]
    rows = [
        {
            **dict(zip(_LABELS, row, strict=False)),
            "model": fmean(vote == row[-1] for vote in votes),
            "person": fmean(first == second for first, second in combinations(votes, 2)),
        }
        for row in judged[[*_LABELS, "accepted"]].itertuples(index=False, name=None)
        if len(votes := [*labels.get((model, *row[:4]), {}).values()]) > 1
    ]
    metrics: list[Metric] = []
    for (task, setting), setting_rows in pd.DataFrame(rows).groupby(["task", "setting"], sort=False) if rows else ():
        shared = setting_rows.reset_index(drop=True)
        metrics += paired_metrics(shared, Key(JUDGE_AGREEMENT, str(task), str(setting)))
    return metrics


def may_replace(low: float | None, high: float | None, margin: float = MARGIN) -> Replaceable:
    """Return whether a judge agrees with people at most the margin less than people do, by the interval's ends."""
    if low is None or high is None:
        return "undecided"
    return "yes" if low > -margin else "no" if high < -margin else "undecided"


class FileBaseline(HumanBaseline):
    """Comparison and table that need no more than the names of measures."""

    title: ClassVar[str]
    measures: ClassVar[Mapping[Key, str]] = {}  # measure -> the column of scores that it is the mean of
    compared_settings: ClassVar[Sequence[str]] = ()  # of models; empty: all
    people_columns: ClassVar[Mapping[str, Key]]  # heads and measures of the table of people's own values
    people_settings: ClassVar[Sequence[str]]  # settings that people may have answered

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compute each measure in each setting on the rows that people answered, with the paired gap."""
        scores, metrics = inputs.scores, list[Metric]()
        for setting in self.compared_settings or map(str, dict.fromkeys(scores["setting"])):
            setting_scores = scores[scores["setting"] == setting]
            for key, value in self.measures.items():
                rows = shared_rows(setting_scores, inputs.people, value, task=key.task)
                metrics += self.compare(rows, key.of("", setting))
        return metrics

    def compare(self, rows: pd.DataFrame, key: Key) -> list[Metric]:
        """Return the metrics of one measure from `shared_rows`."""
        return paired_metrics(rows, key)

    def pooled(
        self, scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample], reduce: Reduce, /
    ) -> list[Metric]:
        """Return the metrics of all people together: each one's answers are rows of their own, of the same clusters."""
        frames: list[pd.DataFrame] = []
        renamed: dict[str, Sample] = {}
        for person, frame in scores.items():
            names = [f"{person}/{name}" for name in frame["sample_id"]]
            frames.append(frame.assign(sample_id=names))
            for name, sample in zip(names, map(samples.__getitem__, frame["sample_id"]), strict=True):
                renamed[name] = replace(sample, sample_id=name, cluster=sample.cluster or sample.sample_id)
        return reduce(pd.concat(frames, ignore_index=True), renamed)

    def display(
        self, _files: Mapping[str, str], _scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build the table of people's own values."""
        return people_table(self.name, self.title, results, self.people_columns, self.people_settings), ()
