"""Columns of the Parquet parts of a run."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, get_args, get_type_hints

import pyarrow as pa

from models.messages import Failure, Reply

_Column: TypeAlias = tuple[str, pa.DataType]


def schema_of(record: type, types: Mapping[str, pa.DataType] = MappingProxyType({})) -> pa.Schema:
    """Return the columns of a dataclass of strings, integers and floats; `types` names those of other fields."""
    plain = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    hints = get_type_hints(record)
    kinds = {name: types[name] if name in types else plain[(*get_args(kind), kind)[0]] for name, kind in hints.items()}
    return pa.schema(list(kinds.items()))


def _columns(kind: pa.DataType, *names: str) -> list[_Column]:
    return [(name, kind) for name in names]


_IDENTITY = _columns(pa.string(), "request_id", "sample_id", "benchmark", "task", "setting", "variant", "model")

PREDICTIONS = pa.schema(
    [
        *_IDENTITY,
        *_columns(pa.string(), "model_revision", "dataset_fingerprint", "prompt_version", "prompt_sha256", "output"),
        ("captioner", pa.string()),  # whose caption the prompt holds; '' or null where it holds none
        ("status", pa.string()),  # ok | error | excluded
        *_columns(pa.string(), "error_type", "error", "finish_reason"),
        ("decoding", pa.string()),  # greedy | sampled | beam-N; '' or null where no model generated the text
        *_columns(pa.int64(), "input_tokens", "output_tokens", "cached_tokens"),
        *_columns(pa.int64(), "head_tokens", "least_tokens"),  # see models.messages.Answer
        ("reasoning", pa.string()),  # what a reasoning model thought; null where it is not known
        ("frames_used", pa.int64()),  # of the clip: fewer than asked where more exceed the context; null without a clip
        *_columns(pa.float64(), "mean_logprob", "latency_s"),  # the first where the entry says `logprobs: true`
        ("steps", pa.list_(pa.string())),
        ("given", pa.map_(pa.string(), pa.float64())),  # float columns of an imported predictions file
        ("repairs", pa.list_(pa.string())),  # what in an endpoint's reply was unreadable and dropped; null as none
        *_columns(pa.string(), "served_model", "system_fingerprint"),  # as an endpoint's reply names them; else null
        ("reserved_dollars", pa.float64()),  # estimate for an answer whose endpoint reports no tokens; else null
        ("cache_write_tokens", pa.int64()),  # of the prompt, where a provider bills them apart; null in old parts
        ("device", pa.string()),  # type of GPU, or `cpu`, that computed the answer; null where no weights were loaded
        ("their_correct", pa.float64()),  # verdict of the harness that logged the answer; null where it has none
        *_columns(pa.string(), "their_answer", "their_rule"),  # what its reader took, and the reader's name
    ]
)
SCORES = pa.schema(
    [
        *_IDENTITY,
        *_columns(pa.string(), "subset", "category", "cluster", "status", "answer", "rule"),
        ("flags", pa.list_(pa.string())),
        *_columns(pa.string(), "finish_reason", "verdict_state"),
        ("values", pa.map_(pa.string(), pa.float64())),
    ]
)


_OF_ANSWER = (
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
        **{name: getattr(outcome, name) for name in _OF_ANSWER},
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
