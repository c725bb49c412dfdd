"""Folders that tests read from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository."""
GOLDEN = ROOT / "tests" / "golden"
"""Golden rows: inputs with the outputs they must give."""
SHARED_DATA = ROOT.parent / "shared" / "data"
"""Published data that some machines have beside the repository; tests skip, saying so, where it is absent."""
