"""What `vlmsweep demo` prints at its end: one headline a benchmark, and where to look next."""

import shlex
from collections.abc import Iterator
from typing import Any, Final

from jobs.shared.output import table
from jobs.shared.render import format_value
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.plan.run_spec import RunSpec
from pipelines.report.landing.standing import Standing, standing_of
from pipelines.sweep.result import SweepResult

LEARNED: Final = ("mate", "img2img", "0-shot")  # benchmark, task and setting that the small model has learned
_HEADS: Final = ("benchmark", "headline", "small model", "chance", "people", "n")
_MEANING: Final = (
    "The small model has learned to read generated scenes (MATE img2img and txt2txt).\n"
    "It guesses where its interval reaches chance; the judge tosses a coin."
)


def screen(result: SweepResult, spec: RunSpec, out: str, seconds: float) -> str:
    """Return the end of a demo as one screen of text; the first model of `spec` is the small one, others guess."""
    failed = f"{result.failed:,} failed" if result.failed else "none failed"
    data = shlex.quote(spec.data)
    lines = [
        table(_HEADS, [_row(at) for at in _standings(result, spec)]),
        "",
        f"{result.requests:,} requests, {failed}, {seconds:.0f} s.",
        _MEANING,
        "",
        f"report: {result.report}",
        f"viewer: vlmsweep view {shlex.quote(spec.out)}",
        f"more:   vlmsweep demo --all --out {shlex.quote(out)}   (every setting)",
        "",
        "your checkpoint, in mine.yaml as `mine: {engine: auto, model: FOLDER_OR_HUB_ID}`:",
        f"  vlmsweep run --models mine --models-file mine.yaml --benchmarks vague --data {data} --out my-out",
        "your questions, a CSV of question, image, A, B, C, answer; then as any benchmark:",
        f"  vlmsweep ingest table questions.csv --as my-questions --data {data}",
    ]
    return "\n".join(lines)


def _standings(result: SweepResult, spec: RunSpec) -> Iterator[Standing]:
    """Yield how the small model stands on each headline, and on what it has learned."""
    baselines = list(spec.models)[1:]
    for name in spec.benchmarks:
        numbers = [row for row in result.metrics if row.benchmark == name]
        yield standing_of(benchmark(name), numbers, baselines)
        learned_rows = [row for row in numbers if (name, row.task, row.setting) == LEARNED]
        if learned_rows:
            yield standing_of(benchmark(name), learned_rows, baselines)


def _row(at: Standing) -> list[Any]:
    best = at.ranked[0] if at.ranked else None
    value = "not measured" if best is None else format_value(best) if at.beats_chance else "guesses"
    references = (at.chance.value if at.chance else None, at.people.value.value if at.people else None)
    levels = ("-" if level is None else f"{100 * level:.1f}%" for level in references)
    headline = f"{at.task}, {at.setting}: {metric_label(at.metric)}"
    return [at.benchmark, headline, value, *levels, "-" if best is None else best.n]
