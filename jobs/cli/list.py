"""TODO doc."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli import options as o
from jobs.cli.config_file import ConfigFile
from jobs.dry_run.gpu_memory import MODEL_HEADS, model_rows
from jobs.output import prepare, print_json, print_line, table
from pipelines.benchmarks import benchmark, benchmark_names, closest


def list_(
    what: Annotated[str, typer.Argument(help="benchmarks, models or settings")],
    models_file: o.ModelsFile = None,
    config: ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """List what can be run."""
    from jobs.cli.list import listing

    prepare(verbose=verbose, config=config)
    heads, rows = listing(what, models_file or [])
    if json:
        print_json([dict(zip(heads, row, strict=True)) for row in rows])
        return
    # Reasons are sentences, too long for a column.
    reasons = heads[-1] == "why not"
    print_line(table(heads[:-1], [row[:-1] for row in rows]) if reasons else table(heads, rows))
    for row in rows if reasons else []:
        if row[-1]:
            print_line(f"{row[0]}: {row[-1]}")


def listing(what: str, models_files: Sequence[Path]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Heads and rows of `vlmsweep list`."""
    if what == "benchmarks":
        chosen = [benchmark(name) for name in benchmark_names()]
        rows = [
            [one.name, one.title, ", ".join((*one.tasks, *one.derived_tasks)), one.headline, one.source]
            for one in chosen
        ]
        return ("benchmark", "title", "tasks", "headline", "source"), rows
    if what == "settings":
        cells = [
            [name, task, ", ".join(settings)]
            for name in benchmark_names()
            for task, settings in benchmark(name).tasks.items()
        ]
        return ("benchmark", "task", "settings"), cells
    if what == "models":
        from models.catalog_loader import load_models

        return MODEL_HEADS, model_rows(dict(sorted(load_models(list(models_files)).items())))
    raise closest("list", what, ["benchmarks", "models", "settings"])
