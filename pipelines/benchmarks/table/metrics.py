"""The metrics of a table benchmark, as definitions by kind.

- `accuracy` of every kind but `open`: answered requests whose answer is right; one that cannot be read is wrong. Also
  by category and by subset, and `accuracy_macro`, the mean over categories. Failed requests are counted beside it.
- `chance`: of `accuracy` on the same rows, by arithmetic, where a question has options, labels, or yes and no.
- `unreadable`: answered requests in which nothing could be read.
- `choice`: `letter_share` of each letter among read answers; `circular_accuracy`: questions right in all rotations.
- `yes-no`: `precision`, `recall` and `f1` of yes, `yes_share` of answered requests.
- `text`: `anls`; `vqa_accuracy` of rows with ten answers. `number`: `exact`.
- `official_score` of a kind with a scorer: the mean over answered rows, also by category, subset and each grouping of
  `by`; `official_score_macro`, its mean over the groups that `macro` names; each of `groups`, the share of groups whose
  rows are all right. A judge's scores leave out verdicts that could not be read.
- `box`: `iou` and shares of rows above further overlaps. `generate`: lengths of the replies.
- `open`: `judged_accuracy` by the judge; `judge_invalid`, its verdicts that stay unreadable and count as wrong; `rouge`
  and `meteor`, means of answers; `bleu` of the corpus.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from string import ascii_uppercase
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.metrics_kernel.definitions import (
    Grouping,
    Measure,
    MetricDef,
    estimates,
    with_intervals,
)
from pipelines.benchmarks.metrics_kernel.rows import (
    Bools,
    ScoredRows,
    answers_bleu_counts,
    coverage_note,
    unjudged_note,
)
from pipelines.benchmarks.records import Metric, Sample, split_variant
from pipelines.benchmarks.scorers import JUDGE
from pipelines.benchmarks.scorers.boxes import FURTHER_IOUS
from pipelines.benchmarks.table.kinds import CIRCULAR, OFFICIAL, turn_sample
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.ngrams import bleu_of_counts, bleu_of_sums

MACRO: Final = "accuracy_macro"


def _share(part: FloatArray | Bools, whole: FloatArray | Bools) -> FloatArray:
    """Return the columns of the sum of a part over the sum of a whole."""
    return np.stack([np.asarray(part, np.float64), np.asarray(whole, np.float64)], axis=1)


def _rightly_yes(rows: ScoredRows, *whole: str) -> FloatArray:
    """Return the columns of the answers that are rightly yes, over the mean of the columns of a whole."""
    both = rows.floats(whole[0] if len(whole) > 1 else "said_yes") * rows.floats("is_yes")
    return _share(len(whole) * both, np.sum([rows.floats(name) for name in whole], axis=0))


def _all_right(rows: ScoredRows, names: NDArray[Any], right: Bools, *, is_whole: bool) -> FloatArray:
    """Return one row for each name: whether all of its rows are right.

    With `is_whole` a name counts only if all of its rows are answered, else its answered rows alone do.
    """
    columns = np.zeros((len(rows), 2))
    counted = np.ones(len(rows), np.bool_) if is_whole else rows.ok
    ids, first, number = np.unique(names[counted].astype(np.str_), return_index=True, return_inverse=True)
    sizes, answered, good = (
        np.bincount(number, weights=weights, minlength=len(ids))
        for weights in (np.ones(len(number)), rows.ok[counted], (rows.ok & right)[counted])
    )
    places = np.flatnonzero(counted)[first]
    columns[places] = _share((good == sizes) & (answered == sizes), answered == sizes)
    return columns


def _all_turns(rows: ScoredRows) -> FloatArray:
    """Return one row a question whose rotations were all answered: whether all are right."""
    return _all_right(rows, rows["sample_id"], rows.floats("correct") == 1, is_whole=True)


_ACCURACY: Final = MetricDef(name="accuracy", value="correct")
_CHANCE: Final = MetricDef(name="chance", value="chance", is_exact=True)
_UNREADABLE: Final = MetricDef(name="unreadable", value=lambda rows: rows.flagged("unreadable"))
_ALL_TURNS: Final = MetricDef(name="circular_accuracy", value=_all_turns, form="both")
_YES_NO: Final = (
    MetricDef(name="precision", value=lambda rows: _rightly_yes(rows, "said_yes"), empty="no answer is yes"),
    MetricDef(name="recall", value=lambda rows: _rightly_yes(rows, "is_yes"), empty="no right answer is yes"),
    MetricDef(name="f1", value=lambda rows: _rightly_yes(rows, "said_yes", "is_yes"), empty="no yes", form="both"),
    MetricDef(name="yes_share", value="said_yes"),
)
_ANLS: Final = MetricDef(name="anls", value="anls")
_VQA: Final = MetricDef(name="vqa_accuracy", value="vqa", counted=lambda rows: rows.ok & ~np.isnan(rows.floats("vqa")))
_EXACT: Final = MetricDef(name="exact", value="exact")
_OFFICIAL: Final = MetricDef(name=OFFICIAL, value=OFFICIAL)
_OFFICIAL_JUDGED: Final = MetricDef(
    name=OFFICIAL,
    value=OFFICIAL,
    counted=lambda rows: rows.ok & ~rows.has_unread_verdict,
    missing=unjudged_note,
)
_OFFICIAL_F1: Final = MetricDef(
    name="f1", value=lambda rows: _rightly_yes(rows, "official_yes", "is_yes"), empty="no yes", form="both"
)
_LENGTHS: Final = (
    MetricDef(name="characters", value="characters", unit="characters"),
    MetricDef(name="words", value="words", unit="words"),
)
_JUDGED: Final = MetricDef(name="judged_accuracy", value="accepted", missing=unjudged_note, judged=True)
_SIMILAR: Final = (MetricDef(name="rouge", value="rouge"), MetricDef(name="meteor", value="meteor"))
_BLEU: Final = MetricDef(
    name="bleu", value="bleu_counts", statistic=bleu_of_sums, from_totals=bleu_of_counts, form="both"
)


def _letter(letter: str) -> MetricDef:
    return MetricDef(
        name="letter_share",
        value=lambda rows: rows["answer"] == letter,
        counted=lambda rows: rows.ok & rows.read,
        empty="no answer could be read",
    )


def _choice(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    most = max((len(samples[name].data["options"]) for name in {*rows["sample_id"]} & samples.keys()), default=0)
    letters = sorted({*ascii_uppercase[:most], *filter(None, rows.texts("answer")[rows.ok])})
    for letter in letters:
        yield Measure(definition=_letter(letter), parts=(rows.named(category=letter),), compared=False)
    if rows.setting == CIRCULAR:
        yield from _by_group(_ALL_TURNS, rows)


def _yes_or_no(rows: ScoredRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    yield from (Measure(definition=definition, parts=(rows,)) for definition in _YES_NO)


def _text(rows: ScoredRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    yield Measure(definition=_ANLS, parts=(rows,))
    if not np.isnan(rows.floats("vqa")).all():
        yield from _by_group(_VQA, rows)


def _number(rows: ScoredRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    yield Measure(definition=_EXACT, parts=(rows,))


def _open(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    unread = int(rows.has_unread_verdict.sum())
    text = f"{unread:,} of {int(rows.ok.sum()):,} verdicts could not be read and count as wrong" if unread else ""
    yield from _by_group(_JUDGED, rows.named(note="; ".join(filter(None, (rows.note, text)))))
    yield from (Measure(definition=definition, parts=(rows,)) for definition in _SIMILAR)
    if samples:
        yield Measure(definition=_BLEU, parts=(_with_bleu(rows, samples),))


def _with_bleu(rows: ScoredRows, samples: Mapping[str, Sample]) -> ScoredRows:
    answered = zip(rows["sample_id"][rows.ok], rows["variant"][rows.ok], strict=True)
    asked = (turn_sample(samples[name], split_variant(variant)[0]) for name, variant in answered)
    references = [list(sample.data["answers"]) for sample in asked]
    return rows.with_columns(bleu_counts=answers_bleu_counts(rows, rows.ok, references))


def _box(rows: ScoredRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    names = ("iou", *(f"iou_at_{least}" for least in FURTHER_IOUS))
    yield from (Measure(definition=MetricDef(name=name, value=name), parts=(rows,)) for name in names)


def _generated(rows: ScoredRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    yield from (Measure(definition=definition, parts=(rows,)) for definition in _LENGTHS)


def _defined(rows: ScoredRows, samples: Mapping[str, Sample], definition: TableDefinition) -> Iterator[Measure]:
    """Yield the metrics that a definition adds: by a scorer, by further groupings, and of groups that are all right."""
    scorer, task = definition.scorers.get(rows.task), rows.task
    ours = _JUDGED if task == "open" else _ACCURACY
    official = _OFFICIAL_JUDGED if scorer == JUDGE else _OFFICIAL
    if scorer:
        yield from _by_group(official, rows)
    if scorer == JUDGE and len(definition.judge_scale) > 1:
        for name in definition.judge_scale:
            share = replace(official, name=f"class_{name}", value=f"class_{name}")
            yield Measure(definition=share, parts=(rows,), compared=False)
    is_known = {*rows["sample_id"]} <= samples.keys()
    groupings = dict(_groupings(rows, samples, definition)) if is_known else {}
    shown = (ours, official) if scorer else (ours,)
    for part in (part for parts in groupings.values() for part in parts):
        yield from (Measure(definition=each, parts=(part,), compared=False) for each in shown)
    for column in ("subset", "category"):
        names = tuple(sorted({*rows[column].astype(str)} - {""}))
        groupings[column] = Grouping(names=names, column=column).groups(rows)
    if scorer and task == "yes-no":
        for part in groupings["category"]:
            yield from (Measure(definition=each, parts=(part,), compared=False) for each in _YES_NO)
    if scorer and (parts := groupings.get(definition.macro_over, [])):
        labels = {"metric": f"{OFFICIAL}_macro", "subset": "", "category": ""}
        of = _OFFICIAL_F1 if definition.macro_of == "f1" else official
        yield Measure(definition=of, parts=tuple(parts), labels=labels, compared=False)
    right = OFFICIAL if scorer else "accepted" if task == "open" else "correct"
    for name in definition.groups if is_known else ():
        keys = np.array(["\x1f".join(samples[sample].data["groups"][name]) for sample in rows["sample_id"]])
        yield from _by_group(_group_metric(name, right), rows.with_columns(group=keys))


def _group_metric(name: str, right: str) -> MetricDef:
    def value(rows: ScoredRows) -> FloatArray:
        return _all_right(rows, rows["group"], rows.floats(right) == 1, is_whole=False)

    return MetricDef(name=name, value=value, form="both")


def _groupings(
    rows: ScoredRows, samples: Mapping[str, Sample], definition: TableDefinition
) -> Iterator[tuple[str, list[ScoredRows]]]:
    """Yield the rows of each value of each further grouping; a row may count in several."""
    for name in definition.by:
        values = [{*samples[sample].data.get("by", {}).get(name, ())} for sample in rows["sample_id"]]
        yield (
            name,
            [
                rows.where(np.array([value in each for each in values])).named(subset=name, category=value)
                for value in sorted(set().union(*values))
            ],
        )


def _by_group(definition: MetricDef, rows: ScoredRows, macro: str = "") -> Iterator[Measure]:
    """Yield a metric over all rows, each subset and each category, and its mean over the categories."""
    yield Measure(definition=definition, parts=(rows,))
    for column in ("subset", "category"):
        names = tuple(sorted({*rows[column].astype(str)} - {""}))
        groups = Grouping(names=names, column=column).groups(rows)
        yield from (Measure(definition=definition, parts=(group,), compared=False) for group in groups)
        if macro and column == "category" and len(groups) > 1:
            labels = {"metric": macro, "category": ""}
            yield Measure(definition=definition, parts=tuple(groups), labels=labels, compared=False)


_KIND_MEASURES: Final[Mapping[str, Callable[[ScoredRows, Mapping[str, Sample]], Iterable[Measure]]]] = {
    "choice": _choice,
    "yes-no": _yes_or_no,
    "label": lambda _rows, _samples: (),
    "text": _text,
    "number": _number,
    "open": _open,
    "box": _box,
    "point": lambda _rows, _samples: (),
    "generate": _generated,
}


def _chance(rows: ScoredRows, samples: Mapping[str, Sample], labels: int) -> FloatArray | None:
    """Return the probability that a guess is right, by row; None if it is unknown for one of them."""
    if rows.task == "choice" and {*rows["sample_id"]} <= samples.keys():
        return np.array([1 / len(samples[name].data["options"]) for name in rows["sample_id"]])
    guesses = {"yes-no": 2, "label": labels}.get(rows.task, 0)
    return np.full(len(rows), 1 / guesses) if guesses else None


def paired_measures(
    scores: pd.DataFrame, samples: Mapping[str, Sample], definition: TableDefinition
) -> Iterator[Measure]:
    """Yield all metrics of a table by task and setting."""
    labels = len(definition.labels)
    every = ScoredRows.of(scores)
    for task, setting in dict.fromkeys(zip(scores["task"], scores["setting"], strict=True)):
        chosen = every.where(task=task, setting=setting)
        rows = chosen.named(task=str(task), setting=str(setting), note=coverage_note(chosen))
        if task == "generate":
            yield from _KIND_MEASURES[str(task)](rows, samples)
            continue
        yield from _defined(rows, samples, definition)
        if task != "open":
            yield from _by_group(_ACCURACY, rows, MACRO)
        if (chance := _chance(rows, samples, labels)) is not None:
            for measure in _by_group(_CHANCE, rows.with_columns(chance=chance)):
                yield replace(measure, compared=False)
        yield from _KIND_MEASURES[str(task)](rows, samples)
        yield Measure(definition=_UNREADABLE, parts=(rows,))


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample], definition: TableDefinition) -> list[Metric]:
    """Compute all metrics of one model; `scores` as of `Reporter.reduce`."""
    return [*with_intervals(estimates(paired_measures(scores, samples, definition))), *_unreadable_verdicts(scores)]


def _unreadable_verdicts(scores: pd.DataFrame) -> Iterator[Metric]:
    for setting in dict.fromkeys(scores["setting"][scores["task"] == "open"]):
        rows = ScoredRows.of(scores).where(task="open", setting=setting).named(task="open", setting=str(setting))
        is_judged, unread = rows.is_judged[rows.ok].any(), int(rows.has_unread_verdict.sum())
        note = "" if is_judged else unjudged_note(rows)
        yield rows.count("judge_invalid", unread if is_judged else None, note=note)
