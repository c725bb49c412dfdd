"""What `vlmsweep demo` prints at its end: one headline a benchmark, and where to look next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

from jobs.render import format_value
from jobs.tables import table
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.plan.run_spec import RunSpec
from pipelines.sweep.result import SweepResult

LEARNED: Final = ("mate", "img2img", "0-shot")
"""Benchmark, task and setting that the small model has learned."""
_MEANING: Final = (
    "The small model has learned to read generated scenes: as pictures (MATE img2img) and as text (txt2txt).\n"
    "Elsewhere it guesses letters and labels; the judge tosses a coin."
)


def screen(result: SweepResult, spec: RunSpec, out: str, seconds: float) -> str:
    """Return the end of a demo as one screen of text."""
    failed = f"{result.failed:,} failed" if result.failed else "none failed"
    lines = [
        table(("benchmark", "task", "setting", "metric", *spec.models, "n"), list(_headlines(result, spec))),
        "",
        f"{result.requests:,} requests, {failed}, {seconds:.0f} s.",
        _MEANING,
        "",
        f"report: {result.report}",
        f"viewer: vlmsweep view {shlex.quote(spec.out)}",
        f"more:   vlmsweep demo --all --out {shlex.quote(out)}   (every setting)",
    ]
    return "\n".join(lines)


def _headlines(result: SweepResult, spec: RunSpec) -> Iterator[list[Any]]:
    """Yield a row a benchmark, with each model's value and interval, and one of what the model has learned."""
    for name in spec.benchmarks:
        metric = benchmark(name).headline
        rows = [row for row in result.metrics if row.benchmark == name and row.is_whole and row.metric == metric]
        cell = benchmark(name).headline_cell((row.task, row.setting) for row in rows)
        for task, setting in dict.fromkeys(filter(None, (cell, LEARNED[1:] if name == LEARNED[0] else None))):
            here = {row.model: row for row in rows if (row.task, row.setting) == (task, setting)}
            values = [format_value(here[model]) if model in here else "-" for model in spec.models]
            yield [name, task, setting, metric_label(metric), *values, next((row.n for row in here.values()), "-")]
