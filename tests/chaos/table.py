"""The guarantee table of README.md, from the results of `make chaos`."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "chaos-results.json"
PAGES = (ROOT / "README.md",)
START, END = "<!-- guarantees: written by tests.chaos.table -->", "<!-- end of guarantees -->"


def table(results: dict[str, dict[str, dict[str, int]]]) -> str:
    """One row a kind of disturbance: sweeps, kills, rows planned, lost, doubled, changed, share done again."""
    lines = [
        "| killed | sweeps | kills | rows planned | lost | doubled | changed | calls made again |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, own in sorted(results.items()):
        total = {
            key: sum(int(one[key]) for one in own.values())
            for key in ("kills", "planned", "lost", "doubled", "changed", "redone")
        }
        again = f"{total['redone'] / max(1, total['planned']):.1%}"
        counts = " | ".join(f"{total[key]:,}" for key in ("kills", "planned", "lost", "doubled", "changed"))
        lines.append(f"| {name} | {len(own)} | {counts} | {again} |")
    return "\n".join(lines)


def with_table(page: str, results: dict[str, dict[str, dict[str, int]]]) -> str:
    """A page's text with the table between its marks."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table(results)}\n{END}{after}"


def main() -> None:
    """Write the tables."""
    results = json.loads(RESULTS.read_text())
    for page in PAGES:
        page.write_text(with_table(page.read_text(), results))


if __name__ == "__main__":
    main()
