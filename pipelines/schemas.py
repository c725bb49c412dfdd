"""Columns of the Parquet parts of a run, and keys of `metrics.json`: each is declared once, in `columns.csv`."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, get_args, get_type_hints

import pyarrow as pa

from models.messages import Failure, Reply


@dataclass(frozen=True, slots=True)
class Column:
    """A column of predictions or scores, or a key of `metrics.json`."""

    table: str  # predictions | scores | metrics
    name: str
    type: str
    unit: str
    version: int  # of the meaning: who changes the meaning raises it, and looks after the readers
    readers: tuple[str, ...] | None  # modules that read the column by its name; None for the names that all use
    meaning: str


def _read_columns() -> Iterator[Column]:
    for row in csv.DictReader((files("pipelines") / "columns.csv").read_text(encoding="utf-8").splitlines()):
        readers = None if row["readers"] == "*" else tuple(row["readers"].split())
        yield Column(**{**row, "version": int(row["version"]), "readers": readers})  # type: ignore[arg-type]


COLUMNS: Final = tuple(_read_columns())
_TYPES: Final = {
    "text": pa.string(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "list of text": pa.list_(pa.string()),
    "map of text to float": pa.map_(pa.string(), pa.float64()),
}


def _schema(table: str) -> pa.Schema:
    return pa.schema([(column.name, _TYPES[column.type]) for column in COLUMNS if column.table == table])


PREDICTIONS: Final = _schema("predictions")
SCORES: Final = _schema("scores")
METRIC_KEYS: Final = tuple(column.name for column in COLUMNS if column.table == "metrics")


def schema_of(record: type, types: Mapping[str, pa.DataType] = MappingProxyType({})) -> pa.Schema:
    """Return the columns of a dataclass of strings, integers and floats; `types` names those of other fields."""
    plain = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    hints = get_type_hints(record)
    kinds = {name: types[name] if name in types else plain[(*get_args(kind), kind)[0]] for name, kind in hints.items()}
    return pa.schema(list(kinds.items()))


_ANSWER_FIELDS = (
    *("finish_reason", "decoding", "input_tokens", "output_tokens", "cached_tokens", "head_tokens", "least_tokens"),
    *("frames_used", "cache_write_tokens"),
)  # columns that are fields of an answer
_SERVED = ("served_model", "system_fingerprint")


def prediction_row(request: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    """Return a row of PREDICTIONS from a request's columns and its reply."""
    outcome = reply.outcome
    spent = {"latency_s": round(reply.latency_s, 6), "steps": [without_surrogates(step) for step in reply.steps]}
    if isinstance(outcome, Failure):
        error = without_surrogates(outcome.message)[:2000]
        return {**request, **spent, "status": "error", "error_type": outcome.type, "error": error}
    return {
        **request,
        **spent,
        "status": "ok",
        "error_type": "",
        "error": "",
        "output": without_surrogates(outcome.text),
        "reasoning": None if outcome.reasoning is None else without_surrogates(outcome.reasoning),
        "repairs": list(outcome.repairs) or None,
        "mean_logprob": outcome.mean_logprob,
        **{name: without_surrogates(text) for name in _SERVED if (text := getattr(outcome, name))},
        "reserved_dollars": outcome.reserved_dollars,
        **{name: getattr(outcome, name) for name in _ANSWER_FIELDS},
        **(
            {}
            if outcome.is_counted or outcome.input_tokens
            else dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens"))
        ),
    }


def prediction_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table of PREDICTIONS; missing columns are null."""
    return pa.Table.from_pylist(rows, PREDICTIONS)


def without_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
