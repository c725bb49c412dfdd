"""`vlmsweep demo`: the main job on sample data."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.run import print_result
from jobs.config_file import ConfigFile
from jobs.flags import Json, Verbose
from jobs.output import prepare, results_only_on_stdout
from jobs.progress import Progress


def demo(
    out: Annotated[str, typer.Option("--out", help="A local folder for data, model and results.")] = "demo-out",
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Run the main job on sample data with a tiny local model; its answers are chance."""
    from jobs.demo.main import run_demo

    prepare(verbose=verbose)
    progress = Progress(quiet=json)
    with results_only_on_stdout():
        spec, outcome = run_demo(out, progress=progress)
    progress.finish()
    return print_result(outcome, spec, as_json=json)
