"""MAIA's metrics: worked examples, failures and gaps, and agreement with counting by hand."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.maia.benchmark import BENCHMARK
from pipelines.benchmarks.maia.facts import COLUMNS
from pipelines.benchmarks.maia.letters import draw_ts_letter
from pipelines.benchmarks.maia.metrics import reduce_scores
from pipelines.benchmarks.records import Verdict
from tests.support.maia_rows import ANSWERS, Question, every_column, frame, metric_of, reduced, samples
from tests.support.paths import GOLDEN
from tests.support.sweeps import answered_row, scored_row

GOLDEN_ROWS = GOLDEN / "maia" / "pools.jsonl"
ROWS = [json.loads(line) for line in GOLDEN_ROWS.read_text().splitlines()]
HEADLINES = ("statement_accuracy", "pool_accuracy", "oevqa_accuracy", "agg_acc")
OVER_QUESTIONS = HEADLINES[1:]


def numbered(questions: Sequence[tuple[str, str]], **how: Any) -> list[Question]:
    return [
        Question(pairs=pairs, judged=judged, video=f"video{index}", **how)
        for index, (pairs, judged) in enumerate(questions)
    ]


# ------------------------------------------------------------------------------------------------- worked examples


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_headline_metrics_agree_with_golden_pools(row: dict[str, Any]) -> None:
    metrics = reduced(numbered(row["questions"]))
    assert {name: metric_of(metrics, name).value for name in HEADLINES} == {name: row[name] for name in HEADLINES}
    assert {name: metric_of(metrics, name, "Causal").value for name in HEADLINES} == {
        name: row[name] for name in HEADLINES
    }
    assert all((metric.value is None) <= bool(metric.note) for metric in metrics)


def test_counts_agree_with_the_golden_example() -> None:
    metrics = reduced(numbered(ROWS[0]["questions"]))
    assert (metric_of(metrics, "statement_accuracy").n, metric_of(metrics, "pool_accuracy").n) == (16, 2)
    assert metric_of(metrics, "none_rate").value == 1 / 16
    assert [metric_of(metrics, f"pool_right_{right}").value for right in range(9)] == [0, 0, 0, 0, 0, 0, 1, 0, 1]
    names = ("agg_both", "agg_pool_only", "agg_judge_only", "agg_neither")
    assert [metric_of(metrics, name).value for name in names] == [0, 1, 1, 0]
    assert [metric_of(metrics, name, "Causal").value for name in names] == [0, 1, 1, 0]
    assert metric_of(metrics, "statement_minus_pool").value == 0.375
    assert metric_of(metrics, "oevqa_minus_pool").value == 0.0


# ------------------------------------------------------------------------------------------- failures, gaps, verdicts


def test_errors_count_as_wrong_and_are_reported() -> None:
    metrics = reduced(numbered([("EEEEEEEE", "error"), ("TTTTTTTE", "accepted"), ("TTTTTTTT", "accepted")]))
    assert [(metric_of(metrics, name).n, metric_of(metrics, name).n_failed) for name in HEADLINES] == [
        (24, 9),
        (3, 2),
        (3, 1),
        (3, 2),
    ]
    assert metric_of(metrics, "errors", task="vsv").value == 9
    assert metric_of(metrics, "errors", task="oevqa").value == 1
    assert metric_of(metrics, "pool_right_0").value == 1
    # An error is no answer that could not be read.
    assert (metric_of(metrics, "none_rate").value, metric_of(metrics, "none_rate").n) == (0.0, 15)


def test_similarity_metrics_ignore_errors() -> None:
    metrics = reduced(numbered([("T" * 8, "error"), ("T" * 8, "accepted"), ("T" * 8, "rejected")]))
    for name in ("rouge", "meteor", "bleu", "bleu_1", "cider"):
        assert (metric_of(metrics, name).n, metric_of(metrics, name).n_failed) == (2, 1)
    assert metric_of(metrics, "rouge").value == 0.5


def test_missing_requests_are_noted_in_every_category() -> None:
    scripted = every_column(pairs="TTTTTTTT")
    scripted[3] = replace(scripted[3], pairs="MMTTTTTT")
    metrics = reduced(scripted)
    for category in ("", *COLUMNS):
        for name in OVER_QUESTIONS:
            metric = metric_of(metrics, name, category)
            assert (metric.value, metric.ci_low, metric.note) == (None, None, "2 requests were never run")
    assert metric_of(metrics, "pool_accuracy").n == 24
    statements = metric_of(metrics, "statement_accuracy")
    assert (statements.value, statements.n, statements.note) == (1.0, 190, "2 requests were never run")
    assert metric_of(metrics, "pool_right_8").value is None
    assert metric_of(metrics, "agg_both").value is None
    assert metric_of(metrics, "rouge").value == 0.5


def test_missing_requests_block_only_their_setting() -> None:
    metrics = reduced([Question(pairs="MMMMMMMM", judged="missing", setting="1-frame"), Question()])
    assert metric_of(metrics, "pool_accuracy").value == 1.0
    assert metric_of(metrics, "statement_accuracy", setting="1-frame").value is None
    assert metric_of(metrics, "pool_gain_over_1_frame").note == "9 requests were never run"


def test_note_says_why_verdicts_are_missing() -> None:
    questions = [("T" * 8, "failed"), ("T" * 8, "failed"), ("T" * 8, "accepted")]
    scripted = [replace(q, category=COLUMNS[index]) for index, q in enumerate(numbered(questions))]
    metrics = reduced(scripted)
    assert metric_of(metrics, "oevqa_accuracy").note == "2 verdicts failed"
    assert metric_of(metrics, "agg_acc", COLUMNS[0]).note == "1 verdict failed"
    # The category whose answers all have a verdict keeps its value.
    assert metric_of(metrics, "oevqa_accuracy", COLUMNS[2]).value == 1.0
    assert metric_of(metrics, "agg_both", COLUMNS[2]).value == 1
    assert metric_of(metrics, "agg_both").value is None


def test_judged_metrics_are_null_without_a_judge() -> None:
    metrics = reduced(every_column(judged="absent"))
    for name in ("oevqa_accuracy", "agg_acc", "agg_both", "oevqa_minus_pool", "judge_error_count"):
        assert (metric_of(metrics, name).value, metric_of(metrics, name).note) == (
            None,
            "no judge: give one with --judge",
        )
    assert metric_of(metrics, "pool_accuracy").value == 1.0


def test_unreadable_verdicts_and_truncated_answers_are_counted() -> None:
    scripted = numbered([("T" * 8, "invalid"), ("T" * 8, "accepted"), ("T" * 8, "error")])
    scripted[1] = replace(scripted[1], values={"flags": np.array(["truncated"], dtype=object)})
    metrics = reduced(scripted)
    assert (metric_of(metrics, "judge_error_count").value, metric_of(metrics, "judge_error_count").n) == (1, 2)
    assert metric_of(metrics, "truncated_count").value == 1


def test_aggregate_is_null_where_a_question_lacks_one_task() -> None:
    alone = Question(judged="", video="video2")
    metrics = reduced([Question(), alone, Question(pairs="", video="video3")])
    assert metric_of(metrics, "pool_accuracy").value == metric_of(metrics, "oevqa_accuracy").value == 1.0
    assert (metric_of(metrics, "agg_acc").value, metric_of(metrics, "agg_acc").note) == (
        None,
        "9 requests were never run",
    )


@pytest.mark.parametrize(("pairs", "judged", "tasks"), [("T" * 8, "", {"vsv"}), ("", "accepted", {"oevqa"})])
def test_task_outside_of_the_plan_has_no_metrics(pairs: str, judged: str, tasks: set[str]) -> None:
    metrics = reduced(every_column(pairs=pairs, judged=judged))
    assert {metric.task for metric in metrics} == tasks


def test_metrics_of_excluded_and_failed_rows_alone() -> None:
    metrics = reduced([Question(pairs="X" * 8, judged="error")])
    assert (metric_of(metrics, "pool_accuracy").value, metric_of(metrics, "pool_accuracy").n) == (None, 0)
    assert (metric_of(metrics, "oevqa_accuracy").value, metric_of(metrics, "oevqa_accuracy").n_failed) == (0.0, 1)
    for name in ("rouge", "bleu", "cider"):
        assert (metric_of(metrics, name).value, metric_of(metrics, name).note) == (None, "no row to measure")


def test_reduce_takes_the_columns_that_read_answer_returns() -> None:
    (plain,) = samples([Question()]).values()
    sample = replace(plain, data={**plain.data, "video": "video1", "category": "CausaleEsplicita_A"})
    outputs = [("vsv", str(index), "A") for index in range(7)] + [("vsv", "7", "forse"), ("oevqa", "", ANSWERS[1])]
    scores = []
    for task, variant, output in outputs:
        judged = {"given": {"bertscore_f1": 0.5}, "verdict": Verdict(state="ok", accepted=True)}
        how = {"variant": variant, "finish_reason": "length", **(judged if task == "oevqa" else {})}
        scores.append(scored_row(answered_row(sample, task, "1-frame", output, **how), "maia"))
    metrics = BENCHMARK.metrics(pd.DataFrame(scores), {sample.sample_id: sample})
    drawn = [draw_ts_letter(42, "video1", "CausaleEsplicita_A", index) for index in range(8)]
    assert metric_of(metrics, "statement_accuracy", setting="1-frame").value == drawn[:7].count("A") / 8
    assert metric_of(metrics, "accuracy_ts_b", setting="1-frame").value == 0.0
    assert metric_of(metrics, "none_rate", setting="1-frame").value == 1 / 8
    names = ("oevqa_accuracy", "rouge", "bleu", "truncated_count")
    assert [metric_of(metrics, name, setting="1-frame").value for name in names] == pytest.approx([1, 1, 1, 1])
    assert metric_of(metrics, "bertscore", setting="1-frame").value == 0.5


def test_reduce_maia_returns_nothing_without_rows() -> None:
    assert reduce_scores(pd.DataFrame({"sample_id": []}), {}) == []


def test_unimodal_setting_has_pairs_only() -> None:
    metrics = reduced(every_column(setting="unimodal", judged="", pairs="TTTTTTTF"))
    assert metric_of(metrics, "statement_accuracy", setting="unimodal").value == 0.875
    assert metric_of(metrics, "pool_accuracy", "Sentiment", setting="unimodal").value == 0.0


# ------------------------------------------------------------------------------------------------------- reading rates


def test_accuracy_is_split_by_the_side_of_the_true_statement() -> None:
    metrics = reduced([Question(pairs="TFTFTFTE"), Question(pairs="TTTTTTTT", video="video2")])
    a, b = metric_of(metrics, "accuracy_ts_a"), metric_of(metrics, "accuracy_ts_b")
    assert (a.value, a.n, b.value, b.n) == (1.0, 8, 4 / 7, 7)


def test_reading_rules_are_counted() -> None:
    rows = frame([Question()])
    rows.loc[rows["variant"].isin(["1", "2"]), "rule"] = "elimination"
    rows.loc[rows["variant"] == "3", "rule"] = "echo"
    metrics = reduce_scores(rows, samples([Question()]))
    assert (metric_of(metrics, "elimination_count").value, metric_of(metrics, "echo_count").value) == (2, 1)


def test_contradictory_pools_are_listed() -> None:
    scripted = every_column(videos=1)
    samples_by_id = samples(scripted)
    for question in scripted[:11]:
        data = dict(samples_by_id[question.sample_id].data)
        data["false"] = [*data["false"][:7], data["true"][2]]
        samples_by_id[question.sample_id] = replace(samples_by_id[question.sample_id], data=data)
    metric = metric_of(reduce_scores(frame(scripted), samples_by_id), "contradictory_pools")
    assert (metric.value, metric.n) == (11, 12)
    assert "video0/Causal_A" in metric.note
    assert metric.note.endswith(" and 1 more")


# ---------------------------------------------------------------------------------------------- categories, subsets


def test_only_unbalanced_categories_have_macro_means() -> None:
    assert not [m for m in reduced(every_column()) if m.metric.endswith("_macro")]
    scripted = [
        *numbered([("T" * 8, "accepted"), ("T" * 8, "rejected"), ("F" * 8, "rejected")]),
        Question(category="Sentiment", video="video9", pairs="FTTTTTTT", judged="rejected"),
    ]
    metrics = reduced(scripted)
    assert metric_of(metrics, "pool_accuracy").value == 0.5
    assert metric_of(metrics, "pool_accuracy_macro").value == pytest.approx(1 / 3)
    assert metric_of(metrics, "statement_accuracy_macro").value == pytest.approx((2 / 3 + 7 / 8) / 2)
    assert metric_of(metrics, "oevqa_accuracy_macro").value == pytest.approx(1 / 6)
    assert metric_of(metrics, "agg_acc_macro").n == 4
    assert metric_of(metrics, "bertscore_macro").value is None


def test_average_is_the_mean_of_the_columns_on_a_balanced_set() -> None:
    pairs = ["T" * 8, "F" * 8, "TTTTTTTF"]
    scripted = [replace(q, pairs=pairs[index % 3]) for index, q in enumerate(every_column(videos=3))]
    metrics = reduced(scripted)
    for name in HEADLINES:
        columns = [metric_of(metrics, name, column).value for column in COLUMNS]
        assert metric_of(metrics, name).value == pytest.approx(
            np.mean([value for value in columns if value is not None])
        )


# ------------------------------------------------------------------------------------- agreement with counting by hand

QUESTION = st.tuples(
    st.text("TFNE", min_size=8, max_size=8) | st.just("T" * 8),
    st.sampled_from(["accepted", "rejected", "invalid", "error"]),
    st.sampled_from(COLUMNS),
)


@given(st.lists(QUESTION, min_size=1, max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_headline_metrics_equal_counting_by_hand(questions: list[tuple[str, str, str]], random: Any) -> None:
    scripted = [
        Question(pairs=pairs, judged=judged, category=category, video=f"video{index % 3}", name=f"{index}")
        for index, (pairs, judged, category) in enumerate(questions)
    ]
    rows = frame(scripted)
    order = list(range(len(rows)))
    random.shuffle(order)
    metrics = reduce_scores(rows.iloc[order], samples(scripted))
    assert metrics == reduced(scripted)
    for category in ("", *{q.category for q in scripted}):
        questions_in = [q for q in scripted if category in ("", q.category)]
        pool, accepted = [q.pairs == "T" * 8 for q in questions_in], [q.judged == "accepted" for q in questions_in]
        expected = {
            "statement_accuracy": sum(q.pairs.count("T") for q in questions_in) / (8 * len(questions_in)),
            "pool_accuracy": sum(pool) / len(questions_in),
            "oevqa_accuracy": sum(accepted) / len(questions_in),
            "agg_acc": sum(p and j for p, j in zip(pool, accepted, strict=True)) / len(questions_in),
        }
        assert {name: metric_of(metrics, name, category).value for name in expected} == pytest.approx(expected)
        parts = ("agg_both", "agg_pool_only", "agg_judge_only", "agg_neither")
        assert sum(metric_of(metrics, name, category).value or 0 for name in parts) == len(questions_in)
    assert sum(metric_of(metrics, f"pool_right_{right}").value or 0 for right in range(9)) == len(scripted)


# ---------------------------------------------------------------------------------------------- gains over fewer frames


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


def test_gains_need_the_same_questions_and_all_verdicts() -> None:
    metrics = reduced([CAUSAL, SENTIMENT, *SINGLE[:1], *(replace(q, judged="absent") for q in BLACK)])
    names = {metric.metric for metric in metrics}
    assert not {name for name in names if name.endswith("gain_over_1_frame")}
    unjudged = metric_of(metrics, "oevqa_gain_over_black_video")
    assert (unjudged.value, unjudged.note) == (None, "not every answer has a verdict")
