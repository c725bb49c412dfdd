from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.figures import Bars, Cloud, Figure, Points, Series
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Origin, Table, TableRow
from pipelines.rendering.formats import to_csv
from pipelines.report.metrics_file import metrics_json
from pipelines.report.model import ReportData, Section
from pipelines.report.render import render
from pipelines.report.tables.overview import figure_table, mark_compared
from pipelines.schemas import METRIC_KEYS
from tests.unit.pipelines.report.cases import metric, report, table


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return render(report())


def test_render_returns_all_files_of_a_report_in_equal_bytes(files: dict[str, bytes]) -> None:
    figure_ids = ("f_bars", "f_flat", "f_lines", "f_points", "f_radar", "f_stack", "g_radar", "summary_figure")
    tables = ("cost", "maia_counts", "maia_headline", "maia_not_measured", "maia_remarks", "s", "summary", "t", "u")
    assert list(files) == sorted(
        ["report/benchmark-maia.html", "report/index.html", "report/people.html", "report/metrics.json",
         "report/report.md", "report/reproduction.json", *(f"report/figures/{name}.svg" for name in figure_ids),
         "report/figures/summary_figure.txt", *(f"report/tables/{name}.csv" for name in (*figure_ids, *tables)),
         *(f"report/tables/{name}.tex" for name in tables)]
    )  # fmt: skip
    assert render(report()) == files


def test_every_link_points_to_a_file(files: dict[str, bytes]) -> None:
    for page in (path for path in files if path.endswith((".html", ".md"))):
        text = files[page].decode()
        links = re.findall(r'href="([^"#]+)"', text) + re.findall(r"\]\(([^)]*)\)", text)
        assert len(links) > 5
        assert {f"report/{link}" for link in links} <= set(files)


def test_empty_report_is_rendered() -> None:
    files = render(ReportData())
    names = ("index.html", "metrics.json", "report.md", "reproduction.json")
    assert sorted(files) == [f"report/{name}" for name in names]
    assert files["report/reproduction.json"] == b"[]\n"
    assert files["report/metrics.json"] == b"[]\n"
    assert "No benchmark was run." in files["report/index.html"].decode()


def test_two_tables_of_one_id_are_refused() -> None:
    part = report().benchmarks[0]
    with pytest.raises(ValueError, match="two tables or figures are named t"):
        ReportData(benchmarks=(dataclasses.replace(part, tables=(table(), table())),))
    clash = dataclasses.replace(part, tables=(table(name="maia_counts"),), figures=())
    with pytest.raises(ValueError, match=r"would be written to report/tables/maia_counts\.csv"):
        render(dataclasses.replace(report(), benchmarks=(clash,)))


def test_metrics_json_has_the_contract_keys_types_and_order_and_one_number_a_name() -> None:
    rows = json.loads(metrics_json([metric(model="b"), metric(model="a"), metric(benchmark="a", note="x")]))
    assert [tuple(row) for row in rows] == [METRIC_KEYS] * 3
    assert " ".join(METRIC_KEYS) == (
        "benchmark task model setting subset category metric value unit n n_failed ci_low ci_high "
        "ci_df set_ci_low set_ci_high"
    )
    assert [(row["benchmark"], row["model"]) for row in rows] == [("a", "small"), ("maia", "a"), ("maia", "b")]
    rows = [metric(metric="a", value=12.0, unit="count"), metric(metric="b", value=1.0), metric(metric="c", value=0.0)]
    assert [repr(row["value"]) for row in json.loads(metrics_json(rows))] == ["12", "1.0", "0.0"]
    with pytest.raises(ValueError, match="two metrics are named maia/vsv/small/32-frames///pool_accuracy"):
        metrics_json([metric(), metric(value=0.7)])


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_missing_value_is_null(value: float | None) -> None:
    text = metrics_json([metric(value=value, ci_low=value, ci_high=value)])
    (row,) = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (row["value"], row["ci_low"], row["ci_high"]) == (None, None, None)


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(st.characters(categories=["L", "Cs", "Cc", "Po"])))
def test_metrics_json_is_read_back_exactly(value: float, name: str) -> None:
    (row,) = json.loads(metrics_json([metric(value=value, model=name)]))
    assert (row["value"], row["model"]) == (value, name)


def test_figure_without_a_value_of_this_run_is_left_out_but_for_its_csv() -> None:
    def series(origin: Origin, value: float | None, *, baseline: bool = False) -> Series:
        return Series(label=origin, values=(value,), origin=origin, baseline=baseline)

    def bars(name: str, *shown: Series) -> Bars:
        return Bars(id=name, title=f"title of {name}", categories=("a",), series=shown)

    def points(name: str, *clouds: Cloud) -> Points:
        return Points(id=name, title=f"title of {name}", clouds=clouds)

    published, chance = series("published", 0.5), series("ours", 0.5, baseline=True)
    repeated = (
        bars("printed", published, chance),
        bars("missing", published, series("ours", None)),
        points("cloudless", Cloud(label="p", points=((0.1, 0.2),), origin="published"), Cloud(label="o", points=())),
    )
    drawn = (bars("zero", published, series("ours", 0.0)), points("clouded", Cloud(label="o", points=((0.1, 0.2),))))
    part = dataclasses.replace(report().benchmarks[0], figures=(*repeated, *drawn))
    across = Section(name="people", title="People", figures=(bars("shared", published),))
    files = render(dataclasses.replace(report(), benchmarks=(part,), across=(across,), standings=()))
    assert [path for path in files if path.endswith(".svg")] == [
        "report/figures/clouded.svg",
        "report/figures/zero.svg",
    ]
    for figure in (*repeated, *across.figures, *drawn):
        assert f"report/tables/{figure.id}.csv" in files
        assert (figure.title in files["report/benchmark-maia.html"].decode()) == (figure in drawn)


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
    for shown in benchmark(name).tables(Results.of(name, {}, load_published(name))):
        for row in shown.rows:
            assert row.origin in ("published", "human", "heading") or row.baseline, (shown.id, row.label)
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
