"""Register the commands of the command line."""

from __future__ import annotations

import typer

from jobs.cli.annotate import annotate
from jobs.cli.audit import audit
from jobs.cli.compare import compare
from jobs.cli.demo import demo
from jobs.cli.doctor import doctor
from jobs.cli.export import export
from jobs.cli.generate import generate
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


def register(app: typer.Typer) -> None:
    """Add all commands to the app."""
    app.command("list")(list_)
    app.command()(ingest)
    app.command()(run)
    app.command("predict")(predict)
    app.command()(score)
    app.command("report")(report)
    app.command()(status)
    app.command()(compare)
    app.command()(annotate)
    app.command()(leaderboard)
    app.command()(audit)
    app.add_typer(export, name="export")
    app.command()(submit)
    app.command()(nightly)
    app.command()(generate)
    app.command()(finetune)
    app.command()(doctor)
    app.command()(serve)
    app.command()(view)
    app.command()(demo)
