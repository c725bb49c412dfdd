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

from tabulate import tabulate

FILE = Path("bench-results.json")


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
    """Print a table."""
    print(f"\n{title}\n{tabulate(rows, head, floatfmt='.4g')}", flush=True)


def _machine() -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": len(os.sched_getaffinity(0)),
        "load": list(os.getloadavg()),
        "python": platform.python_version(),
    }
