"""Several judges: metrics by judge, their agreement and preference, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.judges import PAIR_COUNTS, judge_agreement, metrics_by_judge, verdict_value, without_verdicts
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import TableValue
from pipelines.report.judge_tables import _SAME_FAMILY, families_of, judge_tables, with_corrected_shifts
from pipelines.report.metrics_file import Measured
from tests.support.maia_rows import Question, frame, samples
from tests.support.measured import measured

MAIA = benchmark("maia")
A, B = verdict_value("a"), verdict_value("b")
NAN = float("nan")


def judged(a: Sequence[float], b: Sequence[float]) -> tuple[dict[str, list[Metric]], list[Metric]]:
    """Return metrics by judge, and the agreement, of open answers; the last is decided by a rule, as not accepted."""
    questions = [Question(pairs="", name=f"CausaleEsplicita_{i}", video=f"video{i}") for i in range(len(a) + 1)]
    questions[-1] = replace(questions[-1], judged="rejected")
    rows = frame(questions).assign(**{A: [*a, NAN], B: [*b, NAN]})
    by_judge = metrics_by_judge(rows, samples(questions), MAIA.reduce, MAIA.judged_metrics)
    return by_judge, judge_agreement(rows)


def is_whole(metric: Metric) -> bool:
    return metric.metric == "oevqa_accuracy" and not metric.category


def test_metrics_and_agreement_by_hand_and_without_a_value_where_a_verdict_failed() -> None:
    by_judge, agreement = judged([1, 1, 0, 0], [1, 0, 0, -1])
    accuracies = {judge: (m.value, m.n) for judge, metrics in by_judge.items() for m in metrics if is_whole(m)}
    values = {(m.metric, m.category): (m.value, m.n) for m in agreement}
    # of five answers, one of them decided by a rule: A accepts two, B one; its unreadable reply accepts nothing
    assert accuracies == {"a": (2 / 5, 5), "b": (1 / 5, 5)}
    assert [values[name, "a / b"] for name in PAIR_COUNTS] == [(1, 3), (1, 3), (0, 3), (1, 3)]
    assert (values["judge_unread", "a"], values["judge_unread", "b"]) == ((0, 4), (1, 4))
    by_judge, _ = judged([1, 1], [1, NAN])
    metrics = {judge: m for judge, metrics in by_judge.items() for m in metrics if is_whole(m)}
    assert metrics["a"].value == 2 / 3
    assert (metrics["b"].value, metrics["b"].note) == (None, "1 verdict failed")


def test_one_judge_changes_nothing() -> None:
    questions = [Question(pairs="")]
    rows = frame(questions)
    assert metrics_by_judge(rows.assign(**{A: 1.0}), samples(questions), MAIA.reduce, MAIA.judged_metrics) == {}
    assert judge_agreement(rows.assign(**{A: 1.0})) == []
    pd.testing.assert_frame_equal(without_verdicts(rows.assign(**{A: 1.0})), rows)
    results = Results.of("maia", {"m": MAIA.metrics(rows, samples(questions))}, [])
    assert judge_tables(results, {}, MAIA, {}) == []


def numbers(row: Sequence[object]) -> list[object]:
    return [cell.value if isinstance(cell, TableValue) else cell for cell in row]


def test_tables_mark_the_own_family_and_sum_over_models() -> None:
    by_model = {
        "mine": judged([1, 1, 1, 0], [1, 0, 0, -1]),  # accuracies 3/5 and 1/5
        "stranger": judged([1, 0, 0, 0], [1, 1, 0, 0]),  # 1/5 and 2/5
    }
    models = {"a": {"model": "Qwen/Qwen3-32B"}, "b": {"engine": "random"}, "mine": {"model": "hub/qwen2.5-vl-7b"}}
    results = Results.of("maia", {model: agreement for model, (_, agreement) in by_model.items()}, [])
    by_judge = {
        judge: Results.of("maia", {model: metrics[judge] for model, (metrics, _) in by_model.items()}, [])
        for judge in ("a", "b")
    }
    metrics, agreement, preference = judge_tables(results, by_judge, MAIA, models)
    assert [(row.label, numbers(row.cells)) for row in metrics.rows] == [
        ("mine", ["oevqa_accuracy", "32-frames", 3 / 5, 1 / 5, pytest.approx(2 / 5)]),
        ("stranger", ["oevqa_accuracy", "32-frames", 1 / 5, 2 / 5, pytest.approx(1 / 5)]),
    ]
    notes = [[getattr(cell, "note", "") for cell in row.cells[2:4]] for row in metrics.rows]
    assert notes == [[_SAME_FAMILY, ""], ["", ""]]
    # mine: yes-yes 1, yes-no 2; stranger: yes-yes 1, no-yes 1, no-no 2. Equal: 4 of 7.
    # Chance: (4 * 3 + 3 * 4) / 49 = 24/49, so kappa is (28/49 - 24/49) / (25/49) = 4/25
    assert [numbers(row.cells) for row in agreement.rows] == [[None, 4 / 7, 0], [4 / 7, None, 1]]
    cell = agreement.rows[0].cells[1]
    assert (cell.n, cell.note) == (7, "kappa 0.16")
    # A is 2/5 above B on its own family and 1/5 below on the other model
    assert numbers(preference.rows[0].cells) == pytest.approx([2 / 5, -1 / 5, 3 / 5])
    assert preference.rows[1].cells[0] is None


@pytest.mark.parametrize(
    ("name", "spec", "families"),
    [
        ("x", {"model": "Qwen/Qwen2.5-VL-72B-Instruct"}, {"qwen"}),
        ("x", {"model": "llava-hf/llava-onevision-qwen2-7b-ov-hf"}, {"llava", "qwen"}),
        ("x", {"model": "lmsys/vicuna-7b-v1.5"}, {"llama"}),
        ("gpt-4o", {"model": "gpt-4o-2024-11-20"}, {"gpt"}),
        ("x", {"model": "o3-mini"}, {"gpt"}),
        ("x", {"model": "/models/our-model/"}, {"/models/our-model"}),
        ("x", {}, {"x"}),
        ("x", {"engine": "random"}, set()),
    ],
)
def test_families_are_read_from_the_name_at_the_maker(name: str, spec: dict[str, str], families: set[str]) -> None:
    assert families_of(name, spec) == families


def test_p_values_of_shifts_are_corrected_over_all_of_a_report() -> None:
    def row(name: str, value: float | None) -> Measured:
        return measured(benchmark="maia", model="m", task="oevqa", setting="", metric=name, value=value)

    rows = [row("judge_shift_p", 0.01), row("oevqa_accuracy", 0.5), row("judge_shift_p", 0.04)]
    assert [row.value for row in with_corrected_shifts(rows)] == [0.02, 0.5, 0.04]
    assert with_corrected_shifts([row("judge_shift_p", None)])[0].value is None
