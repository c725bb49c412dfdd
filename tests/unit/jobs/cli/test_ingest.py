"""`ingest` without a source, or with a table in the place of a benchmark, names the command that was meant."""

from __future__ import annotations

import pytest

from jobs.cli.main import run

TABLE = "your own questions? `vlmsweep ingest table"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("questions.csv --data d", f"'questions.csv' is no benchmark; {TABLE} questions.csv --as NAME --data d`"),
        ("q.xlsx --as mine --data d", f"'q.xlsx' is no benchmark; {TABLE} q.xlsx --as mine --data d`"),
        ("mine questions.csv --data d", f"'mine' is no benchmark; {TABLE} questions.csv --as mine --data d`"),
        ("mine folder --data d", f"unknown benchmark 'mine'; did you mean 'mme'? {TABLE} folder --as mine --data d`"),
        ("maia --data d", "ingest maia: name the source, as in `vlmsweep ingest maia SOURCE --data d`"),
        ("table --data d", "ingest table: name the source, as in `vlmsweep ingest table SOURCE --as NAME --data d`"),
        ("table nowhere.xlsx --as mine --data d", "nowhere.xlsx: no such file"),
    ],
)
def test_what_was_meant_is_named(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ingest", *line.split()]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"vlmsweep: {message}"
