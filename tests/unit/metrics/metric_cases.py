"""Golden rows and texts that several tests of the metrics share."""

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics"


def golden(name: str) -> list[dict[str, Any]]:
    """The rows of one golden file."""
    lines = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def row_name(row: dict[str, Any]) -> str:
    return str(row["name"])
