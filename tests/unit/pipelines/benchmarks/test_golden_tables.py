"""Tables and figures of the five papers: every cell, note and mark as recorded; and they can be printed and drawn."""

from __future__ import annotations

import pytest

from pipelines.benchmarks import benchmark, code_benchmarks
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.results import Results
from pipelines.rendering.figures.svg import to_svg_bytes
from pipelines.rendering.formats import html, to_csv, to_latex, to_markdown
from tests.support.golden_tables import CASES, FOLDER, described


@pytest.mark.parametrize("name", code_benchmarks())
def test_tables_and_figures_are_as_recorded(name: str) -> None:
    recorded = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert described(name).splitlines() == recorded.splitlines(), "see tests/support/golden_tables.py"


@pytest.mark.parametrize("name", code_benchmarks())
def test_tables_and_figures_are_printed_and_drawn(name: str) -> None:
    definition, metrics = benchmark(name), next(iter(CASES[name].values()))()
    results = Results.of(name, metrics, load_published(name))
    for table in definition.tables(results):
        assert all((to_markdown(table), to_csv(table), to_latex(table), str(html(table))))
    for figure in definition.figures(results):
        assert to_svg_bytes(figure).startswith(b"<svg")


def test_published_difference_needs_both_values() -> None:
    published = [value for value in load_published("maia") if value.table != "Table 2"]
    results = Results.of("maia", CASES["maia"]["two models"](), published)
    (table,) = (table for table in benchmark("maia").tables(results) if table.id == "maia_deltas")
    (row,) = (row for row in table.rows if row.label == "InternVL2 8B")
    assert row.cells[4:] == (None, None, None)
    assert None not in row.cells[:4]
