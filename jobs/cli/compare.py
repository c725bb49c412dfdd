"""`vlmsweep compare`: what differs between two runs."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.config_file import ConfigFile
from jobs.cli.options import names
from jobs.flags import Json, Verbose
from jobs.output import prepare


def compare(
    out_a: Annotated[str, typer.Argument(help="The --out of a run.")],
    out_b: Annotated[str, typer.Argument(help="The --out of another run, or the same.")],
    models: Annotated[
        str | None, typer.Option("--models", help="One model, or A,B: A of the first, B of the second.")
    ] = None,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Show what differs between two runs on the same rows, with paired tests and intervals."""
    from jobs.cli.render import show_comparison
    from pipelines.report.compare import compare as compared
    from pipelines.storage.store import Store

    prepare(verbose=verbose)
    show_comparison(compared(Store(out_a), Store(out_b), names(models)), as_json=json)
