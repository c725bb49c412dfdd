"""MAIA's unimodal setting: requests, reading of scores, and the joint choice of several models."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest

from models.messages import logprobs_to_text
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.maia.letters import draw_ts_letter
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Row, Sample
from pipelines.plan.selection import selected_groups
from tests.support.sweeps import answered_row, scored_row

MAIA = benchmark("maia")
SAMPLE = Sample(
    sample_id="video1/Sentiment_A",
    category="Sentiment",
    cluster="video1",
    data={"video": "video1", "category": "Sentiment_A"}
    | {side: [f"{word} {i}" for i in range(8)] for side, word in (("true", "vera"), ("false", "falsa"))},
)
TRUE = (-3.1, -2.8, -3.4, -2.9, -3.0)
FALSE = (-2.9, -3.3, -2.7, -3.2, -3.1)


def row(index: int, output: str | None) -> Row:
    return answered_row(SAMPLE, "vsv", "unimodal", output, request_id=str(index), variant=str(index))


def frame(pairs: list[tuple[float, float] | None]) -> pd.DataFrame:
    """Score rows of one model, as the reducer joins them; None for a pair whose scoring failed."""
    outputs = (logprobs_to_text(pair, (5, 5)) if pair else None for pair in pairs)
    return pd.DataFrame([scored_row(row(index, output), "maia") for index, output in enumerate(outputs)])


def value(metrics: list, name: str) -> float | None:
    return next(m.value for m in metrics if m.metric == name and not m.category)


def test_unimodal_setting_runs_only_when_named() -> None:
    assert "unimodal" not in {cell.setting for cell in selected_groups(MAIA, [], [])}
    (cell,) = selected_groups(MAIA, [], ["unimodal"])
    assert (cell.task, cell.setting) == ("vsv", "unimodal")


def test_unimodal_prompts_are_bare_statements_without_a_clip() -> None:
    prompts = list(MAIA.prompts(PromptInput(SAMPLE, "vsv", "unimodal", texts=PromptTexts(MAIA.prompt_texts), seed=42)))
    assert [prompt.variant for prompt in prompts] == [str(i) for i in range(8)]
    assert all(prompt.steps[0].turns == () for prompt in prompts)
    assert prompts[3].steps[0].scored == ("vera 3", "falsa 3")


@pytest.mark.parametrize(("pair", "right"), [((-2.8, -3.3), 1.0), ((-3.1, -2.9), 0.0), ((-3.0, -3.0), 0.0)])
def test_read_answer_takes_the_likelier_statement(pair: tuple[float, float], right: float) -> None:
    reading = MAIA.reading(row(0, logprobs_to_text(pair, (7, 9))))
    letter = draw_ts_letter(42, "video1", "Sentiment_A", 0)
    assert reading.values["correct"] == right
    assert reading.answer == (letter if right else {"A": "B", "B": "A"}[letter])
    assert (reading.values["true_logprob"], reading.values["false_logprob"]) == pair


@pytest.mark.parametrize("output", ["A", "", json.dumps({"logprobs": [-1.0]}), json.dumps([1]), json.dumps({})])
def test_read_answer_counts_unreadable_scores_as_wrong(output: str) -> None:
    reading = MAIA.reading(row(0, output))
    assert (reading.answer, reading.values["correct"]) == (None, 0.0)


def test_reduce_unimodal_reports_best_score_and_vote() -> None:
    frames = {f"m{i}": frame([(TRUE[i], FALSE[i])] * 8) for i in range(5)}
    metrics = MAIA.ensemble.metrics(frames, {SAMPLE.sample_id: SAMPLE})
    assert list(metrics) == ["best of 5 text models", "vote of 5 text models"]
    assert value(metrics["best of 5 text models"], "statement_accuracy") == 0.0
    assert value(metrics["vote of 5 text models"], "statement_accuracy") == 1.0
    assert value(metrics["vote of 5 text models"], "pool_accuracy") == 1.0


def test_reduce_unimodal_needs_two_models_and_counts_failed_pairs() -> None:
    good = frame([(-1.0, -2.0)] * 8)
    assert MAIA.ensemble.metrics({"m": good}, {SAMPLE.sample_id: SAMPLE}) == {}
    broken = frame([None, *[(-1.0, -2.0)] * 7])
    metrics = MAIA.ensemble.metrics({"m": good, "n": broken}, {SAMPLE.sample_id: SAMPLE})
    metric = next(m for m in metrics["best of 2 text models"] if m.metric == "statement_accuracy" and not m.category)
    assert metric.n_failed == 1
    assert not math.isnan(metric.value or 0.0)
