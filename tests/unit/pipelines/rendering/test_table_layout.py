import math
from typing import Any

import numpy as np
import pytest

from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.rendering.table_layout import DASH, format_number, lay_out, value_of
from tests.unit.pipelines.report.cases import golden


def row(label: str, *cells: TableCell, origin: Any = "ours", note: str = "", baseline: bool = False) -> TableRow:
    return TableRow(label=label, cells=cells, origin=origin, note=note, baseline=baseline)


def table(*rows: TableRow, **changes: Any) -> Table:
    columns = tuple("abcdefgh"[: max(len(table_row.cells) for table_row in rows)])
    return Table(**{"id": "t", "title": "T", "columns": columns, "rows": rows, **changes})


def marks(sample_table: Table) -> list[str]:
    return ["".join(cell.mark[:1] or "." for cell in table_row.cells) for table_row in lay_out(sample_table).rows]


@pytest.mark.parametrize("case", golden("numbers.jsonl"), ids=lambda case: case["name"])
def test_format_number_matches_golden_rows(case: dict[str, Any]) -> None:
    assert format_number(case["value"], case["style"], signed=case.get("signed", False)) == case["words"]


def test_format_number_accepts_numpy_numbers() -> None:
    assert format_number(np.int64(1677), "fraction2") == "1,677"  # type: ignore[arg-type]
    assert format_number(np.float64(0.54), "fraction2") == ".54"
    assert format_number(math.inf, "fraction2") == "∞"
    assert format_number(-math.inf, "plain") == "−∞"


@pytest.mark.parametrize("cell", [None, math.nan, TableValue(value=None), TableValue(value=math.nan)])
def test_missing_value_is_a_dash_and_not_a_zero(cell: TableCell) -> None:
    (formatted,) = lay_out(table(row("m", cell))).rows[0].cells
    assert (formatted.text, formatted.kind, value_of(cell)) == (DASH, "none", None)
    assert lay_out(table(row("m", 0.0))).rows[0].cells[0].text == ".00"


def test_cells_have_text_delta_interval_counts_and_footnotes() -> None:
    formatted = lay_out(table(row("m", "De", True, False))).rows[0].cells
    assert [(cell.text, cell.kind) for cell in formatted] == [("De", "text"), ("✓", "text"), ("", "text")]
    cell = TableValue(value=0.538, delta=-0.021, low=0.49, high=0.585, n=3840, n_failed=2)
    (formatted,) = lay_out(table(row("m", cell), style="percent1")).rows[0].cells
    assert (formatted.text, formatted.delta, formatted.interval) == ("53.8", "(−2.1)", "[49.0, 58.5]")
    assert formatted.suffix == "(−2.1) [49.0, 58.5] n 3,840, 2 failed"
    sample_table = table(
        row("m", TableValue(value=0.1, note="odd"), TableValue(value=0.2, note="odder")), row("n", 0.1, 0.2, note="odd")
    )
    formatted = lay_out(sample_table)
    assert formatted.footnotes == ("odd", "odder")
    assert [cell.footnote for cell in formatted.rows[0].cells] == [1, 2]
    assert formatted.rows[1].footnote == 1


@pytest.mark.parametrize("cell", [TableValue(value=0.5, low=0.4), TableValue(value=0.5, low=math.nan, high=0.6)])
def test_half_an_interval_is_not_shown(cell: TableValue) -> None:
    assert lay_out(table(row("m", cell))).rows[0].cells[0].suffix == ""


def test_best_values_are_marked() -> None:
    sample_table = table(
        row("m", 0.5, 0.5, 0.5), row("n", 0.5001, 0.4, 0.4), row("o", 0.1, 0.6, 0.6), better=("higher", "lower", "")
    )
    assert marks(sample_table) == ["b..", "bb.", "..."]
    sample_table = table(
        row("human", 0.9, origin="human", baseline=True), row("chance", 0.85, baseline=True),
        row("misprint", TableValue(value=0.8, doubtful=True), origin="published"),
        row("paper", 0.7, origin="published"), row("ours", 0.6), row("null", None), better=("higher",),
    )  # fmt: skip
    assert marks(sample_table) == [".", ".", ".", "b", ".", "."]
    sample_table = table(row("m", 0.5), row("n", 0.7), row("o", 0.6), row("p", 0.6), better=("higher",), second="table")
    assert marks(sample_table) == [".", "b", "s", "s"]
    rows = (
        row("A", origin="heading"), row("m", 0.5), row("n", 0.4), row("B", origin="heading"), row("o", 0.7),
        row("p", 0.2),
    )  # fmt: skip
    assert marks(table(*rows, better=("higher",), second="block")) == ["", "s", ".", "", "b", "."]
    assert marks(table(*rows, better=("higher",), best_of="block")) == ["", "b", ".", "", "b", "."]
    assert marks(table(*rows, better=("higher",), best_of="block", second="table")) == ["", "b", "s", "", "b", "s"]
    assert marks(table(row("m", 0.5), row("n", None), better=("higher",))) == [".", "."]
    sample_table = table(row("m", 12.5), row("n", math.inf), row("o", 3), better=("higher",), style="plain")
    assert marks(sample_table) == [".", "b", "."]


def test_heat_runs_from_0_to_10_without_counts_and_gaps() -> None:
    formatted = lay_out(table(row("m", -1.0, 0.0, 0.5, 1.0, 2.0, 3, None), heat=(0.0, 1.0))).rows[0].cells
    assert [cell.heat for cell in formatted] == [0, 0, 5, 10, 10, None, None]
    assert lay_out(table(row("m", 0.5), heat=(1.0, 1.0))).rows[0].cells[0].heat == 0
    assert lay_out(table(row("m", 0.5))).rows[0].cells[0].heat is None
