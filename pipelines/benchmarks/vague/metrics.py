"""VAGUE's metrics: from the scored rows of one model to the numbers of the paper, and to ours.

The paper's (Nam et al., ICCV 2025, arXiv 2411.14137), for the whole, both subsets and the items that a human answered:

- `accuracy`: share of items with the correct reading chosen, an answer that cannot be read being wrong;
  `count_correct`, `count_fs`, `count_su`, `count_ne`: which reading was chosen; `valid_count`: answers that were read;
  `delta_vs_lm`, `cot_delta`: differences of accuracies, before rounding.
- `bleu1`, `bert_f1` of free answers against the correct reading, means over items, an empty answer being 0.

A failed request is no answer and leaves the denominator. Intervals resample items, those with one picture together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vague.aggregate import MetricSpec, with_intervals
from pipelines.benchmarks.vague.answers import Flag, InvalidReason, Rule
from pipelines.benchmarks.vague.prompts import LETTERS, READINGS, action, gold_letter, kinds
from pipelines.benchmarks.vague.scored_rows import Bools, Scope, ScoredRows, SettingRows
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


def reduce_vague(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """All metrics of one model.

    Args:
        scores: see `Benchmark.reduce`; a column that no row has may be absent.
        samples: by id.

    Returns:
        Metrics by subset, task and setting, then facts of the data under task ''. What cannot be given is None, and
        its note says why.
    """
    grid = ScoredRows.of(scores, samples)
    found: list[Metric] = []
    for scope in grid.scopes():
        found += with_intervals(list(_of_scope(grid, scope)), grid.clusters[scope.mask])
    return found + list(_of_data(grid))


def _of_scope(grid: ScoredRows, scope: Scope) -> Iterator[MetricSpec]:
    human = scope.subset.startswith("human")
    for cell in grid.cells.values():
        if not (cell.status[scope.mask] != "").any():
            continue
        if cell.task == "mcq" and (not human or cell.setting in _HUMAN_SETTINGS):
            yield from _choices(grid, cell, scope)
        elif cell.task == "freeform" and not human:
            yield from _freeform(grid, cell, scope)
    if not human:
        yield from _differences(grid, scope)


def _metric(
    cell: SettingRows, scope: Scope, metric: str, value: float | None, *, note: str = "", unit: str = "fraction"
) -> Metric:
    """One number with what stands around it; None where no request of the scope was answered."""
    answered = int((cell.ok & scope.mask).sum())
    notes = (note, scope.note, cell.note(scope.mask))
    return Metric(
        task=cell.task,
        setting=cell.setting,
        metric=metric,
        subset=scope.subset,
        value=value if answered else None,
        n=answered,
        n_failed=int((cell.failed & scope.mask).sum()),
        unit=unit,
        note="; ".join(filter(None, notes)) or ("" if answered else "no request could be asked"),
    )


def _mean(cell: SettingRows, scope: Scope, metric: str, column: FloatArray) -> MetricSpec:
    """The mean over those items of the scope that have a value; no interval where there is none."""
    inside = column[scope.mask]
    known = inside[~np.isnan(inside)]
    return MetricSpec(_metric(cell, scope, metric, float(known.mean()) if known.size else None), inside)


def _choices(grid: ScoredRows, cell: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    here = cell.ok & scope.mask
    yield _mean(cell, scope, "accuracy", cell.column("correct"))
    count = partial(_count, cell, scope)
    chosen = np.array(
        [kinds(sample).get(letter, "") for sample, letter in zip(grid.samples, cell.answer, strict=True)], dtype=object
    )
    by_kind = Counter(chosen[here])
    for name in READINGS:
        yield count(f"count_{name}", by_kind[name])
    valid = sum(by_kind[name] for name in READINGS)
    yield count("valid_count", valid)
    yield count("count_invalid", int(here.sum()) - valid)
    for reason in REASONS:
        yield count("count_invalid", int((cell.flagged(f"invalid:{reason}") & scope.mask).sum()), reason)
    yield from _captions(cell, scope)
    if not scope.subset:
        yield from _how_read(grid, cell, scope)


def _how_read(grid: ScoredRows, cell: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    """Which rules read the answers, which letters were said for each correct one, and accuracy by rating."""
    here, count = cell.ok & scope.mask, partial(_count, cell, scope)
    rules = Counter(cell.rule[here])
    for rule in RULES:
        yield count("count_rule", rules[rule], rule)
    gold = np.array([gold_letter(sample) for sample in grid.samples])
    for right in LETTERS:
        said = Counter(cell.answer[here & (gold == right)])
        for letter in (*LETTERS, None):
            yield count("count_letter", said[letter], f"{right}/{letter or 'invalid'}")
    yield from _by_rating(grid, cell, scope)


def _count(cell: SettingRows, scope: Scope, metric: str, value: int, category: str = "") -> MetricSpec:
    return MetricSpec(replace(_metric(cell, scope, metric, value, unit="count"), category=category))


def _captions(cell: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    if cell.setting.startswith("sm"):
        yield _count(cell, scope, "count_caption_empty", int((cell.flagged("caption_empty") & scope.mask).sum()))


def _by_rating(grid: ScoredRows, cell: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    """Accuracy by the mean of an item's two human ratings; n is the items of that rating."""
    rated = [_rating(sample) for sample in grid.samples]
    for name in sorted({name for name, inside in zip(rated, scope.mask, strict=True) if name and inside}):
        part = Scope(subset=scope.subset, mask=scope.mask & np.array([one == name for one in rated]), note=scope.note)
        column = cell.column("correct")[part.mask]
        value = float(np.nanmean(column)) if (~np.isnan(column)).any() else None
        yield MetricSpec(replace(_metric(cell, part, "accuracy_by_rating", value), category=name))


def _rating(sample: Sample) -> str:
    rating = sample.data.get("rating") or {}
    direct, indirect = rating.get("direct"), rating.get("indirect")
    return "" if direct is None or indirect is None else f"{(direct + indirect) / 2:g}"


def _freeform(grid: ScoredRows, cell: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    here = cell.ok & scope.mask
    for name in ("bleu1", "bleu1_noopener"):
        yield _mean(cell, scope, name, cell.column(name))
    yield MetricSpec(_metric(cell, scope, "bleu1_corpus", _corpus_bleu(grid, cell, here)))
    yield from _bert(cell, scope)
    said = np.array([bool(text) for text in cell.answer], dtype=np.bool_)
    yield _count(cell, scope, "valid_count", int((said & here).sum()))
    yield _count(cell, scope, "count_invalid", int((~said & here).sum()))
    yield _count(cell, scope, "count_invalid", int((~said & here).sum()), "empty")
    for flag in FLAGS:
        yield _count(cell, scope, f"count_{flag}", int((cell.flagged(flag) & scope.mask).sum()))
    yield from _captions(cell, scope)


def _corpus_bleu(grid: ScoredRows, cell: SettingRows, here: Bools) -> float | None:
    from pipelines.metrics.text import corpus_bleu

    places = np.flatnonzero(here).tolist()
    if not places:
        return None
    references = [[grid.samples[place].data["readings"]["correct"]] for place in places]
    return corpus_bleu([cell.answer[place] or "" for place in places], references, order=1, lowercase=True)


def _bert(cell: SettingRows, scope: Scope) -> Iterator[MetricSpec]:
    """Both scales; an empty answer is 0 once a scorer was there, and no mean is given over a part of the answers."""
    here = cell.ok & scope.mask
    empty = np.array([not text for text in cell.answer], dtype=np.bool_) & cell.ok
    raw_known = bool((~np.isnan(cell.column("bert_f1_raw")) & cell.ok).any())
    for name, absent in (("bert_f1", _NO_BASELINE if raw_known else _NO_SCORER), ("bert_f1_raw", _NO_SCORER)):
        column = cell.column(name)
        if (~np.isnan(column)).any():
            column = np.where(empty & np.isnan(column), 0.0, column)
        lacking = int((np.isnan(column) & here).sum())
        if not lacking:
            yield _mean(cell, scope, name, column)
            continue
        note = absent if lacking == int(here.sum()) else f"{lacking:,} answers have no score"
        yield MetricSpec(_metric(cell, scope, name, None, note=note))


def _differences(grid: ScoredRows, scope: Scope) -> Iterator[MetricSpec]:
    pairs = [("delta_vs_lm", name, "lm") for name in ("sm", "vlm")]
    pairs += [("cot_delta", f"{name}-cot", name) for name in ("sm", "vlm")]
    for metric, one, other in pairs:
        if ("mcq", one) not in grid.cells or ("mcq", other) not in grid.cells:
            continue
        left, right = grid.cells["mcq", one], grid.cells["mcq", other]
        columns = [cell.column("correct")[scope.mask] for cell in (left, right)]
        known = [~np.isnan(column) for column in columns]
        notes = [f"{cell.setting}: {note}" for cell in (left, right) if (note := cell.note(scope.mask))]
        value = None
        if all(side.any() for side in known):
            value = float(np.nanmean(columns[0]) - np.nanmean(columns[1]))
        whole = Metric(
            task="mcq",
            setting=one,
            metric=metric,
            subset=scope.subset,
            value=value,
            n=int((known[0] & known[1]).sum()),
            n_failed=int(((left.failed | right.failed) & scope.mask).sum()),
            note="; ".join(notes) or ("" if value is not None else "one side has no answer"),
        )
        yield MetricSpec(whole, columns[0], columns[1])


# ------------------------------------------------------------------------------------- facts of the data


def _of_data(grid: ScoredRows) -> Iterator[Metric]:
    """Means of Table B1 and the actions of Figure B1, for each subset."""
    for scope in grid.scopes():
        inside = [sample for sample, chosen in zip(grid.samples, scope.mask, strict=True) if chosen]
        if not scope.subset or scope.subset.startswith("human") or not inside:
            continue
        fact = partial(Metric, task="", setting="", subset=scope.subset)
        numbers: dict[str, list[int | None]] = {
            "avg_object_count": [sample.data.get("object_tags") for sample in inside],
            "avg_people_count": [sample.data.get("people") for sample in inside],
            "avg_word_count_direct": [len(sample.data["direct"].split()) or None for sample in inside],
            "avg_word_count_indirect": [len(sample.data["indirect"].split()) for sample in inside],
        }
        for metric, values in numbers.items():
            known = [float(value) for value in values if value is not None]
            note = "" if known else "the data does not tell"
            mean = sum(known) / len(known) if known else None
            yield fact(metric=metric, value=mean, n=len(known), unit="", note=note)
        actions = Counter(name for sample in inside if (name := action(sample.data["solution"])))
        for name, times in sorted(actions.items(), key=lambda entry: (-entry[1], entry[0]))[:TOP_ACTIONS]:
            yield fact(metric="count_action", category=name, value=times, n=len(inside), unit="count")
