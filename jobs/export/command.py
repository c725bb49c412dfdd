"""`vlmsweep export`: an output in the forms of other tools."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer

from jobs.shared.commands import listed
from jobs.shared.options import names, takes
from jobs.shared.output import print_result

if TYPE_CHECKING:
    from jobs.export.files import Exporter

export = listed("Share", "export out exported")(
    typer.Typer(help="Write an output in the form of another tool.", no_args_is_help=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFlags:
    """Flags of all forms."""

    out: str
    folder: str
    data: str = ""
    models: str | None = None
    benchmarks: str | None = None
    media: bool | None = None
    organization: str = ""
    datasets: str | None = None
    json: bool = False


_OF_RECORDS = ("organization", "datasets")


@export.command("inspect")
@takes(ExportFlags, without=_OF_RECORDS)
def inspect(flags: ExportFlags) -> int:
    """Write logs for Inspect, an .eval file per model and task, with prompts, pictures, answers and scores."""
    from jobs.export.inspect_log import export_inspect

    hint = f"Open them with `inspect view --log-dir {flags.folder}`."
    return _write(partial(export_inspect, with_media=flags.media is not False), flags, hint)


@export.command("lm-eval")
@takes(ExportFlags, without=("media", *_OF_RECORDS))
def lm_eval(flags: ExportFlags) -> int:
    """Write what lm-evaluation-harness and lmms-eval write: samples as JSON lines, results as JSON, media as files."""
    from jobs.export.lm_eval import export_lm_eval

    return _write(export_lm_eval, flags, "The samples are beside the results, a file per task and setting.")


@export.command("hub")
@takes(ExportFlags, without=_OF_RECORDS)
def hub(flags: ExportFlags) -> int:
    """Write a data set folder for the Hugging Face hub: Parquet files and a card; upload it yourself."""
    from jobs.export.hub import export_hub

    hint = f"Read it through, then `hf upload --repo-type dataset OWNER/NAME {flags.folder}`."
    return _write(partial(export_hub, with_media=bool(flags.media)), flags, hint)


@export.command("eee")
@takes(ExportFlags, without=("media", "datasets"))
def eee(flags: ExportFlags) -> int:
    """Write records of Every Eval Ever 0.3: aggregates and samples of each model and benchmark."""
    from jobs.export.eee import export_eee

    hint = f"Check them in {flags.folder} with `every_eval_ever validate 'data/*/*/*/*.json*'` (of Python 3.12)."
    return _write(partial(export_eee, organization=flags.organization), flags, hint)


@export.command("hf-eval")
@takes(ExportFlags, without=("media", "organization"))
def hf_eval(flags: ExportFlags) -> int:
    """Write the hub's results of models (`.eval_results/*.yaml`) and benchmarks (`eval.yaml`), from the report."""
    from jobs.export.hf_eval import export_hf_eval, read_datasets

    datasets = read_datasets(names(flags.datasets))
    hint = f"Propose a model's with `hf upload OWNER/MODEL {flags.folder}/models/MODEL . --create-pr`."
    return _write(partial(export_hf_eval, datasets=datasets), flags, hint)


def _write(exporter: "Exporter", flags: ExportFlags, hint: str) -> int:
    """Export what the flags select; print the files, and what to do with them."""
    from jobs.export.files import export_run

    models, benchmarks = names(flags.models), names(flags.benchmarks)
    paths = export_run(exporter, flags.out, flags.folder, data=flags.data, models=models, benchmarks=benchmarks)
    files = [str(path) for path in paths]
    print_result(flags.json, {"files": files}, *files, hint)
    return 0
