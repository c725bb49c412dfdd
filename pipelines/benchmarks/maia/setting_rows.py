"""MAIA's scored rows in one setting: eight pairs and one open answer a question, and what follows for questions.

Open answers are compared with people's eight: the metrics of Table 4 by our variants and by the authors'.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import numpy as np
import pandas as pd

from pipelines.benchmarks.maia.facts import COLUMNS, POOL_SIZE
from pipelines.benchmarks.metrics_kernel.definitions import Grouping, Measure, MetricDef
from pipelines.benchmarks.metrics_kernel.rows import (
    Bools,
    ScoredRows,
    aligned,
    answers_bleu_counts,
    coverage_note,
    not_run_note,
    worst_status,
)
from pipelines.benchmarks.records import Sample
from pipelines.metrics.bleu import bleu_of_counts, bleu_of_sums, plain_bleu_of_counts, plain_bleu_of_sums
from pipelines.metrics.cider import cider
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.text import tokens_ptb, words


def prepare(scores: pd.DataFrame) -> pd.DataFrame:
    """Sort the scores by question and pair. A category that is none of the twelve columns raises ValueError."""
    unknown = sorted(set(scores["category"]) - set(COLUMNS))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no category column of MAIA; there are {', '.join(COLUMNS)}")
    return scores.sort_values(["sample_id", "variant"], kind="stable", ignore_index=True)


def check_pools(pairs: ScoredRows) -> None:
    """Assert that every question has its eight pairs, as it has in the scores of one model."""
    ids, counts = np.unique(pairs["sample_id"].astype(str), return_counts=True)
    assert (counts == POOL_SIZE).all(), f"{ids[counts != POOL_SIZE][0]} has not {POOL_SIZE} rows in this setting"
    variants = [str(index) for index in range(POOL_SIZE)] * len(ids)
    assert pairs["variant"].tolist() == variants, "a pair of a pool occurs twice"


def every(rows: ScoredRows) -> Bools:
    """Count every row."""
    return np.ones(len(rows), dtype=np.bool_)


def right(rows: ScoredRows) -> Bools:
    """Return the pairs whose true statement was chosen."""
    return np.asarray(rows.ok & (rows.floats("correct") == 1), dtype=np.bool_)


def accepted(rows: ScoredRows) -> FloatArray:
    """Return 1 where the judge accepts, 0 where not or where the request failed, NaN without a verdict."""
    return np.where(rows.failed, 0.0, rows.floats("accepted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRows:
    """The rows of one setting; a question with an excluded row is left out, so that a pool always holds eight pairs."""

    tasks: frozenset[str]  # that are part of the sweep in this setting
    pairs: ScoredRows  # of `vsv`
    pools: ScoredRows  # a row a question of `vsv`: `right` pairs, their `share`, whether the `pool` is right
    answers: ScoredRows  # of `oevqa`
    joint: ScoredRows  # a row a question of both: `pool`, and `judged` as of `accepted`
    not_run: int  # requests of both tasks without a result, which leave metrics over questions without a value

    @classmethod
    def of(cls, rows: ScoredRows) -> Self:
        """Split the rows of one setting, as `prepare` returns them, by task."""
        tasks = {name: rows.where(task=name).named(task=name) for name in ("vsv", "oevqa")}
        excluded = {name: set(part.where(part.excluded)["sample_id"]) for name, part in tasks.items()}
        pairs, answers = (
            part.where(np.array([name not in excluded[task] for name in part["sample_id"]], dtype=np.bool_))
            for task, part in tasks.items()
        )
        not_run = int(pairs.missing.sum() + answers.missing.sum())
        blocked, pools = not_run_note(not_run), _pools(pairs)
        # A question of one task alone lacks the requests of the other task, unless these are excluded.
        ids, open_ids = set(pools["sample_id"]), set(answers["sample_id"])
        unmatched = len(ids - open_ids - excluded["oevqa"]) + POOL_SIZE * len(open_ids - ids - excluded["vsv"])
        first, second = aligned(pools, answers, "sample_id")
        joint = first.with_columns(
            judged=accepted(second),
            status=worst_status(first["status"], second["status"]),
            verdict_state=second.texts("verdict_state"),
        )
        return cls(
            tasks=frozenset(name for name, part in tasks.items() if len(part)),
            pairs=pairs.named(note=coverage_note(pairs)),
            pools=pools.named(blocked=blocked),
            answers=answers.named(note=coverage_note(answers), blocked=blocked),
            joint=joint.named(task="aggregate", blocked=not_run_note(not_run + unmatched)),
            not_run=not_run,
        )

    def is_planned(self, task: str) -> bool:
        """Return whether a task is part of the sweep in this setting."""
        return task in self.tasks


def _pools(pairs: ScoredRows) -> ScoredRows:
    """Return a row a question with eight pairs."""
    _, counts = np.unique(pairs["sample_id"].astype(str), return_counts=True)
    whole = pairs.where(np.repeat(counts == POOL_SIZE, counts))
    is_right = right(whole).reshape(-1, POOL_SIZE)
    return whole.at(np.arange(0, len(whole), POOL_SIZE)).with_columns(
        right=is_right.sum(axis=1),
        share=is_right.mean(axis=1),
        pool=np.asarray(is_right.all(axis=1)),
        status=worst_status(*whole["status"].reshape(-1, POOL_SIZE).T),
    )


BY_CATEGORY: Final = Grouping(names=COLUMNS)
WITH_MACRO: Final = Grouping(names=COLUMNS, mean_suffix="_macro")
_NO_WORDNET: Final = "no WordNet in /usr/share/wordnet: install Debian's wordnet-base and score again"
_MEASURED_BY_CATEGORY: Final = ("rouge", "bertscore", "meteor")
_BLEUS: Final = tuple(
    MetricDef(
        name=f"bleu_{order}" if order < 4 else "bleu",
        value="bleu_counts",
        statistic=partial(bleu_of_sums, order=order),
        of_totals=partial(bleu_of_counts, order=order),
        form="single" if order < 4 else "both",
    )
    for order in (4, 1, 2, 3)
)
_BLEU_SHORTEST: Final = MetricDef(
    name="bleu_shortest", value="bleu_shortest_counts", statistic=plain_bleu_of_sums, of_totals=plain_bleu_of_counts
)
_CIDER: Final = MetricDef(
    name="cider", value="cider", missing="one question alone has no document frequencies", unit="score", form="both"
)
_CIDER_PTB: Final = replace(_CIDER, name="cider_ptb", value="cider_ptb", form="single")


def _unscored(rows: ScoredRows) -> str:
    return f"answers without a score: {len(rows):,}"


def similarity_measures(measured: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield the measures of the answers, by category where an answer has a value of its own."""
    for name in ("rouge", "bertscore", "meteor", "rouge1", "meteor_wordnet"):
        lacks_all = bool(np.isnan(measured.floats(name)[measured.ok]).all())
        missing = _NO_WORDNET if name == "meteor_wordnet" else "no scorer gave it"
        definition = MetricDef(name=name, value=name, missing=missing if lacks_all else _unscored)
        if name in _MEASURED_BY_CATEGORY:
            yield from WITH_MACRO.measures(definition, measured)
        else:
            yield Measure(definition=definition, parts=(measured,))
    if samples:
        compared = _compared(measured, samples)
        for definition in _BLEUS:
            yield from BY_CATEGORY.measures(definition, compared)
        yield from WITH_MACRO.measures(_CIDER, compared)
        for definition in (_BLEU_SHORTEST, _CIDER_PTB):
            yield Measure(definition=definition, parts=(compared,))


def _compared(rows: ScoredRows, samples: Mapping[str, Sample]) -> ScoredRows:
    """Return the rows with the n-gram counts and the CIDEr-D of the answered ones, compared with people's answers."""
    answered = np.flatnonzero(rows.ok)
    texts = [answer or "" for answer in rows.texts("answer")[answered]]
    references = [list(samples[name].data["answers"]) for name in rows["sample_id"][answered]]
    columns: dict[str, np.ndarray] = {}
    for name, is_shortest in (("bleu_counts", False), ("bleu_shortest_counts", True)):
        columns[name] = answers_bleu_counts(rows, rows.ok, references, shortest=is_shortest)
    for name, tokenizer in (("cider", words), ("cider_ptb", tokens_ptb)):
        columns[name] = np.full(len(rows), np.nan)
        if len(answered) > 1:
            columns[name][answered] = cider(texts, references, tokenizer)
    return rows.with_columns(**columns)
