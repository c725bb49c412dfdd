"""`vlmsweep export`: an output in the forms of other tools."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer

from jobs.shared.commands import listed
from jobs.shared.options import DataOfRun, Json, names
from jobs.shared.output import print_result
from pipelines.flags import argument, flag

if TYPE_CHECKING:
    from jobs.export.files import Exporter

export = listed("Share", "export out exported")(
    typer.Typer(help="Write an output in the form of another tool.", no_args_is_help=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of all forms."""

    out: str = argument("The --out of a run: a folder or s3://bucket/key.", kind="location")
    folder: str = argument("A new local folder.", kind="location", metavar="DIR")
    data: DataOfRun = ""
    models: str | None = flag("Only these models, comma-separated.", "Models", kind="models")
    benchmarks: str | None = flag("Only these benchmarks, comma-separated.", "Data")
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOptions(ExportOptions):
    """Options of forms that can hold pictures and clips."""

    media: bool | None = flag(
        "Include pictures and clips. Default: in logs yes, in data sets no, as their licences must allow it.",
        name="--media/--no-media",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions(ExportOptions):
    """Options of `eee`."""

    organization: str = flag("Publisher of the results, written to the records.", metavar="NAME", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions(ExportOptions):
    """Options of `hf-eval`."""

    datasets: str | None = flag(
        "Hub data sets of benchmarks that cite none, comma-separated.",
        metavar="NAME=OWNER/NAME",
    )


@export.command("inspect")
def inspect(options: MediaOptions) -> int:
    """Write logs for Inspect, an .eval file per model and task, with prompts, pictures, answers and scores."""
    from jobs.export.inspect_log import export_inspect

    hint = f"Open them with `inspect view --log-dir {options.folder}`."
    return _write(partial(export_inspect, with_media=options.media is not False), options, hint)


@export.command("lm-eval")
def lm_eval(options: ExportOptions) -> int:
    """Write what lm-evaluation-harness and lmms-eval write: samples as JSON lines, results as JSON, media as files."""
    from jobs.export.lm_eval import export_lm_eval

    return _write(export_lm_eval, options, "The samples are beside the results, a file per task and setting.")


@export.command("hub")
def hub(options: MediaOptions) -> int:
    """Write a data set folder for the Hugging Face hub: Parquet files and a card; upload it yourself."""
    from jobs.export.hub import export_hub

    hint = f"Read it through, then `hf upload --repo-type dataset OWNER/NAME {options.folder}`."
    return _write(partial(export_hub, with_media=bool(options.media)), options, hint)


@export.command("eee")
def eee(options: RecordOptions) -> int:
    """Write records of Every Eval Ever 0.3: aggregates and samples of each model and benchmark."""
    from jobs.export.eee import export_eee

    hint = f"Check them in {options.folder} with `every_eval_ever validate 'data/*/*/*/*.json*'` (of Python 3.12)."
    return _write(partial(export_eee, organization=options.organization), options, hint)


@export.command("hf-eval")
def hf_eval(options: ResultOptions) -> int:
    """Write the hub's results of models (`.eval_results/*.yaml`) and benchmarks (`eval.yaml`), from the report."""
    from jobs.export.hub import export_hf_eval, read_datasets

    datasets = read_datasets(names(options.datasets))
    hint = f"Propose a model's with `hf upload OWNER/MODEL {options.folder}/models/MODEL . --create-pr`."
    return _write(partial(export_hf_eval, datasets=datasets), options, hint)


def _write(exporter: "Exporter", options: ExportOptions, hint: str) -> int:
    """Export what the flags select; print the files, and what to do with them."""
    from jobs.export.files import export_run

    models, benchmarks = names(options.models), names(options.benchmarks)
    paths = export_run(exporter, options.out, options.folder, data=options.data, models=models, benchmarks=benchmarks)
    files = [str(path) for path in paths]
    print_result(options.json, {"files": files}, *files, hint)
    return 0
