"""MAIA's human answers, each judged by the other seven."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.human import HumanInputs
from pipelines.benchmarks.maia.benchmark import BENCHMARK
from pipelines.benchmarks.maia.facts import LEAVE_ONE_OUT_KEY
from pipelines.benchmarks.maia.prompts import left_out
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest
from tests.support import maia_rows
from tests.support.interval_oracle import share_ends
from tests.support.maia_rows import Question
from tests.support.people_results import values
from tests.support.report_results import results_of
from tests.support.sweeps import answered_row


def test_maia_judges_each_human_answer_by_the_other_seven() -> None:
    (sample,) = maia_rows.samples([Question()]).values()
    rows = BENCHMARK.human.dataset_answers([sample])
    assert [(row["variant"], row["output"]) for row in rows] == [
        (str(i), text) for i, text in enumerate(maia_rows.ANSWERS)
    ]
    assert {(row["model"], row["task"], row["setting"]) for row in rows} == {
        ("human:leave-one-out", "oevqa", "leave-one-out")
    }
    assert left_out(sample, "2").data["answers"] == [t for i, t in enumerate(maia_rows.ANSWERS) if i != 2]
    definition = benchmark("maia")
    assert definition.judge is not None
    question = answered_row(left_out(sample, "2"), "oevqa", "32-frames", maia_rows.ANSWERS[2])
    prompts = PromptTexts(definition.prompt_texts)
    sample = maia_rows.samples([Question()])["video1/CausaleEsplicita_A"]
    sample.data["question"] = question.sample.data["question"] = "Dov'è la pizza?"  # type: ignore[index]
    expected = definition.judge.ask(question, prompts)
    row = answered_row(sample, "oevqa", "leave-one-out", maia_rows.ANSWERS[2], variant="2")
    assert isinstance(expected, JudgeRequest)
    assert definition.judge.ask(row, prompts) == expected


def leave_one_out_frame(accepted: dict[str, int]) -> pd.DataFrame:
    """Return scores of questions of which so many of the eight answers were accepted."""
    rows = [(video, str(i), float(i < count)) for video, count in accepted.items() for i in range(8)]
    frame = pd.DataFrame(rows, columns=["cluster", "variant", "accepted"])
    labels = {"task": "oevqa", "setting": "leave-one-out", "subset": "", "category": "Causal"}
    return frame.assign(sample_id=frame["cluster"] + "/CausaleEsplicita_A", **labels, status="ok", verdict_state="ok")


def test_maia_leave_one_out_fills_the_human_column_and_is_paired() -> None:
    frame = leave_one_out_frame({"video1": 8, "video2": 4})
    metrics = benchmark("maia").metrics(frame, {})
    assert values(metrics) == {"human_leave_one_out": (0.75, 16)}
    assert [metric.category for metric in metrics] == ["", "Causal"]
    expected = share_ends([1.0] * 12 + [0.0] * 4, [1] * 8 + [2] * 8)
    assert (metrics[0].ci_low, metrics[0].ci_high) == pytest.approx(expected)
    model = maia_rows.frame(
        [Question(pairs="", judged="rejected"), Question(pairs="", judged="accepted", video="video2")]
    )
    paired = BENCHMARK.human.metrics(HumanInputs(scores=model, samples={}, people={LEAVE_ONE_OUT_KEY.model: frame}))
    assert values(paired) == {
        "oevqa_accuracy": (0.5, 2),
        "oevqa_accuracy_of_people": (0.75, 2),
        "oevqa_accuracy_minus_people": (-0.25, 2),
    }
    results = results_of("maia", pd.DataFrame([{**LEAVE_ONE_OUT_KEY._asdict(), "value": 0.75, "n": 16}]))
    level = next(level for level in BENCHMARK.human.reference_values(results) if level.metric == "oevqa_accuracy")
    assert (level.value, level.n, level.items) == (0.75, 16, "approximate")
