"""VAGUE's metrics from the scored rows of one model, for all items, both subsets and the human's items.

- `accuracy`: share of items with the correct reading chosen; an unreadable answer is wrong.
- `delta_vs_lm`, `cot_delta`: differences of accuracies, before rounding.
- `bleu1`, `bert_f1` of free-form answers against the correct reading: means over items; an empty answer is 0.

Failed requests are not in the denominator. Intervals resample items, those that share a picture together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from pipelines.benchmarks.aggregation import MetricSpec, difference_of_ratios, with_intervals
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vague.answers import Flag, InvalidReason, Rule
from pipelines.benchmarks.vague.facts import CAPTIONED
from pipelines.benchmarks.vague.prompts import LETTERS, READINGS, action, gold_letter, kinds_by_letter
from pipelines.benchmarks.vague.scored_rows import Bools, Scope, ScoredRows, SettingRows
from pipelines.metrics.bleu import COLUMNS, bleu_counts, bleu_of_counts, bleu_of_sums
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

TOP_ACTIONS: Final = 20
REASONS: Final[tuple[str, ...]] = get_args(InvalidReason)
RULES: Final[tuple[str, ...]] = (*get_args(Rule), "none")
FLAGS: Final[tuple[str, ...]] = get_args(Flag)
_HUMAN_SETTINGS: Final = ("vlm", "vlm-cot")
_NO_SCORER: Final = "no BERTScore model could be used"
_NO_BASELINE: Final = "no baseline is known for the BERTScore model in use"


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model by subset, task and setting, then facts of the data with task ''.

    The note of a None says why. A column of `scores` without values may be absent.
    """
    scored = ScoredRows.of(scores, samples)
    metrics: list[Metric] = []
    for scope in scored.scopes():
        metrics += with_intervals(list(_scope_metrics(scored, scope)), scored.clusters[scope.mask])
    return metrics + list(_data_facts(scored))


def _scope_metrics(scored: ScoredRows, scope: Scope) -> Iterator[MetricSpec]:
    human = scope.subset.startswith("human")
    for rows in scored.by_setting.values():
        if not (rows.status[scope.mask] != "").any():
            continue
        if rows.task == "mcq" and (not human or rows.setting in _HUMAN_SETTINGS):
            yield from _choices(scored, rows, scope)
        elif rows.task == "freeform" and not human:
            yield from _freeform(scored, rows, scope)
    if not human:
        yield from _differences(scored, scope)


def _metric(
    rows: SettingRows, scope: Scope, metric: str, value: float | None, *, note: str = "", unit: str = "fraction"
) -> Metric:
    """Build a metric with its counts and notes; None where no request of the scope was answered."""
    answered = int((rows.ok & scope.mask).sum())
    notes = (note, scope.note, rows.note(scope.mask))
    return Metric(
        task=rows.task,
        setting=rows.setting,
        metric=metric,
        subset=scope.subset,
        value=value if answered else None,
        n=answered,
        n_failed=int((rows.failed & scope.mask).sum()),
        unit=unit,
        note="; ".join(filter(None, notes)) or ("" if answered else "no request could be asked"),
    )


def _mean(rows: SettingRows, scope: Scope, metric: str, column: FloatArray) -> MetricSpec:
    selected = column[scope.mask]
    defined = selected[~np.isnan(selected)]
    value = float(defined.mean()) if defined.size else None
    return MetricSpec(_metric(rows, scope, metric, value), _total_and_size(selected))


def _total_and_size(column: FloatArray) -> tuple[FloatArray, Bools]:
    """Return the columns whose sums divided are the mean of a column over the rows where it is not NaN."""
    defined = ~np.isnan(column)
    return np.where(defined, column, 0.0), defined


def _choices(scored: ScoredRows, rows: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    answered = rows.ok & scope.mask
    yield _mean(rows, scope, "accuracy", rows.column("correct"))
    count = partial(_count, rows, scope)
    chosen = np.array(
        [kinds_by_letter(sample).get(letter, "") for sample, letter in zip(scored.samples, rows.answer, strict=True)],
        dtype=object,
    )
    by_kind = Counter(chosen[answered])
    for name in READINGS:
        yield count(f"count_{name}", by_kind[name])
    valid = sum(by_kind[name] for name in READINGS)
    yield count("valid_count", valid)
    yield count("count_invalid", int(answered.sum()) - valid)
    for reason in REASONS:
        yield count("count_invalid", int((rows.flagged(f"invalid:{reason}") & scope.mask).sum()), reason)
    yield from _captions(rows, scope)
    if not scope.subset:
        yield from _parsing(scored, rows, scope)


def _parsing(scored: ScoredRows, rows: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    """Yield counts of parsing rules, counts of answers by correct letter, and accuracy by rating."""
    answered, count = rows.ok & scope.mask, partial(_count, rows, scope)
    rules = Counter(rows.rule[answered])
    for rule in RULES:
        yield count("count_rule", rules[rule], rule)
    gold = np.array([gold_letter(sample) for sample in scored.samples])
    for right in LETTERS:
        chosen = Counter(rows.answer[answered & (gold == right)])
        for letter in (*LETTERS, None):
            yield count("count_letter", chosen[letter], f"{right}/{letter or 'invalid'}")
    yield from _by_rating(scored, rows, scope)


def _count(rows: SettingRows, scope: Scope, metric: str, value: int, category: str = "") -> MetricSpec:
    return MetricSpec(replace(_metric(rows, scope, metric, value, unit="count"), category=category))


def _captions(rows: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    if rows.setting.startswith("sm"):
        yield _count(rows, scope, "count_caption_empty", int((rows.flagged("caption_empty") & scope.mask).sum()))


def _by_rating(scored: ScoredRows, rows: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    """Yield accuracy by the mean of an item's two human ratings; n is the items of that rating."""
    ratings = np.array([_rating(sample) for sample in scored.samples])
    for name in sorted(set(ratings[scope.mask].tolist()) - {""}):
        part = Scope(subset=scope.subset, mask=scope.mask & (ratings == name), note=scope.note)
        column = rows.column("correct")[part.mask]
        value = float(np.nanmean(column)) if (~np.isnan(column)).any() else None
        yield MetricSpec(replace(_metric(rows, part, "accuracy_by_rating", value), category=name))


def _rating(sample: Sample) -> str:
    rating = sample.data.get("rating") or {}
    direct, indirect = rating.get("direct"), rating.get("indirect")
    return "" if direct is None or indirect is None else f"{(direct + indirect) / 2:g}"


def _freeform(scored: ScoredRows, rows: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    answered = rows.ok & scope.mask
    for name in ("bleu1", "bleu1_noopener"):
        yield _mean(rows, scope, name, rows.column(name))
    yield _corpus_bleu(scored, rows, scope)
    yield from _bert(rows, scope)
    valid = np.array([bool(text) for text in rows.answer], dtype=np.bool_)
    yield _count(rows, scope, "valid_count", int((valid & answered).sum()))
    yield _count(rows, scope, "count_invalid", int((~valid & answered).sum()))
    yield _count(rows, scope, "count_invalid", int((~valid & answered).sum()), "empty")
    for flag in FLAGS:
        yield _count(rows, scope, f"count_{flag}", int((rows.flagged(flag) & scope.mask).sum()))
    yield from _captions(rows, scope)


def _corpus_bleu(scored: ScoredRows, rows: SettingRows, scope: Scope) -> MetricSpec:
    answered = np.flatnonzero(rows.ok & scope.mask).tolist()
    references = [[scored.samples[row].data["readings"]["correct"]] for row in answered]
    counts = np.zeros((len(rows.answer), COLUMNS))
    counts[answered] = bleu_counts([rows.answer[row] or "" for row in answered], references, lowercase=True)
    columns, bleu1 = tuple(counts[scope.mask].T), partial(bleu_of_sums, order=1)
    value = bleu_of_counts(counts[answered].sum(axis=0).astype(np.int64), order=1) if answered else None
    return MetricSpec(_metric(rows, scope, "bleu1_corpus", value), columns if answered else (), bleu1)


def _bert(rows: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    """Yield both scales; an empty answer is 0 where a scorer ran, and a mean over part of the answers is None."""
    answered = rows.ok & scope.mask
    empty = np.array([not text for text in rows.answer], dtype=np.bool_) & rows.ok
    has_raw = bool((~np.isnan(rows.column("bert_f1_raw")) & rows.ok).any())
    for name, reason in (("bert_f1", _NO_BASELINE if has_raw else _NO_SCORER), ("bert_f1_raw", _NO_SCORER)):
        column = rows.column(name)
        if (~np.isnan(column)).any():
            column = np.where(empty & np.isnan(column), 0.0, column)
        unscored = int((np.isnan(column) & answered).sum())
        if not unscored:
            yield _mean(rows, scope, name, column)
            continue
        note = reason if unscored == int(answered.sum()) else f"{unscored:,} answers have no score"
        yield MetricSpec(_metric(rows, scope, name, None, note=note))


def _differences(scored: ScoredRows, scope: Scope) -> Iterator[MetricSpec]:
    pairs = [("delta_vs_lm", name, "lm") for name in ("sm", "vlm")]
    pairs += [("cot_delta", f"{name}-cot", name) for name in ("sm", "vlm")]
    pairs += [("delta_vs_lm", CAPTIONED, "lm"), ("caption_delta", CAPTIONED, "sm")]
    for metric, setting, baseline in pairs:
        left, right = (scored.by_setting.get(("mcq", name)) for name in (setting, baseline))
        if left is None or right is None:
            continue
        columns = [side.column("correct")[scope.mask] for side in (left, right)]
        defined = [~np.isnan(column) for column in columns]
        notes = [f"{side.setting}: {note}" for side in (left, right) if (note := side.note(scope.mask))]
        value = None
        if all(side.any() for side in defined):
            value = float(np.nanmean(columns[0]) - np.nanmean(columns[1]))
        difference = Metric(
            task="mcq",
            setting=setting,
            metric=metric,
            subset=scope.subset,
            value=value,
            n=int((defined[0] & defined[1]).sum()),
            n_failed=int(((left.failed | right.failed) & scope.mask).sum()),
            note="; ".join(notes) or ("" if value is not None else "one side has no answer"),
        )
        clusters = scored.clusters[scope.mask]
        has_interval = all(np.unique(clusters[side]).size > 1 for side in defined)
        pair = tuple(column for side in columns for column in _total_and_size(side)) if has_interval else ()
        yield MetricSpec(difference, pair, difference_of_ratios)


def _data_facts(scored: ScoredRows) -> Iterator[Metric]:
    """Yield the means of Table B1 and the actions of Figure B1 for each subset."""
    for scope in scored.scopes():
        selected = [sample for sample, is_in in zip(scored.samples, scope.mask, strict=True) if is_in]
        if not scope.subset or scope.subset.startswith("human") or not selected:
            continue
        fact = partial(Metric, task="", setting="", subset=scope.subset)
        numbers: dict[str, list[int | None]] = {
            "avg_object_count": [sample.data.get("object_tags") for sample in selected],
            "avg_people_count": [sample.data.get("people") for sample in selected],
            "avg_word_count_direct": [len(sample.data["direct"].split()) or None for sample in selected],
            "avg_word_count_indirect": [len(sample.data["indirect"].split()) for sample in selected],
        }
        for metric, values in numbers.items():
            defined = [float(value) for value in values if value is not None]
            note = "" if defined else "the data does not tell"
            mean = sum(defined) / len(defined) if defined else None
            unit = "words" if "word" in metric else "count"
            yield fact(metric=metric, value=mean, n=len(defined), unit=unit, note=note)
        actions = Counter(name for sample in selected if (name := action(sample.data["solution"])))
        for name, count in sorted(actions.items(), key=lambda entry: (-entry[1], entry[0]))[:TOP_ACTIONS]:
            yield fact(metric="count_action", category=name, value=count, n=len(selected), unit="count")
