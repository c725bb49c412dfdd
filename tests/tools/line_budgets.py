"""Check the lines of each room of the product against its budget: `python -m tests.tools.line_budgets`.

`[tool.vlmsweep.lines]` of pyproject.toml gives each room its budget, and all together a `total`; a file belongs to the
innermost room above it. Budgets only fall: on a branch they are compared with those of `main`. `--print` writes the
table with the lines of today. Exit codes: 0 all rooms fit, 1 a room or a budget is too large.
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
SLACK = 100
"""Lines below its budget from which a room's budget is to be lowered."""
Budgets = Mapping[str, int]


def read_budgets(text: str) -> dict[str, int]:
    """Return the budgets in the text of a pyproject.toml; none where it has none."""
    lines: dict[str, int] = tomllib.loads(text).get("tool", {}).get("vlmsweep", {}).get("lines", {})
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


def problems(counts: Mapping[str, int], budgets: Budgets, of_main: Budgets) -> list[str]:
    """Return a sentence for each room above its budget, and for each budget that rose."""
    above = [
        f"{room}: {counts[room]:,} lines, {counts[room] - budget:,} above its budget of {budget:,}"
        for room, budget in budgets.items()
        if counts[room] > budget
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


def _budgets_of_main() -> dict[str, int]:
    command = ["git", "show", "main:pyproject.toml"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return read_budgets(result.stdout) if result.returncode == 0 else {}


def main(arguments: list[str]) -> int:
    """Check this repository; return the exit code."""
    budgets = read_budgets((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    counts = count_lines(ROOT, budgets)
    if arguments == ["--print"]:
        print("\n".join(f'"{room}" = {counts[room]:_}' for room in budgets))
        return 0
    broken = problems(counts, budgets, _budgets_of_main())
    print("\n".join([*broken, *notes(counts, budgets)]), end="\n" if broken else "")
    print(f"lines: {counts[TOTAL] + counts['infra']:,} in {len(counts) - 1} rooms")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
