"""Compute MATE's metrics from the scored rows of one model.

The paper's (ACL 2025, arXiv 2503.03854): `exact_match` by task, object count, target attribute and linking type, `ose`
(errors that name nothing in the scene), `cot_delta`, and the answers where only coordinates link. Ours: the lenient
reading, the share of readable answers, splits by pointer, by number of links and by whether an example gives the answer
away, and `chance`, the closed form of a guess.

A failed request is not in the denominator; it is counted, and `exact_match_failures_wrong` is the value if it were
wrong. Intervals are over scenes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from pipelines.benchmarks.mate.error_analysis import OVERLAP_LABELS, chance
from pipelines.benchmarks.mate.rows import COT, SETTINGS, is_generated_sample, question_of
from pipelines.benchmarks.mate.scene import CROSSMODAL, UNIMODAL, Scene, link_category, linking, parse_scene
from pipelines.benchmarks.metrics_kernel.definitions import (
    Estimate,
    Measure,
    MetricDef,
    estimates,
    mean_of,
    with_intervals,
)
from pipelines.benchmarks.metrics_kernel.rows import Bools, ScoredRows
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.intervals import FloatArray

COORDS_ONLY: Final = "3D coords only"
_FACTS: Final[Mapping[str, Any]] = load_facts(__package__, "facts.yaml")
HEADS: Final[Mapping[str, str]] = _FACTS["heads"]  # attributes as the paper's tables name them
LINK_TYPES: Final[tuple[str, ...]] = _FACTS["link_types"]  # rows of the table by linking type


def rows_with_facts(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> ScoredRows:
    """Return scored rows with the facts of their scenes; each scene is parsed once."""
    keys = scores[["sample_id", "task", "setting"]].itertuples(index=False, name=None)
    facts: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name in dict.fromkeys(scores["sample_id"]):
        sample = samples[name]
        scene = parse_scene(sample.data["scene"])
        facts |= {(name, row["task"], row["setting"]): _row_facts(scene, row) for row in sample.data["rows"]}
    row_facts = pd.DataFrame([facts[key] for key in keys], index=scores.index)
    return ScoredRows.of(scores.assign(**row_facts))


def _row_facts(scene: Scene, row: Mapping[str, Any]) -> dict[str, Any]:
    question = question_of(row)
    crossmodal = question.task in CROSSMODAL
    link = linking(scene, question.object_index(scene), question.hidden)
    return {
        "kind": "crossmodal" if crossmodal else "unimodal",
        "count": len(scene.objects),
        "pointer": question.pointer_attribute,
        "target": question.target_attribute,
        "shows": row["shot_shows_target"],
        "k": link.k if crossmodal else -1,
        "link": link_category(link) if crossmodal else None,
        "chance": chance(scene, question.target_attribute, row["gold"]),
    }


KINDS: Final[Mapping[str, tuple[str, str]]] = {"crossmodal": CROSSMODAL, "unimodal": UNIMODAL}
_CLOSER: Final = {
    "closer_than_average": "closer",
    "closer_in_depth": "closer_depth",
    "closer_horizontally": "closer_horizontal",
    "alone_of_its_overlap": "closer_alone",
}
_MATCHED: Final = (4.0, 3.0)
_MISSED: Final = (2.0, 1.0, 0.0)
_CODES: Final = {label: -1.0 if label == "-" else float(label) for label in OVERLAP_LABELS}


def _among(part: FloatArray | Bools, whole: Bools) -> FloatArray:
    """Return the columns of the share of a part of some rows."""
    return np.stack([np.where(whole, part, 0.0), whole], axis=1)


def _wrong(rows: ScoredRows) -> Bools:
    return np.asarray(rows.floats("correct") == 0, dtype=np.bool_)


def _missed(rows: ScoredRows) -> Bools:
    return np.isin(rows.floats("overlap"), _MISSED)


_metric: Final = partial(MetricDef, empty=lambda rows: f"no answer of {rows.task}")
_EXACT: Final = _metric(name="exact_match", value="correct")
_READINGS: Final = (
    _metric(name="exact_match_lenient", value="lenient"),
    _metric(name="format_ok", value="format_ok"),
    _metric(name="exact_match_failures_wrong", value="correct", failed_as=0.0),
)
_CHANCE: Final = MetricDef(
    name="chance", value="chance", counted=lambda rows: np.ones(len(rows), dtype=np.bool_), is_exact=True
)
_OSE: Final = _metric(
    name="ose", value=lambda rows: _among(rows.floats("in_scene") == 0, _wrong(rows)), empty="no errors", form="both"
)
_COORDS: Final = (
    MetricDef(
        name="pct_correct_given_noncoord_match",
        value=lambda rows: _among(rows["overlap"] == _CODES["4"], np.isin(rows.floats("overlap"), _MATCHED)),
    ),
    MetricDef(name="pct_noncoord_mismatch", value=_missed),
    MetricDef(name="pct_closer_than_average", value=lambda rows: _among(rows.floats("closer"), _missed(rows))),
)


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model, setting by setting; `scores` as of `Reporter.reduce`.

    A metric without rows is absent, or None with a note.
    """
    table = rows_with_facts(scores, samples)
    by_setting = {name: rows for name in SETTINGS if len(rows := table.where(setting=name).named(setting=name))}
    measures: list[Measure] = []
    counts: list[Metric] = []
    for rows in by_setting.values():
        for task in dict.fromkeys(task for tasks in KINDS.values() for task in tasks):
            task_rows = rows.where(task=task).named(task=task)
            measures += _task(task_rows)
            counts += _counts(task_rows)
        for kind in KINDS:
            measures += _kind(rows.where(kind=kind).named(task=kind))
        crossmodal = rows.where(kind="crossmodal").named(task="crossmodal")
        measures += _crossmodal(crossmodal)
        counts += _without_object(crossmodal.where(k=0))
    metrics = [*with_intervals(estimates(measures)), *counts]
    if {"2-shot", COT} <= by_setting.keys():
        metrics += with_intervals(_cot(*(by_setting[name].where(kind="crossmodal") for name in ("2-shot", COT))))
    generated = sum(map(is_generated_sample, samples.values()))
    if generated:
        note = "made by a generator: these numbers stand beside no published ones"
        metrics.append(
            Metric(task="", setting="", metric="generated", value=generated, n=len(samples), unit="count", note=note)
        )
    return metrics


def paired_measures(scores: pd.DataFrame, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield exact match over the two tasks of each kind, and OSE of cross-modal tasks and of both."""
    rows = ScoredRows.of(scores, setting=str(scores["setting"].iloc[0]))
    for kind in KINDS:
        yield _mean_of_tasks(replace(_EXACT, form="both"), rows, kind)
    for name, tasks in {**{task: (task,) for task in CROSSMODAL}, "crossmodal": CROSSMODAL}.items():
        yield Measure(definition=_OSE, parts=(rows.where(np.isin(rows["task"].astype(str), tasks)).named(task=name),))


def _mean_of_tasks(definition: MetricDef, rows: ScoredRows, kind: str) -> Measure:
    """Return the mean of two tasks, which are of equal size in the data."""
    parts = tuple(rows.where(task=task).named(task=task) for task in KINDS[kind])
    return Measure(definition=definition, parts=parts, labels={"task": kind})


def _measure(definition: MetricDef, rows: ScoredRows, category: str = "") -> Measure:
    return Measure(definition=definition, parts=(rows.named(category=category),))


def _accuracy(rows: ScoredRows, category: str, **values: Any) -> Iterator[Measure]:
    """Yield the accuracy of the rows with these values, where any was asked."""
    part = rows.where(**values)
    if part.ok.any() or part.failed.any():
        yield _measure(_EXACT, part, category)


def _accuracy_and_chance(rows: ScoredRows, category: str, **values: Any) -> Iterator[Measure]:
    yield from _accuracy(rows, category, **values)
    part = rows.where(**values)
    if len(part):
        yield _measure(_CHANCE, part, category)


def _task(rows: ScoredRows) -> Iterator[Measure]:
    if not len(rows):
        return
    yield from _accuracy_and_chance(rows, "")
    yield from (_measure(definition, rows) for definition in _READINGS)
    for target in HEADS:
        yield from _accuracy_and_chance(rows, HEADS[target], target=target)
    for pointer in HEADS:
        yield from _accuracy(rows, f"pointer={HEADS[pointer]}", pointer=pointer)
        for target in HEADS:
            name = f"pointer={HEADS[pointer]} target={HEADS[target]}"
            yield from _accuracy(rows, name, pointer=pointer, target=target)
    if rows.setting != "0-shot":
        for shows in (True, False):
            yield from _accuracy(rows, f"shot_shows_target={str(shows).lower()}", shows=shows)
    if rows.task in CROSSMODAL:
        yield _measure(_OSE, rows)


def _counts(rows: ScoredRows) -> Iterator[Metric]:
    if not len(rows):
        return
    answers, failed = int(rows.ok.sum()), int(rows.failed.sum())
    yield rows.count("errors", failed, answers + failed)
    yield rows.count("no_json_count", int((rows.ok & (rows.floats("format_ok") != 1)).sum()))
    yield rows.count("truncated_count", int(rows.flagged("truncated").sum()))


def _kind(rows: ScoredRows) -> Iterator[Measure]:
    if not len(rows):
        return
    kind = rows.task
    yield from (_mean_of_tasks(definition, rows, kind) for definition in (_EXACT, *_READINGS))
    chance = _mean_of_tasks(_CHANCE, rows, kind)
    if all(len(part) for part in chance.parts):
        yield chance
    for count in _object_counts(rows):
        yield from _accuracy_and_chance(rows, f"{count} objects", count=count)


def _object_counts(*selections: ScoredRows) -> list[int]:
    """Return the numbers of objects of the scenes, ascending."""
    return sorted({int(count) for rows in selections for count in rows["count"]})


def _crossmodal(rows: ScoredRows) -> Iterator[Measure]:
    if not len(rows):
        return
    yield _measure(_OSE, rows)
    occurring = set(rows["link"])
    for link in LINK_TYPES:
        if link in occurring:
            yield from _accuracy(rows, link, link=link)
    for k in (1, 2, 3):
        yield from _accuracy(rows, f"links={k}", k=k)
    for count in _object_counts(rows):
        for k in (1, 2, 3, 0):
            name = f"links={k}" if k else COORDS_ONLY
            yield from _accuracy(rows, f"{name} @{count} objects", k=k, count=count)
    yield from _coords_only(rows.where(k=0))


def _coords_only(rows: ScoredRows) -> Iterator[Measure]:
    """Yield the analysis of the answers where only coordinates link (section 6.2 of the paper)."""
    if not rows.ok.any():
        return
    for label in OVERLAP_LABELS:
        has_label = MetricDef(name="share", value=lambda rows, code=_CODES[label]: rows["overlap"] == code)  # type: ignore[misc]
        yield _measure(has_label, rows, f"overlap={label}")
    yield from (_measure(definition, rows, COORDS_ONLY) for definition in _COORDS)
    for metric, column in _CLOSER.items():
        for label in ("3", "2", "1", "0"):
            labelled = rows["overlap"] == _CODES[label]
            if (rows.ok & labelled).any():
                # Failed requests of all labels are counted with each.
                yield _measure(
                    MetricDef(name=metric, value=column), rows.where(labelled | rows.failed), f"overlap={label}"
                )


def _without_object(rows: ScoredRows) -> Iterator[Metric]:
    if rows.ok.any():
        moved = rows.ok & (rows["overlap"] == _CODES["-"]) & (rows.floats("in_scene") == 1)
        yield rows.count("in_scene_without_object", int(moved.sum()))


def _cot(base: ScoredRows, cot: ScoredRows) -> Iterator[Estimate]:
    """Yield the change from 2-shot to 2-shot with steps: of the mean over object counts, and at ten objects."""
    counts = _object_counts(base, cot)
    for category, expected in (("", counts), ("10 objects", [10] if 10 in counts else [])):
        if expected:
            before, after = (
                mean_of([_EXACT.estimate(rows.where(count=count)) for count in expected]) for rows in (base, cot)
            )
            change = after.minus(
                before,
                task="crossmodal",
                category=category,
                metric="cot_delta",
                n_failed=before.metric.n_failed + after.metric.n_failed,
            )
            lacks = change.metric.value is None
            yield change.noted("some object count has no answer in one setting" if lacks else "")
