"""TODO doc."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.config_file import ConfigFile
from jobs.cli.options import names
from jobs.flags import Json, ModelsFiles, RayAddress, Verbose
from jobs.output import prepare, print_json, print_line, results_only_on_stdout


def doctor(
    models: Annotated[
        str | None, typer.Option("--models", help="Only these, and end with 3 if one cannot run.")
    ] = None,
    models_file: ModelsFiles = None,
    data: Annotated[str | None, typer.Option("--data", help="A place that must be reachable and writable.")] = None,
    out: Annotated[str | None, typer.Option("--out", help="Another one.")] = None,
    address: RayAddress = None,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Tell what this machine or cluster can run; ends with 3 if something that was asked for cannot."""
    from jobs.doctor import ok, run_checks, to_dicts
    from models.catalog_loader import load_models, select_models
    from models.environment import ray_address

    prepare(verbose=verbose, config=config)
    known = load_models(models_file or [])
    chosen = select_models(names(models), known) if models else known
    places = [place for place in (data, out) if place]
    with results_only_on_stdout():
        found = run_checks(chosen, named=bool(models), places=places, address=address or ray_address())
    if json:
        print_json({"ok": ok(found), "findings": to_dicts(found)})
    else:
        print_line("\n".join(f"{one.state:>4}  {one.what}: {one.detail}" for one in found))
    return 0 if ok(found) else 3
