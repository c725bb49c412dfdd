"""The metrics of a table benchmark, as definitions by kind.

- `accuracy` of every kind but `open`: answered requests whose answer is right; one that cannot be read is wrong. Also
  by category and by subset, and `accuracy_macro`, the mean over categories. Failed requests are counted beside it.
- `chance`: of `accuracy` on the same rows, by arithmetic, where a question has options, labels, or yes and no.
- `unreadable`: answered requests in which nothing could be read.
- `choice`: `letter_share` of each letter among read answers; `circular_accuracy`: questions right in all rotations.
- `yes-no`: `precision`, `recall` and `f1` of yes, `yes_share` of answered requests.
- `text`: `anls`; `vqa_accuracy` of rows with ten answers. `number`: `exact`.
- `open`: `judged_accuracy` by the judge; `judge_invalid`, its verdicts that stay unreadable and count as wrong; `rouge`
  and `meteor`, means of answers; `bleu` of the corpus.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from string import ascii_uppercase
from typing import Final

import numpy as np
import pandas as pd

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
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.table.kinds import CIRCULAR
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.ngrams import bleu_of_counts, bleu_of_sums

MACRO: Final = "accuracy_macro"


def _share(part: FloatArray | Bools, whole: FloatArray | Bools) -> FloatArray:
    """Return the columns of the sum of a part over the sum of a whole."""
    return np.stack([np.asarray(part, np.float64), np.asarray(whole, np.float64)], axis=1)


def _rightly_yes(rows: ScoredRows, *whole: str) -> FloatArray:
    """Return the columns of the answers that are rightly yes, over the mean of the columns of a whole."""
    both = rows.floats("said_yes") * rows.floats("is_yes")
    return _share(len(whole) * both, np.sum([rows.floats(name) for name in whole], axis=0))


def _all_turns(rows: ScoredRows) -> FloatArray:
    """Return one row a question whose rotations were all answered: whether all are right."""
    columns = np.zeros((len(rows), 2))
    ids, first, number = np.unique(rows["sample_id"].astype(np.str_), return_index=True, return_inverse=True)
    turns = np.bincount(number, minlength=len(ids))
    answered = np.bincount(number, weights=rows.ok, minlength=len(ids))
    right = np.bincount(number, weights=rows.ok & (rows.floats("correct") == 1), minlength=len(ids))
    columns[first] = _share((right == turns) & (answered == turns), answered == turns)
    return columns


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
    references = [list(samples[name].data["answers"]) for name in rows["sample_id"][rows.ok]]
    return rows.with_columns(bleu_counts=answers_bleu_counts(rows, rows.ok, references))


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
}


def _chance(rows: ScoredRows, samples: Mapping[str, Sample], labels: int) -> FloatArray | None:
    """Return the probability that a guess is right, by row; None if it is unknown for one of them."""
    if rows.task == "choice" and {*rows["sample_id"]} <= samples.keys():
        return np.array([1 / len(samples[name].data["options"]) for name in rows["sample_id"]])
    guesses = {"yes-no": 2, "label": labels}.get(rows.task, 0)
    return np.full(len(rows), 1 / guesses) if guesses else None


def paired_measures(scores: pd.DataFrame, samples: Mapping[str, Sample], labels: int = 0) -> Iterator[Measure]:
    """Yield all metrics by task and setting; `labels` is the size of the closed set of labels."""
    every = ScoredRows.of(scores)
    for task, setting in dict.fromkeys(zip(scores["task"], scores["setting"], strict=True)):
        chosen = every.where(task=task, setting=setting)
        rows = chosen.named(task=str(task), setting=str(setting), note=coverage_note(chosen))
        if task != "open":
            yield from _by_group(_ACCURACY, rows, MACRO)
        if (chance := _chance(rows, samples, labels)) is not None:
            for measure in _by_group(_CHANCE, rows.with_columns(chance=chance)):
                yield replace(measure, compared=False)
        yield from _KIND_MEASURES[str(task)](rows, samples)
        yield Measure(definition=_UNREADABLE, parts=(rows,))


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample], labels: int = 0) -> list[Metric]:
    """Compute all metrics of one model; `scores` as of `Reporter.reduce`, `labels` the size of a closed set."""
    return [*with_intervals(estimates(paired_measures(scores, samples, labels))), *_unreadable_verdicts(scores)]


def _unreadable_verdicts(scores: pd.DataFrame) -> Iterator[Metric]:
    for setting in dict.fromkeys(scores["setting"][scores["task"] == "open"]):
        rows = ScoredRows.of(scores).where(task="open", setting=setting).named(task="open", setting=str(setting))
        is_judged, unread = rows.is_judged[rows.ok].any(), int(rows.has_unread_verdict.sum())
        note = "" if is_judged else unjudged_note(rows)
        yield rows.count("judge_invalid", unread if is_judged else None, note=note)
