"""Humans on V-FLUTE: labels beside a model's, judgements of explanations, and the protocol's worked numbers."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

from pipelines.benchmarks.figures import Bars, Points
from pipelines.benchmarks.human import SAME_ITEMS, HumanInputs, gap_metric, human_metric
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.vflute.benchmark import BENCHMARK
from pipelines.benchmarks.vflute.people import parse_study, study_figures, study_tables
from tests.support import vflute_rows
from tests.support.f1_oracle import macro_f1
from tests.support.report_results import EMPTY, results_of
from tests.support.vflute_rows import Scored, frame, samples

LABELS = (
    "id,annotator,label\nrow 0,ann,entailment\nrow 1,ann,contradiction\nrow 0,bob,contradiction\nrow 2,bob,entailment\n"
)
ROWS = [Scored(), Scored(gold=0, label=1), Scored(label=1), Scored()]


def compared(rows: Sequence[Scored], setting: str, sampled: Sequence[Scored] = ROWS) -> dict[str, Metric]:
    scores = frame([replace(row, setting=setting) for row in rows])
    labels = pd.DataFrame(BENCHMARK.human.predictions("labels", LABELS)).assign(status="ok")
    people = {
        str(name): rows.rename(columns={"output": "answer"}) for name, rows in labels.groupby("model", sort=False)
    }
    metrics = BENCHMARK.human.metrics(HumanInputs(scores=scores, samples=samples(sampled), people=people))
    return {metric.metric: metric for metric in metrics}


def judgements(*rows: str) -> str:
    return "\n".join(["id,system,annotator,adequate,error_type,preferred", *rows])


# ---------------------------------------------------------------------------------------------------------- labels


def test_predictions_give_each_annotator_a_model() -> None:
    rows = BENCHMARK.human.predictions("labels", LABELS)
    assert [(row["model"], row["sample_id"], row["output"]) for row in rows] == [
        ("human:ann", "row 0", "entailment"), ("human:ann", "row 1", "contradiction"),
        ("human:bob", "row 0", "contradiction"), ("human:bob", "row 2", "entailment"),
    ]  # fmt: skip
    assert {(row["benchmark"], row["task"], row["setting"]) for row in rows} == {("vflute", "entailment", "label-only")}
    assert "label-only" in BENCHMARK.tasks["entailment"]


def test_metrics_compare_a_model_with_an_annotator_on_the_same_rows() -> None:
    metrics = compared(ROWS, "zero-shot")
    model_f1, human_f1 = macro_f1([1, 0], [1, 1]), macro_f1([1, 0], [1, 0])
    assert metrics["f1_at_0_on_rows_of_ann"].value == pytest.approx(model_f1)
    assert metrics["f1_at_0_of_ann"].value == pytest.approx(human_f1)
    gap = metrics["gap_to_ann"]
    assert gap.value == pytest.approx(model_f1 - human_f1)
    assert gap.ci_low is not None
    assert gap.ci_low <= (gap.value or 0) <= (gap.ci_high or 0)
    assert gap.n == 2
    assert 0 < (metrics["p_ann_is_better"].value or 0) < 1


def test_metrics_have_no_gap_without_explanation_scores() -> None:
    rows = [Scored(es=None), *ROWS[1:]]
    metrics = compared(rows, "zero-shot", rows)
    assert (metrics["gap_to_ann"].value, metrics["gap_to_ann"].note) == (None, "explanations were not scored")
    metrics = compared([replace(ROWS[3], name="row 3")], "5-shot")
    assert metrics["gap_to_ann"].note == "no row in common"


# ------------------------------------------------------------------------------------------------------ judgements


def test_study_kappa_equals_the_worked_rows() -> None:
    a, b = (1, 1, 0, 1, 0, 0, 1, 0, 1, 0), (1, 0, 0, 1, 0, 1, 1, 0, 1, 0)
    rows = [
        f"i{n},s,{annotator},{mark},{'' if mark else 'unsound'},0"
        for annotator, marks in (("ann", a), ("bob", b))
        for n, mark in enumerate(marks)
    ]
    study = parse_study(judgements(*rows))
    assert study.kappa == pytest.approx(0.60)
    assert study.systems["s"].adequacy == pytest.approx(4 / 8)
    assert study.items == 10


def test_study_predictor_equals_the_worked_rows() -> None:
    adequate, scores = (1, 0, 1, 1, 0, 0), (0.72, 0.58, 0.64, 0.52, 0.61, 0.40)
    rows = [
        f"i{n},s,{annotator},{mark},{'' if mark else 'incomplete'},0"
        for n, mark in enumerate(adequate)
        for annotator in ("a", "b")
    ]
    study = parse_study(judgements(*rows), {(f"i{n}", "s"): score for n, score in enumerate(scores)})
    assert study.pr is not None
    assert round(study.pr.auc, 4) == 0.8500
    assert round(study.pr.average_precision, 4) == 0.8667
    assert (round(study.pr.max_f1, 4), study.pr.max_f1_threshold) == (0.8000, 0.64)
    assert study.curve[-1] == (0.0, 1.0)


def test_study_counts_agreed_preferences_and_splits_errors() -> None:
    study = parse_study(
        judgements(
            "i0,s,a,1,,1", "i0,s,b,1,,1", "i0,t,a,0,hallucination,0", "i0,t,b,0,unsound,0",
            "i1,s,a,0,verbosity,0", "i1,s,b,0,verbosity,0", "i1,t,a,1,,0", "i1,t,b,0,unsound,0",
            "i2,s,a,1,,1", "i2,s,b,1,,0", "i2,t,a,1,,0", "i2,t,b,1,,1",
        )
    )  # fmt: skip
    s, t = study.systems["s"], study.systems["t"]
    assert (s.adequacy, s.preference) == (pytest.approx(2 / 3), 0.5)  # i0 for s, i1 for none, i2 is split
    assert (t.adequacy, t.preference) == (0.5, 0.0)
    assert s.errors == {"hallucination": 0, "unsound": 0, "incomplete": 0, "verbosity": 1.0}
    assert t.errors == {"hallucination": 0.5, "unsound": 0.5, "incomplete": 0, "verbosity": 0}
    assert study.pr is None


def test_study_has_tables_and_figures() -> None:
    rows = [f"i{n},{name},{annotator},{n % 2},{'' if n % 2 else 'unsound'},0"
            for n in range(6) for name in ("s", "t") for annotator in ("a", "b")]  # fmt: skip
    study = parse_study(judgements(*rows), {(f"i{n}", "s"): n / 10 for n in range(6)})
    rates, predictor = study_tables(study)
    assert (rates.id, rates.columns, rates.rows[0].cells) == ("vflute_table6_own", ("s", "t"), (0.5, 0.5))
    assert predictor.id == "vflute_section53_own"
    errors, curve = study_figures(study)
    assert isinstance(errors, Bars)
    assert [sum(series.values[index] or 0 for series in errors.series) for index in (0, 1)] == [1.0, 1.0]
    assert isinstance(curve, Points)
    without = parse_study(judgements(*rows))
    assert [table.id for table in study_tables(without)] == ["vflute_table6_own"]
    assert [figure.id for figure in study_figures(without)] == ["vflute_figure7_own"]


def test_vflute_humans_are_averaged_over_their_rows() -> None:
    rows = [Scored(), Scored(gold=0, label=1), Scored(), Scored(gold=0, label=0), Scored(gold=0, label=1)]
    people = {
        f"human:{name}": pd.DataFrame({"sample_id": ids, "status": "ok", "answer": labels})
        for name, ids, labels in (
            ("a", ["row 0", "row 1"], ["entailment", "contradiction"]),
            ("b", ["row 2", "row 3"], ["contradiction", "contradiction"]),
        )
    }
    metrics = BENCHMARK.human.metrics(
        HumanInputs(scores=vflute_rows.frame(rows), samples=vflute_rows.samples(rows), people=people)
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
    marks = BENCHMARK.human.annotation_scores(vflute_rows.frame(rows), {"judgements": text})
    assert marks == {"zero-shot/row 0": 0.9, "zero-shot/row 1": 0.3}
    tables, figures = BENCHMARK.human.display({"judgements": text}, {"m": marks}, results_of("vflute", EMPTY))
    assert [table.id for table in tables] == ["vflute_table6_own", "vflute_section53_own"]
    assert [figure.id for figure in figures] == ["vflute_figure7_own", "vflute_section53_curve_own"]


def test_people_are_compared_by_subset_and_shown_in_table_7() -> None:
    rows = [
        Scored(subset="HAIVMET"), Scored(gold=0, label=1, subset="HAIVMET"), Scored(), Scored(gold=0, label=0),
    ]  # fmt: skip
    labels = {"row 0": "entailment", "row 1": "contradiction", "row 2": "contradiction", "row 3": "contradiction"}
    person = pd.DataFrame({"sample_id": [*labels], "status": "ok", "answer": [*labels.values()]})
    metrics = BENCHMARK.human.metrics(
        HumanInputs(scores=frame(rows), samples=samples(rows), people={"human:ann": person})
    )
    muse = {m.metric: m for m in metrics if (m.subset, m.category) == (SAME_ITEMS, "MuSE")}
    assert (muse["f1_at_0"].value, muse["f1_at_0"].n) == (pytest.approx(1.0), 2)
    assert muse[human_metric("f1_at_0")].value == pytest.approx(macro_f1([1, 0], [0, 0]))
    tables = BENCHMARK.tables(Results.of("vflute", {"m": metrics}, ()))
    table = next(table for table in tables if table.id == "vflute_table7")
    cells = {row.label: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows}
    assert cells["MuSE"]["m, people's rows"] == pytest.approx(1.0)
    assert cells["MuSE"]["People, own rows"] == pytest.approx(macro_f1([1, 0], [0, 0]))
    assert cells["Overall"]["People, own rows"] == pytest.approx(macro_f1([1, 0, 1, 0], [1, 0, 0, 0]))
