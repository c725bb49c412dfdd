"""Golden rows and texts that several tests of the metrics share."""

import json
from collections.abc import Sequence
from typing import Any

from pipelines.metrics.ngrams import bleu_counts, bleu_of_counts
from tests.support.paths import GOLDEN

GOLDEN_ROWS = GOLDEN / "metrics"


def golden(name: str) -> list[dict[str, Any]]:
    """Return the rows of one golden file."""
    lines = (GOLDEN_ROWS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def row_name(row: dict[str, Any]) -> str:
    return str(row["name"])


def corpus_bleu(
    candidates: Sequence[str], references: Sequence[Sequence[str]], *, order: int = 4, lowercase: bool = False
) -> float:
    """Return BLEU of the sum of all counts."""
    return bleu_of_counts(bleu_counts(candidates, references, lowercase=lowercase).sum(axis=0), order)
