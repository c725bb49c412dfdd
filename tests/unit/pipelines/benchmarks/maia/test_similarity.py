"""MAIA's similarity metrics and intervals: agreement with the library functions they stand for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.maia.aggregate import interval
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.similarity import bleu_by_group
from pipelines.metrics.stats import bootstrap_ci, paired_bootstrap_ci
from pipelines.metrics.text import cider, corpus_bleu
from tests.support.maia_rows import ANSWERS, Asked, every_column, found, reduced

# -------------------------------------------------------------------------------------------------------- similarity


def test_similarity_of_each_category_is_of_its_rows() -> None:
    texts = ["nel forno a legna", "la pizza", "un cane corre", "dentro il forno del cuoco"]
    asked = [replace(one, answer=texts[place % 4]) for place, one in enumerate(every_column(videos=3))]
    metrics = reduced(asked)
    references = [list(ANSWERS)] * len(asked)
    scores = cider([one.answer for one in asked], references)
    assert found(metrics, "cider").value == pytest.approx(np.mean(scores))
    assert found(metrics, "cider").unit == ""
    for column in COLUMNS:
        own = [place for place, one in enumerate(asked) if one.category == column]
        assert found(metrics, "cider", column).value == pytest.approx(np.mean([scores[place] for place in own]))
        candidates = [asked[place].answer for place in own]
        for name, order in (("bleu", 4), ("bleu_1", 1), ("bleu_2", 2), ("bleu_3", 3)):
            expected = corpus_bleu(candidates, references[: len(own)], order=order)
            assert found(metrics, name, column).value == pytest.approx(expected)


WORDS = st.lists(st.sampled_from(["la", "pizza", "è", "nel", "forno", "un'auto", "rossa,"]), max_size=8).map(" ".join)


@given(st.lists(st.tuples(WORDS, st.lists(WORDS.filter(bool), min_size=2, max_size=2), st.integers(0, 2)), min_size=1))
@settings(deadline=None, max_examples=40)
def test_bleu_by_group_is_corpus_bleu(rows: list[tuple[str, list[str], int]]) -> None:
    scores = bleu_by_group(
        [row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows], dtype=np.intp)
    )
    for group, found_scores in scores.items():
        own = [row for row in rows if group is None or row[2] == group]
        for order, score in enumerate(found_scores, start=1):
            assert score == pytest.approx(corpus_bleu([r[0] for r in own], [r[1] for r in own], order=order))


def test_bertscore_from_wherever_it_comes() -> None:
    assert found(reduced(every_column()), "bertscore").note == "no scorer gave it"
    asked = [replace(one, values={"bertscore": 0.75}) for one in every_column()]
    metrics = reduced(asked)
    assert (found(metrics, "bertscore").value, found(metrics, "bertscore", "Causal").n) == (0.75, 2)
    partly = reduced([replace(asked[0], values=None), *asked[1:]])
    assert (found(partly, "bertscore").value, found(partly, "bertscore").note) == (None, "answers without a score: 1")
    assert found(partly, "bertscore", "Sentiment").value == 0.75


def test_one_answer_has_no_document_frequencies() -> None:
    metric = found(reduced([Asked()]), "cider")
    assert (metric.value, metric.note) == (None, "one question alone has no document frequencies")


# --------------------------------------------------------------------------------------------------------- intervals


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6)), min_size=1, max_size=40))
@settings(deadline=None, max_examples=15)
def test_intervals_are_those_of_the_library(rows: list[tuple[float, int]]) -> None:
    values, videos = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], dtype=np.intp)
    ours, expected = interval(values, videos), bootstrap_ci(values, videos)
    assert (ours is None) == (expected is None)
    if ours and expected:
        assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high))


def test_intervals_resample_videos() -> None:
    pairs = ["T" * 8, "TTTTFFFF", "T" * 8, "F" * 8]
    asked = [replace(one, pairs=pairs[place // 12]) for place, one in enumerate(every_column(videos=4))]
    metrics = reduced(asked)
    expected = bootstrap_ci([float(one.pairs == "T" * 8) for one in asked], [one.video for one in asked])
    pool = found(metrics, "pool_accuracy")
    assert expected
    assert (pool.ci_low, pool.ci_high) == pytest.approx((expected.low, expected.high))
    assert found(reduced(every_column(videos=1)), "pool_accuracy").ci_low is None


def test_differences_are_paired() -> None:
    one = [replace(o, pairs="F" * 8, setting="1-frame", judged="") for o in every_column(videos=4)]
    one[:20] = [replace(o, pairs="T" * 8) for o in one[:20]]
    many = [replace(o, pairs="T" * 8 if i % 3 else "F" * 8, judged="") for i, o in enumerate(every_column(videos=4))]
    gain = found(reduced([*many, *one]), "pool_gain_over_1_frame")
    after, before = ([float(o.pairs == "T" * 8) for o in rows] for rows in (many, one))
    expected = paired_bootstrap_ci(after, before, [o.video for o in many])
    assert gain.value == pytest.approx(np.mean(after) - np.mean(before))
    assert expected
    assert (gain.ci_low, gain.ci_high) == pytest.approx((expected.low, expected.high))
    assert not [m for m in reduced([*many, *one[1:]]) if m.metric == "pool_gain_over_1_frame"]
