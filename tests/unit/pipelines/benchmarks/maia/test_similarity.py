"""MAIA's similarity metrics and intervals: agreement with the library functions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.similarity import bleu_by_group
from pipelines.metrics.bleu import corpus_bleu
from pipelines.metrics.cider import cider
from pipelines.metrics.stats import bootstrap_ci, paired_bootstrap_ci
from tests.support.maia_rows import ANSWERS, Question, every_column, metric_of, reduced

# -------------------------------------------------------------------------------------------------------- similarity


def test_similarity_of_a_category_is_over_its_rows() -> None:
    texts = ["nel forno a legna", "la pizza", "un cane corre", "dentro il forno del cuoco"]
    scripted = [replace(question, answer=texts[place % 4]) for place, question in enumerate(every_column(videos=3))]
    metrics = reduced(scripted)
    references = [list(ANSWERS)] * len(scripted)
    scores = cider([question.answer for question in scripted], references)
    assert metric_of(metrics, "cider").value == pytest.approx(np.mean(scores))
    assert metric_of(metrics, "cider").unit == "score"
    for column in COLUMNS:
        places = [place for place, question in enumerate(scripted) if question.category == column]
        assert metric_of(metrics, "cider", column).value == pytest.approx(np.mean([scores[place] for place in places]))
        candidates = [scripted[place].answer for place in places]
        for name, order in (("bleu", 4), ("bleu_1", 1), ("bleu_2", 2), ("bleu_3", 3)):
            expected = corpus_bleu(candidates, references[: len(places)], order=order)
            assert metric_of(metrics, name, column).value == pytest.approx(expected)


WORDS = st.lists(st.sampled_from(["la", "pizza", "è", "nel", "forno", "un'auto", "rossa,"]), max_size=8).map(" ".join)


@given(st.lists(st.tuples(WORDS, st.lists(WORDS.filter(bool), min_size=2, max_size=2), st.integers(0, 2)), min_size=1))
@settings(deadline=None, max_examples=40)
def test_bleu_by_group_equals_corpus_bleu(rows: list[tuple[str, list[str], int]]) -> None:
    scores = bleu_by_group(
        [row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows], dtype=np.intp)
    )
    for group, group_scores in scores.items():
        group_rows = [row for row in rows if group is None or row[2] == group]
        for order, score in enumerate(group_scores, start=1):
            assert score == pytest.approx(
                corpus_bleu([r[0] for r in group_rows], [r[1] for r in group_rows], order=order)
            )


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


def test_intervals_resample_videos() -> None:
    pairs = ["T" * 8, "TTTTFFFF", "T" * 8, "F" * 8]
    scripted = [replace(question, pairs=pairs[place // 12]) for place, question in enumerate(every_column(videos=4))]
    metrics = reduced(scripted)
    expected = bootstrap_ci(
        [float(question.pairs == "T" * 8) for question in scripted], [question.video for question in scripted]
    )
    pool = metric_of(metrics, "pool_accuracy")
    assert expected
    assert (pool.ci_low, pool.ci_high) == pytest.approx((expected.low, expected.high))
    assert metric_of(reduced(every_column(videos=1)), "pool_accuracy").ci_low is None


def test_interval_of_a_difference_is_paired() -> None:
    single = [replace(o, pairs="F" * 8, setting="1-frame", judged="") for o in every_column(videos=4)]
    single[:20] = [replace(o, pairs="T" * 8) for o in single[:20]]
    full = [replace(o, pairs="T" * 8 if i % 3 else "F" * 8, judged="") for i, o in enumerate(every_column(videos=4))]
    gain = metric_of(reduced([*full, *single]), "pool_gain_over_1_frame")
    after, before = ([float(o.pairs == "T" * 8) for o in rows] for rows in (full, single))
    expected = paired_bootstrap_ci(after, before, [o.video for o in full])
    assert gain.value == pytest.approx(np.mean(after) - np.mean(before))
    assert expected
    assert (gain.ci_low, gain.ci_high) == pytest.approx((expected.low, expected.high))
    assert not [m for m in reduced([*full, *single[1:]]) if m.metric == "pool_gain_over_1_frame"]
