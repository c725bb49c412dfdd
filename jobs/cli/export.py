"""`vlmsweep export`: an output in the forms of other tools."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from jobs.config_file import ConfigFile
from jobs.flags import Json, Verbose
from jobs.options import names
from jobs.output import prepare, print_json, print_line

export = typer.Typer(help="Write an output in the form of another tool.", no_args_is_help=True)

Out = Annotated[str, typer.Argument(help="The --out of a run: a folder or s3://bucket/key.")]
Folder = Annotated[str, typer.Argument(metavar="DIR", help="A new local folder.")]
Data = Annotated[str, typer.Option("--data", help="Location of the ingested data, if it is not where the run read it.")]
Models = Annotated[str | None, typer.Option("--models", help="Only these models, comma-separated.")]
Benchmarks = Annotated[str | None, typer.Option("--benchmarks", help="Only these benchmarks, comma-separated.")]


@export.command("inspect")
def inspect(
    out: Out,
    folder: Folder,
    data: Data = "",
    models: Models = None,
    benchmarks: Benchmarks = None,
    media: Annotated[
        bool, typer.Option("--media/--no-media", help="Embed pictures and frames of clips; they are most of a log.")
    ] = True,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Write logs for Inspect, an .eval file per model and task, with prompts, pictures, answers and scores."""
    from jobs.export.inspect_log import export_inspect
    from jobs.export.run import export_run

    del config  # read by its callback before the other flags
    prepare(verbose=verbose)
    exporter = partial(export_inspect, with_media=media)
    paths = export_run(exporter, out, folder, data=data, models=names(models), benchmarks=names(benchmarks))
    _show(paths, f"Open them with `inspect view --log-dir {folder}`.", as_json=json)


@export.command("lm-eval")
def lm_eval(
    out: Out,
    folder: Folder,
    data: Data = "",
    models: Models = None,
    benchmarks: Benchmarks = None,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Write what lm-evaluation-harness and lmms-eval write: samples as JSON lines, results as JSON, media as files."""
    from jobs.export.lm_eval import export_lm_eval
    from jobs.export.run import export_run

    del config  # read by its callback before the other flags
    prepare(verbose=verbose)
    paths = export_run(export_lm_eval, out, folder, data=data, models=names(models), benchmarks=names(benchmarks))
    _show(paths, "The samples are beside the results, a file per task and setting.", as_json=json)


@export.command("hub")
def hub(
    out: Out,
    folder: Folder,
    data: Data = "",
    models: Models = None,
    benchmarks: Benchmarks = None,
    media: Annotated[
        bool, typer.Option("--media/--no-media", help="Copy pictures and clips, where their licences allow it.")
    ] = False,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Write a data set folder for the Hugging Face hub: Parquet files and a card; upload it yourself."""
    from jobs.export.hub import export_hub
    from jobs.export.run import export_run

    del config  # read by its callback before the other flags
    prepare(verbose=verbose)
    exporter = partial(export_hub, with_media=media)
    paths = export_run(exporter, out, folder, data=data, models=names(models), benchmarks=names(benchmarks))
    _show(paths, f"Read it through, then `hf upload --repo-type dataset OWNER/NAME {folder}`.", as_json=json)


def _show(paths: list[Path], hint: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        print_line(str(path))
    print_line(hint)
