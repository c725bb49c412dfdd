"""VAGUE's metrics from the scored rows of one model, for all items, both subsets and the human's items.

- `accuracy`: share of items with the correct reading chosen; an unreadable answer is wrong.
- `delta_vs_lm`, `cot_delta`: differences of accuracies, before rounding.
- `bleu1`, `bert_f1` of free-form answers against the correct reading: means over items; an empty answer is 0.

Failed requests are not in the denominator. Intervals are over pictures.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, get_args

import numpy as np
import pandas as pd

from pipelines.benchmarks.item_lists import ItemList, ListedItem, listed, rows_of
from pipelines.benchmarks.metrics_kernel.definitions import Estimate, Measure, MetricDef, estimates, with_intervals
from pipelines.benchmarks.metrics_kernel.rows import Bools, ScoredRows, aligned, answers_bleu_counts, coverage_note
from pipelines.benchmarks.readers.option_letters import InvalidReason, Rule
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vague.answers import Flag
from pipelines.benchmarks.vague.facts import CAPTIONED, SETTINGS
from pipelines.benchmarks.vague.prompts import (
    LETTERS,
    READINGS,
    action,
    gold_letter,
    kinds_by_letter,
    readings_by_letter,
)
from pipelines.metrics.ngrams import bleu_of_counts, bleu_of_sums

TOP_ACTIONS: Final = 20
REASONS: Final[tuple[str, ...]] = get_args(InvalidReason)
RULES: Final[tuple[str, ...]] = (*get_args(Rule), "none")
FLAGS: Final[tuple[str, ...]] = get_args(Flag)
_HUMAN_SETTINGS: Final = ("vlm", "vlm-cot")
_NO_SCORER: Final = "no BERTScore model could be used"
_NO_BASELINE: Final = "no baseline is known for the BERTScore model in use"
_APPROXIMATE: Final = "the best-rated items, for which of them the human answered is not published"
_WRONG: Final = READINGS[1:]


def _no_answer(rows: ScoredRows) -> str:
    return rows.note or ("no request was answered" if rows.failed.any() else "no request could be asked")


_metric: Final = partial(MetricDef, empty=_no_answer)
_ACCURACY: Final = _metric(name="accuracy", value="correct")
_ERROR_SHARES: Final = tuple(
    MetricDef(
        name=f"error_share_{kind}",
        value=lambda rows, kind=kind: np.stack([rows["kind"] == kind, np.isin(rows["kind"], _WRONG)], 1),  # type: ignore[misc]
        form="paired",
    )
    for kind in _WRONG
)
_BLEUS: Final = tuple(_metric(name=name, value=name) for name in ("bleu1", "bleu1_noopener"))
_CORPUS_BLEU: Final = _metric(
    name="bleu1_corpus",
    value="bleu_counts",
    statistic=partial(bleu_of_sums, order=1),
    from_totals=partial(bleu_of_counts, order=1),
    form="both",
)
_GAINS: Final = (
    *(("delta_vs_lm", setting, "lm") for setting in ("sm", "vlm")),
    *(("cot_delta", f"{setting}-cot", setting) for setting in ("sm", "vlm")),
    ("delta_vs_lm", CAPTIONED, "lm"),
    ("caption_delta", CAPTIONED, "sm"),
)
"""Metric, setting, and the setting that it is compared with."""


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model by subset, task and setting, then facts of the data with task ''.

    The note of a None says why. A column of `scores` without values may be absent.
    """
    every = _with_facts(scores, samples)
    metrics: list[Metric] = []
    for scope in _scopes(every):
        groups = {(rows.task, rows.setting): rows for rows in _groups(scope)}
        numbers = [*estimates(m for rows in groups.values() for m in _group_measures(rows)), *_gains(groups)]
        metrics += with_intervals(numbers)
        metrics += [metric for rows in groups.values() for metric in _counts(rows)]
    return metrics + list(_data_facts([samples[name] for name in dict.fromkeys(scores["sample_id"])]))


def paired_measures(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield the share of each kind of wrong reading among all wrong readings, and corpus BLEU-1."""
    for rows in _groups(_with_facts(scores, samples)) if samples else ():
        yield from _group_measures(rows)


def _with_facts(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> ScoredRows:
    """Return the rows with facts of their items, the kind of reading that is chosen, and free-form answers' n-grams."""
    rows = ScoredRows.of(scores)
    items = [samples[name] for name in rows["sample_id"]]
    kinds = [kinds_by_letter(item).get(str(answer), "") for item, answer in zip(items, rows["answer"], strict=True)]
    rated = [item.data.get("rating") or {} for item in items]
    pairs: list[tuple[Any, Any]] = [(rating.get("direct"), rating.get("indirect")) for rating in rated]
    written = rows.ok & (rows["task"] == "freeform")
    references = [[items[row].data["readings"]["correct"]] for row in np.flatnonzero(written)]
    return rows.with_columns(
        subset=np.array([item.subset for item in items]),
        human=np.array([item.data.get("human", "") for item in items]),
        gold=np.array([gold_letter(item) for item in items]),
        rating=np.array(["" if None in pair else f"{sum(pair) / 2:g}" for pair in pairs]),
        kind=np.array(kinds),
        bleu_counts=answers_bleu_counts(rows, written, references, lowercase=True),
    )


def _scopes(rows: ScoredRows) -> Iterator[ScoredRows]:
    """Yield all rows, those of subsets, and those of the items that a person answered or that stand in for them."""
    yield rows
    for name in dict.fromkeys(rows["subset"].tolist()):
        if name:
            yield rows.where(rows["subset"] == name).named(subset=name)
    for name in sorted(set(rows["human"].tolist()) - {""}):
        yield rows.where(human=name).named(subset=name, note=_APPROXIMATE if name.endswith("approx") else "")


def _groups(scope: ScoredRows) -> Iterator[ScoredRows]:
    """Yield the rows of each task and setting."""
    for task in ("mcq", "freeform"):
        is_human = scope.subset.startswith("human")
        settings = (*SETTINGS, CAPTIONED) if not is_human else _HUMAN_SETTINGS if task == "mcq" else ()
        for setting in settings:
            rows = scope.where(task=task, setting=setting).named(task=task, setting=setting)
            if len(rows):
                yield rows.named(note="; ".join(filter(None, (scope.note, coverage_note(rows)))))


def _group_measures(rows: ScoredRows) -> Iterator[Measure]:
    definitions = (_ACCURACY, *_ERROR_SHARES)
    if rows.task == "freeform":
        definitions = (*_BLEUS, _CORPUS_BLEU, *_bert(rows))
        rows = rows.with_columns(**{name: _bert_scores(rows, name) for name in ("bert_f1", "bert_f1_raw")})
    yield from (Measure(definition=definition, parts=(rows,)) for definition in definitions)


def _bert(rows: ScoredRows) -> Iterator[MetricDef]:
    """Yield BERTScore in both scales; a mean over part of the answers has no value."""
    has_raw = not np.isnan(rows.floats("bert_f1_raw")[rows.ok]).all()
    for name, reason in (("bert_f1", _NO_BASELINE if has_raw else _NO_SCORER), ("bert_f1_raw", _NO_SCORER)):
        lacks_all = np.isnan(_bert_scores(rows, name)[rows.ok]).all()
        yield _metric(
            name=name, value=name, missing=reason if lacks_all else lambda gaps: f"{len(gaps):,} answers have no score"
        )


def _bert_scores(rows: ScoredRows, name: str) -> np.ndarray:
    """Return the scores of answers; an empty answer is 0 where a scorer ran."""
    scores = np.where(rows.ok, rows.floats(name), np.nan)
    return scores if np.isnan(scores).all() else np.where(np.isnan(scores) & ~_written(rows), 0.0, scores)


def _written(rows: ScoredRows) -> Bools:
    return np.array([bool(text) for text in rows.texts("answer")], dtype=np.bool_)


def _gains(groups: Mapping[tuple[str, str], ScoredRows]) -> Iterator[Estimate]:
    """Yield the differences of accuracies between settings."""
    for metric, setting, baseline in _GAINS:
        left, right = (groups.get(("mcq", name)) for name in (setting, baseline))
        if left is None or right is None or left.subset.startswith("human"):
            continue
        first, second = aligned(left, right, "sample_id")
        notes = [f"{side.setting}: {side.note}" for side in (left, right) if side.note]
        gain = _ACCURACY.estimate(left).minus(
            _ACCURACY.estimate(right),
            metric=metric,
            n=int((first.ok & second.ok).sum()),
            n_failed=len({*left["sample_id"][left.failed], *right["sample_id"][right.failed]}),
            note="; ".join(notes),
        )
        has_note = gain.metric.value is not None or gain.metric.note
        yield gain if has_note else gain.noted("one side has no answer")


def _counts(rows: ScoredRows) -> Iterator[Metric]:
    chosen = _choices(rows) if rows.task == "mcq" else _texts(rows)
    note = rows.note if rows.ok.any() else _no_answer(rows)
    for (metric, category), mask in chosen.items():
        yield rows.count_of(metric, mask, category=category, note=note)
    if rows.task != "mcq" or rows.subset:
        return
    for name in sorted(set(rows["rating"].tolist()) - {""}):  # the mean of both human ratings
        part = rows.where(rating=name).named(category=name)
        yield MetricDef(name="accuracy_by_rating", value="correct", empty=_no_answer).estimate(part).metric


def _choices(rows: ScoredRows) -> dict[tuple[str, str], Bools]:
    """Choose rows by reading and reason of unreadable answers; of all items by parsing rule and letters too."""
    kinds, letters = rows["kind"], rows.texts("answer")
    chosen = {(f"count_{name}", ""): kinds == name for name in READINGS}
    chosen["valid_count", ""] = valid = np.any(list(chosen.values()), axis=0)
    chosen["count_invalid", ""] = ~valid
    chosen |= {("count_invalid", reason): rows.flagged(f"invalid:{reason}") for reason in REASONS}
    chosen |= _captions(rows)
    if rows.subset:
        return chosen
    chosen |= {("count_rule", rule): rows["rule"] == rule for rule in RULES}
    for gold in LETTERS:
        is_gold = rows["gold"] == gold
        chosen |= {("count_letter", f"{gold}/{letter}"): is_gold & (letters == letter) for letter in LETTERS}
        chosen["count_letter", f"{gold}/invalid"] = is_gold & ~rows.read
    return chosen


def _texts(rows: ScoredRows) -> dict[tuple[str, str], Bools]:
    """Choose rows by whether the free-form answer is readable, and by its oddities."""
    written = _written(rows)
    chosen = {("valid_count", ""): written, ("count_invalid", ""): ~written, ("count_invalid", "empty"): ~written}
    return chosen | {(f"count_{flag}", ""): rows.flagged(flag) for flag in FLAGS} | _captions(rows)


def _captions(rows: ScoredRows) -> dict[tuple[str, str], Bools]:
    return {("count_caption_empty", ""): rows.flagged("caption_empty")} if rows.setting.startswith("sm") else {}


def _data_facts(items: Sequence[Sample]) -> Iterator[Metric]:
    """Yield the means of Table B1 and the actions of Figure B1 for each subset."""
    for subset in dict.fromkeys(item.subset for item in items if item.subset):
        selected = [item for item in items if item.subset == subset]
        fact = partial(Metric, task="", setting="", subset=subset)
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


_KINDS: Final = {
    "fs": "a reading of another scene (FS)",
    "su": "the literal reading (SU)",
    "ne": "a reading with an object that is not there (NE)",
    "invalid": "no readable choice",
}


def item_lists(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[ItemList]:
    """Return the lists of one model, from its scores and samples by id."""
    lists: dict[str, list[ListedItem]] = {kind: [] for kind in _KINDS}
    if "correct" not in scores:
        return []
    is_wrong = (scores["task"] == "mcq") & (scores["status"] == "ok") & (scores["correct"] == 0.0)
    for row in rows_of(scores[is_wrong]):
        sample = samples[row["sample_id"]]
        item = listed(
            row,
            question=str(sample.data["indirect"]),
            expected=str(sample.data["readings"]["correct"]),
            answer=readings_by_letter(sample).get(row["answer"], ""),
            detail=", ".join(flag for flag in row["flags"] if flag.startswith("invalid:")),
        )
        lists[kinds_by_letter(sample).get(row["answer"], "invalid")].append(item)
    return [
        ItemList(
            id=f"vague_{kind}",
            title=f"VAGUE: items with {_KINDS[kind]}",
            about="Counted in Tables 2, 3, H3 and H4; here over all items.",
            items=items,
        )
        for kind, items in lists.items()
    ]
