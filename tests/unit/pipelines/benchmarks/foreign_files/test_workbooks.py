"""Cells of workbooks as their readers see them. Limits and damage: tests of the logs that are workbooks."""

from __future__ import annotations

import io

import pytest

from pipelines.benchmarks.foreign_files.workbooks import Workbook, column_letters
from tests.support.saved_datasets import workbook

FORMATS = (
    '<numFmts><numFmt numFmtId="164" formatCode="[$-407]d/ mmm yyyy;@"/>'
    '<numFmt numFmtId="165" formatCode="0.0 &quot;days&quot;"/>'
    '<numFmt numFmtId="166" formatCode="[h]:mm:ss;@"/></numFmts>'
    '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>'
    '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/>'
    '<xf numFmtId="22"/><xf numFmtId="46"/><xf numFmtId="166"/></cellXfs>'
)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ((43861, 0), "43861"),
        ((43861, 1), "2020-01-31"),
        ((43861, 2), "2020-01-31"),
        ((2.5, 3), "2.5"),
        ((43861.75, 4), "2020-01-31 18:00:00"),
        ((0.75, 4), "18:00:00"),
        ((-1, 4), "-1"),
        ((0.25, 5), "6:00:00"),
        ((1.5, 5), "36:00:00"),
        ((31.25, 6), "750:00:00"),
        ((1e300, 1), "1e+300"),
        (("43861", 1), "43861"),
    ],
)
def test_a_date_is_what_the_sheet_shows(cell: tuple[float, int], text: str) -> None:
    content = workbook([["x", cell]], formats=FORMATS)
    assert [*Workbook(io.BytesIO(content), "x.xlsx").rows()] == [(1, {1: "x", 2: text})]


def test_days_are_counted_from_where_the_workbook_says() -> None:
    content = workbook([[(42399, 1), (42399.75, 4), (0.75, 4), (1.5, 5)]], formats=FORMATS, since_1904=True)
    ((_, cells),) = Workbook(io.BytesIO(content), "x.xlsx").rows()
    assert [*cells.values()] == ["2020-01-31", "2020-01-31 18:00:00", "18:00:00", "36:00:00"]


def test_the_first_sheet_is_read_and_the_rest_counted() -> None:
    book = Workbook(io.BytesIO(workbook([["a"], [], ["b"]], sheets=12, media=3)), "x.xlsx")
    assert (book.sheets, book.pictures) == (12, 3)
    assert [*book.rows()] == [(1, {1: "a"}), (3, {1: "b"})]


def test_letters_of_columns() -> None:
    assert [column_letters(number) for number in (1, 26, 27, 703)] == ["A", "Z", "AA", "AAA"]
