"""Columns of the Parquet parts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from models.messages import Failure, Reply

PREDICTIONS = pa.schema(
    [
        ("request_id", pa.string()),
        ("sample_id", pa.string()),
        ("benchmark", pa.string()),
        ("task", pa.string()),
        ("setting", pa.string()),
        ("variant", pa.string()),
        ("model", pa.string()),
        ("model_revision", pa.string()),
        ("dataset_fingerprint", pa.string()),
        ("prompt_version", pa.string()),
        ("prompt_sha256", pa.string()),
        ("output", pa.string()),
        ("status", pa.string()),  # ok | error | excluded
        ("error_type", pa.string()),
        ("error", pa.string()),
        ("finish_reason", pa.string()),
        ("decoding", pa.string()),  # greedy | sampled | beam-N; '' or null where no model generated the text
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("head_tokens", pa.int64()),  # see models.messages.Answer
        ("least_tokens", pa.int64()),
        ("latency_s", pa.float64()),
        ("steps", pa.list_(pa.string())),
        ("given", pa.map_(pa.string(), pa.float64())),  # float columns of an imported predictions file
    ]
)


SCORES = pa.schema(
    [
        ("request_id", pa.string()),
        ("sample_id", pa.string()),
        ("benchmark", pa.string()),
        ("task", pa.string()),
        ("setting", pa.string()),
        ("variant", pa.string()),
        ("model", pa.string()),
        ("subset", pa.string()),
        ("category", pa.string()),
        ("cluster", pa.string()),
        ("status", pa.string()),
        ("answer", pa.string()),
        ("rule", pa.string()),
        ("flags", pa.list_(pa.string())),
        ("finish_reason", pa.string()),
        ("verdict_state", pa.string()),
        ("values", pa.map_(pa.string(), pa.float64())),
    ]
)


def prediction_row(request: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    """Return a row of PREDICTIONS from a request's columns and its reply."""
    outcome = reply.outcome
    row = {
        **request,
        "latency_s": round(reply.latency_s, 6),
        "steps": [_clean(step) for step in reply.steps],
        "error_type": "",
        "error": "",
    }
    if isinstance(outcome, Failure):
        return {**row, "status": "error", "error_type": outcome.type, "error": _clean(outcome.message)[:2000]}
    return {
        **row,
        "status": "ok",
        "output": _clean(outcome.text),
        "finish_reason": outcome.finish_reason,
        "decoding": outcome.decoding,
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
        "cached_tokens": outcome.cached_tokens,
        "head_tokens": outcome.head_tokens,
        "least_tokens": outcome.least_tokens,
    }


def prediction_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table of PREDICTIONS; missing columns are null."""
    return pa.Table.from_pylist(rows, PREDICTIONS)


def _clean(text: str) -> str:
    """Replace unpaired surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
