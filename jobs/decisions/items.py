"""`vlmsweep items`: what the items say."""

from __future__ import annotations

from jobs.options import names
from jobs.output import print_json, print_line


def items(out: list[str], to: str, benchmarks: str | None = None, json: bool = False) -> None:
    """List suspect labels, shortcuts and duplicates, and choose a compact subset, from the answers of many models."""
    from pipelines.decisions.items.create import describe_items, write_items
    from pipelines.storage.store import Store

    reports = describe_items(out, names(benchmarks))
    addresses = write_items(reports, Store(to))
    counts = [
        {
            **{name: getattr(report.matrix, name) for name in ("benchmark", "task", "setting")},
            "models": len(report.matrix.models),
            "items": len(report.matrix.items),
            **{name: sum(getattr(row, name) for row in report.rows) for name in ("suspect", "shortcut")},
            "duplicates": None if report.not_searched else sum(bool(row.duplicate_of) for row in report.rows),
            "not_searched": report.not_searched,
            "compact": len(report.compact.places),
            "compact_error": report.compact.largest_error,
        }
        for report in reports
    ]
    if json:
        print_json({"files": addresses, "items": counts})
        return
    for count in counts:
        duplicates = "no search for" if count["not_searched"] else count["duplicates"]
        print_line(
            f"{count['benchmark']} {count['task']} {count['setting']}: {count['items']:,} items, {count['models']} "
            f"models; {count['suspect']} suspect labels, {count['shortcut']} shortcuts, {duplicates} duplicates; "
            f"{count['compact']} samples stand for all to {count['compact_error']:.3f}"
        )
    for problem in dict.fromkeys(report.not_searched for report in reports if report.not_searched):
        print_line(f"Duplicates were not looked for: {problem}")
    for address in addresses:
        print_line(address)
