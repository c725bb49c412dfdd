import math
from typing import Any

import numpy as np
import pytest

from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.report.tables.layout import DASH, lay_out, number, value_of
from tests.unit.pipelines.report.cases import golden


def row(label: str, *cells: TableCell, origin: Any = "ours", note: str = "") -> TableRow:
    return TableRow(label=label, cells=cells, origin=origin, note=note)


def table(*rows: TableRow, **changes: Any) -> Table:
    columns = tuple("abcdefgh"[: max(len(one.cells) for one in rows)])
    return Table(**{"id": "t", "title": "T", "columns": columns, "rows": rows, **changes})


def marks(made: Table) -> list[str]:
    return ["".join(cell.mark[:1] or "." for cell in one.cells) for one in lay_out(made).rows]


@pytest.mark.parametrize("case", golden("numbers.jsonl"), ids=lambda case: case["name"])
def test_numbers(case: dict[str, Any]) -> None:
    assert number(case["value"], case["style"], signed=case.get("signed", False)) == case["words"]


def test_numbers_of_numpy_are_numbers() -> None:
    assert number(np.int64(1677), "fraction2") == "1,677"  # type: ignore[arg-type]
    assert number(np.float64(0.54), "fraction2") == ".54"
    assert number(math.inf, "fraction2") == "∞"
    assert number(-math.inf, "plain") == "−∞"


@pytest.mark.parametrize("cell", [None, math.nan, TableValue(value=None), TableValue(value=math.nan)])
def test_what_was_not_measured_is_a_dash_and_never_a_zero(cell: TableCell) -> None:
    (printed,) = lay_out(table(row("m", cell))).rows[0].cells
    assert (printed.text, printed.kind, value_of(cell)) == (DASH, "none", None)
    assert lay_out(table(row("m", 0.0))).rows[0].cells[0].text == ".00"


def test_cells_that_are_no_numbers() -> None:
    printed = lay_out(table(row("m", "De", True, False))).rows[0].cells
    assert [(cell.text, cell.kind) for cell in printed] == [("De", "text"), ("✓", "text"), ("", "text")]


def test_what_stands_beside_a_number() -> None:
    cell = TableValue(value=0.538, delta=-0.021, low=0.49, high=0.585, n=3840, n_failed=2)
    (printed,) = lay_out(table(row("m", cell), style="percent1")).rows[0].cells
    assert (printed.text, printed.delta, printed.interval) == ("53.8", "(−2.1)", "[49.0, 58.5]")
    assert printed.beside == "(−2.1) [49.0, 58.5] n 3,840, 2 failed"


@pytest.mark.parametrize("cell", [TableValue(value=0.5, low=0.4), TableValue(value=0.5, low=math.nan, high=0.6)])
def test_half_an_interval_is_none(cell: TableValue) -> None:
    assert lay_out(table(row("m", cell))).rows[0].cells[0].beside == ""


def test_equal_notes_share_a_footnote() -> None:
    made = table(
        row("m", TableValue(value=0.1, note="odd"), TableValue(value=0.2, note="odder")), row("n", 0.1, 0.2, note="odd")
    )
    printed = lay_out(made)
    assert printed.footnotes == ("odd", "odder")
    assert [cell.foot for cell in printed.rows[0].cells] == [1, 2]
    assert printed.rows[1].foot == 1


def test_the_best_as_printed_is_marked_in_the_wanted_direction() -> None:
    made = table(
        row("m", 0.5, 0.5, 0.5), row("n", 0.5001, 0.4, 0.4), row("o", 0.1, 0.6, 0.6), better=("higher", "lower", "")
    )
    assert marks(made) == ["b..", "bb.", "..."]


def test_constants_and_doubtful_numbers_are_never_the_best() -> None:
    made = table(
        row("human", 0.9, origin="reference"),
        row("misprint", TableValue(value=0.8, doubtful=True), origin="published"),
        row("paper", 0.7, origin="published"),
        row("ours", 0.6),
        row("null", None),
        better=("higher",),
    )
    assert marks(made) == [".", ".", "b", ".", "."]


def test_second_best_of_the_table() -> None:
    made = table(row("m", 0.5), row("n", 0.7), row("o", 0.6), row("p", 0.6), better=("higher",), second="table")
    assert marks(made) == [".", "b", "s", "s"]


def test_best_of_the_table_and_best_of_each_block() -> None:
    rows = (
        row("A", origin="heading"),
        row("m", 0.5),
        row("n", 0.4),
        row("B", origin="heading"),
        row("o", 0.7),
        row("p", 0.2),
    )
    assert marks(table(*rows, better=("higher",), second="block")) == ["", "s", ".", "", "b", "."]
    assert marks(table(*rows, better=("higher",), best_of="block")) == ["", "b", ".", "", "b", "."]
    assert marks(table(*rows, better=("higher",), best_of="block", second="table")) == ["", "b", "s", "", "b", "s"]


def test_a_lone_number_is_not_the_best_of_anything() -> None:
    assert marks(table(row("m", 0.5), row("n", None), better=("higher",))) == [".", "."]


def test_shades_run_from_0_to_10_and_leave_counts_and_gaps_alone() -> None:
    printed = lay_out(table(row("m", -1.0, 0.0, 0.5, 1.0, 2.0, 3, None), heat=(0.0, 1.0))).rows[0].cells
    assert [cell.heat for cell in printed] == [0, 0, 5, 10, 10, None, None]
    assert lay_out(table(row("m", 0.5), heat=(1.0, 1.0))).rows[0].cells[0].heat == 0
    assert lay_out(table(row("m", 0.5))).rows[0].cells[0].heat is None


def test_plain_and_infinite_numbers_can_be_ranked() -> None:
    made = table(row("m", 12.5), row("n", math.inf), row("o", 3), better=("higher",), style="plain")
    assert marks(made) == [".", "b", "."]
