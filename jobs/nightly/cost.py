"""Tokens and cost of a night."""

from collections.abc import Iterator

import pyarrow as pa

from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import TokenCounts
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

Usage = dict[tuple[str, str, str], TokenCounts]  # by kind, benchmark and model

_COLUMNS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")  # of TokenCounts


def _models_of(spec: RunSpec) -> Iterator[tuple[str, str, ModelSpec]]:
    for model, model_spec in spec.models.items():
        yield "predictions", model, model_spec
    for judge, judge_spec in spec.judges:
        yield "judgements", judge, judge_spec
    for model, model_spec in spec.caption_models.items():
        yield "captions", model, model_spec


def usage(spec: RunSpec) -> Usage:
    """Return the tokens recorded in the parts of an output."""
    out = Store(spec.out)
    used: Usage = {}
    for kind, name, _ in _models_of(spec):
        for benchmark in spec.benchmarks:
            total = TokenCounts()
            folder = part_folder(kind, benchmark, name)
            for _, table in iter_parts(out, folder, list(_COLUMNS)):
                total = total.plus(TokenCounts(*(_sum(table, column) for column in _COLUMNS)))
            used[kind, benchmark, name] = total
    return used


def _sum(table: pa.Table, column: str) -> int:
    return sum(filter(None, table[column].to_pylist())) if column in table.column_names else 0


def token_difference(now: TokenCounts, before: TokenCounts) -> TokenCounts:
    """Return the tokens that were added."""
    return TokenCounts(*(max(0, late - early) for late, early in zip(now, before, strict=True)))


def cost(spec: RunSpec, benchmark: str, used: Usage, seconds: float, gpu_hour_usd: float | None) -> float | None:
    """Return dollars for tokens and for `seconds` of all GPUs of a local model's replicas; None without a price."""
    total, is_known = 0.0, False
    for kind, name, model_spec in _models_of(spec):
        if price := model_spec.billed_price:
            total += price.dollars(*used[kind, benchmark, name])
            is_known = True
    (model,) = spec.models.values()
    if gpu_hour_usd is not None and model.can_use_gpu:
        total += seconds / 3600 * model.max_gpus * gpu_hour_usd
        is_known = True
    return round(total, 6) if is_known else None
