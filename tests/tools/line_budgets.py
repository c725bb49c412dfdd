"""Check the lines of each room of the product against its budget: `python -m tests.tools.line_budgets`.

`[tool.vlmsweep.lines]` of pyproject.toml gives each room its budget, and all together a `total`; a file belongs to the
innermost room above it. Budgets only fall: on a branch they are compared with those of `main`. A budget that is missed
stays, and `[tool.vlmsweep.lines-missed]` says by how many lines, which only falls as well: what is missed is printed
each time. `--print` writes the table with the lines of today. Exit codes: 0 no room is larger than stated, 1 one is.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.support.paths import ROOT

TOTAL = "total"
MISSED = "lines-missed"
SLACK = 100
"""Lines below its budget from which a room's budget is to be lowered."""
Budgets = Mapping[str, int]


def read_budgets(text: str, table: str = "lines") -> dict[str, int]:
    """Return the budgets in the text of a pyproject.toml, or by how much they are missed; none where it has none."""
    lines: dict[str, int] = tomllib.loads(text).get("tool", {}).get("vlmsweep", {}).get(table, {})
    return lines


def count_lines(root: Path, rooms: Budgets) -> Counter[str]:
    """Return the lines of Python in each room; ValueError for a file of the product outside all rooms."""
    counts = Counter(dict.fromkeys(rooms, 0))
    counts.pop(TOTAL, None)
    for folder in sorted({room.partition("/")[0] for room in counts}):
        for path in sorted((root / folder).rglob("*.py")):
            parents = [parent.as_posix() for parent in path.relative_to(root).parents]
            room = next((parent for parent in parents if parent in counts), None)
            if room is None:
                raise ValueError(f"{path.relative_to(root)} is in no room of [tool.vlmsweep.lines] in pyproject.toml")
            counts[room] += path.read_text(encoding="utf-8").count("\n")
    counts[TOTAL] = counts.total() - counts["infra"]  # as the gate before the rooms counted
    return counts


def problems(counts: Mapping[str, int], budgets: Budgets, of_main: Budgets, missed: Budgets | None = None) -> list[str]:
    """Return a sentence for each room that is larger than stated, and for each budget that rose."""
    stated = missed or {}
    above = [
        f"{room}: {counts[room]:,} lines, {counts[room] - budget:,} above its budget of {budget:,}"
        + (f", {stated[room]:,} of them stated" if room in stated else "")
        for room, budget in budgets.items()
        if counts[room] > budget + stated.get(room, 0)
    ]
    rose = [
        f"{room}: its budget rose from {of_main[room]:,} to {budget:,}; budgets only fall"
        for room, budget in budgets.items()
        if budget > of_main.get(room, budget)
    ]
    if of_main and sum(budgets.values()) > sum(of_main.values()):
        rose.append(f"the budgets together rose from {sum(of_main.values()):,} to {sum(budgets.values()):,} lines")
    return above + rose


def notes(counts: Mapping[str, int], budgets: Budgets) -> list[str]:
    """Return a sentence for each room well below its budget."""
    return [
        f"{room}: {budget - counts[room]:,} lines below its budget of {budget:,}; lower it to {counts[room]:,}"
        for room, budget in budgets.items()
        if budget - counts[room] >= SLACK
    ]


def misses(counts: Mapping[str, int], budgets: Budgets) -> dict[str, int]:
    """Return by how many lines each budget is missed."""
    return {room: counts[room] - budget for room, budget in budgets.items() if counts[room] > budget}


def _project_file_of_main() -> str:
    command = ["git", "show", "main:pyproject.toml"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def main(arguments: list[str]) -> int:
    """Check this repository; return the exit code."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    budgets, stated = read_budgets(text), read_budgets(text, MISSED)
    counts = count_lines(ROOT, budgets)
    if arguments == ["--print"]:
        print("\n".join(f'"{room}" = {counts[room]:_}' for room in budgets))
        return 0
    of_main = _project_file_of_main()
    broken = problems(counts, budgets, read_budgets(of_main), stated)
    stated_on_main = read_budgets(of_main, MISSED)
    broken += [
        f"{room}: the lines by which its budget is missed rose from {stated_on_main[room]:,} to {lines:,}"
        for room, lines in stated.items()
        if lines > stated_on_main.get(room, lines)
    ]
    print("\n".join([*broken, *notes(counts, budgets)]), end="\n" if broken else "")
    if missed := misses(counts, budgets):
        print("lines: budgets missed: " + ", ".join(f"{room} by {lines:,}" for room, lines in missed.items()))
    print(f"lines: {counts[TOTAL] + counts['infra']:,} in {len(counts) - 1} rooms")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
