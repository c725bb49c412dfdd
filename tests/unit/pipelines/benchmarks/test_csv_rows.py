"""A field that is too long costs its own row: in every CSV file that is read."""

from __future__ import annotations

import csv
from pathlib import PurePath

import pytest

from pipelines.benchmarks.csv_rows import MAX_FIELD_CHARS, CsvRows
from pipelines.benchmarks.human import csv_rows, over_long_rows
from pipelines.benchmarks.vflute.authors_files import READER

LONG = "x" * (MAX_FIELD_CHARS + 1)


def six_rows(long: str) -> str:
    outputs = ["a", "b", f'"{long}\nid9,{long}"', "d", "e", "f"]
    return "id,output,notes\n" + "".join(f"id{number},{output},\n" for number, output in enumerate(outputs))


def test_one_row_of_six_is_lost_and_the_others_keep_their_lines() -> None:
    rows = CsvRows(six_rows(LONG))
    read = list(rows.read())
    assert [line for line, _ in read] == [2, 3, 5, 6, 7, 8]
    assert [row["id"] for _, row in read if isinstance(row, dict)] == ["id0", "id1", "id3", "id4", "id5"]
    (problem,) = [row for _, row in read if isinstance(row, ValueError)]
    assert str(problem) == f"output has {2 * len(LONG) + 5:,} characters, at most 131,072 are read"


def test_a_field_of_the_limit_and_a_column_that_is_not_needed_cost_nothing() -> None:
    (row,) = (row for _, row in CsvRows(f"id,notes\n{LONG[:-1]},{LONG}\n").read(["id"]))
    assert isinstance(row, dict)
    assert len(row["id"]) == MAX_FIELD_CHARS


def test_blanks_of_a_name_stay_where_they_tell_columns_apart() -> None:
    assert list(CsvRows("id , text\n1,2\n").read()) == [(2, {"id": "1", "text": "2"})]
    assert list(CsvRows("id, id\n1,2\n").read()) == [(2, {"id": "1", " id": "2"})]


def test_text_that_is_no_csv_is_an_error_of_its_own() -> None:
    with pytest.raises(csv.Error):
        list(CsvRows('id\n"x" y\n').read())


def test_rows_of_human_files_and_authors_files_survive_their_neighbour() -> None:
    text = six_rows(LONG)
    assert [row["id"] for _, row in csv_rows(text, ("id", "output"))] == ["id0", "id1", "id3", "id4", "id5"]
    assert [problem.partition(" has")[0] for problem in over_long_rows(text, ("id", "output"))] == ["line 5: output"]
    rows = dict(READER.rows(PurePath("preds/m/preds.csv"), text))
    assert [line for line, row in rows.items() if isinstance(row, Exception)] == [5]
    assert [row["output"] for row in rows.values() if isinstance(row, dict)] == ["a", "b", "d", "e", "f"]
