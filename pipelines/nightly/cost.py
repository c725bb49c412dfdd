"""Tokens and cost of a night."""

from __future__ import annotations

from collections.abc import Iterator

from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

Usage = dict[tuple[str, str, str], tuple[int, int]]  # (kind, benchmark, model) -> input and output tokens


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
            inputs = outputs = 0
            folder = part_folder(kind, benchmark, name)
            for _, table in iter_parts(out, folder, ["input_tokens", "output_tokens"]):
                inputs += sum(n or 0 for n in table["input_tokens"].to_pylist())
                outputs += sum(n or 0 for n in table["output_tokens"].to_pylist())
            used[kind, benchmark, name] = (inputs, outputs)
    return used


def token_difference(now: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    """Return the tokens that were added."""
    return max(0, now[0] - before[0]), max(0, now[1] - before[1])


def cost(spec: RunSpec, benchmark: str, used: Usage, seconds: float, gpu_hour_usd: float | None) -> float | None:
    """Return dollars for tokens and for `seconds` of all GPUs of a local model's replicas; None without a price."""
    total, is_known = 0.0, False
    for kind, name, model_spec in _models_of(spec):
        inputs, outputs = used[kind, benchmark, name]
        if price := model_spec.billed_price:
            total += (inputs * price.input_per_million + outputs * price.output_per_million) / 1e6
            is_known = True
    (model,) = spec.models.values()
    if gpu_hour_usd is not None and model.can_use_gpu:
        total += seconds / 3600 * model.tensor_parallel * model.replicas.max * gpu_hour_usd
        is_known = True
    return round(total, 6) if is_known else None
