"""People on MAIA: imports, agreement with the judge, and the proxy for human accuracy."""

from dataclasses import replace

import pytest

from pipelines.benchmarks.maia.benchmark import BENCHMARK
from pipelines.benchmarks.maia.human import (
    answers_as_predictions,
    held_out,
    human_leave_one_out,
    judge_kappa,
    letters_as_predictions,
)
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeAsk
from tests.support.maia_rows import ANSWERS, every_column, samples

COUNTS = (3, 3, 2, 0, 1, 0)
"""Raters of three who say correct, an item."""


def ratings(counts: tuple[int, ...]) -> str:
    rows = [f"i{item},r{rater},{int(rater < right)}" for item, right in enumerate(counts) for rater in range(3)]
    return "\n".join(["item_id,rater,correct", *rows])


def test_kappa_of_the_protocol() -> None:
    metric = judge_kappa(ratings(COUNTS))
    assert metric.value == pytest.approx(0.5556, abs=5e-5)
    assert (metric.metric, metric.n, metric.subset, metric.unit) == ("fleiss_kappa", 6, "6 samples", "")


def test_kappa_of_unanimity_is_undefined() -> None:
    metric = judge_kappa(ratings((3, 3)))
    assert (metric.value, metric.note) == (None, "all ratings are the same")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("item_id,rater\n1,a", "no column correct"),
        ("item_id,rater,correct\n1,a,yes", "wanted 0 or 1"),
        ("item_id,rater,correct\n1,a,1\n1,a,0", "line 3: 'a' has '1' twice"),
        ("item_id,rater,correct\n1,,1", "line 2: .* must all have a value"),
        ("item_id,rater,correct\n1,a,1\n1,b,1\n2,a,1", "same number of raters"),
        ("item_id,rater,correct\n", "items by categories"),
    ],
)
def test_ratings_that_cannot_be_used(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        judge_kappa(text)


def test_answers_become_predictions() -> None:
    text = '\ufeffquestion_id,annotator,answer\nvideo7/Incertezza_B,anna,"Sì, forse"\nvideo7/Incertezza_B,ugo,No\n'
    first, second = answers_as_predictions(text)
    assert first == {
        "benchmark": "maia",
        "model": "human:anna",
        "task": "oevqa",
        "setting": "32-frames",
        "sample_id": "video7/Incertezza_B",
        "variant": "",
        "output": "Sì, forse",
    }
    assert second["model"] == "human:ugo"


def test_letters_become_predictions() -> None:
    (row,) = letters_as_predictions("pair_id,annotator,letter\nvideo7/Incertezza_B/3,anna,B\n", "1-frame")
    assert (row["task"], row["setting"], row["sample_id"]) == ("vsv", "1-frame", "video7/Incertezza_B")
    assert (row["variant"], row["output"]) == ("3", "B")


@pytest.mark.parametrize("row", ["video7/X_A/8,anna,B", "video7/X_A/3,anna,C", "3,anna,A"])
def test_letters_that_are_none(row: str) -> None:
    with pytest.raises(ValueError, match="wanted such as"):
        letters_as_predictions(f"pair_id,annotator,letter\n{row}")


def test_each_answer_is_judged_against_the_other_seven() -> None:
    (plain,) = samples(every_column(videos=1)[:1]).values()
    rows = list(held_out(replace(plain, data={**plain.data, "question": "Dove cuoce la pizza?"})))
    assert [row.output for row in rows] == list(ANSWERS)
    assert [len(row.sample.data["answers"]) for row in rows] == [7] * 8
    assert all(row.output not in row.sample.data["answers"] for row in rows)
    ask = BENCHMARK.judge(rows[2], PromptTexts(BENCHMARK.prompt_texts))
    assert isinstance(ask, JudgeAsk)
    words = str(ask.step.turns)
    assert "7. il cuoco la mette nel forno" in words
    assert "8." not in words


def test_leave_one_out() -> None:
    known = list(samples(every_column(videos=2)).values())
    accepted = {(sample.sample_id, i): sample.category != "Causal" or i < 2 for sample in known for i in range(8)}
    metrics = {metric.category: metric for metric in human_leave_one_out(accepted, known)}
    assert (metrics["Causal"].value, metrics["Causal"].n) == (0.25, 16)
    assert metrics[""].value == pytest.approx((11 + 0.25) / 12)
    assert metrics[""].ci_low is not None
    del accepted[known[0].sample_id, 3]
    metrics = {metric.category: metric for metric in human_leave_one_out(accepted, known)}
    assert (metrics[""].value, metrics[""].note) == (None, "answers without a verdict: 1")
    assert metrics["Sentiment"].value == 1.0
