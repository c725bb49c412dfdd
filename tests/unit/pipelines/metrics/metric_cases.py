"""Golden rows and texts that several tests of the metrics share."""

import json
from typing import Any

from tests.support.paths import GOLDEN

GOLDEN_ROWS = GOLDEN / "metrics"


def golden(name: str) -> list[dict[str, Any]]:
    """Return the rows of one golden file."""
    lines = (GOLDEN_ROWS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def row_name(row: dict[str, Any]) -> str:
    return str(row["name"])
