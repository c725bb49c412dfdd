"""MAIA's similarity metrics and intervals: agreement with the library functions."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pipelines.benchmarks.maia.facts import COLUMNS
from pipelines.metrics.ngrams import bleu_counts, bleu_of_counts, cider
from tests.support.interval_oracle import jackknife_ends, mean_ends, share_ends
from tests.support.maia_rows import ANSWERS, Question, every_column, metric_of, reduced
from tests.unit.pipelines.metrics.metric_cases import corpus_bleu

# -------------------------------------------------------------------------------------------------------- similarity


def test_similarity_of_a_category_is_over_its_rows() -> None:
    texts = ["nel forno a legna", "la pizza", "un cane corre", "dentro il forno del cuoco"]
    scripted = [replace(question, answer=texts[index % 4]) for index, question in enumerate(every_column(videos=3))]
    metrics = reduced(scripted)
    references = [list(ANSWERS)] * len(scripted)
    scores = cider([question.answer for question in scripted], references)
    assert metric_of(metrics, "cider").value == pytest.approx(np.mean(scores))
    assert metric_of(metrics, "cider").unit == "score"
    for column in COLUMNS:
        indices = [index for index, question in enumerate(scripted) if question.category == column]
        assert metric_of(metrics, "cider", column).value == pytest.approx(np.mean([scores[index] for index in indices]))
        candidates = [scripted[index].answer for index in indices]
        for name, order in (("bleu", 4), ("bleu_1", 1), ("bleu_2", 2), ("bleu_3", 3)):
            expected = corpus_bleu(candidates, references[: len(indices)], order=order)
            assert metric_of(metrics, name, column).value == pytest.approx(expected)


def test_bertscore_is_null_where_a_score_is_missing() -> None:
    assert metric_of(reduced(every_column()), "bertscore").note == "no scorer gave it"
    scripted = [replace(question, values={"bertscore": 0.75}) for question in every_column()]
    metrics = reduced(scripted)
    assert (metric_of(metrics, "bertscore").value, metric_of(metrics, "bertscore", "Causal").n) == (0.75, 2)
    partly = reduced([replace(scripted[0], values=None), *scripted[1:]])
    assert (metric_of(partly, "bertscore").value, metric_of(partly, "bertscore").note) == (
        None,
        "answers without a score: 1",
    )
    assert metric_of(partly, "bertscore", "Sentiment").value == 0.75


def test_cider_is_null_for_one_answer() -> None:
    metric = metric_of(reduced([Question()]), "cider")
    assert (metric.value, metric.note) == (None, "one question alone has no document frequencies")


# --------------------------------------------------------------------------------------------------------- intervals


def test_intervals_are_over_videos() -> None:
    pairs = ["T" * 8, "TTTTFFFF", "T" * 8, "F" * 8]
    scripted = [replace(question, pairs=pairs[index // 12]) for index, question in enumerate(every_column(videos=4))]
    metrics = reduced(scripted)
    expected = share_ends(
        [float(question.pairs == "T" * 8) for question in scripted], [question.video for question in scripted]
    )
    pool = metric_of(metrics, "pool_accuracy")
    assert (pool.ci_low, pool.ci_high) == pytest.approx(expected)
    assert metric_of(reduced(every_column(videos=1)), "pool_accuracy").ci_low is None


def test_interval_of_a_difference_is_paired() -> None:
    single = [replace(o, pairs="F" * 8, setting="1-frame", judged="") for o in every_column(videos=4)]
    single[:20] = [replace(o, pairs="T" * 8) for o in single[:20]]
    full = [replace(o, pairs="T" * 8 if i % 3 else "F" * 8, judged="") for i, o in enumerate(every_column(videos=4))]
    gain = metric_of(reduced([*full, *single]), "pool_gain_over_1_frame")
    after, before = ([float(o.pairs == "T" * 8) for o in rows] for rows in (full, single))
    expected = mean_ends(np.subtract(after, before).tolist(), [o.video for o in full])
    assert gain.value == pytest.approx(np.mean(after) - np.mean(before))
    assert (gain.ci_low, gain.ci_high) == pytest.approx((expected[0], min(expected[1], 1.0)))
    assert not [m for m in reduced([*full, *single[1:]]) if m.metric == "pool_gain_over_1_frame"]


def test_intervals_of_corpus_metrics_are_over_videos() -> None:
    texts = ["nel forno a legna", "la pizza è nel forno", "un cane corre", "dentro il forno del cuoco"]
    scripted = [replace(question, answer=texts[index // 12]) for index, question in enumerate(every_column(videos=4))]
    metrics = reduced(scripted)
    counts = bleu_counts(texts, [list(ANSWERS)] * 4) * 12
    for name, order in (("bleu", 4), ("bleu_1", 1)):
        metric, statistic = metric_of(metrics, name), partial(_bleu, counts, order)
        assert (metric.ci_low, metric.ci_high) == pytest.approx(jackknife_ends(statistic, "abcd", logit=True))
    scores = cider([question.answer for question in scripted], [list(ANSWERS)] * len(scripted))
    assert set(scores) == {0.0}  # every question has the same references
    assert (metric_of(metrics, "cider").value, metric_of(metrics, "cider").ci_low) == (0.0, None)


def _bleu(counts: np.ndarray, order: int, rows: Sequence[int]) -> float:
    return bleu_of_counts(counts[list(rows)].sum(axis=0), order)
