"""Storage of measurements: one file, `bench-results.json`, and a table on standard output."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = ROOT / "bench-results.json"


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return the median, the extremes and all values."""
    return {
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
        "all": [round(value, 6) for value in values],
    }


def record(name: str, result: Mapping[str, Any], file: Path = FILE) -> None:
    """Put one benchmark's result into the file; those of others stay."""
    results: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    results[name] = {**result, "machine": _machine()}
    file.write_text(json.dumps(results, indent=1) + "\n")


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; this needs no package, as all that a GPU machine runs."""
    lines = [[*head], *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for line in (lines[0], ["-" * width for width in widths], *lines[1:]):
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)), flush=True)


def heads(*names: Any) -> None:
    """Print the head of a Markdown table."""
    print(f"\n| {' | '.join(map(str, names))} |\n|{'---|' * len(names)}", flush=True)


def row(*values: Any) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(map(str, values))} |", flush=True)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _machine() -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)),
        "load": list(os.getloadavg()),
        "python": platform.python_version(),
    }
