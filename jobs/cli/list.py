"""`vlmsweep list`: benchmarks, models or settings that can be run."""

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Json, ModelsFiles, refuse
from jobs.shared.output import print_json, print_line, print_result, table, terminal_width
from models.errors import suggest
from pipelines.errors import UsageError
from pipelines.flags import Argument, Flag

_LISTS = ("benchmarks", "models", "settings")
_WIDTH = 100  # columns that a list fits if the terminal has as many, or none is there


@listed("Set up", "list models")
def list_(
    what: Annotated[str, Argument("benchmarks, models or settings")],
    models_file: ModelsFiles = None,
    check: Annotated[bool, Flag("For models: report revisions that are behind the hub's main or deleted.")] = False,
    wide: Annotated[bool, Flag("Of models: all columns, and reasons on one line each.")] = False,
    json: Json = False,
) -> None:
    """List what can be run."""
    if what not in _LISTS:
        raise UsageError(f"unknown list {what!r}{suggest(what, _LISTS)}")
    if what != "models":
        refuse({"check": check}, f"only models have revisions; give `vlmsweep list models --check`, not {what}")
        refuse({"wide": wide}, f"only the list of models has further columns, not {what}")
    if check:
        _check_revisions(models_file or [], as_json=json)
        return
    headers, rows = _model_list(models_file or []) if what == "models" else _benchmark_list(what)
    if json:
        print_json([dict(zip(headers, row, strict=True)) for row in rows])
        return
    if what != "models":
        print_line(table(headers, rows))
        return
    _print_models(headers, rows, wide=wide)


def _print_models(headers: Sequence[str], rows: Sequence[Sequence[str]], *, wide: bool) -> None:
    from jobs.dry_run.helper_models import DEFAULT_MODEL_HEADS, MAIN_MODEL_HEADS
    from jobs.shared.model_checks import by_reason

    count = len(headers) - 1 if wide else DEFAULT_MODEL_HEADS
    print_line(table(headers[:count], [row[:count] for row in rows], main=MAIN_MODEL_HEADS))
    # Reasons are sentences, too long for a column, and many models share one.
    if reasons := {row[0]: row[-1] for row in rows if row[-1]}:
        print_line("why not:")
        for line in by_reason(reasons).splitlines()[1:]:
            print_line(line if wide else _wrapped(line))
    if not wide:
        print_line(_wrapped(f"--wide shows {', '.join(headers[count:-1])} too."))


def _wrapped(line: str) -> str:
    width = min(terminal_width(sys.stdout) or _WIDTH, _WIDTH)
    return textwrap.fill(line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _benchmark_list(what: str) -> tuple[tuple[str, ...], list[list[str]]]:
    from pipelines.benchmarks import benchmark, benchmark_names

    benchmarks = [benchmark(name) for name in benchmark_names()]
    if what == "benchmarks":
        return ("benchmark", "title", "tasks", "headline", "source"), [
            [entry.name, entry.title, ", ".join((*entry.tasks, *entry.derived_tasks)), entry.headline, entry.citation]
            for entry in benchmarks
        ]
    return ("benchmark", "task", "settings"), [
        [entry.name, task, ", ".join(settings)] for entry in benchmarks for task, settings in entry.tasks.items()
    ]


def _model_list(models_files: Sequence[Path]) -> tuple[tuple[str, ...], list[list[str]]]:
    from jobs.dry_run.helper_models import MODEL_HEADS, model_rows
    from models.catalog_loader import load_models

    return MODEL_HEADS, model_rows(dict(sorted(load_models(list(models_files)).items())))


def _check_revisions(models_files: Sequence[Path], *, as_json: bool) -> None:
    from jobs.revision_check import BEHIND, CHECK_HEADS, check_revisions
    from models.catalog_loader import load_models

    rows = check_revisions(load_models(list(models_files)))
    behind = sum(row[-1] == BEHIND for row in rows)
    counts = f"{len(rows)} checkpoints and adapters of the hub, {behind} behind its main."
    counts += " Endpoints, folders and s3:// have no commit."
    result = [dict(zip(CHECK_HEADS, row, strict=True)) for row in rows]
    print_result(as_json, result, table(CHECK_HEADS, rows), counts)
