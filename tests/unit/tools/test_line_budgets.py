"""Rooms keep to their budgets, which only fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.line_budgets import count_lines, misses, notes, problems, read_budgets

ROOMS = {"jobs": 10, "jobs/view": 3}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, lines in (("jobs/a.py", 4), ("jobs/view/b.py", 2), ("jobs/view/deep/c.py", 3), ("jobs/view/d.js", 9)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n" * lines)
    return tmp_path


def test_files_count_in_the_innermost_room(root: Path) -> None:
    assert count_lines(root, ROOMS) == {"jobs": 4, "jobs/view": 5, "total": 9}


def test_file_outside_all_rooms_is_named(root: Path) -> None:
    with pytest.raises(ValueError, match=r"jobs/a\.py is in no room"):
        count_lines(root, {"jobs/view": 3})


def test_room_above_its_budget_fails_with_name_and_number() -> None:
    (line,) = problems({"jobs": 4, "jobs/view": 5}, ROOMS, ROOMS)
    assert line.startswith("jobs/view: 5 lines, 2 above its budget of 3")


def test_missed_budget_stays_and_what_is_stated_is_the_most() -> None:
    counts = {"jobs": 4, "jobs/view": 5}
    assert misses(counts, ROOMS) == {"jobs/view": 2}
    assert problems(counts, ROOMS, ROOMS, {"jobs/view": 2}) == []
    (line,) = problems({"jobs": 4, "jobs/view": 6}, ROOMS, ROOMS, {"jobs/view": 2})
    assert line == "jobs/view: 6 lines, 3 above its budget of 3, 2 of them stated"


def test_budgets_only_fall() -> None:
    counts = {"jobs": 4, "jobs/view": 2}
    assert problems(counts, ROOMS, {"jobs": 11, "jobs/view": 3}) == []
    assert problems(counts, ROOMS, {}) == [], "before there were any"
    assert problems(counts, ROOMS, {"jobs": 9, "jobs/view": 9}) == [
        "jobs: its budget rose from 9 to 10; budgets only fall"
    ]
    assert problems(counts, ROOMS, {"jobs": 10}) == ["the budgets together rose from 10 to 13 lines"]
    assert problems(counts, ROOMS, {"jobs": 13}) == [], "a part of a room may get its own"


def test_room_well_below_its_budget_is_to_be_lowered() -> None:
    assert notes({"jobs": 900, "cluster": 5}, {"jobs": 1000, "cluster": 104}) == [
        "jobs: 100 lines below its budget of 1,000; lower it to 900"
    ]


def test_budgets_are_read_from_the_project_file() -> None:
    assert read_budgets('[tool.vlmsweep.lines]\n"jobs/view" = 2_000\n') == {"jobs/view": 2000}
    assert read_budgets("[tool.vlmsweep.lines-missed]\njobs = 5\n", "lines-missed") == {"jobs": 5}
    assert read_budgets("[project]\n") == {}
