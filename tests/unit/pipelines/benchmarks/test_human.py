"""Human levels that benchmarks declare, and models beside humans on the same rows."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.human import SAME_ITEMS, HumanInputs, gap_metric, human_metric
from pipelines.benchmarks.maia.people.human import HUMAN_BASELINE as MAIA
from pipelines.benchmarks.maia.results import STATEMENTS, MaiaResults
from pipelines.benchmarks.unpie.people.human import HUMAN_BASELINE as UNPIE
from pipelines.benchmarks.vflute.people.human import HUMAN_BASELINE as VFLUTE
from pipelines.report.model import METRIC_KEYS
from tests.support import maia_rows, vflute_rows
from tests.support.f1_oracle import macro_f1
from tests.support.maia_rows import Question
from tests.support.published_frames import published
from tests.support.report_results import results_of
from tests.support.unpie_rows import samples as puns
from tests.support.vflute_rows import Scored

EMPTY = pd.DataFrame(columns=[*METRIC_KEYS, "note"])


def rows_of(name: str, **columns: list[object]) -> pd.DataFrame:
    frame = pd.DataFrame(columns)
    return frame.assign(benchmark=name, **{k: "" for k in METRIC_KEYS if k not in frame and k != "benchmark"})


def test_human_levels_equal_the_published_ones() -> None:
    approximate = results_of("vague", rows_of("vague", subset=["human-400-approx"]))
    vague = benchmark("vague").human.reference_values(approximate)
    assert [(level.value, level.items, level.chance) for level in vague] == [(0.94, "approximate", 0.25)]
    listed = benchmark("vague").human.reference_values(results_of("vague", rows_of("vague", subset=["human-400"])))
    assert [(level.items, level.n) for level in listed] == [("same", 400)]
    mate = {level.task: level for level in benchmark("mate").human.reference_values(results_of("mate", EMPTY))}
    assert {task: level.value for task, level in mate.items()} == {
        "crossmodal": 0.979, "img2txt": 0.979, "txt2img": 0.979, "unimodal": 0.995, "img2img": 1.0, "txt2txt": 0.99,
    }  # fmt: skip
    vflute = {level.subset: level for level in benchmark("vflute").human.reference_values(results_of("vflute", EMPTY))}
    assert (vflute[""].value, vflute[""].n, vflute["NYCartoons"].value) == (pytest.approx(0.8909), 99, 0.7143)
    for name in ("maia", "unpie"):
        assert {level.value for level in benchmark(name).human.reference_values(results_of(name, EMPTY))} == {None}


def test_generated_scenes_have_no_published_models_beside_them() -> None:
    generated = rows_of("mate", metric=["generated"], value=[3.0])
    assert {level.tables for level in benchmark("mate").human.reference_values(results_of("mate", generated))} == {()}


def test_human_levels_name_existing_tasks_and_settings() -> None:
    for name in benchmark_names():
        definition = benchmark(name)
        settings_of_tasks = {setting for settings in definition.tasks.values() for setting in settings}
        for level in definition.human.reference_values(results_of(name, EMPTY)):
            assert {*level.settings, *level.drawn} <= settings_of_tasks
            assert {*level.tables, *level.best_of} <= set(published(name)["table"])


# ------------------------------------------------------------------------------------------------------------ maia


def test_maia_statements_and_pools_are_compared_on_the_humans_rows() -> None:
    rows = [
        Question(pairs="TTTTTTTT"),
        Question(pairs="TTTTFFFF", video="video2"),
        Question(pairs="FFFFFFFF", video="video3"),
    ]
    people = {"human:ann": maia_rows.frame([Question(pairs="TTTTTTTF"), Question(pairs="TTTTTTTT", video="video2")])}
    metrics = MAIA.metrics(HumanInputs(scores=maia_rows.frame(rows), samples=maia_rows.samples(rows), people=people))
    vsv = {metric.metric: metric for metric in metrics if metric.task == "vsv"}
    assert {metric.subset for metric in metrics} == {SAME_ITEMS}
    assert (vsv["statement_accuracy"].value, vsv["statement_accuracy"].n) == (12 / 16, 16)
    assert vsv[human_metric("statement_accuracy")].value == 15 / 16
    gap = vsv[gap_metric("statement_accuracy")]
    assert gap.value == pytest.approx(-3 / 16)
    assert (gap.ci_low, gap.ci_high) == (pytest.approx(-4 / 8), pytest.approx(1 / 8))
    assert (vsv["pool_accuracy"].value, vsv[human_metric("pool_accuracy")].value) == (0.5, 0.5)
    assert vsv["pool_accuracy"].n == 2


def test_maia_rows_failed_by_either_side_are_left_out() -> None:
    model, human = (
        maia_rows.frame([Question(pairs="TTTTTTTE")]),
        maia_rows.frame([Question(pairs="TTTTTTTT")]),
    )
    metrics = MAIA.metrics(HumanInputs(scores=model, samples={}, people={"human:ann": human}))
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
    maia = MaiaResults(results_of("maia", frame, published("maia")))
    assert maia.models() == ["m"]
    whole, human = maia.find(STATEMENTS.of("m", "32-frames")), maia.human(STATEMENTS)
    assert whole is not None
    assert whole.value == 0.6
    assert human is not None
    assert (human.value, human.n) == (pytest.approx(0.9), 16)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("answers", "question_id,annotator,answer\nvideo9/x,ann,Sì\n", "line 2: the data has no question 'video9/x'"),
        ("letters", "pair_id,annotator,letter\nvideo9/x/1,ann,B\n", "line 2: the data has no question 'video9/x'"),
        ("letters", "pair_id,annotator,letter\nvideo9/x/1,ann,C\n", "expected such as"),
        ("ratings", "item_id,rater,correct\n1,a,1\n1,a,0\n", "line 3: a second row of 'a' for '1'"),
    ],
)
def test_maia_files_that_cannot_be_used(kind: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MAIA.check(kind, text, maia_rows.samples([Question()]))


def test_maia_agreement_is_shown_beside_the_published_one() -> None:
    text = "item_id,rater,correct\n" + "".join(f"i{i},r{r},{int(r < i % 4)}\n" for i in range(8) for r in range(3))
    ((table,), figures) = MAIA.display({"ratings": text}, {}, results_of("maia", EMPTY))
    assert figures == ()
    assert [(row.label, row.origin) for row in table.rows] == [
        ("GPT-4o judge vs human raters", "published"),
        ("Own ratings", "human"),
    ]


# ---------------------------------------------------------------------------------------------------------- vflute


def test_vflute_humans_are_averaged_over_their_rows() -> None:
    rows = [Scored(), Scored(gold=0, label=1), Scored(), Scored(gold=0, label=0), Scored(gold=0, label=1)]
    labels = (
        "id,annotator,label\nrow 0,a,entailment\nrow 1,a,contradiction\nrow 2,b,contradiction\nrow 3,b,contradiction\n"
    )
    metrics = VFLUTE.metrics(
        HumanInputs(scores=vflute_rows.frame(rows), samples=vflute_rows.samples(rows), files={"labels": labels})
    )
    same_items = {metric.metric: metric for metric in metrics if metric.subset == SAME_ITEMS}
    model = (macro_f1([1, 0], [1, 1]) + macro_f1([1, 0], [1, 0])) / 2
    human = (macro_f1([1, 0], [1, 0]) + macro_f1([1, 0], [0, 0])) / 2
    assert (same_items["f1_at_0"].value, same_items["f1_at_0"].n) == (pytest.approx(model), 4)
    assert same_items[human_metric("f1_at_0")].value == pytest.approx(human)
    gap = same_items[gap_metric("f1_at_0")]
    assert gap.value == pytest.approx(model - human)
    assert gap.ci_low is not None
    assert gap.ci_low <= (gap.value or 0) <= (gap.ci_high or 0)
    assert {"gap_to_a", "gap_to_b"} <= {metric.metric for metric in metrics}


def test_vflute_judgements_meet_explanation_scores_by_system() -> None:
    rows = [Scored(es=0.9), Scored(es=0.3)]
    text = "id,system,annotator,adequate,error_type,preferred\n" + "".join(
        f"row {i},{system},{annotator},{1 - i},{'unsound' if i else ''},0\n"
        for system in ("m", "m/zero-shot") for i in range(2) for annotator in "ab"
    )  # fmt: skip
    marks = VFLUTE.annotation_scores(vflute_rows.frame(rows), {"judgements": text})
    assert marks == {"zero-shot/row 0": 0.9, "zero-shot/row 1": 0.3}
    tables, figures = VFLUTE.display({"judgements": text}, {"m": marks}, results_of("vflute", EMPTY))
    assert [table.id for table in tables] == ["vflute_table6_own", "vflute_section53_own"]
    assert [figure.id for figure in figures] == ["vflute_figure7_own", "vflute_section53_curve_own"]


# ----------------------------------------------------------------------------------------------------------- unpie


def test_unpie_labels_are_joined_by_row_name() -> None:
    scores = pd.DataFrame(
        {
            "task": ["reconstruction", "reconstruction", "disambiguation"],
            "setting": ["lm", "vlm", "vlm"],
            "sample_id": ["homographic/0000"] * 3,
            "variant": ["de/0"] * 3,
            "human": [1.0, None, None],
        }
    )
    text = (
        "sample_id,variant,model,setting,human,task\n"
        "homographic/0000,de/0,m,lm,0,\n"
        "homographic/0000,de/0,m,vlm,1,disambiguation\n"
        "homographic/0000,de/0,other,vlm,1,reconstruction\n"
    )
    UNPIE.check("labels", text, puns(1))
    labels = UNPIE.with_labels(scores, {"labels": text}, "m")["human"]
    assert labels.fillna(-1).tolist() == [0.0, -1.0, 1.0]
    assert UNPIE.with_labels(scores, {}, "m") is scores


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("homographic/0000,de/0,m,vlm,1", "line 2: setting 'vlm' of task ''"),
        ("homographic/0000,de/0,m,lm,yes", "line 2: human is 'yes'"),
        ("homographic/0009,de/0,m,lm,1", "line 2: the data has no sample"),
        (
            "homographic/0000,de/0,m,lm,1\nhomographic/0000,de/0,m,lm,0",
            "line 3: a second row for 'reconstruction/lm/homographic/0000/de/0/m'; the first is on line 2, keep one",
        ),
    ],
)
def test_unpie_labels_that_cannot_be_used(row: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UNPIE.check("labels", f"sample_id,variant,model,setting,human\n{row}\n", puns(1))
