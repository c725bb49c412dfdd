"""Folders that tests read from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository."""
ENGINES = ROOT / "tests" / "support" / "engines"
ENGINES_PATH = f"{ENGINES}:{ROOT}"
"""`PYTHONPATH` of processes that find the engine `scripted`."""
GOLDEN = ROOT / "tests" / "golden"
"""Golden rows: inputs with the outputs they must give."""
SHARED_DATA = ROOT.parent / "shared" / "data"
"""Published data that some machines have beside the repository; tests skip, saying so, where it is absent."""
