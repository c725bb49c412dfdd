"""Tables fit the terminal: columns are stated once, left out or wrapped, and at last each row is a block."""

from __future__ import annotations

import pytest

from jobs.shared import output
from jobs.shared.output import fitted, table

HEADS = ("verdict", "benchmark", "setting", "value", "note")
ROWS = [
    ["differs", "maia", "32-frames", "0.512 [0.400, 0.600]", "a long note about what was seen"],
    ["equal", "maia", "1-frame", "0.312 [0.200, 0.400]", "another one"],
]


def shown(width: int, main: int = len(HEADS)) -> list[str]:
    lines = fitted(HEADS, ROWS, width, main).splitlines()
    assert not width or max(map(len, lines)) <= width, lines
    return lines


def test_wide_terminal_and_pipe_get_the_whole_table() -> None:
    assert shown(0) == shown(200)
    assert [line.split()[:2] for line in shown(200)[2:]] == [["differs", "maia"], ["equal", "maia"]]


def test_constant_column_is_stated_once() -> None:
    lines = shown(80)
    assert lines[0] == "benchmark: maia"
    assert "maia" not in "".join(lines[1:])


def test_columns_after_the_main_ones_are_left_out_and_named() -> None:
    lines = shown(60, main=4)
    assert "note" not in lines[1]
    assert " ".join(lines[-2:]) == "Left out for the width of the terminal: note; --json has all."


def test_long_cells_are_wrapped_and_short_ones_whole() -> None:
    lines = shown(60)
    assert len(lines) > 6
    assert any(line.startswith("differs") and "32-frames" in line for line in lines)


def test_narrow_terminal_gets_a_block_a_row() -> None:
    lines = fitted(HEADS, ROWS, 24, len(HEADS)).splitlines()
    assert lines[:4] == ["benchmark: maia", "verdict: differs", "setting: 32-frames", "value: 0.512 [0.400, 0.600]"]
    assert lines[5] == ""


def test_width_is_that_of_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "benchmark" in table(HEADS, ROWS).splitlines()[0].split()
    monkeypatch.setattr(output, "terminal_width", lambda _stream: 80)
    assert table(HEADS, ROWS).splitlines()[0] == "benchmark: maia"
    assert table(("a", "b"), [[None, 3]]).splitlines()[-1].split() == ["-", "3"]
