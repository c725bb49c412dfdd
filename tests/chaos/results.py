"""The results of `make chaos`: one JSON file, from which the table of docs/operations.md is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

__all__ = ["RESULTS", "ROOT", "Results", "read_results", "write_results"]

RESULTS = ROOT / "docs" / "chaos-results.json"

Results = dict[str, dict[str, Any]]
"""`kills`: by what was killed, by seed; `rows`: by benchmark; `cuts`: by storage; `soak` and `media`: one run."""


def read_results(path: Path = RESULTS) -> Results:
    """Read the results so far; a missing file is empty."""
    recorded = json.loads(path.read_text()) if path.exists() else {}
    return {name: recorded.get(name, {}) for name in ("kills", "rows", "soak", "cuts", "media")}


def write_results(results: Results, path: Path = RESULTS) -> None:
    """Write the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
