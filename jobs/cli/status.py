"""`vlmsweep status`: how far a run is."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.config_file import ConfigFile
from jobs.flags import Json, Verbose
from jobs.output import prepare, print_json, print_line, table


def status(
    uri: Annotated[str, typer.Argument(help="The --out of a run.")],
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Show the progress of a run."""
    from pipelines.sweep.status import status_rows

    prepare(verbose=verbose)
    updated, rows = status_rows(uri)
    if json:
        print_json({"updated": updated, "cells": rows})
        return
    heads = ("model", "benchmark", "task", "setting", "requests", "pending", "running", "done", "failed")
    print_line(table(heads, [[row[head] for head in heads] for row in rows]))
    print_line(f"as of {updated}")
