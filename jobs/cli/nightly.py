"""`vlmsweep nightly`: every model on every benchmark, only what changed, compared with the night before."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli import options as o
from jobs.cli.config_file import ConfigFile
from jobs.cli.progress import Progress
from jobs.output import print_json, print_line, results_only_on_stdout, table
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.nightly.records import NightlyResult, PairStatus

HistoryUri = Annotated[
    str | None, typer.Option("--history", help="Where nights are kept: a folder or s3://bucket/key. [OUT/history]")
]
SummaryFile = Annotated[Path | None, typer.Option("--summary", help="Write the Markdown summary to this file as well.")]
GpuHour = Annotated[float | None, typer.Option("--gpu-hour-usd", min=0, help="Price of one GPU for an hour.")]


def nightly(
    models: o.Models,
    data: o.Data,
    out: o.Out,
    benchmarks: Annotated[str, typer.Option("--benchmarks", help="Benchmarks, comma-separated.")] = (
        "vague,vflute,maia,mate,unpie"
    ),
    tasks: o.Tasks = None,
    settings: o.Settings = None,
    limit: o.LimitText = None,
    sample_ids: o.SampleIds = None,
    models_file: o.ModelsFile = None,
    judge: o.JudgeName = None,
    captioner: o.Captioner = None,
    scorers: o.Scorers = None,
    address: o.Address = None,
    fail_on_error: o.FailOnError = "true",
    cost_limit: o.CostLimit = None,
    seed: o.Seed = 42,
    prompts: o.Prompts = None,
    instead: o.Instead = None,
    history: HistoryUri = None,
    summary: SummaryFile = None,
    gpu_hour_usd: GpuHour = None,
    dry_run: o.DryRun = False,
    config: ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> int:
    """Run what changed since the last night, and tell what moved, what failed and what it cost.

    Ends with 0 when all is well; 1 when a number over a whole benchmark left its interval, a model failed, or more rows
    failed than --fail-on-error allows; 2 for a wrong configuration; 3 when nothing could be run; 130 when interrupted.
    """
    flags = locals()
    from jobs.cli.spec_builder import build_run_spec
    from jobs.output import prepare
    from pipelines.errors import ModelUnavailableError
    from pipelines.nightly.history import History
    from pipelines.nightly.run import due_pairs, run_night

    prepare(verbose=verbose, config=config)
    spec = build_run_spec(flags)
    kept = History(history or f"{spec.out.rstrip('/')}/history")
    if dry_run:
        _show_due(due_pairs(spec, kept), as_json=json)
        return 0
    progress = Progress(quiet=json)
    with results_only_on_stdout():
        night = run_night(spec, kept, gpu_hour_usd=gpu_hour_usd, progress=progress)
    progress.finish()
    _tell(night, summary, as_json=json)
    if night.all_failed:
        raise ModelUnavailableError("nothing that was due could be run; the night is recorded, with the reasons")
    return 1 if night.has_alarm else 0


def _tell(night: NightlyResult, summary: Path | None, *, as_json: bool) -> None:
    if summary is not None:
        _write(summary, night.summary)
    for warning in night.warnings:
        logging.getLogger("vlmsweep").warning("%s", warning)
    if as_json:
        print_json(_to_json(night))
    else:
        print_line(night.summary.rstrip())


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--summary {path}: {error.strerror}; the night itself is recorded") from error


def _show_due(due: list[PairStatus], *, as_json: bool) -> None:
    if as_json:
        print_json({"pairs": [{"model": one.model, "benchmark": one.benchmark, "why": one.why} for one in due]})
        return
    print_line(
        table(("model", "benchmark", "run"), [[one.model, one.benchmark, one.why or "no: unchanged"] for one in due])
    )
    print_line("Nothing was run.")


def _to_json(night: NightlyResult) -> dict[str, Any]:
    return {
        "night": night.name,
        "alarms": night.has_alarm,
        "cost_usd": round(night.cost_usd, 6),
        "pairs": [{**asdict(pair), "parts": dict(pair.parts)} for pair in night.pairs],
        "moves": [{**asdict(move), "whole": move.whole} for move in night.shifts],
    }
