"""`vlmsweep export`: an output in the forms of other tools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.config_file import ConfigFile
from jobs.flags import Json, Verbose
from jobs.options import names
from jobs.output import prepare, print_json, print_line

if TYPE_CHECKING:
    from jobs.export.run import Exporter

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

    del config  # read by its callback before the other flags
    prepare(verbose=verbose)
    hint = f"Open them with `inspect view --log-dir {folder}`."
    _write(partial(export_inspect, with_media=media), out, folder, (data, models, benchmarks), hint, as_json=json)


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

    del config  # read by its callback before the other flags
    prepare(verbose=verbose)
    hint = "The samples are beside the results, a file per task and setting."
    _write(export_lm_eval, out, folder, (data, models, benchmarks), hint, as_json=json)


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

    del config  # read by its callback before the other flags
    prepare(verbose=verbose)
    hint = f"Read it through, then `hf upload --repo-type dataset OWNER/NAME {folder}`."
    _write(partial(export_hub, with_media=media), out, folder, (data, models, benchmarks), hint, as_json=json)


def _write(
    exporter: Exporter,
    out: str,
    folder: str,
    selection: tuple[str, str | None, str | None],
    hint: str,
    *,
    as_json: bool,
) -> None:
    """Export what the flags --data, --models and --benchmarks select; print the files, and what to do with them."""
    from jobs.export.run import export_run

    data, models, benchmarks = selection
    paths = export_run(exporter, out, folder, data=data, models=names(models), benchmarks=names(benchmarks))
    if as_json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        print_line(str(path))
    print_line(hint)
