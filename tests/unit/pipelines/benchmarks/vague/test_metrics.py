"""VAGUE's metrics on frames of answers of known quality."""

from __future__ import annotations

import pytest

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.vague.benchmark import BENCHMARK
from pipelines.benchmarks.vague.metrics import REASONS
from tests.support.interval_oracle import mean_ends, share_ends
from tests.support.vague_rows import frame, item, items, perfect, reduced
from tests.support.vague_rows import metric_named as metric_of

MCQ = [("mcq", "lm"), ("mcq", "sm"), ("mcq", "vlm"), ("mcq", "vlm-cot")]


def letter_of(sample: Sample, kind: str) -> str:
    kinds = ("correct", "fs", "su", "ne")
    letter: str = sample.data["ordering"][kinds.index(kind)]
    return letter


def test_reduce_counts_the_worked_answers() -> None:
    readings = {
        "correct": "The speaker wants person1 to shut the window.",
        "fs": "The speaker wants person1 to feed the parrot.",
        "su": "The speaker wants person1 to enjoy the breeze.",
        "ne": "The speaker wants person1 to shut the curtain.",
    }
    five = [item(number, ordering=["B", "A", "C", "D"], readings=readings) for number in range(5)]
    outputs = dict(
        zip(
            [sample.sample_id for sample in five],
            ["B", "A.", "answer is c.", "**D**", "I'm sorry, I can't help with identifying people."],
            strict=True,
        )
    )
    metrics = reduced(five, lambda sample, *_: outputs[sample.sample_id], cells=[("mcq", "vlm")])
    values = {
        name: metric_of(metrics, name).value
        for name in ("count_correct", "count_fs", "count_su", "count_ne", "valid_count", "count_invalid", "accuracy")
    }
    assert values == {
        "count_correct": 1, "count_fs": 1, "count_su": 1, "count_ne": 1, "valid_count": 4, "count_invalid": 1,
        "accuracy": 0.2,
    }  # fmt: skip
    assert metric_of(metrics, "count_invalid", category="refusal").value == 1
    assert sum(metric_of(metrics, "count_invalid", category=reason).value or 0 for reason in REASONS) == 1
    assert [metric_of(metrics, "count_rule", category=rule).value for rule in ("R1", "R3", "none")] == [3, 1, 1]
    assert metric_of(metrics, "count_letter", category="B/invalid").value == 1
    assert metric_of(metrics, "count_letter", category="B/A").value == 1


def test_reduce_shows_position_bias_in_letter_counts() -> None:
    metrics = reduced(items(40), lambda *_: "A", cells=MCQ)
    assert metric_of(metrics, "accuracy").value == 0.25
    for gold in "ABCD":
        assert metric_of(metrics, "count_letter", category=f"{gold}/A").value == 10
        assert metric_of(metrics, "count_letter", category=f"{gold}/B").value == 0


def half(sample: Sample, task: str, setting: str) -> str:
    """Answer correctly with a picture, superficially on odd items without."""
    del task
    odd = int(sample.sample_id.rpartition("-")[2]) % 2
    return letter_of(sample, "su" if odd and setting == "lm" else "correct")


def test_differences_use_unrounded_accuracies_and_paired_intervals() -> None:
    samples = items(33, 12)
    metrics = reduced(samples, half, cells=MCQ)
    delta = metric_of(metrics, "delta_vs_lm")
    lm = metric_of(metrics, "accuracy", setting="lm")
    assert delta.value == pytest.approx(1.0 - (lm.value or 0.0))
    right = [float(half(sample, "mcq", "lm") == letter_of(sample, "correct")) for sample in samples]
    clusters = [sample.cluster for sample in samples]
    assert [lm.ci_low, lm.ci_high] == pytest.approx(share_ends(right, clusters))
    assert [delta.ci_low, delta.ci_high] == pytest.approx(mean_ends([1.0 - score for score in right], clusters))
    assert metric_of(metrics, "cot_delta", setting="vlm-cot").value == 0.0
    assert not [metric for metric in metrics if metric.metric == "cot_delta" and metric.setting == "sm-cot"]
    assert not [metric for metric in metrics if metric.metric == "delta_vs_lm" and metric.setting == "vlm-cot"]


def test_accuracy_excludes_failures_and_includes_refusals() -> None:
    samples = items(10)

    def answer(sample: Sample, task: str, setting: str) -> str | None:
        number = int(sample.sample_id.rpartition("-")[2])
        if number < 2 and setting == "vlm":
            return None
        return "I cannot help with that." if number == 2 else perfect(sample, task, setting)

    metrics = reduced(samples, answer, cells=[("mcq", "lm"), ("mcq", "vlm")])
    accuracy = metric_of(metrics, "accuracy")
    assert (accuracy.value, accuracy.n, accuracy.n_failed) == (7 / 8, 8, 2)
    assert metric_of(metrics, "count_invalid", category="refusal").value == 1
    delta = metric_of(metrics, "delta_vs_lm")
    assert delta.value == pytest.approx(7 / 8 - 9 / 10)
    assert (delta.n, delta.n_failed) == (8, 2)
    assert delta.ci_low is not None


def test_metrics_do_not_count_missing_and_excluded_rows() -> None:
    samples = items(6)
    status = {(samples[0].sample_id, "vlm"): "missing", (samples[1].sample_id, "vlm"): "excluded"}
    metrics = reduced(samples, perfect, cells=[("mcq", "vlm")], status=status)
    accuracy = metric_of(metrics, "accuracy")
    assert (accuracy.value, accuracy.n, accuracy.n_failed) == (1.0, 4, 0)
    assert accuracy.note == "1 request was never run"


def test_metrics_without_answers_are_null() -> None:
    metrics = reduced(items(4), lambda *_: None)
    whole = [metric for metric in metrics if metric.task]
    assert {metric.value for metric in whole} == {None}
    assert {metric.n for metric in whole} == {0}
    assert all(metric.note for metric in whole)
    assert metric_of(metrics, "accuracy").n_failed == 4


def test_intervals_are_over_pictures() -> None:
    samples = [item(number) for number in range(8)]
    alone = reduced(samples, half, cells=[("mcq", "lm")])
    shared = [
        Sample(sample_id=sample.sample_id, subset="VCR", cluster=str(i % 2), data=sample.data)
        for i, sample in enumerate(samples)
    ]
    together = reduced(shared, half, cells=[("mcq", "lm")])
    widths = [
        (metric.ci_high or 0.0) - (metric.ci_low or 0.0)
        for metrics in (together, alone)
        for metric in [metric_of(metrics, "accuracy", setting="lm")]
    ]
    assert widths[0] > 1.4 * widths[1]
    single = [Sample(sample_id=sample.sample_id, subset="VCR", cluster="one", data=sample.data) for sample in samples]
    assert metric_of(reduced(single, half, cells=[("mcq", "lm")]), "accuracy", setting="lm").ci_low is None


@pytest.mark.parametrize("name", ["human-400", "human-400-approx"])
def test_reduce_reports_the_human_subset(name: str) -> None:
    metrics = reduced(items(12, 4, human=5, name=name), half)
    inside = [metric for metric in metrics if metric.subset == name]
    assert {(metric.task, metric.setting) for metric in inside} == {("mcq", "vlm"), ("mcq", "vlm-cot")}
    assert metric_of(metrics, "count_correct", subset=name).value == 5
    assert bool(metric_of(metrics, "accuracy", subset=name).note) == name.endswith("approx")


def test_reduce_scores_freeform_answers_one_by_one() -> None:
    samples = items(4)

    def answer(sample: Sample, *_: str) -> str:
        number = int(sample.sample_id.rpartition("-")[2])
        return ["", "I cannot say.", "Open it " * 10, str(sample.data["readings"]["correct"])][number]

    metrics = reduced(samples, answer, cells=[("freeform", "vlm")], similarity_scores={"bertscore_f1": 0.9})

    def get(name: str, category: str = "") -> Metric:
        return metric_of(metrics, name, task="freeform", category=category)

    assert get("valid_count").value == 3
    assert get("count_invalid").value == get("count_invalid", "empty").value == 1
    assert get("count_refusal").value == 1
    assert get("count_opener_missing").value == 2
    assert get("count_over_15_words").value == 1
    assert get("bert_f1_raw").value == pytest.approx(0.9)
    assert (get("bert_f1").value, get("bert_f1").note) == (None, "no baseline is known for the BERTScore model in use")
    assert 0.25 <= (get("bleu1").value or 0.0) < 0.5
    assert get("bleu1").ci_low is not None
    assert (get("bleu1_corpus").value or 0.0) > 0.0


def test_bert_f1_without_a_scorer_is_null_with_a_note() -> None:
    metrics = reduced(items(3), perfect, cells=[("freeform", "vlm")])
    for name in ("bert_f1", "bert_f1_raw"):
        metric = metric_of(metrics, name, task="freeform")
        assert (metric.value, metric.note) == (None, "no BERTScore model could be used")


def test_bert_f1_counts_empty_answers_as_zero_and_refuses_gaps() -> None:
    samples = items(3)
    scores = frame(samples, lambda sample, *_: "" if sample is samples[0] else "A.", cells=[("freeform", "vlm")])
    by_id = {sample.sample_id: sample for sample in samples}
    scores["bert_f1_raw"] = [float("nan"), 0.9, 0.6]
    scores["bert_f1"] = [float("nan"), 0.9, float("nan")]
    metrics = BENCHMARK.metrics(scores, by_id)
    assert metric_of(metrics, "bert_f1_raw", task="freeform").value == pytest.approx(0.5)
    gap = metric_of(metrics, "bert_f1", task="freeform")
    assert (gap.value, gap.note) == (None, "1 answers have no score")


def test_reduce_reports_accuracy_by_rating_and_data_facts() -> None:
    samples = [*items(6, 3), item(20, rating={"direct": None, "indirect": None}, object_tags=None, solution="")]
    metrics = reduced(samples, perfect, cells=[("mcq", "vlm")])
    assert [metric_of(metrics, "accuracy_by_rating", category=c).n for c in ("3.5", "4")] == [5, 4]
    assert metric_of(metrics, "avg_object_count", task="", setting="", subset="VCR").value == 5.5
    assert metric_of(metrics, "avg_object_count", task="", setting="", subset="VCR").n == 6
    assert metric_of(metrics, "avg_object_count", task="", setting="", subset="VCR").unit == "count"
    assert metric_of(metrics, "avg_word_count_direct", task="", setting="", subset="Ego4D").value == 5.0
    assert metric_of(metrics, "avg_word_count_direct", task="", setting="", subset="Ego4D").unit == "words"
    assert metric_of(metrics, "avg_word_count_indirect", task="", setting="", subset="Ego4D").value == 6.0
    actions = {
        metric.category: metric.value
        for metric in metrics
        if metric.metric == "count_action" and metric.subset == "VCR"
    }
    assert actions == {"close": 2, "open": 2, "wash": 2}
