"""What `vlmsweep demo` prints at its end: one headline a benchmark, and where to look next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

from jobs.output import table
from jobs.render import format_value
from pipelines.plan.run_spec import RunSpec
from pipelines.report.measured import MetricKey
from pipelines.sweep.result import SweepResult

HEADLINES: Final = {
    "vague": ("mcq", "vlm", "accuracy"),
    "vflute": ("entailment", "zero-shot", "label_f1"),
    "maia": ("aggregate", "32-frames", "agg_acc"),
    "mate": ("img2img", "0-shot", "exact_match"),
    "unpie": ("grounding", "vlm", "exact_match"),
}
"""Task, setting and metric of each benchmark's headline; V-FLUTE's own needs a model that compares texts."""
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
    """Yield a row a benchmark, with each model's value and interval."""
    for name, (task, setting, metric) in HEADLINES.items():
        key = (name, MetricKey(metric, task, setting))
        rows = {row.model: row for row in result.metrics if (row.benchmark, row.key) == key}
        values = [format_value(rows[model]) if model in rows else "-" for model in spec.models]
        yield [name, task, setting, metric, *values, next((row.n for row in rows.values()), "-")]
