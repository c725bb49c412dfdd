"""Differences between inputs by category, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from pipelines.benchmarks.maia.tables import make_tables
from pipelines.report.model import METRIC_KEYS
from tests.support.maia_rows import Question, metric_of, reduced
from tests.support.report_results import results_of

CAUSAL = Question(pairs="TTTTTTTT", judged="accepted", category="Causal", video="video1", name="CausaleEsplicita_A")
SENTIMENT = Question(pairs="TTTTTTFF", judged="rejected", category="Sentiment", video="video2", name="Sentiment_A")
SINGLE = (replace(CAUSAL, setting="1-frame", pairs="TTTTFFFF"), replace(SENTIMENT, setting="1-frame", pairs="TTTTTTTT"))
BLACK = tuple(replace(q, setting="black-video", pairs="FFFFFFFF", judged="rejected") for q in (CAUSAL, SENTIMENT))


def test_gains_are_paired_by_question_and_category() -> None:
    metrics = reduced([CAUSAL, SENTIMENT, *SINGLE, *BLACK])
    expected = {
        # Statements: 8/8 and 6/8 at 32 frames, 4/8 and 8/8 at one, none on black.
        ("statement_gain_over_1_frame", ""): 0.125,
        ("statement_gain_over_1_frame", "Causal"): 0.5,
        ("statement_gain_over_1_frame", "Sentiment"): -0.25,
        ("statement_gain_over_black_video", ""): 0.875,
        # Pools: 1 and 0, against 0 and 1, and 0 and 0.
        ("pool_gain_over_1_frame", ""): 0.0,
        ("pool_gain_over_1_frame", "Causal"): 1.0,
        ("pool_gain_over_1_frame", "Sentiment"): -1.0,
        ("pool_gain_over_black_video", ""): 0.5,
        # Open answers: accepted and rejected, the same at one frame, none on black.
        ("oevqa_gain_over_1_frame", ""): 0.0,
        ("oevqa_gain_over_black_video", "Causal"): 1.0,
        ("oevqa_gain_over_black_video", "Sentiment"): 0.0,
    }
    actual = {key: metric_of(metrics, *key) for key in expected}
    assert {key: metric.value for key, metric in actual.items()} == expected
    whole = actual["pool_gain_over_1_frame", ""]
    assert (whole.ci_low, whole.ci_high, whole.n) == (-1.0, 1.0, 2)
    frame = pd.DataFrame(
        [{name: getattr(metric, name, "") for name in METRIC_KEYS} | {"model": "m"} for metric in metrics]
    ).assign(benchmark="maia")
    (table,) = (table for table in make_tables(results_of("maia", frame)) if table.id == "maia_category_deltas")
    headings = [row.label for row in table.rows if row.origin == "heading"]
    assert headings[0] == "Statement accuracy: 32-Frames \N{MINUS SIGN} 1-Frame"
    assert len(headings) == 6
    first = table.rows[1]
    assert first.label == "m"
    assert [cell.value for cell in first.cells[:2]] == [0.125, 0.5]  # type: ignore[union-attr]


def test_gains_need_the_same_questions_and_all_verdicts() -> None:
    metrics = reduced([CAUSAL, SENTIMENT, *SINGLE[:1], *(replace(q, judged="absent") for q in BLACK)])
    names = {metric.metric for metric in metrics}
    assert not {name for name in names if name.endswith("gain_over_1_frame")}
    unjudged = metric_of(metrics, "oevqa_gain_over_black_video")
    assert (unjudged.value, unjudged.note) == (None, "not every answer has a verdict")
