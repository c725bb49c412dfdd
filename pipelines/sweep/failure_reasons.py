"""Why rows of a run failed: a line for each model and reason, with a first example and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc

from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.clean_text import cut, one_line
from pipelines.predict.records import CellCount
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS: Final = ["request_id", "sample_id", "task", "setting", "status", "error_type", "error"]
_MESSAGE_LENGTH: Final = 200
_AGAIN: Final = "run the same command again: failed rows alone are sent again"
_REMEDIES: Final[Mapping[str, str]] = load_yaml("pipelines.sweep", "words.yaml")["remedies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReason:
    """Failed rows of a model for one reason."""

    model: str
    error_type: str
    rows: int
    example: str  # benchmark, task, setting and sample of the first
    message: str  # of the first
    remedy: str

    @property
    def cause(self) -> str:
        """Which model failed on how many rows, and the first of them, in one line."""
        message = cut(one_line(self.message), _MESSAGE_LENGTH) or "no message"
        return f"{self.model}: {self.rows:,} {self.error_type}, first {self.example}: {message}"


def failure_reasons(out: Store, counts: Sequence[CellCount]) -> list[FailureReason]:
    """Return why rows that are counted as errors failed, the most frequent reason of each model first."""
    reasons = []
    for model in dict.fromkeys(count.model for count in counts if count.error):
        benchmarks = dict.fromkeys(count.benchmark for count in counts if count.error and count.model == model)
        by_type: dict[str, list[dict[str, Any]]] = {}
        for name in benchmarks:
            for row in _failed_rows(out, name, model):
                by_type.setdefault(row["error_type"] or "unknown", []).append({**row, "benchmark": name})
        reasons += [
            FailureReason(
                model=model,
                error_type=kind,
                rows=len(rows),
                example=" ".join(str(rows[0][name]) for name in ("benchmark", "task", "setting", "sample_id")),
                message=str(rows[0]["error"] or ""),
                remedy=_REMEDIES.get(kind, _AGAIN),
            )
            for kind, rows in sorted(by_type.items(), key=lambda item: -len(item[1]))
        ]
    return reasons


def _failed_rows(out: Store, benchmark: str, model: str) -> Iterator[dict[str, Any]]:
    """Yield failed rows of an entry; where two parts hold a request, the later one counts."""
    failed: dict[str, dict[str, Any]] = {}
    for _, table in iter_parts(out, part_folder("predictions", benchmark, model), _COLUMNS):
        is_error = pc.equal(table["status"], "error")
        for request_id in failed and table.filter(pc.invert(is_error))["request_id"].to_pylist():
            failed.pop(request_id, None)
        failed |= {row["request_id"]: row for row in table.filter(is_error).to_pylist()}
    yield from failed.values()
