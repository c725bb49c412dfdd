"""People next to models: agreement and people's own values, worked out by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines.benchmarks.figures import Bars
from pipelines.benchmarks.human import POOLED
from pipelines.benchmarks.maia.benchmark import BENCHMARK as MAIA
from pipelines.benchmarks.mate.benchmark import BENCHMARK as MATE
from pipelines.benchmarks.people import agreement_table, light_kappa, parsed_answers, people_table
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import TableValue
from pipelines.benchmarks.vague.benchmark import BENCHMARK as VAGUE
from pipelines.benchmarks.vflute.benchmark import BENCHMARK as VFLUTE
from pipelines.report.tables.overview import mark_compared
from tests.support import maia_rows, vague_rows, vflute_rows
from tests.support.f1_oracle import macro_f1
from tests.support.maia_rows import Question
from tests.support.people_results import values
from tests.support.report_results import results_of
from tests.support.vflute_rows import Scored

# Two people on four items: three agree. Each says A twice and B twice, and B thrice: chance agreement is 1/2.
ANN = {"1": "A", "2": "A", "3": "B", "4": "B"}
BOB = {"1": "A", "2": "B", "3": "B", "4": "B"}


def test_agreement_of_two_people_and_of_more() -> None:
    (table,) = agreement_table("x", "X", {"Two": {"ann": ANN, "bob": BOB}, "One": {"ann": ANN}})
    (row,) = table.rows
    people, items, same, kappa, alpha = row.cells
    assert (row.label, people, items, same.value, kappa.value) == ("Two", 2, 4, 0.75, pytest.approx(0.5))
    assert same.low < 0.75 < same.high == 1.0
    assert alpha.value == pytest.approx(1 - 7 * 2 / (64 - 9 - 25))  # labels A3 B5; one pair differs
    # The third agrees with Ann throughout: kappas 0.5, 1 and 0.5.
    assert light_kappa({"ann": ANN, "bob": BOB, "cia": dict(ANN)}) == pytest.approx(2 / 3)
    assert light_kappa({"ann": {"1": "A"}, "bob": {"2": "A"}}) is None


def test_parsed_answers_are_those_of_answered_rows_of_comparable_tasks() -> None:
    frame = pd.DataFrame(
        {
            "task": ["mcq", "mcq", "mcq", "freeform"],
            "setting": "vlm",
            "sample_id": ["1", "2", "3", "1"],
            "variant": "",
            "status": ["ok", "ok", "error", "ok"],
            "answer": ["A", None, None, "free text"],
        }
    )
    assert parsed_answers(frame, {"mcq": "Choices"}) == {
        "Choices": {("mcq", "vlm", "1", ""): "A", ("mcq", "vlm", "2", ""): ""}
    }


def test_people_table_shows_each_persons_values_with_intervals() -> None:
    columns = {"Accuracy": Key("accuracy", "mcq")}
    frame = pd.DataFrame(
        {
            "model": ["m", "human:ann"],
            "task": "mcq",
            "setting": "vlm",
            "subset": "",
            "metric": "accuracy",
            "value": [0.5, 0.75],
            "n": [8, 4],
            "ci_low": [0.2, 0.5],
            "ci_high": [0.8, 1.0],
        }
    )
    (table,) = people_table("vague", "VAGUE", results_of("vague", frame), columns, ["lm", "vlm"])
    assert [(row.label, row.cells) for row in table.rows] == [
        ("ann, vlm", (TableValue(value=0.75, low=0.5, high=1.0, n=4),))
    ]
    assert people_table("vague", "VAGUE", results_of("vague", frame[:1]), columns, ["vlm"]) == []


def test_answers_of_people_are_pooled_and_cluster_by_item() -> None:
    items = vague_rows.items(4)  # gold letters A, B, C, D
    samples = {item.sample_id: item for item in items}
    frames = {
        f"human:{name}": vague_rows.frame(items[:count], lambda *_: "A", cells=[("mcq", "vlm")])
        for name, count in (("ann", 4), ("bob", 2))
    }
    metrics = VAGUE.human.pooled(frames, samples, VAGUE.metrics)
    whole = next(metric for metric in metrics if (metric.metric, metric.subset) == ("accuracy", ""))
    assert (whole.value, whole.n) == (pytest.approx(2 / 6), 6)  # each is right on the first item alone
    assert values(metrics, metric="count_correct", subset="", category="") == {"count_correct": (2, 6)}


def test_pools_of_one_question_are_each_persons_own() -> None:
    of = {"human:ann": "TTTTTTTT", "human:bob": "TTTTFFFF"}
    frames = {person: maia_rows.frame([Question(pairs=pairs, judged="")]) for person, pairs in of.items()}
    metrics = MAIA.human.pooled(frames, maia_rows.samples([Question()]), MAIA.metrics)
    pool = next(metric for metric in metrics if metric.metric == "pool_accuracy" and not metric.category)
    assert (pool.value, pool.n) == (0.5, 2)


def test_people_of_vflute_together_are_their_mean() -> None:
    rows = [Scored(), Scored(gold=0, label=1), Scored(gold=0, label=0)]
    frames = {"human:ann": vflute_rows.frame(rows), "human:bob": vflute_rows.frame(rows[:2])}
    metrics = VFLUTE.human.pooled(frames, vflute_rows.samples(rows), VFLUTE.metrics)
    together = next(m for m in metrics if (m.metric, m.subset) == ("f1_at_0", ""))
    assert together.value == pytest.approx((macro_f1([1, 0, 0], [1, 1, 0]) + macro_f1([1, 0], [1, 1])) / 2)


def mate_metrics(n: int, value: float, objects: int) -> list[Metric]:
    names = ("links=1", "links=2", "links=3", "3D coords only")
    categories = ("", f"{objects} objects", *(f"{name} @{objects} objects" for name in names))
    return [
        Metric(task=task, setting="2-shot", category=category, metric="exact_match", value=value, n=n)
        for task in ("crossmodal", "img2txt", "txt2img")
        for category in categories
    ]


def test_people_are_never_best_and_change_no_note_or_figure_of_models() -> None:
    models = {"model": mate_metrics(5500, 0.5, 7)}
    people = {"human:ann": mate_metrics(3, 1.0, 9), POOLED: mate_metrics(69, 0.9, 9)}
    with_people, alone = (Results.of("mate", metrics, ()) for metrics in ({**people, **models}, models))
    marked = {table.id: mark_compared(table, ()) for table in MATE.tables(with_people)}
    for table in MATE.tables(alone):
        assert marked[table.id].notes == table.notes
        rows = [row for row in marked[table.id].rows if row.origin != "human"]
        assert table.id == "mate_table5" or rows == list(table.rows)  # there models are columns
    peoples = [row for row in marked["mate_table1"].rows if row.origin == "human"]
    assert [row.label for row in peoples] == ["human:ann", POOLED]
    assert all(row.baseline for row in peoples)
    figures = {figure.id: figure for figure in MATE.figures(with_people.without_people())}
    figure = figures["mate_figure4a"]
    assert isinstance(figure, Bars)
    assert figure.title.endswith("scenes of 7 objects")
    assert [series.label for series in figure.series] == ["model"]


def test_notes_of_vague_count_the_items_of_models() -> None:
    rows = {"model": 1677, "human:ann": 270}
    metrics = {name: [Metric(task="mcq", setting="vlm", metric="accuracy", value=0.5, n=n)] for name, n in rows.items()}
    tables = {table.id: table for table in VAGUE.tables(Results.of("vague", metrics, ()))}
    assert not [note for note in tables["vague_table3"].notes if note.startswith("incomplete")]
    assert pd.Series(tables["vague_table3"].better).tolist()[0] == "higher"
