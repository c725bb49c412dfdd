"""The commands. Heavy modules are imported inside them, so that `--help` answers at once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli import options as o
from jobs.cli.config_file import ConfigFile
from jobs.cli.progress import Progress
from jobs.output import prepare, print_error, print_json, print_line, results_only_on_stdout

if TYPE_CHECKING:
    from pipelines.plan.run_spec import RunSpec
    from pipelines.sweep.run import SweepResult


def run(
    models: o.Models,
    benchmarks: o.Benchmarks,
    data: o.Data,
    out: o.Out,
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
    dry_run: o.DryRun = False,
    human: o.Human = None,
    config: ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> int:
    """Predict, score, reduce and report. The same command again does only what is missing."""
    return _sweep(locals(), ("predict", "score", "report"))


def _stage(doc: str, *stages: str) -> Callable[..., int]:
    """A command with the flags of `run`, that one `--config` may serve it and its stages."""

    @functools.wraps(run)
    def command(**flags: Any) -> int:
        return _sweep(flags, stages)

    command.__doc__ = doc
    return command


predict = _stage(
    """Only ask the models, and the captioner before them.

    Takes what `run` takes, so that one file serves both; --judge, --scorer and --human say nothing here.
    """,
    "predict",
)


def score(
    data: o.Data,
    out: o.Out,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="Answers made elsewhere: FILE.jsonl or FILE.parquet.")
    ] = None,
    models: Annotated[str | None, typer.Option("--models", help="Models by name, comma-separated.")] = None,
    benchmarks: Annotated[str | None, typer.Option("--benchmarks", help="Benchmarks, comma-separated.")] = None,
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
    dry_run: o.DryRun = False,
    human: o.Human = None,
    config: ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> int:
    """Score the predictions in --out, or answers made elsewhere; the latter are also reduced and reported.

    Takes what `run` takes, so that one file serves both. --dry-run tells what would be judged and scored.
    """
    flags = locals()
    if predictions is None:
        return _sweep(flags, ("score",))
    from jobs.cli.spec_builder import external_spec
    from pipelines.sweep.external import score_external

    prepare(verbose=verbose, config=config)
    spec = external_spec(flags)
    if dry_run:
        from jobs.dry_run.command import show_file

        show_file(spec, predictions, as_json=json)
        return 0
    progress = Progress(quiet=json)
    with results_only_on_stdout():
        outcome = score_external(spec, predictions, watcher=progress)
    progress.finish()
    return print_result(outcome, spec, as_json=json)


report = _stage(
    """Reduce the scores in --out and write the report again.

    Takes what `run` takes, so that one file serves both; --judge, --scorer and --cost-limit say nothing here, because
    nothing is asked or scored. --dry-run tells what would be reduced.
    """,
    "report",
)


def _sweep(flags: dict[str, Any], stages: tuple[str, ...]) -> int:
    from jobs.cli.spec_builder import build_run_spec
    from pipelines.sweep.run import run_sweep

    prepare(verbose=flags["verbose"], config=flags["config"])
    spec = build_run_spec(flags, stages)
    if flags["dry_run"]:
        from jobs.dry_run.command import show_stages

        show_stages(spec, stages, as_json=flags["json"])
        return 0
    progress = Progress(quiet=flags["json"])
    with results_only_on_stdout():
        outcome = run_sweep(spec, stages=stages, watcher=progress)
    progress.finish()
    return print_result(outcome, spec, as_json=flags["json"])


def print_result(outcome: SweepResult, spec: RunSpec, *, as_json: bool) -> int:
    """Say how it ended; returns the exit code."""
    from jobs.cli.render import headline, summary

    for warning in (*outcome.warnings, *outcome.unavailable):
        logging.getLogger("vlmsweep").warning("%s", warning)
    if as_json:
        print_json(summary(outcome))
    else:
        print_line(headline(outcome))
        for line in outcome.spending.lines():  # beside the result, which is the same when nothing is spent any more
            print_error(f"spent by {line}")
    if outcome.unavailable:
        return 3
    return 0 if spec.fail_on_error.allows(outcome.failed, max(outcome.requests, 1)) else 1
