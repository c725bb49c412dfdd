"""Why rows of a run failed: a line for each model and reason, with a first example and what to do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc

from pipelines.benchmarks.prompt_templates import load_yaml
from pipelines.clean_text import cut, one_line
from pipelines.predict.records import TaskCount
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS: Final = ["request_id", "sample_id", "task", "setting", "status", "error_type", "error"]
_EXAMPLE: Final = ("benchmark", "task", "setting", "sample_id")
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


def failure_reasons(out: Store, counts: Sequence[TaskCount], judges: Sequence[str] = ()) -> list[FailureReason]:
    """Return why rows and questions to `judges` failed, the most frequent reason of each model first."""
    parts = [("predictions", count.model, count.benchmark) for count in counts if count.error]
    parts += [("judgements", judge, count.benchmark) for judge in judges for count in counts]
    reasons = []
    for model in dict.fromkeys(model for _, model, _ in parts):
        by_type: dict[str, list[dict[str, Any]]] = {}
        for stage, name in dict.fromkeys((stage, name) for stage, of, name in parts if of == model):
            for row in _failed_rows(out, part_folder(stage, name, model)):
                by_type.setdefault(row["error_type"] or "unknown", []).append({**row, "benchmark": name})
        reasons += [
            FailureReason(
                model=model,
                error_type=kind,
                rows=len(rows),
                example=" ".join(filter(None, (rows[0][name] for name in _EXAMPLE))),
                message=str(rows[0]["error"] or ""),
                remedy=_REMEDIES.get(kind, _AGAIN),
            )
            for kind, rows in sorted(by_type.items(), key=lambda item: -len(item[1]))
        ]
    return reasons


def _failed_rows(out: Store, folder: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a folder's parts that failed, each once, and are answered in no other part."""
    failed: dict[str, dict[str, Any]] = {}
    for _, table in iter_parts(out, folder, _COLUMNS):
        failed |= {row["request_id"]: row for row in table.filter(pc.equal(table["status"], "error")).to_pylist()}
    for _, table in iter_parts(out, folder, ["request_id", "status"]) if failed else ():
        for request_id in table.filter(pc.not_equal(table["status"], "error"))["request_id"].to_pylist():
            failed.pop(request_id, None)
    yield from failed.values()
