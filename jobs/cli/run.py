"""The commands. Heavy modules are imported inside them, so that `--help` answers at once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli import options as o
from jobs.cli.generate import generate
from jobs.cli.nightly import nightly
from jobs.cli.output import Progress, only_results_on_stdout, remark, say, say_json, table
from jobs.cli.submit import submit
from pipelines.logging_context import logs_are_json

if TYPE_CHECKING:
    from pipelines.plan.run_spec import RunSpec
    from pipelines.sweep.run import Outcome


def register(app: typer.Typer) -> None:
    """Hang all commands on the app."""
    app.command("list")(list_)
    app.command()(ingest)
    app.command()(run)
    app.command("predict")(predict)
    app.command()(score)
    app.command("report")(report)
    app.command()(status)
    app.command()(compare)
    app.command()(submit)
    app.command()(nightly)
    app.command()(generate)
    app.command()(doctor)
    app.command()(serve)
    app.command()(demo)


def list_(
    what: Annotated[str, typer.Argument(help="benchmarks, models or settings")],
    models_file: o.ModelsFile = None,
    config: o.ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """List what can be run."""
    from jobs.cli.render import listing

    prepare(verbose=verbose, config=config)
    heads, rows = listing(what, models_file or [])
    if json:
        say_json([dict(zip(heads, row, strict=True)) for row in rows])
        return
    # Reasons are sentences, too long for a column.
    reasons = heads[-1] == "why not"
    say(table(heads[:-1], [row[:-1] for row in rows]) if reasons else table(heads, rows))
    for row in rows if reasons else []:
        if row[-1]:
            say(f"{row[0]}: {row[-1]}")


def ingest(
    benchmark: Annotated[str, typer.Argument(help="Which benchmark the source is.")],
    source: Annotated[str, typer.Argument(help="The benchmark as distributed: a folder or s3://bucket/key.")],
    data: o.Data,
    column_map: Annotated[Path | None, typer.Option("--column-map", help="YAML: our names -> the source's.")] = None,
    config: o.ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Read a benchmark as distributed, check every row, write canonical shards."""
    from jobs.cli.spec_builder import read_column_map
    from pipelines.benchmarks import benchmark as by_name
    from pipelines.ingest.ingest import Folder
    from pipelines.ingest.ingest import ingest as read_in
    from pipelines.storage.store import Store

    prepare(verbose=verbose, config=config)
    chosen = by_name(benchmark)
    columns = read_column_map(column_map) if column_map else None
    progress = Progress(quiet=json)
    progress.phase(f"ingest {benchmark}", 0)
    result = read_in(chosen, Folder(source), Store(data), column_map=columns, progress=lambda _: progress.advance(1, 0))
    manifest = result.manifest
    where = f"{Store(data).uri}/{benchmark}"
    if result.rejections:
        first = result.rejections[0]
        logging.getLogger("vlmsweep").warning(
            "%d rows rejected, listed in %s/rejected.jsonl; the first: %s: %s",
            len(result.rejections),
            where,
            first.item,
            first.reason,
        )
    if json:
        say_json(
            {
                "benchmark": benchmark,
                "samples": manifest.samples,
                "rejected": manifest.rejected,
                "media": manifest.media,
                "dataset_fingerprint": manifest.dataset_fingerprint,
                "data": where,
            }
        )
    else:
        say(f"{manifest.samples} samples, {manifest.media} media, {manifest.rejected} rejected -> {where}")


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
    config: o.ConfigFile = None,
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
    config: o.ConfigFile = None,
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
    with only_results_on_stdout():
        outcome = score_external(spec, predictions, watcher=progress)
    progress.finish()
    return _told(outcome, spec, as_json=json)


report = _stage(
    """Reduce the scores in --out and write the report again.

    Takes what `run` takes, so that one file serves both; --judge, --scorer and --cost-limit say nothing here, because
    nothing is asked or scored. --dry-run tells what would be reduced.
    """,
    "report",
)


def status(
    uri: Annotated[str, typer.Argument(help="The --out of a run.")],
    config: o.ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Show how far a run is."""
    from jobs.cli.render import status_rows

    prepare(verbose=verbose, config=config)
    updated, rows = status_rows(uri)
    if json:
        say_json({"updated": updated, "cells": rows})
        return
    heads = ("model", "benchmark", "task", "setting", "requests", "pending", "running", "done", "failed")
    say(table(heads, [[row[head] for head in heads] for row in rows]))
    say(f"as of {updated}")


def compare(
    out_a: Annotated[str, typer.Argument(help="The --out of a run.")],
    out_b: Annotated[str, typer.Argument(help="The --out of another run, or the same.")],
    models: Annotated[
        str | None, typer.Option("--models", help="One model, or A,B: A of the first, B of the second.")
    ] = None,
    config: o.ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Show what differs between two runs on the same rows, with paired tests and intervals."""
    from jobs.cli.render import show_comparison
    from pipelines.report.compare import compare as compared
    from pipelines.storage.store import Store

    prepare(verbose=verbose, config=config)
    show_comparison(compared(Store(out_a), Store(out_b), o.names(models)), as_json=json)


def doctor(
    models: Annotated[
        str | None, typer.Option("--models", help="Only these, and end with 3 if one cannot run.")
    ] = None,
    models_file: o.ModelsFile = None,
    data: Annotated[str | None, typer.Option("--data", help="A place that must be reachable and writable.")] = None,
    out: Annotated[str | None, typer.Option("--out", help="Another one.")] = None,
    address: o.Address = None,
    config: o.ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> int:
    """Tell what this machine or cluster can run; ends with 3 if something that was asked for cannot."""
    from jobs.doctor import examine, ok, told
    from models.catalog_loader import load_models, pick
    from models.environment import ray_address

    prepare(verbose=verbose, config=config)
    known = load_models(models_file or [])
    chosen = pick(o.names(models), known) if models else known
    places = [place for place in (data, out) if place]
    with only_results_on_stdout():
        found = examine(chosen, named=bool(models), places=places, address=address or ray_address())
    if json:
        say_json({"ok": ok(found), "findings": told(found)})
    else:
        say("\n".join(f"{one.state:>4}  {one.what}: {one.told}" for one in found))
    return 0 if ok(found) else 3


def serve(
    model: Annotated[str, typer.Argument(help="The model to serve, by name.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at; others than loopback are reachable.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")] = 8000,
    models_file: o.ModelsFile = None,
    key_env: Annotated[str | None, typer.Option("--key-env", help="Variable that holds the key to ask for.")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Answer anybody.")] = False,
    idle_s: Annotated[float, typer.Option("--idle-s", min=1.0, help="Idle seconds until GPUs are given back.")] = 300.0,
    address: o.Address = None,
    config: o.ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> int:
    """Serve a model as an OpenAI-compatible endpoint until interrupted: a judge, a captioner, or for any other tool."""
    from jobs.serve.run import serve_until_stopped

    prepare(verbose=verbose, config=config)
    return serve_until_stopped(locals())


def demo(
    out: Annotated[str, typer.Option("--out", help="A local folder for data, model and results.")] = "demo-out",
    config: o.ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> int:
    """Run the main job on sample data with a tiny local model; its answers are chance."""
    from jobs.demo.main import run_demo

    prepare(verbose=verbose, config=config)
    progress = Progress(quiet=json)
    with only_results_on_stdout():
        spec, outcome = run_demo(out, watcher=progress)
    progress.finish()
    return _told(outcome, spec, as_json=json)


def prepare(*, verbose: bool, config: Path | None) -> None:
    """How much is said."""
    del config  # read by its callback before the other flags
    logging.getLogger().setLevel(logging.INFO if verbose or logs_are_json() else logging.WARNING)


def _sweep(flags: dict[str, Any], stages: tuple[str, ...]) -> int:
    from jobs.cli.spec_builder import run_spec
    from pipelines.sweep.run import run_sweep

    prepare(verbose=flags["verbose"], config=flags["config"])
    spec = run_spec(flags, stages)
    if flags["dry_run"]:
        from jobs.dry_run.command import show_stages

        show_stages(spec, stages, as_json=flags["json"])
        return 0
    progress = Progress(quiet=flags["json"])
    with only_results_on_stdout():
        outcome = run_sweep(spec, stages=stages, watcher=progress)
    progress.finish()
    return _told(outcome, spec, as_json=flags["json"])


def _told(outcome: Outcome, spec: RunSpec, *, as_json: bool) -> int:
    """Say how it ended; returns the exit code."""
    from jobs.cli.render import headline, summary

    for warning in (*outcome.warnings, *outcome.unavailable):
        logging.getLogger("vlmsweep").warning("%s", warning)
    if as_json:
        say_json(summary(outcome))
    else:
        say(headline(outcome))
        for line in outcome.spending.lines():  # beside the result, which is the same when nothing is spent any more
            remark(f"spent by {line}")
    if outcome.unavailable:
        return 3
    return 0 if spec.fail_on_error.allows(outcome.failed, max(outcome.requests, 1)) else 1
