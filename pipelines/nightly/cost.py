"""What a night used and what it cost."""

from __future__ import annotations

from collections.abc import Iterator

from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

Usage = dict[tuple[str, str, str], tuple[int, int]]
"""(kind, benchmark, model) -> tokens read and written."""


def _askers_of(spec: RunSpec) -> Iterator[tuple[str, str, ModelSpec]]:
    for model, one in spec.models.items():
        yield "predictions", model, one
    if spec.judge:
        yield "judgements", *spec.judge
    for model, one in spec.captioners.items():
        yield "captions", model, one


def usage(spec: RunSpec) -> Usage:
    """Tokens that the parts of an output tell of."""
    out = Store(spec.out)
    used: Usage = {}
    for kind, name, _ in _askers_of(spec):
        for bench in spec.benchmarks:
            read = written = 0
            folder = part_folder(kind, bench, name)
            for _, table in iter_parts(out, folder, ["input_tokens", "output_tokens"]):
                read += sum(n or 0 for n in table["input_tokens"].to_pylist())
                written += sum(n or 0 for n in table["output_tokens"].to_pylist())
            used[kind, bench, name] = (read, written)
    return used


def token_difference(now: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    """What was added."""
    return max(0, now[0] - before[0]), max(0, now[1] - before[1])


def cost(spec: RunSpec, bench: str, used: Usage, seconds: float, gpu_hour_usd: float | None) -> float | None:
    """Dollars by tokens where a price a token is known, by GPU hours of all replicas where it is a model of ours.

    Args:
        spec: the sweep of one model.
        bench: the benchmark.
        used: tokens of tonight.
        seconds: of the sweep, this benchmark's share.
        gpu_hour_usd: price of one GPU for an hour.
    """
    total, known = 0.0, False
    for kind, name, one in _askers_of(spec):
        read, written = used[kind, bench, name]
        if one.price:
            total += (read * one.price.input_per_million + written * one.price.output_per_million) / 1e6
            known = True
    (one,) = spec.models.values()
    if gpu_hour_usd is not None and one.can_use_gpu:
        total += seconds / 3600 * one.tensor_parallel * one.replicas.max * gpu_hour_usd
        known = True
    return round(total, 6) if known else None
