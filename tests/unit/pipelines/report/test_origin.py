"""Every row of a table's or a figure's file says where its numbers come from."""

from __future__ import annotations

import csv
import io

import pytest

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.figures import Bars, Figure, Points, Series
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.rendering.formats import to_csv
from pipelines.report.tables.overview import figure_table, mark_compared


def rows_of(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(table))))


def values(figure: Figure) -> int:
    if isinstance(figure, Points):
        return sum(len(cloud.points) for cloud in figure.clouds)
    return sum(value is not None for series in figure.series for value in series.values)


def test_figures_of_published_numbers_alone_say_published() -> None:
    names = []
    for name in benchmark_names():
        for figure in benchmark(name).figures(Results.of(name, {}, load_published(name))):
            origins = {row["origin"] for row in rows_of(figure_table(figure, by_origin=True))}
            assert origins <= {"published", "human"}, figure.id
            names += [figure.id] if values(figure) else []
    assert len(names) == 38  # 18 radars of MAIA, 10 bars of VAGUE, and 10 of UNPIE and MATE


@pytest.mark.parametrize("name", benchmark_names())
def test_tables_of_published_numbers_say_published_or_human(name: str) -> None:
    for table in benchmark(name).tables(Results.of(name, {}, load_published(name))):
        for row in table.rows:
            assert row.origin in ("published", "human", "heading") or row.baseline, (table.id, row.label)
            is_people = row.label.lower().startswith("human")
            assert row.origin in (("human", "heading") if is_people else ("published", "human", "heading", "ours")), row


def test_figure_file_has_a_line_for_each_origin() -> None:
    series = (
        Series(label="m", values=(0.1, 0.2), low=(0.0, 0.1), high=(0.2, 0.3)),
        Series(label="paper", values=(0.3, None), origin="published"),
        Series(label="People", values=(0.9, 0.8), origin="human", baseline=True),
        Series(label="Chance", values=(0.5, 0.5), baseline=True),
    )
    table = figure_table(Bars(id="f", title="t", categories=("x", "y"), series=series), by_origin=True)
    assert to_csv(table) == (
        "block,Category,origin,m,m ci_low,m ci_high,paper (published),People (human),Chance,note\n"
        ",x,ours,0.1,0.0,0.2,,,0.5,\n"
        ",y,ours,0.2,0.1,0.3,,,0.5,\n"
        ",x,published,,,,0.3,,,\n"
        ",y,published,,,,,,,\n"
        ",x,human,,,,,0.9,,\n"
        ",y,human,,,,,0.8,,\n"
    )


def test_rows_of_annotators_and_under_their_headings_are_of_people() -> None:
    rows = (TableRow(label="human:ann", cells=(0.5,)), TableRow(label="m", cells=(0.5,)))
    table = mark_compared(Table(id="t", title="t", columns=("a",), rows=rows), ())
    assert [row.origin for row in table.rows] == ["human", "ours"]
    rows = (
        TableRow(label="human:ann, Img2Txt", origin="heading"), TableRow(label="Color", cells=(0.5,)),
        TableRow(label="m, Img2Txt", origin="heading"), TableRow(label="Color", cells=(0.5,)),
    )  # fmt: skip
    table = mark_compared(Table(id="t", title="t", columns=("a",), rows=rows), ())
    assert [row.origin for row in table.rows] == ["heading", "human", "heading", "ours"]


def test_rows_of_models_that_guess_are_never_the_best() -> None:
    labels = {"chance": True, "chance, 5-shot": True, "chance + SG": True, "chance-7b": False, "m": False}
    rows = tuple(TableRow(label=label, cells=(0.9,)) for label in labels)
    table = mark_compared(Table(id="t", title="t", columns=("a",), rows=rows), {"chance"})
    assert {row.label: row.baseline for row in table.rows} == labels
