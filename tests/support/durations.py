"""Compare the time of each test file with its record in `tests/durations.csv`: a plugin of pytest.

A file has a record for each part of the tests that it is in: `test`, or a marker. `--record-durations` writes
the records of the files that ran.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import pytest

RECORDS = Path(__file__).parents[1] / "durations.csv"
SLOWER = 2.0
SHORTEST_S = 10.0
"""Below this many seconds, noise doubles a file's time."""

File = tuple[str, str]
"""A test file and the part of the tests."""


def read_records(path: Path = RECORDS) -> dict[File, float]:
    """Return the recorded seconds of each file and part."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["file"], row["part"]): float(row["seconds"]) for row in csv.DictReader(file)}


def write_records(seconds: Mapping[File, float], path: Path = RECORDS) -> None:
    """Write the seconds of the files that ran, beside the records of the others that there still are."""
    earlier = read_records(path) if path.exists() else {}
    present = {key: value for key, value in {**earlier, **seconds}.items() if (path.parents[1] / key[0]).is_file()}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("file", "part", "seconds"))
        writer.writerows((*key, f"{value:.1f}") for key, value in sorted(present.items()) if value >= 0.05)


def slower_files(seconds: Mapping[File, float], records: Mapping[File, float]) -> list[str]:
    """Return a line for each file that took twice its record, on a machine as fast as the median file says."""
    common = [key for key in seconds if records.get(key, 0.0) >= 1.0]
    machine = max(1.0, median([seconds[key] / records[key] for key in common])) if common else 1.0
    return [
        f"{name} ({part}): {took:.0f} s, its record is {records[name, part]:.0f} s"
        for (name, part), took in sorted(seconds.items(), key=lambda each: -each[1])
        if (name, part) in records and took > max(SHORTEST_S, SLOWER * machine * records[name, part])
    ]


class Durations:
    """Adds up the seconds of setups, calls and teardowns where their reports arrive."""

    def __init__(self) -> None:
        self.seconds: defaultdict[File, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = next((name for name in ("full", "fuzz", "slow") if name in report.keywords), "test")
        self.seconds[report.nodeid.partition("::")[0], part] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if config.getoption("--record-durations"):
            write_records(self.seconds)
        elif lines := slower_files(self.seconds, read_records()):
            terminalreporter.section("files that took twice their record, see tests/README.md")
            for line in lines:
                terminalreporter.line(line)
