"""Register the commands of the command line."""

from __future__ import annotations

from collections.abc import Callable

import typer

from jobs.cli.annotate import annotate
from jobs.cli.audit import audit
from jobs.cli.compare import compare
from jobs.cli.demo import demo
from jobs.cli.doctor import doctor
from jobs.cli.export import export
from jobs.cli.generate import generate
from jobs.cli.grouped_help import GroupedCommand
from jobs.cli.ingest import ingest
from jobs.cli.leaderboard import leaderboard
from jobs.cli.list import list_
from jobs.cli.nightly import nightly
from jobs.cli.run import predict, report, run, score
from jobs.cli.serve import serve
from jobs.cli.status import status
from jobs.cli.submit import submit
from jobs.cli.view import view
from jobs.finetune.command import finetune

_SWEEP = "--models qwen2.5-vl-3b --benchmarks maia --data data --out out"
_COMMANDS: tuple[tuple[Callable[..., int | None], str], ...] = (  # each with an example
    (list_, "list models"),
    (ingest, "ingest maia MAIA_FOLDER --data data"),
    (run, f"run {_SWEEP} --limit 100"),
    (predict, f"predict {_SWEEP}"),
    (score, f"score {_SWEEP} --judge qwen2.5-7b"),
    (report, f"report {_SWEEP}"),
    (status, "status out"),
    (compare, "compare out other-out"),
    (annotate, "annotate out --benchmark maia --n 50 --people 3 --to forms"),
    (leaderboard, "leaderboard out --to leaderboard"),
    (audit, "audit mate"),
    (submit, f"submit {_SWEEP} --address http://127.0.0.1:8265"),
    (nightly, "nightly --models open --data data --out out --budget-usd 50"),
    (generate, "generate mate --examples 100 --out mate"),
    (finetune, "finetune vflute --variant vf --data data --out tuned"),
    (doctor, "doctor --models qwen2.5-vl-3b"),
    (serve, "serve qwen2.5-vl-3b --no-key"),
    (view, "view out"),
    (demo, "demo --out demo-out"),
)


def _example(arguments: str) -> str:
    return f"\b\nExample:\n  vlmsweep {arguments}"  # the first character keeps the lines as they are


def register(app: typer.Typer) -> None:
    """Add all commands to the app."""
    for form in export.registered_commands:
        form.cls, form.epilog = GroupedCommand, _example(f"export {form.name} out exported")
    app.add_typer(export, name="export")
    for command, example in _COMMANDS:
        name = example.partition(" ")[0]
        app.command(name, cls=GroupedCommand, epilog=_example(example))(command)
