"""Human baseline of V-FLUTE: the published one (99 rows, unknown which), and labels and judgements from files."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, TypeAlias

import numpy as np
import pandas as pd

from pipelines.benchmarks.figures import Bars, Cloud, Figure, Points, Series
from pipelines.benchmarks.human import (
    SAME_ITEMS,
    YES_NO,
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    HumanInputs,
    HumanKind,
    HumanLevel,
    HumanRow,
    Question,
    Reduce,
    gap_metric,
    human_metric,
)
from pipelines.benchmarks.metrics_kernel.definitions import mean_of, with_intervals
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.people import FileBaseline, mean_metrics
from pipelines.benchmarks.records import Metric, Row, Sample, person_name
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.benchmarks.vflute.answers import parse_as_authors
from pipelines.benchmarks.vflute.facts import GROUPS, HUMAN, LABELS, SETTINGS, SUBSETS, TASK
from pipelines.benchmarks.vflute.metrics import f1_metric, right_at, setting_rows
from pipelines.metrics.agreement import cohen_kappa
from pipelines.metrics.f1 import PrecisionRecall, koehn_p, precision_recall, precision_recall_curve

ERRORS: Final = {
    "hallucination": "Hallucination: it names what is not in the picture",
    "unsound": "Unsound: its reasons do not support the label",
    "incomplete": "Incomplete: it misses what matters",
    "verbosity": "Verbosity: it says much more than is needed",
}
"""Errors of an explanation, and how the form asks for them."""
RATES: Final = {"adequacy": "Adequate", "preference": "Preferred"}
_DEFINITIONS: Final = (
    "Adequate: of the explanations on which both agree. Preferred: of the items with one preference of both."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStudy:
    """Judgements of one system as fractions, None where there is nothing to divide by."""

    adequacy: float | None  # both find it adequate, of the items on which they agree
    preference: float | None  # both prefer it, of the items on which both prefer the same system or none
    kappa: float | None
    errors: Mapping[str, float]  # shares of errors among what both reject; {} where there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Judgements of all systems."""

    systems: Mapping[str, SystemStudy]
    items: int
    kappa: float | None  # mean over the systems with a value
    pr: PrecisionRecall | None
    """Of the explanation score, on all agreed judgements together; None without scores or without adequate ones."""
    curve: tuple[tuple[float, float], ...] = ()  # recall and precision at each threshold


_Judgements: TypeAlias = dict[tuple[str, str], dict[str, HumanRow]]
"""Item and system -> annotator -> judgement."""


def parse_study(text: str, scores: Mapping[tuple[str, str], float] | None = None) -> Study:
    """Parse a file of `JUDGEMENTS` and compute the rates of each system; `scores` is by (id, system).

    Raises:
        ValueError: a column or a value is missing or wrong, an explanation has not two annotators, or an annotator
            prefers two systems for one item.
    """
    judgements = _parse_judgements(text)
    preferences = [choice for choice in _preferences(judgements).values() if choice is not None]
    systems = {}
    for name in dict.fromkeys(system for _, system in judgements):
        judged_rows = [judged for (_, system), judged in judgements.items() if system == name]
        agreed = [adequate for adequate in map(_agreed, judged_rows) if adequate is not None]
        errors = [row["error_type"] for judged in judged_rows if _agreed(judged) == 0 for row in judged.values()]
        pairs = [[int(judged[annotator]["adequate"]) for annotator in sorted(judged)] for judged in judged_rows]
        systems[name] = SystemStudy(
            adequacy=sum(agreed) / len(agreed) if agreed else None,
            preference=preferences.count(name) / len(preferences) if preferences else None,
            kappa=cohen_kappa([a for a, _ in pairs], [b for _, b in pairs]),
            errors={name: errors.count(name) / len(errors) for name in ERRORS if errors},
        )
    kappas = [study.kappa for study in systems.values() if study.kappa is not None]
    pr, curve = _score_as_predictor(judgements, scores or {})
    mean = math.fsum(kappas) / len(kappas) if kappas else None
    return Study(systems=systems, items=len({item for item, _ in judgements}), kappa=mean, pr=pr, curve=curve)


def _preferences(judgements: _Judgements) -> dict[str, str | None]:
    """Map items to the system that both annotators prefer, '' where both prefer none, None where they differ."""
    by_item: dict[str, dict[str, str]] = {}
    for (item, system), judged in judgements.items():
        choices = by_item.setdefault(item, {})
        for annotator, row in judged.items():
            is_preferred = row["preferred"] == "1"
            if is_preferred and choices.get(annotator):
                raise ValueError(f"item {item!r}: {annotator!r} prefers {choices[annotator]!r} and {system!r}")
            choices[annotator] = system if is_preferred else choices.get(annotator, "")
    return {
        item: next(iter(choices.values())) if len(set(choices.values())) == 1 else None
        for item, choices in by_item.items()
    }


def _score_as_predictor(
    judgements: _Judgements, scores: Mapping[tuple[str, str], float]
) -> tuple[PrecisionRecall | None, tuple[tuple[float, float], ...]]:
    """Return precision and recall of the explanation score as a predictor of agreed adequacy."""
    agreed = {
        key: both for key, judged in judgements.items() if key in scores and (both := _agreed(judged)) is not None
    }
    adequate, scored = list(agreed.values()), [scores[key] for key in agreed]
    if not any(adequate):
        return None, ()
    precision, recall, _ = precision_recall_curve(adequate, scored)
    points = tuple((float(r), float(p)) for r, p in zip(recall[::-1], precision[::-1], strict=True))
    return precision_recall(adequate, scored), (*points, (0.0, 1.0))


def _parse_judgements(text: str) -> _Judgements:
    judgements: _Judgements = {}
    for _, row in JUDGEMENTS.rows(text):
        judgements.setdefault((row["id"], row["system"]), {})[row["annotator"]] = row
    for (item, system), judged in judgements.items():
        if len(judged) != 2:
            raise ValueError(f"item {item!r}, system {system!r}: {len(judged)} annotators, expected two")
    return judgements


def _agreed(judged: Mapping[str, HumanRow]) -> int | None:
    """Return the adequacy on which the annotators agree."""
    values = {int(row["adequate"]) for row in judged.values()}
    return values.pop() if len(values) == 1 else None


def _judgement(row: HumanRow) -> HumanRow:
    if row["adequate"] == "0" and row["error_type"] not in ERRORS:
        raise ValueError(f"error_type is {row['error_type']!r}, expected {', '.join(ERRORS)}")
    return row


JUDGEMENTS: Final = HumanKind(
    name="judgements",
    columns=("id", "system", "annotator", "adequate", "error_type", "preferred"),
    about="A person's judgement of a model's explanation: adequate and preferred are 0 or 1; where adequate is 0,"
    " error_type is hallucination, unsound, incomplete or verbosity, else it is empty. Two people judge every"
    " explanation. The system is a model's name, or model/setting.",
    item=("id", "system"),
    may_be_empty=("error_type",),
    values={"adequate": ("0", "1"), "preferred": ("0", "1")},
    read=_judgement,
    sample="id",
    sample_noun="row",
    check_whole=parse_study,
)


def study_tables(study: Study) -> list[Table]:
    """Build Table 6 and section 5.3 from own judgements; the ids end in `_own`."""
    systems = tuple(study.systems)
    rows = tuple(
        TableRow(label=head, cells=tuple(getattr(study.systems[name], metric) for name in systems), origin="human")
        for metric, head in RATES.items()
    )
    kappa = "undefined" if study.kappa is None else f"{study.kappa:.2f}"
    notes = (f"Cohen's kappa of the annotators, mean over systems: {kappa}. {study.items:,} items.",)
    tables = [rates_table(systems, rows, notes, "_own")]
    if study.pr is not None:
        pr = study.pr
        cells: tuple[TableCell, ...] = (
            pr.auc, pr.average_precision, pr.max_f1, pr.max_f1_threshold, pr.balanced_threshold,
        )  # fmt: skip
        tables.append(predictor_table(TableRow(label="Own judgements", cells=cells, origin="human"), "_own"))
    return tables


def study_figures(study: Study) -> list[Figure]:
    """Build figure 7, and the curve of section 5.3 where explanation scores are known."""
    figures: list[Figure] = []
    shares = {name: system.errors for name, system in study.systems.items() if system.errors}
    if shares:
        series = tuple(
            Series(label=error, values=tuple(errors.get(error, 0.0) for errors in shares.values())) for error in ERRORS
        )
        figures.append(
            Bars(
                id="vflute_figure7_own",
                title="V-FLUTE Figure 7: errors of explanations that both annotators reject",
                categories=tuple(shares),
                series=series,
                stacked=True,
                notes=("Where annotators name different errors, each counts one half.",),
            )
        )
    if study.curve:
        figures.append(
            Points(
                id="vflute_section53_curve_own",
                title="V-FLUTE section 5.3: precision by recall of the explanation score",
                clouds=(Cloud(label="Thresholds", points=study.curve),),
                x_label="Recall",
                y_label="Precision",
                percent=True,
            )
        )
    return figures


def rates_table(systems: tuple[str, ...], rows: Sequence[TableRow], notes: tuple[str, ...], suffix: str = "") -> Table:
    """Build Table 6."""
    return Table(
        id=f"vflute_table6{suffix}",
        title="V-FLUTE Table 6: explanations that people find adequate, and prefer",
        label_head="Share",
        columns=systems,
        rows=tuple(rows),
        style="percent2",
        notes=(*notes, _DEFINITIONS),
    )


def predictor_table(row: TableRow, suffix: str = "") -> Table:
    """Build the table of section 5.3."""
    return Table(
        id=f"vflute_section53{suffix}",
        title="V-FLUTE section 5.3: the explanation score as a predictor of adequacy",
        label_head="Judgements",
        columns=("PR-AUC", "Average precision", "Best F1", "at", "Both above 0.75 at"),
        rows=(row,),
    )


_F1: Final = "f1_at_0"
_MODEL_F1: Final = f1_metric(_F1, partial(right_at, k=0))
_PERSON_F1: Final = f1_metric(_F1, lambda rows: rows["person_right"])
_PUBLISHED_ITEMS: Final = 99
_MODEL_TABLES: Final = ("Table 4", "Table 17", "Table 18")
_SOURCE: Final = "Table 7: mean of two people, 99 test rows that are not named"


class VfluteHumanBaseline(FileBaseline):
    """Human F1 of labels, and comparisons with the annotators of the files."""

    name = "vflute"
    title = "V-FLUTE"
    kinds = (
        HumanKind(
            name="labels",
            columns=("id", "annotator", "label"),
            about="A person's label of a row: entailment or contradiction.",
            item=("id",),
            values={"label": tuple(LABELS)},
            sample="id",
            sample_noun="row",
            answer={"task": TASK, "setting": "label-only", "output": "{label}"},
        ),
        JUDGEMENTS,
    )
    agreement_headings: ClassVar = {TASK: "Labels"}
    people_columns: ClassVar = {"F1@0": Key(_F1, TASK), "Accuracy": Key("accuracy", TASK)}
    people_settings = SETTINGS

    def annotation_form(self, _samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
        """Return a form with one item per sample: the explanations of all systems; its answers are `judgements`."""
        by_sample: dict[str, list[Row]] = {}
        for row in rows:
            if row.setting != "label-only":
                by_sample.setdefault(row.sample.sample_id, []).append(row)
        return AnnotationForm(
            kind="judgements",
            title="V-FLUTE: are the explanations adequate?",
            instructions=(
                "An adequate explanation tells correctly and completely why the picture entails or contradicts it.",
                "Systems are not named, and their order changes from item to item.",
            ),
            items=[_item(rows) for rows in by_sample.values()],
            default_strata=("subset", "label"),
            preferred="preferred",
        )

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return macro F1 of labels, for the whole and each subset; of F1@53 and F1@60 people have none."""
        explained = [
            HumanLevel(task=TASK, metric=metric, items="unpublished", best_of=_MODEL_TABLES)
            for metric in ("f1_at_53", "f1_at_60")
        ]
        return [
            HumanLevel(
                task=TASK,
                metric=_F1,
                subset=subset,
                category=category,
                settings=tuple(name for name in SETTINGS if name != "no-image"),
                value=results.value(HUMAN.key(_F1, (subset, category)), "published", table="Table 7"),
                n=None if subset else _PUBLISHED_ITEMS,
                chance_metric="chance_f1_at_0",
                items="approximate",
                drawn=() if subset else ("zero-shot",),
                tables=("Table 7",),
                best_of=() if subset else _MODEL_TABLES,
                source=_SOURCE,
            )
            for subset, category in (GROUPS[-1], *GROUPS[:-1])
        ] + explained

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compare one model with each annotator and their mean, on the rows that they labelled."""
        labels_by_annotator: dict[str, dict[str, str]] = {}
        for person, answers in inputs.people.items():
            answered = answers[answers["status"] == "ok"]
            pairs = zip(answered["sample_id"], answered["answer"], strict=True)
            if by_row := {item: label or "" for item, label in pairs if item in inputs.samples}:
                labels_by_annotator[person_name(person)] = by_row
        if not labels_by_annotator:
            return []
        metrics: list[Metric] = []
        for setting in dict.fromkeys(inputs.scores["setting"]):
            rows = setting_rows(inputs.scores, str(setting), inputs.samples)
            for annotator, labels in labels_by_annotator.items():
                metrics += compare_with_annotator(rows, annotator, labels)
            subsets = (rows.where(subset=subset.name).named(category=subset.name) for subset in SUBSETS)
            for group in (rows, *subsets):
                metrics += compare_with_mean(group, list(labels_by_annotator.values()))
        return metrics

    def pooled(
        self, scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample], reduce: Reduce, /
    ) -> list[Metric]:
        """Return the mean over people, as the paper has it."""
        return mean_metrics([reduce(frame, samples) for frame in scores.values()])

    def annotation_scores(self, scores: pd.DataFrame, files: Mapping[str, str], /) -> Mapping[str, float]:
        """Return the explanation scores of the judged rows by `setting/id`."""
        judged = {row["id"] for row in self.rows(files, "judgements")}
        if not judged or "es" not in scores:
            return {}
        scored = scores[scores["sample_id"].isin(judged) & (scores["status"] == "ok")].dropna(subset=["es"])
        keys = zip(scored["setting"], scored["sample_id"], strict=True)
        return {f"{setting}/{name}": float(es) for (setting, name), es in zip(keys, scored["es"], strict=True)}

    def display(
        self, files: Mapping[str, str], scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build people's values, and Table 6, section 5.3 and figure 7 from judgements."""
        tables, figures = super().display(files, scores, results)
        if "judgements" not in files:
            return tables, figures
        by_system: dict[tuple[str, str], float] = {}
        for model, scores_by_row in scores.items():
            for setting in reversed(SETTINGS):  # so that the first setting decides for the model's name alone
                for key, value in scores_by_row.items():
                    row_setting, _, name = key.partition("/")
                    if row_setting == setting:
                        by_system[name, f"{model}/{setting}"] = by_system[name, model] = value
        study = parse_study(files["judgements"], by_system)
        return (*tables, *study_tables(study)), study_figures(study)


def compare_with_annotator(rows: ScoredRows, annotator: str, labels: Mapping[str, str]) -> Iterator[Metric]:
    """Compare a model with one annotator A on A's rows; None where explanations were not scored.

    Yields `f1_at_0_on_rows_of_A`, `f1_at_0_of_A`, `gap_to_A` (interval over pictures) and `p_A_is_better`.
    """
    rows = _labelled(rows, labels)
    names = (f"f1_at_0_on_rows_of_{annotator}", f"f1_at_0_of_{annotator}", f"gap_to_{annotator}")
    p_name = f"p_{annotator}_is_better"
    model = _MODEL_F1.estimate(rows)
    if model.metric.value is None:
        reason = "explanations were not scored" if len(rows) else "no row in common"
        yield from (rows.metric(name, None, len(rows), n_failed=0, note=reason) for name in (*names, p_name))
        return
    person = _PERSON_F1.estimate(rows)
    yield from (replace(side.metric, metric=name) for side, name in zip((model, person), names, strict=False))
    yield from with_intervals([model.minus(person, metric=names[2])])
    p = koehn_p(rows["entailment"], rows["person_right"], right_at(rows, 0) == 1)
    yield rows.metric(p_name, p, len(rows))


def compare_with_mean(rows: ScoredRows, labels_by_annotator: Sequence[Mapping[str, str]]) -> Iterator[Metric]:
    """Compare a model with the mean over annotators, each on the annotator's rows."""
    parts = [part for labels in labels_by_annotator if len(part := _labelled(rows, labels))]
    models = [_MODEL_F1.estimate(part) for part in parts]
    if not parts or any(model.metric.value is None for model in models):
        return
    labelled = rows.where(
        np.array([any(name in labels for labels in labels_by_annotator) for name in rows["sample_id"]])
    )
    fields = {"subset": SAME_ITEMS, "n": len(labelled), "n_failed": int(labelled.failed.sum())}
    model = mean_of(models, **fields)
    person = mean_of([_PERSON_F1.estimate(part) for part in parts], **fields, metric=human_metric(_F1))
    yield from with_intervals([model, person, model.minus(person, metric=gap_metric(_F1))])


def _labelled(rows: ScoredRows, labels: Mapping[str, str]) -> ScoredRows:
    """Return the rows that an annotator labelled; `person_right` is whether as gold does."""
    part = rows.where(np.array([name in labels for name in rows["sample_id"]], dtype=np.bool_)).named(note="")
    numbers = np.array([LABELS.get(labels[name], -1) for name in part["sample_id"]])
    return part.with_columns(person_right=numbers == part["entailment"])


def _item(rows: Sequence[Row]) -> AnnotationItem:
    sample = rows[0].sample
    return AnnotationItem(
        item_id=sample.sample_id,
        strata={"subset": sample.subset, "category": sample.category, "label": str(sample.data["label"])},
        texts=(("Caption", str(sample.data["claim"])), ("Right label", str(sample.data["label"]))),
        picture=sample.ref("picture"),
        parts=[_part(row) for row in rows],
    )


def _part(row: Row) -> AnnotationPart:
    answer = parse_as_authors(row.output, scene_graph=row.setting == "scene-graph")
    return AnnotationPart(
        {"id": row.sample.sample_id, "system": f"{row.model}/{row.setting}"},
        (
            Question("adequate", "Is it adequate?", YES_NO),
            Question("error_type", "What is wrong?", tuple(ERRORS.items()), shown_if=("adequate", "0")),
        ),
        (("Explanation", answer.explanation or "(empty)"),),
    )
