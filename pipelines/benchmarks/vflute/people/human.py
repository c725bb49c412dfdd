"""Human baseline of V-FLUTE: the published one (99 rows, unknown which), and labels and judgements from files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

import numpy as np
import pandas as pd

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import SAME_ITEMS, HumanInputs, HumanKind, HumanLevel, Reduce, gap_metric, human_metric
from pipelines.benchmarks.metrics_kernel.definitions import mean_of, with_intervals
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.people.annotation import YES_NO, AnnotationForm, AnnotationItem, AnnotationPart, Question
from pipelines.benchmarks.people.baseline import FileBaseline
from pipelines.benchmarks.people.comparison import mean_metrics
from pipelines.benchmarks.records import Metric, Row, Sample, person_name
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table
from pipelines.benchmarks.vflute.answers import parse_as_authors
from pipelines.benchmarks.vflute.facts import GROUPS, HUMAN, LABELS, SETTINGS, SUBSETS, TASK
from pipelines.benchmarks.vflute.metrics import f1_metric, right_at, setting_rows
from pipelines.benchmarks.vflute.people.judgement_study import (
    ERRORS,
    JUDGEMENTS,
    parse_study,
    study_figures,
    study_tables,
)
from pipelines.metrics.f1 import koehn_p

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
