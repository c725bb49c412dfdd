"""MAIA's human files: import as predictions, and agreement with the judge."""

import pandas as pd
import pytest

from pipelines.benchmarks.human import SAME_ITEMS, HumanInputs, gap_metric, human_metric
from pipelines.benchmarks.maia.benchmark import BENCHMARK
from pipelines.benchmarks.maia.facts import STATEMENTS
from pipelines.benchmarks.maia.people import judge_kappa, with_judge
from pipelines.benchmarks.tables import TableValue
from pipelines.rendering.table_layout import value_of
from tests.support import maia_rows
from tests.support.maia_rows import Question
from tests.support.people_results import only
from tests.support.published_frames import published
from tests.support.report_results import EMPTY, results_of, rows_of

COUNTS = (3, 3, 2, 0, 1, 0)
"""Raters of three who say correct, per item."""


def ratings(counts: tuple[int, ...]) -> str:
    rows = [f"i{item},r{rater},{int(rater < right)}" for item, right in enumerate(counts) for rater in range(3)]
    return "\n".join(["item_id,rater,correct", *rows])


def test_judge_kappa_of_the_protocol() -> None:
    metric = judge_kappa(ratings(COUNTS))
    assert metric.value == pytest.approx(0.5556, abs=5e-5)
    assert (metric.metric, metric.n, metric.subset, metric.unit) == ("fleiss_kappa", 6, "6 samples", "")


def test_judge_kappa_is_undefined_for_equal_ratings() -> None:
    metric = judge_kappa(ratings((3, 3)))
    assert (metric.value, metric.note) == (None, "all ratings are the same")


def test_answers_as_predictions_returns_one_row_per_answer() -> None:
    text = '\ufeffquestion_id,annotator,answer\nvideo7/Incertezza_B,anna,"Sì, forse"\nvideo7/Incertezza_B,ugo,No\n'
    first, second = BENCHMARK.human.predictions("answers", text)
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


def test_letters_as_predictions_returns_one_row_per_pair() -> None:
    (row,) = BENCHMARK.human.predictions("letters", "pair_id,annotator,letter\nvideo7/Incertezza_B/3,anna,B\n")
    assert (row["task"], row["setting"], row["sample_id"]) == ("vsv", "32-frames", "video7/Incertezza_B")
    assert (row["variant"], row["output"]) == ("3", "B")


def test_maia_statements_and_pools_are_compared_on_the_humans_rows() -> None:
    rows = [
        Question(pairs="TTTTTTTT"),
        Question(pairs="TTTTFFFF", video="video2"),
        Question(pairs="FFFFFFFF", video="video3"),
    ]
    people = {"human:ann": maia_rows.frame([Question(pairs="TTTTTTTF"), Question(pairs="TTTTTTTT", video="video2")])}
    metrics = BENCHMARK.human.metrics(
        HumanInputs(scores=maia_rows.frame(rows), samples=maia_rows.samples(rows), people=people)
    )
    vsv = {metric.metric: metric for metric in metrics if metric.task == "vsv"}
    assert {metric.subset for metric in metrics} == {SAME_ITEMS}
    assert (vsv["statement_accuracy"].value, vsv["statement_accuracy"].n) == (12 / 16, 16)
    assert vsv[human_metric("statement_accuracy")].value == 15 / 16
    gap = vsv[gap_metric("statement_accuracy")]
    assert gap.value == pytest.approx(-3 / 16)
    assert (gap.ci_low, gap.ci_high) == (-1.0, 1.0)  # 1/8 and -4/8: two videos say nothing
    assert (vsv["pool_accuracy"].value, vsv[human_metric("pool_accuracy")].value) == (0.5, 0.5)
    assert vsv["pool_accuracy"].n == 2


def test_maia_rows_failed_by_either_side_are_left_out() -> None:
    model, human = (maia_rows.frame([Question(pairs="TTTTTTTE")]), maia_rows.frame([Question(pairs="TTTTTTTT")]))
    metrics = BENCHMARK.human.metrics(HumanInputs(scores=model, samples={}, people={"human:ann": human}))
    vsv = {metric.metric: metric for metric in metrics if metric.task == "vsv"}
    assert vsv["statement_accuracy"].n == 7
    assert "pool_accuracy" not in vsv


def test_maia_tables_keep_people_apart_from_models() -> None:
    frame = rows_of(
        "maia",
        model=["m", "human:ann", "human:bob", "m"],
        task=["vsv"] * 4,
        setting=["32-frames"] * 4,
        subset=["", "", "", SAME_ITEMS],
        metric=["statement_accuracy"] * 4,
        value=[0.6, 0.8, 1.0, 0.1],
        n=[16, 8, 8, 8],
        n_failed=[0] * 4,
        ci_low=[None] * 4,
        ci_high=[None] * 4,
    )
    results = results_of("maia", frame, published("maia"))
    assert results.without_people().models() == ["m"]
    whole = results.without_people().find(STATEMENTS.of("m", "32-frames"))
    assert whole is not None
    assert whole.value == 0.6
    (table,), _ = BENCHMARK.human.display({}, {}, results)
    assert [(row.label, value_of(row.cells[0])) for row in table.rows] == [
        ("ann, 32-frames", 0.8),
        ("bob, 32-frames", 1.0),
    ]


def test_maia_judge_is_a_rater_where_it_judged_every_rated_answer() -> None:
    ratings = "item_id,rater,correct\n" + "".join(
        f"m/32-frames/{item},{r},1\n" for item in "ab" for r in ("ann", "bob")
    )
    verdicts = {"m/32-frames/a": 1.0, "m/32-frames/b": 0.0}
    added = with_judge(ratings, verdicts).splitlines()
    assert added[-2:] == ["m/32-frames/a,judge,1", "m/32-frames/b,judge,0"]
    assert with_judge(ratings, {"m/32-frames/a": 1.0}) == ratings
    tables, _ = BENCHMARK.human.display(
        {"ratings": ratings},
        {"m": {"32-frames/a": 1.0, "32-frames/b": 0.0}},
        results_of("maia", pd.DataFrame(columns=["model"])),
    )
    # Counts 3-0 and 2-1: P = (1 + 1/3) / 2 = 2/3, Pe = 25/36 + 1/36 = 13/18, kappa = -1/5.
    assert only(tables, "maia_judge_agreement").rows[-1].cells == (TableValue(value=pytest.approx(-0.2)), "2 samples")


def test_maia_agreement_is_shown_beside_the_published_one() -> None:
    text = "item_id,rater,correct\n" + "".join(f"i{i},r{r},{int(r < i % 4)}\n" for i in range(8) for r in range(3))
    ((table,), figures) = BENCHMARK.human.display({"ratings": text}, {}, results_of("maia", EMPTY))
    assert figures == ()
    assert [(row.label, row.origin) for row in table.rows] == [
        ("GPT-4o judge vs human raters", "published"),
        ("Own ratings", "human"),
    ]


def test_ratings_label_the_outputs_that_they_name_and_the_judges_are_no_labels() -> None:
    text = (
        "item_id,rater,correct\nm/1-frame/video1/Incertezza_A,ann,1\nm/1-frame/video1/Incertezza_A,judge,0\nx,ann,0\n"
    )
    key = ("m", "oevqa", "1-frame", "video1/Incertezza_A", "")
    assert BENCHMARK.human.output_labels({"ratings": text}) == {key: {"ann": 1.0}}
