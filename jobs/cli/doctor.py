"""`vlmsweep doctor`: what this machine or a cluster can run."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.config_file import ConfigFile
from jobs.flags import Json, ModelsFiles, RayAddress, Verbose
from jobs.options import names
from jobs.output import prepare, print_json, print_line, results_only_on_stdout


def doctor(
    models: Annotated[str | None, typer.Option("--models", help="Only these; exit code 3 if one cannot run.")] = None,
    models_file: ModelsFiles = None,
    data: Annotated[str | None, typer.Option("--data", help="A location that must be reachable and writable.")] = None,
    out: Annotated[str | None, typer.Option("--out", help="Another such location.")] = None,
    address: RayAddress = None,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Report what this machine or cluster can run; exit code 3 if something requested cannot."""
    from jobs.doctor import ok, run_checks, to_dicts
    from models.catalog_loader import load_models, select_models
    from models.environment import ray_address

    prepare(verbose=verbose)
    known_names = load_models(models_file or [])
    chosen = select_models(names(models), known_names) if models else known_names
    locations = [location for location in (data, out) if location]
    with results_only_on_stdout():
        results = run_checks(chosen, named=bool(models), locations=locations, address=address or ray_address())
    if json:
        print_json({"ok": ok(results), "findings": to_dicts(results)})
    else:
        print_line("\n".join(f"{result.state:>4}  {result.what}: {result.detail}" for result in results))
    return 0 if ok(results) else 3
